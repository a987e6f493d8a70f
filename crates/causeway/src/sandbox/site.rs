//! One member cluster: its API server, its network, and those parts of a cluster that we play.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use causeway_apiserver::{Config, Faults, Server};
use causeway_controller::words::describe;
use ipnet::Ipv4Net;
use kube::Client;
use tokio::task::JoinSet;

use super::addresses::{Cluster, Gateway};
use super::apply;
use super::controllers::{Rooms, kubeconfig};
use super::exec::PodExec;
use super::exec_log::ExecLog;
use super::given::{self, Given, StandIn};
use super::kubelet::Kubelet;
use super::kubeovn;
use super::pod_status;
use super::report::{ClusterReport, GatewayReport};
use super::running::RunningPods;
use super::submariner::{self, BROKER, BrokerAccess};
use super::topology::Fabric;
use super::vpc;
use super::workloads::Sets;

/// Tasks that must not end by themselves; when one does, the sandbox says why and ends.
pub(super) type Tasks = JoinSet<anyhow::Result<()>>;

/// Where an API server comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// We run it.
    Embedded,
    /// Somebody else does; this kubeconfig leads to it.
    Given(PathBuf),
}

enum ApiServer {
    Embedded(Server),
    Given(Given),
}

impl ApiServer {
    fn url(&self) -> String {
        match self {
            ApiServer::Embedded(server) => server.url(),
            ApiServer::Given(given) => given.url.clone(),
        }
    }

    async fn shutdown(self) {
        match self {
            ApiServer::Embedded(server) => server.shutdown().await,
            ApiServer::Given(given) => {
                if let Err(error) = given.sweep().await {
                    tracing::warn!(error = describe(error.as_ref()), "a given API server is left as it is");
                }
            }
        }
    }
}

/// A member cluster.
pub(super) struct Site {
    pub(super) cluster: Cluster,
    pub(super) client: Client,
    pub(super) running: RunningPods,
    server: ApiServer,
    exec: Arc<PodExec>,
    /// Its network, once the parts that we play have begun.
    fabric: Option<Arc<Fabric>>,
    stand_in: Option<StandIn>,
    kubelet_port: Option<u16>,
}

/// Where the members meet: an API server and nothing else.
pub(super) struct Broker {
    server: ApiServer,
    client: Client,
}

impl Broker {
    /// Starts the broker's API server, or prepares a given one.
    pub(super) async fn start(source: &Source, folder: &Path) -> anyhow::Result<Broker> {
        let (server, client) = match source {
            Source::Embedded => serve("broker", None, folder).await?,
            Source::Given(file) => connect("broker", file, folder).await?,
        };
        let (crds, namespaces) = tokio::join!(
            apply::crds(&client, causeway_api::vpc::crds()),
            apply::all(&client, submariner::broker_namespaces()),
        );
        crds.and(namespaces).context("the broker")?;
        if let ApiServer::Given(given) = &server {
            given.admit_members().await.context("the broker")?;
        }
        Ok(Broker { server, client })
    }

