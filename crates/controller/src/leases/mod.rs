//! The room `leases`: this node's kernel knows the way to the pods of every other node.
//!
//! Unlike other rooms it has no leader: each node runs it for itself. [`watch`] follows the nodes, [`links`] the link by
//! which this one is reached and what happens to routes; [`kernel`] closes the difference between what the kernel holds and
//! what it should hold, [`traffic`] that of what it does with pods' packets, and [`announce`] tells the others and the
//! CNI plugin. [`once`] answers without running: what would change, and how all of ours goes.

mod announce;
mod kernel;
pub mod links;
mod metrics;
pub mod once;
mod report;
mod traffic;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_core::leases::state::{Scope, State};
use causeway_core::leases::{Given, Interface, Traffic, Want};
use causeway_core::{Cidr, Family};
use causeway_datapath::leases::{Interest, Kernel};
use tokio::time::Instant;

use crate::election::Term;
use crate::follow::Spread;
use crate::queue::Next;
use crate::room::{Desk, Duty, House, Room, Who};
use crate::sources::Sources;

use links::Selection;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the room runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is known from the start.
    pub given: Given,
    /// What the names of annotations begin with.
    pub prefix: String,
    /// By which link this node is reached.
    pub selection: Selection,
    /// What the CNI plugin reads.
    pub subnet_file: PathBuf,
    /// Whether the node's condition says that it has a network.
    pub set_condition: bool,
    /// How often the kernel is looked at although nothing was heard.
    pub check_every: Duration,
    /// Over which times nodes that start together, or lose their API server together, spread.
    pub spread: Spread,
}

/// What is kept of a family between two looks at the kernel.
#[derive(Default)]
struct Kept {
    /// A conversation with the kernel, unless the last one failed.
    kernel: Mutex<Option<Kernel>>,
    /// What it should hold, of which revision of the state.
    want: Mutex<Option<(u64, Arc<Want>)>>,
    /// What it was last made to hold: whatever is missing of that, somebody else took away.
    converged: Mutex<Option<Arc<Want>>>,
    /// Since when there are news of the kernel that nobody has looked into.
    heard: Mutex<Option<Instant>>,
    /// Its link's index, if it has one.
    link: Mutex<Option<u32>>,
    /// The link by which this node is reached, as it last was.
    interface: Mutex<Option<Interface>>,
    /// Under which number the kernel knows the conversation.
    port: Mutex<Option<u32>>,
}

/// The room.
pub struct Leases {
    desk: Desk<State>,
    house: House,
    options: Options,
    metrics: metrics::Metrics,
    kept: BTreeMap<Family, Kept>,
    said: report::Said,
    /// What was last done with packets of pods, once it was as it should be.
    traffic: Mutex<Option<Traffic>>,
    /// When that was last looked at.
    traffic_seen: Mutex<Option<Instant>>,
}

const KERNEL: usize = 0;
const TRAFFIC: usize = 1;
const ANNOUNCEMENTS: usize = 2;

impl Leases {
    /// A room without knowledge.
    pub fn new(options: Options, house: &House) -> Arc<Self> {
        let duty = |name, workers| Duty { name, who: Who::EveryReplica, workers };
        let duties = [duty("kernel", 2), duty("traffic", 1), duty("announcements", 1)];
        let families = options.given.networks.iter().map(|network| network.range.family());
        let room = Arc::new(Self {
            desk: Desk::new::<Self>(State::new(options.given.clone()), &duties),
            house: house.clone(),
            metrics: metrics::Metrics::default(),
            kept: families.map(|family| (family, Kept::default())).collect(),
            said: report::Said::default(),
            traffic: Mutex::default(),
            traffic_seen: Mutex::default(),
            options,
        });
        room.metrics.register(&room);
        // Others rely on it only once this is said.
        house.readiness.expect(report::ANNOUNCEMENT);
        house.readiness.waiting(report::ANNOUNCEMENT, "the first look at the kernel is awaited");
        room
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        self.kept.keys().copied()
    }

    /// What of the kernel's news concerns this room.
    fn interest(&self) -> Interest {
        let ranges: Vec<Cidr> = self.options.given.networks.iter().map(|network| network.range).collect();
        let links = self.kept.values().filter_map(|kept| *lock(&kept.link)).collect();
        let own = self.kept.values().filter_map(|kept| *lock(&kept.port)).collect();
        let state = self.desk.state();
        let interfaces = self.families().map(|family| Some(state.interface(family)?.index));
        Interest { links, ranges, settled: interfaces.collect(), own }
    }
}

impl Room for Leases {
    const NAME: &'static str = "leases";
    const LEASE: &'static str = "";
    type State = State;

    fn desk(&self) -> &Desk<State> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>) {
        watch::start(self, sources);
        sources.task("links", |feed| links::follow(self.clone(), feed));
    }

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope {
            Scope::Kernel(_) => ("kernel", KERNEL),
            Scope::Traffic => ("traffic", TRAFFIC),
            Scope::Announcement => ("announcement", ANNOUNCEMENTS),
        }
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        match scope {
            Scope::Kernel(family) => self.keep_kernel(family, &term).await,
            Scope::Traffic => self.keep_traffic(&term).await,
            Scope::Announcement => self.announce(&term).await,
        }
    }
}
