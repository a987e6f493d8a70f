//! What a gateway holds, as observed: our things and everybody else's side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::filter::{Filter, Packets};
use super::{LEAVING_GROUP, LINK_GROUP, MARK, ROUTE_PROTOCOL, STANDBY_GROUP};
use crate::leases::Mac;
use crate::names::{HostAddr, Ipv4Cidr, ObjectKey};

/// A gateway's network namespace at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Have {
    /// All links by name.
    pub links: BTreeMap<String, Link>,
    /// The IPv4 routes of the main table.
    pub routes: Vec<Route>,
    /// The NAT rules of both iptables variants.
    pub nat: Nat,
    /// `net.ipv4.ip_forward`.
    pub forwarding: bool,
}

/// One link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its group number.
    pub group: u32,
    /// Its alias.
    pub alias: Option<String>,
    /// What it encapsulates, where that is a kind we make.
    pub kind: Option<LinkKind>,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether ARP is switched off on it (`NOARP`).
    pub arp_off: bool,
    /// The longest packet that it takes; 0 where that is not known.
    pub mtu: u32,
    /// Its Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// Its IPv4 addresses in the kernel's order: the first of a network is the primary one.
    pub addresses: Vec<HostAddr>,
    /// `proxy_arp`.
    pub proxy_arp: bool,
    /// `rp_filter`.
    pub rp_filter: u8,
    /// `promote_secondaries`: whether a primary address that goes makes way for the next of its network. Observers
    /// need not look: it is set where an address is to go.
    pub promotes: bool,
    /// `proxy_delay` of its ARP table, in milliseconds.
    pub proxy_delay: u32,
}

/// The parameters of a tunnel link that cannot be changed in place, but for the peer's end of a VXLAN.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// VXLAN.
    Vxlan {
        /// Network identifier.
        vni: u32,
        /// UDP port.
        port: u16,
        /// Our end.
        local: Option<Ipv4Addr>,
        /// The peer's end.
        remote: Option<Ipv4Addr>,
        /// The link it runs over.
        dev: Option<String>,
        /// Whether it has parameters that ours never have: a time to live, no learning, another age of what it learnt.
        odd: bool,
    },
    /// GRE over IPv4.
    Gre {
        /// Our end.
        local: Option<Ipv4Addr>,
        /// The peer's end.
        remote: Option<Ipv4Addr>,
        /// Time to live of the outer packets; 0 is inherited.
        ttl: u8,
        /// Whether it carries a key, which ours never do.
        keyed: bool,
    },
}

impl LinkKind {
    /// The peer's end.
    pub fn remote(&self) -> Option<Ipv4Addr> {
        match self {
            Self::Vxlan { remote, .. } | Self::Gre { remote, .. } => *remote,
        }
    }

    /// The bytes around each packet: those of IPv4 and UDP or GRE, and of the Ethernet frame that VXLAN carries.
    pub fn overhead(&self) -> u32 {
        match self {
            Self::Vxlan { .. } => 50,
            Self::Gre { .. } => 24,
        }
    }

    /// The same with another peer.
    pub(super) fn leading_to(&self, peer: Option<Ipv4Addr>) -> Self {
        let mut kind = self.clone();
        match &mut kind {
            Self::Vxlan { remote, .. } | Self::Gre { remote, .. } => *remote = peer,
        }
        kind
    }
}

/// One route of the main table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    /// Where to.
    pub range: Ipv4Cidr,
    /// The next hop, if not on the link itself.
    pub via: Option<Ipv4Addr>,
    /// The link; none for a blackhole and its like.
    pub dev: Option<String>,
    /// Who made it.
    pub protocol: u8,
    /// Its metric; ours have none.
    pub metric: u32,
}

/// Which of the two iptables back ends; they do not see each other's rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// `iptables-legacy`.
    Legacy,
    /// `iptables-nft`, on newer images plainly `iptables`.
    #[default]
    Nft,
}

