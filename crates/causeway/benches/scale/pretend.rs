//! A thousand gateways without a thousand kernels: one is real, and the others repeat what it said, each with its
//! own addresses and its own tunnel.
//!
//! Only what runs in a gateway is pretended; the controller cannot tell, and every byte reaches it as it would.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use causeway_apiserver::{Exec, ExecEnd, ExecIo, ExecRequest};
use causeway_datapath::end_of;
use causeway_datapath::vpc::HEARTBEAT;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::sleep;

use crate::exec::{GatewayExec, Kind};
use crate::gateways::Gateways;
use crate::shape;

/// As the real monitor's.
const BEAT: Duration = Duration::from_secs(5);
/// In place of a listing that the reader has.
const SAME: &str = "@@causeway same";
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
    /// The pretended gateways that have their tunnel.
    built: BTreeSet<usize>,
    /// Those that have said so to a look: their reader has that listing.
    listed: BTreeSet<usize>,
    looks: u64,
}

/// What the real one said.
#[derive(Clone, Default)]
struct Said {
    empty: Option<String>,
    apply: Option<String>,
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

    /// How often a gateway was looked at.
    pub(crate) fn looks(&self) -> u64 {
        self.lock().looks
    }

    async fn rehearse(&self, request: &ExecRequest, io: ExecIo) -> ExecEnd {
        let mut said = Vec::new();
        let kept = (Kind::of(request) != Kind::Monitor).then_some(&mut said);
        let end = self.real.run_and_keep(request, io, kept).await;
        let text = String::from_utf8_lossy(&said).into_owned();
        if end_of(&said) == Some(0) && !text.starts_with(SAME) {
            let said = &mut self.lock().said;
            match (Kind::of(request), &said.apply) {
                (Kind::Apply, _) => said.apply = Some(text),
                (Kind::Look, None) => said.empty = Some(text),
                (Kind::Look, Some(_)) => said.built = Some(text),
                (Kind::Monitor, _) => {}
            }
        }
        end
    }

    /// What a gateway says to a command.
    fn answer(&self, gateway: usize, kind: Kind, known: &str) -> Option<String> {
        let mut state = self.lock();
        let said = match kind {
            Kind::Monitor => return None,
            Kind::Apply => {
                state.built.insert(gateway);
                state.said.apply.as_ref()
            }
            Kind::Look => {
                state.looks += 1;
                // Nobody but its reader changes it.
                if !known.is_empty() && state.listed.contains(&gateway) {
                    return Some(format!("{SAME}\n@@causeway done 0\n"));
                }
                if state.built.contains(&gateway) {
                    state.listed.insert(gateway);
                }
                if state.built.contains(&gateway) {
                    state.said.built.as_ref()
                } else {
                    state.said.empty.as_ref()
                }
            }
        }?;
        Some(as_another(said, gateway))
    }

    async fn pretend(&self, gateway: usize, kind: Kind, io: ExecIo) -> std::io::Result<ExecEnd> {
        let ExecIo { stdin, mut stdout, stderr: _stderr, resize: _ } = io;
        let mut stdin = BufReader::new(stdin);
        if kind == Kind::Monitor {
            tokio::select! {
                ended = stdin.read_u8() => drop(ended),
                beat = beat(&mut stdout) => beat?,
            }
            return Ok(ExecEnd::Exited(0));
        }
        let mut line = String::new();
        stdin.read_line(&mut line).await?;
        if kind == Kind::Apply {
            let length = line.split_whitespace().filter_map(|word| word.parse::<usize>().ok()).sum();
            stdin.read_exact(&mut vec![0; length]).await?;
        }
        let missing = || std::io::Error::other("the real gateway has not said that yet");
        let answer = self.answer(gateway, kind, line.trim()).ok_or_else(missing)?;
        stdout.write_all(answer.as_bytes()).await?;
        stdout.flush().await?;
        // Its reader's word, or its end.
        stdin.read_line(&mut line).await?;
        Ok(ExecEnd::Exited(0))
    }
}

async fn beat(stdout: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    loop {
        stdout.write_all(format!("{HEARTBEAT}\n").as_bytes()).await?;
        stdout.flush().await?;
        sleep(BEAT).await;
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
