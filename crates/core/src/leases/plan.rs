//! How the kernel gets from what it holds to what it should hold.
//!
//! First what is new or other, from the link up to the routes over it, then what should not be there: nothing that is
//! reached is out of reach in between. Routes are replaced, never deleted and added. What is somebody else's stays.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::kernel::{Held, HeldLink};
use super::{Have, Link, Mac, Owner, Route, Want};
use crate::{Cidr, Family};

/// One change of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Deletes the link, which is of another kind or cannot be made right as it is.
    DropLink(u32),
    /// Makes the link. What follows and is over it goes by its index, which is not known before.
    AddLink(String, Link),
    /// Sets what can be set: its address as a link, its largest packet, that it is up.
    SetLink(u32, Link),
    /// Gives the link its address.
    PutAddress(Cidr),
    /// Takes an address from it.
    DropAddress(IpNet),
    /// Says who is at a far end of it, whatever was said of that before.
    PutNeighbour(IpAddr, Mac),
    /// The same of where that is.
    PutFdb(Mac, IpAddr),
    /// Puts a route where there is none: whoever comes first has the place.
    AddRoute(Cidr, Route),
    /// Puts a route in the place of whatever of ours is there.
    PutRoute(Cidr, Route),
    /// Deletes one that leads there.
    DropRoute(Cidr, Held),
    /// Says nothing any more of a far end.
    DropNeighbour(IpAddr),
    /// The same of where it is.
    DropFdb(Mac, IpAddr),
    /// Deletes a link of ours that nothing is reached over any more.
    DropStaleLink(u32),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropLink(index) | Self::DropStaleLink(index) => write!(f, "delete the link {index}"),
            Self::AddLink(name, _) => write!(f, "make the link {name}"),
            Self::SetLink(index, _) => write!(f, "set up the link {index}"),
            Self::PutAddress(address) => write!(f, "put the address {address}"),
            Self::DropAddress(address) => write!(f, "delete the address {address}"),
            Self::PutNeighbour(address, mac) => write!(f, "put the neighbour {address} at {mac}"),
            Self::PutFdb(mac, node) => write!(f, "put {mac} at {node}"),
            Self::AddRoute(range, Route { via, .. }) | Self::PutRoute(range, Route { via, .. }) => {
                write!(f, "put the route {range} via {via}")
            }
            Self::DropRoute(range, Held { route: Some(route), .. }) => {
                write!(f, "delete the route {range} via {}", route.via)
            }
            Self::DropRoute(range, _) => write!(f, "delete the route {range}"),
            Self::DropNeighbour(address) => write!(f, "delete the neighbour {address}"),
            Self::DropFdb(mac, node) => write!(f, "delete {mac} at {node}"),
        }
    }
}

/// What a step is about, for those who count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// The link over which others are reached, or its address.
    Link,
    /// The way to a lease.
    Route,
    /// Who is at a far end of the link, or where that is.
    End,
    /// Something that leads nowhere any more.
    Stale,
}

impl About {
    /// What a step is about.
    pub fn of(step: &Step) -> Self {
        match step {
            Step::DropLink(_) | Step::AddLink(..) | Step::SetLink(..) => Self::Link,
            Step::PutAddress(_) | Step::DropAddress(_) => Self::Link,
            Step::AddRoute(..) | Step::PutRoute(..) => Self::Route,
            Step::PutNeighbour(..) | Step::PutFdb(..) => Self::End,
            Step::DropRoute(..) | Step::DropNeighbour(_) | Step::DropFdb(..) | Step::DropStaleLink(_) => {
                Self::Stale
            }
        }
    }
}

/// What is to be done, and what is in the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// Leases whose place is taken by somebody else's route, which stays.
    pub contested: Vec<Cidr>,
}

/// Compares, at the beginning.
///
/// What flannel put there is taken over: a route with its mark is ours if it leads to a lease, or over the link that nodes
/// share, or ours, to what should be one. Whoever else's mark a route has, it stays.
pub fn plan(want: &Want, have: &Have) -> Plan {
    compare(want, have, true)
}

