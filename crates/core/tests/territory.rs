//! No claim of one tunnel changes where another's packets go, whatever peers and tenants say.

use std::net::Ipv4Addr;

use causeway_core::names::{HostAddr, ObjectKey};
use causeway_core::vpc::outcome::Trouble;
use causeway_core::vpc::{
    EgressRange, Established, Have, Inbound, Link, Plan, Problem, Route, TunnelKind, TunnelWant, Want, model,
    plan,
};
use proptest::prelude::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns1", name).expect("a key")
}

/// The n-th tunnel of a gateway, to the n-th cluster.
fn tunnel(name: &str, n: u8) -> TunnelWant {
    TunnelWant {
        owner: key(name),
        kind: TunnelKind::Vxlan { vni: n.into(), port: 4789 },
        local: [172, 50, 16, 11].into(),
        remote: [172, 50, 16, 11 + 10 * n].into(),
        address: format!("10.100.{n}.1/24").parse().expect("an address"),
        remote_range: format!("242.{n}.0.0/16").parse().expect("a range"),
        egress: EgressRange { first: [242, 0, 0, 1].into(), last: [242, 0, 0, 8].into() },
        own: "242.0.0.0/16".parse().expect("a range"),
        seat: Default::default(),
    }
}

fn want(tunnels: &[TunnelWant]) -> Want {
    let named = |tunnel: &TunnelWant| (tunnel.owner.name().parse().expect("a name"), tunnel.clone());
    let inbound = Inbound { range: "242.0.0.0/16".parse().expect("a range"), via: [10, 0, 1, 1].into() };
    Want { tunnels: tunnels.iter().map(named).collect(), inbound: Some(inbound), ..Want::default() }
}

/// A gateway as kube-ovn makes it.
fn gateway() -> Have {
    let link = |address: &str| Link {
        up: true,
        mtu: 1500,
        addresses: vec![address.parse().expect("an address")],
        ..Link::default()
    };
    let links = [("eth0", "10.0.1.254/24"), ("net1", "172.50.16.11/24")];
    let connected = |(dev, address): &(&str, &str)| Route {
        range: address.parse::<HostAddr>().expect("an address").network(),
        via: None,
        dev: Some((*dev).into()),
        protocol: 2,
        metric: 0,
    };
    Have {
        routes: links.iter().map(connected).collect(),
        links: links.map(|(name, address)| (name.to_owned(), link(address))).into(),
        ..Have::default()
    }
}

/// What an object says that it was built with.
fn said(tunnel: TunnelWant) -> (ObjectKey, Established) {
    let (range, peer, address) = (Some(tunnel.remote_range), Some(tunnel.remote), Some(tunnel.address));
    (tunnel.owner, Established { range, peer, address })
}

fn carried_out(plan: &Plan, have: &Have) -> Have {
    let mut have = have.clone();
    for step in &plan.steps {
        model::apply(&mut have, &step.action).expect("it works");
    }
    have
}

fn built(want: &Want) -> Have {
    let made = carried_out(&plan(want, &gateway()), &gateway());
    assert_eq!(plan(want, &made), Plan::default());
    made
}

/// By which link packets for an address leave: the longest prefix wins.
fn way(have: &Have, to: Ipv4Addr) -> Option<&str> {
    let routes = have.routes.iter().map(|route| (route.range, route.dev.as_deref()));
    // The kernel adds one for each address.
    let connected = have
        .links
        .iter()
        .flat_map(|(name, link)| link.addresses.iter().map(|it| (it.network(), Some(name.as_str()))));
    let all = routes.chain(connected).filter(|(range, _)| range.contains(to));
    all.max_by_key(|(range, _)| range.prefix())?.1
}

fn why(plan: &Plan, name: &str) -> Option<String> {
    plan.problems.get(&key(name)).cloned().map(|problem| Trouble::InTheWay(problem).to_string())
}

type Edit = fn(&mut TunnelWant, &str);
const RANGE: Edit = |tunnel, text| tunnel.remote_range = text.parse().expect("a range");
const PEER: Edit = |tunnel, text| tunnel.remote = text.parse().expect("an address");
const INNER: Edit = |tunnel, text| tunnel.address = text.parse().expect("an address");

