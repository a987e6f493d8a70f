//! The sandbox as a child process, and proof that it leaves nothing behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::cluster::Cluster;
use super::real::{self, Turn};

const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");
/// How long it may take to come up, and to go; it takes two seconds and one where nothing else runs.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(25);
/// Marks every process of a sandbox; the value begins with the sandbox's own pid.
const MARK: &str = "CAUSEWAY_SANDBOX";

/// A running sandbox. Dropping it interrupts it as Ctrl-C would and asserts that nothing is left.
pub(crate) struct Sandbox {
    child: Child,
    folder: Option<TempDir>,
    /// Given on only when all of the sandbox is gone.
    _turn: Turn,
}

impl Sandbox {
    /// Two clusters without a tunnel.
    pub(crate) async fn bare() -> Sandbox {
        Sandbox::start(&["--bare"]).await
    }

    /// A sandbox with these flags, once it says that it is ready and its pods run. What this machine lacks for that
    /// fails the test by name.
    pub(crate) async fn start(flags: &[&str]) -> Sandbox {
        can_run(flags);
        let folder = tempfile::Builder::new().prefix("causeway-test-").tempdir().expect("a folder");
        let said = File::create(folder.path().join("sandbox.out")).expect("a file for its output");
        let turn = real::turn(flags);
        let mut command = Command::new(PROGRAM);
        command.arg("sandbox").args(&turn.flags).arg("--dir").arg(folder.path()).args(["--timeout", "60"]);
        command.stdin(Stdio::null()).stdout(said.try_clone().expect("the file")).stderr(said);
        let child = command.spawn().expect("the sandbox starts");
        let mut sandbox = Sandbox { child, folder: Some(folder), _turn: turn };
        sandbox.come_up().await;
        for cluster in sandbox.clusters() {
            cluster.await.pods_run().await;
        }
        sandbox
    }

    async fn come_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let ready = self.folder().join("ready");
        while !ready.exists() {
            let ended = self.child.try_wait().expect("its state");
            let late = Instant::now() > deadline;
            if ended.is_some() || late {
                panic!("the sandbox did not come up (ended: {ended:?}):\n{}", tails(self.folder()));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Where its kubeconfigs, pids and logs are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().expect("it is only taken at the end").path()
    }

    /// The sandbox's own process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The member cluster with this number, from 1.
    pub(crate) async fn cluster(&self, number: u8) -> Cluster {
        Cluster::open(self.folder(), &format!("cluster{number}")).await
    }

    /// The cluster that the others meet at.
    pub(crate) async fn broker(&self) -> Cluster {
        Cluster::open(self.folder(), "broker").await
    }

    fn clusters(&self) -> Vec<impl Future<Output = Cluster>> {
        let is_there = |n: &u8| self.folder().join(format!("cluster{n}.kubeconfig")).exists();
        (1..=9).filter(is_there).map(|n| self.cluster(n)).collect()
    }

    /// The pid of a cluster's controller right now.
    pub(crate) fn controller_pid(&self, cluster: &str) -> Option<i32> {
        let file = self.folder().join(format!("{cluster}.controller.pid"));
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    }

    /// Interrupts it and waits for its end.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        if let Some(status) = self.child.try_wait().expect("its state") {
            return Some(status);
        }
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGINT).expect("it runs");
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return Some(status);
            }
            std::thread::sleep(POLL);
        }
        self.child.kill().expect("it runs");
        self.child.wait().expect("its end");
        None
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let pid = self.child.id();
        let status = self.end();
        if std::thread::panicking() {
            if let Some(folder) = self.folder.take() {
                eprintln!("what the sandbox left to read is in {}", folder.keep().display());
            }
            return;
        }
        assert!(status.is_some(), "the sandbox did not end when interrupted");
        assert_eq!(survivors(pid), Vec::<String>::new(), "processes were left behind");
        let left = std::fs::read_dir(self.folder()).expect("its folder").flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name().into_string().expect("text")).collect();
        left.sort();
        assert_eq!(left, ["logs", "sandbox.out"], "files were left behind");
    }
}

/// What of a sandbox is still there after a moment: on a busy machine the killed take a while to die.
fn survivors(sandbox: u32) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = processes_of(sandbox);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(POLL);
    }
}

/// The command lines of all processes that carry the mark of the sandbox with this pid.
pub(crate) fn processes_of(sandbox: u32) -> Vec<String> {
    let mark = format!("{MARK}={sandbox}-");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let marked = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
    });
    let line = |path: PathBuf| std::fs::read(path.join("cmdline")).unwrap_or_default();
    marked.map(|entry| String::from_utf8_lossy(&line(entry.path())).replace('\0', " ")).collect()
}

/// The last lines of everything that a sandbox writes.
pub(super) fn tails(folder: &Path) -> String {
    let logs = std::fs::read_dir(folder.join("logs")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = logs.map(|entry| entry.path()).collect();
    files.push(folder.join("sandbox.out"));
    files.sort();
    let tail = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(25)..].join("\n");
        format!("--- the end of {}\n{last}\n", path.file_name().unwrap_or_default().display())
    };
    files.iter().map(tail).collect()
}

/// What this machine lacks to run the tests, if anything.
fn missing(flags: &[&str]) -> Option<String> {
    let runs = |tool: &str, argument: &str| {
        let run = Command::new(tool).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    let iptables = match flags.iter().position(|flag| *flag == "--iptables").map(|at| flags[at + 1]) {
        Some("legacy") => "iptables-legacy",
        Some("nft") => "iptables-nft",
        _ => "iptables",
    };
    let tools = [("ip", "-V"), (iptables, "-V"), ("ping", "-V")];
    let lacks = tools.into_iter().find(|(tool, argument)| !runs(tool, argument));
    if let Some((tool, _)) = lacks {
        return Some(format!("`{tool}` is not installed"));
    }
    if !Command::new("kubectl").args(["version", "--client"]).output().is_ok_and(|o| o.status.success()) {
        return Some("`kubectl` is not installed".into());
    }
    if let Some(missing) = real::missing() {
        return Some(missing);
    }
    let rooted = nix::unistd::geteuid().is_root() || runs("unshare", "--map-root-user");
    (!rooted).then(|| "neither root nor user namespaces".into())
}

/// Fails, and names what is missing, where a sandbox with these flags cannot run.
pub(crate) fn can_run(flags: &[&str]) {
    if let Some(missing) = missing(flags) {
        panic!("cannot test here: {missing}; `make test` installs what it can");
    }
}
