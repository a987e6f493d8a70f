//! How clusters learn each other's gateways.

use causeway_core::vpc::exchange::{self, Record, RecordTask};
use causeway_core::vpc::member::{Member, MembershipTask, Renewal, membership};
use causeway_core::vpc::objects::Workload;
use causeway_core::vpc::status::READY;
use causeway_core::vpc::{Change, Event, Given, Scope, TunnelKind};

use crate::world::{World, key, set};

#[test]
fn a_ready_gateway_is_published_and_a_restart_keeps_its_record() {
    let mut world = World::new();
    let gateway = "gw1".parse().expect("name");
    let RecordTask::Create(record) = exchange::own_record(&world.state, &gateway) else {
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
        unreadable: None,
        lan: None,
        moving: Vec::new(),
        switched: None,
        switched_from: None,
    };
    Event::Records(Change::Put(record.key.clone(), record))
}

#[test]
fn a_record_elsewhere_neither_turns_a_tunnel_nor_is_exported() {
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
    let RecordTask::Create(record) = exchange::own_record(&world.state, &gateway) else {
        panic!("a new record")
    };
    world.take_in(&record);
    assert_eq!(
        exchange::export(&world.state, "gw1.cluster1"),
        RecordTask::Nothing,
        "the broker was not seen yet"
    );
    world.empty_broker();
    let RecordTask::Create(copy) = exchange::export(&world.state, "gw1.cluster1") else { panic!("a copy") };
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
    let RecordTask::Create(record) = exchange::import(&world.state, &home) else { panic!("an import") };
    world.take_in(&record);
    assert_eq!(exchange::import(&world.state, &home), RecordTask::Nothing);
    world.empty_broker();
    assert!(matches!(exchange::import(&world.state, &home), RecordTask::Delete(..)));
}

#[test]
fn a_copy_that_names_another_namespace_is_brought_nowhere() {
    let mut world = World::new();
    world.empty_broker();
    world.copy_from("a-team", "cluster4/gw7", "172.50.16.41");
    for home in ["a-team/gw7-cluster4", "kube-system/gw7-cluster4"] {
        assert_eq!(exchange::import(&world.state, &key(home)), RecordTask::Nothing, "{home}");
    }
    // Nor is what somebody else brought there taken away.
    let Event::Records(Change::Put(there, mut record)) = forged("a-team", "gw8-cluster4", "gw8", "cluster4")
    else {
        panic!("a record")
    };
    record.origin.clone_from(&record.cluster);
    world.state.apply(Event::Records(Change::Put(there, record)));
    assert_eq!(exchange::import(&world.state, &key("a-team/gw8-cluster4")), RecordTask::Nothing);
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
    let RecordTask::Create(record) = exchange::own_record(&world.state, &gateway) else {
        panic!("a new record")
    };
    world.take_in(&record);
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.empty_broker();
    world.copy("cluster1/gw1", "6.6.6.6");
    let exported = |world: &World| exchange::export(&world.state, "gw1.cluster1");
    assert!(matches!(exported(&world), RecordTask::Update { .. }), "a copy under our id is ours to correct");

    world.members(&[("cluster1", "ours"), ("cluster1", "theirs")]);
    assert_eq!(exported(&world), RecordTask::Nothing, "it is not ours alone");
    assert_eq!(exchange::export(&world.state, "gw9.cluster1"), RecordTask::Nothing);
    assert_eq!(world.reason("ns1/demo"), "ClusterIdTaken");
    let before = world.have("gw1");
    world.visit("gw1");
    assert_eq!(world.have("gw1"), before, "what was built stays");

    world.members(&[("cluster1", "ours")]);
    assert!(matches!(exported(&world), RecordTask::Update { .. }), "the other claim ran out");
}

#[test]
fn a_wrong_id_for_a_moment_turns_nobodys_record() {
    let mut world = World::new();
    let gw1 = || "gw1".parse().expect("a name");
    world.empty_broker();
    world.copy("cluster2/gw1", "172.50.16.21");
    let wrong = |world: &mut World| world.state.apply(Event::Identity(Some("cluster2".parse())));
    wrong(&mut world);
    world.record("cluster2/gw1", "172.50.16.21", "242.1.0.0/16");
    assert_eq!(exchange::own_record(&world.state, &gw1()), RecordTask::Nothing, "it is theirs");
    world.members(&[("cluster1", "ours")]);
    assert_eq!(exchange::own_record(&world.state, &gw1()), RecordTask::Nothing, "our claim is not seen");

    // One that was written anyway, as by an earlier version: what the broker has wins.
    world.change_record("kube-system/gw1-cluster2", |record| {
        (record.origin, record.origin_namespace) = (None, None);
        record.external_ip = "172.50.16.11".into();
    });
    world.state.apply(Event::Identity(Some("cluster1".parse())));
    let task = exchange::import(&world.state, &key("kube-system/gw1-cluster2"));
    let RecordTask::Update { object, .. } = task else { panic!("{task:?}") };
    assert_eq!(object.external_ip, "172.50.16.21");
    world.change_record("kube-system/gw1-cluster2", |record| record.external_ip = "172.50.16.99".into());
    let by_hand = exchange::import(&world.state, &key("kube-system/gw1-cluster2"));
    assert_eq!(by_hand, RecordTask::Nothing, "one that people wrote is theirs");
}

