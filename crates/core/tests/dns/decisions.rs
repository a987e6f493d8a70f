//! What becomes of forwards, as sentences.

use std::net::Ipv4Addr;

use causeway_core::dns::command::statement;
use causeway_core::dns::corefile::{ZONE, render};
use causeway_core::dns::forward::FINALIZER;
use causeway_core::dns::state::Trouble;
use causeway_core::dns::status::{self, CLEANUP_BLOCKED};
use causeway_core::dns::vpc_dns::COREFILE;
use causeway_core::dns::{Event, Route, Scope, Sight, State, VpcDns};
use causeway_core::room::State as _;

use crate::world::{GATEWAY, ROW, SERVER, STOCK, World, dns, forward, key, route, with_list, with_script};

fn with_route() -> String {
    format!("{ROW}{}", statement(route()))
}

/// A world with a forward of VPC `a`, at rest.
fn forwarding() -> World {
    let mut world = World::new();
    world.put(forward("f", "a"));
    world.settle();
    assert_eq!(world.reason("f"), "Forwarding");
    world
}

#[test]
fn a_forward_brings_the_block_and_the_route_says_so_and_takes_both_away_with_it() {
    let mut world = forwarding();
    assert_eq!(world.corefiles[COREFILE], render(STOCK, SERVER));
    assert_eq!(world.script("vpc-dns-one"), with_route());
    let it = &world.forwards[&key("f")];
    assert_eq!(it.finalizers, [FINALIZER]);
    let status = &it.status;
    assert_eq!((status.vpc.as_deref(), status.vpc_dns.as_deref()), (Some("a"), Some("one")));
    assert_eq!(
        (status.kube_dns.as_deref(), status.gateway.as_deref()),
        (Some("10.96.0.10"), Some("10.244.0.1"))
    );
    assert_eq!(status.observed_generation, Some(1));
    let message = &status.conditions.get("Ready").expect("a condition").message;
    assert!(
        message.contains("10.96.0.10") && message.contains("vpc-dns-one") && message.contains(ZONE),
        "{message}"
    );

    world.delete("f");
    world.settle();
    assert!(world.forwards.is_empty());
    assert_eq!(world.corefiles[COREFILE], STOCK);
    assert_eq!(world.script("vpc-dns-one"), ROW);
    assert!(!world.deployments["vpc-dns-one"].has_record);
}

#[test]
fn first_a_word_then_the_finalizer_and_only_then_anything_else() {
    let mut world = World::new();
    world.put(forward("f", "a"));
    for scope in world.state.everything().into_iter().filter(|scope| !matches!(scope, Scope::Forward(_))) {
        assert!(!world.handle(&scope), "{scope}: nobody would know what to clean");
    }
    assert!(world.handle(&Scope::Forward(key("f"))));
    assert_eq!(world.reason("f"), "Pending");
    assert!(world.forwards[&key("f")].finalizers.is_empty());
    assert!(world.handle(&Scope::Forward(key("f"))));
    assert_eq!(world.forwards[&key("f")].finalizers, [FINALIZER]);
}

#[test]
fn two_forwards_of_one_vpc_share_what_they_have_and_it_goes_with_the_last() {
    let mut world = forwarding();
    let before = world.deployments.clone();
    world.put(forward("g", "a"));
    world.settle();
    assert_eq!(world.reason("g"), "Forwarding");
    assert_eq!(world.deployments, before, "nothing was written a second time");
    world.delete("f");
    world.settle();
    assert_eq!(world.deployments, before);
    assert_eq!(world.corefiles[COREFILE], render(STOCK, SERVER));
    world.delete("g");
    world.settle();
    assert_eq!((world.script("vpc-dns-one").as_str(), world.corefiles[COREFILE].as_str()), (ROW, STOCK));
}

#[test]
fn another_vpc_in_the_spec_cleans_the_old_one() {
    let mut world = forwarding();
    world.dns("two", Some(dns("b", true)));
    world.deployment("vpc-dns-two", Some(with_list(None)));
    world.settle();
    world.change("f", |it| (it.vpc, it.generation) = (Ok("b".into()), 2));
    world.settle();
    assert_eq!(world.reason("f"), "Forwarding");
    assert_eq!(world.script("vpc-dns-one"), ROW);
    assert!(world.deployments["vpc-dns-two"].has_record);
    assert_eq!(world.forwards[&key("f")].status.vpc.as_deref(), Some("b"));
    world.delete("f");
    world.settle();
    assert!(!world.deployments["vpc-dns-two"].has_record && world.forwards.is_empty());
}

