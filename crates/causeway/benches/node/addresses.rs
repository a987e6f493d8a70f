//! Who has which addresses: node 0 is the one that is looked at, the others are its peers.

use std::net::{IpAddr, Ipv4Addr};

use causeway_core::leases::Mac;

/// All leases lie in it: as many as 131,072.
pub(crate) const NETWORK: &str = "10.0.0.0/8";
const FIRST_SUBNET: u32 = 0x0a00_0000;
/// 128 addresses each.
const SUBNET_BITS: u32 = 7;
/// Nodes share one link, so that each is the next hop to its own pods.
const FIRST_NODE: u32 = 0xac10_0002;

/// A node's part of the network.
pub(crate) fn subnet(node: u32) -> String {
    format!("{}/{}", Ipv4Addr::from(FIRST_SUBNET + (node << SUBNET_BITS)), 32 - SUBNET_BITS)
}

/// A pod of a node.
pub(crate) fn pod(node: u32) -> IpAddr {
    Ipv4Addr::from(FIRST_SUBNET + (node << SUBNET_BITS) + 9).into()
}

/// Where a node is reached.
pub(crate) fn public(node: u32) -> IpAddr {
    Ipv4Addr::from(FIRST_NODE + node).into()
}

/// The same where only so many addresses are to be had.
pub(crate) fn hop(node: u32, hops: u32) -> IpAddr {
    public((node - 1) % hops + 1)
}

/// What its end of a VXLAN is called.
pub(crate) fn mac(node: u32) -> Mac {
    let [a, b, c, d] = node.to_be_bytes();
    Mac([0x02, 0xbe, a, b, c, d])
}

/// Makes a namespace the machine of node 0: a link that all nodes are on, and it is up. Its other end is in here too.
pub(crate) fn machine() -> String {
    format!(
        "set -e; ip link set lo up; ip link add eth0 type veth peer name switch
         ip addr add {}/12 dev eth0; ip link set switch up; ip link set eth0 up
         echo 1 > /proc/sys/net/ipv4/ip_forward",
        public(0)
    )
}
