//! Nodes in the sandbox: each cluster gets some, with a pod on each and a real `causeway node` beside it.
//!
//! ```text
//!   pod 10.244.1.10            pod 10.244.2.10
//!     │                          │
//!   worker1 (cni0 .1)          worker2            … each with an agent, which puts the routes to the others
//!     └ eth0 192.168.7.1 ─ nodes ─┘ 192.168.7.2
//! ```
//!
//! The agents put the routes straight over the switch, or through a VXLAN that they make on it.
//!
//! [`network`] lays the cables, [`relay`] leads an agent to its API server, [`Lines`] sends the packets and [`fault`]
//! breaks and mends. Clusters share nothing here, so all of them use the same addresses.

mod fault;
mod network;
mod relay;
mod report;
mod shape;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use causeway_core::Family;
use futures::future::try_join_all;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

pub(super) use report::NodesReport;
pub(crate) use shape::Backend;
pub(super) use shape::Shape;

use super::addresses::Cluster;
use super::apply;
use super::folder::Folder;
use super::matrix::Lines;
use super::nat;
use super::pod_status;
use super::progress::Progress;
use super::site::{Site, Tasks};
use super::start_time::since_process_start;
use super::supervise::{Process, log_file};
use super::tools;
use network::{NodeNet, Place, Switch, ways};
use report::NodeReport;

/// Most nodes that a cluster gets.
pub(super) const MOST: u8 = 9;
/// How often is asked until everybody answers for the first time: the agents are still starting.
const AT_START: Duration = Duration::from_millis(20);
/// And after a fault, where every millisecond is told.
const AT_REPAIR: Duration = Duration::from_millis(1);

/// What runs the agents.
pub(super) struct Running<'a> {
    pub(super) program: &'a Path,
    pub(super) sandbox: &'a str,
    pub(super) folder: &'a Folder,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a CancellationToken,
    /// Where the agents go, which are to end while their API servers answer.
    pub(super) agents: &'a mut Tasks,
    /// Where their ways to the API servers go.
    pub(super) relays: &'a mut Tasks,
}

/// The nodes of all clusters.
pub(super) struct Nodes {
    clusters: Vec<Group>,
}

/// The nodes of one cluster.
struct Group {
    cluster: Cluster,
    shape: Shape,
    nodes: Vec<NodeNet>,
    folder: PathBuf,
    sandbox: String,
    _switch: Switch,
}

impl Nodes {
    /// Makes nodes in every cluster and starts their agents.
    pub(super) async fn start(sites: Vec<(&Site, Shape)>, mut running: Running<'_>) -> anyhow::Result<Nodes> {
        running.progress.stage("making nodes");
        let build = |(site, shape): &(&Site, Shape)| {
            let (client, cluster) = (site.client.clone(), site.cluster);
            let shape = *shape;
            async move {
                let now = pod_status::now();
                let places = Place::first(shape.count);
                let objects = places.map(|place| place.object(shape.families(), &now)).collect();
                let (objects, built) =
                    tokio::join!(apply::all(&client, objects), Switch::build(cluster, shape));
                objects.and(built.map_err(Into::into)).with_context(|| format!("the nodes of {cluster}"))
            }
        };
        let built = try_join_all(sites.iter().map(build)).await?;
        let mut clusters = Vec::new();
        for ((site, shape), (switch, nodes)) in sites.into_iter().zip(built) {
            for node in &nodes {
                start_agent(site, node, shape, &mut running).await?;
            }
            let (folder, sandbox) = (running.folder.path().to_owned(), running.sandbox.to_owned());
            clusters.push(Group { cluster: site.cluster, shape, nodes, folder, sandbox, _switch: switch });
        }
        let count: usize = clusters.iter().map(|group| group.nodes.len()).sum();
        running.progress.done(&format!("{count} nodes and their agents"));
        Ok(Nodes { clusters })
    }

    /// Shows who reaches whom, before, during and after a fault of one node in each cluster. The error says whom nobody
    /// reached.
    pub(super) async fn prove(
        &self,
        patience: Duration,
        progress: &Progress,
    ) -> (Vec<NodesReport>, anyhow::Result<()>) {
        let deadline = Instant::now() + patience;
        let (mut reports, mut outcome) = (Vec::new(), Ok(()));
        // One after another: the repair of one is not to wait for a processor that another has.
        for group in &self.clusters {
            progress.stage(&format!("breaking and mending a node of {}", group.cluster));
            let mut report = group.report();
            let proved = group.prove(deadline, patience, &mut report).await;
            outcome = outcome.and(proved.with_context(|| format!("the nodes of {}", group.cluster)));
            reports.push(report);
        }
        if outcome.is_ok() {
            progress.done("every pod on a node reaches every other, also after a fault");
        }
        (reports, outcome)
    }
}

