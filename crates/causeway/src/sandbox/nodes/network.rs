//! The cables of a cluster's nodes, and who lives where on them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use causeway_core::Family;
use futures::future::try_join_all;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::super::addresses::Cluster;
use super::super::echo::{Echo, PORT};
use super::super::matrix::Way;
use super::super::netns::{Namespace, NamespaceError};
use super::super::topology::{QUIET, ROUTER as IPV4_ROUTER, cable, hardware};
use super::Shape;

/// The bridge that joins a cluster's nodes.
const SWITCH: &str = "nodes";
/// The bridge of a node that its pod is plugged into, named as CNI plugins name it.
const BRIDGE: &str = "cni0";
/// What fits into a packet from node to node.
pub(super) const MTU: u32 = 1500;
/// Nor do links wait with the addresses that they give themselves.
const IPV6: &[(&str, &str)] = &[("ipv6/conf/all/accept_dad", "0"), ("ipv6/conf/default/accept_dad", "0")];
const IPV6_ROUTER: &[(&str, &str)] = &[("ipv6/conf/all/forwarding", "1"), IPV6[0], IPV6[1]];

/// An address of each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    v4: Ipv4Addr,
    v6: Ipv6Addr,
}

impl Addresses {
    /// Where nodes are.
    fn outside(node: u8) -> Addresses {
        let v6 = Ipv6Addr::new(0xfd00, 0x192, 0x168, 7, 0, 0, 0, node.into());
        Addresses { v4: Ipv4Addr::new(192, 168, 7, node), v6 }
    }

    /// Where pods are.
    fn inside(node: u8, (v4, v6): (u8, u16)) -> Addresses {
        let v6 = Ipv6Addr::new(0xfd00, 0x10, 0x244, node.into(), 0, 0, 0, v6);
        Addresses { v4: Ipv4Addr::new(10, 244, node, v4), v6 }
    }

    pub(super) fn of(self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.v4.into(),
            Family::V6 => self.v6.into(),
        }
    }
}

/// Where all pods on nodes live.
pub(super) fn range(family: Family) -> IpNet {
    let length = match family {
        Family::V4 => 16,
        Family::V6 => 48,
    };
    net(Addresses::inside(0, (0, 0)).of(family), length)
}

fn net(address: IpAddr, length: u8) -> IpNet {
    IpNet::new(address, length).expect("the lengths here are constants that fit")
}

/// How long the part of an address is that nodes have in common, and the pods on one.
fn prefix(family: Family) -> u8 {
    match family {
        Family::V4 => 24,
        Family::V6 => 64,
    }
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
    pub(super) fn address(self) -> Addresses {
        Addresses::outside(self.0)
    }

    /// Where its pods live.
    pub(super) fn subnet(self, family: Family) -> IpNet {
        net(Addresses::inside(self.0, (0, 0)).of(family), prefix(family))
    }

    fn gateway(self) -> Addresses {
        Addresses::inside(self.0, (1, 0x1))
    }

    /// Its one pod.
    pub(super) fn pod(self) -> Addresses {
        Addresses::inside(self.0, (10, 0x10))
    }

    /// As the cluster would have it.
    pub(super) fn object(self, families: &[Family], now: &str) -> Value {
        let name = self.name();
        let subnets: Vec<IpNet> = families.iter().map(|family| self.subnet(*family)).collect();
        let mut addresses = vec![json!({"type": "Hostname", "address": name})];
        let own = families.iter().map(|family| self.address().of(*family));
        addresses.extend(own.map(|address| json!({"type": "InternalIP", "address": address})));
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
            "spec": {"podCIDR": subnets.first(), "podCIDRs": subnets},
            "status": {
                "addresses": addresses,
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
    _echoes: Vec<Echo>,
}

/// From every pod to every other, over each family.
pub(super) fn ways<'a>(nodes: &'a [NodeNet], families: &'a [Family]) -> impl Iterator<Item = Way<'a>> {
    let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (from, to)));
    let others = pairs.filter(|(from, to)| from.place != to.place);
    others.flat_map(|(from, to)| families.iter().map(move |family| way(from, to, *family)))
}

