//! A network namespace of its own, held by a process that ends when its input does, so also when this one is
//! killed.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::sched::{CloneFlags, setns};

/// Where iptables keeps its lock; the machine's own would make the gateways wait for each other.
pub(crate) const LOCK: &str = "XTABLES_LOCKFILE";

/// The namespace; it vanishes with this value.
pub(crate) struct Namespace {
    holder: Child,
    lock: PathBuf,
}

impl Namespace {
    /// Makes an empty one, whose iptables lock is in the folder.
    pub(crate) fn create(folder: &Path) -> anyhow::Result<Namespace> {
        let mut unshare = Command::new("unshare");
        unshare.args(["-n", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let holder = unshare.spawn().context("cannot run unshare")?;
        let lock = folder.join(format!("xtables-{}.lock", holder.id()));
        let mut namespace = Namespace { holder, lock };
        namespace.entered()?;
        Ok(namespace)
    }

    /// The process exists before its namespace does: waits until it has left ours.
    fn entered(&mut self) -> anyhow::Result<()> {
        let ours = std::fs::read_link("/proc/self/ns/net")?;
        while std::fs::read_link(self.path()).is_ok_and(|theirs| theirs == ours) {
            if let Some(status) = self.holder.try_wait()? {
                bail!("no network namespace can be made here ({status}): this needs root");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The process that holds it.
    pub(crate) fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.pid()))
    }

    /// A command line that runs in here; its arguments are still to be added.
    pub(crate) fn enter(&self) -> (Vec<String>, &Path) {
        let pid = self.pid().to_string();
        (["nsenter", "-t", &pid, "-n", "--"].map(String::from).to_vec(), &self.lock)
    }

    /// Runs a script of our own, which must succeed; gives what it printed.
    pub(crate) fn sh(&self, script: &str) -> anyhow::Result<String> {
        let (enter, lock) = self.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg("bash").env(LOCK, lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot run nsenter")?;
        child.stdin.take().context("no stdin")?.write_all(script.as_bytes())?;
        let output = child.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "in a namespace: {stderr}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs work on a thread in here: sockets that it makes are in here too.
    pub(crate) fn thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<std::thread::JoinHandle<anyhow::Result<T>>> {
        let door = File::open(self.path())?;
        Ok(std::thread::spawn(move || {
            setns(door, CloneFlags::CLONE_NEWNET).context("cannot enter a namespace")?;
            work()
        }))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
