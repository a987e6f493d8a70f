//! The walk, fact by fact: of two ends that are well one thing is changed, and its hop is named.

use std::net::Ipv4Addr;

use causeway_core::vpc::ends::{PEER_AGREES, SEVERAL_ENDS};
use causeway_core::vpc::have::{Have, Link};
use causeway_core::vpc::objects::{self, Ends, Peer, Tunnel, TunnelSpec};
use causeway_core::vpc::outcome::Hindrance;
use causeway_core::vpc::status::{READY, TunnelStatus};
use causeway_core::vpc::{
    Action, Filter, Inbound, LAN_LINK, Nat, Problem, Route, TunnelKind, TunnelWant, UNDERLAY_LINK, Variant,
    Want, model, plan,
};
use causeway_core::{Condition, Truth};
use causeway_datapath::vpc::{Answers, Echo};

use super::facts::{End, Facts, Far, Held, Leader, Reason, Role, Unlooked, Wanted};
use super::finding::{Finding, Hop, Verdict};
use super::walk::walk;

const NOW: i64 = 1_800_000_000;
const VXLAN: TunnelKind = TunnelKind::Vxlan { vni: 100, port: 4789 };

/// The end of `cluster1` or `cluster2`, all of it as it should be.
fn end(number: u8) -> End {
    let other = 3 - number;
    let peer = Peer {
        cluster: format!("cluster{other}").parse().expect("an id"),
        gateway: "gw1".parse().expect("a gateway"),
    };
    let spec = TunnelSpec {
        link: "demo".parse().expect("a link"),
        kind: VXLAN,
        address: format!("10.100.0.{number}/24").parse().expect("an address"),
        ends: Ends::ByGateway { gateway: "gw1".parse().expect("a gateway"), peer },
    };
    let (own, far) = (format!("242.{number}.0.0/16"), format!("242.{other}.0.0/16"));
    let tunnel = TunnelWant {
        owner: "ns1/demo".parse().expect("a key"),
        kind: VXLAN,
        local: Ipv4Addr::new(172, 50, 16, number),
        remote: Ipv4Addr::new(172, 50, 16, other),
        address: spec.address,
        remote_range: far.parse().expect("a range"),
        egress: format!("242.{number}.0.1-242.{number}.0.8").parse().expect("addresses"),
        own: own.parse().expect("a range"),
        seat: Default::default(),
    };
    let inbound = Some(Inbound { range: tunnel.own, via: Ipv4Addr::new(10, 0, 1, 1) });
    let want = Want { tunnels: [(spec.link.clone(), tunnel.clone())].into(), inbound, ..Want::default() };
    let address = format!("172.50.16.{number}/24").parse().expect("an address");
    let net1 = Link { up: true, mtu: 1500, addresses: vec![address], ..Link::default() };
    let eth0 = Link { up: true, mtu: 1500, ..Link::default() };
    let nat =
        Nat { active: Variant::Nft, postrouting: [(Variant::Nft, Vec::new())].into(), ..Nat::default() };
    let links = [(UNDERLAY_LINK.to_owned(), net1), (LAN_LINK.to_owned(), eth0)].into();
    let mut have = Have { links, nat, ..Have::default() };
    for step in plan(&want, &have).steps {
        model::apply(&mut have, &step.action).expect("it can be done");
    }
    assert!(plan(&want, &have).is_empty(), "nothing is left to do");
    let answers = Answers {
        outside: Echo::Answered(150),
        full: Echo::Answered(160),
        gateway: Echo::Exceeded(Ipv4Addr::new(10, 100, 0, other)),
        router: Echo::Exceeded(Ipv4Addr::new(10, 0, 1, 1)),
        neighbour: Some(true),
        ..Answers::default()
    };
    End {
        cluster: format!("cluster{number}"),
        tunnel: Tunnel {
            key: tunnel.owner.clone(),
            uid: "uid".into(),
            resource_version: "1".into(),
            generation: 1,
            created: 0,
            deleting: false,
            finalizers: Vec::new(),
            abandon: false,
            spec: Ok(spec.clone()),
            status: TunnelStatus::default(),
        },
        trouble: None,
        role: None,
        pod: Some("kube-system/gw1-0".parse().expect("a key")),
        want: Some(Wanted { link: spec.link, tunnel, inbound }),
        held: Some(Ok(Held { have, ..Held::default() })),
        routed: Some(("vpc1".into(), Ipv4Addr::new(10, 0, 1, 254), true)),
        answers: Some(Ok(answers)),
        leader: Leader::Leads,
    }
}

