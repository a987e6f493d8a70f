//! How clusters learn each other's gateways.

use causeway_core::vpc::exchange::{self, Record, RecordTask};
use causeway_core::vpc::member::{Member, MembershipTask, membership};
use causeway_core::vpc::status::READY;
use causeway_core::vpc::{Change, Event};

use crate::world::{World, key};

#[test]
fn a_ready_gateway_is_published_and_a_restart_keeps_its_record() {
    let mut world = World::new();
    let gateway = "gw1".parse().expect("name");
    let RecordTask::Put(record, None) = exchange::own_record(&world.state, &gateway) else {
        panic!("a new record")
    };
    assert_eq!(record.key, key("kube-system/gw1-cluster1"));
    assert_eq!((record.external_ip.as_str(), record.globalnet.as_str()), ("172.50.16.11", "242.0.0.0/16"));
    assert_eq!(record.labels["localVpc"], "test-vpc-1");
    world.take_in(&record);
    assert_eq!(exchange::own_record(&world.state, &gateway), RecordTask::Nothing);
    world.state.apply(Event::Pods(Change::Reset(Default::default())));
    assert_eq!(exchange::own_record(&world.state, &gateway), RecordTask::Nothing, "it may come back");
    world.state.apply(Event::StatefulSets(Change::Reset(Default::default())));
    assert!(matches!(exchange::own_record(&world.state, &gateway), RecordTask::Delete(..)), "it is gone");
}

/// A record without an origin, such as whoever may write records in a namespace can make.
fn forged(namespace: &str, name: &str, gateway: &str, cluster: &str) -> Event {
    let record = Record {
        key: key(&format!("{namespace}/{name}")),
        resource_version: "1".into(),
        external_ip: "6.6.6.6".into(),
        globalnet: "242.66.0.0/16".into(),
        vpc: None,
        gateway: gateway.parse().ok(),
        cluster: cluster.parse().ok(),
        origin: None,
        origin_namespace: None,
        deleting: false,
    };
    Event::Records(Change::Put(record.key.clone(), record))
}

#[test]
fn a_record_elsewhere_neither_turns_a_tunnel_nor_is_told_to_others() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.state.apply(forged("a-team", "gw1-cluster2", "gw1", "cluster2"));
    world.visit("gw1");
    let remote = world.status("ns1/demo").expect("a status").remote_ip;
    assert_eq!(remote.as_deref(), Some("172.50.16.21"), "the one in kube-system counts");

    world.empty_broker();
    world.state.apply(forged("a-team", "gw1-cluster1", "gw1", "cluster1"));
    assert_eq!(exchange::export(&world.state, "gw1.cluster1"), RecordTask::Nothing, "it is not ours");

    world.state.apply(Event::Records(Change::Gone(key("kube-system/gw1-cluster2"))));
    let status = world.status("ns1/demo").expect("a status");
    let ready = status.conditions.get(READY).expect("it is set");
    assert_eq!(ready.reason, "PeerInvalid");
    assert!(ready.message.contains("a-team/gw1-cluster2"), "{}", ready.message);
}

#[test]
fn our_records_are_copied_to_the_broker_under_a_dotted_name() {
    let mut world = World::new();
    let gateway = "gw1".parse().expect("name");
    let RecordTask::Put(record, None) = exchange::own_record(&world.state, &gateway) else {
        panic!("a new record")
    };
    world.take_in(&record);
    assert_eq!(
        exchange::export(&world.state, "gw1.cluster1"),
        RecordTask::Nothing,
        "the broker was not seen yet"
    );
    world.empty_broker();
    let RecordTask::Put(copy, None) = exchange::export(&world.state, "gw1.cluster1") else {
        panic!("a copy")
    };
    assert_eq!(copy.key, key("submariner-k8s-broker/gw1.cluster1"));
    assert_eq!(copy.labels["submariner-io/clusterID"], "cluster1");
    assert_eq!(copy.labels["submariner-io/originatingNamespace"], "kube-system");
    assert_eq!(exchange::export(&world.state, "gw1.cluster2"), RecordTask::Nothing, "not ours");
}

