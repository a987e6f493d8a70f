//! A cluster with gateways and imported records, on the API server in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use causeway_api::{GatewayExIp, VpcNatTunnel};
use causeway_apiserver::{Config, RequestCount, Server};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::exec::GatewayExec;
use crate::gateways::addresses;

/// Where the tunnels are.
const NAMESPACE: &str = "ns1";
const SYSTEM: &str = "kube-system";
const PROVIDER: &str = "ovn-vpc-external-network.kube-system";
/// Writes under way at once: as fast as the server takes them.
const HANDS: usize = 32;

/// The cluster; it ends with this value.
pub(crate) struct Cluster {
    server: Server,
    client: Client,
    kubeconfig: PathBuf,
    exec: Arc<GatewayExec>,
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
    /// Starts the server and fills it with what kube-ovn and the exchange would have put there.
    pub(crate) async fn start(
        exec: Arc<GatewayExec>,
        gateways: usize,
        peers: usize,
    ) -> anyhow::Result<Cluster> {
        let config = Config { name: "c1".into(), exec: Some(exec.clone()), ..Config::default() };
        let server = Server::start(config).await?;
        let kubeconfig = exec.folder().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let client = Client::new(server.router(), "default");
        let cluster = Cluster { server, client, kubeconfig, exec };
        let crds = Api::<CustomResourceDefinition>::all(cluster.client.clone());
        for crd in causeway_api::crds().into_iter().chain(causeway_api::foreign::crds()) {
            crds.create(&PostParams::default(), &crd).await.with_context(|| crd.name_any())?;
        }
        for object in objects(gateways, peers) {
            cluster.put(&object).await.with_context(|| object.to_string())?;
        }
        Ok(cluster)
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn folder(&self) -> &Path {
        self.exec.folder()
    }

    async fn put(&self, object: &Value) -> anyhow::Result<()> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let gvk = GroupVersionKind::gvk(group, version, text("/kind"));
        let resource = match text("/kind") {
            "VpcNatGateway" => ApiResource::from_gvk_with_plural(&gvk, "vpc-nat-gateways"),
            _ => ApiResource::from_gvk(&gvk),
        };
        let api = match text("/metadata/namespace") {
            "" => Api::<DynamicObject>::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        };
        api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
        if let Some(status) = object.get("status") {
            let patch = Patch::Merge(json!({"status": status}));
            api.patch_status(text("/metadata/name"), &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    fn tunnels(&self) -> Api<VpcNatTunnel> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Waits until the controller has published every gateway: it has seen them and works.
    pub(crate) async fn published(&self, gateways: usize) -> anyhow::Result<()> {
        let records = Api::<GatewayExIp>::namespaced(self.client.clone(), SYSTEM);
        let own = ListParams::default().labels("localCluster=c1");
        while records.list(&own).await?.items.len() < gateways {
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Creates the tunnels as fast as possible and waits until all are ready.
    pub(crate) async fn create(&self, size: usize, gateways: usize, peers: usize) -> anyhow::Result<()> {
        let api = self.tunnels();
        let create = |number| {
            let (api, object) = (api.clone(), tunnel(number, gateways, peers));
            async move {
                api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
                anyhow::Ok(())
            }
        };
        let creates = stream::iter(0..size).map(Ok).try_for_each_concurrent(HANDS, create);
        let mut waiting = size;
        let mut ready = BTreeSet::new();
        let all_ready = self.follow(|event| {
            if let Event::Apply(object) | Event::InitApply(object) = event
                && is_ready(&object)
                && ready.insert(object.name_any())
            {
                waiting -= 1;
            }
            waiting == 0
        });
        tokio::try_join!(creates, all_ready).map(drop)
    }

    /// Deletes all tunnels as fast as possible and waits until they are gone.
    pub(crate) async fn delete(&self, size: usize) -> anyhow::Result<()> {
        let api = self.tunnels();
        let delete = |number| {
            let api = api.clone();
            async move {
                api.delete(&name(number), &DeleteParams::default()).await?;
                anyhow::Ok(())
            }
        };
        let deletes = stream::iter(0..size).map(Ok).try_for_each_concurrent(HANDS, delete);
        let (mut known, mut gone) = (0, 0);
        let all_gone = self.follow(|event| {
            match event {
                Event::InitApply(_) => known += 1,
                Event::Delete(_) => gone += 1,
                Event::Init | Event::InitDone | Event::Apply(_) => {}
            }
            known > 0 && gone == known
        });
        tokio::try_join!(all_gone, deletes).map(drop)
    }

    /// Watches the tunnels until `enough` says so.
    async fn follow(&self, mut enough: impl FnMut(Event<VpcNatTunnel>) -> bool) -> anyhow::Result<()> {
        let mut events = std::pin::pin!(watcher(self.tunnels(), watcher::Config::default()));
        while let Some(event) = events.next().await {
            if enough(event?) {
                return Ok(());
            }
        }
        bail!("the watch ended")
    }

    /// What the controller asked for so far: everything but our own writes of tunnels.
    pub(crate) fn requests(&self) -> Requests {
        let ours = |count: &RequestCount| {
            count.resource == "vpcnattunnels"
                && matches!(count.verb.as_str(), "create" | "delete" | "list" | "watch")
        };
        let named = |count: RequestCount| {
            let RequestCount { verb, resource, subresource, code, count } = count;
            let slash = if subresource.is_empty() { "" } else { "/" };
            ((format!("{verb} {resource}{slash}{subresource}"), code), count)
        };
        Requests(self.server.requests().into_iter().filter(|count| !ours(count)).map(named).collect())
    }
}

fn is_ready(tunnel: &VpcNatTunnel) -> bool {
    let conditions = tunnel.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn name(number: usize) -> String {
    format!("t{number}")
}

/// Spread over all gateways and all peers, never twice between the same two.
fn tunnel(number: usize, gateways: usize, peers: usize) -> Value {
    let (gateway, turn) = (number % gateways, number / gateways);
    let peer = (turn + gateway * peers / gateways) % peers + 1;
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {
            "name": name(number), "namespace": NAMESPACE, "labels": {"vid": (100 + number).to_string()},
        },
        "spec": {
            "type": "vxlan", "clusterId": format!("p{peer}"), "gatewayName": "gw",
            "natGwDp": format!("g{}", gateway + 1), "interfaceAddr": format!("10.100.{peer}.1/24"),
        },
    })
}

fn objects(gateways: usize, peers: usize) -> Vec<Value> {
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }),
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Subnet",
            "metadata": {"name": "ovn-vpc-external-network"},
            "spec": {
                "protocol": "IPv4", "cidrBlock": "172.50.0.0/16", "gateway": "172.50.0.1", "provider": PROVIDER,
            },
        }),
    ];
    all.extend((1..=gateways).flat_map(|number| gateway(number, peers)));
    all.extend((1..=peers).map(record));
    all
}

