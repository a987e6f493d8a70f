//! Submariner's objects, and the machine's own: a node.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::addresses::{Cluster, WORKLOADS};
use super::given::NODE_LABEL;

/// Where Submariner lives in a member cluster.
pub(super) const OPERATOR: &str = "submariner-operator";
/// Where members meet at the broker.
pub(super) const BROKER: &str = "submariner-k8s-broker";

/// How to reach the broker.
#[derive(Clone, Debug)]
pub(super) struct BrokerAccess {
    /// `host:port`
    pub(super) server: String,
    pub(super) token: String,
    pub(super) ca_pem: String,
}

/// The namespaces a member needs, made before anything is put into them.
pub(super) fn member_namespaces() -> Vec<Value> {
    [WORKLOADS, OPERATOR].into_iter().map(namespace).collect()
}

/// The namespaces the broker needs.
pub(super) fn broker_namespaces() -> Vec<Value> {
    vec![namespace(BROKER)]
}

/// A namespace object.
pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// What Submariner has put into a member by the time it is joined: itself and its peers, the
/// addresses for the way out, and where the broker is.
pub(super) fn objects(
    cluster: Cluster,
    all: impl Iterator<Item = Cluster>,
    broker: &BrokerAccess,
) -> Vec<Value> {
    let mut objects: Vec<Value> = all.map(member).collect();
    objects.push(json!({
        "apiVersion": "submariner.io/v1", "kind": "ClusterGlobalEgressIP",
        "metadata": {"name": "cluster-egress.submariner.io"},
        "spec": {"numberOfIPs": cluster.egress().len()},
        "status": {"allocatedIPs": cluster.egress()},
    }));
    objects.push(json!({
        "apiVersion": "submariner.io/v1alpha1", "kind": "ServiceDiscovery",
        "metadata": {"name": "service-discovery", "namespace": OPERATOR},
        "spec": {
            "namespace": OPERATOR, "clusterID": cluster.id(), "debug": false, "globalnetEnabled": true,
            "brokerK8sApiServer": broker.server,
            "brokerK8sApiServerToken": broker.token,
            "brokerK8sRemoteNamespace": BROKER,
            "brokerK8sCA": STANDARD.encode(&broker.ca_pem),
            "brokerK8sInsecure": false,
        },
    }));
    objects
}

fn member(cluster: Cluster) -> Value {
    json!({
        "apiVersion": "submariner.io/v1", "kind": "Cluster",
        "metadata": {"name": cluster.id(), "namespace": OPERATOR},
        "spec": {
            "cluster_id": cluster.id(), "color_codes": [], "service_cidr": ["10.96.0.0/12"],
            "cluster_cidr": ["10.16.0.0/16"], "global_cidr": [cluster.globalnet()],
        },
    })
}

/// The cluster's node, ready. A real API server reaches its kubelet at `port`, by the first address.
pub(super) fn node(cluster: Cluster, port: Option<u16>, now: &str) -> Value {
    let name = cluster.node();
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", NODE_LABEL: "",
        }},
        "spec": {"podCIDR": "10.16.0.0/24", "podCIDRs": ["10.16.0.0/24"]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name},
            ],
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "nodeInfo": {
                "architecture": std::env::consts::ARCH, "operatingSystem": "linux",
                "osImage": "causeway sandbox", "containerRuntimeVersion": "causeway://sandbox",
                "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-sandbox"),
                "kernelVersion": kernel(), "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
            },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "the sandbox plays the kubelet",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        },
    });
    if let Some(port) = port {
        // A host name would be asked for first, and nobody can resolve this one.
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
        node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
    }
    node
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}
