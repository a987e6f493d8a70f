//! What a gateway should hold: one value per tunnel, and what its tunnels share.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::action::Step;
use super::{LINK_GROUP, STANDBY_GROUP};
use crate::leases::Mac;
use crate::names::{HostAddr, Invalid, Ipv4Cidr, LinkName, ObjectKey};

/// The encapsulation of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TunnelKind {
    /// An Ethernet link over UDP.
    Vxlan {
        /// The network identifier: 24 bits.
        vni: u32,
        /// The UDP port, the same at both ends.
        port: u16,
    },
    /// A point-to-point IP link, without a key.
    Gre,
}

impl TunnelKind {
    /// As in `spec.type` and in `ip link add … type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vxlan { .. } => "vxlan",
            Self::Gre => "gre",
        }
    }
}

/// The addresses that traffic into a tunnel appears to come from, first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EgressRange {
    /// The first address.
    pub first: Ipv4Addr,
    /// The last address.
    pub last: Ipv4Addr,
}

impl EgressRange {
    /// The longest run of consecutive addresses; a NAT rule takes one range only.
    pub fn longest_run(addresses: &[Ipv4Addr]) -> Option<Self> {
        let mut sorted: Vec<u32> = addresses.iter().copied().map(u32::from).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let runs = sorted.chunk_by(|a, b| a + 1 == *b);
        // `max_by_key` would prefer the last of equals; the lowest addresses are the steadier choice.
        let best = runs.fold(None::<&[u32]>, |best, run| match best {
            Some(best) if best.len() >= run.len() => Some(best),
            _ => Some(run),
        })?;
        Some(Self { first: (*best.first()?).into(), last: (*best.last()?).into() })
    }

    /// How many addresses it spans.
    pub fn len(self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1
    }

    /// Never: a range holds at least one address.
    pub fn is_empty(self) -> bool {
        false
    }
}

impl std::str::FromStr for EgressRange {
    type Err = Invalid;

    /// `a-b`, or `a` for a range of one.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let address = |part: &str| part.parse().map_err(|_| Invalid::Address(part.into()));
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (address(first)?, address(last)?);
        if first <= last { Ok(Self { first, last }) } else { Err(Invalid::Address(text.into())) }
    }
}

impl fmt::Display for EgressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// What a gateway is to a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seat {
    /// The one that the tunnel names.
    #[default]
    Named,
    /// The main one of its VPC: the tunnel's packets go through it.
    Main,
    /// One that would take over: it holds all that the main one holds, and sends nothing into the tunnel.
    Standby,
}

impl Seat {
    /// Whether packets are meant to go through it.
    pub fn carries(self) -> bool {
        self != Self::Standby
    }
}

/// All that one tunnel needs of its gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelWant {
    /// The object it stands for.
    pub owner: ObjectKey,
    /// The encapsulation.
    pub kind: TunnelKind,
    /// Our end on the underlay.
    pub local: Ipv4Addr,
    /// The peer's end on the underlay.
    pub remote: Ipv4Addr,
    /// The address on the tunnel's link.
    pub address: HostAddr,
    /// What lies behind the peer.
    pub remote_range: Ipv4Cidr,
    /// What our traffic appears to come from there.
    pub egress: EgressRange,
    /// Our own range of global addresses: what has one of them needs no other.
    pub own: Ipv4Cidr,
    /// What the gateway is to it.
    pub seat: Seat,
}

impl TunnelWant {
    /// The Ethernet address of its link, which follows from our end of it: with a random one the peer would send to the address
    /// of before for half a minute whenever the link is made again. All gateways of a VPC give a tunnel's link the same one, so
    /// the first frame of whichever takes over shows the peer the way.
    pub fn mac(&self) -> Option<Mac> {
        let (mark, [a, b, c, d]) = match (self.kind, self.seat) {
            (TunnelKind::Gre, _) => return None,
            (TunnelKind::Vxlan { .. }, Seat::Named) => (0x43, self.local.octets()),
            (TunnelKind::Vxlan { .. }, Seat::Main | Seat::Standby) => (0x44, self.address.address().octets()),
        };
        Some(Mac([0x02, mark, a, b, c, d]))
    }

    /// The group of its link, which says whether anything may be sent through it.
    pub fn group(&self) -> u32 {
        if self.seat.carries() { LINK_GROUP } else { STANDBY_GROUP }
    }
}

/// The way from a tunnel into the VPC: one for all tunnels of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inbound {
    /// The cluster's own range of global addresses.
    pub range: Ipv4Cidr,
    /// The VPC router.
    pub via: Ipv4Addr,
}

/// Everything a gateway should hold. `compile` lets no two tunnels collide in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Want {
    /// The tunnels by the name of their link.
    pub tunnels: BTreeMap<LinkName, TunnelWant>,
    /// Needed while there is any tunnel.
    pub inbound: Option<Inbound>,
    /// Objects whose things stay as they are: their new text makes no sense, or their peer is
    /// missing, and what worked is better than nothing.
    pub frozen: BTreeSet<ObjectKey>,
    /// What objects of these tunnels say they were built with here: what is claimed by it is in use, also on a gateway that has
    /// lost everything.
    pub established: BTreeMap<ObjectKey, Established>,
    /// What tunnels are built as where what they are wanted to be is another's: as they were, where that is something else.
    pub fallbacks: BTreeMap<ObjectKey, TunnelWant>,
}

impl Want {
    /// The same with some tunnels as they were.
    pub(super) fn fallen_back<T>(&self, fallen: &BTreeMap<ObjectKey, T>) -> Cow<'_, Self> {
        if fallen.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut want = self.clone();
        for tunnel in want.tunnels.values_mut().filter(|tunnel| fallen.contains_key(&tunnel.owner)) {
            if let Some(fallback) = self.fallbacks.get(&tunnel.owner) {
                *tunnel = fallback.clone();
            }
        }
        Cow::Owned(want)
    }

    /// The links of the tunnels that some steps are for.
    pub fn links_of(&self, steps: &[Step]) -> Vec<&LinkName> {
        let owners: BTreeSet<&ObjectKey> = steps.iter().filter_map(|step| step.owner.as_ref()).collect();
        let touched = self.tunnels.iter().filter(|(_, tunnel)| owners.contains(&tunnel.owner));
        touched.map(|(link, _)| link).collect()
    }
}

/// What a tunnel's status says it was built with, as far as it says so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Established {
    /// The range behind the peer.
    pub range: Option<Ipv4Cidr>,
    /// The peer's address.
    pub peer: Option<Ipv4Addr>,
    /// The address on the link.
    pub address: Option<HostAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(last_octets: &[u8]) -> String {
        let addresses: Vec<_> = last_octets.iter().map(|n| Ipv4Addr::new(242, 0, 0, *n)).collect();
        EgressRange::longest_run(&addresses).map_or_else(String::new, |range| range.to_string())
    }

    #[test]
    fn the_longest_run_of_egress_addresses_is_used() {
        assert_eq!(run(&[1, 2, 3, 4]), "242.0.0.1-242.0.0.4");
        assert_eq!(run(&[9, 1, 3, 2, 7, 8]), "242.0.0.1-242.0.0.3");
        assert_eq!(run(&[5]), "242.0.0.5-242.0.0.5");
        assert_eq!(run(&[]), "");
    }
}
