//! Next hops as objects of their own, so that many routes of IPv4 are put in a time that grows with their number.
//!
//! A route that has its next hop in itself is looked for among all that lead over the same link, by the kernel, one after
//! another: ten thousand take more than a second. A next hop that is an object is found by its number. Routes lead to the
//! same places in either way, so whatever stands in the way of an object has its route put as usual.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use causeway_core::leases::{Have, Hop, Route, Step};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use super::PROTOCOL;
use crate::netlink::{Netlink, Request, is_absent, is_too_much};
use crate::nexthop::{NextHop, NextHopMessage};

/// Up to so many next hops over a link at once are put without objects: that takes some 0.02 s in either way, and all tools
/// show and delete such routes as people know them.
const FEW: usize = 1024;
/// A number that is taken is followed by so many others before the route goes without.
const TRIES: u32 = 16;
/// From one to the next of these: far away, since nodes' addresses stand side by side.
const STRIDE: u32 = 0x009e_3779;
/// What a number holds beside the mark that it begins with.
const REST: u32 = 0x00ff_ffff;

/// The way through a next hop, by the number of it.
pub(super) type Numbers = BTreeMap<Route, u32>;

/// All next hops that are objects; none where the kernel knows no such thing.
pub(super) fn list(kernel: &mut Netlink) -> io::Result<BTreeMap<u32, Hop>> {
    let (mut hops, mut members) = (BTreeMap::new(), Vec::new());
    let listed = kernel.dump(NextHopMessage::Get, |message| {
        if let NextHopMessage::New(mut hop) = message {
            members.append(&mut hop.members);
            hops.insert(hop.id, seen(&hop));
        }
    });
    match listed {
        Err(error) if is_unknown(&error) => return Ok(BTreeMap::new()),
        listed => listed?,
    }
    for number in members {
        if let Some(hop) = hops.get_mut(&number) {
            hop.is_shared = true;
        }
    }
    Ok(hops)
}

fn seen(hop: &NextHop) -> Hop {
    let way = hop.gateway.zip(hop.link).filter(|(via, _)| via.is_ipv4() && !hop.has_more);
    let route = way.map(|(via, link)| Route { via, link, onlink: hop.onlink });
    Hop { is_ours: hop.protocol == PROTOCOL, route, is_shared: false }
}

/// Whether a kernel says that it never heard of next hops: `EOPNOTSUPP`, `EINVAL`, `ENOSYS`.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(95 | 22 | 38))
}

/// Whether news of a next hop may be about one of ours: one that somebody put in its place has the number alone.
pub(super) fn concerns_us(message: &NextHopMessage) -> bool {
    match message {
        NextHopMessage::New(hop) | NextHopMessage::Del(hop) => {
            hop.protocol == PROTOCOL || hop.id & !REST == number_of(0)
        }
        NextHopMessage::Get => false,
    }
}

/// Puts the next hops that routes need, and tells which are there.
///
/// They are there before any route is put through them: one that was refused may be somebody else's by that number.
pub(super) fn put(
    kernel: &mut Netlink,
    routes: &BTreeSet<Route>,
    have: &Have,
    gone: &[u32],
) -> io::Result<Numbers> {
    let there = |hop: &Hop| hop.route.is_none_or(|route| !gone.contains(&route.link));
    let held: BTreeMap<u32, Hop> =
        have.hops.iter().filter(|(_, hop)| there(hop)).map(|(number, hop)| (*number, *hop)).collect();
    let ours = held.iter().filter(|(_, hop)| hop.is_ours);
    let mut numbers: Numbers = ours.filter_map(|(number, hop)| Some((hop.route?, *number))).collect();
    let new = choose(routes, &numbers, &held);
    let requests: Vec<_> = new.iter().map(|(route, number)| request(*route, *number)).collect();
    let failed = kernel.batch(&requests)?;
    // Nobody knows what else failed.
    if failed.iter().any(|(_, error)| is_too_much(error)) {
        return Ok(numbers);
    }
    let failed: BTreeSet<usize> = failed.into_iter().map(|(at, _)| at).collect();
    let made = new.into_iter().enumerate().filter(|(at, _)| !failed.contains(at));
    numbers.extend(made.map(|(_, made)| made));
    Ok(numbers)
}

