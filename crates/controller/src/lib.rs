//! The loop that closes the difference between what objects say and what is.
//!
//! ```text
//! watch ─▶ parse ─▶ state ─▶ touched scopes ─▶ queue ─▶ compile ─▶ observe ─▶ plan ─▶ apply ─▶ status
//! ```
//!
//! [`room`] is the loop: what a capability brings, and how it is run. [`sources`] and [`follow`] bring events,
//! [`queue`] and [`worker`] the work, [`election`] the right to do it, [`write`] and [`events`] what objects say
//! afterwards. [`vpc`] is the first room. [`run`] starts everything and ends when any part does: nothing is
//! detached.

pub mod client;
pub mod clock;
pub mod dns;
pub mod election;
pub mod events;
pub mod follow;
pub mod found;
pub mod health;
pub mod leases;
mod local;
pub mod metrics;
pub mod networks;
pub mod pace;
pub mod queue;
pub mod room;
pub mod rules;
pub mod sources;
pub mod vpc;
pub mod words;
pub mod worker;
pub mod write;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use kube::Client;
use kube::runtime::events::Reporter;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::election::Times;
use crate::events::Announcer;
use crate::health::Readiness;
use crate::metrics::Metrics;
use crate::room::{House, Parts, add_lasting_part, add_part};

/// How the controller runs.
#[derive(Clone)]
pub struct Options {
    /// The cluster.
    pub client: Client,
    /// This replica's name among its like.
    pub identity: String,
    /// Where leader leases live; without one this replica leads unasked.
    pub lease_namespace: Option<String>,
    /// The times of those leases.
    pub lease_times: Times,
    /// Where health and metrics are served.
    pub listen: SocketAddr,
    /// The time of day.
    pub clock: Clock,
    /// Where all chance comes from.
    pub seed: u64,
    /// The room `vpc`, where it is switched on.
    pub vpc: Option<vpc::Options>,
    /// Whether the room `dns` is switched on.
    pub dns: bool,
    /// The room `rules`, where it is switched on.
    pub rules: Option<rules::Options>,
    /// The room `networks`, where it is switched on.
    pub networks: Option<networks::Setup>,
}

/// Runs until `stop` is cancelled, or until a part ends, which is an error.
pub async fn run(options: Options, stop: CancellationToken) -> anyhow::Result<()> {
    let mut parts = Parts::new();
    let house = furnish(&options, &stop, &mut parts);
    if let Some(options) = options.vpc {
        room::start(&vpc::Vpc::new(options, &house), &house, &mut parts);
    }
    if options.dns {
        room::start(&dns::Dns::new(&house), &house, &mut parts);
    }
    if let Some(options) = options.rules {
        let room = rules::Rules::new(options, &house);
        room::start(&room, &house, &mut parts);
        room.serve(&mut parts);
    }
    if let Some(setup) = options.networks {
        setup.start(&house, &mut parts);
    }
    until_end(parts, stop).await
}

/// How a node's agent runs.
#[derive(Clone)]
pub struct NodeOptions {
    /// The cluster.
    pub client: Client,
    /// Where health and metrics are served, if anywhere.
    pub listen: Option<SocketAddr>,
    /// The time of day.
    pub clock: Clock,
    /// Where all chance comes from.
    pub seed: u64,
    /// The room `leases`, which is all that it does.
    pub leases: leases::Options,
}

/// Runs a node's agent until `stop` is cancelled, or until a part ends, which is an error. What the kernel holds by then
/// it goes on holding.
pub async fn run_node(options: NodeOptions, stop: CancellationToken) -> anyhow::Result<()> {
    let mut parts = Parts::new();
    let name = options.leases.given.name.clone();
    let house = House {
        client: options.client.clone(),
        identity: name,
        // Nobody leads here: every node's kernel is its own agent's.
        lease_namespace: None,
        lease_times: Times::default(),
        clock: options.clock,
        seed: options.seed,
        metrics: Arc::new(Metrics::default()),
        readiness: Readiness::default(),
        announcer: announcer(&options.client, &options.leases.given.name, &stop, &mut parts),
        stop: stop.clone(),
    };
    if let Some(listen) = options.listen {
        serve_health(&house, listen, &mut parts);
    }
    room::start(&leases::Leases::new(options.leases, &house), &house, &mut parts);
    until_end(parts, stop).await
}

/// What all rooms share, and the parts that serve them.
fn furnish(options: &Options, stop: &CancellationToken, parts: &mut Parts) -> House {
    let house = House {
        client: options.client.clone(),
        identity: options.identity.clone(),
        lease_namespace: options.lease_namespace.clone(),
        lease_times: options.lease_times,
        clock: options.clock,
        seed: options.seed,
        metrics: Arc::new(Metrics::default()),
        readiness: Readiness::default(),
        announcer: announcer(&options.client, &options.identity, stop, parts),
        stop: stop.clone(),
    };
    serve_health(&house, options.listen, parts);
    house
}

fn announcer(client: &Client, identity: &str, stop: &CancellationToken, parts: &mut Parts) -> Announcer {
    let (announcer, line) = Announcer::new();
    let reporter = Reporter { controller: "causeway".into(), instance: Some(identity.to_owned()) };
    let publish = events::publish(client.clone(), reporter, line, stop.clone());
    add_lasting_part(parts, "events".into(), async move {
        publish.await;
        Ok(())
    });
    announcer
}

fn serve_health(house: &House, listen: SocketAddr, parts: &mut Parts) {
    let scrape = {
        let metrics = house.metrics.clone();
        move || metrics.encode()
    };
    let health = health::serve(listen, scrape, house.readiness.clone(), house.stop.clone());
    add_part(parts, &house.stop, "health server".into(), health);
}

/// Waits for the parts: the first that ends by itself ends the others, and is the error.
pub async fn until_end(mut parts: Parts, stop: CancellationToken) -> anyhow::Result<()> {
    let mut result = Ok(());
    while let Some(ended) = parts.join_next().await {
        let (part, end) = match ended {
            Ok((part, end)) => (part, end),
            Err(panic) => ("a part that panicked".into(), Err(panic.into())),
        };
        if !stop.is_cancelled() {
            result = Err(end.err().unwrap_or_else(|| anyhow!("it ended by itself"))).context(part);
            stop.cancel();
        } else if let Err(error) = end {
            tracing::warn!(
                part,
                error = words::describe(error.as_ref()),
                "ended with an error while stopping"
            );
        }
    }
    result
}
