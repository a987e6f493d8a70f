//! The order in which the sandbox comes up, and goes.
//!
//! API servers, underlay and routers start at once; the clusters are then filled side by side,
//! tunnels included, and the controllers start on what is there. Nothing waits for a pod: all
//! parts work from present state, in whatever order the rest arrives.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_controller::words::describe;
use futures::future::{join_all, try_join_all};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::addresses::{Cluster, MAX_CLUSTERS, Role};
use super::arrivals::{exchanged, talk, tunnels_of};
use super::controllers::{Controller, Rooms};
use super::demo::Stage;
use super::folder::Folder;
use super::marks::{self, kill_marked};
use super::measure::{self, Measurement};
use super::nat::Variant;
use super::networks::{Cloud, Networks};
use super::nodes::{Nodes, Running, Shape};
use super::progress::Progress;
use super::report::{Report, TunnelReport};
use super::rules::{self, Ports, Rules};
use super::site::{Broker, Site, Source, Tasks};
use super::start_time::{millis, since_process_start};
use super::submariner;
use super::topology::{Fabric, Underlay};
use super::tunnel::{self, Placed};
use super::{Args, NodesBackend, apply, dns};

const POLL: Duration = Duration::from_millis(25);
/// How long a tunnel may say it is not ready after packets have crossed it.
const STATUS_LAG: Duration = Duration::from_secs(15);
const FAREWELL: Duration = Duration::from_secs(5);

/// Everything that runs.
pub(super) struct Sandbox {
    pub(super) progress: Progress,
    name: String,
    sites: Vec<Site>,
    broker: Option<Broker>,
    tasks: Tasks,
    controllers: Tasks,
    stop: CancellationToken,
    /// Whether there may be something to take down.
    begun: bool,
    /// Index of the cluster to call from cluster1, when there is a tunnel.
    far: Option<usize>,
    /// The data planes, when rules were asked for.
    rules: Option<Rules>,
    /// Nodes with agents, when they were asked for.
    nodes: Option<Nodes>,
    /// Networks and whoever lives on them, when they were asked for.
    networks: Option<Networks>,
}

impl Sandbox {
    pub(super) fn new(name: String, progress: Progress) -> Sandbox {
        Sandbox {
            progress,
            name,
            sites: Vec::new(),
            broker: None,
            tasks: JoinSet::new(),
            controllers: JoinSet::new(),
            stop: CancellationToken::new(),
            begun: false,
            far: None,
            rules: None,
            nodes: None,
            networks: None,
        }
    }

    /// Whether there may be something to take down.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Starts everything; what it does then is its own business.
    pub(super) async fn build(&mut self, args: &Args, folder: &Folder) -> anyhow::Result<()> {
        let (sources, meeting) = sources(args)?;
        let clusters = Cluster::first(u8::try_from(sources.len()).unwrap_or(u8::MAX));
        let placed = match &args.apply {
            Some(file) => tunnel::from_file(file, &clusters)?,
            None if args.bare || args.measure.is_some() => Vec::new(),
            None => args.demo.map_or_else(|| tunnel::demo(&clusters), |demo| demo.tunnels(&clusters)),
        };
        self.far = (!placed.is_empty()).then(|| tunnel::far_end(&placed));
        self.begun = true;
        let path = folder.path();
        let mut networks = match Cloud::asked(args) {
            Some(cloud) => Some(Networks::create(cloud, &clusters, path).await?),
            None => None,
        };
        self.progress.stage("starting API servers, underlay and VPC routers");
        let rooms = Rooms { dns: args.dns, rules: args.rules, networks: networks.is_some() };
        let start = |(cluster, source)| Site::start(cluster, source, &self.name, path, &args.kubelet, rooms);
        let sites = try_join_all(clusters.iter().copied().zip(&sources).map(start));
        let (broker, mut sites, fabrics) =
            tokio::try_join!(Broker::start(&meeting, path), sites, fabrics(args, &clusters, folder))?;
        self.progress.done(&format!("{} API servers and {} routers", sites.len() + 1, fabrics.len()));
        self.progress.stage("filling the clusters");
        for (site, fabric) in sites.iter_mut().zip(fabrics) {
            site.play(Arc::new(fabric), &mut self.tasks);
        }
        // From here on what they hold is taken down with the rest.
        self.sites = sites;
        let (sites, broker) = (&self.sites, &*self.broker.insert(broker));
        let fill = |(at, site)| fill(at, site, &clusters, &placed, broker);
        try_join_all(sites.iter().enumerate().map(fill)).await?;
        if args.rules {
            rules::install(sites).await?;
        }
        if args.dns {
            dns::install(sites, args.bare).await?;
        }
        if let Some(networks) = &mut networks {
            networks.declare(sites, &mut self.tasks).await?;
        }
        self.networks = networks;
        for (at, object) in placed {
            place(&sites[at], object).await?;
        }
        self.progress.done("kube-ovn's and Submariner's objects, and the tunnels if there are any");
        let ports =
            if args.rules { (0..clusters.len()).map(Ports::choose).collect() } else { Ok(Vec::new()) };
        let ports: Vec<Ports> = ports?;
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        self.start_controllers(&program, folder, &ports, args.dns);
        if args.rules {
            self.rules = Some(Rules::start(&self.sites, &ports, &self.progress));
        }
        if let Some(count) = args.nodes {
            let running = Running {
                program: &program,
                sandbox: &self.name,
                folder,
                progress: &self.progress,
                stop: &self.stop,
                agents: &mut self.controllers,
                relays: &mut self.tasks,
            };
            let shape = |backend: &NodesBackend| Shape { count, backend: *backend, ipv6: args.nodes_ipv6 };
            let shapes = args.nodes_backend.iter().map(shape).cycle();
            self.nodes = Some(Nodes::start(self.sites.iter().zip(shapes).collect(), running).await?);
        }
        Ok(())
    }