/// What a peer's record or a tenant's spec may say, and what it gets as an answer.
fn claims() -> Vec<(Edit, &'static str, &'static str)> {
    vec![
        (RANGE, "242.1.1.0/24", "the remote range 242.1.0.0/16 of tunnel ns1/demo"),
        (RANGE, "242.1.1.20/32", "the remote range 242.1.0.0/16 of tunnel ns1/demo"),
        (RANGE, "240.0.0.0/4", "broadcast"),
        (RANGE, "172.50.16.21/32", "the peer's address 172.50.16.21/32 of tunnel ns1/demo"),
        (RANGE, "172.50.16.0/24", "the gateway's own address 172.50.16.11"),
        (RANGE, "10.100.1.2/32", "the net of interfaceAddr 10.100.1.0/24 of tunnel ns1/demo"),
        (RANGE, "10.0.1.10/32", "a route to"),
        (RANGE, "127.0.0.0/8", "loopback"),
        (RANGE, "0.0.0.0/0", "the addresses of nobody"),
        (PEER, "127.0.0.1", "loopback"),
        (PEER, "255.255.255.255", "broadcast"),
        (PEER, "224.0.0.1", "multicast"),
        (PEER, "172.50.16.11", "the gateway's own address"),
        (PEER, "10.0.1.10", "10.0.1.0/24 of the gateway's link eth0"),
        (PEER, "242.1.1.20", "the remote range 242.1.0.0/16 of tunnel ns1/demo"),
        (PEER, "242.2.1.20", "242.2.1.20/32 of tunnel ns1/evil"),
        (PEER, "242.0.0.6", "this cluster's own range"),
        (INNER, "172.50.16.21/32", "the gateway's link net1"),
        (INNER, "172.50.16.20/30", "the gateway's link net1"),
        (INNER, "10.0.1.10/32", "10.0.1.0/24 of the gateway's link eth0"),
        (INNER, "10.0.1.1/28", "10.0.1.0/24 of the gateway's link eth0"),
        (INNER, "242.1.1.20/32", "the remote range 242.1.0.0/16 of tunnel ns1/demo"),
        (INNER, "242.0.0.1/32", "this cluster's own range"),
        (INNER, "127.0.0.1/8", "loopback"),
        (INNER, "224.0.0.1/24", "multicast"),
    ]
}

#[test]
fn a_claim_that_is_anothers_is_refused_by_name_and_the_other_goes_on() {
    for (edit, text, with) in claims() {
        let mut evil = tunnel("evil", 2);
        edit(&mut evil, text);
        let want = want(&[tunnel("demo", 1), evil]);
        // Beside one that is up.
        let before = built(&self::want(&[tunnel("demo", 1)]));
        let planned = plan(&want, &before);
        let said = why(&planned, "evil").unwrap_or_else(|| panic!("{text} is taken"));
        assert!(said.contains(with) || said.contains("a route to"), "{text}: {said}");
        assert_eq!(why(&planned, "demo"), None, "{text}");
        let after = carried_out(&planned, &before);
        assert_eq!(way(&after, [242, 1, 1, 20].into()), Some("demo"), "{text}");
        assert_eq!(way(&after, [172, 50, 16, 21].into()), Some("net1"), "{text}");
        assert_eq!(way(&after, [10, 0, 1, 10].into()), Some("eth0"), "{text}");
        assert!(!after.links.contains_key("evil"), "{text}");
    }
}

#[test]
fn a_claim_that_turns_bad_leaves_what_was_built_on_the_good_one() {
    let good = want(&[tunnel("demo", 1), tunnel("evil", 2)]);
    let before = built(&good);
    for (edit, text, _) in claims() {
        let mut evil = tunnel("evil", 2);
        edit(&mut evil, text);
        let mut bad = want(&[tunnel("demo", 1), evil]);
        bad.established = [tunnel("demo", 1), tunnel("evil", 2)].map(said).into();
        let planned = plan(&bad, &before);
        assert!(why(&planned, "evil").is_some() && why(&planned, "demo").is_none(), "{text}");
        assert_eq!(carried_out(&planned, &before), before, "{text}");
    }
}

#[test]
fn of_two_that_overlap_and_are_not_in_use_none_is_taken_and_the_object_tells_after_a_restart() {
    let mut two = tunnel("two", 2);
    RANGE(&mut two, "242.1.7.0/24");
    let mut want = want(&[tunnel("one", 1), two]);
    let planned = plan(&want, &gateway());
    assert!(why(&planned, "one").is_some() && why(&planned, "two").is_some());
    assert!(carried_out(&planned, &gateway()).links.len() == 2, "nothing is built");
    // The gateway was replaced, and holds nothing; the object of one says what it was.
    want.established = [said(tunnel("one", 1))].into();
    let planned = plan(&want, &gateway());
    assert_eq!((why(&planned, "one"), why(&planned, "two").is_some()), (None, true));
    let after = carried_out(&planned, &gateway());
    assert_eq!(way(&after, [242, 1, 7, 20].into()), Some("one"));
}

