//! `causeway node`, a child process in a namespace, and what it costs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::cost;
use crate::namespace::{LOCK, Namespace};
use crate::objects;

const FAREWELL: Duration = Duration::from_secs(10);

/// A running agent; killed when dropped.
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    /// Starts it as a DaemonSet would; its files are in the folder. `BENCH_CONTROLLER` may name another program than the one
    /// that was built with this.
    pub(crate) fn start(namespace: &Namespace, folder: &Path) -> anyhow::Result<Agent> {
        let log = folder.join("agent.log");
        let usual = || env!("CARGO_BIN_EXE_causeway").into();
        let (enter, lock) = namespace.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg(std::env::var_os("BENCH_CONTROLLER").unwrap_or_else(usual)).arg("node");
        command.args(["--kube-subnet-mgr", "--ip-masq", "--iface=eth0", "--exit-with-parent"]);
        for (flag, file) in [
            ("--kubeconfig-file", "kubeconfig"),
            ("--net-config-path", "net-conf.json"),
            ("--subnet-file", "subnet.env"),
        ] {
            command.arg(flag).arg(folder.join(file));
        }
        command.env("NODE_NAME", objects::name(0)).env(LOCK, lock);
        let said = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said).kill_on_drop(true);
        let child = command.spawn().context("cannot start the agent")?;
        Ok(Agent { child, log })
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id().context("the agent has ended")?)?))
    }

    /// CPU time so far, without that of commands that it ran.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cost::process(self.pid()?)
    }

    /// The most memory it ever held.
    pub(crate) fn peak_mib(&self) -> anyhow::Result<f64> {
        self.mib("VmHWM:")
    }

    /// The memory that it holds.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        self.mib("VmRSS:")
    }

    /// Of that what is its program's and libraries' files.
    pub(crate) fn files_mib(&self) -> anyhow::Result<f64> {
        self.mib("RssFile:")
    }

    fn mib(&self, what: &str) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(what)).context("no memory")?;
        let kib: f64 = line.trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// The end of its log.
    pub(crate) fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Ends it politely.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        kill(self.pid()?, Signal::SIGTERM)?;
        let status = timeout(FAREWELL, self.child.wait()).await.context("the agent does not end")??;
        ensure!(status.success(), "the agent ended with {status}: {}", self.last_lines());
        Ok(())
    }
}
