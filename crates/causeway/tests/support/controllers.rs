//! The controllers as processes: taken away, brought back, and asked what they did.

use std::time::Duration;

use kube::api::ListParams;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::cluster::{Cluster, PATIENCE};
use super::sandbox::Sandbox;

/// A controller that has come up, by the address of its metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controller {
    address: String,
}

impl Sandbox {
    /// Sends a signal to a cluster's controller and waits until the next one has looked at every gateway.
    pub(crate) async fn restart(&self, cluster: &Cluster, signal: Signal) -> Controller {
        let starts = starts(cluster).len();
        self.signal(cluster, signal);
        come_up(cluster, starts).await
    }

    /// Kills a cluster's controller and keeps it away.
    pub(crate) async fn hold(&self, cluster: &Cluster) {
        self.hold_by(cluster, Signal::SIGKILL).await;
    }

    /// Ends a cluster's controller by a signal and keeps it away.
    pub(crate) async fn hold_by(&self, cluster: &Cluster, signal: Signal) {
        std::fs::write(self.hold_file(cluster), "").expect("the file is written");
        self.signal(cluster, signal);
        cluster
            .until("its controller is gone", PATIENCE, async || match self.controller_pid(&cluster.name) {
                None => Ok(()),
                Some(pid) => Err(format!("pid {pid}")),
            })
            .await;
    }

    /// Lets the controller come back, and waits until it has looked at every gateway.
    pub(crate) async fn release(&self, cluster: &Cluster) -> Controller {
        let starts = starts(cluster).len();
        self.let_go(cluster);
        come_up(cluster, starts).await
    }

    /// Lets the controller come back.
    pub(crate) fn let_go(&self, cluster: &Cluster) {
        std::fs::remove_file(self.hold_file(cluster)).expect("the file is there");
    }

    fn signal(&self, cluster: &Cluster, signal: Signal) {
        let pid = self.controller_pid(&cluster.name).expect("its controller runs");
        kill(Pid::from_raw(pid), signal).expect("its controller runs");
    }

    fn hold_file(&self, cluster: &Cluster) -> std::path::PathBuf {
        self.folder().join(format!("{}.hold", cluster.name))
    }
}

impl Cluster {
    /// The controller that runs now, once it has looked at every gateway.
    pub(crate) async fn controller(&self) -> Controller {
        come_up(self, starts(self).len().saturating_sub(1)).await
    }

    /// How often the API server was asked for what, by verb, resource and subresource.
    pub(crate) async fn requests(&self) -> std::collections::BTreeMap<String, u64> {
        if let Some(folder) = super::real::folder() {
            return super::real::requests(&folder, &self.name);
        }
        // Not with kubectl, which sends more requests than are wanted here.
        let request = kube::core::Request::new("/metrics").list(&ListParams::default());
        let text = self.client.request_text(request.expect("a path")).await.expect("metrics");
        let mut all = std::collections::BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("apiserver_request_total")) {
            let label = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}=\"")).expect("the label");
                rest.split('"').next().expect("its value").to_owned()
            };
            let what = [label("verb"), label("resource"), label("subresource")].join(" ").trim().to_owned();
            let count: u64 = line.rsplit(' ').next().expect("a count").parse().expect("a number");
            *all.entry(what).or_default() += count;
        }
        all
    }
}

impl Controller {
    /// How many commands it has run in gateways: `observe`, `apply` or `monitor`.
    pub(crate) async fn execs(&self, command: &str) -> u64 {
        let label = format!("command=\"{command}\"");
        let text = self.metrics().await.unwrap_or_default();
        let lines =
            text.lines().filter(|line| line.starts_with("causeway_vpc_execs_total") && line.contains(&label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// The series of a tunnel by their names, each with its value.
    pub(crate) async fn series(&self, tunnel: &str) -> std::collections::BTreeMap<String, f64> {
        let text = self.metrics().await.unwrap_or_default();
        let label = format!("tunnel=\"{tunnel}\"");
        let series = text.lines().filter(|line| line.contains(&label)).filter_map(|line| {
            let (name, _) = line.split_once('{')?;
            Some((name.to_owned(), line.rsplit(' ').next()?.parse().ok()?))
        });
        series.collect()
    }

    async fn metrics(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
        let mut text = String::new();
        tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut text)).await??;
        Ok(text)
    }
}

/// Every controller that ever started in a cluster, by what it logged.
fn starts(cluster: &Cluster) -> Vec<Controller> {
    let log = cluster.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let starts = lines.filter(|line| line["message"] == "serving health and metrics");
    starts.filter_map(|line| Some(Controller { address: line["address"].as_str()?.to_owned() })).collect()
}

/// Waits for the controller after the first `before`, until it has looked at both gateways.
async fn come_up(cluster: &Cluster, before: usize) -> Controller {
    let started = async || starts(cluster).into_iter().nth(before).ok_or("none has started".to_owned());
    let controller = cluster.until("a new controller", PATIENCE, started).await;
    let looked = async || match controller.execs("observe").await {
        0 | 1 => Err("not both gateways were looked at".to_owned()),
        _ => Ok(()),
    };
    cluster.until("the new controller looks at every gateway", PATIENCE, looked).await;
    controller
}
