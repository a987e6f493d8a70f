//! Moves bytes from one namespace to another and says how fast.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use crate::namespace::Namespace;
use crate::table::middle;

const DURATION: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(5);
/// The payload of a small packet.
const SMALL: [u8; 18] = [0; 18];

/// Two ends, and the far one's address as the near one knows it.
pub(crate) struct Ends<'a> {
    pub(crate) near: &'a Namespace,
    pub(crate) far: &'a Namespace,
    pub(crate) far_address: Ipv4Addr,
}

impl Ends<'_> {
    /// One TCP connection, as much as it takes: bits a second.
    pub(crate) fn bulk(&self) -> anyhow::Result<f64> {
        let address = self.far_address;
        let (bound, port) = mpsc::channel();
        let sink = self.far.thread(move || {
            let listener = TcpListener::bind((address, 0))?;
            bound.send(listener.local_addr()?)?;
            let (mut stream, _) = listener.accept()?;
            let (mut buffer, mut count) = (vec![0; 256 * 1024], 0);
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(count),
                    more => count += more,
                }
            }
        })?;
        let to: SocketAddr = port.recv_timeout(PATIENCE).context("the far end does not listen")?;
        let source = self.near.thread(move || {
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let (buffer, start) = (vec![0; 256 * 1024], Instant::now());
            while start.elapsed() < DURATION {
                stream.write_all(&buffer)?;
            }
            stream.shutdown(Shutdown::Write)?;
            // The far end closes when it has read all.
            stream.read_to_end(&mut Vec::new())?;
            Ok(start.elapsed())
        })?;
        let elapsed = joined(source)?;
        Ok(joined(sink)? as f64 * 8.0 / elapsed.as_secs_f64())
    }

    /// Small UDP packets of one flow, as many as the sender can: packets a second that reached a link of the far end.
    pub(crate) fn small(&self, link: &str) -> anyhow::Result<f64> {
        let address = self.far_address;
        let (bound, port) = mpsc::channel();
        let (over, end) = mpsc::channel::<()>();
        // Somebody listens, so that nothing is sent back; nobody reads, which costs the same for all.
        let sink = self.far.thread(move || {
            let socket = UdpSocket::bind((address, 0))?;
            bound.send(socket.local_addr()?)?;
            let _ = end.recv();
            Ok(())
        })?;
        let to = port.recv_timeout(PATIENCE).context("the far end does not listen")?;
        let before = self.received(link)?;
        let source = self.near.thread(move || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(to)?;
            let start = Instant::now();
            while start.elapsed() < DURATION {
                for _ in 0..100 {
                    // A full queue is no reason to stop.
                    let _ = socket.send(&SMALL);
                }
            }
            Ok(start.elapsed())
        })?;
        let elapsed = joined(source)?;
        let arrived = self.received(link)? - before;
        drop(over);
        joined(sink)?;
        Ok(arrived as f64 / elapsed.as_secs_f64())
    }

    fn received(&self, link: &str) -> anyhow::Result<u64> {
        let text = self.far.sh("cat /proc/net/dev")?;
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(&format!("{link}:")).map(str::to_owned));
        let line = line.with_context(|| format!("no link {link} at the far end"))?;
        Ok(line.split_whitespace().nth(1).context("no count of packets")?.parse()?)
    }

    /// A question and its answer by flows of their own, from these ports: half of them take no longer than this.
    pub(crate) fn new_flows(&self, ports: std::ops::Range<u16>) -> anyhow::Result<Duration> {
        let address = self.far_address;
        let (bound, port) = mpsc::channel();
        let count = ports.len();
        let echo = self.far.thread(move || {
            let socket = UdpSocket::bind((address, 0))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            bound.send(socket.local_addr()?)?;
            let mut buffer = [0; 64];
            for _ in 0..count {
                let (length, from) = socket.recv_from(&mut buffer)?;
                socket.send_to(&buffer[..length], from)?;
            }
            Ok(())
        })?;
        let to = port.recv_timeout(PATIENCE).context("the far end does not listen")?;
        let asker = self.near.thread(move || {
            let mut times = Vec::new();
            for port in ports {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.connect(to)?;
                let start = Instant::now();
                socket.send(&SMALL)?;
                socket.recv(&mut [0; 64])?;
                times.push(start.elapsed());
            }
            Ok(middle(&times))
        })?;
        let time = joined(asker)?;
        joined(echo)?;
        Ok(time)
    }

    /// Waits until a connection can be made at all.
    pub(crate) fn meet(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            match self.new_flows(9_000..9_001) {
                Err(error) if start.elapsed() > PATIENCE * 4 => {
                    return Err(error.context("no packet crosses"));
                }
                Err(_) => {}
                Ok(_) => return Ok(()),
            }
        }
    }
}

fn joined<T>(thread: JoinHandle<anyhow::Result<T>>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}