#[test]
fn a_claim_that_is_refused_is_in_nobodys_way() {
    let mut evil = tunnel("evil", 2);
    INNER(&mut evil, "1.2.3.4/0");
    let before = built(&want(&[tunnel("demo", 1)]));
    // A newcomer is made, and one whose peer has moved goes along.
    let mut moved = tunnel("demo", 1);
    PEER(&mut moved, "172.50.16.99");
    let mut all = want(&[moved, evil, tunnel("new", 3)]);
    all.established = [said(tunnel("demo", 1))].into();
    let planned = plan(&all, &before);
    assert_eq!((why(&planned, "demo"), why(&planned, "new")), (None, None));
    assert!(why(&planned, "evil").is_some());
    let after = carried_out(&planned, &before);
    assert_eq!(way(&after, [242, 3, 0, 20].into()), Some("new"));
    assert_eq!(way(&after, [242, 1, 0, 20].into()), Some("demo"));
}

#[test]
fn what_stays_as_it_is_keeps_what_it_has() {
    let before = built(&want(&[tunnel("demo", 1)]));
    for (edit, text) in [(INNER, "242.1.1.1/24"), (RANGE, "172.50.16.21/32"), (RANGE, "242.1.0.0/17")] {
        let mut evil = tunnel("evil", 2);
        edit(&mut evil, text);
        // Its peer's record is gone.
        let mut all = want(&[evil]);
        all.frozen.insert(key("demo"));
        let planned = plan(&all, &before);
        assert!(why(&planned, "evil").is_some_and(|why| why.contains("link demo")), "{text}: {planned:?}");
        assert_eq!(way(&carried_out(&planned, &before), [242, 1, 1, 20].into()), Some("demo"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// What works goes on, whatever others come to claim: by the longest prefix, not by the code that decides.
    #[test]
    fn whatever_is_claimed_packets_of_what_is_in_use_go_their_way(
        edits in prop::collection::vec((0..5_u8, 0..3_u8, 0..8_u8, 0..4_u8, 8..33_u8), 0..8),
    ) {
        let used: Vec<TunnelWant> = (1..4).map(|n| tunnel(&format!("used{n}"), n)).collect();
        let before = built(&want(&used));
        let mut all = used.clone();
        for (number, (base, part, third, fourth, prefix)) in edits.into_iter().enumerate() {
            let bases = [[242, 1], [242, 2], [172, 50], [10, 100], [10, 0]];
            let [a, b] = bases[usize::from(base)];
            let octets = Ipv4Addr::new(a, b, if base == 2 { 16 } else { third % 4 }, [1, 11, 20, 21][usize::from(fourth)]);
            let mut new = tunnel(&format!("new{number}"), 4 + u8::try_from(number).expect("few"));
            match part {
                0 => new.remote_range = format!("{octets}/{prefix}").parse().expect("a range"),
                1 => new.remote = octets,
                _ => new.address = format!("{octets}/{prefix}").parse().expect("an address"),
            }
            // Two of the very same range are decided before.
            if all.iter().all(|known| known.remote_range != new.remote_range) {
                all.push(new);
            }
        }
        let want = want(&all);
        let planned = plan(&want, &before);
        let after = carried_out(&planned, &before);
        for tunnel in &used {
            prop_assert!(!planned.problems.contains_key(&tunnel.owner), "{:?}", planned.problems);
            let name = tunnel.owner.name();
            for third in 0..8 {
                let [a, b, ..] = tunnel.remote_range_octets();
                prop_assert_eq!(way(&after, Ipv4Addr::new(a, b, third, 20)), Some(name));
            }
            prop_assert_eq!(way(&after, tunnel.remote), Some("net1"));
        }
        // Nothing of what is refused is there.
        for refused in planned.problems.keys() {
            prop_assert!(!after.links.contains_key(refused.name()));
        }
        prop_assert_eq!(plan(&want, &after).steps, []);
    }
}

trait Octets {
    fn remote_range_octets(&self) -> [u8; 4];
}

impl Octets for TunnelWant {
    fn remote_range_octets(&self) -> [u8; 4] {
        let text = self.remote_range.to_string();
        let (address, _) = text.split_once('/').expect("a prefix");
        address.parse::<Ipv4Addr>().expect("an address").octets()
    }
}

#[test]
fn the_words_name_both() {
    let problem = Problem::Overlap { what: "the remote range 242.1.1.0/24".into(), with: "x".into() };
    let said = Trouble::InTheWay(problem).to_string();
    assert!(said.starts_with("the remote range 242.1.1.0/24 shares addresses with x"), "{said}");
}
