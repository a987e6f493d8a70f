//! The real controllers: one child process per cluster, brought back whenever it dies.
//!
//! A child is a plain `causeway controller` with a kubeconfig; it gets nothing else from the
//! sandbox. Its pid is in `<dir>/<cluster>.controller.pid`, so that anybody may kill it. While there
//! is a file `<dir>/<cluster>.hold`, a controller that ended is not brought back.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::addresses::Cluster;
use super::marks;
use super::progress::Progress;
use super::rules::Ports;

const BACKOFF: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// A controller that lived this long starts again with the shortest back-off.
const HEALTHY: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(3);
/// How often is looked whether a controller is still held back.
const LOOK: Duration = Duration::from_millis(25);

/// What is needed to run one cluster's controller.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    pub(super) cluster: Cluster,
    pub(super) program: PathBuf,
    /// The account it works as.
    pub(super) kubeconfig: PathBuf,
    /// Where its lease lives, where that is not the default.
    pub(super) lease_namespace: Option<&'static str>,
    /// Where it serves rules, if it does.
    pub(super) rules: Option<Ports>,
    /// Holds the kubeconfig, the pid file and the log.
    pub(super) folder: PathBuf,
    pub(super) sandbox: String,
}

impl Controller {
    /// Keeps the controller running until `stop`, then ends it politely.
    pub(super) async fn supervise(self, stop: CancellationToken, progress: Progress) -> anyhow::Result<()> {
        let mut backoff = BACKOFF;
        while !stop.is_cancelled() {
            if self.held_back(&stop).await {
                backoff = BACKOFF;
                continue;
            }
            let born = Instant::now();
            let mut child = self.spawn()?;
            let status = tokio::select! {
                status = child.wait() => status?,
                () = stop.cancelled() => {
                    end(&mut child).await;
                    break;
                }
            };
            progress.note(&format!(
                "the controller of {} ended ({status}); unless it is held it is brought back; its log: {}",
                self.cluster,
                log_file(&self.folder, self.cluster).display()
            ));
            backoff = if born.elapsed() > HEALTHY { BACKOFF } else { (backoff * 2).min(LONGEST) };
            tokio::select! {
                () = sleep(backoff) => {}
                () = stop.cancelled() => {}
            }
        }
        let _ = std::fs::remove_file(self.pid_file());
        Ok(())
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join(format!("{}.controller.pid", self.cluster))
    }

    /// Waits while somebody wants the controller to be away; false when nobody did.
    async fn held_back(&self, stop: &CancellationToken) -> bool {
        let hold = self.folder.join(format!("{}.hold", self.cluster));
        if !hold.exists() {
            return false;
        }
        // Whoever reads the file must not kill a stranger who got the number.
        let _ = std::fs::remove_file(self.pid_file());
        while hold.exists() && !stop.is_cancelled() {
            sleep(LOOK).await;
        }
        true
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let log = open_log(&self.folder, self.cluster)?;
        let mut command = Command::new(&self.program);
        command.arg("controller").arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(self.lease_namespace.iter().flat_map(|name| ["--lease-namespace", name]));
        command.args(["--identity", &format!("sandbox-{}", self.cluster)]);
        command.args(["--listen", "127.0.0.1:0", "--exit-with-parent"]);
        if let Some(Ports { listen, clients, .. }) = &self.rules {
            command.args(["--enable", "vpc,rules", "--rules-listen", &listen.to_string()]);
            command.args(["--rules-clients-listen", &clients.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.env(marks::SANDBOX, &self.sandbox).process_group(0).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot run {}", self.program.display()))?;
        if let Some(pid) = child.id() {
            std::fs::write(self.pid_file(), format!("{pid}\n")).context("cannot write the pid file")?;
        }
        Ok(child)
    }
}

/// A cluster's kubeconfig in the sandbox's folder.
pub(super) fn kubeconfig(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.kubeconfig"))
}

/// Where a controller's words go.
pub(super) fn log_file(folder: &Path, cluster: Cluster) -> PathBuf {
    folder.join("logs").join(format!("{cluster}-controller.log"))
}

fn open_log(folder: &Path, cluster: Cluster) -> anyhow::Result<File> {
    let path = log_file(folder, cluster);
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}

async fn end(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    if timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
