//! A cluster with gateways and imported records, on the API server in this process or on a real one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use causeway_api::vpc::{GatewayExIp, VpcNatTunnel};
use causeway_apiserver::{Config, Exec, RequestCount, Server};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::apply;
use crate::objects::{self, NAMESPACE, SYSTEM};
use crate::real::{self, Real};
use crate::shape::{self, Shape};

/// Writes under way at once: as fast as the server takes them.
const HANDS: usize = 32;

/// The cluster. One on a real server is to be ended; what it held is taken away at the latest by the next.
pub(crate) struct Cluster {
    server: ApiServer,
    client: Client,
    kubeconfig: PathBuf,
    shape: Shape,
}

enum ApiServer {
    Embedded(Server),
    Real(Box<Real>),
}

/// How often the controller asked for what, and with which outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests(BTreeMap<(String, u16), u64>);

impl Requests {
    /// Those of kinds and outcomes that `wanted` picks.
    fn count(&self, wanted: impl Fn(&str, u16) -> bool) -> u64 {
        self.0.iter().filter(|((what, code), _)| wanted(what, *code)).map(|(_, count)| count).sum()
    }

    /// Everything, execs included.
    pub(crate) fn all(&self) -> u64 {
        self.count(|_, _| true)
    }

    pub(crate) fn execs(&self) -> u64 {
        self.count(|what, _| what.ends_with("/exec"))
    }

    /// Answered with 409: somebody else was faster.
    pub(crate) fn conflicts(&self) -> u64 {
        self.count(|_, code| code == 409)
    }

    /// What was asked for, and how often, most first.
    pub(crate) fn kinds(&self) -> Vec<(String, u64)> {
        let kind = |((what, code), count): (&(String, u16), &u64)| (format!("{what} {code}"), *count);
        let mut kinds: Vec<_> = self.0.iter().map(kind).filter(|(_, count)| *count > 0).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        kinds
    }

    /// What was asked for since then.
    pub(crate) fn since(&self, before: &Requests) -> Requests {
        let past = |key| before.0.get(key).copied().unwrap_or_default();
        Requests(self.0.iter().map(|(key, count)| (key.clone(), count - past(key))).collect())
    }
}

impl Cluster {
    /// Fills a server with what kube-ovn would have put there. The controller's kubeconfig is in
    /// the folder.
    pub(crate) async fn start(exec: Arc<dyn Exec>, folder: &Path, shape: Shape) -> anyhow::Result<Cluster> {
        let cluster = match real::given() {
            Some(file) => Cluster::on_real(&file, exec, folder, shape).await?,
            None => Cluster::embedded(exec, folder, shape).await?,
        };
        cluster.fill().await?;
        Ok(cluster)
    }

