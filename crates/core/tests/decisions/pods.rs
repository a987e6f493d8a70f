//! Which pod of a gateway its tunnels are built on, and what becomes of the others.

use std::collections::BTreeSet;

use causeway_core::GatewayName;
use causeway_core::vpc::compile::{self, GatewayTask};
use causeway_core::vpc::exchange::{self, RecordTask};
use causeway_core::vpc::objects::{GatewayPod, NodeHealth};
use causeway_core::vpc::status::Finalizer;
use causeway_core::vpc::{Change, Event, Given, Outcome, Scope, State, Trouble, Visit};

use crate::world::{self, World, key};

fn gw1() -> GatewayName {
    "gw1".parse().expect("a name")
}

/// A replica of gw1, ready.
fn replica(name: &str, created: i64, address: u8, change: impl Fn(&mut GatewayPod)) -> Event {
    let mut pod = world::pod("gw1", name, 254, address);
    pod.created = created;
    change(&mut pod);
    Event::Pods(Change::Put(pod.pod.key.clone(), pod))
}

/// A gateway with two replicas, `old` and `abc` (which comes later, although its name sorts first).
fn two_replicas() -> World {
    let mut world = World::new();
    world.state.apply(Event::Pods(Change::Gone(key("kube-system/vpc-nat-gw-gw1-0"))));
    world.state.apply(replica("old", 1, 11, |_| {}));
    world.state.apply(replica("abc", 2, 13, |_| {}));
    world
}

fn task(world: &World) -> GatewayTask {
    compile::gateway(&world.state, &gw1()).expect("a task")
}

fn serving(world: &World) -> String {
    task(world).pod.key.to_string()
}

fn to_sweep(world: &World) -> Vec<String> {
    task(world).sweep.iter().map(|pod| pod.key.to_string()).collect()
}

/// What a sweep of a pod finds afterwards.
fn swept(world: &mut World, uid: &str, visit: Visit) {
    let outcome =
        Outcome { pod_uid: uid.into(), revision: world.state.revision(), asked: 0, result: Ok(visit) };
    world.state.apply(Event::Outcome(gw1(), outcome));
}

#[test]
fn a_new_replica_does_not_take_over_from_one_that_is_good() {
    let mut world = two_replicas();
    assert_eq!(serving(&world), "kube-system/old", "the oldest");
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
    world.state.apply(replica("aaa", 0, 14, |_| {}));
    assert_eq!(serving(&world), "kube-system/old", "even if another is older");
}

#[test]
fn another_takes_over_when_it_is_not_ready_leaves_or_is_lost() {
    for bad in [
        replica("old", 1, 11, |pod| pod.ready = false),
        replica("old", 1, 11, |pod| pod.deleting = true),
        replica("old", 1, 11, |pod| pod.phase = "Failed".into()),
        replica("old", 1, 11, |pod| pod.node = Some("n9".into())),
    ] {
        let mut world = two_replicas();
        world.visit("gw1");
        world.state.apply(Event::Nodes(Change::Put("n9".into(), NodeHealth::Lost)));
        world.state.apply(bad);
        assert_eq!(serving(&world), "kube-system/abc");
    }
}

#[test]
fn it_is_not_given_back_when_the_first_is_good_again() {
    let mut world = two_replicas();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.state.apply(replica("old", 1, 11, |pod| pod.ready = false));
    world.visit("gw1");
    world.state.apply(replica("old", 1, 11, |_| {}));
    assert_eq!(serving(&world), "kube-system/abc");
    assert_eq!(world.reason("ns1/demo"), "Up");
}

#[test]
fn after_a_restart_of_ours_the_one_that_others_know_is_kept() {
    let mut world = two_replicas();
    world.visit("gw1");
    world.state.apply(replica("old", 1, 11, |pod| pod.ready = false));
    let RecordTask::Create(record) = exchange::own_record(&world.state, &gw1()) else { panic!("a record") };
    assert_eq!(record.external_ip, "172.50.16.13");
    let mut restarted = two_replicas();
    assert_eq!(serving(&restarted), "kube-system/old");
    restarted.take_in(&record);
    assert_eq!(serving(&restarted), "kube-system/abc");
}

