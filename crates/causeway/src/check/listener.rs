//! A pod that listens for one transfer.

use std::time::Duration;

use anyhow::anyhow;
use causeway_controller::vpc::exec::PodExec;
use causeway_core::ObjectKey;
use causeway_datapath::RunError;
use kube::api::AttachedProcess;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::clusters::{Cluster, Trouble};

const SERVER: &str = include_str!("server.sh");
/// How long a pod may take to listen.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why no command could be run in a pod.
pub(super) fn unrun(pod: &ObjectKey, error: &RunError) -> Trouble {
    let why = match error {
        RunError::Refused(why) | RunError::Unreachable(why) | RunError::Lost(why) => why.clone(),
        RunError::TimedOut(limit) => format!("it did not end within {} s", limit.as_secs()),
    };
    Trouble::new(format!("a command in pod {pod} did not run to its end: {why}"))
}

/// A pod that listens; dropping it ends the command there.
pub(super) struct Listener {
    pub(super) port: u16,
    _process: AttachedProcess,
}

impl Listener {
    pub(super) async fn start(
        cluster: &Cluster,
        pod: &ObjectKey,
        port: u16,
        bytes: u64,
    ) -> Result<Self, Trouble> {
        let exec = PodExec::of(&cluster.client, pod, None, PATIENCE);
        let started = exec.start(&["sh", "-c", SERVER, "causeway-check"], false).await;
        let mut process = started.map_err(|error| unrun(pod, &error))?;
        let listens = timeout(PATIENCE, first_line(&mut process, port, bytes)).await;
        let line = listens.map_err(|_| anyhow!("it says nothing")).and_then(|line| line);
        let line = line.map_err(|error| Trouble::new(format!("pod {pod} cannot listen: {error}")))?;
        let port = line.strip_prefix("listening ").and_then(|port| port.trim().parse().ok());
        let port = port.ok_or_else(|| {
            Trouble::new(format!("pod {pod} cannot listen: {line}; it needs sh, and perl or python3"))
        })?;
        Ok(Self { port, _process: process })
    }
}

async fn first_line(process: &mut AttachedProcess, port: u16, bytes: u64) -> anyhow::Result<String> {
    let mut stdin = process.stdin().ok_or_else(|| anyhow!("it takes no input"))?;
    stdin.write_all(format!("{port} {bytes}\n").as_bytes()).await?;
    let stdout = process.stdout().ok_or_else(|| anyhow!("it has no output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    Ok(line.trim_end().to_owned())
}
