//! From what a gateway should hold and what it holds: the steps between, in an order that keeps
//! traffic flowing.
//!
//! Order: stale links whose place a new link needs, then everything put, then everything dropped.
//! A tunnel whose place is taken by something that is not ours is left out whole and reported; the
//! others are not held up by it. What a gateway refused before ([`Refused`]) is not asked of it again in full:
//! of a tunnel only the link is tried, until there is one, because what else it needs would lie about half-built.

mod index;
mod rules;
mod territory;

pub(super) use territory::is_nobodys;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use self::index::Index;
use super::action::{Action, LOOSE, SourceNat, Step};
use super::have::{Have, Link, LinkKind, Route};
use super::want::{Seat, TunnelKind, TunnelWant, Want};
use super::{LAN_LINK, ROUTE_PROTOCOL, UNDERLAY_LINK};
use crate::names::{Ipv4Cidr, LinkName, ObjectKey};

/// Why a tunnel cannot be had on this gateway, although its object is fine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// A link of that name, or of that identity, is not ours.
    NameTaken {
        /// The link in the way.
        link: String,
    },
    /// What it claims is another's too.
    Overlap {
        /// Its claim.
        what: String,
        /// The other's.
        with: String,
    },
    /// A route to that range is not ours.
    RouteTaken {
        /// The range.
        range: Ipv4Cidr,
        /// What the route says.
        route: String,
    },
}

/// What a gateway refused before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// Tunnels that could not be made.
    pub tunnels: BTreeSet<ObjectKey>,
    /// One segment size rule for all tunnels: its kernel or its iptables cannot match by a link's group.
    pub shared_clamp: bool,
}

/// The steps for a gateway and the tunnels left out of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// By tunnel.
    pub problems: BTreeMap<ObjectKey, Problem>,
    /// Those that are planned as they were ([`Want::fallbacks`]), by what is in the way of what they are wanted to be.
    pub fallen: BTreeMap<ObjectKey, Problem>,
    /// Whether each tunnel gets a segment size rule of its own.
    pub clamps_each: bool,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it does anything that an earlier one did not: then what that one was made from has
    /// changed meanwhile.
    pub fn has_news_since(&self, earlier: &Self) -> bool {
        let known: HashSet<&Step> = earlier.steps.iter().collect();
        self.steps.iter().any(|step| !known.contains(step))
    }
}

/// The difference between `want` and `have`.
pub fn plan(want: &Want, have: &Have) -> Plan {
    plan_after(&Refused::default(), want, have)
}

/// The difference, for a gateway that refused something before.
pub fn plan_after(refused: &Refused, want: &Want, have: &Have) -> Plan {
    let fallen = fallen(want, have);
    let want = &want.fallen_back(&fallen);
    let mut planner = Planner::new(refused, want, have);
    planner.plan.fallen = fallen;
    planner.free_places();
    planner.open_the_way_in();
    for (name, tunnel) in std::mem::take(&mut planner.link_only) {
        planner.add_link(name, tunnel);
    }
    for (name, tunnel) in planner.whole.clone() {
        planner.put_tunnel(name, tunnel);
    }
    planner.drop_addresses();
    planner.drop_routes();
    planner.drop_links();
    planner.order_nat();
    planner.fit_segments();
    planner.forget_flows();
    planner.plan
}

type Tunnels<'a> = Vec<(&'a LinkName, &'a TunnelWant)>;

