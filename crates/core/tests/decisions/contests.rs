//! What is believed of a cluster whose id another claims too.

use causeway_core::vpc::exchange::{self, RecordTask};
use causeway_core::vpc::member::{Member, Renewal, membership};
use causeway_core::vpc::moves::peer_moved;
use causeway_core::vpc::status::LAST_KNOWN;
use causeway_core::vpc::{Change, Event, Scope, TunnelKind};
use proptest::prelude::*;

use crate::world::{World, key, set};

const ALONE: &[(&str, &str)] = &[("cluster1", "ours"), ("cluster2", "theirs")];
const CONTESTED: &[(&str, &str)] = &[("cluster1", "ours"), ("cluster2", "theirs"), ("cluster2", "a-thief")];
const RECORD: &str = "kube-system/gw1-cluster2";

/// A tunnel to cluster2 that is up and says so.
fn joined() -> World {
    let mut world = World::new();
    world.empty_broker();
    world.tunnel("ns1/demo", |_| {});
    world.visit("gw1");
    world.write("ns1/demo");
    world
}

#[test]
fn while_two_claim_a_peers_id_its_tunnels_stay_as_they_were_built_and_name_both_claims() {
    let mut world = joined();
    let before = world.want("gw1").tunnels;
    world.members(CONTESTED);
    world.record("cluster2/gw1", "172.50.16.66", "242.66.0.0/16");
    assert_eq!(world.want("gw1").tunnels, before, "another's address may be anybody's");
    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    let said = status.conditions.get(LAST_KNOWN).expect("it is said");
    assert_eq!(said.reason, "PeerIdContested");
    for lease in ["causeway.cluster2.theirs", "causeway.cluster2.a-thief"] {
        assert!(said.message.contains(lease), "{}", said.message);
    }
    assert_eq!(world.reason("ns1/demo"), "Up");
    world.write("ns1/demo");

    // When it is settled the record counts as it is then, and that is news.
    world.members(ALONE);
    let known = world.state.tunnel(&key("ns1/demo")).expect("it").status.clone();
    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    assert_eq!(status.conditions.get(LAST_KNOWN), None);
    let moved = peer_moved(&known, &status).expect("it moved");
    assert!(moved.contains("from 172.50.16.21 to 172.50.16.66"), "{moved}");
}

#[test]
fn a_gateway_that_restarts_meanwhile_is_built_as_before() {
    let mut world = joined();
    let before = world.want("gw1").tunnels;
    world.members(CONTESTED);
    world.record("cluster2/gw1", "172.50.16.66", "242.66.0.0/16");
    world.new_pod("gw1");
    assert_eq!(world.want("gw1").tunnels, before);
}

#[test]
fn no_tunnel_is_begun_to_an_id_that_two_claim() {
    let mut world = World::new();
    world.members(CONTESTED);
    world.tunnel("ns1/demo", |_| {});
    world.tunnel("ns1/other", |tunnel| {
        set(tunnel, TunnelKind::Vxlan { vni: 7, port: 4789 }, "cluster3/gw1");
    });
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "PeerIdContested");
    assert_eq!(world.reason("ns1/other"), "Up", "who claims nothing is contested by nobody");
    assert_eq!(world.want("gw1").tunnels.len(), 1);
    world.members(ALONE);
    world.visit("gw1");
    assert_eq!(world.reason("ns1/demo"), "Up");
}

#[test]
fn where_people_wrote_themselves_where_a_peer_is_nobodys_claim_counts() {
    let mut world = joined();
    world.change_record(RECORD, |record| {
        (record.origin, record.origin_namespace) = (None, None);
        record.external_ip = "172.50.16.29".into();
    });
    world.members(CONTESTED);
    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    assert_eq!(
        (status.remote_ip.as_deref(), status.conditions.get(LAST_KNOWN)),
        (Some("172.50.16.29"), None)
    );
}

#[test]
fn nothing_is_brought_nor_let_go_under_an_id_that_two_claim_or_before_that_is_known() {
    let mut world = joined();
    let import = |world: &World, of: &str| exchange::import(&world.state, &key(of));
    world.copy("cluster2/gw1", "172.50.16.66");
    world.copy("cluster2/gw7", "172.50.16.67");
    assert!(matches!(import(&world, RECORD), RecordTask::Update { .. }));
    assert!(matches!(import(&world, "kube-system/gw2-cluster2"), RecordTask::Delete(..)));
    assert!(matches!(import(&world, "kube-system/gw7-cluster2"), RecordTask::Create(_)));
    let all = [RECORD, "kube-system/gw2-cluster2", "kube-system/gw7-cluster2"];
    world.members(CONTESTED);
    for record in all {
        assert_eq!(import(&world, record), RecordTask::Nothing, "{record}");
    }
    assert!(
        matches!(import(&world, "kube-system/gw1-cluster3"), RecordTask::Delete(..)),
        "another's business"
    );
    // The right to see who claims what is no end of it.
    world.state.apply(Event::NoMembers);
    assert_eq!(import(&world, RECORD), RecordTask::Nothing);

    let touched = world.state.apply(Event::Members(Change::Gone("causeway.cluster2.a-thief".into())));
    for record in all {
        assert_ne!(import(&world, record), RecordTask::Nothing, "{record}");
        let scope = Scope::Import("cluster2".parse().expect("an id"), key(record));
        assert!(touched.contains(&scope), "{record}: {touched:?}");
    }

    let mut starting = World::new();
    starting.state.apply(Event::Joining("submariner-k8s-broker".into()));
    starting.empty_broker();
    starting.copy("cluster2/gw1", "172.50.16.66");
    assert_eq!(import(&starting, RECORD), RecordTask::Nothing, "who claims what is not known yet");
    starting.state.apply(Event::NoMembers);
    assert!(
        matches!(import(&starting, RECORD), RecordTask::Update { .. }),
        "nobody can claim anything there"
    );
}

