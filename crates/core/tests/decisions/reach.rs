//! Ready means packets: what is said of a tunnel that has all it needs, by what its peer answers, and while something
//! cannot be known.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{World, key};
use causeway_core::condition::{Condition, Truth};
use causeway_core::names::HostAddr;
use causeway_core::vpc::objects::Ends;
use causeway_core::vpc::status::{LAST_KNOWN, PROGRAMMED, REACHABLE, READY};
use causeway_core::vpc::{Change, Event, Filter, Have, Link, Near, Route, Scope, Trouble};

const YES: Near = Near::Answered(Some(800));

/// A world with a tunnel that was built and not asked yet.
fn built() -> World {
    let mut world = World::new();
    world.tunnel("ns1/demo", |_| {});
    world.build("gw1");
    world
}

/// The same, up, and its status written.
fn up() -> World {
    let mut world = built();
    world.probe("gw1", YES, Some(true));
    world.write("ns1/demo");
    world
}

fn condition(world: &World, kind: &str) -> (Truth, String) {
    let status = world.status("ns1/demo").expect("a status");
    let Condition { status, reason, .. } = status.conditions.get(kind).expect("a condition").clone();
    (status, reason)
}

fn says(world: &World, kind: &str, truth: Truth, reason: &str) {
    assert_eq!(condition(world, kind), (truth, reason.into()));
}

#[test]
fn a_tunnel_is_ready_only_when_its_peer_has_answered() {
    let mut world = built();
    says(&world, READY, Truth::Unknown, "Probing");
    says(&world, PROGRAMMED, Truth::True, "InPlace");
    world.write("ns1/demo");
    world.probe("gw1", Near::Silent, None);
    assert_eq!(world.status("ns1/demo"), None, "there is nothing to add");
    assert!(world.probe("gw1", Near::Silent, None).is_empty(), "the other end may come up in a moment");
    assert_eq!(world.probe("gw1", Near::Silent, None), [Scope::Tunnel(key("ns1/demo"))].into());
    says(&world, READY, Truth::False, "PeerSilent");
    says(&world, PROGRAMMED, Truth::True, "InPlace");
    world.probe("gw1", YES, Some(true));
    world.probe("gw1", YES, Some(true));
    says(&world, READY, Truth::True, "Up");
    says(&world, REACHABLE, Truth::True, "Answered");
}

#[test]
fn a_peer_that_cannot_be_asked_is_taken_at_its_word_and_that_is_said() {
    let mut world = built();
    (0..3).for_each(|_| drop(world.probe("gw1", Near::NotAsked, None)));
    says(&world, READY, Truth::True, "Up");
    says(&world, REACHABLE, Truth::Unknown, "NotAsked");
    let mut world = up();
    world.state.apply(Event::Unheard("gw1".parse().expect("name"), "u1".into()));
    says(&world, REACHABLE, Truth::Unknown, "Unheard");
    says(&world, READY, Truth::Unknown, "Unheard");
    // What is heard next is the first of it.
    world.write("ns1/demo");
    world.probe("gw1", Near::Silent, None);
    assert_eq!(world.status("ns1/demo"), None, "no answer that never came");
    (0..2).for_each(|_| drop(world.probe("gw1", Near::Silent, None)));
    says(&world, READY, Truth::False, "PeerSilent");
    let mut silent = built();
    (0..3).for_each(|_| drop(silent.probe("gw1", Near::Silent, None)));
    (0..9).for_each(|_| drop(silent.probe("gw1", Near::NotAsked, None)));
    says(&silent, READY, Truth::False, "PeerSilent");
}

#[test]
fn what_lies_behind_the_peer_is_missed_also_by_a_controller_that_came_later() {
    let mut world = up();
    world.state.apply(Event::TermEnded);
    world.build("gw1");
    world.probe("gw1", YES, Some(false));
    says(&world, READY, Truth::True, "Up");
    (0..2).for_each(|_| drop(world.probe("gw1", YES, Some(false))));
    says(&world, READY, Truth::False, "SilentBehindPeer");
    // Nor does another pod of the gateway forget it.
    world.write("ns1/demo");
    world.fail("gw1", Trouble::ToolMissing("ip".into()));
    world.write("ns1/demo");
    world.new_pod("gw1");
    world.build("gw1");
    (0..3).for_each(|_| drop(world.probe("gw1", YES, Some(false))));
    says(&world, READY, Truth::False, "SilentBehindPeer");
}

