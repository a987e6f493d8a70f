//! The program that plays a cluster's kubelet towards its API server; see `hack/control-plane/kubelet`.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixListener;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::super::addresses::Cluster;
use super::super::exec::PodExec;
use super::super::marks;
use super::bridge;

/// It makes a key and listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running stand-in. It ends with its stdin, so with this process.
pub(in super::super) struct StandIn {
    /// Where the API server reaches it.
    pub(in super::super) port: u16,
    child: Child,
    _stdin: Option<ChildStdin>,
    listener: UnixListener,
}

impl StandIn {
    /// Starts it for a cluster's pods.
    pub(in super::super) async fn start(
        program: &Path,
        cluster: Cluster,
        sandbox: &str,
        folder: &Path,
    ) -> anyhow::Result<StandIn> {
        let socket = socket(folder, cluster)?;
        let listener = bridge::listen(&socket)?;
        let log = folder.join("logs").join(format!("{cluster}-kubelet.log"));
        let log = OpenOptions::new().create(true).append(true).open(log).context("the kubelet's log")?;
        let mut command = Command::new(program);
        command.arg("--socket").arg(&socket).env(marks::SANDBOX, sandbox);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| {
            format!(
                "cannot run {}, the kubelet's stand-in (hack/control-plane-build.sh builds it)",
                program.display()
            )
        })?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("its output was asked to be a pipe")?;
        let mut lines = BufReader::new(stdout).lines();
        let line =
            timeout(PATIENCE, lines.next_line()).await.context("the kubelet's stand-in is silent")??;
        let port = line.as_deref().and_then(|line| line.trim().parse().ok());
        let port = port.with_context(|| format!("the kubelet's stand-in said {line:?}, not its port"))?;
        Ok(StandIn { port, child, _stdin: stdin, listener })
    }

    /// Runs what the API server asks for, until dropped.
    pub(in super::super) async fn run(mut self, exec: Arc<PodExec>) -> anyhow::Result<()> {
        tokio::select! {
            served = bridge::serve(self.listener, exec) => served,
            ended = self.child.wait() => bail!("the kubelet's stand-in ended: {ended:?}"),
        }
    }
}

/// Beside the pods' files, which go with the sandbox.
fn socket(folder: &Path, cluster: Cluster) -> anyhow::Result<PathBuf> {
    let pods = folder.join("pods");
    std::fs::create_dir_all(&pods).context("the pods' folder")?;
    let socket = pods.join(format!("{}.sock", cluster.short()));
    // A killed sandbox left its own.
    let _ = std::fs::remove_file(&socket);
    Ok(socket)
}
