//! A kernel, as far as it takes steps.

use std::collections::BTreeMap;

use causeway_core::Family;
use causeway_core::leases::kernel::{Held, HeldLink};
use causeway_core::leases::{Have, Owner, Route, Step};
use ipnet::IpNet;

/// The index of a link that is made.
pub(crate) const NEW: u32 = 99;

/// Takes a step as a kernel does: whatever refers to a new link gets its index.
pub(crate) fn take(have: &mut Have, step: &Step) {
    match step.clone() {
        Step::DropLink(index) | Step::DropStaleLink(index) => {
            have.stale.retain(|stale| *stale != index);
            have.link = have.link.take().filter(|link| link.index != index);
            for held in have.routes.values_mut() {
                held.retain(|held| held.route.is_none_or(|route| route.link != index));
            }
            have.routes.retain(|_, held| !held.is_empty());
        }
        Step::AddLink(_, link) => {
            have.link = Some(HeldLink {
                index: NEW,
                vxlan: Some(link.vxlan),
                addresses: Vec::new(),
                up: true,
                is_marked: true,
                neighbours: BTreeMap::new(),
                fdb: BTreeMap::new(),
            });
        }
        Step::SetLink(_, wanted) => {
            let link = link(have);
            (link.up, link.is_marked) = (true, true);
            if let Some(vxlan) = &mut link.vxlan {
                // As the kernel does when it is told an address; nobody tells it the one that is there.
                if vxlan.mac != wanted.vxlan.mac {
                    link.neighbours.clear();
                }
                (vxlan.mac, vxlan.mtu) = (wanted.vxlan.mac, wanted.vxlan.mtu);
            }
        }
        Step::PutAddress(address) => {
            let net = IpNet::new(address.address(), address.prefix()).expect("a prefix");
            link(have).addresses.push(net);
        }
        Step::DropAddress(address) => link(have).addresses.retain(|it| *it != address),
        Step::PutNeighbour(address, mac) => drop(link(have).neighbours.insert(address, mac)),
        Step::PutFdb(mac, address) => drop(link(have).fdb.insert(mac, address)),
        Step::DropNeighbour(address) => drop(link(have).neighbours.remove(&address)),
        Step::DropFdb(mac, _) => drop(link(have).fdb.remove(&mac)),
        Step::AddRoute(range, route) => {
            let route = if route.link == 0 { Route { link: NEW, ..route } } else { route };
            let held = have.routes.entry(range).or_default();
            assert!(held.is_empty(), "{range} is taken");
            held.push(Held { owner: Owner::Ours, route: Some(route) });
        }
        Step::PutRoute(range, route) => {
            let route = if route.link == 0 { Route { link: NEW, ..route } } else { route };
            if route.onlink && range.family() == Family::V6 {
                let over = have.routes.get(&range).and_then(|held| held[0].route).map(|route| route.link);
                assert_eq!(over, Some(route.link), "IPv6 refuses that");
            }
            let new = Held { owner: Owner::Ours, route: Some(route) };
            let held = have.routes.entry(range).or_default();
            // It replaces the first one of the same priority, whosever that is.
            match held.first_mut() {
                Some(first) => *first = new,
                None => held.push(new),
            }
        }
        Step::DropRoute(range, dropped) => {
            if let Some(held) = have.routes.get_mut(&range) {
                if let Some(at) = held.iter().position(|held| *held == dropped) {
                    held.remove(at);
                }
                if held.is_empty() {
                    have.routes.remove(&range);
                }
            }
        }
    }
}

fn link(have: &mut Have) -> &mut HeldLink {
    have.link.as_mut().expect("the link is there by then")
}
