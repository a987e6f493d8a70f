//! Child processes that are brought back whenever they die.
//!
//! A child's pid is in a file, so that anybody may kill it. While there is a file with the name of `hold`, a child that
//! ended is not brought back.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::marks;
use super::netns::Namespace;
use super::progress::Progress;

const BACKOFF: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// A child that lived this long starts again with the shortest back-off.
const HEALTHY: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(3);
/// How often is looked whether a child is still held back.
const LOOK: Duration = Duration::from_millis(25);

/// What is needed to run a child.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// What it is, for people.
    pub(super) title: String,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    /// Beside what it inherits.
    pub(super) env: Vec<(&'static str, OsString)>,
    /// Where it runs, if that is not the caller's network.
    pub(super) namespace: Option<Arc<Namespace>>,
    /// Where its words go.
    pub(super) log: PathBuf,
    pub(super) pid_file: PathBuf,
    /// The file that keeps it away.
    pub(super) hold: PathBuf,
    /// The mark that it carries.
    pub(super) sandbox: String,
}

impl Process {
    /// Keeps the child running until `stop`, then ends it politely.
    pub(super) async fn supervise(self, stop: CancellationToken, progress: Progress) -> anyhow::Result<()> {
        let mut backoff = BACKOFF;
        while !stop.is_cancelled() {
            if self.held_back(&stop).await {
                backoff = BACKOFF;
                continue;
            }
            let born = Instant::now();
            let mut child = self.spawn().await?;
            let status = tokio::select! {
                status = child.wait() => status?,
                () = stop.cancelled() => {
                    end(&mut child).await;
                    break;
                }
            };
            progress.note(&format!(
                "{} ended ({status}); unless it is held it is brought back; its log: {}",
                self.title,
                self.log.display()
            ));
            backoff = if born.elapsed() > HEALTHY { BACKOFF } else { (backoff * 2).min(LONGEST) };
            tokio::select! {
                () = sleep(backoff) => {}
                () = stop.cancelled() => {}
            }
        }
        let _ = std::fs::remove_file(&self.pid_file);
        Ok(())
    }

    /// Waits while somebody wants the child to be away; false when nobody did.
    async fn held_back(&self, stop: &CancellationToken) -> bool {
        if !self.hold.exists() {
            return false;
        }
        // Whoever reads the file must not kill a stranger who got the number.
        let _ = std::fs::remove_file(&self.pid_file);
        while self.hold.exists() && !stop.is_cancelled() {
            sleep(LOOK).await;
        }
        true
    }

    async fn spawn(&self) -> anyhow::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot open {}", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.env(marks::SANDBOX, &self.sandbox).process_group(0).kill_on_drop(true);
        let spawned = match &self.namespace {
            Some(namespace) => namespace.run(move || command.spawn()).await?,
            None => command.spawn(),
        };
        let child = spawned.with_context(|| format!("cannot run {}", self.program.display()))?;
        if let Some(pid) = child.id() {
            std::fs::write(&self.pid_file, format!("{pid}\n")).context("cannot write the pid file")?;
        }
        Ok(child)
    }
}

/// Where the words of a part go.
pub(super) fn log_file(folder: &Path, part: &str) -> PathBuf {
    folder.join("logs").join(format!("{part}.log"))
}

async fn end(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    if timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