/// A plan in the making.
struct Planner<'a> {
    refused: &'a Refused,
    want: &'a Want,
    have: &'a Have,
    index: Index<'a>,
    /// The tunnels that get all they need.
    whole: Tunnels<'a>,
    /// The tunnels of which only the link is tried.
    link_only: Tunnels<'a>,
    /// Links of ours that stand where one of a tunnel must go, with that tunnel.
    freed: BTreeMap<&'a str, &'a TunnelWant>,
    /// Links of ours that nobody wants.
    stale: BTreeSet<&'a str>,
    /// Tunnels that packets may have missed so far: their link, route or rule is put.
    missed: BTreeSet<&'a ObjectKey>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn new(refused: &'a Refused, want: &'a Want, have: &'a Have) -> Self {
        let mut index = Index::new(want, have);
        let problems = all_problems(want, have, &mut index);
        let buildable: Tunnels<'_> =
            want.tunnels.iter().filter(|(_, tunnel)| !problems.contains_key(&tunnel.owner)).collect();
        let freed = places_to_free(&buildable, &index);
        let names: BTreeSet<&str> = buildable.iter().map(|(name, _)| name.as_str()).collect();
        let stale = index
            .ours
            .keys()
            .copied()
            .filter(|name| !index.is_frozen(name) && !freed.contains_key(name) && !names.contains(name));
        let stale = stale.collect();
        let has_link =
            |name: &LinkName| have.links.contains_key(name.as_str()) && !freed.contains_key(name.as_str());
        let (whole, link_only) = buildable
            .into_iter()
            .partition(|(name, tunnel)| has_link(name) || !refused.tunnels.contains(&tunnel.owner));
        let plan = Plan { problems, clamps_each: refused.shared_clamp, ..Plan::default() };
        Self { refused, want, have, index, whole, link_only, freed, stale, missed: BTreeSet::new(), plan }
    }

    fn push(&mut self, owner: Option<&ObjectKey>, action: Action) {
        self.plan.steps.push(Step { owner: owner.cloned(), action });
    }

    /// Drops our links that stand where a new one must go.
    fn free_places(&mut self) {
        for (link, tunnel) in self.freed.clone() {
            self.push(Some(&tunnel.owner), Action::LinkFree { link: link.into() });
        }
    }

    /// What all tunnels share.
    fn open_the_way_in(&mut self) {
        if self.whole.is_empty() {
            return;
        }
        if !self.have.forwarding {
            self.push(None, Action::Forward);
        }
        if let Some(route) = self.inbound()
            && !self.index.has_route(&route)
        {
            let put = self.put(route);
            self.push(None, put);
        }
    }

    fn inbound(&self) -> Option<Route> {
        let inbound = self.want.inbound.filter(|_| !self.whole.is_empty())?;
        Some(route_to(inbound.range, Some(inbound.via), LAN_LINK))
    }

    fn put(&self, route: Route) -> Action {
        let replace = self.index.rivals(route.range).any(|rival| self.index.is_replaceable(rival));
        Action::RoutePut { route, replace }
    }

    fn add_link(&mut self, name: &LinkName, tunnel: &TunnelWant) {
        let owner = Some(&tunnel.owner);
        let want = link_kind(tunnel);
        let mtu = self.index.mtu(&want);
        let (mac, group) = (tunnel.mac(), tunnel.group());
        self.push(owner, Action::LinkAdd { link: name.clone(), want, mac, group, mtu });
        self.push(owner, Action::LinkAlias { link: name.clone(), owner: tunnel.owner.clone() });
    }

    fn put_tunnel(&mut self, name: &LinkName, tunnel: &'a TunnelWant) {
        let owner = Some(&tunnel.owner);
        let link = || name.clone();
        let freed = self.freed.contains_key(name.as_str());
        let old = self.index.our_link(name.as_str()).filter(|_| !freed);
        let new = Link { rp_filter: u8::MAX, proxy_delay: u32::MAX, ..Link::default() };
        let has = old.unwrap_or(&new);
        match old {
            None => self.add_link(name, tunnel),
            Some(old) => self.mend_link(name, tunnel, old),
        }
        if !has.addresses.contains(&tunnel.address) {
            self.push(owner, Action::AddrPut { link: link(), address: tunnel.address });
        }
        if matches!(tunnel.kind, TunnelKind::Vxlan { .. }) {
            if has.proxy_delay != 0 {
                self.push(owner, Action::ProxyDelay { link: link() });
            }
            if has.proxy_arp != tunnel.seat.carries() {
                self.push(owner, Action::ProxyArp { link: link(), on: tunnel.seat.carries() });
            }
        }
        if old.is_none() && tunnel.seat != Seat::Named {
            self.push(owner, Action::NoIpv6 { link: link() });
        }
        if has.rp_filter != LOOSE {
            self.push(owner, Action::LooseFilter { link: link() });
        }
        let stale = has.addresses.iter().any(|address| *address != tunnel.address);
        if stale && !has.promotes {
            self.push(owner, Action::Promote { link: link() });
        }
        if !has.up {
            self.push(owner, Action::LinkUp { link: link() });
        }
        // The route goes last: nothing is sent into a tunnel that is not ready.
        let route = route_to(tunnel.remote_range, None, name.as_str());
        if old.is_none() || !self.index.has_route(&route) {
            let put = self.put(route);
            self.push(owner, put);
            self.missed.insert(&tunnel.owner);
        }
    }

    /// What can be put right of a link that stays. Its marks first: without them it is nobody's.
    fn mend_link(&mut self, name: &LinkName, tunnel: &TunnelWant, old: &Link) {
        let (owner, link) = (Some(&tunnel.owner), || name.clone());
        if old.group != tunnel.group() {
            self.push(owner, Action::LinkGroup { link: link(), group: tunnel.group() });
        }
        if self.index.ours.get(name.as_str()) != Some(&Some(tunnel.owner.clone())) {
            self.push(owner, Action::LinkAlias { link: link(), owner: tunnel.owner.clone() });
        }
        let kind = link_kind(tunnel);
        if old.kind.as_ref().and_then(LinkKind::remote) != Some(tunnel.remote) {
            self.push(owner, Action::LinkRemote { link: link(), remote: tunnel.remote });
        }
        if let Some(mtu) = self.index.mtu(&kind).filter(|mtu| old.mtu != *mtu) {
            self.push(owner, Action::LinkMtu { link: link(), mtu });
        }
        if old.arp_off && matches!(kind, LinkKind::Vxlan { .. }) {
            self.push(owner, Action::LinkArp { link: link() });
        }
        if let Some(mac) = tunnel.mac().filter(|mac| old.mac != Some(*mac)) {
            self.push(owner, Action::LinkMac { link: link(), mac });
        }
    }

    /// A rule applies to new flows only: those that went astray before it stood, and those that it left behind, are forgotten.
    fn forget_flows(&mut self) {
        let wanted: BTreeSet<Ipv4Cidr> = self.whole.iter().map(|(_, tunnel)| tunnel.remote_range).collect();
        let gone: Vec<Step> = self
            .plan
            .steps
            .iter()
            .filter(|step| matches!(step.action, Action::NatDel { .. }))
            .cloned()
            .collect();
        for Step { owner, action } in gone {
            if let Action::NatDel { spec, .. } = &action
                && let Some((range, egress)) =
                    SourceNat::about(spec).filter(|(range, _)| !wanted.contains(range))
            {
                self.push(owner.as_ref(), Action::ForgetLeft { range, egress });
            }
        }
        for (_, tunnel) in self.whole.clone() {
            if self.missed.contains(&tunnel.owner) {
                let (range, egress, own) = (tunnel.remote_range, tunnel.egress, tunnel.own);
                self.push(Some(&tunnel.owner), Action::ForgetAstray { range, egress, own });
            }
        }
    }

    /// Takes stale addresses off links that stay. The wanted one is there by now and the link promotes it when its
    /// primary goes, so the link is never without an address, which would take its routes.
    fn drop_addresses(&mut self) {
        for (name, tunnel) in self.whole.clone() {
            let stays =
                self.index.our_link(name.as_str()).filter(|_| !self.freed.contains_key(name.as_str()));
            let has = stays.map(|link| link.addresses.as_slice()).unwrap_or_default();
            for address in has.iter().filter(|address| **address != tunnel.address) {
                self.push(Some(&tunnel.owner), Action::AddrDel { link: name.clone(), address: *address });
            }
        }
    }

    fn drop_routes(&mut self) {
        let outbound = self.whole.iter().map(|(_, tunnel)| tunnel.remote_range);
        let wanted: BTreeSet<Ipv4Cidr> = outbound.chain(self.inbound().map(|route| route.range)).collect();
        for route in self.have.routes.iter().filter(|route| route.is_ours()) {
            let dev = route.dev.as_deref();
            // A route of ours with the wanted range and metric is replaced, not dropped.
            let replaced = route.metric == 0 && wanted.contains(&route.range);
            if replaced || dev.is_some_and(|dev| self.needs_no_step(dev)) {
                continue;
            }
            let owner = dev.and_then(|dev| self.index.ours.get(dev)).cloned().flatten();
            self.push(owner.as_ref(), Action::RouteDel { route: route.clone() });
        }
    }

    /// Whether routes over a link go with it, or stay: a frozen tunnel keeps its own and the way in.
    fn needs_no_step(&self, dev: &str) -> bool {
        self.freed.contains_key(dev)
            || self.stale.contains(dev)
            || self.index.is_frozen(dev)
            || (self.index.any_frozen() && dev == LAN_LINK)
    }

    fn drop_links(&mut self) {
        for link in std::mem::take(&mut self.stale) {
            let owner = self.index.ours.get(link).cloned().flatten();
            self.push(owner.as_ref(), Action::LinkDel { link: link.into() });
        }
    }
}