/// A gateway with a VPC of its own, whose routes lead every peer's range to it.
fn gateway(number: usize, peers: usize) -> Vec<Value> {
    let (lan, external) = addresses(number);
    let (name, vpc, workload) =
        (format!("g{number}"), format!("vpc{number}"), format!("vpc-nat-gw-g{number}"));
    let labels = json!({"app": workload, "ovn.kubernetes.io/vpc-nat-gw": "true"});
    let route = |peer| json!({"cidr": format!("242.{peer}.0.0/16"), "nextHopIP": lan, "policy": "policyDst"});
    let routes: Vec<Value> = (1..=peers).map(route).collect();
    let container = json!({"name": "vpc-nat-gw", "image": "docker.io/kubeovn/vpc-nat-gateway:v1.12.22"});
    let named = json!({"ovn.kubernetes.io/vpc_nat_gw": name, "ovn.kubernetes.io/logical_switch": vpc});
    let mut annotations = named.clone();
    annotations["ovn.kubernetes.io/ip_address"] = json!(lan);
    annotations["ovn.kubernetes.io/gateway"] = json!(format!("10.{number}.1.1"));
    annotations["ovn.kubernetes.io/logical_router"] = json!(vpc);
    annotations[format!("{PROVIDER}.kubernetes.io/ip_address")] = json!(external);
    vec![
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": {"name": vpc},
            "spec": {"namespaces": [NAMESPACE], "staticRoutes": routes},
        }),
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "VpcNatGateway", "metadata": {"name": name},
            "spec": {
                "vpc": vpc, "subnet": vpc, "lanIp": lan, "externalSubnets": ["ovn-vpc-external-network"],
            },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": workload, "namespace": SYSTEM, "labels": labels},
            "spec": {
                "replicas": 1, "serviceName": "", "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": named}, "spec": {"containers": [container]},
                },
            },
            "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{workload}-0"), "namespace": SYSTEM, "labels": labels, "annotations": annotations,
            },
            "spec": {"nodeName": "node1", "containers": [container]},
            "status": {"phase": "Running"},
        }),
    ]
}

/// A peer's gateway, as the exchange brings it home.
fn record(peer: usize) -> Value {
    let cluster = format!("p{peer}");
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {
            "name": format!("gw-{cluster}"), "namespace": SYSTEM,
            "labels": {
                "localGateway": "gw", "localCluster": cluster, "localVpc": "vpc",
                "submariner-io/clusterID": cluster, "submariner-io/originatingNamespace": SYSTEM,
            },
        },
        "spec": {
            "externalip": format!("172.50.17.{peer}"), "externalIp": format!("172.50.17.{peer}"),
            "globalnetcidr": format!("242.{peer}.0.0/16"), "globalNetCIDR": format!("242.{peer}.0.0/16"),
        },
    })
}