    async fn embedded(exec: Arc<dyn Exec>, folder: &Path, shape: Shape) -> anyhow::Result<Cluster> {
        // Watches that begin in the past remember every tunnel's changes.
        let config = Config { name: "c1".into(), exec: Some(exec), history: 100_000, ..Config::default() };
        let server = Server::start(config).await?;
        let kubeconfig = folder.join("kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let client = Client::new(server.router(), "default");
        Ok(Cluster { server: ApiServer::Embedded(server), client, kubeconfig, shape })
    }

    async fn on_real(
        file: &Path,
        exec: Arc<dyn Exec>,
        folder: &Path,
        shape: Shape,
    ) -> anyhow::Result<Cluster> {
        let what = || format!("the API server of {}", file.display());
        let real = Real::prepare(file, exec, folder).await.with_context(what)?;
        let (client, kubeconfig) = (real.client.clone(), real.kubeconfig.clone());
        Ok(Cluster { server: ApiServer::Real(Box::new(real)), client, kubeconfig, shape })
    }

    async fn fill(&self) -> anyhow::Result<()> {
        let definitions = causeway_api::vpc::crds().into_iter().chain(causeway_api::vpc::foreign::crds());
        apply::crds(&self.client, definitions.collect()).await?;
        apply::one(&self.client, objects::namespace(NAMESPACE)).await?;
        let kubelet = match &self.server {
            ApiServer::Embedded(_) => None,
            ApiServer::Real(real) => Some(real.kubelet_port()),
        };
        self.put(objects::all(self.shape, kubelet)).await
    }

    /// Puts objects there, many at once.
    pub(crate) async fn put(&self, objects: Vec<Value>) -> anyhow::Result<()> {
        put(&self.client, objects).await
    }

    /// Takes everything away. Whoever used it has ended.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        match self.server {
            ApiServer::Embedded(_) => Ok(()),
            ApiServer::Real(real) => real.end().await,
        }
    }

    /// Where the controller keeps a lease, if it shall have one.
    pub(crate) fn lease_namespace(&self) -> Option<&'static str> {
        match self.server {
            ApiServer::Embedded(_) => None,
            ApiServer::Real(_) => Some(Real::lease_namespace()),
        }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn tunnels(&self) -> Api<VpcNatTunnel> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Waits until so many records of others have come home.
    pub(crate) async fn came_home(&self, records: usize) -> anyhow::Result<()> {
        let api = Api::<GatewayExIp>::namespaced(self.client.clone(), SYSTEM);
        let others = ListParams::default().labels("localCluster!=c1");
        while api.list_metadata(&others).await?.items.len() < records {
            sleep(Duration::from_millis(250)).await;
        }
        Ok(())
    }

    /// Waits until the controller has published every gateway: it has seen them and works.
    pub(crate) async fn published(&self) -> anyhow::Result<()> {
        let records = Api::<GatewayExIp>::namespaced(self.client.clone(), SYSTEM);
        let own = ListParams::default().labels("localCluster=c1");
        while records.list(&own).await?.items.len() < self.shape.gateways {
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Creates the tunnels as fast as possible and waits until all are ready.
    pub(crate) async fn create(&self, tunnels: Range<usize>) -> anyhow::Result<()> {
        let api = self.tunnels();
        let mut waiting: BTreeSet<String> = tunnels.clone().map(shape::name).collect();
        let create = |number| {
            let (api, object) = (api.clone(), objects::tunnel(number, self.shape));
            async move {
                api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
                anyhow::Ok(())
            }
        };
        let creates = stream::iter(tunnels).map(Ok).try_for_each_concurrent(HANDS, create);
        let all_ready = self.follow(watcher::Config::default(), |event| {
            if let Event::Apply(object) | Event::InitApply(object) = event
                && is_ready(&object)
            {
                waiting.remove(&object.name_any());
            }
            waiting.is_empty()
        });
        tokio::try_join!(creates, all_ready).map(drop)
    }

    /// What a tunnel says of itself.
    pub(crate) async fn status(&self, number: usize) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self.tunnels().get(&shape::name(number)).await?.status)?)
    }

    /// Writes what a controller writes of so many tunnels, and nobody does anything: each is created, gets a
    /// finalizer and a status.
    pub(crate) async fn write_alone(&self, tunnels: Range<usize>, status: &Value) -> anyhow::Result<()> {
        let (api, merge) = (&self.tunnels(), PatchParams::default());
        let finalizer = &Patch::Merge(json!({"metadata": {"finalizers": ["bench.causeway/alone"]}}));
        let status = &Patch::Merge(json!({"status": status}));
        let write = async |number| {
            let (name, object) = (shape::name(number), objects::tunnel(number, self.shape));
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            api.patch(&name, &merge, finalizer).await?;
            api.patch_status(&name, &merge, status).await?;
            anyhow::Ok(())
        };
        stream::iter(tunnels).map(Ok).try_for_each_concurrent(HANDS, write).await
    }

    /// Changes the address on a tunnel's link to the other end's, or back, and waits until that is ready.
    pub(crate) async fn change(&self, number: usize, end: usize) -> anyhow::Result<()> {
        let (name, (_, peer)) = (shape::name(number), self.shape.ends(number));
        let address = shape::interface(peer, end);
        let patch = Patch::Merge(json!({"spec": {"interfaceAddr": address}}));
        self.tunnels().patch(&name, &PatchParams::default(), &patch).await?;
        let this_one = watcher::Config::default().fields(&format!("metadata.name={name}"));
        self.follow(this_one, |event| match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let status = object.status.as_ref();
                is_ready(&object)
                    && status.and_then(|status| status.observed_generation) == object.metadata.generation
                    && status.and_then(|status| status.interface_addr.as_ref()) == Some(&address)
            }
            Event::Init | Event::InitDone | Event::Delete(_) => false,
        })
        .await
    }

    /// Puts a new pod in place of a gateway's; it does not run yet.
    pub(crate) async fn replace_pod(&self, gateway: usize) -> anyhow::Result<()> {
        let (api, name) = (self.pods(), shape::pod(gateway));
        api.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        while api.get_opt(&name).await?.is_some() {
            sleep(Duration::from_millis(10)).await;
        }
        api.create(&PostParams::default(), &serde_json::from_value(objects::pod(gateway))?).await?;
        Ok(())
    }

    /// Says that a gateway's pod runs.
    pub(crate) async fn run_pod(&self, gateway: usize) -> anyhow::Result<()> {
        let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
        self.pods().patch_status(&shape::pod(gateway), &PatchParams::default(), &running).await?;
        Ok(())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    /// Deletes all tunnels as fast as possible and waits until they are gone.
    pub(crate) async fn delete(&self, tunnels: Range<usize>) -> anyhow::Result<()> {
        let api = self.tunnels();
        let mut waiting: BTreeSet<String> = tunnels.clone().map(shape::name).collect();
        let mut seen = BTreeSet::new();
        let delete = |number| {
            let api = api.clone();
            async move {
                api.delete(&shape::name(number), &DeleteParams::default()).await?;
                anyhow::Ok(())
            }
        };
        let deletes = stream::iter(tunnels).map(Ok).try_for_each_concurrent(HANDS, delete);
        let all_gone = self.follow(watcher::Config::default(), |event| {
            match event {
                Event::InitApply(object) => drop(seen.insert(object.name_any())),
                // What went before the first list was complete.
                Event::InitDone => waiting.retain(|name| seen.contains(name)),
                Event::Delete(object) => drop(waiting.remove(&object.name_any())),
                Event::Init | Event::Apply(_) => {}
            }
            waiting.is_empty()
        });
        tokio::try_join!(all_gone, deletes).map(drop)
    }

    /// Watches tunnels until `enough` says so.
    async fn follow(
        &self,
        which: watcher::Config,
        mut enough: impl FnMut(Event<VpcNatTunnel>) -> bool,
    ) -> anyhow::Result<()> {
        let mut events = std::pin::pin!(watcher(self.tunnels(), which));
        while let Some(event) = events.next().await {
            if enough(event?) {
                return Ok(());
            }
        }
        bail!("the watch ended")
    }

    /// What the controller asked for so far: everything but our own writes of tunnels, and what we watch.
    pub(crate) async fn requests(&self) -> anyhow::Result<Requests> {
        let ours = |count: &RequestCount| match count.resource.as_str() {
            "vpcnattunnels" => matches!(count.verb.as_str(), "create" | "delete" | "list" | "watch"),
            "events" => matches!(count.verb.as_str(), "list" | "watch"),
            _ => false,
        };
        let all = match &self.server {
            ApiServer::Embedded(server) => server.requests(),
            ApiServer::Real(real) => real.requests().await?,
        };
        let mut requests = Requests::default();
        for RequestCount { verb, resource, subresource, code, count } in
            all.into_iter().filter(|count| !ours(count))
        {
            let slash = if subresource.is_empty() { "" } else { "/" };
            *requests.0.entry((format!("{verb} {resource}{slash}{subresource}"), code)).or_default() += count;
        }
        Ok(requests)
    }
}

/// Puts objects into a cluster, many at once.
pub(crate) async fn put(client: &Client, objects: Vec<Value>) -> anyhow::Result<()> {
    let put = |object| async { apply::one(client, object).await.map(drop) };
    stream::iter(objects).map(Ok).try_for_each_concurrent(HANDS, put).await
}

pub(crate) fn is_ready(tunnel: &VpcNatTunnel) -> bool {
    let conditions = tunnel.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
