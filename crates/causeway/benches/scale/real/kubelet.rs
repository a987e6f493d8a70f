//! The program that plays the kubelet towards the API server (`hack/control-plane/kubelet`), and what it asks for.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use causeway_apiserver::{Exec, ExecEnd, ExecIo, ExecRequest};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::bridge;

/// It makes a key and listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running stand-in. It ends with its stdin, so with this process.
pub(super) struct Kubelet {
    /// Where the API server reaches it.
    pub(super) port: u16,
    child: Child,
    stdin: Option<ChildStdin>,
    serving: AbortOnDropHandle<anyhow::Result<()>>,
}

impl Kubelet {
    /// Starts it; `CAUSEWAY_KUBELET` may say where it is.
    pub(super) async fn start(exec: Arc<dyn Exec>, folder: &Path) -> anyhow::Result<Kubelet> {
        let socket = folder.join("kubelet.sock");
        let listener = bridge::listen(&socket)?;
        let program = std::env::var_os("CAUSEWAY_KUBELET").unwrap_or_else(|| "causeway-kubelet".into());
        let mut command = Command::new(&program);
        command.arg("--socket").arg(&socket).kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("kubelet.log"))?);
        let what = || format!("cannot run {} (hack/control-plane-build.sh builds it)", program.display());
        let mut child = command.spawn().with_context(what)?;
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().context("its output is a pipe")?).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.context("the kubelet is silent")??;
        let port = line.as_deref().and_then(|line| line.trim().parse().ok());
        let port = port.with_context(|| format!("the kubelet said {line:?}, not its port"))?;
        let serving = tokio::spawn(bridge::serve(listener, Arc::new(Shared(exec))));
        Ok(Kubelet { port, child, stdin, serving: AbortOnDropHandle::new(serving) })
    }

    /// Ends it and waits, so that its CPU time is nobody else's.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.stdin.take());
        timeout(PATIENCE, self.child.wait()).await.context("the kubelet does not end")??;
        drop(self.serving);
        Ok(())
    }
}

/// One that is known only by what it does.
struct Shared(Arc<dyn Exec>);

#[async_trait]
impl Exec for Shared {
    async fn admit(&self, request: &ExecRequest) -> Result<(), (u16, String, String)> {
        self.0.admit(request).await
    }

    async fn run(&self, request: ExecRequest, io: ExecIo) -> ExecEnd {
        self.0.run(request, io).await
    }
}
