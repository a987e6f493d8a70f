//! From whatever a kernel holds to what it should hold, for any nodes.

use std::collections::BTreeMap;

use causeway_core::leases::kernel::{Held, HeldLink};
use causeway_core::leases::{
    Backend, Have, Lease, Mode, Node, Owner, Route, Vxlan, Want, admit, clean, compile, plan,
};
use causeway_core::{Cidr, Family};
use proptest::prelude::*;
use proptest::sample::select;

use crate::kernel::take;
use crate::world::{DIRECT, LINK, VXLAN, lease, mac, network, node, place, public, subnet};

/// Of the kernel's link, before anything was done.
const OLD: u32 = 7;
/// Of a link of ours that has another name by now.
const STALE: u32 = 8;

fn family() -> impl Strategy<Value = Family> {
    select(Family::ALL.to_vec())
}

fn mode() -> impl Strategy<Value = Mode> {
    select(vec![Mode::HostGw, VXLAN, DIRECT])
}

fn a_node(family: Family, mode: Mode) -> impl Strategy<Value = Node> {
    let other = select(vec![None, None, None, Some(Backend::HostGw), Some(Backend::Other("udp".into()))]);
    (1..12u8, 1..5u8, other, 0..3i64).prop_map(move |(number, at, other, since)| {
        let sound = lease(family, mode, number);
        let backend = other.unwrap_or(sound.backend);
        node(Lease { public: public(family, number / 4 * 60 + at), backend, ..sound }, since)
    })
}

fn nodes(family: Family, mode: Mode) -> impl Strategy<Value = BTreeMap<String, Node>> {
    prop::collection::btree_map("[a-h]", a_node(family, mode), 0..8)
}

fn a_route(family: Family) -> impl Strategy<Value = Option<Route>> {
    let link = select(vec![LINK, LINK, OLD, STALE, 3]);
    prop::option::weighted(
        0.9,
        (1..12u8, link, any::<bool>(), any::<bool>()).prop_map(move |(number, link, onlink, end)| {
            let via = if end { subnet(family, number).address() } else { public(family, number) };
            Route { via, link, onlink }
        }),
    )
}

fn routes(family: Family) -> impl Strategy<Value = BTreeMap<Cidr, Vec<Held>>> {
    let owner = select(vec![Owner::Ours, Owner::Ours, Owner::Flannels, Owner::Others]);
    let held = (owner, a_route(family)).prop_map(|(owner, route)| Held { owner, route });
    prop::collection::btree_map(
        (1..14u8).prop_map(move |number| subnet(family, number)),
        prop::collection::vec(held, 1..3),
        0..8,
    )
}

fn a_link(family: Family) -> impl Strategy<Value = HeldLink> {
    let vxlan = (1..3u32, select(vec![LINK, 3]), 1..3u8, select(vec![1450, 1430, 1400]), any::<bool>());
    let vxlan = vxlan.prop_map(move |(vni, over, last, mtu, learning)| Vxlan {
        vni,
        port: 8472,
        over,
        local: public(family, 1),
        mac: mac(last),
        mtu,
        learning,
    });
    let ends = prop::collection::btree_map(1..12u8, 1..12u8, 0..4);
    let flags = (any::<bool>(), any::<bool>());
    (prop::option::weighted(0.9, vxlan), flags, 1..3u8, ends.clone(), ends).prop_map(
        move |(vxlan, (up, is_marked), own, neighbours, fdb)| HeldLink {
            index: OLD,
            vxlan,
            addresses: vec![subnet(family, own).address().into()],
            up,
            is_marked,
            neighbours: neighbours
                .iter()
                .map(|(at, last)| (subnet(family, *at).address(), mac(*last)))
                .collect(),
            fdb: fdb.iter().map(|(last, at)| (mac(*last), public(family, *at))).collect(),
        },
    )
}

fn scenes() -> impl Strategy<Value = (Family, Mode, BTreeMap<String, Node>, Have)> {
    (family(), mode()).prop_flat_map(|(family, mode)| {
        // Only a way through links has one of a name; of those before there may be one in any case.
        let link =
            prop::option::of(a_link(family)).prop_map(move |link| link.filter(|_| mode != Mode::HostGw));
        let stale = prop::collection::vec(Just(STALE), 0..2);
        let have =
            (link, stale, routes(family)).prop_map(|(link, stale, routes)| Have { link, stale, routes });
        (Just(family), Just(mode), nodes(family, mode), have)
    })
}

