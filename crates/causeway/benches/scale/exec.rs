//! `pods/exec`: runs the command in the gateway's namespace, with its input and output.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use causeway_apiserver::{Exec, ExecEnd, ExecIo, ExecRequest};
use tokio::process::{Child, Command};

use crate::gateways::{Gateways, LOCK};

/// Runs commands in the gateways.
pub(crate) struct GatewayExec {
    gateways: Arc<Gateways>,
}

impl GatewayExec {
    pub(crate) fn new(gateways: Arc<Gateways>) -> GatewayExec {
        GatewayExec { gateways }
    }

    /// A place for files that lives as long as the gateways.
    pub(crate) fn folder(&self) -> &Path {
        self.gateways.folder()
    }

    fn spawn(&self, request: &ExecRequest) -> std::io::Result<Child> {
        let gone = || std::io::Error::other(format!("there is no pod {}", request.pod));
        let (enter, lock) = self.gateways.by_pod(&request.pod).ok_or_else(gone)?.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).args(&request.command).env(LOCK, lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).spawn()
    }
}

#[async_trait]
impl Exec for GatewayExec {
    async fn admit(&self, _: &ExecRequest) -> Result<(), (u16, String, String)> {
        Ok(())
    }

    async fn run(&self, request: ExecRequest, io: ExecIo) -> ExecEnd {
        match self.spawn(&request) {
            Ok(child) => converse(child, io).await.unwrap_or_else(|error| ExecEnd::Failed(error.to_string())),
            Err(error) => ExecEnd::Failed(error.to_string()),
        }
    }
}

async fn converse(mut child: Child, io: ExecIo) -> std::io::Result<ExecEnd> {
    let ExecIo { mut stdin, mut stdout, mut stderr, resize: _ } = io;
    let missing = || std::io::Error::other("no pipe");
    let mut input = child.stdin.take().ok_or_else(missing)?;
    let mut output = child.stdout.take().ok_or_else(missing)?;
    let mut errors = child.stderr.take().ok_or_else(missing)?;
    let feed = async {
        // A command that does not read to the end says more with its status.
        let _ = tokio::io::copy(&mut stdin, &mut input).await;
        drop(input);
        std::future::pending::<()>().await;
    };
    let done = async {
        let (out, err) = tokio::join!(
            tokio::io::copy(&mut output, &mut stdout),
            tokio::io::copy(&mut errors, &mut stderr)
        );
        out.and(err)?;
        child.wait().await
    };
    tokio::select! {
        status = done => Ok(ExecEnd::Exited(status?.code().unwrap_or(137))),
        () = feed => unreachable!("feeding never ends by itself"),
    }
}
