//! Who has which name and address, for however many gateways and peers.

use std::net::Ipv4Addr;

/// Where gateways are outside, and the router by which they reach their peers.
pub(crate) const UNDERLAY: &str = "172.50.0.0/16";
pub(crate) const ROUTER: &str = "172.50.0.1";
/// All that peers have as global addresses, and more; 242.0.0.0/16 is our own.
pub(crate) const PEERS: [&str; 5] =
    ["242.1.0.0/16", "242.2.0.0/15", "242.4.0.0/14", "242.8.0.0/13", "242.16.0.0/12"];
/// The port of every tunnel.
pub(crate) const PORT: u16 = 4789;

/// Addresses on the link to a peer: ours, the peer's, and another that we may have.
pub(crate) const OURS: usize = 1;
pub(crate) const FAR: usize = 2;
pub(crate) const OURS_TOO: usize = 3;

/// How many gateways there are, and how many clusters their tunnels lead to. Both are counted from 1, tunnels
/// from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) gateways: usize,
    pub(crate) peers: usize,
}

impl Shape {
    /// The gateway and the peer of a tunnel: spread over all, never twice between the same two.
    pub(crate) fn ends(self, tunnel: usize) -> (usize, usize) {
        let (gateway, turn) = (tunnel % self.gateways, tunnel / self.gateways);
        (gateway + 1, (turn + gateway * self.peers / self.gateways) % self.peers + 1)
    }
}

/// The name of a tunnel, and of its link.
pub(crate) fn name(tunnel: usize) -> String {
    format!("t{tunnel}")
}

/// The name of the link at its other end.
pub(crate) fn far_name(tunnel: usize) -> String {
    format!("f{tunnel}")
}

/// Tells the tunnels of one gateway apart on the wire.
pub(crate) fn vni(tunnel: usize) -> usize {
    100 + tunnel
}

/// The pod of a gateway.
pub(crate) fn pod(gateway: usize) -> String {
    format!("vpc-nat-gw-g{gateway}-0")
}

/// The gateway of a pod.
pub(crate) fn gateway_of(pod: &str) -> Option<usize> {
    pod.strip_prefix("vpc-nat-gw-g")?.strip_suffix("-0")?.parse().ok()
}

/// The so-manieth address behind a first one.
fn address(first: [u8; 4], offset: usize) -> Ipv4Addr {
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    Ipv4Addr::from(u32::from(Ipv4Addr::from(first)).saturating_add(offset))
}

/// A host of a gateway's VPC, whose subnet has 24 bits.
pub(crate) fn inside(gateway: usize, host: usize) -> Ipv4Addr {
    address([10, 1, 0, 0], gateway * 256 + host)
}

/// A gateway on its VPC's subnet.
pub(crate) fn lan(gateway: usize) -> Ipv4Addr {
    inside(gateway, 254)
}

/// A gateway outside.
pub(crate) fn external(gateway: usize) -> Ipv4Addr {
    address([172, 50, 16, 0], gateway)
}

/// The Ethernet address of all links of a gateway, which follows from where it is outside.
pub(crate) fn mac(gateway: usize) -> String {
    let [a, b, c, d] = external(gateway).octets();
    format!("02:43:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// A peer's gateway outside, in the range that is kept for benchmarks.
pub(crate) fn peer_external(peer: usize) -> Ipv4Addr {
    address([198, 18, 0, 0], peer)
}

/// A host of a peer's range of global addresses, which has 24 bits.
pub(crate) fn peer_host(peer: usize, host: usize) -> Ipv4Addr {
    address([242, 1, 0, 0], peer * 256 + host)
}

/// A peer's range of global addresses.
pub(crate) fn range(peer: usize) -> String {
    format!("{}/24", peer_host(peer, 0))
}

/// An address on the link to a peer.
pub(crate) fn inner(peer: usize, end: usize) -> Ipv4Addr {
    address([10, 128, 0, 0], peer * 8 + end)
}

/// The same with its prefix.
pub(crate) fn interface(peer: usize, end: usize) -> String {
    format!("{}/29", inner(peer, end))
}
