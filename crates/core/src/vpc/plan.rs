//! From what a gateway should hold and what it holds: the steps between, in an order that keeps
//! traffic flowing.
//!
//! Order: stale links whose identity a new link needs, then everything put, then everything dropped.
//! A tunnel whose place is taken by something that is not ours is left out whole and reported; the
//! others are not held up by it. Of a tunnel that failed the last time only the link is tried, until there
//! is one: what else it needs would lie about half-built.

use std::collections::{BTreeMap, BTreeSet};

use super::action::{Action, LOOSE, Step, clamp_spec, rule_spec};
use super::have::{Have, Link, LinkKind, NatRule, Route};
use super::want::{TunnelKind, TunnelWant, Want};
use super::{LAN_LINK, ROUTE_PROTOCOL, UNDERLAY_LINK};
use crate::names::{Cidr, LinkName, ObjectKey};

/// Why a tunnel can not be had on this gateway, although its object is fine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// A link of that name, or of that identity, is not ours.
    NameTaken {
        /// The link in the way.
        link: String,
    },
    /// A route to that range is not ours.
    RouteTaken {
        /// The range.
        range: Cidr,
        /// What the route says.
        route: String,
    },
}

/// The steps for a gateway and the tunnels left out of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// By tunnel.
    pub problems: BTreeMap<ObjectKey, Problem>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it asks for anything that an earlier one did not: then what that one was made from has
    /// changed meanwhile.
    pub fn goes_beyond(&self, earlier: &Self) -> bool {
        self.steps.iter().any(|step| !earlier.steps.contains(step))
    }

    fn push(&mut self, owner: Option<&ObjectKey>, action: Action) {
        self.steps.push(Step { owner: owner.cloned(), action });
    }
}

/// The difference between `want` and `have`.
pub fn plan(want: &Want, have: &Have) -> Plan {
    plan_doubting(want, have, &BTreeSet::new())
}

/// The difference, for a gateway where these tunnels could not be made the last time.
pub fn plan_doubting(want: &Want, have: &Have, doubted: &BTreeSet<ObjectKey>) -> Plan {
    let mut plan = Plan { problems: problems(want, have), ..Plan::default() };
    let buildable: Vec<(&LinkName, &TunnelWant)> =
        want.tunnels.iter().filter(|(_, tunnel)| !plan.problems.contains_key(&tunnel.owner)).collect();
    let freed = free_identities(&mut plan, &buildable, want, have);
    let has_link = |name: &LinkName| have.links.contains_key(name.as_str()) && !freed.contains(name.as_str());
    let (whole, doubtful): (Vec<_>, Vec<_>) =
        buildable.into_iter().partition(|(name, tunnel)| has_link(name) || !doubted.contains(&tunnel.owner));

    if !whole.is_empty() && !have.forwarding {
        plan.push(None, Action::Forward);
    }
    let wanted_routes = wanted_routes(want, &whole);
    put_inbound(&mut plan, &wanted_routes, want, have);
    for (name, tunnel) in &doubtful {
        add_link(&mut plan, name, tunnel);
    }
    for (name, tunnel) in &whole {
        put_tunnel(&mut plan, name, tunnel, want, have, &freed);
    }
    drop_addresses(&mut plan, &whole, have, &freed);
    drop_routes(&mut plan, &wanted_routes, want, have, &freed);
    drop_links(&mut plan, want, have, &freed);
    order_nat(&mut plan, &whole, want, have);
    clamp(&mut plan, &whole, want, have);
    plan
}

/// The tunnels whose place is taken by something foreign.
fn problems(want: &Want, have: &Have) -> BTreeMap<ObjectKey, Problem> {
    let foreign_route = |range: Cidr| {
        let in_the_way = |r: &&Route| r.range == range && r.metric == 0 && !is_replaceable(want, have, r);
        let taken = have.routes.iter().find(in_the_way);
        taken.map(|route| Problem::RouteTaken { range, route: route.to_string() })
    };
    let inbound = want.inbound.and_then(|inbound| foreign_route(inbound.range));
    let of_tunnel = |(name, tunnel): (&LinkName, &TunnelWant)| {
        let foreign = |(other, link): &(&String, &Link)| {
            (!link.is_ours() || is_frozen(want, link))
                && (other.as_str() == name.as_str()
                    || link.kind.as_ref().is_some_and(|kind| collides(kind, tunnel)))
        };
        let link = have.links.iter().find(foreign);
        let problem = link
            .map(|(link, _)| Problem::NameTaken { link: link.clone() })
            .or_else(|| foreign_route(tunnel.remote_range))
            .or_else(|| inbound.clone())?;
        Some((tunnel.owner.clone(), problem))
    };
    want.tunnels.iter().filter_map(of_tunnel).collect()
}

