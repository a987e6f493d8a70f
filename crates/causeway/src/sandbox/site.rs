//! One member cluster: its API server, its network, and those parts of a cluster that we play.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use causeway_apiserver::{Config, Server};
use kube::Client;
use tokio::task::JoinSet;

use super::addresses::{Cluster, Gateway};
use super::apply;
use super::controllers::kubeconfig;
use super::exec::PodExec;
use super::kubelet::Kubelet;
use super::kubeovn;
use super::pod_status;
use super::report::ClusterReport;
use super::running::RunningPods;
use super::submariner::{self, BrokerAccess};
use super::topology::Fabric;
use super::vpc;

/// Tasks that must not end by themselves; when one does, the sandbox says why and ends.
pub(super) type Tasks = JoinSet<anyhow::Result<()>>;

/// A member cluster.
pub(super) struct Site {
    pub(super) cluster: Cluster,
    pub(super) client: Client,
    pub(super) running: RunningPods,
    server: Server,
}

/// Where the members meet: an API server and nothing else.
pub(super) struct Broker {
    server: Server,
}

impl Broker {
    /// Starts the broker's API server.
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Broker> {
        let (server, client) = serve("broker", None, folder).await?;
        let (crds, namespaces) = tokio::join!(
            apply::crds(&client, causeway_api::crds()),
            apply::all(&client, submariner::broker_namespaces()),
        );
        crds.and(namespaces).context("the broker")?;
        Ok(Broker { server })
    }

    /// What members are told about it.
    pub(super) fn access(&self) -> BrokerAccess {
        BrokerAccess {
            server: self.server.url().trim_start_matches("https://").to_owned(),
            token: self.server.token().to_owned(),
            ca_pem: self.server.ca_pem().to_owned(),
        }
    }

    pub(super) async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

impl Site {
    /// Starts the cluster's API server, with all CRDs and namespaces but no objects yet.
    pub(super) async fn start(cluster: Cluster, sandbox: &str, folder: &Path) -> anyhow::Result<Site> {
        let running = RunningPods::default();
        let exec = Arc::new(PodExec::new(sandbox, running.clone()));
        let (server, client) = serve(&cluster.id(), Some(exec.clone()), folder).await?;
        exec.connect(client.clone());
        let mut definitions = causeway_api::crds();
        definitions.extend(causeway_api::foreign::crds());
        let (crds, namespaces) = tokio::join!(
            apply::crds(&client, definitions),
            apply::all(&client, submariner::member_namespaces()),
        );
        crds.and(namespaces).with_context(|| cluster.id())?;
        Ok(Site { cluster, client, running, server })
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
        objects.push(submariner::node(self.cluster, &pod_status::now()));
        apply::all(&self.client, objects).await.with_context(|| self.cluster.id())
    }

    /// Starts the parts we play: kubelet, StatefulSet controller, VPC router.
    pub(super) fn play(&self, fabric: Arc<Fabric>, tasks: &mut Tasks) {
        let kubelet = Kubelet::new(self.client.clone(), fabric.clone(), self.running.clone());
        tasks.spawn(kubelet.run());
        tasks.spawn(vpc::keep_routes(self.client.clone(), fabric));
    }

    /// For the table of what is up.
    pub(super) fn report(&self, folder: &Path) -> ClusterReport {
        let cluster = self.cluster;
        let gateway = |gateway: Gateway| format!("{} {}", gateway.name(), cluster.external(gateway));
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
async fn serve(name: &str, exec: Option<Arc<PodExec>>, folder: &Path) -> anyhow::Result<(Server, Client)> {
    let what = || format!("the API server of {name}");
    let exec = exec.map(|exec| exec as Arc<dyn causeway_apiserver::Exec>);
    let config = Config { name: name.into(), listen: ([127, 0, 0, 1], 0).into(), exec, ..Config::default() };
    let server = Server::start(config).await.with_context(what)?;
    server.write_kubeconfig(&kubeconfig(folder, name)).with_context(what)?;
    let client = Client::new(server.router(), "default");
    Ok((server, client))
}
