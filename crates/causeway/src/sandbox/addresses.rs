//! Who lives where: every address of the sandbox follows from a cluster's number.
//!
//! All clusters use the same VPC subnet on purpose: only the globalnets and the underlay
//! addresses differ, so nothing works by accident of distinct private ranges.

use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// The VPC every cluster has.
pub(super) const VPC: &str = "test-vpc-1";
/// The VPC's subnet object.
pub(super) const SUBNET: &str = "test-vpc-1-net1";
/// The external subnet object, and the name of its attachment.
pub(super) const EXTERNAL_SUBNET: &str = "ovn-vpc-external-network";
/// Namespace of the workloads and of the sandbox's own tunnel.
pub(super) const WORKLOADS: &str = "ns1";
/// Where kube-ovn keeps its gateways.
pub(super) const SYSTEM: &str = "kube-system";
/// The VPC router as seen from the pods (`ovnGwIP`).
pub(super) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
/// The underlay's own address: the gateways' way out.
pub(super) const UNDERLAY_GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 50, 16, 1);
/// Whoever else is on the underlay.
pub(super) const OTHERS: Ipv4Addr = Ipv4Addr::new(172, 50, 16, 254);
/// Most clusters the underlay's numbering has room for.
pub(super) const MAX_CLUSTERS: u8 = 9;

/// The VPC's subnet.
pub(super) fn lan() -> Ipv4Net {
    net(Ipv4Addr::new(10, 0, 1, 0), 24)
}

/// The network that joins the gateways of all clusters.
pub(super) fn underlay() -> Ipv4Net {
    net(Ipv4Addr::new(172, 50, 16, 0), 24)
}

fn net(address: Ipv4Addr, prefix: u8) -> Ipv4Net {
    Ipv4Net::new(address, prefix).expect("the prefix lengths here are constants up to 32")
}

/// One member cluster, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cluster(u8);

impl Cluster {
    /// Clusters 1 to `count`.
    pub(super) fn first(count: u8) -> Vec<Cluster> {
        (1..=count.min(MAX_CLUSTERS)).map(Cluster).collect()
    }

    /// Submariner's cluster id, also the kubeconfig's name.
    pub(super) fn id(self) -> String {
        format!("cluster{}", self.0)
    }

    /// Short enough to be part of a link's name.
    pub(super) fn short(self) -> String {
        format!("c{}", self.0)
    }

    /// The only node.
    pub(super) fn node(self) -> String {
        format!("{}-node1", self.id())
    }

    /// The range Submariner gave to this cluster.
    pub(super) fn globalnet(self) -> Ipv4Net {
        net(Ipv4Addr::new(242, self.0 - 1, 0, 0), 16)
    }

    /// What the cluster's traffic to others looks like from there.
    pub(super) fn egress(self) -> Vec<Ipv4Addr> {
        let [a, b, ..] = self.globalnet().network().octets();
        (1..=8).map(|host| Ipv4Addr::new(a, b, 0, host)).collect()
    }

    /// Where other clusters reach this one's server.
    pub(super) fn server_global(self) -> Ipv4Addr {
        Ipv4Addr::new(242, self.0 - 1, 1, 20)
    }

    /// A gateway's address on the underlay.
    pub(super) fn external(self, gateway: Gateway) -> Ipv4Addr {
        Ipv4Addr::new(172, 50, 16, self.0 * 10 + gateway.number())
    }

    /// The client's floating IP on a gateway; the numbering has room for two clusters' only.
    pub(super) fn floating(self, gateway: Gateway) -> Option<Ipv4Addr> {
        (self.0 <= 2).then(|| Ipv4Addr::new(172, 50, 16, self.0 * 100 + gateway.number()))
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id())
    }
}

/// The two NAT gateways of the VPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gateway {
    /// The one the VPC's static routes lead to at first.
    Gw1,
    /// The standby.
    Gw2,
}

impl Gateway {
    pub(super) const ALL: [Gateway; 2] = [Gateway::Gw1, Gateway::Gw2];

    fn number(self) -> u8 {
        match self {
            Gateway::Gw1 => 1,
            Gateway::Gw2 => 2,
        }
    }