#[test]
fn another_address_of_kube_dns_or_of_the_gateway_replaces_what_was_written() {
    let mut world = forwarding();
    let (moved, gateway) = (Ipv4Addr::new(10, 96, 0, 99), Ipv4Addr::new(10, 244, 0, 254));
    world.tell(Event::KubeDns(Ok(moved)));
    world.settle();
    assert_eq!(world.corefiles[COREFILE], render(STOCK, moved));
    assert_eq!(world.script("vpc-dns-one"), format!("{ROW}{}", statement(Route { to: moved, via: GATEWAY })));
    world.tell(Event::Gateway(Ok(gateway)));
    world.settle();
    assert_eq!(world.script("vpc-dns-one"), format!("{ROW}{}", statement(Route { to: moved, via: gateway })));
    assert_eq!(world.forwards[&key("f")].status.kube_dns.as_deref(), Some("10.96.0.99"));
}

#[test]
fn the_route_follows_the_dns_server_that_is_active() {
    let mut world = forwarding();
    world.dns("two", Some(dns("a", false)));
    world.deployment("vpc-dns-two", Some(with_script("")));
    world.settle();
    assert_eq!(world.script("vpc-dns-two"), "");
    world.dns("one", Some(dns("a", false)));
    world.settle();
    assert_eq!(world.reason("f"), "NotActive");
    assert_eq!(world.script("vpc-dns-one"), with_route(), "it may run on, and nothing is better");
    world.dns("two", Some(dns("a", true)));
    world.settle();
    assert_eq!(world.reason("f"), "Forwarding");
    assert_eq!(
        (world.script("vpc-dns-one").as_str(), world.script("vpc-dns-two")),
        (ROW, statement(route()))
    );
    world.dns("two", None);
    world.settle();
    assert_eq!(world.script("vpc-dns-two"), "", "its VpcDns is gone");
}

#[test]
fn what_is_not_known_any_more_changes_nothing_that_was_written() {
    let mut world = forwarding();
    let before = (world.deployments.clone(), world.corefiles.clone());
    world.tell(Event::KubeDns(Err("Service kube-system/kube-dns is not there".into())));
    world.settle();
    assert_eq!(world.reason("f"), "KubeDnsMissing");
    world.tell(Event::KubeDns(Ok(SERVER)));
    world.tell(Event::Gateway(Err("Subnet ovn-default has no IPv4 gateway".into())));
    world.settle();
    assert_eq!(world.reason("f"), "SubnetGatewayMissing");
    world.tell(Event::Gateway(Ok(GATEWAY)));
    world.change("f", |it| it.vpc = Err("spec.vpc is missing".into()));
    world.settle();
    assert_eq!(world.reason("f"), "InvalidSpec");
    assert_eq!((world.deployments.clone(), world.corefiles.clone()), before);
    world.delete("f");
    world.settle();
    assert_eq!((world.script("vpc-dns-one").as_str(), world.corefiles[COREFILE].as_str()), (ROW, STOCK));
}

