//! Networks in the sandbox: each cluster declares two, and its controller makes them, as bridges in a network namespace of
//! the sandbox's own, or in a real Neutron.
//!
//! [`declared`] says what is declared, [`hosts`] attaches hosts to bridges, [`neutron`] asks whether there is one and leaves
//! nothing in it, and [`report`] says what came of it.

mod declared;
mod hosts;
mod neutron;
mod report;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::networks::LooseNetwork;
use futures::future::{join_all, try_join_all};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout_at};

pub(super) use report::NetworksReport;

use super::Args;
use super::addresses::Cluster;
use super::apply;
use super::matrix::Lines;
use super::progress::Progress;
use super::site::{Site, Tasks};
use declared::{Declared, NAMESPACE};
use hosts::Bridges;
use report::{HostReport, NetworkReport};

/// How often the controllers look at the cloud as a whole: whoever breaks something here wants to see it mended.
const RESYNC: &str = "5s";
const POLL: Duration = Duration::from_millis(50);
/// How often is asked until whoever should be reached answers for the first time.
const PACE: Duration = Duration::from_millis(20);
/// How many echoes each that should reach another is to have.
const ECHOES: u64 = 100;

/// Where networks are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cloud {
    Bridge,
    /// The address of one that asks for no credentials.
    Neutron(String),
}

impl Cloud {
    /// The one that was asked for.
    pub(super) fn asked(args: &Args) -> Option<Cloud> {
        match &args.neutron {
            Some(url) => Some(Cloud::Neutron(url.clone())),
            None => args.networks.then_some(Cloud::Bridge),
        }
    }
}

/// The networks of all clusters.
pub(super) struct Networks {
    cloud: Cloud,
    clusters: Vec<Group>,
}

/// Those of one cluster.
struct Group {
    cluster: Cluster,
    /// None where there is a cloud.
    bridges: Option<Arc<Bridges>>,
    /// Of its API server, once it is there.
    client: Option<Client>,
}

impl Networks {
    /// Makes sure that there is a cloud: a Neutron that answers, or a network namespace for each cluster's bridges.
    pub(super) async fn create(
        cloud: Cloud,
        clusters: &[Cluster],
        folder: &Path,
    ) -> anyhow::Result<Networks> {
        if let Cloud::Neutron(url) = &cloud {
            neutron::check(url).await?;
        }
        let group = |cluster: &Cluster| {
            let (cluster, is_bridge) = (*cluster, cloud == Cloud::Bridge);
            async move {
                let bridges = if is_bridge { Some(Bridges::create(cluster, folder).await?) } else { None };
                anyhow::Ok(Group { cluster, bridges: bridges.map(Arc::new), client: None })
            }
        };
        let clusters = try_join_all(clusters.iter().map(group)).await.context("the clusters' networks")?;
        Ok(Networks { cloud, clusters })
    }

    /// Installs the definition, which a sandbox without networks does not have, and declares networks. From then on hosts
    /// are attached to the bridges that come.
    pub(super) async fn declare(&mut self, sites: &[Site], tasks: &mut Tasks) -> anyhow::Result<()> {
        let declare = |site: &Site| {
            let (client, cluster) = (site.client.clone(), site.cluster);
            async move {
                apply::crds(&client, causeway_api::networks::crds()).await.with_context(|| cluster.id())?;
                let objects = declared::ALL.map(Declared::object).to_vec();
                apply::all(&client, objects).await.with_context(|| cluster.id())
            }
        };
        try_join_all(sites.iter().map(declare)).await?;
        for (group, site) in self.clusters.iter_mut().zip(sites) {
            if let Some(bridges) = &group.bridges {
                tasks.spawn(hosts::keep_attached(site.client.clone(), bridges.clone()));
            }
            group.client = Some(site.client.clone());
        }
        Ok(())
    }

    /// What the controller of a cluster is told beside `--enable`.
    pub(super) fn flags(&self, cluster: Cluster) -> Vec<OsString> {
        let group = self.clusters.iter().find(|group| group.cluster == cluster);
        let bridges = group.and_then(|group| group.bridges.as_ref());
        let own: Vec<String> = match (&self.cloud, bridges) {
            (Cloud::Bridge, bridges) => {
                let namespace = bridges.map(|bridges| ["--bridge-namespace".into(), bridges.path()]);
                let provider = ["--provider".to_owned(), "bridge".into()];
                provider.into_iter().chain(namespace.into_iter().flatten()).collect()
            }
            (Cloud::Neutron(url), _) => {
                vec!["--neutron-url".into(), url.clone(), "--cluster-id".into(), cluster.id()]
            }
        };
        let resync = ["--networks-resync".to_owned(), RESYNC.into()];
        own.into_iter().chain(resync).map(Into::into).collect()
    }

