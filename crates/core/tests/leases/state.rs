//! What is waited for, and what concerns the kernel.

use std::collections::BTreeSet;

use causeway_core::Family;
use causeway_core::leases::state::{Event, Scope, State};
use causeway_core::leases::{Given, Holding, Interface, Lease, Mode, Node, Own, Seen};
use causeway_core::room::{Change, State as _};
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{LINK, VXLAN, address, lease, mac, network, node, place, public, range, subnet};

fn interface() -> Interface {
    let place = place(Family::V4);
    Interface {
        index: LINK,
        name: "eth0".into(),
        mtu: 1500,
        address: public(Family::V4, 1),
        neighbours: place.neighbours,
    }
}

fn own(cidrs: &[&str]) -> Seen {
    let subnets =
        cidrs.iter().map(|text| text.parse().map_err(|why| format!("spec.podCIDR: {why}"))).collect();
    Seen { node: None, own: Some(Own { subnets, ..Own::default() }) }
}

fn put(name: &str, seen: Seen) -> Event {
    Event::Nodes(Change::Put(name.into(), seen))
}

fn other(node: Node) -> Seen {
    Seen { node: Some(node), own: None }
}

fn state(mode: Mode) -> State {
    let macs = [(Family::V4, mac(1))].into();
    State::new(Given {
        name: "one".into(),
        networks: vec![network(Family::V4, mode)],
        macs,
        ..Given::default()
    })
}

fn leases(state: &State) -> Result<Vec<Lease>, String> {
    Ok(state.announcement()?.leases.into_iter().map(|(_, lease)| lease).collect())
}

#[test]
fn what_is_waited_for_is_said_and_nothing_is_wanted_until_then() {
    let mut state = state(Mode::HostGw);
    let why = |state: &State| state.want(Family::V4).map(drop).expect_err("it waits");
    assert_eq!(why(&state), "there is no Node one");
    state.apply(put("one", own(&[])));
    assert_eq!(why(&state), "Node one has no IPv4 podCIDR yet");
    state.apply(put("one", own(&["10.99.0.0/24"])));
    assert_eq!(why(&state), "the subnet 10.99.0.0/24 of Node one is not in the network 10.244.0.0/16");
    state.apply(put("one", own(&["10.244.1.0/99"])));
    assert!(why(&state).starts_with("spec.podCIDR: `10.244.1.0/99` is not a range"));
    state.apply(put("one", own(&["10.244.1.0/24"])));
    assert_eq!(why(&state), "no IPv4 interface was found yet");
    state.apply(Event::Interface(Family::V4, Err("there is no default route".into())));
    assert_eq!(why(&state), "there is no default route");
    state.apply(Event::Interface(Family::V4, Ok(interface())));
    assert!(state.want(Family::V4).is_ok());
    assert_eq!(state.announcement(), Err("what the kernel holds of IPv4 was not seen yet".into()));
    state.apply(Event::Held(Family::V4, Ok(Holding::default())));
    assert_eq!(leases(&state), Ok(vec![lease(Family::V4, Mode::HostGw, 1)]));
    let elsewhere = Own {
        overwritten: [(Family::V4, Ok(address("203.0.113.7")))].into(),
        ..own(&["10.244.1.0/24"]).own.expect("own")
    };
    state.apply(put("one", Seen { node: None, own: Some(elsewhere.clone()) }));
    assert_eq!(
        why(&state),
        "host-gw needs the interface's own address: eth0 has 192.168.7.1, and 203.0.113.7 is asked for"
    );
    // Behind a translation that is fine for VXLAN.
    let mut vxlan = self::state(VXLAN);
    vxlan.apply(Event::Interface(Family::V4, Ok(interface())));
    vxlan.apply(put("one", Seen { node: None, own: Some(elsewhere) }));
    vxlan.apply(Event::Held(Family::V4, Ok(Holding::default())));
    assert_eq!(leases(&vxlan).expect("leases")[0].public, address("203.0.113.7"));
    assert_eq!(vxlan.announcement().expect("leases").mtu, 1450);
}