/// Compares, once the kernel held everything: by then flannel is gone, and has left nothing. A route with its mark, which is
/// that of whoever says nothing, is ours only if it stands in the place of one of ours.
pub fn plan_again(want: &Want, have: &Have) -> Plan {
    compare(want, have, false)
}

fn compare(want: &Want, have: &Have, takes_over: bool) -> Plan {
    let mut plan = Plan::default();
    let link = plan_link(want, have.link.as_ref(), &mut plan.steps);
    let index = link.map_or(0, |link| link.index);
    plan_ends(want, link, &mut plan.steps);
    let is_ours = |range, held: &Held| match held.owner {
        Owner::Ours => true,
        Owner::Flannels => {
            let links = [Some(want.over), have.link.as_ref().map(|link| link.index)];
            let is_near = held.route.is_some_and(|route| links.contains(&Some(route.link)));
            // The way to all of them is not flannel's.
            let is_part = want.range.covers(range) && range != want.range;
            is_part && (takes_over && is_near || want.routes.contains_key(&range))
        }
        Owner::Others => false,
    };
    // Routes over a link go with it.
    let dropped = |link: &&HeldLink| plan.steps.contains(&Step::DropLink(link.index));
    let gone = have.link.as_ref().filter(dropped).map(|link| link.index);
    let stays = |held: &&Held| gone.is_none() || held.route.is_none_or(|route| Some(route.link) != gone);
    let mut stale = Vec::new();
    for (range, route) in &want.routes {
        let route = if route.link == 0 { Route { link: index, ..*route } } else { *route };
        let held: Vec<&Held> = have.routes.get(range).into_iter().flatten().filter(stays).collect();
        // Whosever leads over a link that goes, goes with it.
        let goes = |held: &Held| held.route.is_some_and(|route| have.stale.contains(&route.link));
        if held.iter().any(|held| !is_ours(*range, held) && !goes(held)) {
            plan.contested.push(*range);
            continue;
        }
        let right = held.iter().position(|held| held.owner == Owner::Ours && held.route == Some(route));
        if right.is_none() {
            match held.first() {
                None => plan.steps.push(Step::AddRoute(*range, route)),
                // IPv6 asks the route that is there for the way to its own successor's next hop, and then refuses it.
                Some(first)
                    if route.onlink && range.family() == Family::V6 && leads_elsewhere(first, route) =>
                {
                    let all = held.iter().map(|held| Step::DropRoute(*range, (*held).clone()));
                    plan.steps.extend(all.chain([Step::AddRoute(*range, route)]));
                    continue;
                }
                Some(_) => plan.steps.push(Step::PutRoute(*range, route)),
            }
        }
        // What was replaced is gone; whatever else there is would go on taking packets.
        let replaced = right.unwrap_or(0);
        let others = held.iter().enumerate().filter(|(at, _)| *at != replaced);
        stale.extend(others.map(|(_, held)| Step::DropRoute(*range, (*held).clone())));
    }
    for (range, held) in have.routes.iter().filter(|(range, _)| !want.routes.contains_key(range)) {
        let ours = held.iter().filter(stays).filter(|held| is_ours(*range, held));
        stale.extend(ours.map(|held| Step::DropRoute(*range, held.clone())));
    }
    plan.steps.append(&mut stale);
    drop_ends(want, link, &mut plan.steps);
    plan.steps.extend(have.stale.iter().map(|index| Step::DropStaleLink(*index)));
    plan
}

/// Whether a route leads over another link.
fn leads_elsewhere(held: &Held, route: Route) -> bool {
    held.route.is_none_or(|known| known.link != route.link)
}

