//! Proof by packets: from a client to a server's global address, by sockets of our own made
//! inside the client's namespace.
//!
//! First one datagram after another until one comes back: that moment is the first packet. Then a
//! run of echoes and a TCP transfer there and back, compared byte for byte.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::{Instant, timeout};

use super::echo::PORT;
use super::netns::Namespace;

/// Echoes sent after the first one came back.
const ECHOES: u32 = 20;
/// Bytes sent there and back over TCP.
const TRANSFER: usize = 8 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// How long to wait for one echo before the next try.
const PATIENCE: Duration = Duration::from_millis(25);

/// What the packets said.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Proof {
    /// Global address that was asked.
    pub(super) target: Ipv4Addr,
    /// Echoes sent, the first one that came back included.
    pub(super) sent: u32,
    /// Echoes that came back.
    pub(super) received: u32,
    /// Bytes that went there and came back over TCP.
    pub(super) bytes: usize,
    /// How long the transfer took.
    pub(super) seconds: f64,
    /// Sources the far end saw.
    pub(super) source_seen: Vec<Ipv4Addr>,
    /// Where they should lie.
    pub(super) egress: Vec<Ipv4Addr>,
}

impl Proof {
    /// Everything came back, and nobody saw a private or a floating address.
    pub(super) fn holds(&self) -> bool {
        self.sent > 0
            && self.received == self.sent
            && self.bytes == TRANSFER
            && !self.source_seen.is_empty()
            && self.source_seen.iter().all(|ip| self.egress.contains(ip))
    }
}

/// The client's side of a conversation.
#[derive(Debug)]
pub(super) struct Caller<'a> {
    namespace: &'a Namespace,
    target: Ipv4Addr,
    socket: UdpSocket,
    number: u32,
}

impl<'a> Caller<'a> {
    /// A caller in a client's namespace.
    pub(super) async fn new(namespace: &'a Namespace, target: Ipv4Addr) -> anyhow::Result<Self> {
        let socket = namespace.run(open).await?.context("cannot open a socket in the client")?;
        Ok(Caller { namespace, target, socket, number: 0 })
    }

    /// Asks until the first answer. Pending for ever while nothing comes back: bound it outside.
    ///
    /// Each time from another port: a gateway remembers what it did to a flow's first packet, and
    /// one that came before the tunnel went out through net1, and so would all that follow it.
    pub(super) async fn first_answer(&mut self) -> anyhow::Result<()> {
        while !self.echo(PATIENCE).await {
            self.socket = self.namespace.run(open).await??;
        }
        Ok(())
    }

    /// Counts echoes and moves bytes. `seen` lists the sources that the far end saw up to now;
    /// only what this run adds to it is reported.
    pub(super) async fn prove(
        &mut self,
        egress: Vec<Ipv4Addr>,
        seen: impl Fn() -> BTreeMap<Ipv4Addr, u64>,
    ) -> anyhow::Result<Proof> {
        let before = seen();
        let mut received = 0;
        for _ in 0..ECHOES {
            received += u32::from(self.echo(Duration::from_secs(1)).await);
        }
        let start = Instant::now();
        let transfer = timeout(Duration::from_secs(20), self.transfer());
        let bytes = transfer.await.context("the TCP transfer did not end within 20 s")??;
        let seconds = start.elapsed().as_secs_f64();
        let grew = |(ip, count): &(Ipv4Addr, u64)| before.get(ip) != Some(count);
        let source_seen = seen().into_iter().filter(grew).map(|(ip, _)| ip).collect();
        let (target, sent) = (self.target, ECHOES);
        Ok(Proof { target, sent, received, bytes, seconds, source_seen, egress })
    }

    async fn echo(&mut self, patience: Duration) -> bool {
        self.number += 1;
        let question = format!("causeway {}", self.number);
        let target = SocketAddr::from((self.target, PORT));
        let asked = Instant::now();
        let answer = async {
            self.socket.send_to(question.as_bytes(), target).await?;
            let mut buffer = [0; 64];
            loop {
                let (length, from) = self.socket.recv_from(&mut buffer).await?;
                // A late answer to an earlier question does not count for this one.
                if from == target && buffer[..length] == *question.as_bytes() {
                    return io::Result::Ok(());
                }
            }
        };
        let came = matches!(timeout(patience, answer).await, Ok(Ok(())));
        if !came {
            // "No route" comes at once: keep the pace, do not spin.
            tokio::time::sleep_until(asked + patience).await;
        }
        came
    }

    async fn transfer(&self) -> anyhow::Result<usize> {
        let socket = self.namespace.run(TcpSocket::new_v4).await??;
        let stream = socket.connect((self.target, PORT).into()).await.context("TCP connect")?;
        let (mut from, mut to) = stream.into_split();
        let send = async {
            for chunk in 0..TRANSFER / CHUNK {
                to.write_all(&vec![pattern(chunk); CHUNK]).await?;
            }
            to.shutdown().await?;
            anyhow::Ok(())
        };
        let receive = async {
            let (mut total, mut buffer) = (0, vec![0; CHUNK]);
            loop {
                // Never across two chunks, so that one pattern fits all that was read.
                let length = from.read(&mut buffer[..CHUNK - total % CHUNK]).await?;
                if length == 0 {
                    return Ok(total);
                }
                let same = buffer[..length] == vec![pattern(total / CHUNK); length];
                ensure!(same, "byte {total} and on came back changed");
                total += length;
                if total > TRANSFER {
                    bail!("more came back than was sent");
                }
            }
        };
        tokio::try_join!(send, receive).map(|((), total)| total)
    }
}

fn pattern(chunk: usize) -> u8 {
    u8::try_from(chunk % 251).expect("a remainder of 251 fits a byte")
}

fn open() -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
