//! The room `dns`: names of other clusters resolve in VPCs that ask for it.
//!
//! All that it holds is in objects, so all it does is write: a forward's status and finalizer ([`report`]), a block of a
//! Corefile and a route of a Deployment ([`change`]). What it follows is in [`watch`].

mod change;
mod metrics;
mod report;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use causeway_core::dns::quarrel::Quarrel;
use causeway_core::dns::{Event, Scope, State};
use tokio::time::Instant;

use crate::election::Term;
use crate::queue::Next;
use crate::room::{Desk, Duty, House, Room, Who};
use crate::sources::Sources;

/// Where kube-ovn keeps DNS servers, and Kubernetes its own.
const KUBE_SYSTEM: &str = "kube-system";

/// The room: its state and what it needs to act.
pub struct Dns {
    desk: Desk<State>,
    house: House,
    /// The ConfigMaps that are followed besides the usual one.
    followed: tokio::sync::watch::Sender<BTreeSet<String>>,
    /// What was written where, and how often.
    quarrels: Mutex<BTreeMap<Scope, Quarrel>>,
    began: Instant,
}

/// Writes to the API server.
const WRITES: usize = 0;
/// How many of those are under way at once.
const WRITES_AT_ONCE: usize = 8;
/// What every replica looks at.
const FOLLOWS: usize = 1;

impl Dns {
    /// A room without knowledge.
    pub fn new(house: &House) -> Arc<Self> {
        let duties = [
            Duty { name: "writes", who: Who::Leader, workers: WRITES_AT_ONCE },
            Duty { name: "follows", who: Who::EveryReplica, workers: 1 },
        ];
        let room = Arc::new(Self {
            desk: Desk::new::<Self>(State::default(), &duties),
            house: house.clone(),
            followed: tokio::sync::watch::Sender::default(),
            quarrels: Mutex::default(),
            began: Instant::now(),
        });
        metrics::register(&room);
        room
    }
}

impl Room for Dns {
    const NAME: &'static str = "dns";
    const LEASE: &'static str = "causeway-dns";
    type State = State;

    fn desk(&self) -> &Desk<State> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>) {
        watch::start(self, sources);
    }

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope {
            Scope::Forward(_) => ("forward", WRITES),
            Scope::Corefile(_) => ("corefile", WRITES),
            Scope::Deployment(_) => ("deployment", WRITES),
            Scope::Follow => ("follow", FOLLOWS),
        }
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        match &scope {
            Scope::Forward(key) => self.write_forward(key, &term).await,
            Scope::Corefile(name) => self.write_corefile(name, &term).await,
            Scope::Deployment(name) => self.write_deployment(name, &term).await,
            Scope::Follow => {
                let wanted = self.desk.state().followed();
                self.followed.send_if_modified(|known| std::mem::replace(known, wanted.clone()) != wanted);
                Next::Done
            }
        }
    }

    fn term_ended(&self) {
        self.quarrels.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        self.desk.tell(Event::TermEnded);
    }
}