/// Takes away all that has our mark.
pub fn clean(have: &Have) -> Plan {
    let routes = have.routes.iter().flat_map(|(range, held)| held.iter().map(move |held| (range, held)));
    let ours = routes.filter(|(_, held)| held.owner == Owner::Ours);
    let mut steps: Vec<Step> = ours.map(|(range, held)| Step::DropRoute(*range, held.clone())).collect();
    let link = have.link.as_ref().filter(|link| link.is_marked).map(|link| link.index);
    steps.extend(have.stale.iter().copied().chain(link).map(Step::DropStaleLink));
    Plan { steps, contested: Vec::new() }
}

/// Brings the link in order, and returns it if what it holds can stay.
fn plan_link<'a>(want: &Want, have: Option<&'a HeldLink>, steps: &mut Vec<Step>) -> Option<&'a HeldLink> {
    let Some((name, link)) = &want.link else { return None };
    let usable = have.filter(|have| have.vxlan.as_ref().is_some_and(|held| is_same_tunnel(held, link)));
    let Some(have) = usable else {
        // One that is neither flannel's nor ours stays, and is in the way.
        let replaced = have.filter(|have| have.vxlan.is_some() || have.is_marked);
        steps.extend(replaced.map(|have| Step::DropLink(have.index)));
        steps.push(Step::AddLink(name.clone(), link.clone()));
        steps.push(Step::PutAddress(link.address));
        return None;
    };
    let held = have.vxlan.as_ref();
    if !have.up
        || !have.is_marked
        || held.is_some_and(|held| (held.mac, held.mtu) != (link.vxlan.mac, link.vxlan.mtu))
    {
        steps.push(Step::SetLink(have.index, link.clone()));
    }
    let is_its =
        |held: &IpNet| held.addr() == link.address.address() && held.prefix_len() == link.address.prefix();
    if !have.addresses.iter().any(is_its) {
        steps.push(Step::PutAddress(link.address));
    }
    let others = have.addresses.iter().filter(|held| {
        !is_its(held) && Family::of(held.addr()) == link.address.family() && !is_link_local(held.addr())
    });
    steps.extend(others.map(|address| Step::DropAddress(*address)));
    Some(have)
}

/// Whether a link needs not be made anew: the rest of it can be set.
fn is_same_tunnel(held: &super::Vxlan, link: &Link) -> bool {
    let super::Vxlan { vni, port, over, local, learning, .. } = &link.vxlan;
    (held.vni, held.port, held.over, &held.local, held.learning) == (*vni, *port, *over, local, *learning)
}

/// The kernel gives every link one of these by itself.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn plan_ends(want: &Want, link: Option<&HeldLink>, steps: &mut Vec<Step>) {
    let (mut neighbours, mut fdb) = (&BTreeMap::new(), &BTreeMap::new());
    if let Some(link) = link {
        fdb = &link.fdb;
        // A link that gets another address forgets its neighbours.
        let mac = |vxlan: &super::Vxlan| vxlan.mac;
        if link.vxlan.as_ref().map(mac) == want.link.as_ref().map(|(_, link)| link.vxlan.mac) {
            neighbours = &link.neighbours;
        }
    }
    let missing = want.neighbours.iter().filter(|(address, mac)| neighbours.get(address) != Some(mac));
    steps.extend(missing.map(|(address, mac)| Step::PutNeighbour(*address, *mac)));
    let missing = want.fdb.iter().filter(|(mac, address)| fdb.get(mac) != Some(address));
    steps.extend(missing.map(|(mac, address)| Step::PutFdb(*mac, *address)));
}

fn drop_ends(want: &Want, link: Option<&HeldLink>, steps: &mut Vec<Step>) {
    let Some(link) = link else { return };
    let stale = link.neighbours.keys().filter(|address| !want.neighbours.contains_key(address));
    steps.extend(stale.map(|address| Step::DropNeighbour(*address)));
    let stale = link.fdb.iter().filter(|(mac, _)| !want.fdb.contains_key(mac));
    steps.extend(stale.map(|(mac, address)| Step::DropFdb(*mac, *address)));
}
