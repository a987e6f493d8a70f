//! A cluster, its controller, and the way to its cloud.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use causeway_api::networks::{LooseNetwork, Network, crds};
use causeway_apiserver::{Config, Server};
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::cloud::{Proxy, Request};
use crate::{AT_ONCE, cost};

/// How long anything may take that goes on.
const LIMIT: Duration = Duration::from_secs(3600);
const POLL: Duration = Duration::from_millis(200);

pub(crate) struct Site {
    client: Client,
    folder: TempDir,
    pub(crate) proxy: Proxy,
    /// It lives as long as this.
    _server: Server,
}

/// The controller. Killed when dropped.
pub(crate) struct Controller(Child);

impl Site {
    pub(crate) async fn new(neutron: &str) -> anyhow::Result<Self> {
        let server = Server::start(Config::default()).await?;
        let config = Kubeconfig::from_yaml(&server.kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in crds() {
            definitions.create(&PostParams::default(), &crd).await?;
        }
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig())?;
        Ok(Self { client, folder, proxy: Proxy::start(neutron).await, _server: server })
    }

    pub(crate) fn start(&self, resync: Duration) -> anyhow::Result<Controller> {
        let program = std::env::var_os("BENCH_CONTROLLER");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_causeway").into());
        let log = std::fs::File::create(self.folder.path().join("log"))?;
        let mut command = Command::new(program);
        command.args(["controller", "--enable", "networks", "--no-leader-election", "--exit-with-parent"]);
        command.args(["--listen", "127.0.0.1:0", "--neutron-url", &self.proxy.url()]);
        command.args(["--networks-resync", &format!("{}s", resync.as_secs())]);
        command.args(["--networks-workers", &AT_ONCE.to_string()]);
        command.arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        Ok(Controller(command.spawn().context("the controller")?))
    }

    /// Creates so many objects, each with a range of its own.
    pub(crate) async fn declare(&self, networks: usize) -> anyhow::Result<()> {
        ensure!(networks <= 1 << 16, "there are no ranges for more");
        let api: Api<Network> = Api::namespaced(self.client.clone(), "default");
        let create = |number: usize| {
            let api = api.clone();
            async move {
                let cidr = format!("10.{}.{}.0/24", number / 256, number % 256);
                let spec = serde_json::from_value(json!({ "cidr": cidr }))?;
                api.create(&PostParams::default(), &Network::new(&format!("n{number}"), spec)).await?;
                anyhow::Ok(())
            }
        };
        let mut all = futures::stream::iter(0..networks).map(create).buffer_unordered(AT_ONCE);
        while let Some(created) = all.next().await {
            created?;
        }
        Ok(())
    }

    /// Waits until all say that they are ready.
    pub(crate) async fn all_ready(&self, networks: usize) -> anyhow::Result<()> {
        let api: Api<LooseNetwork> = Api::all(self.client.clone());
        let deadline = Instant::now() + LIMIT;
        loop {
            let all = api.list(&ListParams::default()).await?;
            let is_ready = |it: &&LooseNetwork| {
                let conditions = it.status().conditions;
                conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
            };
            let ready = all.items.iter().filter(is_ready).count();
            if ready == networks {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("only {ready} of {networks} are ready");
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Controller {
    /// Waits until so many looks at the whole cloud have begun; gives the instants.
    pub(crate) async fn looks(&self, site: &Site, count: usize) -> anyhow::Result<Vec<Instant>> {
        let since = Instant::now();
        let begins = |it: &Request| {
            let is_first = it.path.contains("/networks?") && !it.path.contains("marker=");
            is_first && it.path.contains("tags=causeway-home") && it.at > since
        };
        while since.elapsed() < LIMIT {
            let requests = site.proxy.requests();
            let looks: Vec<_> = requests.iter().filter(|it| begins(it)).map(|it| it.at).collect();
            if looks.len() >= count {
                return Ok(looks);
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("the cloud is not looked at")
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.0.id().context("the controller has ended")?)?))
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cost::process(self.pid()?)
    }

    /// The memory that it holds.
    pub(crate) fn memory_mib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no memory")?;
        Ok(line.trim_end_matches("kB").trim().parse::<f64>()? / 1024.0)
    }
}
