//! The networks that each cluster declares, and who lives where on them.

use std::net::Ipv4Addr;

use causeway_api::networks::{Network, NetworkSpec};
use ipnet::Ipv4Net;
use kube::Resource;
use serde_json::{Value, json};

/// Where they are declared, as in samples/networks.
pub(super) const NAMESPACE: &str = "default";
const PREFIX: u8 = 24;

/// A network that is declared. Clusters share nothing here, so all of them use the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) name: &'static str,
    third: u8,
    /// Those that are attached where networks are bridges.
    hosts: &'static [&'static str],
}

/// Two: what holds for the hosts of one must not hold for those of the other.
pub(super) const ALL: [Declared; 2] = [
    Declared { name: "blue", third: 10, hosts: &["blue1", "blue2"] },
    Declared { name: "green", third: 20, hosts: &["green1"] },
];

impl Declared {
    pub(super) fn range(self) -> Ipv4Net {
        Ipv4Net::new_assert(self.at(0), PREFIX)
    }

    pub(super) fn gateway(self) -> Ipv4Addr {
        self.at(1)
    }

    /// Its hosts and their addresses, from 11 on.
    pub(super) fn hosts(self) -> impl Iterator<Item = (&'static str, Ipv4Addr)> {
        (11..).map(move |last| self.at(last)).zip(self.hosts).map(|(address, name)| (*name, address))
    }

    fn at(self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(192, 168, self.third, last)
    }

    /// The object.
    pub(super) fn object(self) -> Value {
        let spec = NetworkSpec { cidr: self.range().to_string(), gateway: Some(self.gateway().to_string()) };
        json!({
            "apiVersion": Network::api_version(&()), "kind": Network::kind(&()),
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": spec,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_an_address_of_its_own_networks_range_alone() {
        for network in ALL {
            let others = || ALL.into_iter().filter(|other| *other != network);
            assert!(network.hosts().count() > 0);
            for (name, address) in network.hosts().chain([("gateway", network.gateway())]) {
                assert!(network.range().contains(&address), "{name}");
                assert!(others().all(|other| !other.range().contains(&address)), "{name}");
            }
        }
    }
}