#[test]
fn what_was_found_in_an_earlier_term_is_no_reason_to_say_anything() {
    let mut world = two_replicas();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    let pod_uid = task(&world).pod.uid;
    let result = Err(Trouble::ExecTimedOut(10));
    let outcome = Outcome { pod_uid, revision: world.state.revision(), asked: 0, result };
    world.state.apply(Event::Outcome(gw1(), outcome));
    assert_eq!(world.reason("ns1/demo"), "ExecTimedOut");
    swept(&mut world, "abc", Visit::default());
    assert_eq!(to_sweep(&world), Vec::<String>::new(), "seen without anything of ours");

    assert_eq!(world.state.apply(Event::TermEnded), BTreeSet::new());
    assert_eq!(world.status("ns1/demo"), None, "its gateway is awaited");
    assert_eq!(to_sweep(&world), ["kube-system/abc"], "another leader may have built there");
    assert_eq!(serving(&world), "kube-system/old");
}

#[test]
fn one_that_is_not_ready_is_better_than_none() {
    let mut world = World::new();
    world.state.apply(Event::Pods(Change::Reset(Default::default())));
    world.state.apply(replica("old", 1, 11, |pod| pod.ready = false));
    assert_eq!(serving(&world), "kube-system/old");
    world.state.apply(replica("old", 1, 11, |pod| pod.deleting = true));
    assert_eq!(serving(&world), "kube-system/old");
}

#[test]
fn what_the_former_pod_still_holds_is_swept_once_it_answers_again() {
    let mut world = two_replicas();
    assert_eq!(to_sweep(&world), ["kube-system/abc"], "what it holds is not known");
    swept(&mut world, "abc", Visit::default());
    assert_eq!(to_sweep(&world), Vec::<String>::new());
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.state.apply(replica("old", 1, 11, |pod| pod.ready = false));
    assert_eq!(to_sweep(&world), Vec::<String>::new(), "it may not answer");
    world.visit("gw1");
    let touched = world.state.apply(replica("old", 1, 11, |_| {}));
    assert_eq!(to_sweep(&world), ["kube-system/old"]);
    assert!(touched.contains(&Scope::Gateway(gw1())), "{touched:?}");
    swept(&mut world, "old", Visit::default());
    assert_eq!(to_sweep(&world), Vec::<String>::new());
    assert_eq!(world.reason("ns1/demo"), "Up", "the one that serves is another");
}

#[test]
fn a_deletion_waits_for_the_former_pod_too() {
    let mut world = two_replicas();
    swept(&mut world, "abc", Visit::default());
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.state.apply(replica("old", 1, 11, |pod| pod.ready = false));
    world.visit("gw1");
    world.state.apply(replica("old", 1, 11, |_| {}));
    world.delete("ns1/demo");
    world.visit("gw1");
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Leave, "the former pod still holds it");
    swept(&mut world, "old", Visit::default());
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Remove);
}

#[test]
fn what_is_not_known_yet_is_not_swept() {
    let mut state = State::new(Given::default());
    let pod = world::pod("gw1", "old", 254, 11);
    state.apply(Event::Pods(Change::Put(pod.pod.key.clone(), pod)));
    assert_eq!(compile::gateway(&state, &gw1()), None, "a gateway's tunnels may be about to come");
    let touched = state.apply(Event::Tunnels(Change::Reset(Default::default())));
    assert!(touched.contains(&Scope::Gateway(gw1())), "{touched:?}");
    assert!(compile::gateway(&state, &gw1()).is_some());
}

#[test]
fn what_was_found_in_a_pod_goes_with_it() {
    let mut world = two_replicas();
    world.tunnel("ns1/demo", |_| {});
    let late =
        Outcome { pod_uid: "old".into(), revision: 0, asked: 0, result: Err(Trouble::ExecTimedOut(1)) };
    world.visit("gw1");
    assert!(world.state.outcome(&gw1()).is_some());
    world.state.apply(Event::Pods(Change::Reset(Default::default())));
    world.state.apply(Event::StatefulSets(Change::Reset(Default::default())));
    assert!(world.state.apply(Event::Outcome(gw1(), late)).is_empty(), "it came too late");
    let everything = world.state.everything();
    assert!(!everything.contains(&Scope::Gateway("gw2".parse().expect("a name"))), "{everything:?}");
    world.state.apply(Event::Tunnels(Change::Gone(key("ns1/demo"))));
    assert!(!world.state.everything().contains(&Scope::Gateway(gw1())), "nothing is left of it");
}
