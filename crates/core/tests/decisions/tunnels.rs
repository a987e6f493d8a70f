//! What becomes of tunnels.

use std::collections::BTreeMap;

use crate::world::{self, World, key};
use causeway_core::vpc::objects::{Ends, NodeHealth, TunnelSpec};
use causeway_core::vpc::outcome::{judge, repairs};
use causeway_core::vpc::status::{CLEANUP_BLOCKED, Finalizer, READY, ROUTED, SEGMENT_SIZE};
use causeway_core::vpc::{
    Answer, Change, Event, Have, Near, Outcome, Plan, Probed, Problem, Scope, Trouble, TunnelKind, Visit,
    compile, model, plan,
};
use causeway_core::{Condition, GatewayName, Truth};

#[test]
fn a_tunnel_is_up_once_its_gateway_was_seen_holding_it() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    assert_eq!(world.status("ns1/demo"), None, "the gateway's first answer is awaited");
    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    assert!(status.conditions.is_true(READY));
    assert!(status.initialized);
    assert_eq!(status.internal_ip.as_deref(), Some("172.50.16.11"));
    assert_eq!(status.remote_ip.as_deref(), Some("172.50.16.21"));
    assert_eq!(status.remote_globalnet.as_deref(), Some("242.1.0.0/16"));
    assert_eq!(status.ovn_gw_ip.as_deref(), Some("10.0.1.1"));
    assert_eq!(status.egress.len(), 8);
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn the_older_of_two_that_collide_wins_and_the_other_says_who_has_it() {
    let mut world = World::new();
    world.tunnel("ns1/young", |t| t.created = 2);
    world.tunnel("ns1/old", |t| t.created = 1);
    world.visit("gw1");
    assert_eq!(world.reason("ns1/old"), "Up");
    assert_eq!(world.reason("ns1/young"), "VniConflict");
    let message = world
        .status("ns1/young")
        .expect("a status")
        .conditions
        .get(READY)
        .expect("it is set")
        .message
        .clone();
    assert!(message.contains("ns1/old"), "{message}");
    world.state.apply(Event::Tunnels(Change::Gone(key("ns1/old"))));
    world.visit("gw1");
    assert_eq!(world.reason("ns1/young"), "Up", "the place is free");
}

#[test]
fn each_kind_of_collision_has_a_reason_of_its_own() {
    let reason = |kind, peer: &str, name: &str| {
        let mut world = World::new();
        world.tunnel("ns1/first", |t| t.created = 1);
        world.tunnel(name, |t| world::set(t, kind, peer));
        world.visit("gw1");
        world.reason(name)
    };
    let vxlan = |vni| TunnelKind::Vxlan { vni, port: 4789 };
    assert_eq!(reason(vxlan(100), "cluster3/gw1", "ns1/second"), "VniConflict");
    assert_eq!(reason(vxlan(7), "cluster2/gw2", "ns1/second"), "RemoteRangeConflict");
    assert_eq!(reason(vxlan(7), "cluster3/gw1", "ns2/first"), "LinkNameConflict");
    assert_eq!(reason(vxlan(7), "cluster3/gw1", "ns1/second"), "Up");
}

#[test]
fn two_gre_tunnels_between_the_same_ends_are_one_too_many() {
    let mut world = World::new();
    world.tunnel("ns1/a", |t| world::set(t, TunnelKind::Gre, "cluster2/gw1"));
    world.tunnel("ns1/b", |t| {
        world::set(t, TunnelKind::Gre, "cluster2/gw1");
        t.created = 9;
    });
    world.visit("gw1");
    assert_eq!(world.reason("ns1/b"), "EndpointConflict");
}

#[test]
fn missing_facts_are_named() {
    let without = |event: Event| {
        let mut world = World::new();
        world.tunnel("ns1/demo", |_| {});
        world.state.apply(event);
        world.visit("gw1");
        world.reason("ns1/demo")
    };
    assert_eq!(without(Event::Identity(None)), "ClusterIncomplete");
    assert_eq!(without(Event::Egress(Vec::new())), "ClusterIncomplete");
    assert_eq!(without(Event::Globalnets(Change::Reset(Default::default()))), "ClusterIncomplete");
    assert_eq!(without(Event::Records(Change::Reset(Default::default()))), "PeerUnknown");
    assert_eq!(without(Event::Pods(Change::Reset(Default::default()))), "GatewayNotRunning");
    assert_eq!(without(Event::Nodes(Change::Put("n1".into(), NodeHealth::Lost))), "GatewayLost");
    let mut world = World::new();
    world.tunnel("ns1/demo", |t| world::on_gateway(t, "gw9"));
    assert_eq!(world.reason("ns1/demo"), "GatewayNotFound");
}

