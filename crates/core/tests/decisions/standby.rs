//! Main and standby gateways: who carries a VPC's tunnels, and what follows when that changes.

use causeway_core::vpc::mains::Step;
use causeway_core::vpc::objects::{Eip, Ends, GatewayPod, ListedRoute, Switch};
use causeway_core::vpc::{Change, Event, Seat};

use super::world::{VPC, World, on_gateway};

/// A world with one tunnel by VPC, all of it in place: gw1 is the main gateway.
fn settled() -> World {
    let mut world = World::new();
    world.vpc_tunnel("ns1/demo");
    world.settle();
    world.visit("gw1");
    world.visit("gw2");
    world.write("ns1/demo");
    assert_eq!(world.main(), (Some("gw1".into()), vec!["10.0.1.254".into()]));
    world
}

fn seat(world: &World, gateway: &str) -> Option<Seat> {
    world.want(gateway).tunnels.values().next().map(|tunnel| tunnel.seat)
}

fn now_at(world: &mut World, gateway: &str, hop: &str) {
    now_at_all(world, gateway, &[hop]);
}

fn now_at_all(world: &mut World, gateway: &str, hops: &[&str]) {
    world.settle();
    world.visit("gw1");
    world.visit("gw2");
    assert_eq!(world.main(), (Some(gateway.into()), hops.iter().map(ToString::to_string).collect()));
    assert_eq!(seat(world, gateway), Some(Seat::Main));
}

#[test]
fn the_main_gateway_carries_the_tunnel_and_the_standby_holds_it_in_silence() {
    let world = settled();
    assert_eq!((seat(&world, "gw1"), seat(&world, "gw2")), (Some(Seat::Main), Some(Seat::Standby)));
    let want = |gateway| world.want(gateway).tunnels.into_values().next().expect("a tunnel");
    assert_eq!(want("gw1").mac(), want("gw2").mac(), "the peer must not see another end");
    assert_ne!(want("gw1").group(), want("gw2").group());
    assert_eq!(world.reason("ns1/demo"), "Up");
    assert_eq!(world.condition("ns1/demo", "Failover").expect("it is said").reason, "StandbyReady");
}

#[test]
fn add_a_the_record_is_refreshed() {
    let mut world = settled();
    world.change_pod("gw1", |pod| {
        pod.external.values_mut().for_each(|address| *address = [172, 50, 16, 19].into());
    });
    assert!(matches!(world.step(), Step::Record(_)));
    now_at(&mut world, "gw1", "10.0.1.254");
}

#[test]
fn add_b_one_that_is_added_stands_by() {
    let mut world = settled();
    world.delete_gateway("gw2");
    world.settle();
    assert_eq!(world.condition("ns1/demo", "Failover").expect("it is said").reason, "NoStandby");
    world.change_pod("gw2", |_| {});
    now_at(&mut world, "gw1", "10.0.1.254");
}

#[test]
fn add_c_without_a_record_the_one_that_routes_lead_to_is_the_main_one() {
    let mut world = World::new();
    world.change_vpc(|vpc| vpc.listed[0].next_hop = Some([10, 0, 1, 253].into()));
    world.vpc_tunnel("ns1/demo");
    now_at(&mut world, "gw2", "10.0.1.253");
}

#[test]
fn down_a_a_standby_that_goes_changes_nothing() {
    let mut world = settled();
    world.change_pod("gw2", |pod| pod.ready = false);
    assert_eq!(world.step(), Step::Nothing);
    assert_eq!(seat(&world, "gw1"), Some(Seat::Main));
}

#[test]
fn down_b_the_standby_takes_over() {
    let changes: [fn(&mut GatewayPod); 3] =
        [|pod| pod.ready = false, |pod| pod.deleting = true, |pod| pod.phase = "Failed".into()];
    for change in changes {
        let mut world = settled();
        world.change_pod("gw1", change);
        assert_eq!(seat(&world, "gw2"), Some(Seat::Main), "before anything is written");
        assert!(matches!(world.step(), Step::Record(_)), "the record is the decision");
        assert!(matches!(world.step(), Step::Routes(_)), "and routes follow it");
        world.settle();
        assert_eq!(world.main(), (Some("gw2".into()), vec!["10.0.1.253".into()]));
    }
}

#[test]
fn down_b_is_decided_the_same_when_nobody_saw_it() {
    let mut world = World::new();
    world.vpc_tunnel("ns1/demo");
    world.settle();
    // Whoever starts now knows what is recorded, and that gw1 is not there.
    world.delete_gateway("gw1");
    now_at(&mut world, "gw2", "10.0.1.253");
}

