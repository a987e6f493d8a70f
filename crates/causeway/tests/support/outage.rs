//! Parts of a real control plane taken away and brought back, whatever becomes of the test meanwhile.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kube::api::ListParams;
use kube::core::Request;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::{Cluster, PATIENCE};
use super::real;

pub(crate) const API_SERVER: &str = "kube-apiserver";
pub(crate) const ETCD: &str = "etcd";

/// A process of a control plane, by the files that `hack/control-plane.sh` wrote for it.
#[derive(Clone)]
struct Component {
    folder: PathBuf,
    name: &'static str,
}

impl Component {
    fn of(cluster: &Cluster, name: &'static str) -> Component {
        Component { folder: real::needed().join(&cluster.name), name }
    }

    fn signal(&self, signal: Signal) {
        let file = self.folder.join(format!("{}.pid", self.name));
        let pid: i32 = std::fs::read_to_string(file).expect("its pid").trim().parse().expect("a number");
        kill(Pid::from_raw(pid), signal).expect("it runs");
        if signal == Signal::SIGKILL {
            let deadline = Instant::now() + PATIENCE;
            while kill(Pid::from_raw(pid), None).is_ok() {
                assert!(Instant::now() < deadline, "{} does not die", self.name);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Not as a child of this process, which ends before it.
    fn start(&self) {
        let mut command = Command::new("setsid");
        command.arg("--fork").arg(self.folder.join(format!("{}.run", self.name)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("setsid").success());
    }
}

/// A part that is away; dropping this brings it back.
pub(crate) struct Outage {
    component: Component,
    frozen: bool,
}

impl Outage {
    /// Kills a part of a cluster's control plane.
    pub(crate) fn kill(cluster: &Cluster, component: &'static str) -> Outage {
        let component = Component::of(cluster, component);
        component.signal(Signal::SIGKILL);
        Outage { component, frozen: false }
    }

    /// Stops it in its tracks: connections stay, and nothing answers.
    pub(crate) fn freeze(cluster: &Cluster, component: &'static str) -> Outage {
        let component = Component::of(cluster, component);
        component.signal(Signal::SIGSTOP);
        Outage { component, frozen: true }
    }

    /// Brings it back and waits until the cluster's API server is ready.
    pub(crate) async fn end(self, cluster: &Cluster) {
        drop(self);
        cluster
            .until("its API server is ready", 2 * PATIENCE, async || {
                let request = Request::new("/readyz").list(&ListParams::default()).expect("a path");
                let asked =
                    tokio::time::timeout(Duration::from_secs(5), cluster.client.request_text(request));
                match asked.await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err("no answer".to_owned()),
                }
            })
            .await;
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if self.frozen {
            self.component.signal(Signal::SIGCONT);
        } else {
            self.component.start();
        }
    }
}