    /// The `VpcNatGateway`'s name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Gateway::Gw1 => "gw1",
            Gateway::Gw2 => "gw2",
        }
    }

    /// The StatefulSet's name.
    pub(super) fn workload(self) -> String {
        format!("vpc-nat-gw-{}", self.name())
    }

    /// Address on the VPC's subnet.
    pub(super) fn lan(self) -> Ipv4Addr {
        match self {
            Gateway::Gw1 => Ipv4Addr::new(10, 0, 1, 254),
            Gateway::Gw2 => Ipv4Addr::new(10, 0, 1, 253),
        }
    }
}

/// What a pod of the sandbox is. Anything else a user creates stays Pending: it has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// A NAT gateway, owned by its StatefulSet.
    Gateway(Gateway),
    /// The workload that speaks first.
    Client,
    /// The workload that is reached under a global address.
    Server,
}

impl Role {
    pub(super) const ALL: [Role; 4] =
        [Role::Gateway(Gateway::Gw1), Role::Gateway(Gateway::Gw2), Role::Client, Role::Server];

    /// The role of the pod with this name, if it is one of ours.
    pub(super) fn of(namespace: &str, pod: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.namespace() == namespace && role.pod() == pod)
    }

    pub(super) fn namespace(self) -> &'static str {
        match self {
            Role::Gateway(_) => SYSTEM,
            Role::Client | Role::Server => WORKLOADS,
        }
    }

    pub(super) fn pod(self) -> String {
        match self {
            Role::Gateway(gateway) => format!("{}-0", gateway.workload()),
            Role::Client => "client".into(),
            Role::Server => "server".into(),
        }
    }

    pub(super) fn container(self) -> &'static str {
        match self {
            Role::Gateway(_) => "vpc-nat-gw",
            Role::Client | Role::Server => "workload",
        }
    }

    /// Short enough to be part of a link's name.
    pub(super) fn short(self) -> &'static str {
        match self {
            Role::Gateway(gateway) => gateway.name(),
            Role::Client => "client",
            Role::Server => "server",
        }
    }

    /// Address on the VPC's subnet.
    pub(super) fn lan(self) -> Ipv4Addr {
        match self {
            Role::Gateway(gateway) => gateway.lan(),
            Role::Client => Ipv4Addr::new(10, 0, 1, 10),
            Role::Server => Ipv4Addr::new(10, 0, 1, 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_two_clusters_differ_only_outside_the_vpc() {
        let [one, two] = Cluster::first(2)[..] else { panic!("two clusters") };
        assert_eq!(one.globalnet().to_string(), "242.0.0.0/16");
        assert_eq!(two.globalnet().to_string(), "242.1.0.0/16");
        assert_eq!(two.egress().first(), Some(&Ipv4Addr::new(242, 1, 0, 1)));
        assert_eq!(two.egress().last(), Some(&Ipv4Addr::new(242, 1, 0, 8)));
        assert_eq!(two.server_global(), Ipv4Addr::new(242, 1, 1, 20));
        assert_eq!(one.external(Gateway::Gw1), Ipv4Addr::new(172, 50, 16, 11));
        assert_eq!(two.external(Gateway::Gw2), Ipv4Addr::new(172, 50, 16, 22));
        assert_eq!(one.floating(Gateway::Gw1), Some(Ipv4Addr::new(172, 50, 16, 101)));
    }

    #[test]
    fn the_ninth_cluster_still_has_addresses_of_its_own() {
        let last = Cluster::first(MAX_CLUSTERS)[8];
        assert_eq!(last.external(Gateway::Gw2), Ipv4Addr::new(172, 50, 16, 92));
        assert_eq!(last.floating(Gateway::Gw1), None);
        assert!(underlay().contains(&last.external(Gateway::Gw1)));
    }

    #[test]
    fn a_pod_is_found_by_namespace_and_name() {
        assert_eq!(Role::of("kube-system", "vpc-nat-gw-gw2-0"), Some(Role::Gateway(Gateway::Gw2)));
        assert_eq!(Role::of("ns1", "server"), Some(Role::Server));
        assert_eq!(Role::of("default", "server"), None);
    }
}
