//! `pods/exec`: runs the command in the gateway's namespace, with its input and output, and keeps the time.

use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use causeway_apiserver::{Exec, ExecEnd, ExecIo, ExecRequest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::gateways::Gateways;
use crate::namespace::LOCK;
use crate::shape;

/// Runs commands in the gateways.
pub(crate) struct GatewayExec {
    gateways: Arc<Gateways>,
    clock: Mutex<Clock>,
    ran: Mutex<Vec<Ran>>,
    heard: Mutex<Vec<Answers>>,
}

/// A line of what tunnels' peers answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    pub(crate) at: Instant,
    /// Of how many tunnels it speaks.
    pub(crate) tunnels: usize,
}

/// A command that a gateway ran, a monitor as far as its first word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) gateway: usize,
    pub(crate) kind: Kind,
    pub(crate) start: Instant,
    /// When it printed last: after that it only waits for its reader.
    pub(crate) last: Instant,
}

/// Of the commands that end by themselves, so of all but the monitors.
#[derive(Clone, Copy, Default)]
pub(crate) struct Clock {
    running: usize,
    /// How many have ended.
    pub(crate) ended: u64,
    /// From the start of each to the last that it printed, one after another.
    pub(crate) time: Duration,
    /// How much they printed.
    pub(crate) printed: usize,
}

/// What a command is, as far as the controller's can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Prints what changes, without end.
    Monitor,
    /// Prints what is there.
    Look,
    /// Changes something; its script comes with its input.
    Apply,
}

impl Kind {
    pub(crate) fn of(request: &ExecRequest) -> Kind {
        match request.command.last().map(String::as_str) {
            Some("causeway-monitor") => Kind::Monitor,
            Some("causeway-apply") => Kind::Apply,
            _ => Kind::Look,
        }
    }
}

impl GatewayExec {
    pub(crate) fn new(gateways: Arc<Gateways>) -> GatewayExec {
        GatewayExec { gateways, clock: Mutex::default(), ran: Mutex::default(), heard: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What ran so far.
    pub(crate) fn clock(&self) -> Clock {
        *self.lock()
    }

    /// What a gateway ran so far, in the order of their last words.
    pub(crate) fn ran(&self, gateway: usize) -> Vec<Ran> {
        let ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        ran.iter().filter(|ran| ran.gateway == gateway).copied().collect()
    }

    /// What the gateways' monitors said of peers since a moment.
    pub(crate) fn answers(&self, since: Instant) -> Vec<Answers> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().filter(|answers| answers.at >= since).copied().collect()
    }

    /// Lines are short enough to be written at once, so they are read as a whole.
    fn hear(&self, text: &[u8]) {
        let at = Instant::now();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"causeway-probe "));
        // Before the tunnels are its name and a number.
        let tunnels = lines.map(|line| line.split(|byte| *byte == b' ').count() - 2);
        let answers = tunnels.map(|tunnels| Answers { at, tunnels });
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
    }

    fn note(&self, ran: Ran) {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(ran);
    }

    /// Whether any but the monitors is running.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().running > 0
    }

    fn spawn(&self, request: &ExecRequest) -> std::io::Result<Child> {
        let gone = || std::io::Error::other(format!("there is no pod {}", request.pod));
        let number = shape::gateway_of(&request.pod).ok_or_else(gone)?;
        let (enter, lock) = self.gateways.get(number).ok_or_else(gone)?.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).args(&request.command).env(LOCK, lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).spawn()
    }

    /// Runs a command and keeps what it printed, where somebody asks for that.
    pub(crate) async fn run_and_keep(
        &self,
        request: &ExecRequest,
        io: ExecIo,
        kept: Option<&mut Vec<u8>>,
    ) -> ExecEnd {
        let (kind, gateway) = (Kind::of(request), shape::gateway_of(&request.pod).unwrap_or_default());
        let mut running =
            Running { exec: self, gateway, kind, start: Instant::now(), last: None, printed: 0 };
        if kind != Kind::Monitor {
            self.lock().running += 1;
        }
        match self.spawn(request) {
            Ok(child) => converse(child, io, &mut running, kept)
                .await
                .unwrap_or_else(|error| ExecEnd::Failed(error.to_string())),
            Err(error) => ExecEnd::Failed(error.to_string()),
        }
    }
}

/// A command under way. It is also over when whoever asked for it has gone.
struct Running<'a> {
    exec: &'a GatewayExec,
    gateway: usize,
    kind: Kind,
    start: Instant,
    last: Option<Instant>,
    printed: usize,
}

impl Running<'_> {
    fn printed(&mut self, text: &[u8]) {
        let now = Instant::now();
        if self.kind == Kind::Monitor {
            self.exec.hear(text);
        }
        if self.kind == Kind::Monitor && self.printed == 0 {
            self.note(now);
        }
        self.last = Some(now);
        self.printed += text.len();
    }

    fn note(&self, last: Instant) {
        self.exec.note(Ran { gateway: self.gateway, kind: self.kind, start: self.start, last });
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.kind == Kind::Monitor {
            return;
        }
        let last = self.last.unwrap_or_else(Instant::now);
        self.note(last);
        let mut clock = self.exec.lock();
        clock.running -= 1;
        clock.ended += 1;
        clock.time += last - self.start;
        clock.printed += self.printed;
    }
}

#[async_trait]
impl Exec for GatewayExec {
    async fn admit(&self, _: &ExecRequest) -> Result<(), (u16, String, String)> {
        Ok(())
    }

    async fn run(&self, request: ExecRequest, io: ExecIo) -> ExecEnd {
        self.run_and_keep(&request, io, None).await
    }
}

async fn converse(
    mut child: Child,
    io: ExecIo,
    running: &mut Running<'_>,
    kept: Option<&mut Vec<u8>>,
) -> std::io::Result<ExecEnd> {
    let ExecIo { mut stdin, mut stdout, mut stderr, resize: _ } = io;
    let missing = || std::io::Error::other("no pipe");
    let mut input = child.stdin.take().ok_or_else(missing)?;
    let output = child.stdout.take().ok_or_else(missing)?;
    let mut errors = child.stderr.take().ok_or_else(missing)?;
    let feed = async {
        // A command that does not read to the end says more with its status.
        let _ = tokio::io::copy(&mut stdin, &mut input).await;
        drop(input);
        std::future::pending::<()>().await;
    };
    let done = async {
        let (out, err) = tokio::join!(
            pass_on(output, &mut stdout, running, kept),
            tokio::io::copy(&mut errors, &mut stderr)
        );
        out.and(err.map(drop))?;
        child.wait().await
    };
    tokio::select! {
        status = done => Ok(ExecEnd::Exited(status?.code().unwrap_or(137))),
        () = feed => unreachable!("feeding never ends by itself"),
    }
}

/// Passes on what a command prints, and notes when it printed last: after that it only waits for its reader.
async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    running: &mut Running<'_>,
    mut kept: Option<&mut Vec<u8>>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        running.printed(&buffer[..count]);
        if let Some(kept) = kept.as_deref_mut() {
            kept.extend_from_slice(&buffer[..count]);
        }
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}