/// The tunnels that cannot be had, and why; what was up of them stays as it is.
fn all_problems(want: &Want, have: &Have, index: &mut Index<'_>) -> BTreeMap<ObjectKey, Problem> {
    let mut problems = territory::contested(want, have);
    index.freeze_established(want, problems.keys());
    loop {
        let known = problems.len();
        for (owner, problem) in found_problems(want, index) {
            problems.entry(owner).or_insert(problem);
        }
        if problems.len() == known {
            return problems;
        }
        // What stands of them works as long as what is in the way lets it; and so it may be in the way of others.
        index.freeze_established(want, problems.keys());
    }
}

/// The tunnels that can be had as they were, and not as they are wanted.
fn fallen(want: &Want, have: &Have) -> BTreeMap<ObjectKey, Problem> {
    if want.fallbacks.is_empty() {
        return BTreeMap::new();
    }
    let mut fallen = all_problems(want, have, &mut Index::new(want, have));
    fallen.retain(|owner, _| want.fallbacks.contains_key(owner));
    if !fallen.is_empty() {
        let back = want.fallen_back(&fallen);
        let still = all_problems(&back, have, &mut Index::new(&back, have));
        fallen.retain(|owner, _| !still.contains_key(owner));
    }
    fallen
}

/// The tunnels whose place is taken by something foreign.
fn found_problems(want: &Want, index: &Index<'_>) -> BTreeMap<ObjectKey, Problem> {
    let is_foreign = |route: &&Route| !index.is_replaceable(route);
    let taken = |range: Ipv4Cidr, route: &Route| Problem::RouteTaken { range, route: route.to_string() };
    // A route to a part of the range takes that part, and one around it would lose its own.
    let foreign_route = |tunnel: &TunnelWant| {
        let range = tunnel.remote_range;
        // What works is not refused for what stands beside it.
        let is_used = want.established.get(&tunnel.owner).is_some_and(|it| it.range == Some(range));
        let beside = index.overlapping(range).filter(|_| !is_used);
        index.rivals(range).chain(beside).find(is_foreign).map(|route| taken(range, route))
    };
    let inbound = want.inbound.and_then(|inbound| {
        index.rivals(inbound.range).find(is_foreign).map(|route| taken(inbound.range, route))
    });
    let of_tunnel = |(name, tunnel): (&LinkName, &TunnelWant)| {
        let problem = index
            .obstacle(name.as_str(), tunnel)
            .map(|link| Problem::NameTaken { link: link.into() })
            .or_else(|| foreign_route(tunnel))
            .or_else(|| inbound.clone())?;
        Some((tunnel.owner.clone(), problem))
    };
    want.tunnels.iter().filter_map(of_tunnel).collect()
}

