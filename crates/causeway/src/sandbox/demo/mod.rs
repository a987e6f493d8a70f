//! `causeway sandbox --demo …`: something breaks while packets cross, and a picture says what came of it.
//!
//! Packets are counted where they are sent ([`traffic`]) and where they are forwarded ([`forwarded`]), objects are watched
//! ([`seen`]), and all that was seen becomes a [`Story`], whose [`picture`] is drawn.

mod broker;
mod crowd;
mod failover;
mod forwarded;
mod logged;
mod picture;
mod reboot;
mod rounds;
mod seen;
mod story;
mod traffic;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use tokio::time::timeout;

use super::addresses::{Cluster, Gateway, Role};
use super::progress::Progress;
use super::site::{Broker, Site};
use super::tunnel::{self, Placed};
pub(super) use failover::Cause;
pub(super) use rounds::{Rounds, measure};
use seen::when;
pub(super) use story::Story;
use traffic::Traffic;

/// Traffic that is seen before anything breaks, and after all is well.
const BEFORE: Duration = Duration::from_millis(600);
const AFTERWARDS: Duration = Duration::from_millis(600);

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Demo {
    /// The main gateway of a VPC is killed, and its standby takes over.
    Failover,
    /// The broker does not answer, and a gateway is lost meanwhile.
    Broker,
    /// A gateway without a standby restarts and has lost everything.
    Reboot,
}

impl Demo {
    /// The tunnels that it needs.
    pub(super) fn tunnels(self, clusters: &[Cluster]) -> Vec<Placed> {
        match self {
            Demo::Failover | Demo::Broker => tunnel::by_vpc(clusters),
            Demo::Reboot => tunnel::demo(clusters),
        }
    }

    /// Breaks it and watches.
    pub(super) async fn run(self, stage: &Stage<'_>, cause: Cause) -> anyhow::Result<Story> {
        match self {
            Demo::Failover => failover::run(stage, cause).await,
            Demo::Broker => broker::run(stage).await,
            Demo::Reboot => reboot::run(stage).await,
        }
    }
}

/// Where it happens.
pub(super) struct Stage<'a> {
    pub(super) sites: &'a [Site],
    pub(super) broker: &'a Broker,
    /// The sandbox's folder.
    pub(super) folder: &'a Path,
    /// How long anything may take.
    pub(super) patience: Duration,
    pub(super) progress: &'a Progress,
}

impl Stage<'_> {
    /// Where packets come from and where they go to.
    fn pair(&self) -> anyhow::Result<[&Site; 2]> {
        let [near, far, ..] = self.sites else { anyhow::bail!("two clusters are needed") };
        Ok([near, far])
    }

    /// Packets from the client of the one to the server of the other.
    async fn traffic(&self) -> anyhow::Result<Traffic> {
        let [near, far] = self.pair()?;
        let client = near.running.get(Role::Client).context("the client does not run")?;
        Traffic::start(&client.net.namespace, far.cluster.server_global()).await
    }

    /// Waits until a cluster's tunnel says that a gateway stands by.
    async fn stands_by(&self, site: &Site, gateway: Gateway) -> anyhow::Result<()> {
        let words = format!("gateway {} holds the tunnel too", gateway.name());
        let says = when(seen::tunnels(site), "demo", |tunnel| {
            seen::condition(tunnel, "Failover").is_some_and(|(_, message)| message.starts_with(&words))
        });
        let what = || format!("{} of {} does not stand by", gateway.name(), site.cluster);
        timeout(self.patience, says).await.with_context(what)?.map(drop)
    }
}
