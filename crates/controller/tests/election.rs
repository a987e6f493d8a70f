//! Leadership as a value: who leads, for how long, and what becomes of it when the API server does not answer.

mod support;

use std::time::Duration;

use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::clock::Clock;
use causeway_controller::election::{Candidate, Lost, Times};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use support::{Log, client, fault_of, server};
use tokio::time::{Instant, sleep, timeout};

fn candidate(server: &Server, identity: &str) -> Candidate {
    Candidate {
        leases: Api::namespaced(client(server, identity), "default"),
        name: "leader".into(),
        identity: identity.into(),
        times: Times::default(),
        clock: Clock::System,
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(1), future).await.expect("within a second")
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_waits_until_the_lease_is_given_up() {
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    let held = soon(a.acquire(0)).await;
    let first = held.term().number();
    let holding = tokio::spawn({
        let a = a.clone();
        async move { a.acquire(0).await.hold().await }
    });
    drop(held);
    assert!(timeout(Duration::from_secs(300), b.acquire(0)).await.is_err(), "it is renewed");
    holding.abort();
    a.release().await;
    let held = soon(b.acquire(0)).await;
    assert!(held.term().number() > first, "every change of hands has its number");
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_keeps_its_lease_for_its_time_and_knows_before_others_that_it_is_over() {
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    let held = soon(a.acquire(0)).await;
    let (start, term) = (Instant::now(), held.term().clone());
    let other = b.acquire(0).await;
    assert!(start.elapsed() >= Duration::from_secs(15), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(18), "{:?}", start.elapsed());
    assert!(!term.is_held(), "by its own clock");
    assert!(other.term().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_api_server_freezes_stops_before_anybody_else_may_lead() {
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    let held = soon(a.acquire(0)).await;
    let term = held.term().clone();
    let waiting = tokio::spawn(async move {
        let term = b.acquire(0).await.term().clone();
        (Instant::now(), term)
    });
    sleep(Duration::from_secs(1)).await;
    server.faults().set(vec![fault_of("a", Switch::Freeze)]).expect("a fault");
    assert_eq!(held.hold().await, Lost::NotRenewed);
    let stopped = Instant::now();
    assert!(!term.is_held() && term.over().is_cancelled());
    let (won, other) = waiting.await.expect("the other wins");
    assert!(won >= stopped + Duration::from_secs(2), "{:?} after it stopped", won - stopped);
    assert!(other.number() > term.number());
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_and_a_storm_of_errors_do_not_end_a_term() {
    let server = server().await;
    let a = candidate(&server, "a");
    let held = soon(a.acquire(0)).await;
    let term = held.term().clone();
    let holding = tokio::spawn({
        let a = a.clone();
        async move { a.acquire(0).await.hold().await }
    });
    drop((held, term));
    for round in 0..20 {
        let switch = match round % 3 {
            0 => Switch::Freeze,
            1 => Switch::Refuse { code: 500, percent: 100, retry_after_seconds: 0 },
            _ => Switch::Refuse { code: 409, percent: 50, retry_after_seconds: 0 },
        };
        server.faults().set(vec![fault_of("a", switch)]).expect("a fault");
        sleep(Duration::from_secs(5)).await;
        server.faults().clear();
        sleep(Duration::from_secs(6)).await;
        assert!(!holding.is_finished(), "round {round}");
    }
    holding.abort();
}

fn leases(server: &Server) -> Api<Lease> {
    Api::namespaced(client(server, "somebody"), "default")
}

async fn number(leases: &Api<Lease>) -> Option<i32> {
    leases.get("leader").await.expect("the lease").spec.expect("a spec").lease_transitions
}

/// As somebody who edits it.
async fn write_number(leases: &Api<Lease>, number: i32) {
    let patch = Patch::Merge(json!({ "spec": { "leaseTransitions": number } }));
    leases.patch("leader", &PatchParams::default(), &patch).await.expect("patched");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_made_again_by_its_holder_and_its_number_never_falls() {
    let server = server().await;
    let a = candidate(&server, "a");
    let held = soon(a.acquire(41)).await;
    let term = held.term().clone();
    assert_eq!(term.number(), Some(42));
    let leases = leases(&server);
    leases.delete("leader", &DeleteParams::default()).await.expect("deleted");
    let lost = timeout(Duration::from_secs(60), held.hold()).await;
    assert!(lost.is_err(), "{lost:?}");
    let lease = leases.get("leader").await.expect("it is back");
    assert_eq!(lease.spec.expect("a spec").holder_identity.as_deref(), Some("a"));
    assert_eq!(number(&leases).await, Some(42));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_saw_a_lease_which_is_deleted_leads_under_a_greater_number() {
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    let held = soon(a.acquire(41)).await;
    let waiting = tokio::spawn(async move { b.acquire(0).await.term().number() });
    sleep(Duration::from_secs(1)).await;
    drop(held);
    leases(&server).delete("leader", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(soon(waiting).await.expect("it leads"), Some(43));
}

#[tokio::test(start_paused = true)]
async fn a_number_that_somebody_wrote_into_the_lease_uses_none_up() {
    let server = server().await;
    let a = candidate(&server, "a");
    let leases = leases(&server);
    for newer_than in [LAST - 1, LAST, u64::MAX] {
        let held = soon(a.acquire(newer_than)).await;
        assert_eq!(held.term().number(), Some(LAST));
    }
    for edited in [i32::MAX, i32::MAX - 1, 1_000_000_001] {
        write_number(&leases, edited).await;
        assert_eq!(soon(a.acquire(41)).await.term().number(), Some(42), "{edited}");
        assert_eq!(number(&leases).await, Some(42));
    }
}

/// The greatest number of a term.
const LAST: u64 = 1_000_000_000;

#[tokio::test(start_paused = true)]
async fn a_term_that_nobody_can_have_seen_is_not_believed() {
    let server = server().await;
    let a = candidate(&server, "a");
    let held = soon(a.acquire(41)).await;
    let term = held.term().clone();
    for number in [0, 41, 42, 42 + 1_000_001, i32::MAX as u64 - 1, i32::MAX as u64, u64::MAX] {
        assert!(!term.superseded_by(number), "{number}");
    }
    let holding = timeout(Duration::from_secs(60), held.hold()).await;
    assert!(holding.is_err(), "it goes on leading: {holding:?}");
    assert!(term.superseded_by(43) && term.superseded_by(42 + 1_000_000));
    let leases = leases(&server);
    write_number(&leases, 999_999_997).await;
    let term = soon(a.acquire(0)).await.term().clone();
    assert_eq!(term.number(), Some(LAST - 2));
    assert!(!term.superseded_by(LAST), "the last number is nobody's to claim");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_may_not_watch_the_lease_says_so_once_and_reads_it_instead() {
    let (log, _guard) = Log::listen();
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    let no_watch = Match { verbs: vec!["watch".into()], user_agent: Some("b".into()), ..Match::default() };
    let refuse = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    server.faults().set(vec![Fault::new(refuse).on(no_watch)]).expect("a fault");
    let held = soon(a.acquire(0)).await;
    let holding = tokio::spawn({
        let a = a.clone();
        async move { a.acquire(0).await.hold().await }
    });
    drop(held);
    assert!(timeout(Duration::from_secs(60), b.acquire(0)).await.is_err(), "it is renewed");
    let lines = log.lines("the lease cannot be watched");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("cannot watch resource"), "{lines:#?}");
    holding.abort();
    a.release().await;
    timeout(Times::default().retry * 2, b.acquire(0)).await.expect("it finds out by itself");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_has_seen_a_newer_term_makes_the_next_one_newer_still() {
    let server = server().await;
    let a = candidate(&server, "a");
    let held = soon(a.acquire(0)).await;
    assert!(held.term().superseded_by(7));
    assert_eq!(soon(held.hold()).await, Lost::Superseded(7));
    assert_eq!(soon(a.acquire(7)).await.term().number(), Some(8));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_day_on_a_lease_is_that_of_the_clock_that_was_given() {
    let server = server().await;
    let base: jiff::Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
    let a = Candidate { clock: Clock::starting_at(base), ..candidate(&server, "a") };
    let held = soon(a.acquire(0)).await;
    let _ = timeout(Duration::from_secs(61), held.hold()).await;
    let spec = leases(&server).get("leader").await.expect("the lease").spec.expect("a spec");
    let seconds = |time: Option<MicroTime>| time.expect("a time").0.as_second() - base.as_second();
    assert_eq!((seconds(spec.acquire_time), seconds(spec.renew_time)), (0, 60));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_free_is_tried_again_soon_after_its_write_failed() {
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    drop(soon(a.acquire(0)).await);
    a.release().await;
    let updates = Match { verbs: vec!["update".into()], ..Match::default() };
    let refuse = Switch::Refuse { code: 500, percent: 100, retry_after_seconds: 0 };
    let once = Fault { times: Some(1), ..Fault::new(refuse).on(updates) };
    server.faults().set(vec![once]).expect("a fault");
    let asked = Instant::now();
    b.acquire(0).await;
    assert!(asked.elapsed() < 2 * b.times.retry, "{:?}: nobody has it", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn of_two_that_go_by_one_name_the_former_notices_and_its_number_is_not_written_again() {
    let server = server().await;
    let (first, second) = (candidate(&server, "a"), candidate(&server, "a"));
    let held = soon(first.acquire(0)).await;
    let other = soon(second.acquire(0)).await;
    let number = other.term().number().expect("elected");
    let lost = timeout(Duration::from_secs(6), held.hold()).await.expect("at its next renewal");
    assert_eq!(lost, Lost::Superseded(number));
    let lease = leases(&server).get("leader").await.expect("the lease").spec.expect("a spec");
    assert_eq!(lease.lease_transitions.map(i64::from), i64::try_from(number).ok());
}

#[tokio::test(start_paused = true)]
async fn a_lease_for_ever_is_one_for_an_hour() {
    let server = server().await;
    let a = candidate(&server, "a");
    drop(soon(a.acquire(0)).await);
    let spec = json!({ "spec": { "holderIdentity": "nobody", "leaseDurationSeconds": i32::MAX } });
    leases(&server).patch("leader", &PatchParams::default(), &Patch::Merge(spec)).await.expect("edited");
    let asked = Instant::now();
    a.acquire(0).await;
    assert!(asked.elapsed() < Duration::from_secs(3700), "{:?}", asked.elapsed());
}
