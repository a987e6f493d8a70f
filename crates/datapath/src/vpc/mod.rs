//! The room `vpc`: tunnels between gateways.
//!
//! ```text
//! observe: digest ─▶ constant script ─▶ sections ─▶ Have, or "the same"
//! apply:   Plan, term ─▶ stdin ─▶ constant script ─▶ sections ─▶ which steps failed, and Have
//! examine: a tunnel's values ─▶ constant script ─▶ sections ─▶ who answered what
//! monitor: a number, or time ─▶ constant script ─▶ changes, and digests of what is there
//! flows:   ranges ─▶ constant script ─▶ flows; flows ─▶ constant script of another gateway
//! watch:   other gateways' addresses ─▶ constant script ─▶ which of them fell silent, or is back
//! ```
//!
//! The planner in `core` decides; a [`Datapath`] carries out and reports what the gateway then holds. What goes to
//! stdin is rendered from types that can hold no space, line break or quote.

mod commands;
mod examine;
mod flows;
mod memory;
mod monitor;
#[cfg(test)]
mod order_tests;
mod outcome;
mod parse;
mod render;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use causeway_core::names::Ipv4Cidr;
use causeway_core::vpc::{Have, Plan};

pub use self::commands::Commands;
pub use self::examine::{Answers, Beyond, Echo, Question};
pub use self::flows::Flow;
pub use self::memory::Memory;
pub use self::monitor::{Heard, Monitor, Traffic};
pub use self::watch::{Watch, Watched, Word};
use crate::Trouble;

/// A gateway's network namespace, wherever it is.
#[async_trait]
pub trait Datapath: Send + Sync {
    /// What the gateway holds. Whoever has a listing already names it by its digest, and is spared another
    /// one that says the same.
    async fn observe(&self, known: Option<&Digest>) -> Result<Looked, Trouble>;

    /// Carries out the steps it can, in one round trip, and observes in the same one. Of two at once one
    /// waits for the other.
    ///
    /// The term counts the leaders. A gateway remembers the highest that it was given and refuses a lower
    /// one: [`Trouble::Superseded`], and nothing was changed. Without a term nothing is compared. An empty
    /// plan with a term makes the gateway remember it.
    async fn apply(&self, plan: &Plan, term: Option<u64>) -> Result<Applied, Trouble>;

    /// The flows to some ranges that connection tracking knows; none where there is no such thing.
    async fn flows(&self, _ranges: &[Ipv4Cidr]) -> Result<BTreeSet<Flow>, Trouble> {
        Ok(BTreeSet::new())
    }

    /// Has connection tracking know flows that another gateway knew: they go on when their packets come here instead.
    async fn take_flows(&self, _flows: &BTreeSet<Flow>) -> Result<(), Trouble> {
        Ok(())
    }
}

/// Stands for a listing: equal digests, equal listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(String);

impl Digest {
    /// In hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a gateway holds, and what stands for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// What it holds.
    pub have: Have,
    /// To be handed to the next [`Datapath::observe`]; none where the gateway cannot make one.
    pub digest: Option<Digest>,
}

/// The answer to an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// Nothing has changed since the listing that was named.
    Same,
    /// This is there now.
    Listed(Listing),
}

impl Looked {
    /// What is there, for whoever named no listing.
    pub fn listing(self) -> Option<Listing> {
        match self {
            Self::Same => None,
            Self::Listed(listing) => Some(listing),
        }
    }
}

/// What came of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// What the gateway holds afterwards.
    pub listing: Listing,
    /// The steps that failed, by their index in the plan. A step that failed only because an earlier one
    /// of the same link did carries that one's error.
    pub failures: BTreeMap<usize, StepError>,
}

/// Why a single step failed while others may have worked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// No module for this encapsulation.
    #[error("the kernel of the gateway's node has no support for {0} tunnels")]
    KernelLacksTunnelType(&'static str),
    /// The kernel or iptables said no.
    #[error("the gateway refused: {0}")]
    Refused(String),
}