#[test]
fn a_tunnel_to_the_cluster_it_is_in_is_told_so() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |tunnel| {
        let Ok(TunnelSpec { ends: Ends::ByGateway { peer, .. }, .. }) = &mut tunnel.spec else { panic!() };
        peer.cluster = "cluster1".parse().expect("an id");
    });
    assert_eq!(world.reason("ns1/demo"), "InvalidSpec");
}

#[test]
fn a_peer_that_claims_our_own_range_is_refused_by_name() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.record("cluster2/gw1", "172.50.16.21", "242.0.7.0/24");
    assert_eq!(world.reason("ns1/demo"), "RangeOverlap");
}

#[test]
fn a_tunnel_by_vpc_needs_a_gateway_of_that_vpc() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |t| {
        let spec = t.spec.as_mut().expect("valid");
        spec.ends = Ends::ByVpc { local: "a".into(), cluster: "c2".parse().expect("id"), remote: "b".into() };
    });
    assert_eq!(world.reason("ns1/demo"), "VpcWithoutGateway");
    assert!(world.want("gw1").tunnels.is_empty());
}

#[test]
fn what_became_unreadable_keeps_what_it_has_and_says_so() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.tunnel("ns1/demo", |t| t.spec = Err("label vid `x` is not a number".into()));
    assert_eq!(world.reason("ns1/demo"), "InvalidSpec");
    let before = world.have("gw1");
    world.visit("gw1");
    assert_eq!(world.have("gw1"), before, "nothing is taken away");
}

#[test]
fn a_peer_that_vanished_leaves_the_tunnel_standing() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.state.apply(Event::Records(Change::Reset(Default::default())));
    let before = world.have("gw1");
    world.visit("gw1");
    assert_eq!(world.have("gw1"), before);
    assert_eq!(world.reason("ns1/demo"), "PeerUnknown");
}

#[test]
fn a_tunnel_that_moves_leaves_its_old_gateway() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.tunnel("ns1/demo", |t| world::on_gateway(t, "gw2"));
    world.visit("gw1");
    world.visit("gw2");
    assert!(!world.have("gw1").holding().anything);
    assert!(world.have("gw2").holding().includes(&key("ns1/demo")));
}

#[test]
fn the_way_in_is_shared_and_goes_with_the_last() {
    let mut world = World::new();
    world.tunnel("ns1/one", |_| {});
    world.tunnel("ns1/two", |t| world::set(t, TunnelKind::Vxlan { vni: 7, port: 4789 }, "cluster3/gw1"));
    world.visit("gw1");
    let inbound =
        |world: &World| world.have("gw1").routes.iter().filter(|r| r.via.is_some() && r.is_ours()).count();
    assert_eq!(inbound(&world), 1);
    world.delete("ns1/one");
    world.visit("gw1");
    assert_eq!((inbound(&world), world.reason("ns1/two").as_str()), (1, "Up"));
    world.delete("ns1/two");
    world.visit("gw1");
    assert!(!world.have("gw1").holding().anything);
}

#[test]
fn the_finalizer_goes_on_at_once_and_off_when_the_gateway_was_seen_empty() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |t| t.finalizers.clear());
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Add);
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.delete("ns1/demo");
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Leave, "the gateway was not looked at since");
    world.visit("gw1");
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Remove);
}

#[test]
fn a_visit_that_began_before_the_deletion_does_not_prove_it() {
    let mut world = World::new();
    world.visit("gw1");
    world.tunnel("ns1/demo", |_| {});
    let (revision, task) =
        (world.state.revision(), compile::gateway(&world.state, &"gw1".parse().expect("name")));
    world.delete("ns1/demo");
    world.finish("gw1", revision, &task.expect("a task"));
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Leave);
    world.visit("gw1");
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Remove);
}

