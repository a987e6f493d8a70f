//! Linux gateways: observing and changing links, addresses, routes and NAT.
//!
//! A room has its own door ([`vpc`]); what they share is how commands are run and how their answers are framed:
//! commands are constant, what varies goes to stdin, and an answer is whole or it is none ([`end_of`]). Exit statuses
//! tell failure, stderr never does.

mod done;
pub mod leases;
pub mod netlink;
pub mod networks;
mod run;
mod sections;
pub mod vpc;

pub use done::{DONE, SEEN, end_of};
pub use run::{Output, Run, RunError};

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
    #[error("a command in the gateway failed with status {status}: {said}")]
    Failed {
        /// The exit status.
        status: i32,
        /// What it said.
        said: String,
    },
    /// Another change of this gateway is under way, and was not over in time. Nothing was changed.
    #[error("another change of the gateway is still running")]
    Busy,
    /// Somebody leads since, and has been here. Nothing was changed.
    #[error("the gateway follows a newer leader (term {by})")]
    Superseded {
        /// The term of the newest leader that the gateway knows.
        by: u64,
    },
    /// A tool answered something that cannot be understood.
    #[error("the gateway's answer about its {what} cannot be read: {why}")]
    Unreadable {
        /// Which part.
        what: &'static str,
        /// Why not.
        why: String,
    },
}