#[test]
fn a_slip_is_mended_as_soon_as_the_gateway_that_it_leads_to_is_ready() {
    let mut world = World::new();
    world.empty_broker();
    world.copy("cluster2/gw1", "172.50.16.21");
    world.change_record("kube-system/gw1-cluster2", |record| {
        (record.origin, record.origin_namespace) = (None, None);
        record.external_ip = "172.50.16.11".into();
    });
    let slip = key("kube-system/gw1-cluster2");
    let workload =
        |ready| Workload { gateway: "gw1".parse().expect("a name"), ready, subnet: None, replicated: false };
    let mut scaled =
        |ready| world.state.apply(Event::StatefulSets(Change::Put("gw1".into(), workload(ready))));
    scaled(false);
    let touched = scaled(true);
    let member = "cluster2".parse().expect("an id");
    assert!(touched.contains(&Scope::Import(member, slip.clone())), "{touched:?}");
    assert!(matches!(exchange::import(&world.state, &slip), RecordTask::Update { .. }));
}

#[test]
fn nothing_is_exported_before_our_claim_is_seen_among_the_others() {
    let mut world = World::new();
    let gateway = "gw1".parse().expect("name");
    let RecordTask::Create(record) = exchange::own_record(&world.state, &gateway) else {
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
    assert!(matches!(exported(&world), RecordTask::Create(..)));
    assert_eq!(
        membership(&world.state),
        MembershipTask { stale: vec!["causeway.formerly.ours".into()], ..claim.clone() }
    );
    let (name, us) = (claim.claim.as_ref().expect("ours").name(), claim.claim.clone().expect("ours"));
    let renewed = Renewal { member: us, renewed: 120, lasts: 360, read: 120 };
    let renewed = world.state.apply(Event::Members(Change::Put(name, renewed)));
    assert_eq!(renewed, [].into(), "a renewal is no reason to renew");
    world.state.apply(Event::NoMembers);
    assert!(matches!(exported(&world), RecordTask::Create(..)), "a broker without claims is used anyway");
}

#[test]
fn a_label_that_should_go_is_taken_off() {
    let mut world = World::new();
    let gateway = "gw1".parse().expect("name");
    let RecordTask::Create(mut record) = exchange::own_record(&world.state, &gateway) else {
        panic!("a new record")
    };
    assert!(record.labels.remove("localVpc").is_some());
    record.labels.insert("submariner-io/originatingNamespace", "a-team".into());
    world.take_in(&record);
    let RecordTask::Update { object, unset, .. } = exchange::own_record(&world.state, &gateway) else {
        panic!("an update")
    };
    assert_eq!(object.labels["localVpc"], "test-vpc-1");
    assert_eq!(unset, ["submariner-io/originatingNamespace"]);
}

/// A world whose records and copies are as they should be, under the id cluster1.
fn published() -> World {
    let mut world = World::new();
    world.empty_broker();
    for gateway in ["gw1", "gw2"] {
        let task = exchange::own_record(&world.state, &gateway.parse().expect("name"));
        let RecordTask::Create(record) = task else { panic!("a new record") };
        world.take_in(&record);
        world.copy(&format!("cluster1/{gateway}"), &record.external_ip);
    }
    world
}

#[test]
fn a_former_id_takes_its_records_and_copies_along_and_its_claim_goes_last() {
    let mut world = published();
    world.state.apply(Event::Identity(Some("renamed".parse())));
    world.members(&[("renamed", "ours")]);
    assert_eq!(
        exchange::export(&world.state, "gw2.cluster1"),
        RecordTask::Nothing,
        "nothing proves that it is ours"
    );
    world.members(&[("cluster1", "ours"), ("renamed", "ours")]);
    let stale = |world: &World| membership(&world.state).stale;
    for gateway in ["gw1", "gw2"] {
        assert_eq!(stale(&world), Vec::<String>::new(), "the proof is still needed");
        let here = key(&format!("kube-system/{gateway}-cluster1"));
        let copy = format!("{gateway}.cluster1");
        assert!(matches!(exchange::import(&world.state, &here), RecordTask::Delete(..)));
        assert!(matches!(exchange::export(&world.state, &copy), RecordTask::Delete(..)));
        world.state.apply(Event::Records(Change::Gone(here)));
        world.state.apply(Event::Copies(Change::Gone(copy)));
    }
    assert_eq!(stale(&world), ["causeway.cluster1.ours"]);
}

#[test]
fn what_others_may_have_published_under_a_former_id_is_left_alone() {
    let mut world = published();
    world.state.apply(Event::Identity(Some("renamed".parse())));
    world.members(&[("cluster1", "ours"), ("renamed", "ours"), ("cluster1", "theirs")]);
    assert_eq!(exchange::export(&world.state, "gw1.cluster1"), RecordTask::Nothing);
    assert_eq!(exchange::import(&world.state, &key("kube-system/gw1-cluster1")), RecordTask::Nothing);
    assert_eq!(membership(&world.state).stale, ["causeway.cluster1.ours"], "but it is no longer ours");
}

#[test]
fn what_cannot_be_read_is_neither_used_nor_gone() {
    let broken = |record: &mut Record| record.unreadable = Some("it cannot be read".into());
    let mut world = published();
    world.tunnel("ns1/demo", |_| {});
    world.change_record("kube-system/gw1-cluster2", broken);
    assert_eq!(world.reason("ns1/demo"), "PeerInvalid");

    world.change_record("kube-system/gw1-cluster1", broken);
    assert_eq!(exchange::export(&world.state, "gw1.cluster1"), RecordTask::Nothing, "the copy stays");
    let own = exchange::own_record(&world.state, &"gw1".parse().expect("name"));
    assert!(matches!(own, RecordTask::Update { .. }), "it is there, and mended: {own:?}");
}

#[test]
fn a_late_event_of_a_former_broker_is_not_taken_for_all_that_there_is() {
    let mut world = World::new();
    world.copy("cluster4/gw7", "172.50.16.41");
    let home = key("kube-system/gw1-cluster2");
    assert_eq!(exchange::import(&world.state, &home), RecordTask::Nothing, "it is not gone from there");
    world.empty_broker();
    assert!(matches!(exchange::import(&world.state, &home), RecordTask::Delete(..)));
}

#[test]
fn an_id_that_cannot_be_one_is_refused_with_a_sentence() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    let long = "a".repeat(64);
    world.state.apply(Event::Identity(Some(long.parse())));
    let status = world.status("ns1/demo").expect("a status");
    let ready = status.conditions.get(READY).expect("it is set");
    assert_eq!(ready.reason, "ClusterIncomplete");
    assert!(ready.message.contains(&long) && ready.message.contains("63"), "{}", ready.message);
}

