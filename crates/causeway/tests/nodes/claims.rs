//! Nodes that claim what is another's take nobody's packets.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Backend, Cluster};
use super::joined;
use super::repairs::{events, metric};

/// A node that says this of itself, without a machine behind it.
async fn claim(cluster: &Cluster, name: &str, cidr: &str, annotations: &[(&str, &str)]) {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(name, value)| (format!("flannel.alpha.coreos.com/{name}"), json!(value)))
        .collect();
    let node = json!({ "apiVersion": "v1", "kind": "Node",
                       "metadata": { "name": name, "annotations": annotations }, "spec": { "podCIDR": cidr, "podCIDRs": [cidr] } });
    let node = serde_json::from_value(node).expect("a node");
    cluster.nodes().create(&PostParams::default(), &node).await.expect("it is created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_anothers_is_refused_and_named() {
    let cluster = joined(Backend::HostGw).await;
    let first = &cluster.machines[0];
    let routes = first.routes();
    let host_gw =
        |public| [("kube-subnet-manager", "true"), ("backend-type", "host-gw"), ("public-ip", public)];
    claim(&cluster, "wide", "10.244.0.0/20", &host_gw("192.168.7.66")).await;
    claim(&cluster, "younger", "10.244.2.128/25", &host_gw("192.168.7.67")).await;
    claim(&cluster, "usurper", "10.244.50.0/24", &host_gw("192.168.7.1")).await;
    claim(&cluster, "elsewhere", "10.99.0.0/24", &host_gw("192.168.7.68")).await;
    let vxlan = [
        ("kube-subnet-manager", "true"),
        ("backend-type", "vxlan"),
        ("public-ip", "192.168.7.69"),
        ("backend-data", r#"{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}"#),
    ];
    claim(&cluster, "other-way", "10.244.52.0/24", &vxlan).await;
    claim(&cluster, "nonsense", "10.244.51.0/24", &host_gw("127.0.0.1")).await;
    let whys = [
        "its subnet 10.244.0.0/20 overlaps this node's own, 10.244.1.0/24",
        "its subnet 10.244.2.128/25 overlaps 10.244.2.0/24 of node node2, which is older",
        "its public address 192.168.7.1 is this node's own",
        "its subnet 10.99.0.0/24 is not in the network 10.244.0.0/16",
        "`127.0.0.1` is not an IPv4 address at which a node can be reached",
        "its backend is `vxlan`, and this node's is `host-gw`",
    ];
    cluster
        .until("each is refused in words", async || {
            let log = first.log();
            let unsaid: Vec<_> = whys.iter().filter(|why| !log.contains(**why)).collect();
            if unsaid.is_empty() { Ok(()) } else { Err(format!("{unsaid:#?}")) }
        })
        .await;
    assert_eq!(first.routes(), routes, "nothing leads elsewhere");
    cluster.everybody_is_reached().await;
    // What is claimed of this very node is told on it.
    cluster
        .until("it is told", async || {
            let told = events(&cluster, "node1", "NodeRefused").await.join("\n");
            if told.contains("is this node's own") || told.contains("overlaps this node's own") {
                Ok(())
            } else {
                Err(told)
            }
        })
        .await;
    assert_eq!(
        metric(first, "causeway_leases_nodes"),
        2.0 + 6.0 + 2.0 + 1.0,
        "reached and refused, of IPv4 and of IPv6: nonsense may be about either"
    );
    // An honest one is reached.
    let honest =
        json!({ "metadata": { "annotations": { "flannel.alpha.coreos.com/public-ip": "192.168.7.70" } } });
    cluster.nodes().patch("usurper", &PatchParams::default(), &Patch::Merge(&honest)).await.expect("patched");
    cluster
        .until("it is reached", async || {
            let routes = first.routes().join("\n");
            if routes.contains("10.244.50.0/24 via 192.168.7.70") { Ok(()) } else { Err(routes) }
        })
        .await;
}