/// Whether a link belongs to an object whose things stay as they are.
fn is_frozen(want: &Want, link: &Link) -> bool {
    link.is_ours() && link.owner().is_some_and(|owner| want.frozen.contains(&owner))
}

/// Whether a route may give way to one of ours: it is ours, or it stands on a link of ours and would go with it;
/// but not what a frozen tunnel lives by.
fn is_replaceable(want: &Want, have: &Have, route: &Route) -> bool {
    match route.dev.as_ref().and_then(|dev| have.links.get(dev)) {
        Some(link) if link.is_ours() => !is_frozen(want, link),
        _ => route.is_ours(),
    }
}

/// Whether the kernel would refuse the tunnel beside a link of this kind.
fn collides(kind: &LinkKind, tunnel: &TunnelWant) -> bool {
    match (kind, tunnel.kind) {
        (LinkKind::Vxlan { vni, port, .. }, TunnelKind::Vxlan { vni: v, port: p }) => (*vni, *port) == (v, p),
        (LinkKind::Gre { local, remote, keyed, .. }, TunnelKind::Gre) => {
            !keyed && *local == Some(tunnel.local) && *remote == Some(tunnel.remote)
        }
        (LinkKind::Vxlan { .. }, TunnelKind::Gre) | (LinkKind::Gre { .. }, TunnelKind::Vxlan { .. }) => false,
    }
}

/// The link parameters a tunnel needs.
fn link_kind(tunnel: &TunnelWant) -> LinkKind {
    let (local, remote) = (Some(tunnel.local), Some(tunnel.remote));
    match tunnel.kind {
        TunnelKind::Vxlan { vni, port } => {
            LinkKind::Vxlan { vni, port, local, remote, dev: Some(UNDERLAY_LINK.into()) }
        }
        TunnelKind::Gre => LinkKind::Gre { local, remote, ttl: 255, keyed: false },
    }
}

/// Drops our links that stand where a new one must go: of the same name with other parameters, or of
/// another name with the same identity. Returns the names dropped.
fn free_identities(
    plan: &mut Plan,
    buildable: &[(&LinkName, &TunnelWant)],
    want: &Want,
    have: &Have,
) -> BTreeSet<String> {
    let kept = |name: &str, link: &Link| {
        is_frozen(want, link)
            || buildable.iter().any(|(n, t)| n.as_str() == name && link.kind.as_ref() == Some(&link_kind(t)))
    };
    let mut freed = BTreeSet::new();
    for (name, link) in have.links.iter().filter(|(name, link)| link.is_ours() && !kept(name, link)) {
        let in_the_way = |(n, tunnel): &&(&LinkName, &TunnelWant)| {
            n.as_str() == name || link.kind.as_ref().is_some_and(|kind| collides(kind, tunnel))
        };
        if let Some((_, tunnel)) = buildable.iter().find(in_the_way) {
            plan.push(Some(&tunnel.owner), Action::LinkDel { link: name.clone() });
            freed.insert(name.clone());
        }
    }
    freed
}

type WantedRoutes = BTreeMap<Cidr, (Option<ObjectKey>, Route)>;

fn route_to(range: Cidr, via: Option<std::net::Ipv4Addr>, dev: &str) -> Route {
    Route { range, via, dev: Some(dev.into()), protocol: ROUTE_PROTOCOL, metric: 0 }
}

fn wanted_routes(want: &Want, buildable: &[(&LinkName, &TunnelWant)]) -> WantedRoutes {
    let inbound = want.inbound.filter(|_| !buildable.is_empty());
    let inbound = inbound.map(|i| (i.range, (None, route_to(i.range, Some(i.via), LAN_LINK))));
    let outbound = buildable.iter().map(|(name, tunnel)| {
        let route = route_to(tunnel.remote_range, None, name.as_str());
        (tunnel.remote_range, (Some(tunnel.owner.clone()), route))
    });
    inbound.into_iter().chain(outbound).collect()
}