fn both() -> Facts {
    Facts { near: end(1), far: Far::Seen(Box::new(end(2))), target: None, now: NOW }
}

fn far(facts: &mut Facts) -> &mut End {
    match &mut facts.far {
        Far::Seen(far) => far,
        Far::NotGiven | Far::NoneBack { .. } => panic!("it is seen"),
    }
}

fn held(end: &mut End) -> &mut Held {
    end.held.as_mut().expect("looked at").as_mut().expect("with success")
}

fn answers(end: &mut End) -> &mut Answers {
    end.answers.as_mut().expect("asked").as_mut().expect("with success")
}

/// Where the walk ends after a change, in which cluster, and what is found there.
fn last(change: impl FnOnce(&mut Facts)) -> (Hop, String, Verdict, String) {
    let mut facts = both();
    change(&mut facts);
    let Finding { hop, cluster, verdict, found, .. } = walk(&facts).pop().expect("a hop");
    (hop, cluster, verdict, found)
}

#[track_caller]
fn broken_at(hop: Hop, cluster: &str, found: &str, change: impl FnOnce(&mut Facts)) {
    let (last, place, verdict, said) = last(change);
    assert_eq!((last, place.as_str(), verdict), (hop, cluster, Verdict::Broken), "{said}");
    assert!(said.contains(found), "{found:?} in {said:?}");
}

#[test]
fn two_ends_that_are_well_are_walked_to_the_last_hop() {
    assert!(walk(&both()).iter().all(|hop| hop.verdict == Verdict::Ok), "{:?}", walk(&both()));
    let alone = Facts { far: Far::NotGiven, ..both() };
    let unseen: Vec<Hop> =
        walk(&alone).iter().filter(|hop| hop.verdict == Verdict::Unseen).map(|it| it.hop).collect();
    assert_eq!(unseen, [Hop::Peer], "what cannot be seen from here is said");
}

#[test]
fn an_answer_of_the_peers_gateway_proves_nothing_behind_it() {
    let silent = |facts: &mut Facts| {
        if let Some(Ok(answers)) = &mut facts.near.answers {
            answers.router = Echo::Silent;
        }
    };
    let (hop, _, verdict, _) = last(silent);
    assert_eq!((hop, verdict), (Hop::Far, Verdict::Unseen));
    broken_at(Hop::Far, "cluster2", "who did before", |facts| {
        silent(facts);
        facts.near.tunnel.status.answered_behind = true;
    });
}

#[test]
fn objects_and_records_come_first() {
    let says = |reason: &str| Some(Reason { reason: reason.into(), message: "why".into() });
    for (reason, hop) in [
        ("InvalidSpec", Hop::Object),
        ("VniConflict", Hop::Object),
        ("ClusterIncomplete", Hop::Object),
        ("PeerUnknown", Hop::Record),
        ("RangeOverlap", Hop::Record),
        ("GatewayNotRunning", Hop::Gateway),
        ("SomethingNew", Hop::Object),
    ] {
        broken_at(hop, "cluster1", "why", |facts| {
            facts.near = End { trouble: says(reason), want: None, held: None, answers: None, ..end(1) };
        });
        broken_at(hop, "cluster2", "why", |facts| {
            *far(facts) = End { trouble: says(reason), want: None, held: None, answers: None, ..end(2) };
        });
    }
    // What cannot be seen from here, the object says.
    for (reason, hop) in [
        ("ClusterIdTaken", Hop::Object),
        ("NamespaceNotAllowed", Hop::Object),
        ("PeerIdContested", Hop::Record),
    ] {
        broken_at(hop, "cluster1", "why", |facts| {
            facts.near.tunnel.status.conditions.set(READY, false, reason, "why".into(), 1);
        });
        let (last, ..) = last(|facts| {
            facts.near.tunnel.status.conditions.set(READY, true, reason, "why".into(), 1);
        });
        assert_eq!(last, Hop::Far, "{reason} of one that is up");
    }
    broken_at(Hop::Object, "cluster1", "being deleted", |facts| facts.near.tunnel.deleting = true);
    broken_at(Hop::Record, "cluster1", "172.50.16.2 with", |facts| {
        far(facts).want.as_mut().expect("wanted").tunnel.local = Ipv4Addr::new(172, 50, 16, 9);
    });
}

