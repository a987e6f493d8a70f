//! Under which address a gateway is reached from outside.

use crate::world::{World, key, pod};
use causeway_core::vpc::exchange::{self, RecordTask};
use causeway_core::vpc::objects::{Eip, Subnet, VpcGateway};
use causeway_core::vpc::{Change, Event, compile};

#[test]
fn a_gateway_without_a_default_address_is_reached_by_its_oldest_floating_one() {
    let mut world = World::new();
    let declared = VpcGateway {
        vpc: None,
        lan: None,
        external_subnets: Vec::new(),
        no_default_eip: true,
        replicated: false,
    };
    world.state.apply(Event::VpcGateways(Change::Put("gw1".into(), declared)));
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "GatewayIncomplete");
    for (name, octet, created) in [("a-later", 78, 2), ("b-first", 77, 1)] {
        let (gateway, address) = ("gw1".parse().expect("name"), [172, 50, 16, octet].into());
        world.state.apply(Event::Eips(Change::Put(name.into(), Eip { gateway, address, created })));
    }
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
    let record = exchange::own_record(&world.state, &"gw1".parse().expect("name"));
    assert!(matches!(record, RecordTask::Create(object) if object.external_ip == "172.50.16.77"));
}

#[test]
fn of_several_addresses_outside_none_is_guessed_while_the_subnet_is_missing() {
    let mut world = World::new();
    let mut two = pod("gw1", "vpc-nat-gw-gw1-0", 254, 11);
    two.pod.uid = "u1".into();
    two.external.insert("other".into(), [172, 60, 0, 11].into());
    world.state.apply(Event::Pods(Change::Put(two.pod.key.clone(), two)));
    let declared = VpcGateway {
        vpc: None,
        lan: None,
        external_subnets: vec!["outside".into()],
        no_default_eip: false,
        replicated: false,
    };
    world.state.apply(Event::VpcGateways(Change::Put("gw1".into(), declared)));
    let outside = || Subnet { provider: Some("other".into()), vpc: None };
    world.state.apply(Event::Subnets(Change::Put("outside".into(), outside())));
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    let local = |world: &World| world.status("ns1/demo").and_then(|status| status.internal_ip);
    assert_eq!((world.reason("ns1/demo"), local(&world)), ("Up".into(), Some("172.60.0.11".into())));

    world.state.apply(Event::Subnets(Change::Gone("outside".into())));
    assert_eq!(world.reason("ns1/demo"), "GatewayIncomplete");
    let task = compile::gateway(&world.state, &"gw1".parse().expect("name")).expect("a pod");
    assert!(task.want.tunnels.is_empty() && task.want.frozen.contains(&key("ns1/demo")), "what it has stays");
    let record = exchange::own_record(&world.state, &"gw1".parse().expect("name"));
    assert!(!matches!(record, RecordTask::Create(_) | RecordTask::Update { .. }), "{record:?}");
}

#[test]
fn an_address_that_no_host_has_is_not_published_and_what_was_built_stays() {
    for address in ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255"] {
        let mut world = World::new();
        world.tunnel("ns1/demo", |_| {});
        world.visit("gw1");
        assert_eq!(world.reason("ns1/demo"), "Up");
        let mut moved = pod("gw1", "vpc-nat-gw-gw1-0", 254, 11);
        moved.pod.uid = "u1".into();
        moved.external.values_mut().for_each(|it| *it = address.parse().expect("an address"));
        world.state.apply(Event::Pods(Change::Put(moved.pod.key.clone(), moved)));
        assert_eq!(world.reason("ns1/demo"), "GatewayIncomplete", "{address}");
        let task = compile::gateway(&world.state, &"gw1".parse().expect("name")).expect("a pod");
        assert!(task.want.frozen.contains(&key("ns1/demo")), "what it has stays");
        let record = exchange::own_record(&world.state, &"gw1".parse().expect("name"));
        assert!(
            !matches!(record, RecordTask::Create(_) | RecordTask::Update { .. }),
            "{address}: {record:?}"
        );
    }
}

#[test]
fn an_address_that_both_ends_claim_turns_nothing() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.record("cluster2/gw1", "172.50.16.11", "242.1.0.0/16");
    assert_eq!(world.reason("ns1/demo"), "PeerInvalid");
    let task = compile::gateway(&world.state, &"gw1".parse().expect("name")).expect("a pod");
    assert!(task.want.frozen.contains(&key("ns1/demo")), "what it has stays");
}
