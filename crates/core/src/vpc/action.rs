//! The verbs of a plan: what a datapath must know how to do, and how people read of it.

use std::fmt;
use std::net::Ipv4Addr;

use super::have::{LinkKind, Route, Variant};
use super::want::{EgressRange, TunnelWant};
use super::{LINK_GROUP, MARK};
use crate::leases::Mac;
use crate::names::{HostAddr, Ipv4Cidr, LinkName, ObjectKey};

/// Loose reverse-path filtering: what a tunnel brings is accepted when its source is routable at all.
/// The kernel uses the larger of this and `all`, so it also softens a strict `all`.
pub const LOOSE: u8 = 2;

/// One change, and the tunnel it is for (none: for all of them).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// Whose failure it would be.
    pub owner: Option<ObjectKey>,
    /// What to do.
    pub action: Action,
}

/// The verbs a datapath must know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Make a tunnel link in a group of ours.
    LinkAdd {
        /// Its name.
        link: LinkName,
        /// Its encapsulation and ends.
        want: LinkKind,
        /// Its Ethernet address, if it has one.
        mac: Option<Mac>,
        /// Its group.
        group: u32,
        /// The longest packet that fits through the gateway's uplink with the encapsulation around it, where that is known.
        mtu: Option<u32>,
    },
    /// Put a link into a group of ours: of those that carry packets, or of those that stand by.
    LinkGroup {
        /// The link.
        link: LinkName,
        /// The group.
        group: u32,
    },
    /// Let a VXLAN link lead to another peer, in place, and forget what it has learnt of the one before: packets would be sent
    /// there for minutes.
    LinkRemote {
        /// The link.
        link: LinkName,
        /// The peer.
        remote: Ipv4Addr,
    },
    /// Keep a new link from speaking IPv6 by itself: what it says would show the peer the wrong way.
    NoIpv6 {
        /// The link.
        link: LinkName,
    },
    /// Set the longest packet that a link takes.
    LinkMtu {
        /// The link.
        link: LinkName,
        /// That.
        mtu: u32,
    },
    /// Switch ARP on where somebody has switched it off.
    LinkArp {
        /// The link.
        link: LinkName,
    },
    /// Give a link its Ethernet address.
    LinkMac {
        /// The link.
        link: LinkName,
        /// That.
        mac: Mac,
    },
    /// Name the owner on a link.
    LinkAlias {
        /// The link.
        link: LinkName,
        /// The owner.
        owner: ObjectKey,
    },
    /// Bring a link up.
    LinkUp {
        /// The link.
        link: LinkName,
    },
    /// Remove a link of ours that stands where another must go: before that one is made.
    LinkFree {
        /// The link.
        link: String,
    },
    /// Remove a link of ours that nobody wants, and with it its addresses and routes: after all that is put.
    LinkDel {
        /// The link.
        link: String,
    },
    /// Answer ARP on a link at once instead of after a random delay, and ask again soon.
    ProxyDelay {
        /// The link.
        link: LinkName,
    },
    /// Put an address on a link; harmless when it is there.
    AddrPut {
        /// The link.
        link: LinkName,
        /// The address.
        address: HostAddr,
    },
    /// Take an address off a link.
    AddrDel {
        /// The link.
        link: LinkName,
        /// The address.
        address: HostAddr,
    },
    /// Put a route of ours.
    RoutePut {
        /// The route.
        route: Route,
        /// Replace our own route to the same range; otherwise fail if there is any.
        replace: bool,
    },
    /// Remove a route of ours.
    RouteDel {
        /// The route.
        route: Route,
    },
    /// Let the gateway forward packets.
    Forward,
    /// Answer ARP for what lies behind us, or no longer.
    ProxyArp {
        /// The link.
        link: LinkName,
        /// Whether to answer.
        on: bool,
    },
    /// Set a link's reverse-path filter to [`LOOSE`].
    LooseFilter {
        /// The link.
        link: LinkName,
    },
    /// Let a link keep its other addresses when its primary one goes.
    Promote {
        /// The link.
        link: LinkName,
    },
    /// Remove a NAT rule by its text.
    NatDel {
        /// In which variant.
        variant: Variant,
        /// The rule as listed.
        spec: String,
    },
    /// Put a source NAT rule in front of all others.
    NatInsert {
        /// In which variant.
        variant: Variant,
        /// The rule.
        rule: SourceNat,
    },
    /// Remove a rule that fits segment sizes, by its text.
    ClampDel {
        /// In which variant.
        variant: Variant,
        /// The rule as listed.
        spec: String,
    },
    /// Let TCP use no larger segments than the tunnels carry, also where the message that they are too large is
    /// filtered away: one rule for all links of our group.
    ClampAll {
        /// In which variant.
        variant: Variant,
    },
    /// The same for one tunnel, where the gateway cannot match by group.
    ClampInsert {
        /// In which variant.
        variant: Variant,
        /// Its owner.
        owner: ObjectKey,
        /// The tunnel's link.
        link: LinkName,
    },
    /// Let connection tracking forget flows to a range that it translates otherwise: a rule applies to new
    /// flows only, and a sender that never pauses would keep its wrong source for ever.
    ForgetAstray {
        /// The destination.
        range: Ipv4Cidr,
        /// The addresses that are right.
        egress: EgressRange,
        /// And those that need no translation.
        own: Ipv4Cidr,
    },
    /// Let connection tracking forget flows that it still translates for a tunnel which is no more: they may go another way
    /// now, under a source that does not lead back.
    ForgetLeft {
        /// The destination.
        range: Ipv4Cidr,
        /// The addresses that were right.
        egress: EgressRange,
    },
}