/// Which next hops are to be made, and their numbers.
fn choose(routes: &BTreeSet<Route>, numbers: &Numbers, held: &BTreeMap<u32, Hop>) -> Vec<(Route, u32)> {
    let mut by_link: BTreeMap<u32, Vec<Route>> = BTreeMap::new();
    for route in routes.iter().filter(|route| !numbers.contains_key(route)) {
        by_link.entry(route.link).or_default().push(*route);
    }
    let mut taken: BTreeSet<u32> = held.keys().copied().collect();
    let mut chosen = Vec::new();
    for route in by_link.into_values().filter(|routes| routes.len() > FEW).flatten() {
        let IpAddr::V4(via) = route.via else { continue };
        let first = u32::from(via);
        let mut tries = (0..TRIES).map(|turn| number_of(first.wrapping_add(turn.wrapping_mul(STRIDE))));
        if let Some(number) = tries.find(|number| !taken.contains(number)) {
            taken.insert(number);
            chosen.push((route, number));
        }
    }
    chosen
}

/// A number that begins with our mark; the rest is the end of an address, or what is tried in place of that.
fn number_of(rest: u32) -> u32 {
    u32::from(PROTOCOL) << 24 | rest & REST
}

fn request(route: Route, id: u32) -> Request<NextHopMessage> {
    let Route { via, link, onlink } = route;
    let hop = NextHop {
        id,
        protocol: PROTOCOL,
        gateway: Some(via),
        link: Some(link),
        onlink,
        ..NextHop::default()
    };
    Request { message: NextHopMessage::New(hop), flags: NLM_F_CREATE | NLM_F_EXCL }
}

/// Deletes next hops; those that could not be, and why.
pub(super) fn drop_all(kernel: &mut Netlink, steps: &[&Step]) -> io::Result<Vec<(Step, io::Error)>> {
    let number = |step: &&Step| if let Step::DropHop(number) = step { Some(*number) } else { None };
    let message = |id| NextHopMessage::Del(NextHop { id, ..NextHop::default() });
    let requests: Vec<_> =
        steps.iter().filter_map(number).map(|id| Request { message: message(id), flags: 0 }).collect();
    let failed = kernel.batch(&requests)?.into_iter();
    // It may have gone with its link.
    let failed = failed.filter(|(_, error)| !is_absent(error));
    Ok(failed.map(|(at, error)| (steps[at].clone(), error)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via(number: u32, link: u32) -> Route {
        Route { via: IpAddr::from((0x0a00_0000 + number).to_be_bytes()), link, onlink: false }
    }

    #[test]
    fn few_next_hops_over_each_link_need_no_objects() {
        let few = FEW as u32;
        let two_links: BTreeSet<Route> =
            (0..few).flat_map(|number| [via(number, 2), via(number, 3)]).collect();
        assert_eq!(choose(&two_links, &Numbers::new(), &BTreeMap::new()), []);
        let mut many = two_links;
        many.insert(via(few, 3));
        let chosen = choose(&many, &Numbers::new(), &BTreeMap::new());
        assert_eq!(chosen.len(), FEW + 1);
        assert!(chosen.iter().all(|(route, number)| route.link == 3 && number >> 24 == u32::from(PROTOCOL)));
    }

    #[test]
    fn a_number_that_is_taken_is_left_to_whoever_has_it() {
        let other = Hop { is_ours: false, route: None, is_shared: false };
        let taken: BTreeMap<u32, Hop> = (0..10).map(|number| (number_of(number), other)).collect();
        // Of two addresses that end alike the second gets another one, too.
        let mut routes: BTreeSet<Route> = (0..=FEW as u32).map(|number| via(number, 2)).collect();
        routes.insert(Route { via: [11, 0, 4, 0].into(), link: 2, onlink: false });
        let chosen = choose(&routes, &Numbers::new(), &taken);
        let numbers: BTreeSet<u32> = chosen.iter().map(|(_, number)| *number).collect();
        assert_eq!((chosen.len(), numbers.len()), (FEW + 2, FEW + 2));
        assert!(numbers.iter().all(|number| !taken.contains_key(number)));
        let all: BTreeMap<u32, Hop> = (0..TRIES)
            .map(|turn| (number_of(7_u32.wrapping_add(turn.wrapping_mul(STRIDE))), other))
            .collect();
        let chosen = choose(&routes, &Numbers::new(), &all);
        assert!(!chosen.iter().any(|(route, _)| *route == via(7, 2)), "that one goes without");
        assert_eq!(chosen.len(), FEW + 1);
    }
}