fn way<'a>(from: &'a NodeNet, to: &NodeNet, family: Family) -> Way<'a> {
    let target = (to.place.pod().of(family), PORT).into();
    Way { from: from.place.name(), to: to.place.name(), inside: &from.pod, target }
}

impl Switch {
    /// Builds the switch and the nodes around it.
    pub(super) async fn build(
        cluster: Cluster,
        shape: Shape,
    ) -> Result<(Switch, Vec<NodeNet>), NamespaceError> {
        let namespace = Namespace::create(&format!("{cluster}'s nodes")).await?;
        namespace.sysctl(QUIET).await?;
        namespace
            .ip(&[
                format!("link add name {SWITCH} mtu {MTU} type bridge"),
                format!("link set dev {SWITCH} up"),
            ])
            .await?;
        let switch = Switch { namespace };
        let places = Place::first(shape.count);
        let nodes = try_join_all(places.map(|place| switch.plug(cluster, place, shape))).await?;
        Ok((switch, nodes))
    }

    async fn plug(&self, cluster: Cluster, place: Place, shape: Shape) -> Result<NodeNet, NamespaceError> {
        let name = place.name();
        let (title, tenant) = (format!("{cluster}'s {name}"), format!("the pod on {cluster}'s {name}"));
        let (node, pod) = tokio::try_join!(Namespace::create(&title), Namespace::create(&tenant))?;
        let (router, host) = if shape.ipv6 { (IPV6_ROUTER, IPV6) } else { (QUIET, QUIET) };
        tokio::try_join!(node.sysctl(IPV4_ROUTER), node.sysctl(router), pod.sysctl(host))?;
        let (outside, gateway, inside) = (place.address(), place.gateway(), place.pod());
        let (families, mtu) = (shape.families(), shape.pod_mtu());
        cable(&self.namespace, SWITCH, &name, &node, ("eth0", outside.v4)).await?;
        let mut lines = vec![
            "link set dev lo up".into(),
            "link set dev eth0 up".into(),
            format!("link add name {BRIDGE} mtu {mtu} address {} type bridge", hardware(gateway.v4)),
            format!("link set dev {BRIDGE} up"),
        ];
        lines.extend(addresses(outside, "eth0", families));
        lines.extend(addresses(gateway, BRIDGE, families));
        node.ip(&lines).await?;
        cable(&node, BRIDGE, "pod", &pod, ("eth0", inside.v4)).await?;
        let mut lines = vec!["link set dev lo up".into(), format!("link set dev eth0 mtu {mtu} up")];
        lines.extend(addresses(inside, "eth0", families));
        lines.extend(families.iter().map(|family| format!("route add default via {}", gateway.of(*family))));
        pod.ip(&lines).await?;
        let echo = |family: &Family| Echo::start(&pod, inside.of(*family));
        let echoes = try_join_all(families.iter().map(echo)).await?;
        Ok(NodeNet { place, node: Arc::new(node), pod, _echoes: echoes })
    }
}

/// What gives a link its addresses, which can be used at once: nobody else has them.
fn addresses(of: Addresses, link: &str, families: &[Family]) -> Vec<String> {
    let add = |family: &Family| {
        let once = match family {
            Family::V4 => "",
            Family::V6 => " nodad",
        };
        format!("address add {}/{} dev {link}{once}", of.of(*family), prefix(*family))
    };
    families.iter().map(add).collect()
}

#[cfg(test)]
mod tests {
    use super::super::MOST;
    use super::*;

    #[test]
    fn every_node_has_addresses_and_a_part_of_the_range_of_its_own() {
        let places: Vec<Place> = Place::first(MOST).collect();
        for (at, place) in places.iter().enumerate() {
            for family in Family::ALL {
                let subnet = place.subnet(family);
                assert!(range(family).contains(&subnet) && subnet.contains(&place.pod().of(family)));
                assert!(places[..at].iter().all(|other| other.subnet(family) != subnet));
                assert!(places[..at].iter().all(|other| other.address() != place.address()));
            }
        }
    }
}
