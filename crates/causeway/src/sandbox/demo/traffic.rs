//! A steady stream of numbered questions from a client to a far server: what was sent when, and what came back when.
//!
//! It is one flow from one port, as a connection that lives on is: whatever a gateway remembers of flows decides for it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::super::echo::PORT;
use super::super::netns::Namespace;

/// Questions a second.
pub(super) const RATE: u32 = 500;
/// How long the last questions are waited for; an answer takes less than a millisecond.
const GRACE: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(1);

/// One question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) sent: Instant,
    pub(super) answered: Option<Instant>,
}

type Packets = Arc<Mutex<Vec<Packet>>>;

/// A stream that flows until it is ended.
pub(super) struct Traffic {
    packets: Packets,
    sender: JoinSet<()>,
    _receiver: JoinSet<()>,
}

impl Traffic {
    /// Starts it in a client's namespace.
    pub(super) async fn start(namespace: &Namespace, target: Ipv4Addr) -> anyhow::Result<Traffic> {
        let socket = namespace.run(open).await?.context("cannot open a socket in the client")?;
        let (socket, target) = (Arc::new(socket), SocketAddr::from((target, PORT)));
        let packets = Packets::default();
        let (mut sender, mut receiver) = (JoinSet::new(), JoinSet::new());
        sender.spawn(send(socket.clone(), target, packets.clone()));
        receiver.spawn(receive(socket, target, packets.clone()));
        Ok(Traffic { packets, sender, _receiver: receiver })
    }

    /// Waits for an answer to a question that was sent after a moment, and says when it came.
    pub(super) async fn answer_since(&self, moment: Instant) -> Instant {
        loop {
            let answer = {
                let packets = lock(&self.packets);
                let later = packets.partition_point(|packet| packet.sent < moment);
                packets[later..].iter().filter_map(|packet| packet.answered).min()
            };
            if let Some(came) = answer {
                return came;
            }
            sleep(POLL).await;
        }
    }

    /// Ends it; gives every question in the order in which they were sent.
    pub(super) async fn end(mut self) -> Vec<Packet> {
        self.sender.shutdown().await;
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && lock(&self.packets).iter().any(|it| it.answered.is_none()) {
            sleep(POLL).await;
        }
        std::mem::take(&mut *lock(&self.packets))
    }
}

fn lock(packets: &Packets) -> MutexGuard<'_, Vec<Packet>> {
    packets.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open() -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

async fn send(socket: Arc<UdpSocket>, target: SocketAddr, packets: Packets) {
    // One that comes late is followed by the next at once, so the rate is what it is said to be.
    let mut pace = interval(Duration::from_secs(1) / RATE);
    loop {
        pace.tick().await;
        let number = {
            let mut packets = lock(&packets);
            packets.push(Packet { sent: Instant::now(), answered: None });
            packets.len() - 1
        };
        // One that cannot even leave is lost like any other: its answer will be missing.
        let _ = socket.send_to(number.to_string().as_bytes(), target).await;
    }
}

async fn receive(socket: Arc<UdpSocket>, target: SocketAddr, packets: Packets) {
    let mut buffer = [0; 64];
    loop {
        // An error is an ICMP message about a question that was lost.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let number = std::str::from_utf8(&buffer[..length]).ok().and_then(|text| text.parse::<usize>().ok());
        let Some(number) = number.filter(|_| from == target) else { continue };
        if let Some(packet) = lock(&packets).get_mut(number) {
            packet.answered.get_or_insert_with(Instant::now);
        }
    }
}
