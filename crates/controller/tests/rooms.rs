//! What the loop does for a room, whatever the room does.

mod support;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_apiserver::Server;
use causeway_controller::election::Term;
use causeway_controller::queue::Next;
use causeway_controller::room::{self, Desk, Duty, House, Parts, Room, Who};
use causeway_controller::sources::Sources;
use causeway_controller::until_end;
use causeway_core::room::State;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use support::{Log, client, house, server, until};
use tokio::time::{sleep, timeout};

thread_local! {
    /// Whether a scope can be copied on this thread, which is this test's.
    static BROKEN: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Scope(&'static str);

impl Clone for Scope {
    fn clone(&self) -> Self {
        assert!(!BROKEN.get(), "{} cannot be copied", self.0);
        Self(self.0)
    }
}

/// An event is a scope that it touches.
struct Touched(Vec<&'static str>);

impl State for Touched {
    type Event = Scope;
    type Scope = Scope;

    fn apply(&mut self, event: Scope) -> BTreeSet<Scope> {
        BTreeSet::from([event])
    }

    fn everything(&self) -> BTreeSet<Scope> {
        self.0.iter().map(|name| Scope(name)).collect()
    }
}

type Handle = dyn Fn(&str, &Term) -> Next + Send + Sync;

struct Probe {
    desk: Desk<Touched>,
    handle: Box<Handle>,
}

const EVERY: Duty = Duty { name: "common", who: Who::EveryReplica, workers: 1 };
const LEADER: Duty = Duty { name: "single", who: Who::Leader, workers: 1 };

impl Probe {
    /// A room that knows these scopes from the start.
    fn new(
        duties: &[Duty],
        scopes: &[&'static str],
        handle: impl Fn(&str, &Term) -> Next + Send + Sync + 'static,
    ) -> Arc<Self> {
        let desk = Desk::new::<Self>(Touched(scopes.to_vec()), duties);
        Arc::new(Self { desk, handle: Box::new(handle) })
    }

    fn start(self: &Arc<Self>, server: &Server) -> (House, Parts) {
        let (house, mut parts) = (house(&client(server, "probe"), "probe"), Parts::new());
        room::start(self, &house, &mut parts);
        (house, parts)
    }
}

impl Room for Probe {
    const NAME: &'static str = "probe";
    const LEASE: &'static str = "causeway-probe";
    type State = Touched;

    fn desk(&self) -> &Desk<Touched> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, _: &mut Sources<'_, Self>) {}

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope.0 {
            "nowhere" => ("nowhere", 7),
            "leader" => ("leader", 1),
            _ => ("every", 0),
        }
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        (self.handle)(scope.0, &term)
    }
}

#[tokio::test(start_paused = true)]
async fn a_room_without_a_leaders_duty_asks_for_no_lease_and_ends_when_asked() {
    let server = server().await;
    let handled = Arc::new(Mutex::new(0));
    let count = handled.clone();
    let probe = Probe::new(&[EVERY], &["every"], move |_, _| {
        *count.lock().expect("no panic") += 1;
        Next::Done
    });
    let (house, parts) = probe.start(&server);
    until("it works", || async { *handled.lock().expect("no panic") == 1 }).await;
    sleep(Duration::from_secs(60)).await;
    let asked: Vec<_> = server.requests().into_iter().filter(|it| it.resource == "leases").collect();
    assert!(asked.is_empty(), "{asked:?}");
    assert!(!house.metrics.encode().contains("causeway_leader{"), "it neither leads nor could");
    house.stop.cancel();
    timeout(Duration::from_secs(60), until_end(parts, house.stop)).await.expect("it ends").expect("no error");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_always_reports_a_newer_term_costs_the_lease_a_write_every_two_seconds() {
    let server = server().await;
    let terms = Arc::new(Mutex::new(Vec::new()));
    let noted = terms.clone();
    let probe = Probe::new(&[EVERY, LEADER], &["leader"], move |_, term| {
        let number = term.number().expect("an election");
        noted.lock().expect("no panic").push(number);
        assert!(term.superseded_by(number + 10));
        Next::Done
    });
    let (_house, _parts) = probe.start(&server);
    sleep(Duration::from_secs(60)).await;
    let terms = terms.lock().expect("no panic").clone();
    assert!((20..=33).contains(&terms.len()), "{terms:?}");
    assert!(terms.windows(2).all(|pair| pair[1] == pair[0] + 11), "{terms:?}");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_a_term_never_falls_though_the_lease_is_deleted_while_nobody_holds_it() {
    let server = server().await;
    let leases: Api<Lease> = Api::namespaced(client(&server, "somebody"), "default");
    let numbers = Arc::new(Mutex::new(Vec::new()));
    let noted = numbers.clone();
    let probe = Probe::new(&[EVERY, LEADER], &["leader"], move |_, term| {
        noted.lock().expect("no panic").extend(term.number());
        Next::Done
    });
    let (_house, _parts) = probe.start(&server);
    until("it leads", || async { numbers.lock().expect("no panic").len() == 1 }).await;
    server
        .faults()
        .set(vec![support::fault_of("probe", causeway_apiserver::Switch::Freeze)])
        .expect("a fault");
    sleep(Duration::from_secs(13)).await;
    leases.delete("causeway-probe", &kube::api::DeleteParams::default()).await.expect("deleted");
    server.faults().clear();
    until("it leads again", || async { numbers.lock().expect("no panic").len() == 2 }).await;
    assert_eq!(*numbers.lock().expect("no panic"), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_that_is_counted_and_logged_with_its_message_and_time_is_measured_by_duty() {
    let (log, _guard) = Log::listen();
    let server = server().await;
    let tries = Mutex::new(0);
    let probe = Probe::new(&[EVERY, LEADER], &["every", "leader"], move |scope, _| {
        let mut tries = tries.lock().expect("it is not held where it panics");
        *tries += usize::from(scope == "every");
        let first = scope == "every" && *tries == 1;
        drop(tries);
        assert!(!first, "a link without a name");
        Next::Done
    });
    let (house, _parts) = probe.start(&server);
    let counted = |line: &str| house.metrics.encode().contains(line);
    until("it is tried again", || async {
        counted("causeway_handled_total{room=\"probe\",scope=\"every\",result=\"Success\"} 1")
    })
    .await;
    until("so is the leader's", || async {
        counted("causeway_handling_seconds_count{room=\"probe\",duty=\"single\"} 1")
    })
    .await;
    assert!(counted("causeway_handled_total{room=\"probe\",scope=\"every\",result=\"Failure\"} 1"));
    assert!(counted("causeway_handling_seconds_count{room=\"probe\",duty=\"common\"} 2"));
    let lines = log.lines("handling this key panicked");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("a link without a name") && lines[0].contains("Scope(\"every\")"),
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_cannot_go_on_ends_the_process_by_its_name() {
    for (scope, expected) in [
        ("every", "work of room probe: duty common panicked: every cannot be copied"),
        ("leader", "leadership of room probe: duty single panicked: leader cannot be copied"),
    ] {
        let server = server().await;
        let probe = Probe::new(&[EVERY, LEADER], &[], |_, _| Next::Done);
        let (house, parts) = probe.start(&server);
        let leads = || house.metrics.encode().contains("causeway_leader{room=\"probe\"} 1");
        until("it leads", || async { leads() }).await;
        probe.desk().tell(Scope(scope));
        BROKEN.set(true);
        let ended = timeout(Duration::from_secs(60), until_end(parts, house.stop.clone())).await;
        BROKEN.set(false);
        let ended = ended.expect("the process ends").expect_err("by an error");
        assert_eq!(format!("{ended:#}"), expected);
    }
}

#[tokio::test]
#[should_panic = "nowhere belongs to duty 7, of 1 from 0"]
async fn a_scope_of_no_duty_is_an_error_and_not_silence() {
    Probe::new(&[EVERY], &[], |_, _| Next::Done).desk().tell(Scope("nowhere"));
}
