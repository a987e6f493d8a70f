//! The room `vpc`: tunnels on gateways, and the exchange of gateway records.
//!
//! [`watch`] and [`broker`] bring events; one task keeps the state ([`Room::keep_state`]); workers call
//! [`Room::handle`] with a scope, which compiles under a short read lock and then does I/O without it:
//! [`gateway`] visits a gateway, [`tunnel`] writes a tunnel object, [`record`] gateway records, [`membership`]
//! our claim at the broker.

pub mod broker;
mod events;
pub mod exec;
mod follow;
pub mod gateway;
mod membership;
pub mod monitor;
pub mod record;
pub mod tunnel;
pub mod watch;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use causeway_core::vpc::status::READY;
use causeway_core::vpc::{Event, Given, Scope, State};
use kube::Client;
use kube::runtime::events::Reporter;
use tokio::sync::{Semaphore, mpsc, watch as channel};
use tokio_util::sync::CancellationToken;

use crate::Key;
use crate::metrics::{self, Metrics, ScopeKind, Tunnels};
use crate::queue::{Next, Queue};

/// How the room runs.
#[derive(Clone)]
pub struct Options {
    /// Values given by flag.
    pub given: Given,
    /// A broker given by kubeconfig; without it the ServiceDiscovery object tells.
    pub broker: Option<broker::Broker>,
    /// How gateway workloads' names begin; without it kube-ovn's ConfigMap tells.
    pub gateway_prefix: Option<String>,
    /// The longest that a command in a gateway may take.
    pub exec_timeout: Duration,
    /// How often a gateway is looked at although nothing was heard of it.
    pub drift_interval: Duration,
    /// How often both sides of the exchange are compared as a whole.
    pub resync_interval: Duration,
    /// How long a node may be silent before its gateway counts as gone.
    pub node_grace: Duration,
}

/// The room: its state and what it needs to act.
pub struct Room {
    state: RwLock<State>,
    inbox: mpsc::Sender<Note>,
    queue: Arc<Queue<Key>>,
    client: Client,
    events: events::Announcer,
    metrics: Arc<Metrics>,
    options: Options,
    monitors: monitor::Monitors,
    broker: channel::Sender<Option<broker::Broker>>,
    gateway_prefix: channel::Sender<Option<String>>,
    /// Workers are many, so that gateways that hang hold nobody up; writes at once are few.
    writes: Semaphore,
}

/// How many writes are under way at once.
const WRITES: usize = 32;

/// What reaches the task that keeps the state.
pub(crate) enum Note {
    Event(Box<Event>),
    /// A watch has brought its first full list.
    Listed(&'static str),
}

impl Room {
    /// A room without knowledge, and the inbox that fills it.
    pub(crate) fn new(
        options: &crate::Options,
        queue: Arc<Queue<Key>>,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::Receiver<Note>) {
        let (inbox, notes) = mpsc::channel(1024);
        let reporter = Reporter { controller: "causeway".into(), instance: Some(options.identity.clone()) };
        let room = Self {
            state: RwLock::new(State::new(options.vpc.given.clone())),
            inbox,
            queue,
            client: options.client.clone(),
            events: events::Announcer::new(options.client.clone(), reporter),
            metrics,
            options: options.vpc.clone(),
            monitors: monitor::Monitors::default(),
            broker: channel::Sender::new(None),
            gateway_prefix: channel::Sender::new(options.vpc.gateway_prefix.clone()),
            writes: Semaphore::new(WRITES),
        };
        (room, notes)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, scope: Scope) {
        self.queue.add(Key::Vpc(scope));
    }

    async fn tell(&self, event: Event) {
        // Only fails while stopping, when nobody listens any more.
        let _ = self.inbox.send(Note::Event(Box::new(event))).await;
    }

    /// The only writer of the state: takes events in and queues what they touch.
    pub(crate) async fn keep_state(
        self: Arc<Self>,
        mut inbox: mpsc::Receiver<Note>,
        ready: channel::Sender<bool>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut listed = std::collections::BTreeSet::new();
        while let Some(Some(note)) = stop.run_until_cancelled(inbox.recv()).await {
            match note {
                Note::Event(event) => {
                    let touched = self.state.write().unwrap_or_else(PoisonError::into_inner).apply(*event);
                    touched.into_iter().for_each(|scope| self.add(scope));
                }
                Note::Listed(watch) => {
                    listed.insert(watch);
                    if listed.len() == watch::WATCHES && !ready.send_replace(true) {
                        tracing::info!("every watch has listed");
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks after one scope.
    pub(crate) async fn handle(self: &Arc<Self>, scope: Scope) -> Next {
        let started = tokio::time::Instant::now();
        let _permit = match &scope {
            Scope::Gateway(_) => None,
            Scope::Tunnel(_) | Scope::Record(_) | Scope::Export(_) | Scope::Import(_) | Scope::Membership => {
                self.writes.acquire().await.ok()
            }
        };
        let (kind, next) = match &scope {
            Scope::Gateway(name) => (ScopeKind::Gateway, self.visit(name).await),
            Scope::Tunnel(key) => (ScopeKind::Tunnel, self.write_tunnel(key).await),
            Scope::Record(gateway) => (ScopeKind::Record, self.write_own_record(gateway).await),
            Scope::Export(name) => (ScopeKind::Export, self.export(name).await),
            Scope::Import(key) => (ScopeKind::Import, self.import(key).await),
            Scope::Membership => (ScopeKind::Membership, self.claim_id().await),
        };
        let result = if next == Next::Retry { metrics::Result::Failure } else { metrics::Result::Success };
        self.metrics.handled.get_or_create(&metrics::Work { scope: kind, result }).inc();
        self.metrics.duration.observe(started.elapsed().as_secs_f64());
        next
    }

    /// The text for Prometheus, with what is counted only when asked.
    pub(crate) fn scrape(&self) -> String {
        let (mut up, mut down) = (0, 0);
        for tunnel in self.state().tunnels() {
            let ready = tunnel.status.conditions.get(READY).is_some_and(|ready| ready.status);
            *(if ready { &mut up } else { &mut down }) += 1;
        }
        self.metrics.tunnels.get_or_create(&Tunnels { ready: "true" }).set(up);
        self.metrics.tunnels.get_or_create(&Tunnels { ready: "false" }).set(down);
        self.metrics.queue.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
        self.metrics.encode()
    }
}