#[test]
fn down_c_without_a_standby_the_main_gateway_stays_and_it_is_said() {
    let mut world = settled();
    world.change_pod("gw2", |pod| pod.ready = false);
    world.change_pod("gw1", |pod| pod.ready = false);
    assert_eq!(world.step(), Step::Nothing);
    assert_eq!(world.main(), (Some("gw1".into()), vec!["10.0.1.254".into()]));
    world.visit("gw1");
    let said = world.condition("ns1/demo", "Failover").expect("it is said");
    assert!(
        said.message.starts_with("gateway gw1 is not ready and nobody could do better"),
        "{}",
        said.message
    );
}

#[test]
fn restart_a_of_a_standby_changes_nothing() {
    let mut world = settled();
    world.new_pod("gw2");
    now_at(&mut world, "gw1", "10.0.1.254");
    assert_eq!(seat(&world, "gw2"), Some(Seat::Standby));
}

#[test]
fn restart_b_of_the_only_gateway_rebuilds_its_tunnels() {
    let mut world = settled();
    world.delete_gateway("gw2");
    world.settle();
    world.new_pod("gw1");
    world.visit("gw1");
    assert_eq!(world.main().0.as_deref(), Some("gw1"));
    assert_eq!(world.reason("ns1/demo"), "Up");
}

#[test]
fn delete_a_of_a_standby_changes_nothing() {
    let mut world = settled();
    world.delete_gateway("gw2");
    assert_eq!(world.step(), Step::Nothing);
}

#[test]
fn delete_b_of_the_main_gateway_moves_what_led_to_it_though_nothing_of_it_is_left() {
    let mut world = settled();
    world.delete_gateway("gw1");
    now_at(&mut world, "gw2", "10.0.1.253");
}

#[test]
fn delete_c_of_the_last_gateway_takes_the_record_along() {
    let mut world = settled();
    world.delete_gateway("gw2");
    world.delete_gateway("gw1");
    world.settle();
    assert_eq!(world.main().0, None);
    assert_eq!(world.reason("ns1/demo"), "VpcWithoutGateway");
}

#[test]
fn a_main_gateway_that_comes_back_stands_by_also_after_a_crash_between_the_writes() {
    let mut world = settled();
    world.change_pod("gw1", |pod| pod.ready = false);
    assert!(matches!(world.step(), Step::Record(_)));
    // Here the leader dies, and gw1 comes back before another leads.
    world.change_pod("gw1", |_| {});
    now_at(&mut world, "gw2", "10.0.1.253");
    world.visit("gw1");
    assert_eq!(seat(&world, "gw1"), Some(Seat::Standby));
}

#[test]
fn only_routes_through_the_lost_gateway_move() {
    let ways: [fn(&mut GatewayPod); 2] = [|pod| pod.deleting = true, |pod| pod.phase = "Failed".into()];
    for lost in ways {
        let mut world = settled();
        let route = |range: &str, hop: u8, shared| ListedRoute {
            range: range.parse().ok(),
            next_hop: Some([10, 0, 1, hop].into()),
            shared,
        };
        world.tunnel("ns1/pinned", |tunnel| {
            on_gateway(tunnel, "gw1");
            super::world::set(
                tunnel,
                causeway_core::vpc::TunnelKind::Vxlan { vni: 7, port: 4789 },
                "cluster3/gw1",
            );
            tunnel.spec.as_mut().expect("valid").address = "10.101.0.1/24".parse().expect("address");
        });
        world.change_vpc(|vpc| {
            vpc.listed = vec![
                route("242.1.0.0/16", 254, false),
                route("10.9.0.0/16", 252, false),
                route("0.0.0.0/0", 254, false),
                route("10.8.0.0/16", 254, true),
                route("242.2.0.0/16", 254, false),
            ];
        });
        world.change_pod("gw1", lost);
        world.settle();
        let hops = ["10.0.1.253", "10.0.1.252", "10.0.1.253", "10.0.1.254", "10.0.1.254"].map(String::from);
        assert_eq!(world.main().1, hops, "kube-ovn's own and those of tunnels that name gw1 stay");
    }
}