#[test]
fn answers_to_questions_from_before_a_change_do_not_count() {
    let mut world = up();
    world.change("ns1/demo", |tunnel| {
        tunnel.generation = 2;
        tunnel.spec.as_mut().expect("valid").kind =
            causeway_core::vpc::TunnelKind::Vxlan { vni: 7, port: 4789 };
    });
    world.build_under(1, "gw1");
    assert!(world.probe_under(0, "gw1", YES, None).is_empty(), "the link of before answered");
    says(&world, READY, Truth::True, "Up");
    world.write("ns1/demo");
    assert_eq!(world.status("ns1/demo"), None, "the new one was not heard of");
    world.probe_under(1, "gw1", Near::Silent, None);
    assert_eq!(world.status("ns1/demo"), None, "what was said stays for a moment");
    (0..3).for_each(|_| drop(world.probe_under(1, "gw1", Near::Silent, None)));
    says(&world, READY, Truth::False, "PeerSilent");
}

#[test]
fn a_gateway_that_passes_nothing_on_has_no_tunnel_that_is_ready() {
    let accepts = "-A FORWARD -i eth0 -j ACCEPT";
    let back = "-A FORWARD -o eth0 -j ACCEPT";
    for (lines, dropped) in [
        (vec![":FORWARD DROP"], true),
        (vec![], false),
        (vec![":FORWARD DROP", accepts], true),
        (vec![":FORWARD DROP", accepts, back], false),
        (vec!["-A FORWARD -o demo -j DROP"], true),
        (vec!["-A FORWARD -i demo -j DROP"], true),
        (vec!["-A FORWARD -o other -j DROP"], false),
        (vec!["-A FORWARD -d 242.1.0.0/16 -j DROP"], true),
        (vec!["-A FORWARD -s 242.1.0.0/16 -j DROP"], true),
        (vec!["-A FORWARD -d 242.1.9.0/24 -j DROP"], false),
        (vec!["-A FORWARD -j SOMEBODYS", "-A SOMEBODYS -j DROP"], true),
    ] {
        let mut world = World::new();
        world.tunnel("ns1/demo", |_| {});
        world.gateway_has("gw1", |have| {
            have.nat.filter.insert(have.nat.active, Filter::read(lines.iter().copied()));
        });
        world.visit("gw1");
        let ready = if dropped { (Truth::False, "ForwardDropped") } else { (Truth::True, "Up") };
        assert_eq!(condition(&world, READY), (ready.0, ready.1.into()), "{lines:?}");
    }
}

#[test]
fn who_does_not_hear_its_own_echoes_blames_nobody() {
    for (line, deaf) in [
        ("-A INPUT -i demo -j DROP", true),
        ("-A OUTPUT -o demo -j DROP", true),
        ("-A OUTPUT -p icmp -j DROP", true),
        ("-A OUTPUT -p tcp -j DROP", false),
        ("-A INPUT -i other -j DROP", false),
    ] {
        let mut world = up();
        world.gateway_has("gw1", |have| {
            have.nat.filter.insert(have.nat.active, Filter::read([line]));
        });
        world.build("gw1");
        (0..3).for_each(|_| drop(world.probe("gw1", YES, Some(false))));
        let ready = if deaf { (Truth::True, "Up") } else { (Truth::False, "SilentBehindPeer") };
        assert_eq!(condition(&world, READY), (ready.0, ready.1.into()), "{line}");
        if deaf {
            says(&world, REACHABLE, Truth::True, "PeerAnswered");
        }
    }
}

