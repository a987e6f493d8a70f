//! The room `rules`: rules reach every data plane that asks for them, from every replica.
//!
//! [`watch`] follows the six kinds. [`server`] accepts data planes; each has a [`stream`], and the [`hub`] knows who asks
//! for which set ([`cell`], [`mailbox`]). When rules change, the sets that they are in are compiled once more and those who ask are told.
//! What data planes answer becomes this replica's share of a rule's status, and the leader adds the shares up
//! ([`report`]); [`alive`] says which replicas there are, and [`clients`] who is connected.

mod alive;
mod body;
mod cell;
pub mod clients;
mod connection;
#[cfg(test)]
mod history;
mod hub;
mod mailbox;
mod message;
mod metrics;
mod report;
mod server;
mod stream;
mod tls;
mod watch;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_core::ObjectKey;
use causeway_core::rules::state::{Scope, Standing, State, Target};
use causeway_core::rules::status::Told;
use causeway_core::rules::{Kind, Share};
use tokio::sync::watch as channel;
use tokio::time::Instant;

use crate::election::Term;
use crate::queue::Next;
use crate::room::{Desk, Duty, House, Parts, Room, Who, add_lasting_part, add_part};
use crate::sources::Sources;

use cell::{Cell, Compiled, Left, Refreshed};
use hub::Hub;
use mailbox::Mailbox;

pub use server::{LATE, Tls};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the room runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where data planes connect.
    pub listen: SocketAddr,
    /// Where they connect with TLS.
    pub tls: Option<Tls>,
    /// Changes within this time go out as one.
    pub window: Duration,
    /// A client that takes nothing for so long is disconnected.
    pub stuck_after: Duration,
    /// One that asks for nothing within this is too.
    pub asks_within: Duration,
    /// How long a stop takes to end all streams.
    pub drain: Duration,
    /// How many streams there may be.
    pub most_streams: usize,
    /// For so long a client may hold a newer version than this replica, which then is about to get it too.
    pub outdated_for: Duration,
    /// Where a kind is followed only while somebody asks for it: how long it is followed after that.
    pub on_demand: Option<Duration>,
    /// What this control plane calls itself.
    pub name: String,
    /// Where can be asked who is connected, if anywhere.
    pub clients: Option<clients::Loopback>,
}

/// The room: its state, and who asks for it.
pub struct Rules {
    desk: Desk<State>,
    house: House,
    options: Options,
    hub: Hub,
    metrics: metrics::Metrics,
    kinds: watch::Kinds,
    /// Where data planes can connect by now.
    bound: channel::Sender<Vec<SocketAddr>>,
    /// Until when scopes wait for more of the same.
    waiting: Mutex<BTreeMap<Scope, Instant>>,
    /// When a rule's share was last written, and when its status.
    shares_written: report::Written,
    statuses_written: report::Written,
    /// This replica's share of rules whose definition has no status, and what was said of that by events.
    unwritten: Mutex<BTreeMap<(Kind, ObjectKey), (Share, Told)>>,
    /// What was last said of rules by events, as the leader.
    told: Mutex<BTreeMap<(Kind, ObjectKey), Told>>,
}

/// Sets are compiled and announced.
const PUSHES: usize = 0;
/// This replica's share of statuses.
const SHARES: usize = 1;
/// What the leader says.
const STATUSES: usize = 2;
/// Answers are added up, and a rule's share is written, no more often than this.
const REPORTS_EVERY: Duration = Duration::from_secs(1);

impl Rules {
    /// A room without knowledge.
    pub fn new(options: Options, house: &House) -> Arc<Self> {
        let duty = |name, who, workers| Duty { name, who, workers };
        let duties = [
            duty("pushes", Who::EveryReplica, 2),
            duty("shares", Who::EveryReplica, 16),
            duty("statuses", Who::Leader, 16),
        ];
        let room = Arc::new(Self {
            desk: Desk::new::<Self>(State::default(), &duties),
            house: house.clone(),
            options,
            hub: Hub::new(u64::try_from(house.clock.now().as_millisecond()).unwrap_or_default()),
            metrics: metrics::Metrics::default(),
            kinds: watch::Kinds::default(),
            bound: channel::Sender::new(Vec::new()),
            waiting: Mutex::default(),
            shares_written: report::Written::default(),
            statuses_written: report::Written::default(),
            unwritten: Mutex::default(),
            told: Mutex::default(),
        });
        room.metrics.register(&room);
        room
    }

    /// Starts what data planes connect to.
    pub fn serve(self: &Arc<Self>, parts: &mut Parts) {
        add_lasting_part(parts, "rules server".into(), server::run(self.clone()));
        add_lasting_part(parts, "rules replica".into(), alive::run(self.clone()));
        if let Some(listen) = self.options.clients {
            add_part(parts, &self.house.stop, "rules clients".into(), clients::run(self.clone(), listen));
        }
    }