#[test]
fn a_switch_on_purpose_waits_for_the_standby_and_takes_only_the_tunnels_routes() {
    let mut world = settled();
    world.change_vpc(|vpc| {
        let everywhere = "0.0.0.0/0".parse().ok();
        vpc.listed.push(ListedRoute {
            range: everywhere,
            next_hop: Some([10, 0, 1, 254].into()),
            shared: false,
        });
        vpc.switch = Some(Switch { text: "gw3".into(), to: "gw3".parse().expect("name"), all: false });
    });
    assert_eq!(world.step(), Step::Nothing);
    let said = world.condition("ns1/demo", "Failover").expect("it is said").message;
    assert!(
        said.ends_with("the switch that is asked for waits: VPC test-vpc-1 has no gateway gw3"),
        "{said}"
    );
    world.change_vpc(|vpc| {
        vpc.switch = Some(Switch { text: "gw2".into(), to: "gw2".parse().expect("name"), all: false });
    });
    assert!(matches!(world.step(), Step::Record(_)));
    assert_eq!((seat(&world, "gw1"), seat(&world, "gw2")), (Some(Seat::Main), Some(Seat::Main)), "it drains");
    world.settle();
    assert_eq!(world.main(), (Some("gw2".into()), vec!["10.0.1.253".into(), "10.0.1.254".into()]));
    assert_eq!(seat(&world, "gw1"), Some(Seat::Standby));
    // Granted is granted: a loss later is not undone by it.
    world.change_pod("gw2", |pod| pod.ready = false);
    world.settle();
    world.change_pod("gw2", |_| {});
    world.settle();
    assert_eq!(world.main().0.as_deref(), Some("gw1"));
}

#[test]
fn silence_that_is_heard_by_the_standby_counts_until_the_gateway_is_heard_again() {
    let mut world = settled();
    let hear = |world: &mut World, silent| {
        let (of, by) = ("gw1".parse().expect("name"), "gw2".parse().expect("name"));
        world.state.apply(Event::Silence { of, by, silent });
    };
    hear(&mut world, true);
    now_at(&mut world, "gw2", "10.0.1.253");
    assert_eq!(world.condition("ns1/demo", "Failover").expect("it is said").reason, "NoStandby");
    // Its pod says that it is ready for most of a minute: nobody fails over to the dead.
    world.change_pod("gw2", |pod| pod.ready = false);
    world.settle();
    assert_eq!(world.main().0.as_deref(), Some("gw2"));
    hear(&mut world, false);
    world.settle();
    assert_eq!(world.main().0.as_deref(), Some("gw1"));
}

#[test]
fn where_kube_ovn_fails_over_itself_no_route_is_touched() {
    let mut world = settled();
    let workload = causeway_core::vpc::objects::Workload {
        gateway: "gw1".parse().expect("name"),
        ready: true,
        subnet: None,
        replicated: true,
    };
    world.state.apply(Event::StatefulSets(Change::Put("gw1".into(), workload)));
    assert_eq!(world.condition("ns1/demo", "Failover").expect("it is said").reason, "KubeOvnFailsOver");
    world.change_pod("gw1", |pod| pod.ready = false);
    world.settle();
    assert_eq!(world.main().1, ["10.0.1.254"]);
}

#[test]
fn a_deleted_tunnel_is_gone_when_both_gateways_were_seen_without_it() {
    let mut world = settled();
    world.delete("ns1/demo");
    world.visit("gw1");
    assert_eq!(world.finalizer("ns1/demo"), causeway_core::vpc::status::Finalizer::Leave);
    world.visit("gw2");
    assert_eq!(world.finalizer("ns1/demo"), causeway_core::vpc::status::Finalizer::Remove);
}

#[test]
fn a_record_without_labels_leads_to_a_vpc_of_that_name_too() {
    let mut world = World::new();
    world.vpc_tunnel("ns1/demo");
    world.forget_record("kube-system/test-vpc-1.cluster2");
    world.settle();
    assert_eq!(world.reason("ns1/demo"), "PeerUnknown");
    // As another operator writes it: nothing says whether the name is a gateway's or a VPC's.
    world.record("cluster2/test-vpc-1", "172.50.16.29", "242.1.0.0/16");
    world.settle();
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
    assert_eq!(
        world.want("gw1").tunnels.values().next().expect("a tunnel").remote,
        std::net::Ipv4Addr::new(172, 50, 16, 29)
    );
}

fn eip(gateway: &str, last: u8) -> Event {
    let eip =
        Eip { gateway: gateway.parse().expect("name"), address: [172, 50, 16, last].into(), created: 1 };
    Event::Eips(Change::Put(format!("eip-{last}"), eip))
}

fn wish(text: &str) -> Option<Switch> {
    Some(Switch::read(text).expect("a wish"))
}

fn everywhere() -> ListedRoute {
    ListedRoute { range: "0.0.0.0/0".parse().ok(), next_hop: Some([10, 0, 1, 254].into()), shared: false }
}

