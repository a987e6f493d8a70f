//! Linux gateways: observing and changing links, addresses, routes and NAT.
//!
//! ```text
//! observe: constant script ─▶ sections ─▶ Have
//! apply:   Plan ─▶ lines on stdin ─▶ constant script ─▶ sections ─▶ which steps failed, and Have
//! ```
//!
//! The planner in `core` decides; a [`Datapath`] carries out and reports what the gateway then holds.
//! Commands are constant: what varies goes to stdin, rendered from types that can hold no space, line
//! break or quote. Exit statuses tell failure, stderr never does.

mod commands;
mod memory;
#[cfg(test)]
mod order_tests;
mod outcome;
mod parse;
mod render;
mod run;
mod sections;

use std::collections::BTreeMap;

use async_trait::async_trait;
use causeway_core::vpc::{Have, Plan};

pub use commands::{Commands, MONITOR};
pub use memory::Memory;
pub use run::{Output, Run, RunError};

/// The line by which the monitor says that it listens: once at the start, then every five seconds.
pub const HEARTBEAT: &str = "causeway-alive";

/// A gateway's network namespace, wherever it is.
#[async_trait]
pub trait Datapath: Send + Sync {
    /// What the gateway holds.
    async fn observe(&self) -> Result<Have, Trouble>;

    /// Carries out the steps it can, in one round trip, and observes in the same one.
    async fn apply(&self, plan: &Plan) -> Result<Applied, Trouble>;
}

/// What came of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// What the gateway holds afterwards.
    pub have: Have,
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

/// Why a gateway could not be looked at, or nothing is known about what a plan did to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The command never ran, or its end is unknown.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The gateway's image lacks something.
    #[error("the gateway has no `{0}`; it needs an image with bash, iproute2 and iptables")]
    ToolMissing(String),
    /// A tool failed as a whole.
    #[error("a command in the gateway failed with status {status}: {stderr}")]
    Failed {
        /// The exit status.
        status: i32,
        /// What it said.
        stderr: String,
    },
    /// A tool answered something that can not be understood.
    #[error("the gateway's answer about its {what} can not be read: {why}")]
    Unreadable {
        /// Which part.
        what: &'static str,
        /// Why not.
        why: String,
    },
}
