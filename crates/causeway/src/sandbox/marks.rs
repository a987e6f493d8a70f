//! Every process of the sandbox carries a mark in its environment, so that none is left behind.
//!
//! Process groups are not enough: a shell or `timeout` inside a command makes groups of its own.
//! A mark is inherited by all that a command starts. At the end everything that carries the
//! sandbox's mark is killed; should the sandbox itself be killed, a guardian notices that its
//! pipe closed and does the same.

use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin};

use super::tools;

/// Marks everything of one sandbox.
pub(super) const SANDBOX: &str = "CAUSEWAY_SANDBOX";
/// Marks everything that one exec started.
pub(super) const EXEC: &str = "CAUSEWAY_SANDBOX_EXEC";
/// Marks everything that runs in one pod.
pub(super) const POD: &str = "CAUSEWAY_SANDBOX_POD";

/// Kills every process whose environment holds `key=value`. Best effort: what ended meanwhile or
/// belongs to somebody else is passed over.
pub(super) fn kill_marked(key: &str, value: &str) {
    let mark = format!("{key}={value}");
    // A process may fork between being read and being killed; a second look finds its child.
    for _ in 0..3 {
        let found = marked(mark.as_bytes());
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

fn marked(mark: &[u8]) -> Vec<Pid> {
    let own = std::process::id().cast_signed();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != own && carries(*pid, mark)).map(Pid::from_raw).collect()
}

/// Whether a process carries the mark.
pub(super) fn carries(pid: i32, mark: &[u8]) -> bool {
    let environment = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
    environment.is_ok_and(|text| text.split(|byte| *byte == 0).any(|entry| entry == mark))
}

/// Watches over this process; see the module's documentation.
#[derive(Debug)]
pub(super) struct Guardian {
    child: Child,
    /// Closed by the kernel when this process ends, however it ends.
    _pipe: Option<ChildStdin>,
}

/// Waits for the end of its stdin, then kills what carries the mark `$1` and removes `$2`.
const GUARD: &str = r#"
cat >/dev/null
for file in /proc/[0-9]*/environ; do
  if grep -qazxF -- "$1" "$file" 2>/dev/null; then
    pid=${file%/environ}
    kill -KILL "${pid#/proc/}" 2>/dev/null
  fi
done
if [ -n "$2" ]; then rm -rf -- "$2"; fi
"#;

impl Guardian {
    /// Starts the guardian, in a process group that the terminal's Ctrl-C does not reach.
    pub(super) fn start(sandbox: &str, folder: Option<&Path>) -> std::io::Result<Guardian> {
        let mut command = tools::command("bash");
        command.args(["-c", GUARD, "causeway-sandbox-guardian"]);
        command.arg(format!("{SANDBOX}={sandbox}")).arg(folder.unwrap_or(Path::new("")));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0);
        let mut child = command.spawn()?;
        let pipe = child.stdin.take();
        Ok(Guardian { child, _pipe: pipe })
    }

    /// Sends the guardian home: everything was cleaned up already.
    pub(super) async fn dismiss(mut self) {
        let _ = self.child.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_marked_process_is_killed_in_whatever_group_it_hides() {
        let value = format!("test-{}", std::process::id());
        let mut shell = Command::new("bash");
        shell.args(["-c", "setsid sleep 61 & wait"]).env(EXEC, &value).kill_on_drop(true);
        let mut shell = shell.spawn().expect("bash");
        let mark = format!("{EXEC}={value}");
        while marked(mark.as_bytes()).len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        kill_marked(EXEC, &value);
        shell.wait().await.expect("killed");
        while !marked(mark.as_bytes()).is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn the_guardian_cleans_up_when_its_pipe_closes() {
        let value = format!("guarded-{}", std::process::id());
        let folder = tempfile::tempdir().expect("temp folder").keep();
        let mut sleeper = Command::new("sleep");
        sleeper.arg("62").env(SANDBOX, &value).kill_on_drop(true);
        let mut sleeper = sleeper.spawn().expect("sleep");
        drop(Guardian::start(&value, Some(&folder)).expect("guardian"));
        sleeper.wait().await.expect("killed by the guardian");
        while folder.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}
