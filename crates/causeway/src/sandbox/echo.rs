//! The server workload: the echo service (UDP and TCP, port 7) on its global address.
//!
//! It listens on that address alone, because an answer to UDP must come from the address that
//! was asked. Whom it answered is kept, so that a proof can say which source the far end saw.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::netns::{Namespace, NamespaceError};

/// The echo service's port, as of old.
pub(super) const PORT: u16 = 7;

type Seen = Arc<Mutex<BTreeMap<Ipv4Addr, u64>>>;

/// A running echo service; it ends when dropped.
#[derive(Debug)]
pub(super) struct Echo {
    seen: Seen,
    _tasks: JoinSet<()>,
}

impl Echo {
    /// Starts the service on `address`, inside the namespace.
    pub(super) async fn start(
        namespace: &Namespace,
        address: impl Into<IpAddr>,
    ) -> Result<Echo, NamespaceError> {
        let address = address.into();
        let sockets = namespace.run(move || open(address)).await?;
        let (udp, tcp) = sockets.map_err(|source| NamespaceError::Spawn {
            name: address.to_string(),
            command: "the echo service".into(),
            source,
        })?;
        let seen = Seen::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(datagrams(udp, seen.clone()));
        tasks.spawn(streams(tcp, seen.clone()));
        Ok(Echo { seen, _tasks: tasks })
    }

    /// Every IPv4 source that was answered so far, and how often.
    pub(super) fn seen(&self) -> BTreeMap<Ipv4Addr, u64> {
        self.seen.lock().map(|seen| seen.clone()).unwrap_or_default()
    }
}

/// Opens both sockets. Runs on the namespace's thread, which has entered the runtime.
fn open(address: IpAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let udp = std::net::UdpSocket::bind((address, PORT))?;
    udp.set_nonblocking(true)?;
    let tcp = std::net::TcpListener::bind((address, PORT))?;
    tcp.set_nonblocking(true)?;
    Ok((UdpSocket::from_std(udp)?, TcpListener::from_std(tcp)?))
}

fn note(seen: &Seen, from: SocketAddr) {
    if let (SocketAddr::V4(from), Ok(mut seen)) = (from, seen.lock()) {
        *seen.entry(*from.ip()).or_default() += 1;
    }
}

async fn datagrams(socket: UdpSocket, seen: Seen) {
    let mut buffer = vec![0; 65_536];
    loop {
        // An error here is an ICMP message about an earlier answer: nothing to do about it.
        if let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            note(&seen, from);
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    }
}

async fn streams(listener: TcpListener, seen: Seen) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, from)) = accepted {
                note(&seen, from);
                open.spawn(echo(stream));
            },
            Some(_) = open.join_next() => {}
        }
    }
}

async fn echo(mut stream: TcpStream) {
    let (mut from, mut to) = stream.split();
    // The caller sees a broken connection; there is nobody to report it to.
    if tokio::io::copy(&mut from, &mut to).await.is_ok() {
        let _ = to.shutdown().await;
    }
}