/// Writes what an import asks for, as the watch shows it afterwards.
fn bring(world: &mut World, home: &str) -> RecordTask {
    let task = exchange::import(&world.state, &key(home));
    match &task {
        RecordTask::Create(object) | RecordTask::Update { object, .. } => world.take_in(object),
        RecordTask::Delete(gone, _) => drop(world.state.apply(Event::Records(Change::Gone(gone.clone())))),
        RecordTask::Nothing => {}
    }
    task
}

/// `a-b/gw1` and `b/gw1-a`: joined by dashes they are called the same.
#[test]
fn two_members_whose_names_could_be_one_both_work_and_neither_unseats_the_other() {
    let homes = ["kube-system/gw1-a-b", "kube-system/gw1--a-b"];
    let mut world = World::new();
    world.empty_broker();
    world.tunnel("ns1/one", |tunnel| set(tunnel, TunnelKind::Vxlan { vni: 1, port: 4789 }, "a-b/gw1"));
    world.tunnel("ns1/other", |tunnel| set(tunnel, TunnelKind::Vxlan { vni: 2, port: 4789 }, "b/gw1-a"));
    world.copy("a-b/gw1", "172.50.16.41");
    world.copy("b/gw1-a", "172.50.16.51");
    for home in homes {
        assert!(matches!(bring(&mut world, home), RecordTask::Create(..)), "{home}");
    }
    for home in homes {
        assert_eq!(bring(&mut world, home), RecordTask::Nothing, "{home}");
    }
    let leads_to = |world: &World| {
        let want = world.want("gw1");
        want.tunnels.values().map(|tunnel| tunnel.remote.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(leads_to(&world), ["172.50.16.41", "172.50.16.51"]);
    world.state.apply(Event::Copies(Change::Gone("gw1.a-b".into())));
    for home in homes {
        bring(&mut world, home);
    }
    assert_eq!(world.reason("ns1/one"), "PeerUnknown");
    assert_eq!(leads_to(&world), ["172.50.16.51"], "the other stays when the first goes");
}

#[test]
fn what_was_brought_under_an_earlier_name_goes_when_it_is_here_under_its_own() {
    let mut world = World::new();
    world.empty_broker();
    world.tunnel("ns1/demo", |tunnel| set(tunnel, TunnelKind::Vxlan { vni: 1, port: 4789 }, "b/gw1-a"));
    world.copy("b/gw1-a", "172.50.16.51");
    let RecordTask::Create(mut record) = exchange::import(&world.state, &key("kube-system/gw1--a-b")) else {
        panic!("an import")
    };
    record.key = key("kube-system/gw1-a-b");
    world.take_in(&record);
    let is_known = |world: &World| !world.want("gw1").tunnels.is_empty();
    assert!(is_known(&world), "it counts under its earlier name");
    assert_eq!(bring(&mut world, "kube-system/gw1-a-b"), RecordTask::Nothing, "not before the other is here");
    assert!(matches!(bring(&mut world, "kube-system/gw1--a-b"), RecordTask::Create(..)));
    assert!(matches!(bring(&mut world, "kube-system/gw1-a-b"), RecordTask::Delete(..)));
    assert!(is_known(&world), "and never was it unknown");
}

#[test]
fn so_many_records_of_a_member_are_brought_and_the_rest_says_why_not() {
    let mut world = World::given(Given { records_per_member: Some(2), ..Given::default() });
    world.empty_broker();
    world.tunnel("ns1/demo", |tunnel| set(tunnel, TunnelKind::Vxlan { vni: 1, port: 4789 }, "flood/gw3"));
    world.copy("cluster4/gw9", "172.50.16.41");
    for number in [3, 2, 1] {
        world.copy(&format!("flood/gw{number}"), "172.50.16.61");
    }
    let exceeding: Vec<(String, usize)> =
        world.state.exceeding_members().map(|(member, more)| (member.to_string(), more)).collect();
    assert_eq!(exceeding, [("flood".to_owned(), 1)]);
    for (home, comes) in
        [("gw1-flood", true), ("gw2-flood", true), ("gw3-flood", false), ("gw9-cluster4", true)]
    {
        let task = exchange::import(&world.state, &key(&format!("kube-system/{home}")));
        assert_eq!(matches!(task, RecordTask::Create(..)), comes, "{home}");
    }
    let status = world.status("ns1/demo").expect("a status");
    let message = &status.conditions.get(READY).expect("it is set").message;
    assert!(
        message.contains("only the first 2 by name") && message.contains("--records-per-member"),
        "{message}"
    );
    let touched = world.state.apply(Event::Copies(Change::Gone("gw1.flood".into())));
    let third = Scope::Import("flood".parse().expect("an id"), key("kube-system/gw3-flood"));
    assert!(touched.contains(&third), "{touched:?}");
    assert!(matches!(bring(&mut world, "kube-system/gw3-flood"), RecordTask::Create(..)));
    assert_ne!(world.reason("ns1/demo"), "PeerUnknown");
}

#[test]
fn a_broker_that_lost_everything_is_told_from_a_peer_that_left() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.empty_broker();
    for peer in ["cluster2/gw1", "cluster2/gw2", "cluster3/gw1"] {
        world.copy(peer, "172.50.16.21");
    }
    let leaves = |world: &mut World| {
        world.state.apply(Event::Copies(Change::Gone("gw1.cluster2".into())));
        bring(world, "kube-system/gw1-cluster2");
        let status = world.status("ns1/demo").expect("a status");
        status.conditions.get(READY).expect("it is set").message.clone()
    };
    let message = leaves(&mut world);
    assert!(
        message.contains("has published no gateway gw1") && message.contains("stays as it is"),
        "{message}"
    );
    world.copy("cluster2/gw1", "172.50.16.21");
    bring(&mut world, "kube-system/gw1-cluster2");
    world.empty_broker();
    let message = leaves(&mut world);
    for words in
        ["the broker lost the record of gateway cluster2/gw1", "namespace is deleted", "stays as it is"]
    {
        assert!(message.contains(words), "{message}");
    }
    world.copy("cluster2/gw1", "172.50.16.21");
    bring(&mut world, "kube-system/gw1-cluster2");
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
}
