//! Tunnels the sandbox applies: its own, or a manifest and its mirror image.
//!
//! A manifest is written for cluster1. What the peer needs is the same tunnel seen from the other
//! side: local and remote exchanged, and the other address of the pair on the interface.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::Context;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::addresses::{Cluster, Gateway, VPC, WORKLOADS};

/// An object and the number (from 0) of the cluster it is for.
pub(super) type Placed = (usize, Value);

/// The sandbox's own tunnels between the first gateways of the first cluster and of each other one: `demo` to the second,
/// `demo3` to the third, …
pub(super) fn demo(clusters: &[Cluster]) -> Vec<Placed> {
    let gateway = Gateway::Gw1.name();
    pairs(clusters, |peer| json!({"clusterId": peer.id(), "gatewayName": gateway, "natGwDp": gateway}))
}

/// The same between VPCs, so that they follow the main gateways on both sides.
pub(super) fn by_vpc(clusters: &[Cluster]) -> Vec<Placed> {
    pairs(clusters, |peer| json!({"remoteCluster": peer.id(), "remoteVpc": VPC, "localVpc": VPC}))
}

/// Both ends of a tunnel between the first cluster and each other one. `ends` says what it joins.
fn pairs(clusters: &[Cluster], ends: impl Fn(Cluster) -> Value) -> Vec<Placed> {
    let tunnel = |(at, peer): (usize, &Cluster)| {
        let name = if at == 1 { "demo".to_owned() } else { format!("demo{}", at + 1) };
        let mut near = json!({
            "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
            // A gateway tells its tunnels apart by VNI; 100 is the one that needs no label.
            "metadata": {"name": name, "namespace": WORKLOADS, "labels": {"vid": (99 + at).to_string()}},
            "spec": ends(*peer),
        });
        near["spec"]["type"] = json!("vxlan");
        near["spec"]["interfaceAddr"] = json!(format!("10.100.{}.1/24", at - 1));
        let far = mirror(&near, clusters[0]);
        [(0, near), (at, far)]
    };
    clusters.iter().enumerate().skip(1).flat_map(tunnel).collect()
}

/// A manifest's objects for cluster1, and their mirror images for the clusters they name.
pub(super) fn from_file(file: &Path, clusters: &[Cluster]) -> anyhow::Result<Vec<Placed>> {
    let what = || format!("cannot read the manifest {}", file.display());
    let text = std::fs::read_to_string(file).with_context(what)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(what)?;
    let objects: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).collect();
    anyhow::ensure!(
        objects.iter().any(is_tunnel),
        "{} has no VpcNatTunnel to prove; with --bare anything else can be applied by kubectl",
        file.display()
    );
    Ok(objects.into_iter().flat_map(|object| both_ends(object, clusters)).collect())
}

/// The cluster at the far end of the placed tunnels, for the proof.
pub(super) fn far_end(placed: &[Placed]) -> usize {
    let tunnel = placed.iter().find(|(at, object)| *at != 0 && is_tunnel(object));
    tunnel.map_or(1, |(at, _)| *at)
}

/// The gateway through which cluster number `at` reaches a peer: the one its tunnel names, if any.
/// Whoever declares a tunnel by gateway also leads the VPC's traffic there, so the sandbox does.
pub(super) fn way_out(placed: &[Placed], at: usize, peer: Cluster) -> Gateway {
    let peer = peer.id();
    let mine = placed.iter().filter(|(place, object)| *place == at && is_tunnel(object));
    let named = mine.filter(|(_, object)| object["spec"]["clusterId"] == peer.as_str());
    let gateway = named.filter_map(|(_, object)| object["spec"]["natGwDp"].as_str()).next();
    Gateway::ALL.into_iter().find(|known| Some(known.name()) == gateway).unwrap_or(Gateway::Gw1)
}

fn is_tunnel(object: &Value) -> bool {
    object["kind"] == "VpcNatTunnel"
}

fn both_ends(object: Value, clusters: &[Cluster]) -> Vec<Placed> {
    let peer = ["clusterId", "remoteCluster"].iter().find_map(|key| object["spec"][key].as_str());
    let at = clusters.iter().position(|cluster| Some(cluster.id().as_str()) == peer).filter(|at| *at > 0);
    let image = if is_tunnel(&object) { mirror(&object, clusters[0]) } else { object.clone() };
    vec![(0, object), (at.unwrap_or(1), image)]
}

/// The same tunnel as its peer must declare it.
fn mirror(tunnel: &Value, from: Cluster) -> Value {
    let mut image = tunnel.clone();
    let Some(spec) = image["spec"].as_object_mut() else { return image };
    for peer in ["clusterId", "remoteCluster"] {
        if let Some(id) = spec.get_mut(peer) {
            *id = json!(from.id());
        }
    }
    for (one, other) in [("gatewayName", "natGwDp"), ("remoteVpc", "localVpc")] {
        let exchanged = (spec.remove(one), spec.remove(other));
        spec.extend(exchanged.0.map(|value| (other.to_owned(), value)));
        spec.extend(exchanged.1.map(|value| (one.to_owned(), value)));
    }
    let address = spec.get("interfaceAddr").and_then(Value::as_str).and_then(other_end);
    spec.extend(address.map(|address| ("interfaceAddr".to_owned(), json!(address))));
    image
}