#[test]
fn a_gateway_that_refuses_is_broken_and_one_that_may_not_be_asked_is_unseen() {
    let refused = |is_ours| Some(Err(Unlooked { is_ours, message: "no".into() }));
    broken_at(Hop::Gateway, "cluster1", "no", |facts| facts.near.held = refused(false));
    let (hop, _, verdict, _) = last(|facts| {
        facts.near = End { held: refused(true), answers: None, ..end(1) };
        facts.far = Far::NotGiven;
    });
    assert_ne!((hop, verdict), (Hop::Gateway, Verdict::Broken));
}

/// Makes an end one by VPC, whose record names a gateway.
fn by_vpc(end: &mut End, recorded: Option<&str>) {
    let cluster = end.tunnel.spec.as_ref().expect("a spec").ends.far().cluster().clone();
    let ends = Ends::ByVpc { local: "blue".into(), cluster, remote: "blue".into() };
    end.tunnel.spec.as_mut().expect("a spec").ends = ends;
    let name = |text: &str| text.parse().expect("a name");
    end.role = Some(Role {
        vpc: "blue".into(),
        main: name("gw1"),
        recorded: recorded.map(name),
        unfit: None,
        standbys: vec![name("gw2")],
    });
}

#[test]
fn a_tunnel_by_vpc_is_walked_through_the_gateway_that_its_record_names() {
    let mut facts = both();
    by_vpc(&mut facts.near, Some("gw1"));
    by_vpc(far(&mut facts), Some("gw1"));
    let findings = walk(&facts);
    assert!(findings.iter().all(|hop| hop.verdict == Verdict::Ok), "{findings:?}");
    let gateway = findings.iter().find(|finding| finding.hop == Hop::Gateway).expect("the hop");
    assert_eq!(gateway.expected, "main gateway gw1 of VPC blue that runs commands");
    assert_eq!(gateway.found, "pod kube-system/gw1-0; gw2 would take over");
    broken_at(Hop::Gateway, "cluster1", "the record of VPC blue names gw2, and not gw1", |facts| {
        by_vpc(&mut facts.near, Some("gw2"));
    });
    broken_at(Hop::Gateway, "cluster2", "no record names the main gateway of VPC blue", |facts| {
        by_vpc(far(facts), None);
    });
    broken_at(Hop::Record, "cluster1", "why", |facts| {
        by_vpc(&mut facts.near, Some("gw1"));
        let trouble = Some(Reason { reason: "PeerUnknown".into(), message: "why".into() });
        facts.near = End { trouble, want: None, held: None, answers: None, ..facts.near.clone() };
    });
}

#[test]
fn what_a_controller_would_do_tells_the_hop() {
    let link = || "demo".parse().expect("a link");
    for (action, hop) in [
        (Action::LinkUp { link: link() }, Hop::Link),
        (Action::ProxyArp { link: link(), on: true }, Hop::Link),
        (Action::LinkMtu { link: link(), mtu: 1450 }, Hop::Mtu),
        (Action::NatDel { variant: Variant::Nft, spec: String::new() }, Hop::Nat),
        (Action::Forward, Hop::Forward),
    ] {
        for cluster in ["cluster1", "cluster2"] {
            broken_at(hop, cluster, "", |facts| {
                let end = if cluster == "cluster1" { &mut facts.near } else { far(facts) };
                held(end).steps.push(action.clone());
            });
        }
    }
    broken_at(Hop::Link, "cluster1", "link demo, which is not Causeway's", |facts| {
        held(&mut facts.near).problem = Some(Problem::NameTaken { link: "demo".into() });
    });
    let clamp = Action::ClampAll { variant: Variant::Nft };
    let (hop, ..) = last(|facts| held(&mut facts.near).steps.push(clamp));
    assert_eq!(hop, Hop::Far, "a tunnel works without");
}