#[test]
fn a_claim_that_looks_old_to_who_has_just_begun_to_watch_may_be_renewed_all_the_while() {
    let read = |at: i64| {
        let claim = |cluster: &str, uid: &str, renewed: i64| {
            let member = Member { cluster: cluster.parse().expect("an id"), uid: uid.into() };
            (member.name(), Renewal { member, renewed, lasts: 360, read: at })
        };
        let claims = [
            claim("cluster1", "ours", at),
            claim("cluster2", "theirs", at),
            claim("cluster2", "a-thief", -7200),
        ];
        Event::Members(Change::Reset(claims.into()))
    };
    let mut world = joined();
    let before = world.want("gw1").tunnels;
    world.state.apply(Event::Joining("submariner-k8s-broker".into()));
    world.empty_broker();
    world.copy("cluster2/gw1", "172.50.16.66");
    world.record("cluster2/gw1", "172.50.16.66", "242.66.0.0/16");
    let import = |world: &World| exchange::import(&world.state, &key(RECORD));
    for at in [0, 200, 360] {
        world.state.apply(read(at));
        assert_eq!(world.want("gw1").tunnels, before, "after {at} s");
        assert_eq!(import(&world), RecordTask::Nothing, "after {at} s");
        world.new_pod("gw1");
        world.visit("gw1");
        let status = world.status("ns1/demo").expect("a status");
        assert_eq!(status.conditions.get(LAST_KNOWN).expect("it is said").reason, "ClaimsUnknown");
    }
    // It was not renewed for as long as any claim lasts.
    let touched = world.state.apply(read(361));
    assert!(touched.contains(&Scope::Gateway("gw1".parse().expect("a name"))), "{touched:?}");
    assert_ne!(world.want("gw1").tunnels, before);

    // A first record is no other one, and nobody waits for it.
    let mut new = World::new();
    new.state.apply(Event::Joining("submariner-k8s-broker".into()));
    new.empty_broker();
    new.forget_record(RECORD);
    new.copy("cluster2/gw1", "172.50.16.21");
    new.state.apply(read(0));
    assert!(matches!(import(&new), RecordTask::Create(_)), "{:?}", import(&new));
}

#[test]
fn a_claim_in_our_own_name_contests_an_id_as_anybodys_does() {
    let mut world = joined();
    world.members(&[("cluster1", "ours"), ("cluster2", "ours"), ("cluster2", "theirs")]);
    world.visit("gw1");
    let status = world.status("ns1/demo").expect("a status");
    let last_known = status.conditions.get(LAST_KNOWN).expect("it is said");
    assert_eq!(last_known.reason, "PeerIdContested");
    assert_eq!(membership(&world.state).stale, ["causeway.cluster2.ours"], "ours is let go of at once");
}

proptest! {
    /// Whatever is published under a contested id, in whatever order, leads no tunnel elsewhere.
    #[test]
    fn nothing_that_is_published_meanwhile_moves_what_is_built(
        happenings in prop::collection::vec((0..8_u8, 20..90_u8), 0..20),
    ) {
        let mut world = joined();
        let before = world.want("gw1").tunnels;
        world.members(CONTESTED);
        for (happening, octet) in happenings {
            let (address, range) = (format!("172.50.16.{octet}"), format!("242.{octet}.0.0/16"));
            match happening {
                0 => world.record("cluster2/gw1", &address, &range),
                1 => world.forget_record(RECORD),
                2 => world.copy("cluster2/gw1", &address),
                3 => world.new_pod("gw1"),
                4 => world.write("ns1/demo"),
                // As after a start: who claims what is not known until it was listed.
                5 => drop(world.state.apply(Event::Joining("submariner-k8s-broker".into()))),
                6 => world.members(CONTESTED),
                _ => world.visit("gw1"),
            }
            prop_assert_eq!(&world.want("gw1").tunnels, &before);
        }
    }
}
