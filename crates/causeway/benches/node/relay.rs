//! The way from a namespace to the API server, on the same address and port in there, so that its certificate fits. It
//! notes when how much came from the server: what is in it only the two ends can read.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::anyhow;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::namespace::Namespace;

/// Whatever came before the list is less, and so is what comes after it.
const SMALL: u64 = 64 * 1024;

/// What came from the server so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    connected: Option<Instant>,
    /// So much had come by then.
    marks: Vec<(Instant, u64)>,
}

impl Trace {
    /// When the first connection was made.
    pub(crate) fn connected(&self) -> Option<Instant> {
        self.connected
    }

    /// When the list began, and when it ended: it is by far the most that comes.
    pub(crate) fn list(&self) -> Option<(Instant, Instant)> {
        let passed = |bytes: u64| self.marks.iter().find(|(_, sum)| *sum > bytes).map(|(at, _)| *at);
        Some((passed(SMALL / 4)?, passed(self.bytes().saturating_sub(SMALL))?))
    }

    /// How much it was.
    pub(crate) fn bytes(&self) -> u64 {
        self.marks.last().map_or(0, |(_, sum)| *sum)
    }
}

/// A running relay; it ends with this value.
pub(crate) struct Relay {
    trace: Arc<Mutex<Trace>>,
    _running: AbortOnDropHandle<()>,
}

impl Relay {
    pub(crate) fn start(namespace: &Namespace, server: SocketAddr) -> anyhow::Result<Relay> {
        let inside = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        let listener = namespace.thread(move || Ok(std::net::TcpListener::bind(inside)?))?.join();
        let listener = listener.map_err(|_| anyhow!("a thread panicked"))??;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let trace = Arc::new(Mutex::new(Trace::default()));
        let running = tokio::spawn(accept(listener, server, trace.clone()));
        Ok(Relay { trace, _running: AbortOnDropHandle::new(running) })
    }

    pub(crate) fn trace(&self) -> Trace {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, trace: Arc<Mutex<Trace>>) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let now = Instant::now();
        trace.lock().unwrap_or_else(PoisonError::into_inner).connected.get_or_insert(now);
        let trace = trace.clone();
        connections.spawn(async move {
            let Ok(far) = TcpStream::connect(server).await else { return };
            // As without a relay: small writes wait for nothing.
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            let up = pass(near_in, far_out, |_| {});
            let down = pass(far_in, near_out, |bytes| {
                let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
                let sum = trace.bytes() + bytes as u64;
                trace.marks.push((Instant::now(), sum));
            });
            let _ = tokio::join!(up, down);
        });
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut note: impl FnMut(usize),
) -> std::io::Result<()> {
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            bytes => {
                note(bytes);
                to.write_all(&buffer[..bytes]).await?;
            }
        }
    }
}
