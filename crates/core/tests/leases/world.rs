//! Nodes and networks as the tests need them.

use std::net::IpAddr;

use causeway_core::leases::{Backend, Lease, Mac, Mode, Network, Node, Place};
use causeway_core::{Cidr, Family};

pub(crate) const VXLAN: Mode = Mode::Vxlan { vni: 1, port: 8472, direct: false };
pub(crate) const DIRECT: Mode = Mode::Vxlan { vni: 1, port: 8472, direct: true };
/// The link that all nodes share.
pub(crate) const LINK: u32 = 2;

pub(crate) fn range(text: &str) -> Cidr {
    text.parse().expect("a range")
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

/// The lease of a node by its number.
pub(crate) fn subnet(family: Family, number: u8) -> Cidr {
    match family {
        Family::V4 => range(&format!("10.244.{number}.0/24")),
        Family::V6 => range(&format!("fd00:10:244:{number:x}::/64")),
    }
}

pub(crate) fn public(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => address(&format!("192.168.7.{number}")),
        Family::V6 => address(&format!("fd00:192:168::{number:x}")),
    }
}

pub(crate) fn network(family: Family, mode: Mode) -> Network {
    let range = match family {
        Family::V4 => range("10.244.0.0/16"),
        Family::V6 => range("fd00:10:244::/48"),
    };
    Network { range, mode }
}

/// This node, which has the number 1.
pub(crate) fn place(family: Family) -> Place {
    let neighbours = match family {
        Family::V4 => range("192.168.7.0/25"),
        Family::V6 => range("fd00:192:168::/121"),
    };
    Place {
        subnet: subnet(family, 1),
        public: public(family, 1),
        local: public(family, 1),
        link: LINK,
        mtu: 1500,
        neighbours: vec![neighbours],
        mac: mac(1),
    }
}

pub(crate) fn backend(mode: Mode, number: u8) -> Backend {
    match mode {
        Mode::HostGw => Backend::HostGw,
        Mode::Vxlan { vni, .. } => Backend::Vxlan { vni, mac: mac(number) },
    }
}

pub(crate) fn lease(family: Family, mode: Mode, number: u8) -> Lease {
    Lease { subnet: subnet(family, number), public: public(family, number), backend: backend(mode, number) }
}

/// A node with one lease, as old as its number says.
pub(crate) fn node(lease: Lease, since: i64) -> Node {
    Node { since, leases: vec![Ok(lease)] }
}
