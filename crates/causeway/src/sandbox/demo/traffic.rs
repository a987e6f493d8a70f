//! A steady stream of numbered questions from a client to a far server: what was sent when, and what came back when.
//!
//! It is one flow from one port, as a connection that lives on is: whatever a gateway remembers of flows decides for it. Threads
//! of its own send and receive, so that no other work of this process is in their way.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::time::sleep;

use super::super::echo::PORT;
use super::super::netns::Namespace;

/// Questions a second.
pub(super) const RATE: u32 = 500;
/// How long the last questions are waited for; an answer takes less than a millisecond.
const GRACE: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(1);
/// How long the receiver waits before it looks whether it should end.
const LISTEN: Duration = Duration::from_millis(20);

/// One question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) sent: Instant,
    pub(super) answered: Option<Instant>,
}

/// What both threads share.
#[derive(Default)]
struct Flow {
    packets: Mutex<Vec<Packet>>,
    /// No more are sent.
    ended: AtomicBool,
    /// Nobody waits for answers any more.
    over: AtomicBool,
}

impl Flow {
    fn packets(&self) -> MutexGuard<'_, Vec<Packet>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that flows until it is ended or dropped.
pub(super) struct Traffic {
    flow: Arc<Flow>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts it in a client's namespace.
    pub(super) async fn start(namespace: &Namespace, target: Ipv4Addr) -> anyhow::Result<Traffic> {
        let what = "cannot open a socket in the client";
        let [one, other] = namespace.run(open).await?.context(what)?;
        let (target, flow) = (SocketAddr::from((target, PORT)), Arc::<Flow>::default());
        let mut traffic = Traffic { flow: flow.clone(), threads: Vec::new() };
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        let (sending, receiving) = (flow.clone(), flow);
        traffic.threads.push(thread("sends").spawn(move || send(&one, target, &sending))?);
        traffic.threads.push(thread("receives").spawn(move || receive(&other, target, &receiving))?);
        Ok(traffic)
    }

    /// Waits for an answer to a question that was sent after a moment, and says when it came.
    pub(super) async fn answer_since(&self, moment: Instant) -> Instant {
        loop {
            let answer = {
                let packets = self.flow.packets();
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
    pub(super) async fn end(self) -> Vec<Packet> {
        self.flow.ended.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline && self.flow.packets().iter().any(|it| it.answered.is_none()) {
            sleep(POLL).await;
        }
        std::mem::take(&mut *self.flow.packets())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.flow.ended.store(true, Ordering::Relaxed);
        self.flow.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

fn open() -> io::Result<[UdpSocket; 2]> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(LISTEN))?;
    Ok([socket.try_clone()?, socket])
}

fn send(socket: &UdpSocket, target: SocketAddr, flow: &Flow) {
    let mut next = Instant::now();
    while !flow.ended.load(Ordering::Relaxed) {
        let number = {
            let mut packets = flow.packets();
            packets.push(Packet { sent: Instant::now(), answered: None });
            packets.len() - 1
        };
        // One that cannot even leave is lost like any other: its answer will be missing.
        let _ = socket.send_to(number.to_string().as_bytes(), target);
        // One that comes late is followed by the next at once, so the rate is what it is said to be.
        next += Duration::from_secs(1) / RATE;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn receive(socket: &UdpSocket, target: SocketAddr, flow: &Flow) {
    let mut buffer = [0; 64];
    while !flow.over.load(Ordering::Relaxed) {
        // An error is an ICMP message about a question that was lost, or nothing came for a while.
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let number = std::str::from_utf8(&buffer[..length]).ok().and_then(|text| text.parse::<usize>().ok());
        let Some(number) = number.filter(|_| from == target) else { continue };
        if let Some(packet) = flow.packets().get_mut(number) {
            packet.answered.get_or_insert_with(Instant::now);
        }
    }
}
