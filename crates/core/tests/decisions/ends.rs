//! What is published of tunnels' ends, and what is said of how they fit together.

use causeway_core::vpc::ends::{End, PEER_AGREES, Says};
use causeway_core::vpc::objects::{Far, Peer, Tunnel};
use causeway_core::vpc::published::{EndObject, EndTask, publish};
use causeway_core::vpc::{Change, Event, Given, Scope, TunnelKind};

use crate::world::{VPC, World, key, set};

const NAME: &str = "ns1.demo.cluster1";

fn peer(cluster: &str, gateway: &str) -> Far {
    let (cluster, gateway) = (cluster.parse().expect("an id"), gateway.parse().expect("a name"));
    Far::Gateway(Peer { cluster, gateway })
}

fn vxlan(vni: u32) -> TunnelKind {
    TunnelKind::Vxlan { vni, port: 4789 }
}

/// An end of the tunnel `ns1/name` of cluster2's gw1, as it is published for us.
fn theirs(name: &str, vni: u32) -> End {
    End {
        name: format!("ns1.{name}.cluster2"),
        resource_version: "1".into(),
        deleting: false,
        on: peer("cluster2", "gw1"),
        to: peer("cluster1", "gw1"),
        tunnel: key(&format!("ns1/{name}")),
        says: Says { kind: vxlan(vni), mtu: None, address: "10.100.0.2/24".parse().expect("an address") },
    }
}

/// What a watch shows of an end that was written.
fn seen(object: &EndObject) -> End {
    let EndObject { name, on, to, tunnel, says, .. } = object.clone();
    End { name, resource_version: "7".into(), deleting: false, on, to, tunnel, says }
}

fn lists_ours(world: &mut World, ends: &[End]) {
    let ends = ends.iter().map(|end| (end.name.clone(), end.clone())).collect();
    world.state.apply(Event::OwnEnds(Change::Reset(ends)));
}

fn lists_theirs(world: &mut World, ends: &[End]) {
    let ends = ends.iter().map(|end| (end.name.clone(), end.clone())).collect();
    world.state.apply(Event::PeerEnds(Change::Reset(ends)));
}

fn put(world: &mut World, end: End) {
    world.state.apply(Event::PeerEnds(Change::Put(end.name.clone(), end)));
}

/// Status, reason and message of the condition.
fn agrees(world: &World, tunnel: &str) -> Option<(String, String, String)> {
    let status = world.status(tunnel).expect("a status");
    let said = status.conditions.get(PEER_AGREES)?;
    Some((said.status.to_string(), said.reason.clone(), said.message.clone()))
}

fn is(world: &World, tunnel: &str, status: &str, reason: &str) {
    let (now, why, message) = agrees(world, tunnel).unwrap_or_default();
    assert_eq!((now.as_str(), why.as_str()), (status, reason), "{tunnel}: {message}");
}

#[test]
fn an_end_is_published_as_it_is_declared_follows_its_tunnel_and_goes_with_it() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    assert_eq!(publish(&world.state, NAME), EndTask::Nothing, "the broker's are not listed");
    lists_ours(&mut world, &[]);
    let EndTask::Create(end) = publish(&world.state, NAME) else { panic!("a new end") };
    assert_eq!((&end.on, &end.to), (&peer("cluster1", "gw1"), &peer("cluster2", "gw1")));
    assert_eq!((end.says.kind, end.says.mtu, end.owner.as_str()), (vxlan(100), None, "ours"));
    lists_ours(&mut world, &[seen(&end)]);
    assert_eq!(publish(&world.state, NAME), EndTask::Nothing);

    world.visit("gw1");
    let EndTask::Update(end, version) = publish(&world.state, NAME) else {
        panic!("the link's MTU is known")
    };
    assert_eq!((end.says.mtu.is_some(), version.as_str()), (true, "7"));
    lists_ours(&mut world, &[seen(&end)]);
    world.state.apply(Event::TermEnded);
    assert_eq!(publish(&world.state, NAME), EndTask::Nothing, "what was said before stands");

    let touched = world.tunnel("ns1/demo", |tunnel| set(tunnel, vxlan(101), "cluster2/gw1"));
    assert!(touched.contains(&Scope::End(NAME.into())), "{touched:?}");
    assert!(matches!(publish(&world.state, NAME), EndTask::Update(..)));
    world.tunnel("ns1/demo", |tunnel| tunnel.spec = Err("no sense".into()));
    assert_eq!(publish(&world.state, NAME), EndTask::Nothing, "it stays while the tunnel makes no sense");
    world.tunnel("ns1/demo", |tunnel: &mut Tunnel| tunnel.deleting = true);
    assert!(matches!(publish(&world.state, NAME), EndTask::Delete(..)));
}