#[test]
fn a_switch_on_purpose_says_what_it_left_behind_until_that_follows() {
    let mut world = settled();
    world.state.apply(eip("gw1", 101));
    world.state.apply(eip("gw2", 102));
    world.change_vpc(|vpc| {
        vpc.listed.push(everywhere());
        vpc.switch = wish("gw2 2026-01-01T00:00:00Z");
    });
    now_at_all(&mut world, "gw2", &["10.0.1.253", "10.0.1.254"]);
    let said = world.condition("ns1/demo", "SwitchedPartly").expect("it is said");
    assert_eq!(said.reason, "RoutesStayed");
    assert_eq!(
        said.message,
        "since the switch to gw2 these routes of VPC test-vpc-1 still lead to gw1 (10.0.1.254): 0.0.0.0/0, where EIPs are \
         (eip-101 172.50.16.101); `causeway vpc switch test-vpc-1 gw2 --all` moves them too, and away from any EIPs"
    );
    // Asked for again, with all: the rest follows, and what cannot is told.
    world.change_vpc(|vpc| vpc.switch = wish("gw2 all 2026-01-01T00:01:00Z"));
    now_at_all(&mut world, "gw2", &["10.0.1.253", "10.0.1.253"]);
    let said = world.condition("ns1/demo", "SwitchedPartly").expect("it is said");
    assert_eq!(said.reason, "AddressesStayed");
    assert!(
        said.message.contains("EIPs stayed on gw1 (10.0.1.254): eip-101 172.50.16.101;"),
        "{}",
        said.message
    );
    world.state.apply(Event::Eips(Change::Gone("eip-101".into())));
    assert_eq!(world.condition("ns1/demo", "SwitchedPartly"), None);
}

#[test]
fn nothing_is_left_behind_by_a_switch_that_had_nothing_to_leave_nor_by_a_loss() {
    let mut world = settled();
    world.change_vpc(|vpc| vpc.switch = wish("gw2 1"));
    now_at(&mut world, "gw2", "10.0.1.253");
    assert_eq!(world.condition("ns1/demo", "SwitchedPartly"), None);
    world.change_vpc(|vpc| {
        vpc.listed.push(ListedRoute { next_hop: Some([10, 0, 1, 253].into()), ..everywhere() });
    });
    world.change_pod("gw2", |pod| pod.ready = false);
    now_at_all(&mut world, "gw1", &["10.0.1.254", "10.0.1.254"]);
    assert_eq!(world.condition("ns1/demo", "SwitchedPartly"), None);
}

#[test]
fn a_wish_that_waited_when_the_main_gateway_was_lost_leaves_nothing_there() {
    let mut world = settled();
    world.change_vpc(|vpc| {
        vpc.listed.push(everywhere());
        vpc.switch = wish("gw2 1");
    });
    // Before anything is written the main one is gone: its routes are of no use to anybody.
    world.change_pod("gw1", |pod| pod.ready = false);
    now_at_all(&mut world, "gw2", &["10.0.1.253", "10.0.1.253"]);
}

#[test]
fn a_route_of_a_tunnel_that_names_the_gateway_is_not_left_behind() {
    let mut world = settled();
    world.tunnel("ns1/pinned", |tunnel| {
        on_gateway(tunnel, "gw1");
        let kind = causeway_core::vpc::TunnelKind::Vxlan { vni: 7, port: 4789 };
        super::world::set(tunnel, kind, "cluster3/gw1");
        tunnel.spec.as_mut().expect("valid").address = "10.101.0.1/24".parse().expect("address");
    });
    world.change_vpc(|vpc| {
        vpc.listed.push(ListedRoute { range: "242.2.0.0/16".parse().ok(), ..everywhere() });
        vpc.switch = wish("gw2 1");
    });
    world.visit("gw2");
    now_at_all(&mut world, "gw2", &["10.0.1.253", "10.0.1.254"]);
    assert_eq!(world.condition("ns1/demo", "SwitchedPartly"), None);
    // Without that tunnel it is one like any other.
    world.delete("ns1/pinned");
    assert!(world.condition("ns1/demo", "SwitchedPartly").is_some());
}

