//! A server's process: its folder, its port, its life.

use std::fs::OpenOptions;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use tempfile::TempDir;

use super::Api;

/// How long anything may take that should take some seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Neutron or Keystone. Dropping it kills it.
pub(super) struct Server {
    name: &'static str,
    port: u16,
    arguments: Vec<String>,
    child: Option<Child>,
    folder: TempDir,
}

impl Server {
    /// One that does not run yet.
    pub(super) fn new(name: &'static str) -> Self {
        let folder = tempfile::Builder::new().prefix(&format!("causeway-{name}-")).tempdir();
        Self {
            name,
            port: free_port(),
            arguments: Vec::new(),
            child: None,
            folder: folder.expect("a folder"),
        }
    }

    /// What `serve.py` is told of it at its next start.
    pub(super) fn set_arguments(&mut self, arguments: Vec<String>) {
        self.arguments = arguments;
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it, also again after its end, and waits until it answers on a path with a status.
    pub(super) async fn start(&mut self, path: &str, status: u16) {
        assert!(self.child.is_none(), "{} runs", self.name);
        self.child = Some(self.spawn());
        let api = Api::new(self.url());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = match api.ask(Method::GET, path, &[], None).await {
                Ok(answer) if answer.status == status => return,
                Ok(answer) => format!("{answer:?}"),
                Err(error) => error,
            };
            let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("its state"));
            assert!(ended.is_none(), "{} ended: {ended:?}\n{}", self.name, self.said());
            assert!(Instant::now() < deadline, "{} answers {seen}\n{}", self.name, self.said());
            tokio::time::sleep(POLL).await;
        }
    }

    fn spawn(&self) -> Child {
        let log = OpenOptions::new().create(true).append(true).open(self.output()).expect("a log");
        let mut command = Command::new(provided().join("venv/bin/python"));
        command.arg(project().join("hack/neutron/serve.py")).arg(self.name);
        command.arg("--folder").arg(self.folder.path());
        command.args(["--port", &self.port.to_string(), "--parent", &std::process::id().to_string()]);
        command.args(&self.arguments);
        // The servers are here, whatever proxy this machine has.
        command.env("no_proxy", "127.0.0.1");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
        command.spawn().expect("python starts")
    }

    /// Kills it; what it has stays.
    pub(super) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    /// The end of what it printed and logged.
    fn said(&self) -> String {
        let log = self.folder.path().join(format!("{}.log", self.name));
        let tail = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(30)..].join("\n")
        };
        format!("{}\n{}", tail(&self.output()), tail(&log))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A port that nobody listens on, below those that outgoing connections get: a server that is restarted finds it free again.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 1000).unwrap_or_default() * 20;
    let next = || 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    std::iter::repeat_with(next).take(1000).find(is_free).expect("a port")
}

/// The root of this project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `hack/neutron.sh` made.
fn provided() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let asked = Command::new(project().join("hack/neutron.sh")).arg("--have").output().expect("bash");
        assert!(asked.status.success(), "there is no Neutron here: `hack/setup.sh test` makes one");
        PathBuf::from(String::from_utf8(asked.stdout).expect("a path").trim_end())
    })
}
