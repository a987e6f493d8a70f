//! Children: this program in another role, or the controller.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::cost;

/// The first argument of a child.
pub(crate) const ROLE: &str = "role";
const FAREWELL: Duration = Duration::from_secs(20);

/// Has a child end with whoever started it.
pub(crate) fn end_with_parent() -> anyhow::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).context("cannot be told of the parent's end")
}

/// A child, what it is told and what it says; killed when dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<Lines<BufReader<ChildStdout>>>,
}

impl Process {
    /// This program in a role.
    pub(crate) fn of_role<'a>(args: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ROLE).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        Process::start(command)
    }

    /// Any other.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Process> {
        let mut child =
            command.kill_on_drop(true).spawn().with_context(|| format!("cannot start {command:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(|output| BufReader::new(output).lines());
        Ok(Process { child, input, output })
    }

    /// Says a line to it.
    pub(crate) async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("it does not listen")?;
        input.write_all(format!("{line}\n").as_bytes()).await.context("it has ended")
    }

    /// The next line that it says.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        let output = self.output.as_mut().context("it says nothing")?;
        match output.next_line().await? {
            Some(line) => Ok(line),
            None => bail!("a child ended: {:?}", self.child.wait().await),
        }
    }

    /// Waits for it to end, which it must not.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        anyhow::anyhow!("a child ended: {:?}", self.child.wait().await)
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id().context("a child has ended")?)?))
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cost::process(self.pid()?)
    }

    /// The memory that it holds.
    pub(crate) fn resident_kib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no memory")?;
        Ok(line.trim_end_matches("kB").trim().parse()?)
    }

    /// Ends it politely.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        kill(self.pid()?, Signal::SIGTERM)?;
        timeout(FAREWELL, self.child.wait()).await.context("a child does not end")??;
        Ok(())
    }
}
