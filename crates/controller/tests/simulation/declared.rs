//! What people and kube-ovn have declared in both clusters: what everything else has to follow.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::site::{SYSTEM, TUNNELS_IN};
use crate::world::id;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    /// By cluster and name.
    pub(crate) gateways: BTreeMap<(usize, String), Gateway>,
    /// All that may be declared, by cluster and name; those of one name are the two ends of one tunnel.
    pub(crate) tunnels: BTreeMap<(usize, String), Tunnel>,
    /// How many controllers each cluster has, and whether they hold an election.
    pub(crate) controllers: [(usize, bool); 2],
}

/// A gateway of a VPC.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    pub(crate) cluster: usize,
    pub(crate) name: String,
    pub(crate) vpc: String,
    pub(crate) lan: Ipv4Addr,
    pub(crate) external: Ipv4Addr,
    pub(crate) node: String,
    /// Whether it is there at all.
    pub(crate) present: bool,
}

/// One end of a tunnel.
#[derive(Debug, Clone)]
pub(crate) struct Tunnel {
    pub(crate) cluster: usize,
    pub(crate) name: String,
    pub(crate) gateway: String,
    pub(crate) peer: String,
    /// Of VXLAN; GRE has none.
    pub(crate) vni: Option<u32>,
    pub(crate) address: String,
    pub(crate) present: bool,
}

impl Declared {
    /// One or two VPCs in each cluster, one to three gateways in each of them, and some tunnels between them.
    pub(crate) fn drawn(dice: &Dice) -> Self {
        let mut gateways = BTreeMap::new();
        for cluster in 0..2 {
            let mut number = 0;
            for vpc in 0..dice.number(1..3) {
                for _ in 0..dice.number(1..4) {
                    number += 1;
                    let gateway = Gateway::new(cluster, &format!("v{vpc}"), number);
                    gateways.insert((cluster, gateway.name.clone()), gateway);
                }
            }
        }
        let names = |cluster: usize| -> Vec<String> {
            let mut names: Vec<String> =
                gateways.keys().filter(|(at, _)| *at == cluster).map(|(_, name)| name.clone()).collect();
            dice.shuffle(&mut names);
            names
        };
        let mut tunnels = BTreeMap::new();
        // A gateway has one tunnel to a range at most, so each gateway has one peer.
        for (number, (east, west)) in names(0).into_iter().zip(names(1)).take(3).enumerate() {
            let vni = dice.strikes(700).then(|| 100 + u32::try_from(number).unwrap_or(0));
            for (cluster, gateway, peer) in [(0, &east, &west), (1, &west, &east)] {
                let name = format!("t{number}");
                let address = format!("10.100.{number}.{}/24", cluster + 1);
                let (gateway, peer, present) = (gateway.clone(), peer.clone(), false);
                let tunnel = Tunnel { cluster, name: name.clone(), gateway, peer, vni, address, present };
                tunnels.insert((cluster, name), tunnel);
            }
        }
        let controllers = [0, 1].map(|_| match dice.number(0..4) {
            0 => (1, false),
            1 | 2 => (1, true),
            _ => (2, true),
        });
        Self { gateways, tunnels, controllers }
    }

    pub(crate) fn gateway(&self, cluster: usize, name: &str) -> Option<&Gateway> {
        self.gateways.get(&(cluster, name.to_owned()))
    }

    /// Whether the other end of a tunnel is declared too.
    pub(crate) fn is_whole(&self, tunnel: &Tunnel) -> bool {
        self.tunnels.get(&(1 - tunnel.cluster, tunnel.name.clone())).is_some_and(|other| other.present)
    }
}

/// The range of a cluster's global addresses.
pub(crate) fn globalnet(cluster: usize) -> String {
    format!("242.{cluster}.0.0/16")
}

/// The VPC's router, as every gateway knows it.
pub(crate) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

impl Gateway {
    fn new(cluster: usize, vpc: &str, number: u8) -> Self {
        let net = u8::try_from(cluster).unwrap_or(0);
        Self {
            cluster,
            name: format!("g{number}"),
            vpc: vpc.into(),
            lan: Ipv4Addr::new(10, 0, 1, 10 + number),
            external: Ipv4Addr::new(172, 50, net, 10 + number),
            node: format!("n{}", number % 2),
            present: true,
        }
    }

    pub(crate) fn workload(&self) -> String {
        format!("vpc-nat-gw-{}", self.name)
    }

    pub(crate) fn pod(&self) -> String {
        format!("{}-0", self.workload())
    }

    pub(crate) fn set_object(&self, available: u32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {
                "name": self.workload(), "namespace": SYSTEM,
                "labels": { "app": self.workload(), "ovn.kubernetes.io/vpc-nat-gw": "true" },
            },
            "spec": {
                "serviceName": self.workload(), "replicas": 1,
                "selector": { "matchLabels": { "app": self.workload() } },
                "template": {
                    "metadata": {
                        "labels": { "app": self.workload(), "ovn.kubernetes.io/vpc-nat-gw": "true" },
                        "annotations": { "ovn.kubernetes.io/vpc_nat_gw": self.name },
                    },
                    "spec": { "containers": [{ "name": "vpc-nat-gw", "image": "gateway" }] },
                },
            },
            "status": { "replicas": 1, "availableReplicas": available },
        })
    }

    pub(crate) fn pod_object(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.pod(), "namespace": SYSTEM,
                "labels": { "app": self.workload(), "ovn.kubernetes.io/vpc-nat-gw": "true" },
                "annotations": {
                    "ovn.kubernetes.io/vpc_nat_gw": self.name,
                    "ovn.kubernetes.io/ip_address": self.lan.to_string(),
                    "ovn.kubernetes.io/gateway": ROUTER.to_string(),
                    "ovn.kubernetes.io/logical_router": self.vpc,
                    "ovn-vpc-external-network.kube-system.kubernetes.io/ip_address": self.external.to_string(),
                },
            },
            "spec": {
                "nodeName": self.node,
                "containers": [{ "name": "vpc-nat-gw", "image": "gateway" }],
            },
        })
    }

    pub(crate) fn pod_status(&self, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        json!({ "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": ready }],
        } })
    }

    pub(crate) fn object(&self) -> Value {
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "VpcNatGateway",
            "metadata": { "name": self.name },
            "spec": { "vpc": self.vpc, "lanIp": self.lan.to_string() },
        })
    }
}

impl Tunnel {
    pub(crate) fn object(&self) -> Value {
        let mut object = json!({
            "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
            "metadata": { "name": self.name, "namespace": TUNNELS_IN },
            "spec": {
                "interfaceAddr": self.address, "natGwDp": self.gateway,
                "clusterId": id(1 - self.cluster), "gatewayName": self.peer,
            },
        });
        object["spec"]["type"] = json!(if self.vni.is_some() { "vxlan" } else { "gre" });
        if let Some(vni) = self.vni {
            object["metadata"]["labels"] = json!({ "vid": vni.to_string() });
        }
        object
    }

    pub(crate) fn key(&self) -> String {
        format!("{TUNNELS_IN}/{}", self.name)
    }
}
