//! The controller under test, a child process, and what it costs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Linux tells CPU time in hundredths of a second, whatever its own clock does.
const TICKS: u64 = 100;
const FAREWELL: Duration = Duration::from_secs(5);

/// A running controller; killed when dropped.
pub(crate) struct Controller {
    child: Child,
    proc: PathBuf,
    log: PathBuf,
}

impl Controller {
    /// Starts it as a deployment would, but for the lease and the broker.
    pub(crate) fn start(kubeconfig: &Path, folder: &Path) -> anyhow::Result<Controller> {
        let log = folder.join("controller.log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.arg("controller").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--cluster-id", "c1", "--globalnet-cidr", "242.0.0.0/16"]);
        let egress: Vec<String> = (1..=8).map(|host| format!("242.0.0.{host}")).collect();
        command.args(["--egress-ips", &egress.join(",")]);
        command.args(["--no-leader-election", "--listen", "127.0.0.1:0", "--exit-with-parent"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).kill_on_drop(true);
        let child = command.spawn().context("cannot start the controller")?;
        let proc = Path::new("/proc").join(child.id().context("it ended at once")?.to_string());
        Ok(Controller { child, proc, log })
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(self.proc.join("stat"))?;
        let (_, fields) = stat.rsplit_once(')').context("/proc/…/stat without a name")?;
        // Behind the name: the state is the first field, user and system time the 12th and 13th.
        let times = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks = times.sum::<Result<u64, _>>()?;
        Ok(Duration::from_millis(ticks * 1000 / TICKS))
    }

    /// The most memory it ever held.
    pub(crate) fn peak_mib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(self.proc.join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kib: f64 = line.trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Waits for it to end, which it must not, and says what it said last.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        let status = self.child.wait().await;
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        anyhow::anyhow!("the controller ended ({status:?}): {}", last.join("\n"))
    }

    /// Ends it politely.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        if let Some(pid) = self.child.id() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        }
        timeout(FAREWELL, self.child.wait()).await.context("the controller does not end")??;
        Ok(())
    }
}

/// CPU time of every command that has ended in a gateway so far.
pub(crate) fn commands_cpu() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}
