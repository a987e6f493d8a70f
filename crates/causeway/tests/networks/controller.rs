//! The controller as a process: started, killed, started again.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::Site;

/// How a controller is started.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    name: &'static str,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// A process. Dropping it kills it.
pub(crate) struct Controller {
    start: Start,
    folder: PathBuf,
    child: Option<Child>,
}

impl Start {
    /// Alone, with a look at the cloud every second; where that is has to be said.
    pub(crate) fn alone() -> Self {
        let start = Self { name: "controller", arguments: Vec::new(), variables: Vec::new() };
        start.with(&["--no-leader-election", "--networks-resync", "1s"])
    }

    /// One of several, for a lease of three seconds.
    pub(crate) fn replica(name: &'static str) -> Self {
        let start = Self { name, arguments: Vec::new(), variables: Vec::new() };
        start.with(&["--identity", name, "--lease-duration", "3s", "--networks-resync", "1s"])
    }

    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|&it| it.to_owned()));
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }
}

impl Site {
    /// Starts the cluster's only controller, for a Neutron that asks for no credentials.
    pub(crate) fn controller(&self) -> Controller {
        self.start(Start::alone())
    }

    /// Starts one at the site's proxy, which asks for no credentials.
    pub(crate) fn start(&self, start: Start) -> Controller {
        self.start_elsewhere(start.with(&["--neutron-url", &self.proxy.url()]))
    }

    /// Starts one that is told where the cloud is in another way.
    pub(crate) fn start_elsewhere(&self, start: Start) -> Controller {
        let mut controller = Controller { start, folder: self.folder.path().to_owned(), child: None };
        controller.start_again();
        controller
    }
}

impl Controller {
    pub(crate) fn start_again(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let log = OpenOptions::new().create(true).append(true).open(self.log()).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.args(["controller", "--enable", "networks", "--listen", "127.0.0.1:0", "--exit-with-parent"]);
        command.arg("--kubeconfig").arg(self.folder.join("kubeconfig")).args(&self.start.arguments);
        // Whoever runs the tests may have a cloud of his own.
        let theirs = std::env::vars_os().map(|(name, _)| name);
        for name in theirs.filter(|name| name.to_string_lossy().starts_with("OS_")) {
            command.env_remove(name);
        }
        command.env("HOME", &self.folder).current_dir(&self.folder);
        command.envs(self.start.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
        self.child = Some(command.spawn().expect("the controller starts"));
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("it ended");
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.start.name))
    }

    /// All that it ever printed.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// What it answers on a path, if it answers.
    pub(crate) async fn serves(&self, path: &str) -> Option<String> {
        let said = self.said();
        let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut starts = lines.filter(|line| line["message"] == "serving health and metrics");
        let address = starts.next_back()?["address"].as_str()?.to_owned();
        let ask = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.ok()?;
            Some(text)
        };
        tokio::time::timeout(Duration::from_secs(5), ask).await.ok()?
    }

    /// The value of a metric, by the beginning of its line.
    pub(crate) async fn metric(&self, line: &str) -> Option<f64> {
        let metrics = self.serves("/metrics").await?;
        let found = metrics.lines().find(|it| it.starts_with(line))?;
        found.rsplit(' ').next()?.parse().ok()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The ends of all logs in a folder.
pub(crate) fn tails(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|it| it == "log"));
    let tail = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        format!("{}:\n{}\n", path.display(), lines[lines.len().saturating_sub(40)..].join("\n"))
    };
    logs.map(tail).collect()
}
