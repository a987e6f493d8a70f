//! The loop that closes the difference between what objects say and what is.
//!
//! ```text
//!            one task per room, the only writer of its state            workers
//! watch ─▶ parse ─▶ state ─▶ touched scopes ─▶ queue ─▶ compile ─▶ observe ─▶ plan ─▶ apply ─▶ status
//! ```
//!
//! [`queue`], [`worker`], [`election`], [`status`], [`metrics`] and [`health`] are shared by all rooms;
//! [`vpc`] is the first room. [`run`] starts everything and ends when any part does: nothing is detached.

pub mod election;
pub mod health;
pub mod metrics;
pub mod queue;
pub mod status;
pub mod vpc;
pub mod worker;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::election::Candidate;
use crate::metrics::Metrics;
use crate::queue::Queue;

/// Something to look after, of any room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Of the room `vpc`.
    Vpc(causeway_core::vpc::Scope),
}

/// How the controller runs.
#[derive(Clone)]
pub struct Options {
    /// The cluster it looks after.
    pub client: Client,
    /// Its name among its replicas.
    pub identity: String,
    /// Where leader leases live; without one it works unasked.
    pub lease_namespace: Option<String>,
    /// Where health and metrics are served.
    pub listen: SocketAddr,
    /// How many keys are handled at once.
    pub workers: usize,
    /// The room `vpc`.
    pub vpc: vpc::Options,
}

/// Runs until `stop` is cancelled, or until a part ends, which is an error.
pub async fn run(options: Options, stop: CancellationToken) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::default());
    let queue = Arc::new(Queue::default());
    let (ready, is_ready) = watch::channel(false);
    let (room, inbox) = vpc::Room::new(&options, queue.clone(), metrics.clone());
    let room = Arc::new(room);

    let mut parts: JoinSet<(&'static str, anyhow::Result<()>)> = JoinSet::new();
    let scrape = {
        let room = room.clone();
        move || room.scrape()
    };
    let health = health::serve(options.listen, scrape, is_ready.clone(), stop.clone());
    parts.spawn(async move { ("health server", health.await) });
    let state = room.clone().keep_state(inbox, ready, stop.clone());
    parts.spawn(async move { ("state of room vpc", state.await) });
    let watches = vpc::watch::run(room.clone(), stop.clone());
    parts.spawn(async move { ("watches of room vpc", watches.await) });
    let exchange = vpc::broker::run(room.clone(), stop.clone());
    parts.spawn(async move { ("exchange of room vpc", exchange.await) });
    let work = lead(options, room, queue, metrics, is_ready, stop.clone());
    parts.spawn(async move { ("workers", work.await) });

    let mut result = Ok(());
    while let Some(ended) = parts.join_next().await {
        let (part, end) = ended.context("a part of the controller panicked")?;
        if !stop.is_cancelled() {
            result = Err(end.err().unwrap_or_else(|| anyhow!("it ended by itself"))).context(part);
            stop.cancel();
        } else if let Err(error) = end {
            tracing::warn!(part, error = format!("{error:#}"), "ended with an error while stopping");
        }
    }
    result
}

/// Works while leading. Losing the lease ends the process: the next one starts from a clean state.
async fn lead(
    options: Options,
    room: Arc<vpc::Room>,
    queue: Arc<Queue<Key>>,
    metrics: Arc<Metrics>,
    mut is_ready: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let candidate = options.lease_namespace.map(|namespace| Candidate {
        leases: Api::<Lease>::namespaced(options.client, &namespace),
        name: "causeway-controller".into(),
        identity: options.identity,
    });
    let lease = match &candidate {
        Some(candidate) => match stop.run_until_cancelled(candidate.acquire()).await {
            Some(lease) => Some(lease?),
            None => return Ok(()),
        },
        None => None,
    };
    // Nothing is decided before every watch has brought its first full list.
    if stop.run_until_cancelled(is_ready.wait_for(|ready| *ready)).await.is_none() {
        return Ok(());
    }
    tracing::info!("leading: looking after everything");
    metrics.leader.set(1);
    let handle = move |key: Key| {
        let room = room.clone();
        async move {
            match key {
                Key::Vpc(scope) => room.handle(scope).await,
            }
        }
    };
    let work = worker::run(queue, options.workers, stop.clone(), handle);
    match (&candidate, lease) {
        (Some(candidate), Some(lease)) => {
            tokio::select! {
                () = work => {}
                lost = candidate.hold(lease) => return lost.context("leader election"),
            }
            candidate.release().await.context("giving the lease up")?;
        }
        _ => work.await,
    }
    Ok(())
}