#[test]
fn what_was_published_under_a_former_id_goes_and_nothing_is_while_the_id_is_contested() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    lists_ours(&mut world, &[]);
    let EndTask::Create(end) = publish(&world.state, NAME) else { panic!("a new end") };
    lists_ours(&mut world, &[seen(&end)]);
    world.members(&[("cluster1", "ours"), ("cluster1", "theirs")]);
    world.delete("ns1/demo");
    assert_eq!(publish(&world.state, NAME), EndTask::Nothing, "whose it is is not clear");
    world.members(&[("renamed", "ours")]);
    world.state.apply(Event::Identity(Some("renamed".parse())));
    assert!(matches!(publish(&world.state, NAME), EndTask::Delete(..)));
}

#[test]
fn both_ends_are_compared_and_a_peer_without_any_is_not_judged() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |tunnel| set(tunnel, vxlan(101), "cluster2/gw1"));
    world.visit("gw1");
    lists_theirs(&mut world, &[]);
    assert_eq!(agrees(&world, "ns1/demo"), None, "it may be another operator");
    put(&mut world, theirs("demo", 100));
    let (status, reason, message) = agrees(&world, "ns1/demo").expect("it is said");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "PeerMismatch"));
    assert_eq!(message, "this end is VXLAN 101, cluster2/gw1 says 100 (TunnelEnd ns1.demo.cluster2)");
    put(&mut world, theirs("demo", 101));
    is(&world, "ns1/demo", "True", "Agreed");
    put(&mut world, End { on: peer("cluster2", "gw2"), ..theirs("demo", 101) });
    is(&world, "ns1/demo", "Unknown", "NotSaid");
    world.state.apply(Event::NoEnds);
    assert_eq!(agrees(&world, "ns1/demo"), None);
}

#[test]
fn what_was_said_stands_while_the_broker_has_not_been_seen() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |tunnel| {
        set(tunnel, vxlan(101), "cluster2/gw1");
        tunnel.status.conditions.set(PEER_AGREES, true, "Agreed", "as ever".into(), 1);
    });
    world.visit("gw1");
    is(&world, "ns1/demo", "True", "Agreed");
    put(&mut world, theirs("demo", 100));
    is(&world, "ns1/demo", "True", "Agreed");
    lists_theirs(&mut world, &[theirs("demo", 100)]);
    is(&world, "ns1/demo", "False", "PeerMismatch");
    world.state.apply(Event::Joining("elsewhere".into()));
    is(&world, "ns1/demo", "True", "Agreed");
    lists_theirs(&mut world, &[]);
    assert_eq!(agrees(&world, "ns1/demo"), None);
}

#[test]
fn several_tunnels_between_two_gateways_are_told_apart() {
    let mut world = World::new();
    for (name, vni) in [("ns1/one", 101), ("ns1/two", 102)] {
        world.tunnel(name, |tunnel| set(tunnel, vxlan(vni), "cluster2/gw1"));
    }
    world.visit("gw1");
    lists_theirs(&mut world, &[theirs("two", 101)]);
    is(&world, "ns1/one", "True", "Agreed");
    is(&world, "ns1/two", "Unknown", "NotSaid");
    put(&mut world, theirs("other", 103));
    is(&world, "ns1/two", "False", "PeerMismatch");
    // The first goes, and what it was compared with is left for the second, whose name it has.
    world.delete("ns1/one");
    world.visit("gw1");
    let (_, _, message) = agrees(&world, "ns1/two").expect("it is said");
    assert!(message.contains("VXLAN 102, cluster2/gw1 says 101"), "{message}");
}

#[test]
fn an_end_under_another_name_than_its_cluster_gives_it_counts_for_nothing() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |tunnel| set(tunnel, vxlan(101), "cluster2/gw1"));
    world.visit("gw1");
    lists_theirs(&mut world, &[End { name: "aaa".into(), ..theirs("demo", 101) }]);
    assert_eq!(agrees(&world, "ns1/demo"), None);
    put(&mut world, theirs("demo", 100));
    is(&world, "ns1/demo", "False", "PeerMismatch");
}