#[test]
fn others_copies_come_home_with_a_dash_and_go_with_their_copy() {
    let mut world = World::new();
    let home = key("kube-system/gw7-cluster4");
    world.empty_broker();
    world.copy("cluster4/gw7", "172.50.16.41");
    let RecordTask::Put(record, None) = exchange::import(&world.state, &home) else { panic!("an import") };
    world.take_in(&record);
    assert_eq!(exchange::import(&world.state, &home), RecordTask::Nothing);
    world.empty_broker();
    assert!(matches!(exchange::import(&world.state, &home), RecordTask::Delete(..)));
}

#[test]
fn a_copy_under_our_id_is_never_brought_home() {
    let mut world = World::new();
    world.empty_broker();
    world.copy("cluster1/gw5", "6.6.6.6");
    assert_eq!(exchange::import(&world.state, &key("kube-system/gw5-cluster1")), RecordTask::Nothing);
}

#[test]
fn a_cluster_that_goes_by_our_id_is_named_and_nothing_is_fought_over() {
    let mut world = World::new();
    let gateway = "gw1".parse().expect("name");
    let RecordTask::Put(record, None) = exchange::own_record(&world.state, &gateway) else {
        panic!("a new record")
    };
    world.take_in(&record);
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.empty_broker();
    world.copy("cluster1/gw1", "6.6.6.6");
    let exported = |world: &World| exchange::export(&world.state, "gw1.cluster1");
    assert!(matches!(exported(&world), RecordTask::Put(..)), "a copy under our id is ours to correct");

    world.members(&[("cluster1", "ours"), ("cluster1", "theirs")]);
    assert_eq!(exported(&world), RecordTask::Nothing, "it is not ours alone");
    assert_eq!(exchange::export(&world.state, "gw9.cluster1"), RecordTask::Nothing);
    assert_eq!(world.reason("ns1/demo"), "ClusterIdTaken");
    let before = world.have("gw1");
    world.visit("gw1");
    assert_eq!(world.have("gw1"), before, "what was built stays");

    world.members(&[("cluster1", "ours")]);
    assert!(matches!(exported(&world), RecordTask::Put(..)), "the other claim ran out");
}

#[test]
fn nothing_is_exported_before_our_claim_is_seen_among_the_others() {
    let mut world = World::new();
    let gateway = "gw1".parse().expect("name");
    let RecordTask::Put(record, None) = exchange::own_record(&world.state, &gateway) else {
        panic!("a new record")
    };
    world.take_in(&record);
    world.empty_broker();
    world.members(&[("cluster2", "theirs")]);
    let exported = |world: &World| exchange::export(&world.state, "gw1.cluster1");
    assert_eq!(exported(&world), RecordTask::Nothing);
    let us = Member { cluster: "cluster1".parse().expect("id"), uid: "ours".into() };
    let claim = MembershipTask { claim: Some(us), stale: Vec::new() };
    assert_eq!(membership(&world.state), claim);
    world.members(&[("cluster1", "ours"), ("formerly", "ours")]);
    assert!(matches!(exported(&world), RecordTask::Put(..)));
    assert_eq!(
        membership(&world.state),
        MembershipTask { stale: vec!["causeway.formerly.ours".into()], ..claim.clone() }
    );
    let (name, us) = (claim.claim.as_ref().expect("ours").name(), claim.claim.clone().expect("ours"));
    let renewed = world.state.apply(Event::Members(Change::Put(name, us)));
    assert_eq!(renewed, [].into(), "a renewal is no reason to renew");
    world.state.apply(Event::NoMembers);
    assert!(matches!(exported(&world), RecordTask::Put(..)), "a broker without claims is used all the same");
}