    fn start_controllers(&mut self, program: &Path, folder: &Folder, ports: &[Ports], dns: bool) {
        for (at, site) in self.sites.iter().enumerate() {
            let (kubeconfig, lease_namespace) = site.controller(folder.path());
            let controller = Controller {
                cluster: site.cluster,
                program: program.to_owned(),
                kubeconfig,
                lease_namespace,
                dns,
                rules: ports.get(at).cloned(),
                networks: self.networks.as_ref().map(|networks| networks.flags(site.cluster)),
                folder: folder.path().to_owned(),
                sandbox: self.name.clone(),
            };
            self.controllers.spawn(controller.supervise(self.stop.clone(), self.progress.clone()));
        }
    }

    /// Waits for what was asked for, at most `patience`, and says what came of it.
    pub(super) async fn prove(&mut self, patience: Duration, folder: &Folder) -> anyhow::Result<Report> {
        let mut report = Report::new(folder.path());
        report.clusters = self.sites.iter().map(|site| site.report(folder.path())).collect();
        let (sites, far) = (&self.sites, self.far);
        let work = async {
            match far {
                Some(far) => talk(sites, far, &self.progress, &mut report).await,
                None => {
                    self.progress.stage("waiting for the controllers to exchange their gateways");
                    exchanged(sites).await
                }
            }
        };
        let rules = async {
            match &self.rules {
                Some(rules) => rules.prove(patience, &self.progress).await,
                None => (Vec::new(), Ok(())),
            }
        };
        let nodes = async {
            match &self.nodes {
                Some(nodes) => nodes.prove(patience, &self.progress).await,
                None => (Vec::new(), Ok(())),
            }
        };
        let networks = async {
            match &self.networks {
                Some(networks) => networks.prove(patience, &self.progress).await,
                None => (Vec::new(), Ok(())),
            }
        };
        let all = async {
            let done = match timeout(patience, work).await {
                Ok(done) => done,
                Err(_) if far.is_some() => Err(anyhow::anyhow!("no packet came back within {patience:?}")),
                Err(_) => Err(anyhow::anyhow!("the gateways were not exchanged within {patience:?}")),
            };
            (done, rules.await, networks.await, nodes.await)
        };
        let (outcome, (seen, distributed), (made, kept), (reached, mended)) = tokio::select! {
            all = all => all,
            error = broken(&mut self.tasks) => return Err(error),
            error = broken(&mut self.controllers) => return Err(error),
        };
        report.rules = seen;
        report.nodes = reached;
        report.networks = made;
        report.tunnels = self.tunnels(outcome.is_ok()).await;
        let outcome = outcome.and(distributed).and(kept).and(mended);
        let hint = "what went on is in its logs/ (--dir keeps them)";
        report.reason = outcome.err().map(|error| format!("{}; {hint}", describe(error.as_ref())));
        if report.reason.is_none() && report.proof.as_ref().is_some_and(|proof| !proof.holds()) {
            report.reason = Some("packets crossed, but not all of them or not as they should".into());
        }
        let silent = report.tunnels.iter().find(|tunnel| !tunnel.ready);
        if let Some(tunnel) = silent.filter(|_| report.reason.is_none()) {
            report.reason = Some(format!(
                "packets crossed, but {} of {} does not say that it is ready",
                tunnel.name, tunnel.cluster
            ));
        }
        report.ready = report.reason.is_none();
        report.elapsed_ms = millis(since_process_start());
        Ok(report)
    }

    /// Measures new tunnels, one after another, while everything else goes on.
    pub(super) async fn measure(&mut self, rounds: u16, patience: Duration) -> anyhow::Result<Measurement> {
        tokio::select! {
            measured = measure::run(&self.sites, rounds, patience, &self.progress) => measured,
            error = broken(&mut self.tasks) => Err(error),
            error = broken(&mut self.controllers) => Err(error),
        }
    }

