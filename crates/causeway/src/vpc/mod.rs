//! `causeway vpc`: which gateway of a VPC is the main one, who stands by, and a switch from one to another on purpose.
//!
//! Both begin with a look at the cluster, from which the controller's own state says what is so ([`crate::look`]). A switch is a
//! wish on the Vpc's object; [`progress`] reads from the VPC's record how far the controller got with it, and [`tied`] lists what
//! cannot follow.

mod progress;
mod status;
mod switch;
mod tied;
mod view;

use std::io::Write;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

use crate::clusters::{Cluster, Trouble};
use crate::look::{self, Seen};

/// The gateways of VPCs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the main gateway of every VPC, and who would take over.
    ///
    /// Exits with 0 if all is well, with 1 if a VPC's tunnels have no main gateway that works or are on their way to another,
    /// and with 2 if the cluster could not be asked.
    Status(status::Args),
    /// Make another gateway of a VPC the main one, without losing a packet.
    ///
    /// Its tunnels follow, and the routes of their ranges; all other routes stay, unless --all is said. Waits until it is done.
    /// Exits with 0 if it is, with 1 if it is not within the time, and with 2 if it cannot be asked for.
    Switch(switch::Args),
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table.
    Text,
    /// One object.
    Json,
}

/// The cluster could not be asked, or the question makes no sense.
const UNSEEN: u8 = 2;

pub(crate) async fn run(command: Command) -> anyhow::Result<ExitCode> {
    let done = match command {
        Command::Status(args) => status::run(&args).await,
        Command::Switch(args) => switch::run(&args).await,
    };
    match done {
        Ok(code) => Ok(code.into()),
        Err(Stop::Trouble(trouble)) => {
            writeln!(std::io::stderr(), "error: {trouble}")?;
            Ok(UNSEEN.into())
        }
        Err(Stop::Output(error)) => Err(error),
    }
}

/// Why a command goes no further.
enum Stop {
    /// What is wrong, for whoever asked.
    Trouble(Trouble),
    /// It cannot even be printed.
    Output(anyhow::Error),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error.into())
    }
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

/// Looks at everything that the controller would decide from.
async fn see(cluster: &Cluster) -> Result<Seen, Trouble> {
    let seen =
        look::look(&cluster.client).await.map_err(|error| Trouble::of_server(&error, &cluster.server))?;
    match seen.forbidden.first() {
        Some(why) => Err(Trouble::new(format!("something may not be read: {why}"))),
        None => Ok(seen),
    }
}
