//! A fault of a node: its agent is stopped, and its routes to the others are gone until it goes on.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_core::Family;
use causeway_datapath::leases::PROTOCOL;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep, timeout};

use super::super::marks;
use super::super::netns::Namespace;
use super::super::tools;

const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

/// An agent that does nothing until it is resumed, or this is dropped.
#[derive(Debug)]
pub(super) struct Halted(Pid);

impl Halted {
    /// Lets it go on; says when that was.
    pub(super) fn resume(self) -> Instant {
        Instant::now()
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        // One that was killed meanwhile needs nothing.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// Stops the process of a pid file, which is one of this sandbox.
pub(super) async fn halt(pid_file: &Path, sandbox: &str) -> anyhow::Result<Halted> {
    let text = std::fs::read_to_string(pid_file).context("no agent runs")?;
    let pid: i32 = text.trim().parse().context("the agent's pid")?;
    let mark = format!("{}={sandbox}", marks::SANDBOX);
    ensure!(marks::carries(pid, mark.as_bytes()), "the agent that should run has ended");
    let halted = Halted(Pid::from_raw(pid));
    kill(halted.0, Signal::SIGSTOP).context("cannot stop the agent")?;
    let stands = async {
        while !is_stopped(pid) {
            sleep(LOOK).await;
        }
    };
    timeout(PATIENCE, stands).await.context("the agent did not stop")?;
    Ok(halted)
}

/// The state stands behind the name, which is in parentheses and may hold any.
fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Deletes the routes that the agent made; says how many there were.
pub(super) async fn flush_routes(node: &Namespace, families: &[Family]) -> anyhow::Result<usize> {
    let mut routes = 0;
    for family in families {
        let ours = |verb| {
            let mut ip = tools::command("ip");
            let option = match family {
                Family::V4 => "-4",
                Family::V6 => "-6",
            };
            ip.args([option, "route", verb, "proto", &PROTOCOL.to_string()]);
            ip
        };
        routes += node.checked(ours("show"), "").await?.lines().count();
        node.checked(ours("flush"), "").await?;
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_process_of_this_sandbox_is_stopped_and_goes_on_and_another_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, sandbox) = (folder.path().join("pid"), format!("fault-{}", std::process::id()));
        let mut sleeper = Command::new("sleep");
        sleeper.arg("63").env(marks::SANDBOX, &sandbox).kill_on_drop(true);
        let mut sleeper = sleeper.spawn().expect("sleep");
        let pid = sleeper.id().expect("it runs").cast_signed();
        std::fs::write(&file, format!("{pid}\n")).expect("written");
        let error = halt(&file, "another").await.expect_err("that is not one of ours");
        assert_eq!(error.to_string(), "the agent that should run has ended");
        assert!(!is_stopped(pid));
        let halted = halt(&file, &sandbox).await.expect("it is one of ours");
        assert!(is_stopped(pid));
        halted.resume();
        while is_stopped(pid) {
            sleep(LOOK).await;
        }
        sleeper.kill().await.expect("killed");
    }
}