#[test]
fn a_route_of_somebody_to_a_part_of_the_range_takes_nothing_away_and_is_told() {
    let mut world = up();
    let before = world.want("gw1").tunnels;
    let foreign = |range: &str, dev: Option<&str>| Route {
        range: range.parse().expect("a range"),
        via: None,
        dev: dev.map(Into::into),
        protocol: 3,
        metric: 0,
    };
    for (route, told) in [
        (foreign("242.1.7.0/24", None), true),
        (foreign("242.1.7.9/32", Some("net1")), true),
        (foreign("242.2.7.0/24", None), false),
        (foreign("242.0.7.0/24", None), true),
        (foreign("242.0.7.0/24", Some("eth0")), false),
        (foreign("242.0.0.0/8", None), false),
        (foreign("242.1.7.0/24", Some("demo")), false),
    ] {
        world.gateway_has("gw1", |have| have.routes.push(route.clone()));
        world.visit("gw1");
        let ready = if told { (Truth::False, "RoutedElsewhere") } else { (Truth::True, "Up") };
        assert_eq!(condition(&world, READY), (ready.0, ready.1.into()), "{route}");
        says(&world, PROGRAMMED, Truth::True, "InPlace");
        assert_eq!(world.want("gw1").tunnels, before, "{route}");
        world.gateway_has("gw1", |have| have.routes.retain(|it| *it != route));
        world.visit("gw1");
        says(&world, READY, Truth::True, "Up");
    }
}

#[test]
fn what_cannot_be_known_is_what_was_last_known_and_that_is_said() {
    type Doubt = (&'static str, &'static dyn Fn(&mut World));
    let doubts: [Doubt; 4] = [
        ("PeerUnknown", &|world| world.forget_record("kube-system/gw1-cluster2")),
        ("PeerInvalid", &|world| {
            world.change_record("kube-system/gw1-cluster2", |record| record.external_ip = "nowhere".into());
        }),
        ("RangeOverlap", &|world| {
            world.change_record("kube-system/gw1-cluster2", |record| record.globalnet = "242.0.0.0/8".into());
        }),
        ("ClusterIdTaken", &|world| world.members(&[("cluster1", "ours"), ("cluster1", "a-thief")])),
    ];
    for (reason, doubt) in doubts {
        let mut world = up();
        let before = world.want("gw1").tunnels;
        doubt(&mut world);
        assert_eq!(world.want("gw1").tunnels, before, "{reason}");
        assert!(world.want("gw1").inbound.is_some(), "{reason}");
        world.visit("gw1");
        says(&world, READY, Truth::True, "Up");
        says(&world, LAST_KNOWN, Truth::True, reason);
        // Also on a gateway that has lost everything.
        world.new_pod("gw1");
        assert_eq!(world.want("gw1").tunnels, before, "{reason}");
        world.visit("gw1");
        world.write("ns1/demo");
        says(&world, READY, Truth::True, "Up");
        assert_eq!(world.want("gw1").tunnels, before, "what is last known stays what it is: {reason}");
    }
    let mut world = up();
    world.forget_record("kube-system/gw1-cluster2");
    world.record("cluster2/gw1", "172.50.16.21", "242.1.0.0/16");
    world.visit("gw1");
    assert!(world.status("ns1/demo").expect("a status").conditions.get(LAST_KNOWN).is_none());
}

#[test]
fn a_peer_that_claims_what_is_anothers_is_what_was_last_known_also_on_a_gateway_that_lost_everything() {
    let claims = [
        ("172.50.16.21", "127.0.0.0/8", "AddressConflict"),
        ("172.50.16.21", "10.0.1.0/24", "RouteTaken"),
        ("172.50.16.21", "172.50.16.0/24", "AddressConflict"),
        ("10.0.1.10", "242.1.0.0/16", "AddressConflict"),
        ("127.0.0.1", "242.1.0.0/16", "AddressConflict"),
    ];
    for (address, range, reason) in claims {
        let mut world = up();
        world.gateway_has("gw1", connected);
        world.visit("gw1");
        let before = links(&world);
        world.change_record("kube-system/gw1-cluster2", |record| {
            (record.external_ip, record.globalnet) = (address.into(), range.into());
        });
        world.visit("gw1");
        assert_eq!(links(&world), before, "{address} {range}");
        says(&world, READY, Truth::True, "Up");
        says(&world, LAST_KNOWN, Truth::True, reason);
        world.write("ns1/demo");
        world.new_pod("gw1");
        world.gateway_has("gw1", connected);
        world.visit("gw1");
        world.write("ns1/demo");
        assert_eq!(links(&world), before, "{address} {range}: after it lost everything");
        says(&world, LAST_KNOWN, Truth::True, reason);
        says(&world, READY, Truth::True, "Up");

        // What makes sense again counts again.
        world.change_record("kube-system/gw1-cluster2", |record| {
            (record.external_ip, record.globalnet) = ("172.50.16.22".into(), "242.7.0.0/16".into());
        });
        world.visit("gw1");
        assert!(world.status("ns1/demo").expect("a status").conditions.get(LAST_KNOWN).is_none());
        assert_ne!(links(&world), before);
    }
}

