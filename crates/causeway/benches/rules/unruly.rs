//! The role of a client that is no good neighbour.
//!
//! It says a line once it is what it is; each line on standard input is answered by how often it was that.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::BytesMut;
use causeway_core::rules::wire::transport::v1::SubscribeResponse;
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

use crate::clients::say;
use crate::framing::Framing;
use crate::http2::{self, Http2};
use crate::sample;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vice {
    /// It asks, and never reads a byte.
    ReadsNothing,
    /// It leaves in the middle of the first message, and comes back.
    Leaves,
    /// It answers everything with a NACK that has no status.
    Refuses,
}

impl Vice {
    pub(crate) const ALL: [Vice; 3] = [Vice::ReadsNothing, Vice::Leaves, Vice::Refuses];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Vice::ReadsNothing => "reads-nothing",
            Vice::Leaves => "leaves",
            Vice::Refuses => "refuses",
        }
    }
}

impl FromStr for Vice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Vice> {
        let named = Vice::ALL.into_iter().find(|vice| vice.name() == text);
        named.with_context(|| format!("no such vice: {text}"))
    }
}

/// The kernel makes that its least, some two kilobytes.
const SMALLEST_BUFFER: u32 = 1;
/// How soon whoever reads nothing learns that it was disconnected.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Half of a set of 60 rules.
const MIDDLE: usize = 30 * 1024;
/// Until it is back.
const AWAY: Duration = Duration::from_millis(100);

/// Such a client.
pub(crate) struct Unruly {
    pub(crate) vice: Vice,
    pub(crate) address: SocketAddr,
}

impl Unruly {
    /// Runs until nobody asks any more.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let times = Times::default();
        let life = async {
            loop {
                match self.vice {
                    Vice::ReadsNothing => self.read_nothing(&times).await?,
                    Vice::Leaves => self.leave(&times).await?,
                    Vice::Refuses => self.refuse(&times).await?,
                }
            }
        };
        tokio::select! {
            ended = life => ended,
            answered = times.answer() => answered,
        }
    }

    /// What it says first.
    fn hello(&self, framing: &mut Http2) -> Vec<u8> {
        let mut output = Vec::new();
        framing.hello(&mut output);
        framing.put(&sample::subscribe(&sample::app(0), self.vice.name()).encode_to_vec(), &mut output);
        output
    }

    /// Until it is disconnected.
    async fn read_nothing(&self, times: &Times) -> anyhow::Result<()> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(SMALLEST_BUFFER)?;
        let mut socket = socket.connect(self.address).await?;
        socket.write_all(&self.hello(&mut Http2::default())).await?;
        times.count()?;
        // The end of a connection lies behind all that was not read: only whoever writes hears of it.
        while socket.write_all(&http2::nothing()).await.is_ok() {
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn leave(&self, times: &Times) -> anyhow::Result<()> {
        let mut socket = TcpStream::connect(self.address).await?;
        socket.write_all(&self.hello(&mut Http2::default())).await?;
        let mut half = vec![0; MIDDLE];
        socket.read_exact(&mut half).await?;
        drop(socket);
        times.count()?;
        sleep(AWAY).await;
        Ok(())
    }

    async fn refuse(&self, times: &Times) -> anyhow::Result<()> {
        let (mut framing, mut input) = (Http2::default(), BytesMut::new());
        let mut socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let mut output = self.hello(&mut framing);
        loop {
            socket.write_all(&output).await?;
            output.clear();
            input.reserve(4096);
            ensure!(socket.read_buf(&mut input).await? > 0, "the server closed the connection");
            while let Some(message) = framing.take(&mut input, &mut output)? {
                let answer = sample::nack(SubscribeResponse::decode(message)?);
                framing.put(&answer.encode_to_vec(), &mut output);
                times.count()?;
            }
        }
    }
}

/// How often it happened.
#[derive(Default)]
struct Times(AtomicU64);

impl Times {
    /// Once more; the first is told.
    fn count(&self) -> anyhow::Result<()> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 { say("it happened") } else { Ok(()) }
    }

    async fn answer(&self) -> anyhow::Result<()> {
        let mut questions = BufReader::new(tokio::io::stdin()).lines();
        while questions.next_line().await?.is_some() {
            say(&self.0.load(Ordering::Relaxed).to_string())?;
        }
        Ok(())
    }
}