    /// Where data planes can connect, once they can; with TLS at the second address, where there is one.
    pub async fn bound(&self) -> Vec<SocketAddr> {
        let mut bound = self.bound.subscribe();
        bound.wait_for(|addresses| !addresses.is_empty()).await.map(|it| it.clone()).unwrap_or_default()
    }

    fn name(&self) -> &str {
        &self.options.name
    }

    /// Joins those who ask for a set, and has the answer sent.
    fn join(&self, target: &Target, mailbox: &Arc<Mailbox>, subscription: u64) -> Arc<Cell> {
        let cell = self.hub.join(target, mailbox, subscription);
        self.kinds.asked(target.kind);
        self.refresh(&cell);
        mailbox.add(subscription);
        self.tally(target);
        cell
    }

    /// Leaves them.
    fn leave(&self, cell: &Cell, stream: u64, subscription: u64) {
        self.kinds.left(cell.target.kind);
        match self.hub.leave(cell, stream, subscription) {
            Left::Others => {}
            Left::Uncounted => self.tally(&cell.target),
            Left::Last(rules) => {
                rules.into_iter().for_each(|rule| self.desk.add(Scope::Share(cell.target.kind, rule)));
            }
        }
    }

    /// The version that a set has by now, whether or not its rules changed since it was sent.
    fn version(&self, target: &Target) -> Option<i64> {
        self.desk.state().version(target)
    }

    /// Whether a kind's definition is missing.
    fn is_missing(&self, kind: Kind) -> bool {
        self.desk.state().standing(kind) == Standing::Missing
    }

    /// Has answers to a set added up, in a while.
    fn tally(&self, target: &Target) {
        self.desk.add(Scope::Tally(target.clone()));
    }

    /// Brings a cell up to date.
    fn refresh(&self, cell: &Cell) {
        let now = self.house.clock.now().as_second();
        let refreshed = cell.refresh(now, |target, version| {
            let state = self.desk.state();
            // Most who join find what others asked for already.
            if version.is_some() && state.version(target) == version {
                return Compiled::Same;
            }
            Compiled::Other(state.standing(target.kind), state.set(target))
        });
        match refreshed {
            Refreshed::Same => {}
            Refreshed::News(left) => {
                left.into_iter().for_each(|rule| self.desk.add(Scope::Share(cell.target.kind, rule)));
                self.tally(&cell.target);
            }
            Refreshed::TooLarge { size, is_new } => {
                let Target { kind, namespace, app, .. } = &cell.target;
                if is_new {
                    tracing::warn!(%kind, %namespace, %app, size, "the set is larger than data planes take; the last one stays");
                }
                self.tally(&cell.target);
            }
        }
    }

    /// Whether a scope should wait for more of the same: `None` when its time has come.
    fn wait(&self, scope: &Scope, window: Duration) -> Option<Next> {
        let mut waiting = lock(&self.waiting);
        let now = Instant::now();
        let due = *waiting.entry(scope.clone()).or_insert(now + window);
        if due <= now {
            waiting.remove(scope);
            return None;
        }
        Some(Next::After(due - now))
    }

    fn push(&self, scope: &Scope, cells: &[Arc<Cell>]) -> Next {
        if cells.is_empty() {
            lock(&self.waiting).remove(scope);
            return Next::Done;
        }
        if let Some(next) = self.wait(scope, self.options.window) {
            return next;
        }
        cells.iter().for_each(|cell| self.refresh(cell));
        Next::Done
    }

    fn add_up(&self, scope: &Scope, target: &Target) -> Next {
        if let Some(next) = self.wait(scope, REPORTS_EVERY) {
            return next;
        }
        let rules = self.hub.cell(target).map(|cell| cell.tally()).unwrap_or_default();
        rules.into_iter().for_each(|rule| self.desk.add(Scope::Share(target.kind, rule)));
        Next::Done
    }
}

impl Room for Rules {
    const NAME: &'static str = "rules";
    const LEASE: &'static str = "causeway-rules";
    type State = State;

    fn desk(&self) -> &Desk<State> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>) {
        watch::start(self, sources);
    }

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope {
            Scope::App(..) => ("app", PUSHES),
            Scope::Kind(_) => ("kind", PUSHES),
            Scope::Tally(_) => ("tally", SHARES),
            Scope::Share(..) => ("share", SHARES),
            Scope::Status(..) => ("status", STATUSES),
        }
    }

    fn term_ended(&self) {
        lock(&self.told).clear();
        self.statuses_written.clear();
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        match &scope {
            Scope::App(kind, namespace, app) => self.push(&scope, &self.hub.concerned(*kind, namespace, app)),
            Scope::Kind(kind) => self.push(&scope, &self.hub.of_kind(*kind)),
            Scope::Tally(target) => self.add_up(&scope, target),
            Scope::Share(kind, key) => self.write_share(*kind, key, &term).await,
            Scope::Status(kind, key) => self.write_status(*kind, key, &term).await,
        }
    }
}
