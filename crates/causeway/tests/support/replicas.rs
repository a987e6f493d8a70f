//! Controllers of a test's own beside each other: each a process that can be stopped, killed and started again,
//! known to the API server by a user of its own.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::cluster::{Cluster, PATIENCE};

/// A replica of a cluster's controller. Dropping it kills it.
pub(crate) struct Replica {
    /// Its identity in the Lease, and its user at the API server.
    pub(crate) name: &'static str,
    kubeconfig: PathBuf,
    /// Without it the cluster says where its broker is.
    broker_kubeconfig: Option<PathBuf>,
    lease_namespace: &'static str,
    log: PathBuf,
    lease: Duration,
    process: Mutex<Option<Process>>,
}

struct Process {
    child: Child,
    /// Where its own log begins in the file.
    log_begins: u64,
}

impl Replica {
    /// Starts one. Its kubeconfigs and its log are in `folder`.
    pub(crate) fn start(
        cluster: &Cluster,
        broker: &Cluster,
        folder: &Path,
        name: &'static str,
        lease: Duration,
    ) -> Replica {
        let [kubeconfig, broker_kubeconfig] = [cluster, broker].map(|cluster| {
            let admin = std::fs::read_to_string(&cluster.kubeconfig).expect("a kubeconfig");
            let own = admin.replace("token: ", &format!("token: {name}."));
            assert_ne!(own, admin, "{}'s kubeconfig has a token", cluster.name);
            let file = folder.join(format!("{name}-{}.kubeconfig", cluster.name));
            std::fs::write(&file, own).expect("a kubeconfig is written");
            file
        });
        let replica = Replica {
            name,
            kubeconfig,
            broker_kubeconfig: Some(broker_kubeconfig),
            lease_namespace: "kube-system",
            log: folder.join(format!("{name}.log")),
            lease,
            process: Mutex::new(None),
        };
        replica.restart();
        replica
    }

    /// Starts one beside a cluster's own controller, with the same account, for the same lease.
    pub(crate) fn beside(cluster: &Cluster, folder: &Path, name: &'static str) -> Replica {
        let replica = Replica {
            name,
            kubeconfig: cluster.controller_kubeconfig(),
            broker_kubeconfig: None,
            lease_namespace: "multi-vpc-system",
            log: folder.join("logs").join(format!("{name}.log")),
            lease: Duration::from_secs(15),
            process: Mutex::new(None),
        };
        replica.restart();
        replica
    }

    /// Starts it again after its end.
    pub(crate) fn restart(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "{} still runs", self.name);
        let log = OpenOptions::new().create(true).append(true).open(&self.log).expect("a log");
        let log_begins = log.metadata().expect("its length").len();
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.args(["controller", "--enable", "vpc", "--kubeconfig"]).arg(&self.kubeconfig);
        if let Some(broker) = &self.broker_kubeconfig {
            command.arg("--broker-kubeconfig").arg(broker);
        }
        command.args(["--identity", self.name, "--listen", "127.0.0.1:0"]);
        command.args(["--lease-namespace", self.lease_namespace]);
        command.args(["--lease-duration", &format!("{}ms", self.lease.as_millis())]);
        // A command that was held up for longer than a lease is still waited for.
        command.args(["--exec-timeout", &(10 + 3 * self.lease.as_secs()).to_string()]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
        *process = Some(Process { child: command.spawn().expect("the controller starts"), log_begins });
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.process().as_ref().expect("it runs").child.id();
        kill(Pid::from_raw(pid.cast_signed()), signal).expect("it runs");
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self, cluster: &Cluster) -> ExitStatus {
        let what = format!("{} ends", self.name);
        let ended = cluster.until(&what, PATIENCE, async || {
            let state = self.process().as_mut().expect("it was started").child.try_wait();
            state.expect("its state").ok_or_else(|| "it runs".to_owned())
        });
        let status = ended.await;
        *self.process() = None;
        status
    }

    /// Waits until it says that it is ready.
    pub(crate) async fn is_ready(&self, cluster: &Cluster) {
        cluster
            .until(&format!("{} is ready", self.name), PATIENCE, async || {
                if self.says_it_is_ready().await == Some(true) { Ok(()) } else { Err(self.tail()) }
            })
            .await;
    }

    /// Whether it says that it is ready; none when it does not answer.
    pub(crate) async fn says_it_is_ready(&self) -> Option<bool> {
        self.get("/readyz").await.map(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// Whether it says that it leads; none when it does not answer.
    pub(crate) async fn says_it_leads(&self) -> Option<bool> {
        let metrics = self.get("/metrics").await?;
        let line = metrics.lines().find(|line| line.starts_with("causeway_leader{room=\"vpc\"}"));
        line.map(|line| line.ends_with(" 1"))
    }

    async fn get(&self, path: &str) -> Option<String> {
        let address = self.address()?;
        let ask = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.ok()?;
            Some(text)
        };
        tokio::time::timeout(Duration::from_millis(500), ask).await.ok()?
    }

    /// Where it serves, by its log.
    fn address(&self) -> Option<String> {
        let begins = self.process().as_ref()?.log_begins;
        let text = read_from(&self.log, begins);
        let lines = text.lines().take(50).filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut starts = lines.filter(|line| line["message"] == "serving health and metrics");
        starts.find_map(|line| Some(line["address"].as_str()?.to_owned()))
    }

    /// The last lines of its log.
    pub(crate) fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

fn read_from(path: &Path, begins: u64) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(begins))?;
        file.take(64 * 1024).read_to_end(&mut text)
    });
    read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(mut process) = self.process().take() {
            // Also one that is stopped.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