    /// What a member gets to know of it.
    pub(super) async fn access(&self, member: Cluster) -> anyhow::Result<BrokerAccess> {
        match &self.server {
            ApiServer::Embedded(server) => Ok(BrokerAccess {
                server: server.url().trim_start_matches("https://").to_owned(),
                token: server.token().to_owned(),
                ca_pem: server.ca_pem().to_owned(),
            }),
            ApiServer::Given(given) => given.access(&member.id(), BROKER).await.context("the broker"),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What can be made to go wrong with it, where the server is one of ours.
    pub(super) fn faults(&self) -> Option<Faults> {
        match &self.server {
            ApiServer::Embedded(server) => Some(server.faults()),
            ApiServer::Given(_) => None,
        }
    }

    pub(super) async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

impl Site {
    /// Starts the cluster's API server, or prepares a given one: all CRDs and namespaces but no objects yet.
    pub(super) async fn start(
        cluster: Cluster,
        source: &Source,
        sandbox: &str,
        folder: &Path,
        kubelet: &Path,
        rooms: Rooms,
    ) -> anyhow::Result<Site> {
        let running = RunningPods::default();
        let log = ExecLog::open(folder, &cluster.id()).context("the log of commands")?;
        let exec = Arc::new(PodExec::new(sandbox, running.clone(), log));
        let (server, client) = match source {
            Source::Embedded => serve(&cluster.id(), Some(exec.clone()), folder).await?,
            Source::Given(file) => connect(&cluster.id(), file, folder).await?,
        };
        exec.connect(client.clone());
        let mut definitions = causeway_api::vpc::crds();
        definitions.extend(causeway_api::vpc::foreign::crds());
        let (crds, namespaces) = tokio::join!(
            apply::crds(&client, definitions),
            apply::all(&client, submariner::member_namespaces()),
        );
        crds.and(namespaces).with_context(|| cluster.id())?;
        let stand_in = match &server {
            ApiServer::Embedded(_) => None,
            ApiServer::Given(given) => {
                given.admit_controller(rooms).await.with_context(|| cluster.id())?;
                Some(StandIn::start(kubelet, cluster, sandbox, folder).await?)
            }
        };
        let kubelet_port = stand_in.as_ref().map(|stand_in| stand_in.port);
        Ok(Site { cluster, client, running, server, exec, fabric: None, stand_in, kubelet_port })
    }

    /// Fills the cluster with what kube-ovn and Submariner would hold there. `ways` are the other
    /// clusters and the gateways that lead to them.
    pub(super) async fn populate(
        &self,
        ways: &[(Cluster, Gateway)],
        broker: &BrokerAccess,
    ) -> anyhow::Result<()> {
        let members = ways.iter().map(|(other, _)| *other).chain([self.cluster]);
        let mut objects = kubeovn::objects(self.cluster, ways);
        objects.extend(submariner::objects(self.cluster, members, broker));
        objects.push(submariner::node(self.cluster, self.kubelet_port, &pod_status::now()));
        apply::all(&self.client, objects).await.with_context(|| self.cluster.id())
    }

    /// Starts the parts we play: kubelet, VPC router, and where there is nobody else, the StatefulSet controller.
    pub(super) fn play(&mut self, fabric: Arc<Fabric>, tasks: &mut Tasks) {
        let sets = match &self.server {
            ApiServer::Embedded(_) => Sets::Ours,
            ApiServer::Given(_) => Sets::Theirs,
        };
        self.fabric = Some(fabric.clone());
        let kubelet = Kubelet::new(self.client.clone(), fabric.clone(), self.running.clone(), sets);
        tasks.spawn(kubelet.run());
        tasks.spawn(vpc::keep_routes(self.client.clone(), fabric));
        if let Some(stand_in) = self.stand_in.take() {
            tasks.spawn(stand_in.run(self.exec.clone()));
            tasks.spawn(given::keep_alive(self.client.clone(), self.cluster));
        }
    }

    /// Its network, once the parts that we play have begun.
    pub(super) fn fabric(&self) -> Option<&Fabric> {
        self.fabric.as_deref()
    }

    /// Waits until the VPC's router leads a range to an address, and says when that was seen.
    pub(super) async fn led(&self, range: Ipv4Net, hop: Ipv4Addr) -> anyhow::Result<Instant> {
        let fabric = self.fabric.as_ref().context("there is no router yet")?;
        fabric.led().subscribe().wait_for(|routes| routes.get(&range) == Some(&hop)).await?;
        Ok(Instant::now())
    }

    /// The kubeconfig of its controller, and where that keeps its lease.
    pub(super) fn controller(&self, folder: &Path) -> (PathBuf, Option<&'static str>) {
        let id = self.cluster.id();
        match &self.server {
            ApiServer::Embedded(_) => (kubeconfig(folder, &id), None),
            ApiServer::Given(_) => (given::controller_kubeconfig(folder, &id), Some(given::LEASE_NAMESPACE)),
        }
    }

    /// Where its API server listens, if that is one of ours.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match &self.server {
            ApiServer::Embedded(server) => Some(server.address()),
            ApiServer::Given(_) => None,
        }
    }

    /// For the table of what is up.
    pub(super) fn report(&self, folder: &Path) -> ClusterReport {
        let cluster = self.cluster;
        let gateway = |gateway: Gateway| GatewayReport {
            name: gateway.name().into(),
            address: cluster.external(gateway).to_string(),
        };
        ClusterReport {
            name: cluster.id(),
            server: self.server.url(),
            kubeconfig: kubeconfig(folder, &cluster.id()),
            globalnet: cluster.globalnet().to_string(),
            server_address: cluster.server_global().to_string(),
            gateways: Gateway::ALL.map(gateway).to_vec(),
        }
    }

    pub(super) async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

/// Starts an API server and writes its kubeconfig. The parts we play reach it without a socket.
async fn serve(name: &str, exec: Option<Arc<PodExec>>, folder: &Path) -> anyhow::Result<(ApiServer, Client)> {
    let what = || format!("the API server of {name}");
    let exec = exec.map(|exec| exec as Arc<dyn causeway_apiserver::Exec>);
    let config = Config { name: name.into(), listen: ([127, 0, 0, 1], 0).into(), exec, ..Config::default() };
    let server = Server::start(config).await.with_context(what)?;
    server.write_kubeconfig(&kubeconfig(folder, name)).with_context(what)?;
    let client = Client::new(server.router(), "default");
    Ok((ApiServer::Embedded(server), client))
}

async fn connect(name: &str, file: &Path, folder: &Path) -> anyhow::Result<(ApiServer, Client)> {
    let given = Given::connect(name, file, folder).await?;
    let client = given.client.clone();
    Ok((ApiServer::Given(given), client))
}
