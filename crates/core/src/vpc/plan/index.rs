//! A gateway's links and routes by what the planner looks them up by, so that a plan takes time in proportion to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::super::UNDERLAY_LINK;
use super::super::have::{Have, Link, LinkKind, Route};
use super::super::want::{TunnelKind, TunnelWant, Want};
use super::link_kind;
use crate::names::{Ipv4Cidr, LinkName, ObjectKey};

/// Who makes the routes of links' own nets.
const PROTO_KERNEL: u8 = 2;

/// The tunnel of which a link that has lost a mark of ours, or that another operator made for the very same tunnel, is as good
/// as one of ours: its name, its encapsulation and its ends are the tunnel's, and nothing says that it is somebody else's.
fn adoptable<'w>(want: &'w Want, name: &str, link: &Link) -> Option<&'w ObjectKey> {
    let tunnel = want.tunnels.get(&name.parse::<LinkName>().ok()?)?;
    let is_its = match &link.alias {
        Some(_) => link.owner().as_ref() == Some(&tunnel.owner),
        None => true,
    };
    (is_its && link.kind.as_ref() == Some(&link_kind(tunnel))).then_some(&tunnel.owner)
}

/// What distinguishes two tunnel links for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    Vxlan(u32, u16),
    Gre(Ipv4Addr, Ipv4Addr),
}

impl Identity {
    /// That of a link; none where it keeps no tunnel of ours from being made.
    fn of_link(kind: &LinkKind) -> Option<Self> {
        match kind {
            LinkKind::Vxlan { vni, port, .. } => Some(Self::Vxlan(*vni, *port)),
            LinkKind::Gre { local: Some(local), remote: Some(remote), keyed: false, .. } => {
                Some(Self::Gre(*local, *remote))
            }
            LinkKind::Gre { .. } => None,
        }
    }

    /// That of a tunnel.
    pub(super) fn of(tunnel: &TunnelWant) -> Self {
        match tunnel.kind {
            TunnelKind::Vxlan { vni, port } => Self::Vxlan(vni, port),
            TunnelKind::Gre => Self::Gre(tunnel.local, tunnel.remote),
        }
    }
}

/// The indices.
pub(super) struct Index<'a> {
    have: &'a Have,
    /// Our links with the owner that their alias names.
    pub(super) ours: BTreeMap<&'a str, Option<ObjectKey>>,
    /// Those of them whose owner's things stay as they are.
    frozen: BTreeSet<&'a str>,
    links_by_identity: BTreeMap<Identity, Vec<&'a str>>,
    routes: BTreeMap<Ipv4Cidr, Vec<&'a Route>>,
    /// The owners whose things stay as they are.
    frozen_owners: BTreeSet<ObjectKey>,
    /// Links without all of our marks that are as good as ours, and the tunnels that they are for.
    adopted: BTreeMap<&'a str, ObjectKey>,
}

impl<'a> Index<'a> {
    pub(super) fn new(want: &Want, have: &'a Have) -> Self {
        let foreign = have.links.iter().filter(|(_, link)| !link.is_ours());
        let adopted: BTreeMap<&str, ObjectKey> = foreign
            .filter_map(|(name, link)| Some((name.as_str(), adoptable(want, name, link)?.clone())))
            .collect();
        let ours: BTreeMap<&str, Option<ObjectKey>> = have
            .links
            .iter()
            .filter(|(name, link)| link.is_ours() || adopted.contains_key(name.as_str()))
            .map(|(name, link)| (name.as_str(), link.owner()))
            .collect();
        let mut links_by_identity: BTreeMap<Identity, Vec<&str>> = BTreeMap::new();
        for (name, link) in &have.links {
            if let Some(identity) = link.kind.as_ref().and_then(Identity::of_link) {
                links_by_identity.entry(identity).or_default().push(name);
            }
        }
        let mut routes: BTreeMap<Ipv4Cidr, Vec<&Route>> = BTreeMap::new();
        for route in &have.routes {
            routes.entry(route.range).or_default().push(route);
        }
        let (frozen, frozen_owners) = (BTreeSet::new(), BTreeSet::new());
        let mut index = Self { have, ours, frozen, links_by_identity, routes, frozen_owners, adopted };
        index.freeze(&want.frozen);
        index
    }

