//! A room of the house: what a capability brings, and the loop that runs it.
//!
//! ```text
//! sources ─▶ Desk::tell ─▶ State::apply ─▶ touched scopes ─▶ a queue per duty ─▶ Room::handle ─▶ Next
//! ```
//!
//! Every replica follows its sources and keeps the state. What only one may do belongs to a duty of the leader:
//! its workers run while this replica holds the room's Lease, they are stopped and awaited when it is lost, and
//! when it is won everything is handled once. A room brings a state, its sources and a [`Room::handle`];
//! `tests/toy_room/files.rs` is one in a hundred lines.

use std::collections::BTreeSet;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use anyhow::anyhow;
use causeway_core::room::State;
use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::election::{Candidate, Lost, Term, Times};
use crate::events::Announcer;
use crate::health::Readiness;
use crate::metrics::{Metrics, OfDuty, OfRoom, Outcome, Reading, Work};
use crate::pace::Pace;
use crate::queue::{Next, Queue};
use crate::sources::Sources;
use crate::worker::{self, Until, message_of};

/// What all rooms of a process share.
#[derive(Clone)]
pub struct House {
    /// The cluster.
    pub client: Client,
    /// This replica's name among its like.
    pub identity: String,
    /// Where leader leases live; without one this replica leads unasked.
    pub lease_namespace: Option<String>,
    /// The times of those leases.
    pub lease_times: Times,
    /// The time of day.
    pub clock: Clock,
    /// Where all chance comes from.
    pub seed: u64,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What is waited for.
    pub readiness: Readiness,
    /// Events about objects.
    pub announcer: Announcer,
    /// Ends the process.
    pub stop: CancellationToken,
}

impl House {
    /// Pauses for one task, of a seed that differs by its name.
    pub fn pace(&self, name: &str) -> Pace {
        Pace::seeded(self.seed_of(name))
    }

    fn seed_of(&self, name: &str) -> u64 {
        name.bytes().fold(self.seed, |seed, byte| seed.rotate_left(5) ^ u64::from(byte))
    }
}

/// Who does a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The replica that holds the room's Lease.
    Leader,
    /// Every replica, from the moment that it is ready.
    EveryReplica,
}

/// A kind of work with a queue and workers of its own, so that it holds up no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duty {
    /// Its name in metrics.
    pub name: &'static str,
    /// Who does it.
    pub who: Who,
    /// How many scopes are handled at once.
    pub workers: usize,
}

/// The scopes of a room's state.
pub type ScopeOf<R> = <<R as Room>::State as State>::Scope;

/// A capability.
pub trait Room: Send + Sync + Sized + 'static {
    /// Its name: for `--enable`, in logs, metrics and readiness.
    const NAME: &'static str;
    /// The Lease that its leader holds, if a duty is the leader's.
    const LEASE: &'static str;
    /// What is known to it.
    type State: State;

    /// Where its state lies.
    fn desk(&self) -> &Desk<Self::State>;

    /// Starts what brings events.
    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>);

    /// The kind of a scope for metrics, and the place of its duty among those that [`Desk::new`] was given.
    fn duty(scope: &ScopeOf<Self>) -> (&'static str, usize);

    /// The line that a scope waits in: those of one duty take turns, so that a long one holds up no other.
    fn lane(_: &ScopeOf<Self>) -> &str {
        ""
    }

    /// Reconciles one scope. Whoever acts asks the term first.
    fn handle(self: Arc<Self>, scope: ScopeOf<Self>, term: Term) -> impl Future<Output = Next> + Send;

    /// Forgets what only a leader may keep.
    fn term_ended(&self) {}
}

/// A room's state and the queues that its events fill.
pub struct Desk<S: State> {
    state: RwLock<S>,
    duties: Vec<(Duty, Arc<Queue<S::Scope>>)>,
    duty_of: fn(&S::Scope) -> (&'static str, usize),
    /// Whether this replica leads.
    leads: AtomicBool,
}

impl<S: State> Desk<S> {
    /// With these duties.
    pub fn new<R: Room<State = S>>(state: S, duties: &[Duty]) -> Self {
        Self {
            state: RwLock::new(state),
            duties: duties.iter().map(|duty| (*duty, Arc::new(Queue::in_lanes(R::lane)))).collect(),
            duty_of: R::duty,
            leads: AtomicBool::new(false),
        }
    }

    /// The state; not to be held across an `.await`.
    pub fn state(&self) -> RwLockReadGuard<'_, S> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event in and queues what it touches. Events of one source arrive in its order.
    pub fn tell(&self, event: S::Event) {
        self.tell_if(|_| true, event);
    }