#[test]
fn both_ends_must_mean_the_same() {
    broken_at(Hop::Peer, "cluster2", "vxlan 101", |facts| {
        far(facts).tunnel.spec.as_mut().expect("a spec").kind = TunnelKind::Vxlan { vni: 101, port: 4789 };
    });
    for address in ["10.100.0.1/24", "10.101.0.2/24"] {
        broken_at(Hop::Peer, "cluster2", address, |facts| {
            far(facts).tunnel.spec.as_mut().expect("a spec").address = address.parse().expect("an address");
        });
    }
    broken_at(Hop::Peer, "cluster2", "no tunnel of cluster2", |facts| {
        let to =
            Peer { cluster: "cluster1".parse().expect("an id"), gateway: "gw1".parse().expect("a name") };
        facts.far = Far::NoneBack { cluster: "cluster2".into(), to: objects::Far::Gateway(to) };
    });
    broken_at(Hop::Peer, "cluster2", "leads from that VPC to cluster1/blue", |facts| {
        let to = objects::Far::Vpc { cluster: "cluster1".parse().expect("an id"), vpc: "blue".into() };
        facts.far = Far::NoneBack { cluster: "cluster2".into(), to };
    });
    broken_at(Hop::Peer, "cluster1", "VXLAN 101", |facts| {
        facts.far = Far::NotGiven;
        let said = "this end is VXLAN 101, cluster2/gw1 says 100".to_owned();
        facts.near.tunnel.status.conditions.set(PEER_AGREES, false, "PeerMismatch", said, 1);
    });
    let mut several = Facts { far: Far::NotGiven, ..both() };
    let conditions = &mut several.near.tunnel.status.conditions;
    conditions.set(
        PEER_AGREES,
        Truth::Unknown,
        SEVERAL_ENDS,
        "a.b.cluster2 fits; c.d.cluster2 does not".into(),
        1,
    );
    let findings = walk(&several);
    let peer = findings.iter().find(|finding| finding.hop == Hop::Peer).expect("the hop");
    assert_eq!(peer.verdict, Verdict::Unseen);
    assert!(peer.found.contains("a.b.cluster2 fits"), "{peer:?}");
}

#[test]
fn silence_is_told_by_how_far_packets_get() {
    let silent = |answers: &mut Answers, outside: Echo| {
        *answers = Answers { neighbour: Some(false), gateway: Echo::Silent, outside, ..answers.clone() };
    };
    broken_at(Hop::Underlay, "cluster1", "itself answers pings", |facts| {
        silent(answers(&mut facts.near), Echo::Answered(100));
    });
    broken_at(Hop::Underlay, "cluster1", "no way", |facts| {
        silent(answers(&mut facts.near), Echo::Refused("Destination Host Unreachable".into()));
    });
    broken_at(Hop::Underlay, "cluster1", "neither a ping", |facts| {
        silent(answers(&mut facts.near), Echo::Silent);
    });
    broken_at(Hop::Underlay, "cluster1", "the gateway drops", |facts| {
        silent(answers(&mut facts.near), Echo::Silent);
        let filter = Filter::read([":INPUT DROP"]);
        held(&mut facts.near).have.nat.filter.insert(Variant::Nft, filter);
    });
    broken_at(Hop::Underlay, "cluster1", "ARP switched off", |facts| {
        silent(answers(&mut facts.near), Echo::Silent);
        held(&mut facts.near).have.links.get_mut(UNDERLAY_LINK).expect("it").arp_off = true;
    });
    broken_at(Hop::Underlay, "cluster1", "is down", |facts| {
        held(&mut facts.near).have.links.get_mut(UNDERLAY_LINK).expect("it").up = false;
    });
    broken_at(Hop::Mtu, "cluster1", "only 1400", |facts| {
        answers(&mut facts.near).full = Echo::TooLong(Some(1400));
    });
    broken_at(Hop::Forward, "cluster2", "-P FORWARD DROP", |facts| {
        let (from, to, by) = ("eth0".into(), "demo".into(), "-P FORWARD DROP".into());
        held(far(facts)).hindrance = Some(Hindrance::Stopped { from, to, by });
    });
    broken_at(Hop::Forward, "cluster1", "242.2.1.0/24", |facts| {
        let (range, protocol) = ("242.2.1.0/24".parse().expect("a range"), 3);
        let route = Route { range, via: None, dev: None, protocol, metric: 0 };
        held(&mut facts.near).hindrance = Some(Hindrance::Led(route));
    });
    for (way, found) in [("", "go nowhere"), ("net1", "go by net1")] {
        broken_at(Hop::Forward, "cluster1", found, |facts| answers(&mut facts.near).way = Some(way.into()));
    }
    broken_at(Hop::Vpc, "cluster1", "no static route", |facts| {
        facts.near.routed.as_mut().expect("known").2 = false;
    });
}