#[test]
fn a_gateway_that_is_gone_holds_nobody_back() {
    for gone in [
        Event::Pods(Change::Reset(Default::default())),
        Event::Nodes(Change::Put("n1".into(), NodeHealth::Lost)),
    ] {
        let mut world = World::new();
        world.tunnel("ns1/demo", |_| {});
        world.visit("gw1");
        world.state.apply(gone);
        world.delete("ns1/demo");
        assert_eq!(world.finalizer("ns1/demo"), Finalizer::Remove);
    }
}

#[test]
fn a_silent_node_is_not_yet_a_lost_one() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.state.apply(Event::Nodes(Change::Put("n1".into(), NodeHealth::NotReady)));
    world.delete("ns1/demo");
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Leave);
}

#[test]
fn a_gateway_that_refuses_blocks_the_deletion_until_it_is_abandoned() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.delete("ns1/demo");
    world.fail("gw1", Trouble::ExecRefused("forbidden".into()));
    assert!(matches!(world.finalizer("ns1/demo"), Finalizer::Blocked(_, Trouble::ExecRefused(_))));
    let status = world.status("ns1/demo").expect("a status");
    assert!(
        status.conditions.get(CLEANUP_BLOCKED).expect("it is set").message.contains("causeway/abandon=true")
    );
    world.tunnel("ns1/demo", |t| {
        t.deleting = true;
        t.abandon = true;
    });
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Remove);
}

#[test]
fn a_deleted_tunnel_that_says_it_was_elsewhere_waits_for_that_gateway_too() {
    let mut world = World::new();
    let touched = world.tunnel("ns1/demo", |t| {
        world::on_gateway(t, "gw2");
        t.status.gateway = Some("gw1".into());
        t.deleting = true;
    });
    let looked_at = |name: &str| touched.contains(&Scope::Gateway(name.parse().expect("name")));
    assert!(looked_at("gw1") && looked_at("gw2"), "what is waited for is also looked at: {touched:?}");
    world.visit("gw2");
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Leave);
    world.visit("gw1");
    assert_eq!(world.finalizer("ns1/demo"), Finalizer::Remove);
}

#[test]
fn whether_the_vpc_leads_to_the_gateway_is_said_beside() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    assert!(world.status("ns1/demo").expect("a status").conditions.is_true(ROUTED));
    world.state.apply(Event::Vpcs(Change::Put("test-vpc-1".into(), Default::default())));
    let status = world.status("ns1/demo").expect("a status");
    assert!(!status.conditions.is_true(ROUTED));
    assert!(status.conditions.is_true(READY), "the tunnel itself is up");
}

#[test]
fn egress_addresses_with_a_hole_are_used_up_to_it_and_that_is_said() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    let addresses = [1, 2, 3, 7].map(|n| std::net::Ipv4Addr::new(242, 0, 0, n));
    world.state.apply(Event::Egress(addresses.into()));
    world.visit("gw1");
    let message =
        world.status("ns1/demo").expect("a status").conditions.get(READY).expect("it is set").message.clone();
    assert!(message.contains("242.0.0.1 to 242.0.0.3") && message.contains("3 of 4"), "{message}");
}

#[test]
fn nothing_changes_for_a_status_that_is_already_written() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    let written = world.status("ns1/demo").expect("a status");
    world.tunnel("ns1/demo", |t| t.status = written.clone());
    assert_eq!(world.status("ns1/demo"), Some(written));
}

#[test]
fn what_a_command_said_explains_why_a_tunnel_is_not_up() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    let want = world.want("gw1");
    let planned = plan(&want, &Have::default());
    let lacking = Trouble::KernelLacksTunnelType("gre".into());
    let visit = judge(&want, &planned, &[(1, lacking.clone())].into(), &Have::default());
    assert_eq!(visit.tunnels[&key("ns1/demo")].1, Some(lacking));
    let foreign = world::link(&|link| link.group = 0);
    let mut have = Have::default();
    have.links.insert("demo".into(), foreign);
    let visit = judge(&want, &plan(&want, &have), &Default::default(), &have);
    let problem = Problem::NameTaken { link: "demo".into() };
    assert_eq!(visit.tunnels[&key("ns1/demo")].1, Some(Trouble::InTheWay(problem)));
}

