//! `causeway rules`: what data planes get, and who they are.
//!
//! [`plane`] is a data plane of the same protocol as the SDKs', [`decode`], [`json`] and [`text`] say what its rules are,
//! [`reach`] finds a replica of the controller.

mod clients;
pub(crate) mod decode;
mod json;
pub(crate) mod plane;
pub(crate) mod reach;
pub(crate) mod text;
mod watch;

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

/// Rules, as data planes see them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print what a data plane of an app gets, now and with every change.
    Watch(watch::Args),
    /// Show which data planes are connected, to what, at which version, and what they answered last.
    Clients(clients::Args),
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Watch(args) => watch::run(args).await,
        Command::Clients(args) => clients::run(args).await,
    }
}