    /// Has the things of some objects stay as they are.
    pub(super) fn freeze<'b>(&mut self, owners: impl IntoIterator<Item = &'b ObjectKey>) {
        self.frozen_owners.extend(owners.into_iter().cloned());
        let stays = |name: &str| self.have.links.get(name).is_some_and(|link| !link.is_leaving());
        let is_frozen =
            |owner: &Option<ObjectKey>| owner.as_ref().is_some_and(|it| self.frozen_owners.contains(it));
        let frozen = self.ours.iter().filter(|(name, owner)| is_frozen(owner) && stays(name));
        self.frozen = frozen.map(|(name, _)| *name).collect();
    }

    /// The same of those of some tunnels that were up before: what is half-built is of no use to anybody. None of these is made,
    /// so nothing is taken over for them.
    pub(super) fn freeze_established<'b>(
        &mut self,
        want: &Want,
        owners: impl Iterator<Item = &'b ObjectKey>,
    ) {
        let owners: BTreeSet<&ObjectKey> = owners.collect();
        let adopted = &self.adopted;
        self.ours.retain(|name, _| adopted.get(name).is_none_or(|owner| !owners.contains(owner)));
        self.freeze(want.established.keys().filter(|owner| owners.contains(owner)));
    }

    /// Whether an object's things stay as they are.
    pub(super) fn is_frozen_owner(&self, owner: &ObjectKey) -> bool {
        self.frozen_owners.contains(owner)
    }

    /// The longest packet that fits into a link of a kind over the gateway's uplink, where that one's is known.
    pub(super) fn mtu(&self, kind: &LinkKind) -> Option<u32> {
        const SHORTEST: u32 = 68;
        let uplink = self.have.links.get(UNDERLAY_LINK)?.mtu;
        uplink.checked_sub(kind.overhead()).filter(|mtu| *mtu >= SHORTEST)
    }

    /// Whether a link belongs to an object whose things stay as they are.
    pub(super) fn is_frozen(&self, link: &str) -> bool {
        self.frozen.contains(link)
    }

    /// Whether anything stays as it is, which needs the way in.
    pub(super) fn any_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Whether a link may be removed.
    fn is_removable(&self, link: &str) -> bool {
        self.ours.contains_key(link) && !self.is_frozen(link)
    }

    /// A link of ours.
    pub(super) fn our_link(&self, name: &str) -> Option<&'a Link> {
        self.have.links.get(name).filter(|_| self.ours.contains_key(name))
    }

    /// The links that stand where a tunnel's must go, by its name or by its identity; in order of their names.
    pub(super) fn in_the_way_of(&self, name: &str, tunnel: &TunnelWant) -> BTreeSet<&'a str> {
        let namesake = self.have.links.get_key_value(name).map(|(name, _)| name.as_str());
        let alike = self.links_by_identity.get(&Identity::of(tunnel)).into_iter().flatten().copied();
        namesake.into_iter().chain(alike).collect()
    }

    /// The link that keeps a tunnel from being made, because it may not be removed.
    pub(super) fn obstacle(&self, name: &str, tunnel: &TunnelWant) -> Option<&'a str> {
        self.in_the_way_of(name, tunnel).into_iter().find(|link| !self.is_removable(link))
    }

    /// Whether the gateway has exactly this route.
    pub(super) fn has_route(&self, route: &Route) -> bool {
        self.routes.get(&route.range).is_some_and(|routes| routes.contains(&route))
    }

    /// The routes of anybody to a range that one of ours would stand beside.
    pub(super) fn rivals(&self, range: Ipv4Cidr) -> impl Iterator<Item = &'a Route> {
        self.routes.get(&range).into_iter().flatten().copied().filter(|route| route.metric == 0)
    }

    /// The routes of anybody to a part of a range, and those of links' own nets that it lies in. A route around it that leads
    /// elsewhere is none: the longer prefix is meant to win.
    pub(super) fn overlapping(&self, range: Ipv4Cidr) -> impl Iterator<Item = &'a Route> {
        let around = range.covering().skip(1).filter(|around| around.prefix() > 0);
        let around = around.filter_map(|around| self.routes.get(&around));
        let within = self
            .routes
            .range(range..=range.last())
            .filter(move |(it, _)| range != **it && range.covers(**it));
        let connected =
            around.flatten().filter(|route| route.protocol == PROTO_KERNEL && route.via.is_none());
        connected.chain(within.flat_map(|(_, routes)| routes)).copied()
    }

    /// Whether a route may give way to one of ours: it is ours, or it stands on a link of ours and would go
    /// with it; but not what a frozen tunnel lives by.
    pub(super) fn is_replaceable(&self, route: &Route) -> bool {
        match route.dev.as_deref() {
            Some(dev) if self.ours.contains_key(dev) => !self.is_frozen(dev),
            _ => route.is_ours(),
        }
    }
}