fn put_inbound(plan: &mut Plan, wanted: &WantedRoutes, want: &Want, have: &Have) {
    for (owner, route) in wanted.values().filter(|(owner, _)| owner.is_none()) {
        if !have.routes.contains(route) {
            plan.push(owner.as_ref(), put(route, want, have));
        }
    }
}

fn put(route: &Route, want: &Want, have: &Have) -> Action {
    let same = |r: &&Route| r.range == route.range && r.metric == 0;
    let replace = have.routes.iter().filter(same).any(|r| is_replaceable(want, have, r));
    Action::RoutePut { route: route.clone(), replace }
}

fn add_link(plan: &mut Plan, name: &LinkName, tunnel: &TunnelWant) {
    let owner = Some(&tunnel.owner);
    plan.push(owner, Action::LinkAdd { link: name.clone(), want: link_kind(tunnel) });
    plan.push(owner, Action::LinkAlias { link: name.clone(), owner: tunnel.owner.clone() });
}

fn put_tunnel(
    plan: &mut Plan,
    name: &LinkName,
    tunnel: &TunnelWant,
    want: &Want,
    have: &Have,
    freed: &BTreeSet<String>,
) {
    let owner = Some(&tunnel.owner);
    let link = || name.clone();
    let old = have.links.get(name.as_str()).filter(|_| !freed.contains(name.as_str()));
    let new = Link { rp_filter: u8::MAX, proxy_delay: u32::MAX, ..Link::default() };
    let has = old.unwrap_or(&new);
    if old.is_none() {
        add_link(plan, name, tunnel);
    } else if has.owner() != Some(tunnel.owner.clone()) {
        plan.push(owner, Action::LinkAlias { link: link(), owner: tunnel.owner.clone() });
    }
    if !has.addresses.contains(&tunnel.address) {
        plan.push(owner, Action::AddrPut { link: link(), address: tunnel.address });
    }
    if matches!(tunnel.kind, TunnelKind::Vxlan { .. }) {
        if has.proxy_delay != 0 {
            plan.push(owner, Action::ProxyDelay { link: link() });
        }
        if !has.proxy_arp {
            plan.push(owner, Action::ProxyArp { link: link() });
        }
    }
    if has.rp_filter != LOOSE {
        plan.push(owner, Action::LooseFilter { link: link() });
    }
    if !has.promotes {
        plan.push(owner, Action::Promote { link: link() });
    }
    if !has.up {
        plan.push(owner, Action::LinkUp { link: link() });
    }
    // The route goes last: nothing is sent into a tunnel that is not ready.
    let route = route_to(tunnel.remote_range, None, name.as_str());
    if old.is_none() || !have.routes.contains(&route) {
        plan.push(owner, put(&route, want, have));
    }
}

/// Takes stale addresses off links that stay. The wanted one is there by now and the link promotes it when its
/// primary goes, so the link is never without an address, which would take its routes.
fn drop_addresses(
    plan: &mut Plan,
    whole: &[(&LinkName, &TunnelWant)],
    have: &Have,
    freed: &BTreeSet<String>,
) {
    for (name, tunnel) in whole.iter().filter(|(name, _)| !freed.contains(name.as_str())) {
        let has = have.links.get(name.as_str()).map(|link| link.addresses.as_slice()).unwrap_or_default();
        for address in has.iter().filter(|address| **address != tunnel.address) {
            plan.push(Some(&tunnel.owner), Action::AddrDel { link: (*name).clone(), address: *address });
        }
    }
}

