//! The cables of a cluster's nodes, and who lives where on them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use futures::future::try_join_all;
use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::super::addresses::Cluster;
use super::super::echo::Echo;
use super::super::netns::{Namespace, NamespaceError};
use super::super::topology::{QUIET, ROUTER, cable, hardware};

/// The bridge that joins a cluster's nodes.
const SWITCH: &str = "nodes";
/// The bridge of a node that its pod is plugged into, named as CNI plugins name it.
const BRIDGE: &str = "cni0";
const PREFIX: u8 = 24;

/// Where all pods on nodes live.
pub(super) fn range() -> Ipv4Net {
    net(Ipv4Addr::new(10, 244, 0, 0), 16)
}

fn net(address: Ipv4Addr, prefix: u8) -> Ipv4Net {
    Ipv4Net::new(address, prefix).expect("the prefix lengths here are constants up to 32")
}

/// A node, by its number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u8);

impl Place {
    /// Nodes 1 to `count`.
    pub(super) fn first(count: u8) -> impl Iterator<Item = Place> {
        (1..=count).map(Place)
    }

    /// The object's name. The node that the gateways are on has another.
    pub(super) fn name(self) -> String {
        format!("worker{}", self.0)
    }

    /// Where other nodes reach it.
    pub(super) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 168, 7, self.0)
    }

    /// Where its pods live.
    pub(super) fn subnet(self) -> Ipv4Net {
        net(Ipv4Addr::new(10, 244, self.0, 0), PREFIX)
    }

    fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, self.0, 1)
    }

    /// Its one pod.
    pub(super) fn pod(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, self.0, 10)
    }

    /// As the cluster would have it.
    pub(super) fn object(self, now: &str) -> Value {
        let (name, subnet) = (self.name(), self.subnet());
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
            "spec": {"podCIDR": subnet, "podCIDRs": [subnet]},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": self.address()}, {"type": "Hostname", "address": name},
                ],
                "nodeInfo": {
                    "architecture": std::env::consts::ARCH, "operatingSystem": "linux",
                    "osImage": "causeway sandbox", "containerRuntimeVersion": "causeway://sandbox",
                    "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-sandbox"), "kernelVersion": "",
                    "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
                },
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "KubeletReady",
                    "message": "the sandbox plays the kubelet",
                    "lastHeartbeatTime": now, "lastTransitionTime": now,
                }],
            },
        })
    }
}

/// What joins the nodes of one cluster.
#[derive(Debug)]
pub(super) struct Switch {
    namespace: Namespace,
}

/// A node and its pod. The pod echoes.
#[derive(Debug)]
pub(super) struct NodeNet {
    pub(super) place: Place,
    pub(super) node: Arc<Namespace>,
    pub(super) pod: Namespace,
    _echo: Echo,
}

impl Switch {
    /// Builds the switch and `count` nodes around it.
    pub(super) async fn build(cluster: Cluster, count: u8) -> Result<(Switch, Vec<NodeNet>), NamespaceError> {
        let namespace = Namespace::create(&format!("{cluster}'s nodes")).await?;
        namespace.sysctl(QUIET).await?;
        namespace
            .ip(&[
                format!("link add name {SWITCH} mtu 1500 type bridge"),
                format!("link set dev {SWITCH} up"),
            ])
            .await?;
        let switch = Switch { namespace };
        let nodes = try_join_all(Place::first(count).map(|place| switch.plug(cluster, place))).await?;
        Ok((switch, nodes))
    }

    async fn plug(&self, cluster: Cluster, place: Place) -> Result<NodeNet, NamespaceError> {
        let name = place.name();
        let (title, tenant) = (format!("{cluster}'s {name}"), format!("the pod on {cluster}'s {name}"));
        let (node, pod) = tokio::try_join!(Namespace::create(&title), Namespace::create(&tenant))?;
        tokio::try_join!(node.sysctl(QUIET), node.sysctl(ROUTER), pod.sysctl(QUIET))?;
        cable(&self.namespace, SWITCH, &name, &node, ("eth0", place.address())).await?;
        let gateway = place.gateway();
        node.ip(&[
            "link set dev lo up".into(),
            format!("address add {}/{PREFIX} dev eth0", place.address()),
            "link set dev eth0 up".into(),
            format!("link add name {BRIDGE} mtu 1500 address {} type bridge", hardware(gateway)),
            format!("address add {gateway}/{PREFIX} dev {BRIDGE}"),
            format!("link set dev {BRIDGE} up"),
        ])
        .await?;
        cable(&node, BRIDGE, "pod", &pod, ("eth0", place.pod())).await?;
        pod.ip(&[
            "link set dev lo up".into(),
            format!("address add {}/{PREFIX} dev eth0", place.pod()),
            "link set dev eth0 up".into(),
            format!("route add default via {gateway}"),
        ])
        .await?;
        let echo = Echo::start(&pod, place.pod()).await?;
        Ok(NodeNet { place, node: Arc::new(node), pod, _echo: echo })
    }
}

#[cfg(test)]
mod tests {
    use super::super::MOST;
    use super::*;

    #[test]
    fn every_node_has_addresses_and_a_part_of_the_range_of_its_own() {
        let places: Vec<Place> = Place::first(MOST).collect();
        for (at, place) in places.iter().enumerate() {
            assert!(range().contains(&place.subnet()) && place.subnet().contains(&place.pod()));
            let others = || places[..at].iter();
            assert!(
                others().all(|other| other.subnet() != place.subnet() && other.address() != place.address())
            );
        }
    }
}