#[test]
fn what_lies_behind_the_peer_is_told_by_who_was_the_last_to_answer() {
    let ask = |facts: &mut Facts, target: Echo, router: Echo| {
        facts.target = Some(Ipv4Addr::new(242, 2, 1, 20));
        (answers(&mut facts.near).target, answers(&mut facts.near).router) = (target, router);
    };
    let router = || Echo::Exceeded(Ipv4Addr::new(10, 0, 1, 1));
    let (hop, _, verdict, found) = last(|facts| ask(facts, Echo::Answered(1234), router()));
    assert_eq!((hop, verdict, found.as_str()), (Hop::Far, Verdict::Ok, "after 1.234 ms"));
    broken_at(Hop::Far, "cluster2", "10.0.1.1, the router", |facts| ask(facts, Echo::Silent, router()));
    broken_at(Hop::Far, "cluster2", "nobody behind it", |facts| ask(facts, Echo::Silent, Echo::Silent));
    broken_at(Hop::Far, "cluster2", "passes nothing on", |facts| {
        ask(facts, Echo::Silent, Echo::Silent);
        answers(&mut facts.near).gateway = Echo::Silent;
    });
}

#[test]
fn what_an_end_says_of_itself_is_not_passed_over_where_no_hop_shows_why() {
    let says = |end: &mut End, truth: Truth, seconds: i64| {
        let condition = Condition {
            kind: READY.into(),
            status: truth,
            reason: "SilentBehindPeer".into(),
            message: "nobody answers".into(),
            observed_generation: Some(1),
            since: Some(NOW - seconds),
        };
        end.tunnel.status.conditions = [condition].into_iter().collect();
    };
    for (truth, seconds, found) in [
        (Truth::False, 45, "Ready=False for 45 s: SilentBehindPeer: nobody answers"),
        (Truth::Unknown, 600, "Ready=Unknown for 10 min: SilentBehindPeer: nobody answers"),
        (Truth::False, -5, "Ready=False for 0 s: "),
        (Truth::False, 86_400, "Ready=False for 24 h: "),
    ] {
        broken_at(Hop::Far, "cluster2", found, |facts| says(far(facts), truth, seconds));
        broken_at(Hop::Far, "cluster1", found, |facts| says(&mut facts.near, truth, seconds));
        broken_at(Hop::Far, "cluster1", found, |facts| {
            facts.far = Far::NotGiven;
            says(&mut facts.near, truth, seconds);
        });
    }
    // Whichever end it is, the walk to try is the one that begins at the other.
    for is_near in [true, false] {
        let mut facts = both();
        says(if is_near { &mut facts.near } else { far(&mut facts) }, Truth::False, 1);
        let last = walk(&facts).pop().expect("a hop");
        assert!(last.remedy.is_some_and(|remedy| remedy.contains("of cluster2 first")), "{is_near}");
    }
    let mut asked = Facts { target: Some(Ipv4Addr::new(242, 2, 1, 20)), ..both() };
    answers(&mut asked.near).target = Echo::Answered(100);
    says(&mut asked.near, Truth::False, 1);
    let last_of_asked = walk(&asked).pop().expect("a hop");
    assert!(last_of_asked.remedy.is_some_and(|remedy| remedy.contains("without --to")));
    broken_at(Hop::Far, "cluster2", "no controller is there", |facts| {
        says(far(facts), Truth::False, 1);
        far(facts).leader = Leader::Nobody("nobody leads".into());
    });
    // A hop that shows why comes first; an end that is ready is no finding.
    broken_at(Hop::Nat, "cluster1", "", |facts| {
        says(far(facts), Truth::False, 1);
        held(&mut facts.near).steps.push(Action::NatDel { variant: Variant::Nft, spec: String::new() });
    });
    let (_, _, verdict, _) = last(|facts| {
        says(far(facts), Truth::True, 1);
        says(&mut facts.near, Truth::True, 1);
    });
    assert_eq!(verdict, Verdict::Ok);
}