/// What the gateway has of ours: its links, and where its routes lead.
fn links(world: &World) -> (BTreeMap<String, Link>, BTreeSet<String>) {
    let have = world.have("gw1");
    let links = have.links.iter().filter(|(_, link)| link.is_ours());
    let routes = have.routes.iter().filter(|route| route.is_ours()).map(ToString::to_string);
    (links.map(|(name, link)| (name.clone(), link.clone())).collect(), routes.collect())
}

/// The gateway's own net and its VPC's.
fn connected(have: &mut Have) {
    for (address, dev) in [("10.0.1.254/24", "eth0"), ("172.50.16.11/24", "net1")] {
        let address: HostAddr = address.parse().expect("an address");
        have.links.entry(dev.into()).or_default().addresses = vec![address];
        let (range, dev) = (address.network(), Some(dev.into()));
        have.routes.push(Route { range, via: None, dev, protocol: 2, metric: 0 });
    }
}

#[test]
fn what_was_known_of_one_peer_is_not_what_is_known_of_another() {
    let mut world = up();
    world.change("ns1/demo", |tunnel| {
        if let Ends::ByGateway { peer, .. } = &mut tunnel.spec.as_mut().expect("valid").ends {
            peer.gateway = "gw9".parse().expect("name");
        }
    });
    assert_eq!(world.reason("ns1/demo"), "PeerUnknown");
    world.write("ns1/demo");
    assert_eq!(world.reason("ns1/demo"), "PeerUnknown", "nothing was ever known of it");
    assert!(world.want("gw1").tunnels.is_empty());
}

#[test]
fn a_look_that_fails_says_nothing_of_what_worked() {
    for trouble in [
        Trouble::ExecRefused("not now".into()),
        Trouble::ExecTimedOut(10),
        Trouble::CommandFailed("it cannot be read".into()),
    ] {
        let mut world = up();
        let reason = trouble.reason();
        world.fail("gw1", trouble.clone());
        says(&world, READY, Truth::Unknown, reason);
        says(&world, REACHABLE, Truth::Unknown, reason);
        world.write("ns1/demo");
        world.fail("gw1", trouble.clone());
        assert_eq!(world.status("ns1/demo"), None, "said once");
        world.build("gw1");
        says(&world, READY, Truth::True, "Up");

        let mut never_up = World::new();
        never_up.tunnel("ns1/demo", |_| {});
        never_up.fail("gw1", trouble);
        says(&never_up, READY, Truth::False, reason);
    }
    let mut without_tools = up();
    without_tools.fail("gw1", Trouble::ToolMissing("ip".into()));
    says(&without_tools, READY, Truth::False, "ToolMissing");
}

#[test]
fn histories_of_failing_looks_never_make_a_tunnel_unready_while_packets_cross() {
    let mut world = up();
    for round in 0..50 {
        match round % 7 {
            0 | 3 => world.fail("gw1", Trouble::ExecTimedOut(10)),
            5 => drop(world.state.apply(Event::Nodes(Change::Gone("n9".into())))),
            _ => world.build("gw1"),
        }
        world.probe("gw1", YES, Some(true));
        let (truth, _) = condition(&world, READY);
        assert_ne!(truth, Truth::False, "in round {round}");
        world.write("ns1/demo");
    }
}