/// Addresses of a link come in pairs, .1 and .2, .3 and .4, …
fn other_end(address: &str) -> Option<String> {
    let IpNet::V4(net) = address.parse().ok()? else { return None };
    let bits = net.addr().to_bits();
    let other = if bits % 2 == 1 { bits.checked_add(1)? } else { bits.checked_sub(1)? };
    IpNet::new(IpAddr::V4(Ipv4Addr::from_bits(other)), net.prefix_len()).ok().map(|net| net.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(spec: Value) -> Value {
        json!({"kind": "VpcNatTunnel", "metadata": {"name": "t", "namespace": "ns1"}, "spec": spec})
    }

    #[test]
    fn a_tunnel_by_gateway_is_seen_from_the_other_side() {
        let object = tunnel(json!({
            "clusterId": "cluster3", "gatewayName": "gw1", "natGwDp": "gw2", "interfaceAddr": "10.100.0.1/24",
        }));
        let placed = both_ends(object.clone(), &Cluster::first(3));
        assert_eq!(placed[0], (0, object));
        assert_eq!(placed[1].0, 2);
        assert_eq!(
            placed[1].1["spec"],
            json!({
                "clusterId": "cluster1", "gatewayName": "gw2", "natGwDp": "gw1", "interfaceAddr": "10.100.0.2/24",
            })
        );
        assert_eq!(far_end(&placed), 2);
        let [one, two, three] = Cluster::first(3)[..] else { panic!("three clusters") };
        assert_eq!(way_out(&placed, 0, three), Gateway::Gw2);
        assert_eq!(way_out(&placed, 0, two), Gateway::Gw1);
        assert_eq!(way_out(&placed, 2, one), Gateway::Gw1);
    }

    #[test]
    fn a_tunnel_by_vpc_is_seen_from_the_other_side() {
        let object = tunnel(json!({
            "remoteCluster": "cluster2", "remoteVpc": "b", "localVpc": "a", "interfaceAddr": "10.9.0.2/30",
        }));
        let placed = both_ends(object, &Cluster::first(2));
        assert_eq!(
            placed[1].1["spec"],
            json!({
                "remoteCluster": "cluster1", "remoteVpc": "a", "localVpc": "b", "interfaceAddr": "10.9.0.1/30",
            })
        );
    }

    #[test]
    fn anything_else_goes_to_both_clusters_as_it_is() {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "x"}});
        let placed = both_ends(object.clone(), &Cluster::first(2));
        assert_eq!(placed, [(0, object.clone()), (1, object)]);
    }

    #[test]
    fn a_file_may_hold_several_documents() {
        let folder = tempfile::tempdir().expect("temp folder");
        let file = folder.path().join("m.yaml");
        std::fs::write(&file, "---\nkind: VpcNatTunnel\n---\nkind: B\n").expect("written");
        let placed = from_file(&file, &Cluster::first(2)).expect("two documents");
        assert_eq!(placed.len(), 4);
        assert_eq!(placed[2].1["kind"], "B");
    }

    #[test]
    fn a_file_without_a_tunnel_is_refused_since_nothing_could_be_proved() {
        let folder = tempfile::tempdir().expect("temp folder");
        let file = folder.path().join("m.yaml");
        for text in ["", "---\n", "kind: ConfigMap\nmetadata: {name: x}\n"] {
            std::fs::write(&file, text).expect("written");
            let refused = from_file(&file, &Cluster::first(2)).expect_err("no tunnel").to_string();
            assert!(refused.contains("has no VpcNatTunnel"), "{refused}");
        }
    }

    #[test]
    fn every_cluster_has_a_tunnel_of_its_own_with_the_first() {
        let placed = demo(&Cluster::first(3));
        let facts = |(at, object): &Placed| {
            let text =
                |pointer: &str| object.pointer(pointer).and_then(Value::as_str).expect("text").to_owned();
            let [name, peer, vni, address] =
                ["/metadata/name", "/spec/clusterId", "/metadata/labels/vid", "/spec/interfaceAddr"]
                    .map(text);
            format!("{at} {name} {peer} {vni} {address}")
        };
        assert_eq!(
            placed.iter().map(facts).collect::<Vec<_>>(),
            [
                "0 demo cluster2 100 10.100.0.1/24",
                "1 demo cluster1 100 10.100.0.2/24",
                "0 demo3 cluster3 101 10.100.1.1/24",
                "2 demo3 cluster1 101 10.100.1.2/24",
            ]
        );
    }
}