fn drop_routes(plan: &mut Plan, wanted: &WantedRoutes, want: &Want, have: &Have, freed: &BTreeSet<String>) {
    let frozen = |dev: &String| have.links.get(dev).is_some_and(|link| is_frozen(want, link));
    let any_frozen = have.links.values().any(|link| is_frozen(want, link));
    // Routes go with their link; a frozen tunnel keeps its own and the way in.
    let needs_no_step = |route: &Route| match &route.dev {
        Some(dev) => freed.contains(dev) || frozen(dev) || (any_frozen && dev == LAN_LINK),
        None => false,
    };
    let stale: Vec<_> = have.routes.iter().filter(|route| route.is_ours() && !needs_no_step(route)).collect();
    for route in stale {
        // A route of ours with the wanted range and metric is replaced, not dropped.
        if route.metric != 0 || !wanted.contains_key(&route.range) {
            plan.push(None, Action::RouteDel { route: route.clone() });
        }
    }
}

fn drop_links(plan: &mut Plan, want: &Want, have: &Have, freed: &BTreeSet<String>) {
    let wanted = |name: &str| {
        let tunnel = want.tunnels.iter().find(|(link, _)| link.as_str() == name);
        tunnel.is_some_and(|(_, tunnel)| !plan.problems.contains_key(&tunnel.owner))
    };
    let stale = have.links.iter().filter(|(name, link)| {
        link.is_ours() && !is_frozen(want, link) && !freed.contains(*name) && !wanted(name)
    });
    let stale: Vec<_> = stale.map(|(name, link)| (link.owner(), name.clone())).collect();
    for (owner, link) in stale {
        plan.push(owner.as_ref(), Action::LinkDel { link });
    }
}

/// Our rules stand before every other rule of the active variant, each once; elsewhere there are none.
fn order_nat(plan: &mut Plan, buildable: &[(&LinkName, &TunnelWant)], want: &Want, have: &Have) {
    let mut missing: BTreeMap<String, &TunnelWant> =
        buildable.iter().map(|(_, tunnel)| (nat_spec(tunnel), *tunnel)).collect();
    for (variant, rules) in &have.nat.postrouting {
        let mut in_front = *variant == have.nat.active;
        let copies = |spec: &str| {
            rules.iter().filter(|r| matches!(r, NatRule::Ours { spec: s, .. } if s == spec)).count()
        };
        for rule in rules {
            match rule {
                NatRule::Foreign(_) => in_front = false,
                NatRule::Ours { owner, .. } if want.frozen.contains(owner) => {}
                // A rule is removed by its text, which removes the first copy: so of copies none stays.
                NatRule::Ours { spec, .. } if in_front && copies(spec) == 1 && missing.contains_key(spec) => {
                    missing.remove(spec);
                }
                NatRule::Ours { owner, spec } => {
                    plan.push(Some(owner), Action::NatDel { variant: *variant, spec: spec.clone() });
                }
            }
        }
    }
    for tunnel in missing.into_values() {
        let action = Action::NatInsert {
            variant: have.nat.active,
            owner: tunnel.owner.clone(),
            range: tunnel.remote_range,
            egress: tunnel.egress,
        };
        plan.push(Some(&tunnel.owner), action);
        let astray = Action::ForgetAstray { range: tunnel.remote_range, egress: tunnel.egress };
        plan.push(Some(&tunnel.owner), astray);
    }
}

/// Each tunnel has its segment size rule in the active variant, once; where it stands makes no difference.
fn clamp(plan: &mut Plan, whole: &[(&LinkName, &TunnelWant)], want: &Want, have: &Have) {
    let mut missing: BTreeMap<String, (&LinkName, &ObjectKey)> = whole
        .iter()
        .map(|(name, tunnel)| (clamp_spec(&tunnel.owner, name.as_str()), (*name, &tunnel.owner)))
        .collect();
    for (variant, rules) in &have.nat.forward {
        for rule in rules {
            let NatRule::Ours { owner, spec } = rule else { continue };
            let stays = *variant == have.nat.active && missing.remove(spec).is_some();
            if !stays && !want.frozen.contains(owner) {
                plan.push(Some(owner), Action::ClampDel { variant: *variant, spec: spec.clone() });
            }
        }
    }
    for (link, owner) in missing.into_values() {
        let variant = have.nat.active;
        let action = Action::ClampInsert { variant, owner: owner.clone(), link: link.clone() };
        plan.push(Some(owner), action);
    }
}

/// The rule of a tunnel as iptables lists it, in the one form that observers bring rules to.
fn nat_spec(tunnel: &TunnelWant) -> String {
    rule_spec(&tunnel.owner, tunnel.remote_range, tunnel.egress)
}
