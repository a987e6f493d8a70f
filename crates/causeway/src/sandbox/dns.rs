//! A VPC's DNS server in the sandbox, as objects: what kube-ovn makes of a `VpcDns`, and what it needs. Nobody serves DNS
//! here; the controllers keep what they would keep in a cluster.

use anyhow::Context;
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::addresses::{ROUTER, SUBNET, SYSTEM, VPC, WORKLOADS};
use super::apply;
use super::site::Site;

/// The `VpcDns` that every cluster has.
const NAME: &str = "test-dns1";
/// Where kube-dns is.
const SERVER: &str = "10.96.0.10";
/// The Corefile that kube-ovn's documentation has.
const COREFILE: &str = "\
.:53 {
    errors
    health {
      lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    forward . /etc/resolv.conf {
      prefer_udp
    }
    cache 30
    loop
    reload
    loadbalance
}
";

/// Installs the definition and all that a VPC's DNS server consists of; with a forward, unless there should be none.
pub(super) async fn install(sites: &[Site], bare: bool) -> anyhow::Result<()> {
    let install = |site: &Site| {
        let (client, cluster) = (site.client.clone(), site.cluster);
        async move {
            apply::crds(&client, causeway_api::dns::crds()).await.with_context(|| cluster.id())?;
            let forward = (!bare).then(forward);
            let objects = objects().into_iter().chain(forward);
            apply::all(&client, objects.collect()).await.with_context(|| cluster.id())
        }
    };
    try_join_all(sites.iter().map(install)).await.map(drop)
}

fn forward() -> Value {
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcDnsForward",
        "metadata": {"name": "dns-1", "namespace": WORKLOADS}, "spec": {"vpc": VPC},
    })
}

fn objects() -> Vec<Value> {
    let config_map = |name: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SYSTEM}, "data": data,
        })
    };
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": SYSTEM},
            "spec": {"clusterIP": SERVER, "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
        }),
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": "ovn-default"},
            "spec": {"gateway": ROUTER, "provider": "ovn-nad.default.ovn", "vpc": "ovn-cluster"},
        }),
        config_map("vpc-dns-corefile", json!({"Corefile": COREFILE})),
        config_map(
            "vpc-dns-config",
            json!({"enable-vpc-dns": "true", "nad-provider": "ovn-nad.default.ovn"}),
        ),
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "VpcDns", "metadata": {"name": NAME},
            "spec": {"vpc": VPC, "subnet": SUBNET}, "status": {"active": true},
        }),
        deployment(),
    ]
}

/// As kube-ovn 1.12 makes it.
fn deployment() -> Value {
    let name = format!("vpc-dns-{NAME}");
    let labels = json!({"k8s-app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": {"ovn.kubernetes.io/vpc-dns": "true"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {
                    "k8s.v1.cni.cncf.io/networks": "default/ovn-nad",
                    "ovn-nad.default.ovn.kubernetes.io/logical_switch": "ovn-default",
                    "ovn.kubernetes.io/logical_switch": SUBNET,
                }},
                "spec": {
                    "initContainers": [{
                        "name": "init-route", "image": "docker.io/kubeovn/vpc-nat-gateway:v1.12.22",
                        "command": ["sh", "-c", format!("ip -4 route add 10.96.0.1 via {ROUTER} dev net1;")],
                    }],
                    "containers": [{"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.11.1"}],
                },
            },
        },
    })
}