#[test]
fn every_reason_is_said_and_passes_with_what_it_names() {
    let mut world = World::bare();
    world.put(forward("f", "a"));
    let says = |world: &mut World, reason: &str| {
        world.settle();
        assert_eq!(world.reason("f"), reason);
    };
    says(&mut world, "VpcDnsMissing");
    world.dns("one", Some(dns("a", false)));
    says(&mut world, "NotActive");
    world.dns("one", Some(dns("a", true)));
    says(&mut world, "KubeDnsMissing");
    world.tell(Event::KubeDns(Ok(SERVER)));
    says(&mut world, "SubnetGatewayMissing");
    world.tell(Event::Gateway(Ok(GATEWAY)));
    says(&mut world, "CorefileMissing");
    world.corefile(COREFILE, Some(".:53\nerrors\n"));
    says(&mut world, "ShapeUnknown");
    world.corefile(COREFILE, Some("clusterset.local {\n  errors\n}\n"));
    says(&mut world, "ForeignBlock");
    world.corefile(COREFILE, Some(STOCK));
    says(&mut world, "DeploymentMissing");
    let mut odd = with_list(None);
    odd.providers.clear();
    world.deployment("vpc-dns-one", Some(odd));
    says(&mut world, "ShapeUnknown");
    world.deployment("vpc-dns-one", Some(with_list(Some(r#"[{"dst":"10.96.0.10/32","gw":"1.1.1.1"}]"#))));
    says(&mut world, "RouteTaken");
    world.deployment("vpc-dns-one", Some(with_list(Some("[]"))));
    says(&mut world, "Forwarding");
}

#[test]
fn a_route_of_the_users_own_is_as_good_and_stays() {
    let mut world = World::new();
    world.deployment("vpc-dns-one", Some(with_script(&with_route())));
    world.put(forward("f", "a"));
    world.settle();
    assert_eq!(world.reason("f"), "Forwarding");
    assert!(!world.deployments["vpc-dns-one"].has_record);
    world.delete("f");
    world.settle();
    assert_eq!(world.script("vpc-dns-one"), with_route());
}

#[test]
fn what_another_operator_left_is_taken_over_whole() {
    let mut world = World::new();
    let spliced =
        STOCK.replacen(".:53 {", "clusterset.local:53 {\n    forward . 10.96.0.10\n  }\n  .:53 {", 1);
    world.corefile(COREFILE, Some(&spliced));
    world.deployment("vpc-dns-one", Some(with_script(&with_route())));
    let mut old = forward("f", "a");
    old.finalizers.push(FINALIZER.into());
    world.put(old);
    while world.handle(&Scope::Forward(key("f"))) {}
    let early = world.forwards[&key("f")].status.observed_generation;
    assert_eq!(early, None, "a word too early, and it could not be told any more");
    world.settle();
    assert_eq!(world.reason("f"), "Forwarding");
    assert_eq!(
        (world.script("vpc-dns-one"), &*world.corefiles[COREFILE]),
        (with_route(), &*render(STOCK, SERVER))
    );
    world.delete("f");
    world.settle();
    assert_eq!((world.script("vpc-dns-one").as_str(), world.corefiles[COREFILE].as_str()), (ROW, STOCK));
}

#[test]
fn a_forward_goes_whatever_is_gone_before_it() {
    for gone in 0..4 {
        let mut world = forwarding();
        match gone {
            0 => world.deployment("vpc-dns-one", None),
            1 => world.corefile(COREFILE, None),
            2 => world.dns("one", None),
            _ => {
                world.tell(Event::KubeDns(Err("gone".into())));
                world.tell(Event::Gateway(Err("gone".into())));
            }
        }
        world.delete("f");
        world.settle();
        assert!(world.forwards.is_empty(), "{gone}");
        let script = world.deployments.get("vpc-dns-one").map(|_| world.script("vpc-dns-one"));
        assert!(script.is_none_or(|script| script == ROW), "{gone}");
        assert!(world.corefiles.get(COREFILE).is_none_or(|text| text == STOCK), "{gone}");
    }
}

#[test]
fn one_that_was_never_worked_on_goes_at_once_and_one_of_somebody_elses_finalizer_is_left() {
    let mut world = World::new();
    let mut held = forward("f", "a");
    held.finalizers.push("example.org/theirs".into());
    held.deleting = true;
    world.put(held);
    world.settle();
    assert_eq!(world.writes, Vec::<String>::new());
}

#[test]
fn a_deletion_that_does_not_get_on_says_why_and_how_to_go_on() {
    let mut world = forwarding();
    let scope = Scope::Deployment("vpc-dns-one".into());
    world.delete("f");
    world.tell(Event::Tried(scope, Some(Trouble::Forbidden("deployments.apps is forbidden".into()))));
    let task = status::forward(&world.state, &key("f")).expect("a task");
    let status = task.status.expect("a status");
    let blocked = status.conditions.get(CLEANUP_BLOCKED).expect("a condition");
    assert_eq!(blocked.reason, "Forbidden");
    for words in ["vpc-dns-one", "is forbidden", "causeway/abandon=true"] {
        assert!(blocked.message.contains(words), "{}", blocked.message);
    }
    world.change("f", |it| it.abandon = true);
    assert!(world.handle(&Scope::Forward(key("f"))));
    assert!(world.forwards.is_empty());
}

#[test]
fn what_cannot_be_written_or_does_not_stay_is_said() {
    let mut world = World::new();
    world.put(forward("f", "a"));
    world.settle();
    world.deployment("vpc-dns-one", Some(with_script(ROW)));
    let scope = || Scope::Deployment("vpc-dns-one".into());
    for (trouble, reason) in [
        (Trouble::Forbidden("no".into()), "Forbidden"),
        (Trouble::Refused("no".into()), "WriteRefused"),
        (Trouble::Undone, "Undone"),
    ] {
        world.tell(Event::Tried(scope(), Some(trouble)));
        while world.handle(&Scope::Forward(key("f"))) {}
        assert_eq!(world.reason("f"), reason);
    }
    world.settle();
    assert_eq!(world.reason("f"), "Undone", "in the moments between it is not well either");
    world.tell(Event::Tried(scope(), None));
    world.settle();
    assert_eq!(world.reason("f"), "Forwarding");
}

#[test]
fn a_corefile_of_another_name_is_told_before_it_is_written_and_found_again() {
    let mut world = World::new();
    world.corefile("mine", Some(STOCK));
    world.dns("one", Some(VpcDns { corefile: "mine".into(), ..dns("a", true) }));
    world.put(forward("f", "a"));
    assert!(world.state.followed().contains("mine"));
    world.settle();
    assert_eq!(world.reason("f"), "Forwarding");
    assert_eq!((&*world.corefiles["mine"], &*world.corefiles[COREFILE]), (&*render(STOCK, SERVER), STOCK));
    let position = |what: &str| world.writes.iter().rposition(|it| it == what).expect("written");
    assert!(
        position("ConfigMap kube-system/mine")
            > world.writes.iter().position(|it| it.contains("Forward")).expect("written")
    );

    // Another one is named, and whoever has to clean the old one knows only what the forward says.
    world.dns("one", Some(dns("a", true)));
    world.state = State::default();
    world.tell(Event::KubeDns(Ok(SERVER)));
    world.tell(Event::Gateway(Ok(GATEWAY)));
    world.list();
    assert!(world.state.followed().contains("mine"));
    world.settle();
    assert_eq!((&*world.corefiles["mine"], &*world.corefiles[COREFILE]), (STOCK, &*render(STOCK, SERVER)));
    assert!(world.state.followed().is_empty(), "it is clean, and nobody looks at it any more");
    assert_eq!(world.reason("f"), "Forwarding");
}

#[test]
fn a_corefile_that_may_not_be_read_is_said_and_a_deletion_waits_for_it() {
    let mut world = World::new();
    world.dns("one", Some(VpcDns { corefile: "mine".into(), ..dns("a", true) }));
    world.corefile("mine", Some(STOCK));
    world.put(forward("f", "a"));
    world.settle();
    world.tell(Event::Corefile("mine".into(), Sight::Forbidden("no".into())));
    while world.handle(&Scope::Forward(key("f"))) {}
    assert_eq!(world.reason("f"), "CorefileForbidden");
    world.delete("f");
    while world.handle(&Scope::Forward(key("f"))) {}
    assert_eq!(
        world.forwards[&key("f")].status.conditions.get(CLEANUP_BLOCKED).expect("said").reason,
        "CorefileForbidden"
    );
}

#[test]
fn without_kube_ovns_definitions_nothing_is_undone_while_somebody_wants_it() {
    let mut world = forwarding();
    let before = (world.deployments.clone(), world.corefiles.clone());
    world.state = State::default();
    world.tell(Event::Forwards(causeway_core::room::Change::Reset(world.forwards.clone())));
    world.tell(Event::Deployments(causeway_core::room::Change::Reset(world.deployments.clone())));
    world.corefile(COREFILE, Some(&before.1[COREFILE].clone()));
    world.settle();
    assert_eq!(world.reason("f"), "VpcDnsMissing");
    assert_eq!(world.corefiles, before.1);
    assert_eq!(world.script("vpc-dns-one"), with_route());
    world.delete("f");
    world.settle();
    assert!(world.forwards.is_empty());
    assert_eq!((world.script("vpc-dns-one").as_str(), world.corefiles[COREFILE].as_str()), (ROW, STOCK));
}

#[test]
fn before_forwards_were_listed_nothing_is_taken_for_left_behind() {
    let mut world = forwarding();
    world.state = State::default();
    world.tell(Event::Deployments(causeway_core::room::Change::Reset(world.deployments.clone())));
    world.tell(Event::VpcDnses(causeway_core::room::Change::Reset(world.dnses.clone())));
    world.corefile(COREFILE, Some(&world.corefiles[COREFILE].clone()));
    for scope in world.state.everything() {
        assert!(!world.handle(&scope), "{scope}");
    }
    world.forwards.clear();
    world.list();
    world.settle();
    assert_eq!(
        (world.script("vpc-dns-one").as_str(), world.corefiles[COREFILE].as_str()),
        (ROW, STOCK),
        "swept"
    );
}

#[test]
fn what_was_put_back_is_an_event_of_those_that_had_it() {
    let mut world = forwarding();
    world.put(forward("other", "b"));
    world.settle();
    let news = |world: &World, scope: Scope| {
        let news = status::repaired(&world.state, &scope);
        news.into_iter().map(|(it, news)| (it.key, news.reason, news.note)).collect::<Vec<_>>()
    };
    let note = "the route to 10.96.0.10 was put back into Deployment kube-system/vpc-dns-one";
    let expected = vec![(key("f"), "DriftRepaired".to_owned(), note.to_owned())];
    assert_eq!(news(&world, Scope::Deployment("vpc-dns-one".into())), expected);
    assert_eq!(news(&world, Scope::Corefile(COREFILE.into())).len(), 1);
    world.tell(Event::KubeDns(Ok(Ipv4Addr::new(10, 96, 0, 99))));
    assert_eq!(news(&world, Scope::Deployment("vpc-dns-one".into())), [], "something else is wanted");
}
