//! The role of clients: many in one thread, each with a connection of its own, each answering all that it gets.
//!
//! Lines on standard output: `all INSTANT` when every client has what was edited then (first: zero). Lines on standard
//! input are questions: `latencies` (in microseconds, of all since that
//! was last asked), `messages` (how many), `states` (a number for each client, which tells what it has).

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use causeway_core::rules::wire::transport::v1::SubscribeResponse;
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::framing::{Framing, Lengths, Wire};
use crate::http2::Http2;
use crate::{clock, sample};

/// Connections that are opened at once.
const OPENING: usize = 64;

/// What this process is to do.
pub(crate) struct Clients {
    pub(crate) wire: Wire,
    pub(crate) address: SocketAddr,
    pub(crate) numbers: Range<usize>,
    /// They ask for the rules of so many apps, by turns.
    pub(crate) apps: usize,
}

/// What all clients of this process got.
#[derive(Default)]
struct Ledger {
    clients: usize,
    messages: u64,
    latencies: Vec<u64>,
    /// The sum of the instants that each client's rules carry.
    states: BTreeMap<usize, u64>,
    /// The newest instant, and how many have it.
    newest: (u64, usize),
}

type Shared = Arc<Mutex<Ledger>>;

impl Clients {
    /// Runs until the first client fails, or nobody asks any more.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let ledger = Shared::new(Mutex::new(Ledger { clients: self.numbers.len(), ..Ledger::default() }));
        let (mut clients, opening) = (JoinSet::new(), Arc::new(Semaphore::new(OPENING)));
        for number in self.numbers.clone() {
            let request = sample::subscribe(&sample::app(number % self.apps), &format!("client-{number:05}"))
                .encode_to_vec();
            let client = Client {
                number,
                address: self.address,
                request,
                ledger: ledger.clone(),
                opening: opening.clone(),
            };
            match self.wire {
                Wire::Grpc => clients.spawn(client.run(Http2::default())),
                Wire::Plain => clients.spawn(client.run(Lengths)),
            };
        }
        tokio::select! {
            ended = clients.join_next() => {
                ended.context("there are no clients")??.context("a client")
            }
            answered = answer(&ledger) => answered,
        }
    }
}

async fn answer(ledger: &Shared) -> anyhow::Result<()> {
    let mut questions = BufReader::new(tokio::io::stdin()).lines();
    while let Some(question) = questions.next_line().await? {
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match question.as_str() {
            "latencies" => {
                say_all(&std::mem::take(&mut ledger.latencies))?;
            }
            "states" => say_all(ledger.states.values())?,
            "messages" => say(&ledger.messages.to_string())?,
            _ => anyhow::bail!("no such question: {question}"),
        }
    }
    Ok(())
}

fn say_all<'a>(numbers: impl IntoIterator<Item = &'a u64>) -> anyhow::Result<()> {
    let numbers: Vec<String> = numbers.into_iter().map(u64::to_string).collect();
    say(&numbers.join(" "))
}

/// A line on standard output.
pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

struct Client {
    number: usize,
    address: SocketAddr,
    request: Vec<u8>,
    ledger: Shared,
    opening: Arc<Semaphore>,
}

impl Client {
    async fn run(self, mut framing: impl Framing) -> anyhow::Result<()> {
        let (mut input, mut output) = (BytesMut::new(), Vec::new());
        let mut opening = Some(self.opening.acquire().await?);
        let mut socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        framing.hello(&mut output);
        framing.put(&self.request, &mut output);
        loop {
            if !output.is_empty() {
                socket.write_all(&output).await?;
                output.clear();
            }
            input.reserve(4096);
            ensure!(socket.read_buf(&mut input).await? > 0, "the server closed the connection");
            let now = clock::micros()?;
            while let Some(message) = framing.take(&mut input, &mut output)? {
                let answer = self.take(message, now)?;
                framing.put(&answer, &mut output);
                drop(opening.take());
            }
        }
    }

    /// Takes note of a message; the answer to it.
    fn take(&self, message: Bytes, now: u64) -> anyhow::Result<Vec<u8>> {
        let response = SubscribeResponse::decode(message)?;
        let instants = sample::instants(&response)?;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.states.insert(self.number, instants.iter().sum());
        ledger.record(*instants.first().context("no rule")?, now)?;
        drop(ledger);
        Ok(sample::ack(response).encode_to_vec())
    }
}

impl Ledger {
    fn record(&mut self, instant: u64, now: u64) -> anyhow::Result<()> {
        self.messages += 1;
        if instant > 0 {
            self.latencies.push(now.saturating_sub(instant));
        }
        if instant != self.newest.0 {
            self.newest = (instant, 0);
        }
        self.newest.1 += 1;
        if self.newest.1 == self.clients {
            say(&format!("all {instant}"))?;
        }
        Ok(())
    }
}
