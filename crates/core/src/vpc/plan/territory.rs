//! What is taken already: no claim of a tunnel may change where another's packets go.
//!
//! A tunnel claims the range behind its peer, the peer's address on the underlay, and the net of its own link. Others of the
//! gateway claim theirs; its links have nets of their own; some addresses are nobody's. The claim in use stands, whoever
//! came first: a record that was edited has an age that proves nothing. Of those that overlap and are not in use none is
//! taken, because nobody can tell which of them is right.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use super::super::UNDERLAY_LINK;
use super::super::have::Have;
use super::super::want::{TunnelWant, Want};
use super::{Problem, link_kind, route_to};
use crate::names::{Ipv4Cidr, LinkName, ObjectKey};

/// What a tunnel claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The range behind the peer.
    Range,
    /// The peer's address on the underlay.
    Peer,
    /// The net of the tunnel's link.
    Inner,
}

impl Part {
    const ALL: [Self; 3] = [Self::Range, Self::Peer, Self::Inner];

    fn of(self, tunnel: &TunnelWant) -> Ipv4Cidr {
        match self {
            Self::Range => tunnel.remote_range,
            Self::Peer => alone(tunnel.remote),
            Self::Inner => tunnel.address.network(),
        }
    }

    /// Whether two claims that share addresses are in each other's way. One peer may have many tunnels, and the nets of two
    /// links only matter to those links.
    fn excludes(self, other: Self) -> bool {
        !matches!((self, other), (Self::Peer, Self::Peer) | (Self::Inner, Self::Inner))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Range => "the remote range",
            Self::Peer => "the peer's address",
            Self::Inner => "the net of interfaceAddr",
        })
    }
}

/// One claim of one tunnel.
struct Stake<'a> {
    part: Part,
    tunnel: &'a TunnelWant,
}

/// The tunnels whose claims overlap with others', and are not in use.
pub(super) fn contested(want: &Want, have: &Have) -> BTreeMap<ObjectKey, Problem> {
    let mut stakes: BTreeMap<Ipv4Cidr, Vec<Stake<'_>>> = BTreeMap::new();
    for tunnel in want.tunnels.values() {
        for part in Part::ALL {
            stakes.entry(part.of(tunnel)).or_default().push(Stake { part, tunnel });
        }
    }
    let unused = want.tunnels.iter().filter(|(name, tunnel)| !is_in_use(want, have, name, tunnel));
    unused
        .filter_map(|(_, tunnel)| Some((tunnel.owner.clone(), problem(want, have, &stakes, tunnel)?)))
        .collect()
}

/// Whether a tunnel is what its object says it is already, or what the gateway holds.
fn is_in_use(want: &Want, have: &Have, name: &LinkName, tunnel: &TunnelWant) -> bool {
    let is_built = || {
        let link = have.links.get(name.as_str());
        let is_its = link.is_some_and(|link| {
            link.kind.as_ref() == Some(&link_kind(tunnel)) && link.addresses.contains(&tunnel.address)
        });
        is_its && have.routes.contains(&route_to(tunnel.remote_range, None, name.as_str()))
    };
    want.settled.contains(&tunnel.owner) || is_built()
}

fn problem(
    want: &Want,
    have: &Have,
    stakes: &BTreeMap<Ipv4Cidr, Vec<Stake<'_>>>,
    tunnel: &TunnelWant,
) -> Option<Problem> {
    Part::ALL.into_iter().find_map(|part| {
        let net = part.of(tunnel);
        let with = nobodys(net)
            .or_else(|| ours(want, tunnel, part, net))
            .or_else(|| of_link(want, have, part, net))
            .or_else(|| of_tunnel(stakes, tunnel, part, net))?;
        Some(Problem::Overlap { what: format!("{part} {net}"), with })
    })
}

/// Addresses that no peer and no link can have. Those from 240.0.0.0 on are reserved, and global addresses are taken there.
fn nobodys(net: Ipv4Cidr) -> Option<String> {
    let ranges = [
        ("0.0.0.0/8", "the addresses of nobody"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local addresses"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
    ];
    let known = |text: &str| text.parse().ok().filter(|known: &Ipv4Cidr| known.overlaps(net));
    ranges.into_iter().find_map(|(text, what)| known(text).map(|range| format!("{what}, {range}")))
}

/// What is this cluster's and this gateway's own.
fn ours(want: &Want, tunnel: &TunnelWant, part: Part, net: Ipv4Cidr) -> Option<String> {
    if net.contains(tunnel.local) {
        return Some(format!("the gateway's own address {}", tunnel.local));
    }
    let own = want.inbound.map_or(tunnel.own, |inbound| inbound.range);
    (part != Part::Range && own.overlaps(net)).then(|| format!("this cluster's own range {own}"))
}

/// What the gateway's other links have. A peer is reached by the uplink, and so lies in its net; where packets for a range go
/// by now its routes say.
fn of_link(want: &Want, have: &Have, part: Part, net: Ipv4Cidr) -> Option<String> {
    // One of ours may have lost its mark.
    let is_tunnels = |name: &str| name.parse().is_ok_and(|name: LinkName| want.tunnels.contains_key(&name));
    let is_meant = |name: &str| part != Part::Peer || name != UNDERLAY_LINK;
    let others =
        have.links.iter().filter(|(name, link)| !link.is_ours() && !is_tunnels(name) && is_meant(name));
    let mut nets = others.flat_map(|(name, link)| link.addresses.iter().map(move |it| (name, it.network())));
    let is_hit = |(_, other): &(&String, Ipv4Cidr)| part != Part::Range && other.overlaps(net);
    nets.find(is_hit).map(|(name, other)| format!("{other} of the gateway's link {name}"))
}

/// What other tunnels of the gateway claim, and this one by another part of it.
fn of_tunnel(
    stakes: &BTreeMap<Ipv4Cidr, Vec<Stake<'_>>>,
    tunnel: &TunnelWant,
    part: Part,
    net: Ipv4Cidr,
) -> Option<String> {
    let around = net.covering().skip(1).filter_map(|around| stakes.get_key_value(&around));
    let within = stakes.range(net..=net.last()).filter(|(within, _)| net.covers(**within));
    let mut others = around.chain(within).flat_map(|(net, all)| all.iter().map(move |stake| (net, stake)));
    let is_hit = |(other, stake): &(&Ipv4Cidr, &Stake<'_>)| {
        // Two that want the very same range are told apart by age.
        let is_same = stake.part == part && (stake.tunnel.owner == tunnel.owner || **other == net);
        part.excludes(stake.part) && !is_same
    };
    others.find(is_hit).map(|(net, stake)| format!("{} {net} of tunnel {}", stake.part, stake.tunnel.owner))
}

fn alone(address: Ipv4Addr) -> Ipv4Cidr {
    Ipv4Cidr::containing(address.into())
}