    /// Waits until all are ready, and shows who reaches whom. The error says what is not as it should be.
    pub(super) async fn prove(
        &self,
        patience: Duration,
        progress: &Progress,
    ) -> (Vec<NetworksReport>, anyhow::Result<()>) {
        progress.stage("waiting for the networks");
        let deadline = Instant::now() + patience;
        let prove = |group: &'_ Group| {
            let mut report = group.report(&self.cloud);
            let (cluster, bridges, client) = (group.cluster, group.bridges.clone(), group.client.clone());
            async move {
                let proved = prove(client, bridges.as_deref(), deadline, &mut report).await;
                (report, proved.with_context(|| format!("the networks of {cluster}")))
            }
        };
        let (mut reports, mut outcome) = (Vec::new(), Ok(()));
        for (report, proved) in join_all(self.clusters.iter().map(prove)).await {
            reports.push(report);
            outcome = outcome.and(proved);
        }
        if outcome.is_ok() {
            progress.done(match self.cloud {
                Cloud::Bridge => "every host reaches its own network and no other",
                Cloud::Neutron(_) => "Neutron holds every network",
            });
        }
        (reports, outcome)
    }

    /// Leaves nothing in a cloud that goes on without the sandbox; call it while the controllers run.
    pub(super) async fn leave(&self, progress: &Progress) {
        let Cloud::Neutron(url) = &self.cloud else { return };
        progress.stage("deleting the networks in Neutron");
        let clients = self.clusters.iter().filter_map(|group| group.client.clone()).collect();
        let left = neutron::clear(clients).await;
        if !left.is_empty() {
            let ids = left.join(" ");
            progress.note(&format!("left in Neutron ({url}): {ids}; `openstack network delete {ids}`"));
        }
    }
}

impl Group {
    fn report(&self, cloud: &Cloud) -> NetworksReport {
        let hosts = self.bridges.iter().flat_map(|bridges| &bridges.hosts);
        let host = |host: &hosts::Host| HostReport {
            name: host.name.into(),
            network: host.network.name.into(),
            address: host.address,
            namespace_file: host.file.clone(),
        };
        NetworksReport {
            cluster: self.cluster.id(),
            provider: match cloud {
                Cloud::Bridge => "bridge".into(),
                Cloud::Neutron(_) => "neutron".into(),
            },
            neutron: match cloud {
                Cloud::Bridge => None,
                Cloud::Neutron(url) => Some(url.clone()),
            },
            bridges_file: self.bridges.as_ref().map(|bridges| bridges.file.clone()),
            hosts: hosts.map(host).collect(),
            ..NetworksReport::default()
        }
    }
}

async fn prove(
    client: Option<Client>,
    bridges: Option<&Bridges>,
    deadline: Instant,
    report: &mut NetworksReport,
) -> anyhow::Result<()> {
    let client = client.context("they were never declared")?;
    for network in declared::ALL {
        report.networks.push(ready(&client, network, deadline).await?);
    }
    let Some(bridges) = bridges else { return Ok(()) };
    let within =
        |own: bool| bridges.ways().into_iter().filter(move |(_, is_own)| *is_own == own).map(|(way, _)| way);
    let mut lines = Lines::open(within(true)).await?;
    // Who has not answered by then is named below.
    let _ = timeout_at(deadline, lines.until_full(PACE)).await;
    let (own, others) = (lines.matrix().await, Lines::open(within(false)).await?.matrix().await);
    (report.sent, report.received) = lines.count(ECHOES).await;
    report.crossed = bridges.crossed();
    let checked = own.check();
    report.reached = Some(own);
    let reached = others.answered();
    report.apart = Some(others);
    checked?;
    anyhow::ensure!(reached.is_empty(), "one network reaches another: {}", reached.join(", "));
    anyhow::ensure!(report.crossed == 0, "{} packets came from one network to another", report.crossed);
    let (sent, received) = (report.sent, report.received);
    anyhow::ensure!(sent == received, "{received} of {sent} echoes came back");
    Ok(())
}

/// Waits until an object says that its network is there.
async fn ready(client: &Client, network: Declared, deadline: Instant) -> anyhow::Result<NetworkReport> {
    let api = Api::<LooseNetwork>::namespaced(client.clone(), NAMESPACE);
    let name = network.name;
    loop {
        let seen = api.get(name).await.with_context(|| format!("network {name}"))?;
        let seen = NetworkReport::read(&seen);
        if seen.ready {
            return Ok(seen);
        }
        if Instant::now() >= deadline {
            bail!("network {name} is not ready: {}", seen.message);
        }
        sleep(POLL).await;
    }
}
