//! The controller under test, a child process, and what it costs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::cost;

const FAREWELL: Duration = Duration::from_secs(5);

/// A running controller; killed when dropped.
pub(crate) struct Controller {
    child: Child,
    log: PathBuf,
}

impl Controller {
    /// Starts it as a deployment would, with the kubeconfig of a broker if there is one, and on the embedded server
    /// without a lease;
    /// `BENCH_CONTROLLER` may name another program than the one that was built with this.
    pub(crate) fn start(
        cluster: &Cluster,
        folder: &Path,
        broker: Option<&Path>,
    ) -> anyhow::Result<Controller> {
        Self::start_with(cluster, folder, broker, &[])
    }

    /// The same with other flags besides.
    pub(crate) fn start_with(
        cluster: &Cluster,
        folder: &Path,
        broker: Option<&Path>,
        flags: &[&str],
    ) -> anyhow::Result<Controller> {
        let log = folder.join("controller.log");
        let usual = || env!("CARGO_BIN_EXE_causeway").into();
        let mut command = Command::new(std::env::var_os("BENCH_CONTROLLER").unwrap_or_else(usual));
        command.args(["controller", "--enable", "vpc", "--kubeconfig"]).arg(cluster.kubeconfig());
        command.args(["--cluster-id", "c1", "--globalnet-cidr", "242.0.0.0/16"]);
        let egress: Vec<String> = (1..=8).map(|host| format!("242.0.0.{host}")).collect();
        command.args(["--egress-ips", &egress.join(",")]);
        if let Some(broker) = broker {
            command.arg("--broker-kubeconfig").arg(broker);
        }
        match cluster.lease_namespace() {
            Some(namespace) => command.args(["--lease-namespace", namespace]),
            None => command.arg("--no-leader-election"),
        };
        command.args(["--listen", "127.0.0.1:0", "--exit-with-parent"]).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).kill_on_drop(true);
        let child = command.spawn().context("cannot start the controller")?;
        Ok(Controller { child, log })
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cost::process(self.pid()?)
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id().context("the controller has ended")?)?))
    }

    /// The most memory it ever held.
    pub(crate) fn peak_mib(&self) -> anyhow::Result<f64> {
        self.mib("VmHWM:")
    }

    /// The memory that it holds.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        self.mib("VmRSS:")
    }

    fn mib(&self, what: &str) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(what)).context("no memory")?;
        let kib: f64 = line.trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Waits for it to end, which it must not, and says what it said last.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        let status = self.child.wait().await;
        anyhow::anyhow!("the controller ended ({status:?}): {}", self.last_lines())
    }

    /// The end of its log.
    pub(crate) fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        last.join("\n")
    }

    /// Ends it politely.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        kill(self.pid()?, Signal::SIGTERM)?;
        timeout(FAREWELL, self.child.wait()).await.context("the controller does not end")??;
        Ok(())
    }
}