#[test]
fn several_that_may_be_the_peers_end_are_all_compared_and_named() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |tunnel| set(tunnel, vxlan(101), "cluster2/gw1"));
    world.visit("gw1");
    lists_theirs(&mut world, &[theirs("theirs", 100)]);
    is(&world, "ns1/demo", "False", "PeerMismatch");
    for forged in [theirs("a", 101), theirs("demo", 101)] {
        put(&mut world, forged.clone());
        is(&world, "ns1/demo", "Unknown", "SeveralEnds");
        let (_, _, message) = agrees(&world, "ns1/demo").expect("it is said");
        for named in [&forged.name, "says 100 (TunnelEnd ns1.theirs.cluster2)"] {
            assert!(message.contains(named), "{message}");
        }
        world.state.apply(Event::PeerEnds(Change::Gone(forged.name)));
    }
    put(&mut world, theirs("a", 55));
    let (_, reason, message) = agrees(&world, "ns1/demo").expect("it is said");
    assert_eq!(reason, "PeerMismatch");
    assert!(message.contains("ns1.a.cluster2") && message.contains("ns1.theirs.cluster2"), "{message}");
}

#[test]
fn no_more_ends_of_one_cluster_count_than_records_and_nobody_else_has_fewer() {
    let mut world = World::given(Given { records_per_member: Some(3), ..Given::default() });
    world.tunnel("ns1/demo", |tunnel| set(tunnel, vxlan(101), "cluster2/gw1"));
    world.tunnel("ns1/other", |tunnel| set(tunnel, vxlan(7), "cluster3/gw1"));
    world.visit("gw1");
    let mut other = theirs("other", 7);
    (other.name, other.on) = ("ns1.other.cluster3".into(), peer("cluster3", "gw1"));
    lists_theirs(&mut world, &[other, theirs("demo", 101)]);
    is(&world, "ns1/demo", "True", "Agreed");
    for number in 0..20 {
        put(&mut world, theirs(&format!("a{number}"), 200 + number));
    }
    is(&world, "ns1/other", "True", "Agreed");
    is(&world, "ns1/demo", "Unknown", "SeveralEnds");
    assert_eq!(world.state.ends_left(), 18);
    for number in 0..20 {
        world.state.apply(Event::PeerEnds(Change::Gone(format!("ns1.a{number}.cluster2"))));
    }
    is(&world, "ns1/demo", "True", "Agreed");
    assert_eq!(world.state.ends_left(), 0);
}

#[test]
fn ends_by_vpc_are_published_and_compared_between_vpcs() {
    let mut world = World::new();
    world.vpc_tunnel("ns1/demo");
    world.settle();
    lists_ours(&mut world, &[]);
    let EndTask::Create(end) = publish(&world.state, NAME) else { panic!("a new end") };
    let vpc = |cluster: &str| Far::Vpc { cluster: cluster.parse().expect("an id"), vpc: VPC.into() };
    assert_eq!((&end.on, &end.to), (&vpc("cluster1"), &vpc("cluster2")));
    world.visit("gw1");
    world.visit("gw2");
    // One between gateways of the same clusters is another tunnel's.
    lists_theirs(&mut world, &[theirs("other", 100)]);
    is(&world, "ns1/demo", "Unknown", "NotSaid");
    let by_vpc = End { on: vpc("cluster2"), to: vpc("cluster1"), ..theirs("demo", 101) };
    put(&mut world, by_vpc.clone());
    is(&world, "ns1/demo", "False", "PeerMismatch");
    let (.., message) = agrees(&world, "ns1/demo").expect("it is said");
    assert_eq!(message, "this end is VXLAN 100, cluster2/test-vpc-1 says 101 (TunnelEnd ns1.demo.cluster2)");
    put(&mut world, End { says: theirs("demo", 100).says, ..by_vpc });
    is(&world, "ns1/demo", "True", "Agreed");
}

#[test]
fn the_mtu_of_an_end_by_vpc_is_that_of_the_main_gateway() {
    let mut world = World::new();
    world.vpc_tunnel("ns1/demo");
    world.settle();
    lists_ours(&mut world, &[]);
    world.visit("gw2");
    let EndTask::Create(end) = publish(&world.state, NAME) else { panic!("a new end") };
    assert_eq!(end.says.mtu, None, "the standby's is not asked for");
    world.visit("gw1");
    let EndTask::Create(end) = publish(&world.state, NAME) else { panic!("a new end") };
    assert!(end.says.mtu.is_some());
}