#[test]
fn a_node_concerns_the_kernel_by_its_lease_and_its_age_alone() {
    let mut state = state(Mode::HostGw);
    state.apply(put("one", own(&["10.244.1.0/24"])));
    let two = node(lease(Family::V4, Mode::HostGw, 2), 5);
    let kernel: BTreeSet<Scope> = [Scope::Kernel(Family::V4)].into();
    assert_eq!(state.apply(put("two", other(two.clone()))), kernel);
    assert!(state.apply(put("two", other(two.clone()))).is_empty());
    assert_eq!(
        state.apply(put("two", other(Node { since: 6, ..two }))),
        kernel,
        "of two the older one counts"
    );
    let v6 = node(lease(Family::V6, Mode::HostGw, 3), 5);
    assert!(state.apply(put("three", other(v6))).is_empty(), "of a family that is not enabled");
    assert_eq!(state.apply(Event::Nodes(Change::Gone("two".into()))), kernel);
}

#[test]
fn what_a_node_is_told_of_itself_concerns_what_depends_on_it() {
    let mut state = state(VXLAN);
    let seen = |announced: &str, last: u8, version: &str| {
        let own = own(&["10.244.1.0/24"]).own.expect("own");
        let announced = [("public-ip".to_owned(), announced.to_owned())].into();
        let macs = [(Family::V4, mac(last))].into();
        Seen { node: None, own: Some(Own { announced, macs, version: version.into(), ..own }) }
    };
    state.apply(Event::Interface(Family::V4, Ok(interface())));
    state.apply(put("one", seen("a", 9, "1")));
    assert!(state.apply(put("one", seen("a", 9, "2"))).is_empty(), "kubelets write all the time");
    assert_eq!(state.own().expect("own").version, "2");
    assert_eq!(state.apply(put("one", seen("b", 8, "3"))), [Scope::Announcement].into());
    let (_, place) = state.place(Family::V4).expect("a place");
    assert_eq!(place.mac, mac(9), "others know it by what it said first");
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let names = select(vec!["one", "two", "three", "four"]);
    let seen = (1..6u8, 0..3i64, any::<bool>(), any::<bool>()).prop_map(|(number, since, host, has)| {
        let mode = if host { Mode::HostGw } else { VXLAN };
        let lease = Lease { subnet: subnet(Family::V4, number), ..lease(Family::V4, mode, number) };
        let own = Own { subnets: vec![Ok(range("10.244.1.0/24"))], ..Own::default() };
        Seen { node: has.then(|| node(lease, since)), own: (number % 2 == 0).then_some(own) }
    });
    let put = (names.clone(), seen).prop_map(|(name, seen)| put(name, seen));
    let gone = names.prop_map(|name| Event::Nodes(Change::Gone(name.into())));
    let interface = (any::<bool>(), 1400..1402u32).prop_map(|(there, mtu)| {
        let interface = Interface { mtu, ..interface() };
        Event::Interface(Family::V4, if there { Ok(interface) } else { Err("it is gone".into()) })
    });
    let held = any::<bool>().prop_map(|seen| {
        Event::Held(Family::V4, if seen { Ok(Holding::default()) } else { Err("no answer".into()) })
    });
    prop::collection::vec(prop_oneof![6 => put, 2 => gone, 2 => interface, 2 => held], 1..30)
}

proptest! {
    #[test]
    fn whatever_changes_what_the_kernel_should_hold_concerns_it(events in events()) {
        let mut state = state(Mode::HostGw);
        for event in events {
            let (before, said) = (state.want(Family::V4).map(|(want, _)| want), state.announcement());
            let (traffic, revision) = (state.traffic(), state.revision());
            let touched = state.apply(event);
            if state.want(Family::V4).map(|(want, _)| want) != before {
                prop_assert!(touched.contains(&Scope::Kernel(Family::V4)));
                prop_assert!(state.revision() > revision);
            }
            if state.announcement() != said {
                prop_assert!(touched.contains(&Scope::Announcement));
            }
            if state.traffic() != traffic {
                prop_assert!(touched.contains(&Scope::Traffic));
            }
        }
    }
}
