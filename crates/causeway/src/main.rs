//! The `causeway` command: the controller, the sandbox, and small helps for people.

#[cfg(feature = "diagnose")]
mod check;
mod clusters;
#[cfg(feature = "completion")]
mod completion;
mod config;
mod controller;
mod daemon;
#[cfg(feature = "diagnose")]
mod diagnose;
#[cfg(feature = "diagnose")]
mod gather;
#[cfg(feature = "diagnose")]
mod look;
mod networks;
#[cfg(feature = "node")]
mod node;
mod rules;
#[cfg(feature = "sandbox")]
mod sandbox;
mod status;
mod table;
#[cfg(feature = "diagnose")]
mod vpc;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use causeway_controller::words::describe;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Joins the VPCs of many Kubernetes clusters: tunnels between their gateways, declared as objects.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it, and it is taken apart at once")]
enum Command {
    /// Keep gateways, records and statuses of one cluster as its objects say.
    Controller(controller::Args),
    /// Keep this node's routes to the pods of all others as the cluster's nodes say, in flannel's place.
    ///
    /// Flags and environment are flannel's (FLANNELD_… with a flag's name in capitals), so that its manifests work with
    /// this command in place of flanneld. docs/node.md says what a node then holds.
    #[cfg(feature = "node")]
    Node(node::Args),
    /// Show every tunnel, forward, rule, network and node of a cluster: all is well, or what is wrong.
    ///
    /// Exits with 0 if all is well, with 1 if something is not, and with 2 if a cluster could not be asked.
    Status(status::Args),
    /// Walk a packet's way through a tunnel and name the first hop that it does not get past.
    ///
    /// Looks at objects, gateways and, by a few pings from inside the gateway, at packets; changes nothing. With the peer's
    /// kubeconfig or context too, it looks at both ends. Exits with 0 if all is well, with 1 if a hop is broken, and with 2
    /// if that could not be seen.
    #[cfg(feature = "diagnose")]
    Diagnose(diagnose::Args),
    /// Transfer something between two clusters' workloads: echoes, long packets and some megabytes over TCP.
    ///
    /// Runs commands in two pods that are there already, and creates nothing. The one that speaks first needs bash, head, yes,
    /// sha1sum and ping, the other one sh, and perl or python3. Exits with 0 if all arrived, with 1 if it did not, and
    /// with 2 if it could not be tried.
    #[cfg(feature = "diagnose")]
    Check(check::Args),
    /// Gather everything that a stranger needs to help, in one archive, secrets left out.
    ///
    /// Objects, what gateways hold, the controller's logs and metrics, and what `status` and `diagnose` say. Exits with 0 if
    /// all could be read, and with 2 if not: then the archive holds what could, and says what not.
    #[cfg(feature = "diagnose")]
    Gather(gather::Args),
    /// The gateways of VPCs: which is the main one, who stands by, and a switch on purpose.
    #[cfg(feature = "diagnose")]
    #[command(subcommand)]
    Vpc(vpc::Command),
    /// Rules as data planes see them: what they get, and who they are.
    #[command(subcommand)]
    Rules(rules::Command),
    /// Print the custom resource definitions.
    Crds {
        /// For which rooms.
        #[arg(long, value_name = "ROOM,…", value_delimiter = ',', value_enum, default_value = controller::DEFAULT_ROOMS)]
        enable: Vec<controller::RoomName>,
    },
    /// Print what makes a shell complete this command's words.
    ///
    /// For the present shell: `source <(causeway completion bash)`. For all to come its output goes into a file:
    /// /etc/bash_completion.d/causeway, _causeway in a folder of zsh's $fpath, or
    /// ~/.config/fish/completions/causeway.fish.
    #[cfg(feature = "completion")]
    Completion(completion::Args),
    /// Run two clusters or more on this machine and join their VPCs.
    #[cfg(feature = "sandbox")]
    Sandbox(sandbox::Args),
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(refusal) => {
            let _ = writeln!(std::io::stderr(), "error: {refusal}");
            return ExitCode::from(BAD_USAGE);
        }
    };
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            // Where nobody can read it there is nothing left to do about it.
            let _ = writeln!(std::io::stderr(), "error: {}", describe(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a command line that makes no sense, as the parser of flags has it.
const BAD_USAGE: u8 = 2;

/// The command line, with what a config file says where one is given. Flags that make no sense end the process here.
fn parse() -> Result<Cli, config::Refusal> {
    let words = words();
    let matches = Cli::command().get_matches_from(words.clone());
    let (words, file) = config::completed(&Cli::command(), words, &matches)?;
    let matches = match &file {
        None => matches,
        Some(file) => Cli::command().try_get_matches_from(words).map_err(|error| file.refuses_as(&error))?,
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let contradiction = match &cli.command {
        Command::Controller(args) => args.contradiction(),
        _ => None,
    };
    match (contradiction, file) {
        (None, _) => Ok(cli),
        (Some(what), Some(file)) => Err(file.refuses(&what)),
        (Some(what), None) => Cli::command().error(ErrorKind::ArgumentConflict, what).exit(),
    }
}

#[cfg(not(feature = "node"))]
fn words() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// The command line; for `node` as flannel's manifests mean it.
#[cfg(feature = "node")]
fn words() -> Vec<OsString> {
    let cli = Cli::command();
    let node = cli.find_subcommand("node").into_iter().flat_map(clap::Command::get_arguments);
    let flags: Vec<&str> = node.filter_map(clap::Arg::get_long).collect();
    node::as_flannel_has_it(std::env::args_os(), &flags, |name| std::env::var_os(name))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Controller(args) => Ok(daemon::run(args.log_format, || {
            controller::prepare(&args)?;
            runtime()?.block_on(controller::run(args))
        })),
        #[cfg(feature = "node")]
        Command::Node(args) => Ok(daemon::run(args.log_format, || {
            node::prepare(&args)?;
            runtime()?.block_on(node::run(args))
        })),
        Command::Status(args) => runtime()?.block_on(status::run(args)),
        #[cfg(feature = "diagnose")]
        Command::Diagnose(args) => runtime()?.block_on(diagnose::run(args)),
        #[cfg(feature = "diagnose")]
        Command::Check(args) => runtime()?.block_on(check::run(args)),
        #[cfg(feature = "diagnose")]
        Command::Gather(args) => runtime()?.block_on(gather::run(args)),
        #[cfg(feature = "diagnose")]
        Command::Vpc(command) => runtime()?.block_on(vpc::run(command)),
        Command::Rules(command) => runtime()?.block_on(rules::run(command)),
        Command::Crds { enable } => {
            let crds = enable.into_iter().flat_map(controller::RoomName::crds).collect();
            std::io::stdout().write_all(causeway_api::crds_yaml(crds).as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(feature = "completion")]
        Command::Completion(args) => {
            completion::print(&args, Cli::command())?;
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(feature = "sandbox")]
        Command::Sandbox(args) => {
            if let Err(missing) = sandbox::prepare(&args) {
                writeln!(std::io::stderr(), "error: {missing}")?;
                return Ok(ExitCode::from(sandbox::EXIT_CODE));
            }
            runtime()?.block_on(sandbox::run(args))
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // Already installed is as good: there is only one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
