//! `pods/exec`: runs the command in the pod's network namespace.
//!
//! The pod shares everything else with the machine, as far as the sandbox's caller may use it.
//! A command ends when it exits, when the caller goes away (the future is dropped) or when its
//! pod ends; in the last two cases all it started goes with it.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use causeway_apiserver::{Exec, ExecEnd, ExecIo, ExecRequest};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::exec_log::ExecLog;
use super::faults::{self, Faults, UnknownFault};
use super::marks::{self, kill_marked};
use super::nat;
use super::pty;
use super::running::{RunningPod, RunningPods};

/// What a command left in its pipes is passed on for this long after its end; a daemon it left
/// behind may hold them open for ever.
const DRAIN: Duration = Duration::from_secs(2);
/// How often is looked whether a command is still held back.
const LOOK: Duration = Duration::from_millis(25);
/// What a shell reports for a command that was killed.
const KILLED: i32 = 137;

/// Runs commands in the pods of one cluster.
pub(super) struct PodExec {
    sandbox: String,
    pods: RunningPods,
    client: OnceLock<Client>,
    count: AtomicU64,
    log: ExecLog,
}

impl PodExec {
    /// For the pods in `pods`. Nothing is admitted before [`PodExec::connect`].
    pub(super) fn new(sandbox: &str, pods: RunningPods, log: ExecLog) -> PodExec {
        PodExec { sandbox: sandbox.into(), pods, client: OnceLock::new(), count: AtomicU64::new(0), log }
    }

    /// The server calls us and we ask it for the pod's annotations: it is known only once started.
    pub(super) fn connect(&self, client: Client) {
        // A second client for the same server is as good as the first.
        let _ = self.client.set(client);
    }

    /// The faults switched on right now.
    async fn faults(&self, request: &ExecRequest) -> Result<Faults, (u16, String, String)> {
        let unready = |message: String| (503, "ServiceUnavailable".to_owned(), message);
        let client = self.client.get().ok_or_else(|| unready("the kubelet is not up yet".into()))?;
        let pods = Api::<Pod>::namespaced(client.clone(), &request.namespace);
        let pod = pods.get_metadata(&request.pod).await.map_err(|error| unready(error.to_string()))?;
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let known = Faults::parse(annotations.get(faults::ANNOTATION).map(String::as_str));
        known.map_err(|error: UnknownFault| (400, "BadRequest".to_owned(), error.to_string()))
    }

    /// The same, once they hold this command back no more.
    async fn let_go(&self, request: &ExecRequest) -> Result<Faults, (u16, String, String)> {
        loop {
            let faults = self.faults(request).await?;
            if faults.hold.as_ref() != Some(&request.user) {
                return Ok(faults);
            }
            sleep(LOOK).await;
        }
    }

    fn command(&self, argv: &[String], pod: &RunningPod, path: &str, exec: &str) -> Command {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]);
        command.env_clear().env("PATH", path).env("HOME", &pod.net.folder).current_dir("/");
        command.env("HOSTNAME", pod.net.role.pod()).env(nat::LOCK, pod.net.lock());
        command.env(marks::SANDBOX, &self.sandbox).env(marks::POD, &pod.mark).env(marks::EXEC, exec);
        command
    }

    async fn start(
        &self,
        number: u64,
        request: &ExecRequest,
        pod: &RunningPod,
        io: ExecIo,
    ) -> Result<i32, String> {
        let faults = self.let_go(request).await.map_err(|(_, _, message)| message)?;
        if faults.hang {
            std::future::pending::<()>().await;
        }
        sleep(faults.slow).await;
        let path = faults.path(pod.folder()).map_err(|error| format!("cannot hide tools: {error}"))?;
        let argv = &request.command;
        let first = argv.first().ok_or("no command was given")?;
        let exec = format!("{}-{number}", pod.mark);
        let mut leash = Leash { exec: exec.clone(), tied: true };
        let failed = |error: std::io::Error| format!("cannot run {first:?} in the container: {error}");
        let status = if request.tty {
            let mut session = vec!["setsid".to_owned(), "--ctty".to_owned(), "--".to_owned()];
            session.extend_from_slice(argv);
            let command = self.command(&session, pod, &path, &exec);
            pty::run(command, &pod.net.namespace, io).await
        } else {
            let command = self.command(argv, pod, &path, &exec);
            piped(command, request, pod, io, &faults).await
        };
        let status = status.map_err(failed)?;
        // It ended by itself: what it left running on purpose stays, until its pod ends.
        leash.tied = false;
        sleep(faults.late).await;
        Ok(code(status))
    }
}

