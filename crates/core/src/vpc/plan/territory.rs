//! What is taken already: no claim of a tunnel may change where another's packets go.
//!
//! A tunnel claims the range behind its peer, the peer's address on the underlay, and the net of its own link. Others of the
//! gateway claim theirs; its links have nets of their own; some addresses are nobody's. The claim in use stands, whoever
//! came first: a record that was edited has an age that proves nothing. Of those that overlap and are not in use none is
//! taken, because nobody can tell which of them is right.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::super::UNDERLAY_LINK;
use super::super::have::{Have, Link, LinkKind, Route};
use super::super::want::{TunnelWant, Want};
use super::{Problem, route_to};
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
    /// Whether the gateway holds it, or the object says that it was built with it.
    is_used: bool,
}

/// All that is taken on a gateway.
struct Territory<'a> {
    want: &'a Want,
    have: &'a Have,
    routes: HashSet<&'a Route>,
    /// The nets of links that are not ours.
    nets: Vec<(&'a str, Ipv4Cidr)>,
    /// What stands for tunnels that stay as they are, whatever they are wanted to be.
    standing: Vec<(Part, Ipv4Cidr, &'a str)>,
    stakes: BTreeMap<Ipv4Cidr, Vec<Stake<'a>>>,
}

/// The tunnels whose claims overlap with others', and are not in use.
///
/// First those go that overlap with what stands; one that is refused claims nothing. Then none of those is taken that are left
/// and overlap with each other.
pub(super) fn contested(want: &Want, have: &Have) -> BTreeMap<ObjectKey, Problem> {
    let mut territory = Territory::new(want, have);
    let mut problems = territory.refused(|stake| stake.is_used);
    territory.stakes.values_mut().for_each(|all| all.retain(|it| !problems.contains_key(&it.tunnel.owner)));
    problems.extend(territory.refused(|_| true));
    problems
}

impl<'a> Territory<'a> {
    fn new(want: &'a Want, have: &'a Have) -> Self {
        // One of ours may have lost its mark.
        let is_tunnels = |name: &str| name.parse().is_ok_and(|it: LinkName| want.tunnels.contains_key(&it));
        let others = have.links.iter().filter(|(name, link)| !link.is_ours() && !is_tunnels(name));
        let nets =
            others.flat_map(|(name, link)| link.addresses.iter().map(|it| (name.as_str(), it.network())));
        let (routes, nets) = (have.routes.iter().collect(), nets.collect());
        let mut territory =
            Self { want, have, routes, nets, standing: standing(want, have), stakes: BTreeMap::new() };
        for (name, tunnel) in &want.tunnels {
            for part in Part::ALL {
                let stake = Stake { part, tunnel, is_used: territory.is_used(name, tunnel, part) };
                territory.stakes.entry(part.of(tunnel)).or_default().push(stake);
            }
        }
        territory
    }

    /// Whether the object says that the tunnel was built with one part of what it claims, or the gateway holds it.
    fn is_used(&self, name: &LinkName, tunnel: &TunnelWant, part: Part) -> bool {
        let said = self.want.established.get(&tunnel.owner);
        let link = || self.have.links.get(name.as_str()).filter(|link| link.is_ours());
        match part {
            Part::Range => {
                said.is_some_and(|it| it.range == Some(tunnel.remote_range))
                    || self.routes.contains(&route_to(tunnel.remote_range, None, name.as_str()))
            }
            Part::Peer => {
                said.is_some_and(|it| it.peer == Some(tunnel.remote))
                    || link()
                        .and_then(|link| link.kind.as_ref())
                        .is_some_and(|it| it.remote() == Some(tunnel.remote))
            }
            Part::Inner => {
                said.is_some_and(|it| it.address == Some(tunnel.address))
                    || link().is_some_and(|link| link.addresses.contains(&tunnel.address))
            }
        }
    }

    /// The tunnels with a part that is not in use and overlaps with what counts.
    fn refused(&self, counts: impl Fn(&Stake<'_>) -> bool) -> BTreeMap<ObjectKey, Problem> {
        let mut problems = BTreeMap::new();
        for (net, stake) in self.stakes.iter().flat_map(|(net, all)| all.iter().map(|stake| (*net, stake))) {
            if let Some(with) = self.rival(net, stake, &counts) {
                let what = format!("{} {net}", stake.part);
                problems.entry(stake.tunnel.owner.clone()).or_insert(Problem::Overlap { what, with });
            }
        }
        problems
    }

    fn rival(&self, net: Ipv4Cidr, stake: &Stake<'_>, counts: impl Fn(&Stake<'_>) -> bool) -> Option<String> {
        let nobodys = nobodys(stake.part, net);
        if nobodys.is_some() || stake.is_used {
            return nobodys;
        }
        self.ours(stake.tunnel, stake.part, net)
            .or_else(|| self.of_link(stake.part, net))
            .or_else(|| self.of_standing(stake.part, net))
            .or_else(|| self.of_tunnel(net, stake, counts))
    }

    /// What is this cluster's and this gateway's own.
    fn ours(&self, tunnel: &TunnelWant, part: Part, net: Ipv4Cidr) -> Option<String> {
        if net.contains(tunnel.local) {
            return Some(format!("the gateway's own address {}", tunnel.local));
        }
        let own = self.want.inbound.map_or(tunnel.own, |inbound| inbound.range);
        (part != Part::Range && own.overlaps(net)).then(|| format!("this cluster's own range {own}"))
    }

    /// What the gateway's other links have. A peer is reached by the uplink, and so lies in its net; where packets for a range
    /// go by now its routes say.
    fn of_link(&self, part: Part, net: Ipv4Cidr) -> Option<String> {
        let is_meant = |name: &str| match part {
            Part::Range => false,
            Part::Peer => name != UNDERLAY_LINK,
            Part::Inner => true,
        };
        let hit = self.nets.iter().find(|(name, other)| is_meant(name) && other.overlaps(net));
        let of_link = hit.map(|(name, other)| format!("{other} of the gateway's link {name}"));
        of_link.or_else(|| self.of_route(net).filter(|_| part == Part::Inner))
    }

    /// Where packets go by a way of somebody else's that the net of a link would lead astray, as to a subnet of the VPC. What
    /// a gateway knows no other way for goes by its default route, and that is no claim.
    fn of_route(&self, net: Ipv4Cidr) -> Option<String> {
        let leads = |route: &&&Route| route.via.is_some() && !route.is_ours() && route.range.prefix() > 0;
        let mut routes = self.routes.iter().filter(leads).filter(|route| route.range.overlaps(net));
        routes.next().map(|route| format!("the gateway's route {route}"))
    }

    /// What tunnels have that stay as they are.
    fn of_standing(&self, part: Part, net: Ipv4Cidr) -> Option<String> {
        let mut standing = self.standing.iter();
        let hit = standing.find(|(theirs, other, _)| part.excludes(*theirs) && other.overlaps(net));
        hit.map(|(theirs, other, link)| {
            format!("{theirs} {other} of the tunnel of link {link}, which stays as it is")
        })
    }

    /// What other tunnels of the gateway claim, and this one by another part of it.
    fn of_tunnel(
        &self,
        net: Ipv4Cidr,
        stake: &Stake<'_>,
        counts: impl Fn(&Stake<'_>) -> bool,
    ) -> Option<String> {
        let (tunnel, part) = (stake.tunnel, stake.part);
        let around = net.covering().skip(1).filter_map(|around| self.stakes.get_key_value(&around));
        let within = self.stakes.range(net..=net.last()).filter(|(within, _)| net.covers(**within));
        let mut others =
            around.chain(within).flat_map(|(net, all)| all.iter().map(move |stake| (net, stake)));
        let is_hit = |(other, stake): &(&Ipv4Cidr, &Stake<'_>)| {
            let is_own = stake.tunnel.owner == tunnel.owner;
            // Two that want the very same range are told apart by age.
            let is_same = stake.part == part && (is_own || **other == net);
            part.excludes(stake.part) && !is_same && (is_own || counts(stake))
        };
        others
            .find(is_hit)
            .map(|(net, stake)| format!("{} {net} of tunnel {}", stake.part, stake.tunnel.owner))
    }
}

/// What the gateway holds for tunnels that stay as they are: the ends and nets of their links, and where these lead.
fn standing<'a>(want: &Want, have: &'a Have) -> Vec<(Part, Ipv4Cidr, &'a str)> {
    let is_frozen =
        |link: &Link| link.is_ours() && link.owner().is_some_and(|owner| want.frozen.contains(&owner));
    let frozen: BTreeMap<&str, &Link> = have
        .links
        .iter()
        .filter(|(_, link)| is_frozen(link))
        .map(|(name, link)| (name.as_str(), link))
        .collect();
    let mut standing = Vec::new();
    for (name, link) in &frozen {
        standing.extend(link.addresses.iter().map(|address| (Part::Inner, address.network(), *name)));
        let remote = link.kind.as_ref().and_then(LinkKind::remote);
        standing.extend(remote.map(|remote| (Part::Peer, alone(remote), *name)));
    }
    let routes = have.routes.iter().filter(|route| route.is_ours());
    let over = routes.filter_map(|route| Some((route.range, frozen.get_key_value(route.dev.as_deref()?)?)));
    standing.extend(over.map(|(range, (name, _))| (Part::Range, range, *name)));
    standing
}

/// Addresses that no peer and no link can have. Those from 240.0.0.0 on are reserved, and global addresses are taken there;
/// those of one link only are as good as any for a tunnel's own.
fn nobodys(part: Part, net: Ipv4Cidr) -> Option<String> {
    let ranges = [
        ("0.0.0.0/8", "the addresses of nobody"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", LINK_LOCAL),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
    ];
    let known = |text: &str| text.parse().ok().filter(|known: &Ipv4Cidr| known.overlaps(net));
    let meant = ranges.into_iter().filter(|(_, what)| part != Part::Inner || *what != LINK_LOCAL);
    meant.into_iter().find_map(|(text, what)| known(text).map(|range| format!("{what}, {range}")))
}

/// Whether a range holds addresses that no peer can have.
pub(in crate::vpc) fn is_nobodys(range: Ipv4Cidr) -> bool {
    nobodys(Part::Range, range).is_some()
}

const LINK_LOCAL: &str = "link-local addresses";

fn alone(address: Ipv4Addr) -> Ipv4Cidr {
    Ipv4Cidr::containing(address.into())
}