    /// The same, if a condition still holds by then: for what came back as the answer to a write.
    pub fn tell_if(&self, holds: impl FnOnce(&S) -> bool, event: S::Event) {
        let touched = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if !holds(&state) {
                return;
            }
            state.apply(event)
        };
        touched.into_iter().for_each(|scope| self.add(scope));
    }

    /// Has a scope handled. A duty of the leader's is not queued where nobody leads: whoever wins handles
    /// everything once.
    pub fn add(&self, scope: S::Scope) {
        let (duty, queue) = self.place(&scope);
        if duty.who == Who::EveryReplica || self.leads.load(Ordering::SeqCst) {
            queue.add(scope);
        }
    }

    /// The duty that a scope belongs to. One that belongs nowhere is the room's error, and would be lost in silence.
    fn place(&self, scope: &S::Scope) -> &(Duty, Arc<Queue<S::Scope>>) {
        let (kind, place) = (self.duty_of)(scope);
        let duties = self.duties.len();
        self.duties.get(place).unwrap_or_else(|| panic!("{kind} belongs to duty {place}, of {duties} from 0"))
    }

    fn has(&self, who: Who) -> bool {
        self.duties.iter().any(|(duty, _)| duty.who == who)
    }

    fn everything(&self, who: Who) -> BTreeSet<S::Scope> {
        let everything = self.state().everything();
        everything.into_iter().filter(|scope| self.place(scope).0.who == who).collect()
    }

    fn begin(&self) {
        // First this: what an event touches from now on is queued.
        self.leads.store(true, Ordering::SeqCst);
        self.everything(Who::Leader).into_iter().for_each(|scope| self.add(scope));
    }

    fn end(&self) {
        self.leads.store(false, Ordering::SeqCst);
        let leaders = self.duties.iter().filter(|(duty, _)| duty.who == Who::Leader);
        leaders.for_each(|(_, queue)| queue.clear());
    }
}

/// The parts of a process by name: when one ends, the process does.
pub type Parts = JoinSet<(String, anyhow::Result<()>)>;

/// Adds a part that is dropped when the process is asked to stop.
pub fn add_part(
    parts: &mut Parts,
    stop: &CancellationToken,
    name: String,
    part: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) {
    let stop = stop.clone();
    add_lasting_part(parts, name, async move { stop.run_until_cancelled(part).await.unwrap_or(Ok(())) });
}

/// Adds a part that ends by itself when the process is asked to stop. A panic is its error, under its name.
pub fn add_lasting_part(
    parts: &mut Parts,
    name: String,
    part: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) {
    parts.spawn(async move {
        let end = AssertUnwindSafe(part).catch_unwind().await;
        (name, end.unwrap_or_else(|panic| Err(anyhow!("it panicked: {}", message_of(&*panic)))))
    });
}

/// Starts a room: its sources, what every replica does, and what its leader does.
pub fn start<R: Room>(room: &Arc<R>, house: &House, parts: &mut Parts) {
    let mut sources = Sources::new(room, house, parts);
    room.sources(&mut sources);
    house.metrics.count_queues(queue_lengths::<R>(room));
    for (duty, queue) in &room.desk().duties {
        queue.seed(house.seed_of(&format!("{}{}", prefix::<R>(), duty.name)));
    }
    if room.desk().has(Who::EveryReplica) {
        add_lasting_part(parts, format!("work of room {}", R::NAME), serve(room.clone(), house.clone()));
    }
    if room.desk().has(Who::Leader) {
        house.metrics.leader.get_or_create(&OfRoom { room: R::NAME }).set(0);
        add_lasting_part(parts, format!("leadership of room {}", R::NAME), lead(room.clone(), house.clone()));
    }
}

/// Does what every replica does, from the moment that all is listed.
async fn serve<R: Room>(room: Arc<R>, house: House) -> anyhow::Result<()> {
    if house.stop.run_until_cancelled(house.readiness.until_ready(&prefix::<R>())).await.is_none() {
        return Ok(());
    }
    room.desk().everything(Who::EveryReplica).into_iter().for_each(|scope| room.desk().add(scope));
    work(&room, &house, Who::EveryReplica, &Term::unelected()).await
}