fn wanted(family: Family, mode: Mode, nodes: &BTreeMap<String, Node>) -> Want {
    let (network, place) = (network(family, mode), place(family));
    let admitted = admit(&network, &place, nodes.iter().map(|(name, node)| (name.as_str(), node)));
    for (name, node) in nodes {
        let lease = node.lease(family).expect("it has one");
        let (is_reached, is_refused) =
            (admitted.leases.contains_key(&**name), admitted.refused.contains_key(&**name));
        assert!(is_reached != is_refused, "either, of {lease:?}");
    }
    let mut leases: Vec<Cidr> = admitted.leases.values().map(|lease| lease.subnet).collect();
    leases.push(place.subnet);
    for (at, one) in leases.iter().enumerate() {
        assert!(leases[at + 1..].iter().all(|other| !one.overlaps(*other)), "{leases:?}");
    }
    compile(&network, &place, &admitted)
}

/// What is nobody's business here: all but our routes, and flannel's that were taken over.
fn others(want: &Want, have: &Have) -> Vec<(Cidr, Held)> {
    let all = have.routes.iter().flat_map(|(range, held)| held.iter().map(|held| (*range, held.clone())));
    // What leads over our links goes with them.
    let all = all.filter(|(_, held)| held.route.is_none_or(|route| ![OLD, STALE].contains(&route.link)));
    let is_others = |(range, held): &(Cidr, Held)| match held.owner {
        Owner::Ours => false,
        Owner::Flannels => {
            held.route.is_none_or(|route| route.link != LINK) && !want.routes.contains_key(range)
        }
        Owner::Others => true,
    };
    all.filter(is_others).collect()
}

proptest! {
    #[test]
    fn one_plan_is_enough_and_nothing_of_others_changes((family, mode, nodes, have) in scenes()) {
        let want = wanted(family, mode, &nodes);
        let planned = plan(&want, &have);
        let mut after = have.clone();
        planned.steps.iter().for_each(|step| take(&mut after, step));
        prop_assert_eq!(others(&want, &after), others(&want, &have));
        let again = plan(&want, &after);
        prop_assert_eq!(&again.steps, &Vec::new());
        // Who was in the way over a link that has gone is not any more.
        prop_assert!(again.contested.iter().all(|range| planned.contested.contains(range)));
        prop_assert!(after.stale.is_empty());
        for range in want.routes.keys().filter(|range| !planned.contested.contains(range)) {
            prop_assert_eq!(after.routes[range].len(), 1, "one way to {}", range);
        }
        let stale = after.routes.iter().filter(|(range, _)| !want.routes.contains_key(range));
        for (range, held) in stale {
            prop_assert!(held.iter().all(|held| held.owner != Owner::Ours), "{}", range);
        }
    }

    #[test]
    fn cleaning_takes_all_of_ours_and_nothing_else((_, _, _, have) in scenes()) {
        let mut after = have.clone();
        clean(&have).steps.iter().for_each(|step| take(&mut after, step));
        prop_assert!(clean(&after).steps.is_empty());
        let foreign = |have: &Have| -> Vec<(Cidr, Held)> {
            let all = have.routes.iter().flat_map(|(range, held)| held.iter().map(|held| (*range, held.clone())));
            let stays = |held: &Held| held.route.is_none_or(|route| ![OLD, STALE].contains(&route.link));
            all.filter(|(_, held)| held.owner != Owner::Ours && stays(held)).collect()
        };
        prop_assert_eq!(foreign(&after), foreign(&have));
        prop_assert_eq!(after.link.is_some(), have.link.is_some_and(|link| !link.is_marked));
    }

    #[test]
    fn what_is_reached_before_and_after_is_reached_in_between((family, mode, nodes, have) in scenes()) {
        let want = wanted(family, mode, &nodes);
        let planned = plan(&want, &have);
        let makes_link = planned.steps.iter().any(|step| matches!(step, causeway_core::leases::Step::AddLink(..)));
        let reached = |have: &Have| -> Vec<Cidr> {
            want.routes.keys().filter(|range| have.routes.contains_key(range)).copied().collect()
        };
        let before = reached(&have);
        let mut after = have.clone();
        for (at, step) in planned.steps.iter().enumerate() {
            take(&mut after, step);
            // What IPv6 does not let be replaced goes and comes in one go.
            if let Some(causeway_core::leases::Step::AddRoute(..) | causeway_core::leases::Step::DropRoute(..)) = planned.steps.get(at + 1)
                && family == Family::V6
                && matches!(step, causeway_core::leases::Step::DropRoute(..))
            {
                continue;
            }
            // A link that has to be made anew takes its routes along.
            if !makes_link {
                let now = reached(&after);
                prop_assert!(before.iter().all(|range| now.contains(range)), "{:?} is out of reach after {:?}", before, step);
            }
        }
    }
}
