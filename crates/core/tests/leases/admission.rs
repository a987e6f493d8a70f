//! Which nodes are reached.

use causeway_core::Family;
use causeway_core::leases::{Backend, Lease, Mode, Node, admit, compile};

use crate::world::{DIRECT, LINK, VXLAN, address, lease, mac, network, node, place, public, range, subnet};

/// Why each of these is not reached over a network.
fn refused(mode: Mode, nodes: &[(&str, Node)]) -> Vec<(String, String)> {
    let nodes = nodes.iter().map(|(name, node)| (*name, node));
    let admitted = admit(&network(Family::V4, mode), &place(Family::V4), nodes);
    admitted.refused.iter().map(|(name, why)| ((*name).to_owned(), why.to_string())).collect()
}

fn of(mode: Mode, number: u8) -> Lease {
    lease(Family::V4, mode, number)
}

#[test]
fn what_is_refused_is_said_in_a_sentence() {
    let host = |number| of(Mode::HostGw, number);
    let cases = [
        (
            Lease { subnet: range("10.99.0.0/24"), ..host(2) },
            "its subnet 10.99.0.0/24 is not in the network 10.244.0.0/16",
        ),
        (
            Lease { public: public(Family::V4, 1), ..host(2) },
            "its public address 192.168.7.1 is this node's own",
        ),
        (
            Lease { subnet: range("10.244.0.0/23"), ..host(2) },
            "its subnet 10.244.0.0/23 overlaps this node's own, 10.244.1.0/24",
        ),
        (of(VXLAN, 2), "its backend is `vxlan`, and this node's is `host-gw`"),
        (
            Lease { backend: Backend::Other("wireguard".into()), ..host(2) },
            "its backend is `wireguard`, and this node's is `host-gw`",
        ),
    ];
    for (lease, why) in cases {
        assert_eq!(refused(Mode::HostGw, &[("two", node(lease, 0))]), [("two".to_owned(), why.to_owned())]);
    }
    let other = Lease { backend: Backend::Vxlan { vni: 7, mac: mac(2) }, ..of(VXLAN, 2) };
    let why = "its VNI is 7, and this node's is 1";
    assert_eq!(refused(VXLAN, &[("two", node(other, 0))]), [("two".to_owned(), why.to_owned())]);
    let unreadable = Node { since: 0, leases: vec![Err("spec.podCIDR `x` is no range".into())] };
    assert_eq!(refused(VXLAN, &[("two", unreadable)])[0].1, "spec.podCIDR `x` is no range");
}

#[test]
fn of_two_that_overlap_the_older_one_is_reached_and_both_are_named() {
    let wide = Lease { subnet: range("10.244.2.0/23"), ..of(Mode::HostGw, 2) };
    let narrow = of(Mode::HostGw, 3);
    for (first, second) in [(5, 9), (9, 5)] {
        let nodes = [("wide", node(wide.clone(), first)), ("narrow", node(narrow.clone(), second))];
        let [(name, why)] = &refused(Mode::HostGw, &nodes)[..] else { panic!("one of them") };
        if first < second {
            assert_eq!(name, "narrow");
            assert_eq!(why, "its subnet 10.244.3.0/24 overlaps 10.244.2.0/23 of node wide, which is older");
        } else {
            assert_eq!(name, "wide");
            assert_eq!(why, "its subnet 10.244.2.0/23 overlaps 10.244.3.0/24 of node narrow, which is older");
        }
    }
}

#[test]
fn an_end_of_a_vxlan_that_goes_by_anothers_address_is_refused() {
    let end = |number, mac| Lease { backend: Backend::Vxlan { vni: 1, mac }, ..of(VXLAN, number) };
    let nodes = [("two", node(end(2, mac(7)), 5)), ("three", node(end(3, mac(7)), 9))];
    let why = "its VtepMAC 02:00:00:00:00:07 is that of node two, which is older";
    assert_eq!(refused(VXLAN, &nodes), [("three".to_owned(), why.to_owned())]);
    let why = "its VtepMAC 02:00:00:00:00:01 is this node's own";
    assert_eq!(refused(VXLAN, &[("two", node(end(2, mac(1)), 0))]), [("two".to_owned(), why.to_owned())]);
}

#[test]
fn an_address_of_pods_or_of_an_older_node_is_refused() {
    let at = |number, text: &str| Lease { public: address(text), ..of(Mode::HostGw, number) };
    let nodes = [
        ("two", node(at(2, "10.244.3.9"), 0)),
        ("three", node(at(3, "192.168.7.9"), 5)),
        ("four", node(at(4, "192.168.7.9"), 9)),
    ];
    let whys = [
        ("four", "its public address 192.168.7.9 is that of node three, which is older"),
        ("two", "its public address 10.244.3.9 is in the network of pods, 10.244.0.0/16"),
    ];
    assert_eq!(refused(Mode::HostGw, &nodes), whys.map(|(name, why)| (name.to_owned(), why.to_owned())));
}

#[test]
fn a_node_of_the_other_family_alone_is_nobodys_business() {
    let other = node(lease(Family::V6, Mode::HostGw, 2), 0);
    assert!(refused(Mode::HostGw, &[("two", other)]).is_empty());
}

#[test]
fn host_gw_is_a_route_and_vxlan_a_route_over_its_link_with_both_ends() {
    let of = |mode| {
        let two = node(of(mode, 2), 0);
        // On the other half of its network, which is behind a router.
        let far = node(of(mode, 200), 0);
        let admitted = admit(&network(Family::V4, mode), &place(Family::V4), [("two", &two), ("far", &far)]);
        compile(&network(Family::V4, mode), &place(Family::V4), &admitted)
    };
    let host = of(Mode::HostGw);
    let route = host.routes[&subnet(Family::V4, 2)];
    assert_eq!((route.via, route.link, route.onlink), (public(Family::V4, 2), LINK, false));
    assert!(host.link.is_none() && host.fdb.is_empty());

    let vxlan = of(VXLAN);
    let route = vxlan.routes[&subnet(Family::V4, 2)];
    assert_eq!((route.via, route.onlink), (address("10.244.2.0"), true));
    assert_eq!(vxlan.neighbours[&address("10.244.2.0")], mac(2));
    assert_eq!(vxlan.fdb[&mac(2)], public(Family::V4, 2));
    let (name, link) = vxlan.link.as_ref().expect("a link");
    assert_eq!((name.as_str(), link.vxlan.mtu, link.address), ("flannel.1", 1450, range("10.244.1.0/32")));

    let direct = of(DIRECT);
    assert_eq!(direct.routes[&subnet(Family::V4, 2)], host.routes[&subnet(Family::V4, 2)], "it is near");
    assert_eq!(direct.fdb.keys().collect::<Vec<_>>(), [&mac(200)], "only that one is wrapped");
}