#[test]
fn a_switch_that_makes_no_sense_is_refused_in_a_sentence() {
    let mut world = World::new();
    let refusal = |world: &World, vpc: &str, gateway: &str| {
        world.state.refuses_switch(vpc, &gateway.parse().expect("name"))
    };
    let none = "no tunnel by VPC leads from VPC test-vpc-1";
    assert!(refusal(&world, VPC, "gw2").is_some_and(|why| why.starts_with(none)));
    world.vpc_tunnel("ns1/demo");
    world.settle();
    assert_eq!(refusal(&world, VPC, "gw2"), None);
    let why = refusal(&world, "other", "gw2").expect("it is refused");
    assert_eq!(why, "there is no Vpc other; there is: test-vpc-1");
    let why = refusal(&world, VPC, "gw9").expect("it is refused");
    assert_eq!(why, "there is no gateway gw9; VPC test-vpc-1 has: gw1, gw2");
    for (change, words) in [
        ((|pod| pod.ready = false) as fn(&mut GatewayPod), "gateway gw2 is not ready"),
        (|pod| pod.phase = "Pending".into(), "is Pending"),
        (|pod| pod.router = None, "has no usable annotation ovn.kubernetes.io/gateway"),
        (|pod| pod.lan = None, "has no address in its VPC"),
        (
            |pod| pod.vpc = Some("elsewhere".into()),
            "gateway gw2 is of VPC elsewhere, not of test-vpc-1, which has: gw1",
        ),
    ] {
        world.change_pod("gw2", change);
        let why = refusal(&world, VPC, "gw2").expect("it is refused");
        assert!(why.contains(words), "{why}");
    }
    world.change_pod("gw2", |_| {});
    assert_eq!(refusal(&world, VPC, "gw2"), None);
    let standbys: Vec<String> = world.state.overview(VPC).standbys().map(ToString::to_string).collect();
    assert_eq!(standbys, ["gw2"]);
}

#[test]
fn a_tunnel_that_is_nowhere_keeps_nobody_from_taking_over() {
    let mut world = settled();
    world.vpc_tunnel("ns1/second");
    world.change("ns1/second", |tunnel| {
        let spec = tunnel.spec.as_mut().expect("valid");
        spec.ends =
            Ends::ByVpc { local: VPC.into(), cluster: "cluster9".parse().expect("id"), remote: VPC.into() };
    });
    world.visit("gw1");
    world.visit("gw2");
    world.change_vpc(|vpc| vpc.switch = wish("gw2 1"));
    now_at(&mut world, "gw2", "10.0.1.253");
}

#[test]
fn delete_b_is_remembered_until_somebody_is_ready_to_take_over() {
    let mut world = settled();
    world.change_pod("gw2", |pod| pod.ready = false);
    world.delete_gateway("gw1");
    world.settle();
    assert_eq!(
        world.main().0.as_deref(),
        Some("gw1"),
        "nobody could do better, and its address is remembered"
    );
    world.change_pod("gw2", |_| {});
    now_at(&mut world, "gw2", "10.0.1.253");
}

#[test]
fn without_a_record_what_leads_to_a_gateway_that_is_down_is_moved_too() {
    let mut world = World::new();
    world.change_pod("gw1", |pod| pod.ready = false);
    world.vpc_tunnel("ns1/demo");
    now_at(&mut world, "gw2", "10.0.1.253");
}

#[test]
fn a_contested_id_stops_no_failover() {
    let mut world = settled();
    world.members(&[("cluster1", "ours"), ("cluster1", "another"), ("cluster2", "theirs")]);
    world.change_pod("gw1", |pod| pod.ready = false);
    world.settle();
    assert_eq!(world.main(), (Some("gw2".into()), vec!["10.0.1.253".into()]));
}

#[test]
fn routes_follow_a_main_gateway_to_another_address() {
    let mut world = settled();
    world.change_pod("gw1", |pod| pod.lan = Some([10, 0, 1, 251].into()));
    world.settle();
    assert_eq!(world.main(), (Some("gw1".into()), vec!["10.0.1.251".into()]));
}

#[test]
fn an_old_wish_is_not_granted_because_the_record_was_lost() {
    let mut world = settled();
    world.forget_record("kube-system/test-vpc-1.cluster1");
    world.change_vpc(|vpc| {
        vpc.switch = Some(Switch { text: "gw2".into(), to: "gw2".parse().expect("name"), all: false });
    });
    world.step();
    assert_eq!(world.main().0.as_deref(), Some("gw1"), "where the routes lead");
}

#[test]
fn of_three_only_those_that_listen_can_say_that_one_is_heard() {
    let mut world = settled();
    let name = |text: &str| text.parse().expect("name");
    world.state.apply(Event::Silence { of: name("gw1"), by: name("gw2"), silent: true });
    assert_eq!(seat(&world, "gw2"), Some(Seat::Main));
}
