//! What is measured: the controller, or a floor in its place.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::framing::Wire;
use crate::metrics;
use crate::process::Process;
use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(30);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Causeway,
    Tonic,
    Tcp,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Causeway, Kind::Tonic, Kind::Tcp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Causeway => "causeway",
            Kind::Tonic => "tonic",
            Kind::Tcp => "tcp",
        }
    }

    pub(crate) fn wire(self) -> Wire {
        match self {
            Kind::Causeway | Kind::Tonic => Wire::Grpc,
            Kind::Tcp => Wire::Plain,
        }
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// Where the controller says what it counts.
    metrics: Option<SocketAddr>,
    /// Where the controller has its rules from.
    pub(crate) site: Option<Site>,
}

impl Server {
    /// One with so many rules of one app.
    pub(crate) async fn start(kind: Kind, rules: usize) -> anyhow::Result<Server> {
        match kind {
            Kind::Causeway => {
                Server::controller(Site::start(rules, 1).await?, &["--no-leader-election"]).await
            }
            Kind::Tonic => Server::floor("tonic", rules).await,
            Kind::Tcp => Server::floor("tcp", rules).await,
        }
    }

    async fn floor(role: &str, rules: usize) -> anyhow::Result<Server> {
        let mut process = Process::of_role([role, &rules.to_string()])?;
        let address = process.line().await?.parse()?;
        Ok(Server { process, address, metrics: None, site: None })
    }

    /// The controller as a deployment would start it; `BENCH_CONTROLLER` may name another program than the one that was
    /// built with this.
    pub(crate) async fn controller(site: Site, lease: &[&str]) -> anyhow::Result<Server> {
        let (address, metrics) = (free_address().await?, free_address().await?);
        let usual = || env!("CARGO_BIN_EXE_causeway").into();
        let mut command = Command::new(std::env::var_os("BENCH_CONTROLLER").unwrap_or_else(usual));
        command.args(["controller", "--enable", "rules", "--exit-with-parent"]);
        command.arg("--listen").arg(metrics.to_string());
        command.arg("--kubeconfig").arg(site.kubeconfig());
        command.arg("--rules-listen").arg(address.to_string()).args(lease);
        command.args(["--rules-clients-listen", "127.0.0.1:0"]);
        let log = File::create(site.folder().join("controller.log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut process = Process::start(command)?;
        tokio::select! {
            () = listens(address) => {}
            ended = process.ended() => return Err(ended).context("the controller"),
            () = sleep(PATIENCE) => anyhow::bail!("the controller does not listen"),
        }
        Ok(Server { process, address, metrics: Some(metrics), site: Some(site) })
    }

    /// Has every client sent a rule that was edited at this instant.
    pub(crate) async fn change(&mut self, instant: u64) -> anyhow::Result<()> {
        match &self.site {
            Some(site) => timeout(PATIENCE, site.edit(instant)).await.context("an edit")?,
            None => self.process.tell(&instant.to_string()).await,
        }
    }

    /// How many streams the controller ended because nothing was taken from them.
    pub(crate) async fn stuck_streams(&self) -> anyhow::Result<u64> {
        metrics::stuck_streams(self.metrics.context("a floor counts nothing")?).await
    }

    /// Ends it. Its clients have gone, so nobody is waited for.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.process.end().await
    }
}

/// An address that nobody listens at.
async fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?)
}

async fn listens(address: SocketAddr) {
    while TcpStream::connect(address).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
}
