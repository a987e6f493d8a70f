//! An event costs what it touches, not what exists: counted, on one gateway with two thousand tunnels.

mod crowd;

use causeway_core::vpc::objects::{Ends, Tunnel};
use causeway_core::vpc::{Change, Event, State, Trouble, TunnelKind};
use crowd::{cluster, gateway, key, list, outcome, record, touched, tunnel};

const MANY: usize = 2_000;

/// The tunnels that an event touches, the gateways, and how many tunnels were worked out for it.
fn cost(state: &mut State, event: Event) -> (usize, usize, u64) {
    let before = state.resolves();
    let scopes = state.apply(event);
    let (tunnels, gateways) = touched(&scopes);
    (tunnels.len(), gateways.len(), state.resolves() - before)
}

fn crowded() -> State {
    let mut state = cluster(MANY + 1);
    state.apply(list(MANY));
    let found = outcome(&state);
    state.apply(Event::Outcome(gateway(1), found));
    state
}

fn put(change: impl Fn(&mut Tunnel), n: usize) -> Event {
    let mut tunnel = tunnel(n);
    change(&mut tunnel);
    Event::Tunnels(Change::Put(tunnel.key.clone(), tunnel))
}

#[test]
fn a_list_works_each_tunnel_out_once() {
    let mut state = cluster(MANY);
    let many = u64::try_from(MANY).expect("small");
    assert_eq!(cost(&mut state, list(MANY)), (MANY, 2, many), "with the first list work on gateways begins");
    assert_eq!(cost(&mut state, list(MANY)), (0, 0, 0), "the same list says nothing new");
}

#[test]
fn a_tunnel_that_comes_changes_or_goes_concerns_itself_and_its_gateway() {
    let mut state = crowded();
    assert_eq!(cost(&mut state, put(|_| {}, MANY)), (1, 1, 1), "it comes");
    let other_address = |t: &mut Tunnel| {
        t.spec.as_mut().expect("valid").address = "10.100.0.9/24".parse().expect("an address");
    };
    assert_eq!(cost(&mut state, put(other_address, MANY)), (1, 1, 1), "it changes");
    assert_eq!(
        cost(&mut state, put(|t| t.resource_version = "2".into(), 7)),
        (1, 0, 0),
        "its status is written"
    );
    let deleted = |t: &mut Tunnel| (t.resource_version, t.deleting) = ("3".into(), true);
    assert_eq!(cost(&mut state, put(deleted, 7)), (1, 1, 0), "it is being deleted");
    assert_eq!(cost(&mut state, Event::Tunnels(Change::Gone(key(7)))), (1, 1, 0), "it is gone");
    assert!(state.is_consistent());
}

#[test]
fn a_tunnel_that_collides_concerns_only_those_it_collides_with() {
    let mut state = crowded();
    let like_the_third = |t: &mut Tunnel| {
        t.spec.as_mut().expect("valid").kind = TunnelKind::Vxlan { vni: 4, port: 4789 };
    };
    assert_eq!(cost(&mut state, put(like_the_third, MANY)), (1, 1, 1), "the younger one is refused");
    let older = |t: &mut Tunnel| {
        like_the_third(t);
        t.created = -1;
    };
    assert_eq!(cost(&mut state, put(older, MANY)), (2, 1, 1), "the older one takes its place");
    assert_eq!(cost(&mut state, Event::Tunnels(Change::Gone(key(MANY)))), (2, 1, 0), "and gives it back");
    assert!(state.is_consistent());
}

#[test]
fn a_claim_that_everybody_makes_is_not_looked_at_by_everybody_each_time() {
    let same = |n: usize| {
        let mut tunnel = tunnel(n);
        tunnel.spec.as_mut().expect("valid").kind = TunnelKind::Vxlan { vni: 100, port: 4789 };
        (tunnel.key.clone(), tunnel)
    };
    let mut state = cluster(MANY + 1);
    let many = u64::try_from(MANY).expect("small");
    let all = Event::Tunnels(Change::Reset((0..MANY).map(same).collect()));
    assert_eq!(cost(&mut state, all), (MANY, 2, many));
    let (late, value) = same(MANY);
    assert_eq!(cost(&mut state, Event::Tunnels(Change::Put(late, value))), (1, 1, 1));
    assert_eq!(cost(&mut state, Event::Tunnels(Change::Gone(key(77)))), (1, 1, 0), "it had nothing");
    assert!(state.is_consistent());
}

#[test]
fn a_peer_that_moves_concerns_the_tunnels_to_it() {
    let mut state = crowded();
    let mut moved = record(7);
    moved.external_ip = "172.51.0.1".into();
    assert_eq!(cost(&mut state, Event::Records(Change::Put(moved.key.clone(), moved))), (1, 1, 1));
    let mut relabelled = record(8);
    relabelled.vpc = Some("elsewhere".into());
    let event = Event::Records(Change::Put(relabelled.key.clone(), relabelled));
    assert_eq!(cost(&mut state, event), (0, 0, 1), "nothing that its tunnel needs");
    assert!(state.is_consistent());
}

#[test]
fn what_a_visit_found_concerns_the_tunnels_of_which_it_is_news() {
    let mut state = crowded();
    let mut found = outcome(&state);
    assert_eq!(cost(&mut state, Event::Outcome(gateway(1), found.clone())), (0, 0, 0), "all as before");
    let visit = found.result.as_mut().expect("it went well");
    visit.tunnels.get_mut(&key(7)).expect("wanted").1 = Some(Trouble::CommandFailed("no".into()));
    assert_eq!(cost(&mut state, Event::Outcome(gateway(1), found)), (1, 0, 0));
}

/// The same with nothing found.
fn empty(outcome: &causeway_core::vpc::Outcome) -> Event {
    let outcome = causeway_core::vpc::Outcome { result: Ok(Default::default()), ..outcome.clone() };
    Event::Outcome(gateway(2), outcome)
}

#[test]
fn a_deletion_waits_only_for_gateways_that_it_concerns() {
    let mut state = crowded();
    let found = outcome(&state);
    state.apply(put(|t| t.deleting = true, 7));
    assert_eq!(cost(&mut state, Event::Outcome(gateway(2), found.clone())).0, 1, "it was seen holding it");
    state.apply(empty(&found));
    assert_eq!(cost(&mut state, empty(&found)), (0, 0, 0));
    assert_eq!(cost(&mut state, Event::Outcome(gateway(1), found)).0, 1);
}

#[test]
fn a_route_concerns_the_tunnels_that_it_leads_to() {
    let mut state = crowded();
    let routes = |n: usize| Event::Vpcs(Change::Put("v".into(), crowd::vpc(n)));
    assert_eq!(cost(&mut state, routes(MANY - 1)), (1, 0, 0), "one route less");
    assert_eq!(cost(&mut state, Event::Vpcs(Change::Put("w".into(), Default::default()))), (0, 0, 0));
}

#[test]
fn another_gateway_concerns_nobody_here() {
    let mut state = crowded();
    let pod = "kube-system/vpc-nat-gw-gw2-0".parse().expect("a key");
    assert_eq!(cost(&mut state, Event::Pods(Change::Gone(pod))), (0, 1, 0));
    let one = put(
        |t| {
            let Ends::ByGateway { gateway, .. } = &mut t.spec.as_mut().expect("valid").ends else { return };
            *gateway = crowd::gateway(2);
        },
        MANY,
    );
    assert_eq!(cost(&mut state, one), (1, 1, 1));
}