    /// Has something shown on it, while everything else goes on.
    pub(super) async fn show<T>(
        &mut self,
        patience: Duration,
        folder: &Folder,
        what: impl AsyncFnOnce(&Stage<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let broker = self.broker.as_ref().context("there is no broker")?;
        let (sites, progress) = (&self.sites, &self.progress);
        let stage = Stage { sites, broker, folder: folder.path(), patience, progress };
        tokio::select! {
            shown = what(&stage) => shown,
            error = broken(&mut self.tasks) => Err(error),
            error = broken(&mut self.controllers) => Err(error),
        }
    }

    /// Every tunnel of every cluster. After a proof their status is given a moment to follow.
    async fn tunnels(&self, proved: bool) -> Vec<TunnelReport> {
        let deadline = Instant::now() + if proved { STATUS_LAG } else { Duration::ZERO };
        loop {
            let lists = join_all(self.sites.iter().map(tunnels_of)).await;
            let tunnels: Vec<TunnelReport> = lists.into_iter().flatten().collect();
            if tunnels.iter().all(|tunnel| tunnel.ready) || Instant::now() >= deadline {
                return tunnels;
            }
            sleep(POLL).await;
        }
    }

    /// Waits for a part to end that must not.
    pub(super) async fn first_failure(&mut self) -> anyhow::Error {
        tokio::select! {
            error = broken(&mut self.tasks) => error,
            error = broken(&mut self.controllers) => error,
        }
    }

    /// Takes everything down: controllers first, while their API servers still answer.
    pub(super) async fn end(&mut self) {
        if let Some(rules) = self.rules.take() {
            rules.end().await;
        }
        if let Some(networks) = &self.networks {
            networks.leave(&self.progress).await;
        }
        self.stop.cancel();
        let _ = timeout(FAREWELL, async { while self.controllers.join_next().await.is_some() {} }).await;
        self.controllers.shutdown().await;
        self.tasks.shutdown().await;
        for site in &self.sites {
            for pod in Role::ALL.into_iter().filter_map(|role| site.running.remove(role)) {
                pod.ended.cancel();
            }
        }
        kill_marked(marks::SANDBOX, &self.name);
        let members = join_all(self.sites.drain(..).map(Site::shutdown));
        let broker = async {
            if let Some(broker) = self.broker.take() {
                broker.shutdown().await;
            }
        };
        let _ = timeout(FAREWELL, async { tokio::join!(members, broker) }).await;
    }
}

/// Where the members' API servers come from, and the broker's.
fn sources(args: &Args) -> anyhow::Result<(Vec<Source>, Source)> {
    let Some((broker, members)) = args.kubeconfig.split_last() else {
        return Ok((vec![Source::Embedded; usize::from(args.clusters)], Source::Embedded));
    };
    let most = usize::from(MAX_CLUSTERS);
    let enough = (2..=most).contains(&members.len());
    anyhow::ensure!(enough, "--kubeconfig wants 2 to {most} clusters' and then the broker's");
    Ok((members.iter().cloned().map(Source::Given).collect(), Source::Given(broker.clone())))
}

async fn fabrics(args: &Args, clusters: &[Cluster], folder: &Folder) -> anyhow::Result<Vec<Fabric>> {
    let lock = folder.path().join("pods").join("xtables.lock");
    let (variant, underlay) = tokio::try_join!(Variant::choose(args.iptables, &lock), Underlay::create())?;
    let underlay = Arc::new(underlay);
    let all = clusters
        .iter()
        .map(|cluster| Fabric::create(*cluster, underlay.clone(), variant, folder.pods(&cluster.id())));
    Ok(try_join_all(all).await?)
}

async fn fill(
    at: usize,
    site: &Site,
    clusters: &[Cluster],
    placed: &[Placed],
    broker: &Broker,
) -> anyhow::Result<()> {
    let others = clusters.iter().copied().filter(|other| *other != site.cluster);
    let ways: Vec<_> = others.map(|other| (other, tunnel::way_out(placed, at, other))).collect();
    site.populate(&ways, &broker.access(site.cluster).await?).await
}

/// Puts an object of a manifest into a cluster; its namespace comes with it.
async fn place(site: &Site, object: Value) -> anyhow::Result<()> {
    if let Some(namespace) = object.pointer("/metadata/namespace").and_then(Value::as_str) {
        apply::one(&site.client, submariner::namespace(namespace)).await?;
    }
    apply::one(&site.client, object).await.map(drop).with_context(|| site.cluster.id())
}

/// Waits for a task that must not end to do so, and says why.
async fn broken(tasks: &mut Tasks) -> anyhow::Error {
    match tasks.join_next().await {
        Some(Ok(Ok(()))) => anyhow::anyhow!("a part of the sandbox ended"),
        Some(Ok(Err(error))) => error,
        Some(Err(error)) => anyhow::Error::new(error).context("a part of the sandbox ended"),
        None => std::future::pending().await,
    }
}