#[async_trait]
impl Exec for PodExec {
    async fn admit(&self, request: &ExecRequest) -> Result<(), (u16, String, String)> {
        if self.faults(request).await?.refuse {
            let message = format!("annotation {} refuses exec in this pod", faults::ANNOTATION);
            return Err((403, "Forbidden".into(), message));
        }
        match self.pods.find(&request.namespace, &request.pod) {
            Some(_) => Ok(()),
            None => Err((400, "BadRequest".into(), "the container is not running".into())),
        }
    }

    async fn run(&self, request: ExecRequest, io: ExecIo) -> ExecEnd {
        let Some(pod) = self.pods.find(&request.namespace, &request.pod) else {
            return ExecEnd::Failed("the container is not running".into());
        };
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let entry = self.log.begin(number, &request);
        let io = entry.overhear(io);
        let end = tokio::select! {
            end = self.start(number, &request, &pod, io) => match end {
                Ok(code) => ExecEnd::Exited(code),
                Err(message) => ExecEnd::Failed(message),
            },
            () = pod.ended.cancelled() => ExecEnd::Exited(KILLED),
        };
        entry.end(&end);
        end
    }

    /// Nothing runs in a pod but what is asked for, so its log is of that.
    async fn log(&self, namespace: &str, pod: &str) -> String {
        self.log.of_pod(namespace, pod)
    }
}

/// Kills all that an exec started, unless it was let go.
struct Leash {
    exec: String,
    tied: bool,
}

impl Drop for Leash {
    fn drop(&mut self) {
        if self.tied {
            kill_marked(marks::EXEC, &self.exec);
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

async fn piped(
    mut command: Command,
    request: &ExecRequest,
    pod: &RunningPod,
    io: ExecIo,
    faults: &Faults,
) -> std::io::Result<ExitStatus> {
    let pipe = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    command.stdin(pipe(request.stdin)).stdout(pipe(request.stdout)).stderr(pipe(request.stderr));
    command.process_group(0).kill_on_drop(true);
    let spawned = pod.net.namespace.run(move || command.spawn()).await;
    let mut child = spawned.map_err(std::io::Error::other)??;
    let ExecIo { mut stdin, stdout, stderr, resize: _ } = io;
    let mut input = child.stdin.take();
    let feed = async {
        if let Some(pipe) = &mut input {
            // A command that does not read to the end is no failure of ours.
            let _ = match faults.cut {
                None => tokio::io::copy(&mut stdin, pipe).await.map(drop),
                Some(lines) => copy_lines(stdin, pipe, lines).await,
            };
        }
        drop(input);
        std::future::pending::<()>().await;
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let drained = async { tokio::join!(pass(out, stdout, faults.late), pass(err, stderr, faults.late)) };
    tokio::select! {
        status = finish(&mut child, drained, DRAIN + faults.late) => status,
        () = feed => unreachable!("feeding never ends by itself"),
    }
}

/// Passes so many lines on. Returns with the first byte that is too much: a command that is given
/// nothing keeps its stdin.
async fn copy_lines(
    from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    lines: usize,
) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    for _ in 0..lines {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        to.write_all(&line).await?;
        to.flush().await?;
    }
    from.fill_buf().await.map(drop)
}

/// Waits for the end and for what is still in the pipes.
async fn finish<T>(
    child: &mut Child,
    drained: impl Future<Output = T>,
    patience: Duration,
) -> std::io::Result<ExitStatus> {
    tokio::pin!(drained);
    tokio::select! {
        status = child.wait() => {
            let status = status?;
            let _ = timeout(patience, drained).await;
            Ok(status)
        }
        _ = &mut drained => child.wait().await,
    }
}

async fn pass<R: AsyncRead + Unpin>(
    from: Option<R>,
    mut to: Box<dyn AsyncWrite + Send + Unpin>,
    late: Duration,
) {
    let Some(mut from) = from else { return };
    let mut buffer = Vec::with_capacity(16 * 1024);
    while from.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
        sleep(late).await;
        // When the caller is gone the whole exec is dropped; nobody is left to write to.
        if to.write_all(&buffer).await.is_err() || to.flush().await.is_err() {
            return;
        }
        buffer.clear();
    }
}