impl Action {
    /// Whether it is about segment sizes: a tunnel works without, but for TCP where ICMP is filtered.
    pub fn is_clamp(&self) -> bool {
        matches!(self, Self::ClampDel { .. } | Self::ClampAll { .. } | Self::ClampInsert { .. })
    }
}

/// A source NAT rule of ours: what leaves through a tunnel for the range behind its peer gets a source that leads back.
///
/// Only what leaves by the tunnel's own link: a rule for all that goes to the range would catch the gateway's own datagrams
/// where a peer claims an address of the underlay. And not what has a global source already: those are answers in
/// conversations that the far side began, which a gateway that was replaced does not know of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNat {
    /// Whose it is.
    pub owner: ObjectKey,
    /// By which link packets leave.
    pub link: String,
    /// Sources that are global already.
    pub own: Ipv4Cidr,
    /// The destination it applies to.
    pub range: Ipv4Cidr,
    /// The addresses it gives.
    pub egress: EgressRange,
}

impl SourceNat {
    /// That of a tunnel.
    pub fn of(link: &LinkName, tunnel: &TunnelWant) -> Self {
        let TunnelWant { owner, own, remote_range, egress, .. } = tunnel;
        Self {
            owner: owner.clone(),
            link: link.to_string(),
            own: *own,
            range: *remote_range,
            egress: *egress,
        }
    }

    /// What a rule of ours, also one of an earlier version, is about: its destination and the addresses it gives.
    pub(super) fn about(spec: &str) -> Option<(Ipv4Cidr, EgressRange)> {
        let after = |word: &str| spec.split(' ').skip_while(|it| *it != word).nth(1);
        Some((after("-d")?.parse().ok()?, after("--to-source")?.parse().ok()?))
    }
}

/// As iptables lists it.
impl fmt::Display for SourceNat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, link, own, range, egress } = self;
        write!(f, "! -s {own} -d {range} -o {link} -m comment --comment \"{MARK}{owner}\" ")?;
        write!(f, "-j SNAT --to-source {egress}")
    }
}

/// A rule of ours that fits segment sizes, as text.
pub fn clamp_spec(owner: &ObjectKey, link: &str) -> String {
    format!(
        "-o {link} -p tcp -m tcp --tcp-flags SYN,RST SYN -m comment --comment \"{MARK}{owner}\" -j TCPMSS --clamp-mss-to-pmtu"
    )
}

/// The comment of a rule of ours that is for all tunnels.
pub const SHARED: &str = "causeway:all";

/// The rule of ours that fits the segment sizes of all tunnels, as text.
pub fn shared_clamp_spec() -> String {
    format!(
        "-p tcp -m devgroup --dst-group {LINK_GROUP:#x} -m tcp --tcp-flags SYN,RST SYN -m comment --comment \"{SHARED}\" -j TCPMSS --clamp-mss-to-pmtu"
    )
}

/// What a step does, for events: `link ovn-gre0`, `route 242.1.0.0/16 dev ovn-gre0`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkAdd { link, .. } => write!(f, "link {link}"),
            Self::LinkAlias { link, .. } => write!(f, "alias of {link}"),
            Self::LinkGroup { link, .. } => write!(f, "group of {link}"),
            Self::LinkRemote { link, remote } => write!(f, "peer {remote} of {link}"),
            Self::NoIpv6 { link } => write!(f, "no IPv6 on {link}"),
            Self::LinkMtu { link, mtu } => write!(f, "MTU {mtu} of {link}"),
            Self::LinkArp { link } => write!(f, "ARP on {link}"),
            Self::LinkMac { link, .. } => write!(f, "Ethernet address of {link}"),
            Self::LinkUp { link } => write!(f, "{link} up"),
            Self::LinkFree { link } => write!(f, "link {link} in the way"),
            Self::LinkDel { link } => write!(f, "stale link {link}"),
            Self::ProxyDelay { link } => write!(f, "proxy_delay of {link}"),
            Self::AddrPut { link, address } => write!(f, "address {address} of {link}"),
            Self::AddrDel { link, address } => write!(f, "stale address {address} of {link}"),
            Self::RoutePut { route, .. } => write!(f, "route {route}"),
            Self::RouteDel { route } => write!(f, "stale route {route}"),
            Self::Forward => f.write_str("ip_forward"),
            Self::ProxyArp { link, .. } => write!(f, "proxy_arp of {link}"),
            Self::LooseFilter { link } => write!(f, "rp_filter of {link}"),
            Self::Promote { link } => write!(f, "promote_secondaries of {link}"),
            Self::NatDel { .. } => f.write_str("misplaced SNAT rule"),
            Self::NatInsert { rule, .. } => write!(f, "SNAT rule for {}", rule.range),
            Self::ClampDel { .. } => f.write_str("stale segment size rule"),
            Self::ClampAll { .. } => f.write_str("segment size rule"),
            Self::ClampInsert { link, .. } => write!(f, "segment size rule for {link}"),
            Self::ForgetAstray { range, .. } => write!(f, "flows astray to {range}"),
            Self::ForgetLeft { range, .. } => write!(f, "flows left over to {range}"),
        }
    }
}
