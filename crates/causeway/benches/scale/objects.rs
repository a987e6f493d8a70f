//! What kube-ovn, the exchange and people would have put into the cluster.

use serde_json::{Value, json};

use crate::shape::{self, OURS, ROUTER, Shape, UNDERLAY};

/// Where the tunnels are.
pub(crate) const NAMESPACE: &str = "ns1";
/// Where gateways and records are.
pub(crate) const SYSTEM: &str = "kube-system";
/// Where the members meet at the broker.
pub(crate) const MEETING: &str = "submariner-k8s-broker";
/// On all that is put into the cluster, so that it is found again.
pub(crate) const LABEL: &str = "bench.causeway/object";
const PROVIDER: &str = "ovn-vpc-external-network.kube-system";

/// A tunnel, as a person declares it.
pub(crate) fn tunnel(number: usize, shape: Shape) -> Value {
    let (gateway, peer) = shape.ends(number);
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {
            "name": shape::name(number), "namespace": NAMESPACE,
            "labels": {
                "vid": shape::vni(number).to_string(), "vx-port": shape::PORT.to_string(), LABEL: "",
            },
        },
        "spec": {
            "type": "vxlan", "clusterId": format!("p{peer}"), "gatewayName": "gw",
            "natGwDp": format!("g{gateway}"), "interfaceAddr": shape::interface(peer, OURS),
        },
    })
}

/// A namespace. It stays when everything else is taken away: only a controller manager could empty it.
pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Everything but the tunnels, their namespace and the peers' records. A real server reaches the node's kubelet at the port.
pub(crate) fn all(shape: Shape, kubelet: Option<u16>) -> Vec<Value> {
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    if let Some(port) = kubelet {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
        node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
    }
    let mut all = vec![
        node,
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Subnet",
            "metadata": {"name": "ovn-vpc-external-network"},
            "spec": {
                "protocol": "IPv4", "cidrBlock": UNDERLAY, "gateway": ROUTER, "provider": PROVIDER,
            },
        }),
    ];
    all.extend((1..=shape.gateways).flat_map(|number| gateway(number, shape.peers)));
    labelled(all)
}

/// The peers' records, as the exchange brings them home.
pub(crate) fn records(peers: usize) -> Vec<Value> {
    labelled((1..=peers).map(|peer| record(peer, &format!("gw-p{peer}"), SYSTEM)).collect())
}

/// The same at the broker.
pub(crate) fn copies(peers: usize) -> Vec<Value> {
    labelled((1..=peers).map(|peer| record(peer, &format!("gw.p{peer}"), MEETING)).collect())
}

fn labelled(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        object["metadata"]["labels"][LABEL] = json!("");
    }
    objects
}

/// A gateway with a VPC of its own, whose routes lead every peer's range to it.
fn gateway(number: usize, peers: usize) -> Vec<Value> {
    let (lan, name, vpc, workload) =
        (shape::lan(number), format!("g{number}"), format!("vpc{number}"), workload(number));
    let route = |peer| json!({"cidr": shape::range(peer), "nextHopIP": lan, "policy": "policyDst"});
    let routes: Vec<Value> = (1..=peers).map(route).collect();
    let labels = labels(number);
    let mut running = pod(number);
    running["status"] = json!({"phase": "Running"});
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
                    "metadata": {"labels": labels, "annotations": annotations(number)},
                    "spec": {"containers": [container()]},
                },
            },
            "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1},
        }),
        running,
    ]
}

/// A gateway's pod, before it runs.
pub(crate) fn pod(number: usize) -> Value {
    let mut labels = labels(number);
    labels[LABEL] = json!("");
    let mut annotations = annotations(number);
    annotations["ovn.kubernetes.io/ip_address"] = json!(shape::lan(number));
    annotations["ovn.kubernetes.io/gateway"] = json!(shape::inside(number, 1));
    annotations["ovn.kubernetes.io/logical_router"] = json!(format!("vpc{number}"));
    annotations[format!("{PROVIDER}.kubernetes.io/ip_address")] = json!(shape::external(number));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": shape::pod(number), "namespace": SYSTEM, "labels": labels, "annotations": annotations,
        },
        "spec": {"nodeName": "node1", "containers": [container()]},
    })
}

fn workload(gateway: usize) -> String {
    format!("vpc-nat-gw-g{gateway}")
}

fn labels(gateway: usize) -> Value {
    json!({"app": workload(gateway), "ovn.kubernetes.io/vpc-nat-gw": "true"})
}

fn annotations(gateway: usize) -> Value {
    json!({
        "ovn.kubernetes.io/vpc_nat_gw": format!("g{gateway}"),
        "ovn.kubernetes.io/logical_switch": format!("vpc{gateway}"),
    })
}

fn container() -> Value {
    json!({"name": "vpc-nat-gw", "image": "docker.io/kubeovn/vpc-nat-gateway:v1.12.22"})
}

/// A peer's gateway.
fn record(peer: usize, name: &str, namespace: &str) -> Value {
    let (cluster, external) = (format!("p{peer}"), shape::peer_external(peer));
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": {
                "localGateway": "gw", "localCluster": cluster, "localVpc": "vpc",
                "submariner-io/clusterID": cluster, "submariner-io/originatingNamespace": SYSTEM,
            },
        },
        "spec": {
            "externalip": external, "externalIp": external,
            "globalnetcidr": shape::range(peer), "globalNetCIDR": shape::range(peer),
        },
    })
}
