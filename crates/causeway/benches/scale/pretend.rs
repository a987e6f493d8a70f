//! A thousand gateways without a thousand kernels: one is real, and the others repeat what it said, each with its
//! own addresses and its own tunnel.
//!
//! Only what runs in a gateway is pretended; the controller cannot tell, and every byte reaches it as it would.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use causeway_apiserver::{Exec, ExecEnd, ExecIo, ExecRequest};
use causeway_datapath::end_of;
use causeway_datapath::vpc::Digest;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout_at};

use crate::exec::{GatewayExec, Kind};
use crate::gateways::Gateways;
use crate::shape;

/// The real gateway, and its tunnel.
const REAL: (usize, usize) = (1, 0);

/// The gateways of a cluster in which gateway `n` has tunnel `n - 1`, all to the same peer.
pub(crate) struct Pretend {
    real: GatewayExec,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    said: Said,
    /// What the pretended gateways said last.
    held: BTreeMap<usize, String>,
    /// Those that have their tunnel.
    built: BTreeSet<usize>,
    beats: u64,
}

/// What the real one said.
#[derive(Clone, Default)]
struct Said {
    empty: Option<String>,
    built: Option<String>,
}

impl Pretend {
    /// Over one real gateway.
    pub(crate) fn new(real: Arc<Gateways>) -> Pretend {
        Pretend { real: GatewayExec::new(real), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the real gateway has said all that the others have to repeat.
    pub(crate) fn is_rehearsed(&self) -> bool {
        self.lock().said.built.is_some()
    }

    /// How often a gateway has said what it holds without being asked.
    pub(crate) fn beats(&self) -> u64 {
        self.lock().beats
    }

    async fn rehearse(&self, request: &ExecRequest, io: ExecIo) -> ExecEnd {
        let mut said = Vec::new();
        let kept = (Kind::of(request) != Kind::Monitor).then_some(&mut said);
        let end = self.real.run_and_keep(request, io, kept).await;
        if Kind::of(request) == Kind::Apply && end_of(&said) == Some(0) {
            let text = Some(String::from_utf8_lossy(&said).into_owned());
            let said = &mut self.lock().said;
            // The first thing that a gateway hears of is a plan without steps.
            *(if said.empty.is_none() { &mut said.empty } else { &mut said.built }) = text;
        }
        end
    }

    /// What a gateway says to a command.
    fn answer(&self, gateway: usize, kind: Kind) -> Option<String> {
        let mut state = self.lock();
        let before = state.held.get(&gateway);
        let (said, is_built) = match (kind, before) {
            (Kind::Look, Some(before)) => return Some(before.clone()),
            (_, None) => (state.said.empty.as_ref(), false),
            (_, Some(_)) => (state.said.built.as_ref(), true),
        };
        let said = as_another(said?, gateway);
        state.held.insert(gateway, said.clone());
        if is_built {
            state.built.insert(gateway);
        }
        Some(said)
    }

    async fn pretend(&self, gateway: usize, kind: Kind, io: ExecIo) -> std::io::Result<ExecEnd> {
        let ExecIo { stdin, mut stdout, stderr: _stderr, resize: _ } = io;
        let mut stdin = BufReader::new(stdin);
        let mut line = String::new();
        stdin.read_line(&mut line).await?;
        let mut input = Vec::new();
        if kind != Kind::Look {
            let length = line.split_whitespace().filter_map(|word| word.parse::<usize>().ok()).sum();
            input.resize(length, 0);
            stdin.read_exact(&mut input).await?;
        }
        if kind == Kind::Monitor {
            let given = Given::of(&input).ok_or_else(|| std::io::Error::other("how often?"))?;
            self.beat(gateway, given, stdin.lines(), &mut stdout).await?;
            return Ok(ExecEnd::Exited(0));
        }
        let missing = || std::io::Error::other("the real gateway has not said that yet");
        let answer = self.answer(gateway, kind).ok_or_else(missing)?;
        stdout.write_all(answer.as_bytes()).await?;
        stdout.flush().await?;
        // Its reader's word, or its end.
        stdin.read_line(&mut line).await?;
        Ok(ExecEnd::Exited(0))
    }

    /// Lists and asks as the script does, which has one tunnel here: what the gateway holds is said when it is another thing and
    /// every fourth time, and the peer is asked at once when a change was announced, and otherwise in turn.
    async fn beat(
        &self,
        gateway: usize,
        mut given: Given,
        mut lines: tokio::io::Lines<impl AsyncBufReadExt + Unpin>,
        stdout: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        stdout.write_all(b"causeway-alive\n").await?;
        stdout.flush().await?;
        let (mut said, mut silent) = (None, 0);
        let mut listing = Instant::now() + given.interval;
        let mut probing = Instant::now();
        loop {
            let line = match timeout_at(listing.min(probing), lines.next_line()).await {
                Ok(line) => match line? {
                    Some(line) => Some(line),
                    None => return Ok(()),
                },
                Err(_) => None,
            };
            let announced = line.as_deref().and_then(|line| line.strip_prefix('p'));
            if let Some(announced) = announced {
                given.change = announced.split(' ').next().unwrap_or_default().into();
            }
            if announced.is_some() || (line.is_none() && probing <= listing) {
                probing = Instant::now() + given.pace;
                let tunnel = shape::name(gateway - 1);
                let is_built = self.lock().built.contains(&gateway);
                let answer = if is_built { format!(" {tunnel}:800:+:0:0:") } else { String::new() };
                stdout.write_all(format!("causeway-probe {}{answer}\n", given.change).as_bytes()).await?;
                stdout.flush().await?;
                continue;
            }
            listing = Instant::now() + given.interval;
            let asked = line.unwrap_or_default();
            let held = self.lock().held.get(&gateway).and_then(|said| Digest::of(said.as_bytes()));
            silent += 1;
            if asked.is_empty() && held == said && silent < 4 {
                continue;
            }
            self.lock().beats += u64::from(asked.is_empty());
            (said, silent) = (held.clone(), 0);
            let held = held.as_ref().map_or("", Digest::as_str);
            stdout.write_all(format!("causeway-alive {held} {asked}\n").as_bytes()).await?;
            stdout.flush().await?;
        }
    }
}

/// What a monitor is told first.
struct Given {
    interval: Duration,
    change: String,
    pace: Duration,
}

impl Given {
    /// From the last line of its input, which is a script but for that.
    fn of(input: &[u8]) -> Option<Given> {
        let last = String::from_utf8_lossy(input.rsplit(|byte| *byte == b'\n').next()?).into_owned();
        let words: Vec<&str> = last.split(' ').collect();
        let [interval, change, pace] = words[..] else { return None };
        let interval = Duration::from_secs_f64(interval.parse().ok()?);
        Some(Given { interval, change: change.into(), pace: Duration::from_secs(pace.parse().ok()?) })
    }
}

#[async_trait]
impl Exec for Pretend {
    async fn admit(&self, _: &ExecRequest) -> Result<(), (u16, String, String)> {
        Ok(())
    }

    async fn run(&self, request: ExecRequest, io: ExecIo) -> ExecEnd {
        match shape::gateway_of(&request.pod) {
            None => ExecEnd::Failed(format!("there is no pod {}", request.pod)),
            Some(number) if number == REAL.0 => self.rehearse(&request, io).await,
            Some(number) => self
                .pretend(number, Kind::of(&request), io)
                .await
                .unwrap_or_else(|error| ExecEnd::Failed(error.to_string())),
        }
    }
}

/// What the real gateway said, as another would.
fn as_another(said: &str, gateway: usize) -> String {
    let ends = |gateway: usize, tunnel: usize| {
        let [a, b, c, d] = shape::external(gateway).octets();
        [
            shape::external(gateway).to_string(),
            shape::lan(gateway).to_string(),
            shape::inside(gateway, 1).to_string(),
            format!("02:43:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
            shape::vni(tunnel).to_string(),
            shape::name(tunnel),
        ]
    };
    let pairs = ends(REAL.0, REAL.1).into_iter().zip(ends(gateway, gateway - 1));
    pairs.fold(said.to_owned(), |text, (from, to)| replace_words(&text, &from, &to))
}

/// Replaces what stands for itself, and not what is part of something longer.
fn replace_words(text: &str, from: &str, to: &str) -> String {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, behind) = (&rest[..at], &rest[at + from.len()..]);
        let whole = !before.ends_with(inner) && !behind.starts_with(inner);
        done.push_str(before);
        done.push_str(if whole { to } else { from });
        rest = behind;
    }
    done + rest
}