/// Our links that stand where a tunnel's must go: of its name with other parameters, or of another name with its
/// identity.
fn places_to_free<'a>(buildable: &Tunnels<'a>, index: &Index<'a>) -> BTreeMap<&'a str, &'a TunnelWant> {
    let mut freed = BTreeMap::new();
    for (name, tunnel) in buildable {
        let kind = link_kind(tunnel);
        for link in index.in_the_way_of(name.as_str(), tunnel) {
            let stays = link == name.as_str()
                && index.our_link(link).is_some_and(|link| becomes(link, &kind) && !link.is_leaving());
            if !stays {
                freed.entry(link).or_insert(*tunnel);
            }
        }
    }
    freed
}

/// Whether a link has the parameters that a tunnel needs, or can be given them while it stays: where a VXLAN leads.
fn becomes(link: &Link, kind: &LinkKind) -> bool {
    match (&link.kind, kind) {
        (Some(has @ LinkKind::Vxlan { .. }), LinkKind::Vxlan { remote, .. }) => {
            has.leading_to(*remote) == *kind
        }
        (has, kind) => has.as_ref() == Some(kind),
    }
}

/// The link parameters a tunnel needs.
pub(super) fn link_kind(tunnel: &TunnelWant) -> LinkKind {
    let (local, remote) = (Some(tunnel.local), Some(tunnel.remote));
    match tunnel.kind {
        TunnelKind::Vxlan { vni, port } => {
            let dev = Some(UNDERLAY_LINK.into());
            LinkKind::Vxlan { vni, port, local, remote, dev, odd: false }
        }
        TunnelKind::Gre => LinkKind::Gre { local, remote, ttl: 255, keyed: false },
    }
}

pub(super) fn route_to(range: Ipv4Cidr, via: Option<std::net::Ipv4Addr>, dev: &str) -> Route {
    Route { range, via, dev: Some(dev.into()), protocol: ROUTE_PROTOCOL, metric: 0 }
}