impl Group {
    /// The nodes may take until `deadline` to come up, and `patience` to be mended.
    async fn prove(
        &self,
        deadline: Instant,
        patience: Duration,
        report: &mut NodesReport,
    ) -> anyhow::Result<()> {
        let families = self.shape.families();
        let first = self.nodes.first().context("there are none")?;
        let mut lines = Lines::open(ways(&self.nodes, families)).await?;
        let all = timeout_at(deadline, lines.until_full(AT_START)).await;
        report.reached_ms =
            all.is_ok().then(|| u64::try_from(since_process_start().as_millis()).unwrap_or(u64::MAX));
        let before = report.before.insert(lines.matrix().await);
        before.check().context("before the fault")?;

        let halted = fault::halt(&pid_file(&self.folder, self.cluster, first.place), &self.sandbox).await?;
        report.flushed = fault::flush_routes(&first.node, families).await?;
        // New ones: an answer that comes to these was sent after the fault.
        let mut lines = Lines::open(ways(&self.nodes, families)).await?;
        let broken = report.broken.insert(lines.matrix().await);
        anyhow::ensure!(
            broken.check().is_err(),
            "without the routes of {} all is as before",
            first.place.name()
        );

        let mut lines = Lines::open(ways(&self.nodes, families)).await?;
        let resumed = halted.resume();
        if timeout(patience, lines.until_full(AT_REPAIR)).await.is_ok() {
            report.repaired_ms = Some(report::tenths(resumed.elapsed()));
        }
        let after = report.after.insert(lines.matrix().await);
        after.check().context("after the fault")
    }

    fn report(&self) -> NodesReport {
        let node = |node: &NodeNet| NodeReport {
            name: node.place.name(),
            address: node.place.address().of(Family::V4),
            subnet: node.place.subnet(Family::V4),
            pod: node.place.pod().of(Family::V4),
            pid_file: pid_file(&self.folder, self.cluster, node.place),
        };
        NodesReport {
            cluster: self.cluster.id(),
            backend: self.shape.backend.name().into(),
            ipv6: self.shape.ipv6,
            nodes: self.nodes.iter().map(node).collect(),
            ..NodesReport::default()
        }
    }
}

fn pid_file(folder: &Path, cluster: Cluster, place: Place) -> PathBuf {
    folder.join(format!("{cluster}.{}.pid", place.name()))
}

/// Opens the way to the API server and starts the agent; then both are on their own.
async fn start_agent(
    site: &Site,
    node: &NodeNet,
    shape: Shape,
    running: &mut Running<'_>,
) -> anyhow::Result<()> {
    let (cluster, name) = (site.cluster, node.place.name());
    let server = site.address().context("nodes want an API server of the sandbox's own")?;
    let listener = relay::listen(&node.node, server.port()).await?;
    running.relays.spawn(relay::run(listener, server));
    let files = running.folder.pods(&cluster.id()).join(&name);
    tokio::fs::create_dir_all(&files).await.context("cannot make the node's folder")?;
    let config = files.join("net-conf.json");
    tokio::fs::write(&config, shape.configuration().to_string())
        .await
        .context("cannot write the node's configuration")?;
    let folder = running.folder.path();
    let (kubeconfig, _) = site.controller(folder);
    let mut args: Vec<OsString> = vec!["node".into(), "--kubeconfig-file".into(), kubeconfig.into()];
    args.extend(["--net-config-path".into(), config.into()]);
    args.extend(["--subnet-file".into(), files.join("subnet.env").into()]);
    let constant = ["--iface", "eth0", "--ip-masq=false", "--healthz-port", "0", "--exit-with-parent"];
    args.extend(constant.map(Into::into));
    let agent = Process {
        title: format!("the agent of {cluster}'s {name}"),
        program: running.program.to_owned(),
        args,
        env: vec![
            ("NODE_NAME", name.clone().into()),
            ("PATH", tools::path().into()),
            (nat::LOCK, files.join("xtables.lock").into()),
        ],
        namespace: Some(node.node.clone()),
        log: log_file(folder, &format!("{cluster}-{name}")),
        pid_file: pid_file(folder, cluster, node.place),
        hold: folder.join(format!("{cluster}.{name}.hold")),
        sandbox: running.sandbox.to_owned(),
    };
    running.agents.spawn(agent.supervise(running.stop.clone(), running.progress.clone()));
    Ok(())
}
