//! The API server that knows the nodes: the one in this process, or a real one by kubeconfig.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use causeway_apiserver::{Config, Server};
use causeway_controller::client::connect;
use causeway_core::leases::Mode;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Event, Node, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};

use crate::objects::{self, LABEL};

/// Names the kubeconfig of an administrator.
const GIVEN: &str = "BENCH_KUBECONFIG";
/// Writes under way at once: as fast as the server takes them.
const HANDS: usize = 32;

/// The file that leads to a real server, if one shall be used.
pub(crate) fn given() -> Option<PathBuf> {
    std::env::var_os(GIVEN).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// A cluster of nodes. One on a real server is to be ended; what it held is taken away at the latest by the next.
pub(crate) struct Cluster {
    pub(crate) address: SocketAddr,
    /// For an agent that reaches the server at its address.
    pub(crate) kubeconfig: String,
    pub(crate) client: Client,
    /// How many bytes a node has, as JSON without what the server adds.
    pub(crate) node_bytes: usize,
    embedded: Option<Server>,
}

impl Cluster {
    /// Node 0 and so many peers.
    pub(crate) async fn start(peers: u32, mode: Mode) -> anyhow::Result<Cluster> {
        let cluster = match given() {
            Some(file) => Cluster::on_real(&file)
                .await
                .with_context(|| format!("the API server of {}", file.display()))?,
            None => Cluster::embedded().await?,
        };
        let nodes = cluster.nodes();
        let put = |number| {
            let nodes = nodes.clone();
            async move {
                let node: Node = serde_json::from_value(objects::node(number, mode))?;
                nodes.create(&PostParams::default(), &node).await.map(drop).context("creating a node")
            }
        };
        stream::iter(0..=peers).map(Ok).try_for_each_concurrent(HANDS, put).await?;
        let node_bytes = serde_json::to_string(&objects::node(peers, mode))?.len();
        Ok(Cluster { node_bytes, ..cluster })
    }

    async fn embedded() -> anyhow::Result<Cluster> {
        let server = Server::start(Config::default()).await?;
        let (address, kubeconfig) = (server.address(), server.kubeconfig());
        let client = Client::new(server.router(), "default");
        Ok(Cluster { address, kubeconfig, client, node_bytes: 0, embedded: Some(server) })
    }

    async fn on_real(file: &Path) -> anyhow::Result<Cluster> {
        let kubeconfig = std::fs::read_to_string(file)?;
        let read = Kubeconfig::from_yaml(&kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let url = &config.cluster_url;
        let address = url.host().zip(url.port_u16()).map(|(host, port)| format!("{host}:{port}"));
        let address: SocketAddr = address.context("its address has no port")?.parse()?;
        ensure!(address.ip().is_loopback(), "a benchmark stays on this machine");
        let client = connect(config)?;
        let cluster = Cluster { address, kubeconfig, client, node_bytes: 0, embedded: None };
        cluster.refuse_if_in_use().await?;
        cluster.sweep().await.context("clearing it")?;
        Ok(cluster)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Which kind of server it is.
    pub(crate) fn kind(&self) -> &'static str {
        if self.embedded.is_some() { "the embedded API server" } else { "a real API server" }
    }

    async fn refuse_if_in_use(&self) -> anyhow::Result<()> {
        let nodes = self.nodes().list_metadata(&ListParams::default()).await?;
        if let Some(node) = nodes.items.iter().find(|node| !node.labels().contains_key(LABEL)) {
            bail!("it has a node {}: a benchmark wants an API server that nobody uses", node.name_any());
        }
        // One of the first things that a controller manager makes, and nobody else does.
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), "default");
        ensure!(
            accounts.get_opt("default").await?.is_none(),
            "a kube-controller-manager is at work there, which would find the nodes dead"
        );
        Ok(())
    }

    /// Takes the nodes away, and what agents said of them.
    async fn sweep(&self) -> anyhow::Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        let (nodes, at_once) = (self.nodes(), &at_once);
        let names = nodes.list_metadata(&ListParams::default().labels(LABEL)).await?.items;
        let delete = |name: String| {
            let nodes = nodes.clone();
            async move { nodes.delete(&name, at_once).await.map(drop) }
        };
        let names = names.iter().map(ResourceExt::name_any);
        stream::iter(names).map(Ok).try_for_each_concurrent(HANDS, delete).await?;
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let of_nodes = ListParams::default().fields("involvedObject.kind=Node");
        events.delete_collection(at_once, &of_nodes).await?;
        Ok(())
    }

    /// Takes everything away. Whoever used it has ended.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        match self.embedded {
            Some(_) => Ok(()),
            None => self.sweep().await.context("clearing it"),
        }
    }
}
