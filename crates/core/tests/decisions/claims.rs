//! Who claims which addresses, and which tunnels may be built because of it.

use crate::world::World;
use causeway_core::vpc::objects::Vpc;
use causeway_core::vpc::status::LAST_KNOWN;
use causeway_core::vpc::{Change, Event, Given};

#[test]
fn of_two_clusters_that_claim_the_same_addresses_none_is_believed_and_the_one_in_use_stands() {
    for range in ["242.1.0.0/16", "242.1.7.0/24", "242.0.0.0/7"] {
        let mut world = World::new();
        world.record("cluster9/gw1", "172.50.16.91", range);
        world.tunnel("ns1/demo", |_| {});
        assert_eq!(world.reason("ns1/demo"), "ClustersOverlap", "{range}");
        world.forget_record("kube-system/gw1-cluster9");
        world.visit("gw1");
        assert_eq!(world.reason("ns1/demo"), "Up", "{range}");

        world.write("ns1/demo");
        world.record("cluster9/gw1", "172.50.16.91", range);
        world.visit("gw1");
        assert_eq!(world.reason("ns1/demo"), "Up", "it is in use: {range}");
    }
}

#[test]
fn a_claim_that_nobody_may_make_denies_nobody_theirs() {
    let mut world = World::new();
    world.record("cluster9/gw1", "172.50.16.91", "0.0.0.0/0");
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
    let within = Some("242.0.0.0/8".parse().expect("range"));
    let mut held = World::given(Given { within, ..Given::default() });
    held.record("cluster9/gw1", "172.50.16.91", "240.0.0.0/5");
    held.tunnel("ns1/demo", |_| {});
    held.visit("gw1");
    assert_eq!(held.reason("ns1/demo"), "Up");
}

#[test]
fn what_submariner_says_of_a_cluster_is_a_claim_too() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    let claim =
        |range: &str| Event::Globalnets(Change::Put("cluster9".into(), range.parse().expect("range")));
    world.state.apply(claim("242.1.128.0/17"));
    assert_eq!(world.reason("ns1/demo"), "ClustersOverlap");
    world.state.apply(claim("242.9.0.0/16"));
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
}

#[test]
fn a_claim_that_became_bad_leaves_what_was_built_as_it_was_and_says_so() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.write("ns1/demo");
    let before = world.want("gw1").tunnels;
    world.record("cluster2/gw1", "172.50.16.99", "242.2.3.0/24");
    assert_eq!(world.want("gw1").tunnels, before, "cluster3 has that");
    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    let condition = status.conditions.get(LAST_KNOWN).expect("it is said");
    assert_eq!(condition.reason, "ClustersOverlap");
    assert!(
        condition.message.contains("cluster2") && condition.message.contains("cluster3"),
        "{condition:?}"
    );
}

#[test]
fn ranges_may_have_to_lie_in_one_ours_too() {
    let with = |within: &str| {
        let given = Given { within: Some(within.parse().expect("range")), ..Given::default() };
        let mut world = World::given(given);
        world.tunnel("ns1/demo", |_| {});
        world.visit("gw1");
        world.reason("ns1/demo")
    };
    assert_eq!(with("242.0.0.0/8"), "Up");
    assert_eq!(with("242.0.0.0/16"), "PeerInvalid");
    assert_eq!(with("242.1.0.0/16"), "ClusterIncomplete");
}

#[test]
fn a_gateway_may_be_for_the_namespaces_of_its_vpc_only() {
    let given = || Given { restrict_namespaces: true, ..Given::default() };
    let mut world = World::given(given());
    world.tunnel("ns1/demo", |_| {});
    world.tunnel("ns2/other", |tunnel| {
        let spec = tunnel.spec.as_mut().expect("valid");
        spec.kind = causeway_core::vpc::TunnelKind::Vxlan { vni: 7, port: 4789 };
    });
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
    assert_eq!(world.reason("ns2/other"), "NamespaceNotAllowed");
    world.state.apply(Event::Vpcs(Change::Put("test-vpc-1".into(), Vpc::default())));
    assert_ne!(world.reason("ns2/other"), "NamespaceNotAllowed", "a Vpc that names none is for all");
    world.state.apply(Event::Vpcs(Change::Gone("test-vpc-1".into())));
    assert_eq!(world.reason("ns2/other"), "GatewayIncomplete");
    assert!(world.want("gw1").frozen.contains(&"ns1/demo".parse().expect("a key")), "what it has stays");

    let mut open = World::new();
    open.tunnel("ns2/other", |_| {});
    open.visit("gw1");
    assert_eq!(open.reason("ns2/other"), "Up", "by default manifests of any namespace count");
}