/// Leads whenever the lease is won; losing it ends that work and nothing else.
async fn lead<R: Room>(room: Arc<R>, house: House) -> anyhow::Result<()> {
    let candidate = house.lease_namespace.as_ref().map(|namespace| Candidate {
        leases: Api::<Lease>::namespaced(house.client.clone(), namespace),
        name: R::LEASE.into(),
        identity: house.identity.clone(),
        times: house.lease_times,
        clock: house.clock,
    });
    // Nothing is decided before every watch has brought its first full list, so nobody else is kept waiting.
    if house.stop.run_until_cancelled(house.readiness.until_ready(&prefix::<R>())).await.is_none() {
        return Ok(());
    }
    let Some(candidate) = candidate else {
        return work_a_term(&room, &house, &Term::unelected(), std::future::pending::<()>()).await.map(drop);
    };
    let mut newer_than = 0;
    while let Some(held) = house.stop.run_until_cancelled(candidate.acquire(newer_than)).await {
        let term = held.term().clone();
        if let Some(lost) = work_a_term(&room, &house, &term, held.hold()).await? {
            tracing::warn!(room = R::NAME, why = %lost, "no longer leading");
            newer_than = newer_than.max(term.number().unwrap_or_default());
            if let Lost::Superseded(by) = lost {
                newer_than = newer_than.max(by);
                // The lease is still ours: without a pause a place that goes on reporting newer terms would have it
                // written as fast as it is asked.
                house.stop.run_until_cancelled(tokio::time::sleep(candidate.times.retry)).await;
            }
        }
    }
    candidate.release().await;
    Ok(())
}

/// Works until the term is lost, which is returned, or the process is asked to stop. A duty that ends otherwise is
/// an error; then the lease is not given up, since the process ends and is started again.
async fn work_a_term<R: Room, L>(
    room: &Arc<R>,
    house: &House,
    term: &Term,
    lost: impl Future<Output = L>,
) -> anyhow::Result<Option<L>> {
    tracing::info!(room = R::NAME, term = term.number(), "leading: everything is handled once");
    let gauge = house.metrics.leader.get_or_create_owned(&OfRoom { room: R::NAME });
    gauge.set(1);
    room.desk().begin();
    let mut work = std::pin::pin!(work(room, house, Who::Leader, term));
    let ended = tokio::select! {
        biased;
        lost = lost => Ok(lost),
        ended = &mut work => Err(ended),
    };
    term.over().cancel();
    let result = match ended {
        Ok(lost) => work.await.map(|()| Some(lost)),
        Err(ended) => ended.map(|()| None),
    };
    room.desk().end();
    room.term_ended();
    gauge.set(0);
    result
}

/// Runs the workers of all duties of one kind, until the process stops or the term is over. A duty that ends before
/// that is an error, under its name.
async fn work<R: Room>(room: &Arc<R>, house: &House, who: Who, term: &Term) -> anyhow::Result<()> {
    let until = Until { stop: house.stop.clone(), over: term.over().clone() };
    let mut duties = JoinSet::new();
    for (duty, queue) in room.desk().duties.iter().filter(|(duty, _)| duty.who == who) {
        let name = duty.name;
        let (room, term) = (room.clone(), term.clone());
        let handle = move |scope: ScopeOf<R>| {
            let (room, term) = (room.clone(), term.clone());
            async move { room.handle(scope, term).await }
        };
        let run = worker::run(queue.clone(), duty.workers, until.clone(), handle, count::<R>(house, name));
        duties.spawn(async move { (name, AssertUnwindSafe(run).catch_unwind().await) });
    }
    while let Some(ended) = duties.join_next().await {
        let (name, ended) = ended?;
        ended.map_err(|panic| anyhow!("duty {name} panicked: {}", message_of(&*panic)))?;
        anyhow::ensure!(
            until.stop.is_cancelled() || until.over.is_cancelled(),
            "duty {name} ended by itself"
        );
    }
    Ok(())
}

/// Counts what a duty handled.
fn count<R: Room>(
    house: &House,
    duty: &'static str,
) -> impl Fn(&ScopeOf<R>, Next, Duration) + Clone + Send + 'static {
    let metrics = house.metrics.clone();
    move |scope, next, took| {
        let (kind, _) = R::duty(scope);
        let result = if next == Next::Retry { Outcome::Failure } else { Outcome::Success };
        metrics.handled.get_or_create(&Work { room: R::NAME, scope: kind, result }).inc();
        metrics.duration.get_or_create(&OfDuty { room: R::NAME, duty }).observe(took.as_secs_f64());
    }
}

fn queue_lengths<R: Room>(room: &Arc<R>) -> impl Fn() -> Vec<Reading<2>> + Send + Sync + 'static {
    let queues: Vec<_> = room.desk().duties.iter().map(|(duty, queue)| (duty.name, queue.clone())).collect();
    move || {
        let reading = |(duty, queue): &(&'static str, Arc<Queue<ScopeOf<R>>>)| {
            ([("room", R::NAME), ("duty", *duty)], i64::try_from(queue.len()).unwrap_or(i64::MAX))
        };
        queues.iter().map(reading).collect()
    }
}

/// How the names of a room's parts begin in readiness.
pub(crate) fn prefix<R: Room>() -> String {
    format!("{}/", R::NAME)
}