/// The rules that packets are rewritten by, as observed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nat {
    /// The variant that the gateway itself uses, so ours.
    pub active: Variant,
    /// `POSTROUTING` of the nat table, in order. A variant that is not installed is absent.
    pub postrouting: BTreeMap<Variant, Vec<NatRule>>,
    /// `FORWARD` of the mangle table, the same: where the segment size of TCP is fitted to a tunnel.
    pub forward: BTreeMap<Variant, Vec<NatRule>>,
    /// The filter table: whether packets are passed on at all. One that is empty is absent.
    pub filter: BTreeMap<Variant, Filter>,
}

impl Nat {
    /// What stops every one of some packets in a built-in chain of the filter, if that is plain to see: of two variants one
    /// is enough.
    pub fn stops(&self, chain: &str, packets: Packets<'_>) -> Option<String> {
        self.filter.values().find_map(|filter| filter.stops(chain, packets))
    }
}

/// One rule of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatRule {
    /// A rule with our comment.
    Ours {
        /// Whose it is.
        owner: ObjectKey,
        /// The rule as iptables prints it, without `-A` and the chain.
        spec: String,
    },
    /// A rule with our comment that is for all tunnels.
    Shared {
        /// The same.
        spec: String,
    },
    /// Anybody else's.
    Foreign(String),
}

impl Link {
    /// Whether we made it.
    pub fn is_ours(&self) -> bool {
        [LINK_GROUP, STANDBY_GROUP].contains(&self.group) || self.is_leaving()
    }

    /// Whether its deletion has begun.
    pub fn is_leaving(&self) -> bool {
        self.group == LEAVING_GROUP
    }

    /// The object that its alias names.
    pub fn owner(&self) -> Option<ObjectKey> {
        self.alias.as_deref()?.strip_prefix(MARK)?.parse().ok()
    }
}

impl NatRule {
    /// The rule as iptables prints it, if we made it.
    pub fn our_spec(&self) -> Option<&str> {
        match self {
            Self::Ours { spec, .. } | Self::Shared { spec } => Some(spec),
            Self::Foreign(_) => None,
        }
    }

    /// The tunnel that it is for.
    pub fn owner(&self) -> Option<&ObjectKey> {
        match self {
            Self::Ours { owner, .. } => Some(owner),
            Self::Shared { .. } | Self::Foreign(_) => None,
        }
    }
}

impl Route {
    /// Whether we made it.
    pub fn is_ours(&self) -> bool {
        self.protocol == ROUTE_PROTOCOL
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.range)?;
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        match &self.dev {
            Some(dev) => write!(f, " dev {dev}"),
            None if self.via.is_none() => f.write_str(", which leads nowhere"),
            None => Ok(()),
        }
    }
}

impl Have {
    /// Who owns what is ours here.
    pub fn holding(&self) -> Holding {
        let mut holding = Holding { anything: self.routes.iter().any(Route::is_ours), ..Holding::default() };
        for (name, link) in self.links.iter().filter(|(_, link)| link.is_ours()) {
            holding.anything = true;
            match link.owner() {
                Some(owner) => drop(holding.owners.insert(owner)),
                None => drop(holding.unnamed.insert(name.clone())),
            }
        }
        let rules = self.nat.postrouting.values().chain(self.nat.forward.values()).flatten();
        for rule in rules.filter(|rule| rule.our_spec().is_some()) {
            holding.anything = true;
            holding.owners.extend(rule.owner().cloned());
        }
        holding
    }
}

/// The owners of what a gateway holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// Named by a link's alias or a rule's comment.
    pub owners: BTreeSet<ObjectKey>,
    /// Links of ours that were cut off before they got their alias.
    pub unnamed: BTreeSet<String>,
    /// Whether there is anything of ours at all.
    pub anything: bool,
}

impl Holding {
    /// Whether an object owns anything here. A link without an alias is its namesake's.
    pub fn includes(&self, key: &ObjectKey) -> bool {
        self.owners.contains(key) || self.unnamed.contains(key.name())
    }
}