#[test]
fn only_what_was_up_before_counts_as_drift() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    let want = world.want("gw1");
    let from_nothing = plan(&want, &Have::default());
    let gateway: GatewayName = "gw1".parse().expect("name");
    let repaired_by = |world: &World, pod: &str, planned: &Plan| {
        let now = judge(&want, planned, &BTreeMap::new(), &world.have("gw1"));
        repairs(world.state.outcome(&gateway), pod, &want, planned, &now)
    };
    assert!(repaired_by(&world, "u1", &from_nothing).is_empty(), "it is new");
    world.visit("gw1");
    let mut have = world.have("gw1");
    have.routes.retain(|route| route.via.is_some());
    let planned = plan(&want, &have);
    let repaired = repaired_by(&world, "u1", &planned);
    assert_eq!(repaired.tunnels[&key("ns1/demo")], "route 242.1.0.0/16 dev demo");
    assert_eq!(repaired.gateway, None);
    assert!(repaired_by(&world, "u2", &planned).is_empty(), "another pod is no drift");
    for step in &planned.steps {
        model::apply(&mut have, &step.action).expect("it works");
    }
    assert!(plan(&want, &have).is_empty());
}

#[test]
fn a_gateway_that_cannot_fit_segment_sizes_has_its_tunnels_up_and_says_so() {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    let want = world.want("gw1");
    let mut have = world.have("gw1");
    let planned = plan(&want, &have);
    let mut failures = BTreeMap::new();
    for (at, step) in planned.steps.iter().enumerate() {
        if step.action.is_clamp() {
            failures.insert(at, Trouble::CommandFailed("can't initialize table `mangle'".into()));
        } else {
            model::apply(&mut have, &step.action).expect("it works");
        }
    }
    let visit = judge(&want, &planned, &failures, &have);
    let tell = |world: &mut World, visit: Visit| {
        let outcome =
            Outcome { pod_uid: "u1".into(), revision: world.state.revision(), asked: 0, result: Ok(visit) };
        world.state.apply(Event::Outcome("gw1".parse().expect("name"), outcome));
        let answer = Answer { link: "demo".into(), near: Near::Answered(None), far: None, astray: None };
        let probed = Probed { pod_uid: "u1".into(), asked: 0, answers: vec![answer] };
        world.state.apply(Event::Probed("gw1".parse().expect("name"), probed));
    };
    tell(&mut world, visit.clone());
    assert_eq!(world.reason("ns1/demo"), "Up");
    let status = world.status("ns1/demo").expect("a status");
    let condition = status.conditions.get(SEGMENT_SIZE).expect("it is set");
    assert!(!condition.is_true() && condition.message.contains("can't initialize"), "{condition:?}");
    let again = plan(&want, &have);
    let outcome = world.state.outcome(&"gw1".parse().expect("name"));
    assert!(repairs(outcome, "u1", &want, &again, &visit).is_empty(), "trying again is no repair");

    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    assert!(status.conditions.get(SEGMENT_SIZE).is_none(), "it works now");
}

#[test]
fn others_conditions_on_a_tunnel_are_carried_through() {
    let theirs = Condition {
        kind: "Audited".into(),
        status: Truth::Unknown,
        reason: "Theirs".into(),
        message: "who knows".into(),
        observed_generation: None,
        since: Some(7),
    };
    let mut world = World::new();
    world.tunnel("ns1/demo", |t| t.status.conditions = [theirs.clone()].into_iter().collect());
    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    assert_eq!(status.conditions.iter().next(), Some(&theirs));
    assert!(status.conditions.is_true(READY));
}

#[test]
fn news_of_a_version_before_the_one_that_is_known_changes_nothing() {
    let mut world = World::new();
    world.tunnel("ns1/vx0", |tunnel| tunnel.resource_version = "9".into());
    let touched = world.tunnel("ns1/vx0", |tunnel| {
        tunnel.resource_version = "10".into();
        tunnel.status.initialized = true;
    });
    assert!(!touched.is_empty());
    let late = world.tunnel("ns1/vx0", |tunnel| tunnel.resource_version = "9".into());
    assert_eq!(late, [].into(), "versions are numbers, not text");
    assert!(world.state.tunnel(&key("ns1/vx0")).expect("known").status.initialized);
}
