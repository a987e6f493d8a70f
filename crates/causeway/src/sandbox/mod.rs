//! `causeway sandbox`: two clusters (or more) on one machine, joined by the real controllers.
//!
//! ```text
//!  API servers (cluster1, cluster2, …, broker), in this process, on loopback
//!     ▲ objects                 ▲ watch                          ▲ kubeconfig
//!  kubeovn, submariner       kubelet, vpc ──▶ namespaces      `causeway controller`, one child
//!  (what a cluster holds)    (what a cluster does)  ▲            per cluster; knows of no sandbox
//!                                  exec ────────────┘
//! ```
//!
//! [`addresses`] says who lives where, [`topology`] lays the cables, [`site`] is one cluster,
//! [`up`] is the order in which things start and end, [`proof`] sends the packets. With `--nodes` [`nodes`] adds some,
//! on which `causeway node` runs; with `--networks` [`networks`] adds bridges with hosts on them.
//!
//! Invariant: everything that exists outside this process's memory ends with it. Namespaces are
//! unnamed and held by descriptors, processes carry a mark by which they are found, files are in
//! one folder.

mod addresses;
mod apply;
mod arrivals;
mod controllers;
mod demo;
mod dns;
mod echo;
mod exec;
mod exec_log;
mod faults;
mod folder;
mod given;
mod kubelet;
mod kubeovn;
mod marks;
mod matrix;
mod measure;
mod nat;
mod netns;
mod networks;
mod nodes;
mod pod_status;
mod preflight;
mod progress;
mod proof;
mod pty;
mod report;
mod rules;
mod running;
mod site;
mod start_time;
mod submariner;
mod supervise;
mod tools;
mod topology;
mod tunnel;
mod up;
mod views;
mod vpc;
mod workloads;

#[cfg(test)]
mod site_tests;
#[cfg(test)]
mod topology_tests;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

pub(crate) use demo::Demo;
pub(crate) use nat::Choice;
pub(crate) use nodes::Backend as NodesBackend;
pub(crate) use preflight::{EXIT_CODE, NotReady};

use demo::{Cause, Rounds, Stage};
use folder::Folder;
use marks::Guardian;
use measure::Measurement;
use networks::Cloud;
use progress::Progress;
use report::Report;
use up::Sandbox;

/// Exit code of a run that was interrupted before it could say anything.
const INTERRUPTED: u8 = 130;

/// Run two clusters or more on this machine and join their VPCs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many clusters to run; the first gets a tunnel to each of the others.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=9))]
    pub(crate) clusters: u8,
    /// Use these API servers in place of embedded ones: one per cluster, then the broker's. They must have no
    /// nodes, and the clusters a controller manager.
    #[arg(long, value_name = "FILE,…", value_delimiter = ',', num_args = 1, conflicts_with = "clusters")]
    pub(crate) kubeconfig: Vec<PathBuf>,
    /// The program that plays the kubelet towards given API servers; hack/control-plane-build.sh builds it.
    #[arg(long, value_name = "FILE", env = "CAUSEWAY_KUBELET", default_value = "causeway-kubelet")]
    pub(crate) kubelet: PathBuf,
    /// Make no tunnel: only the clusters and their controllers.
    #[arg(long, conflicts_with = "apply")]
    pub(crate) bare: bool,
    /// Apply this manifest, which has a VpcNatTunnel, to cluster1 and its mirror image to the peer, in place of the own
    /// tunnels.
    #[arg(long, value_name = "FILE")]
    pub(crate) apply: Option<PathBuf>,
    /// Have the controllers serve rules too, on loopback, with data planes under which a rule is changed.
    #[arg(long, conflicts_with = "measure")]
    pub(crate) rules: bool,
    /// Have the controllers keep VpcDnsForwards too, on objects as kube-ovn makes them; nobody serves DNS here.
    #[arg(long, conflicts_with = "measure")]
    pub(crate) dns: bool,
    /// Give each cluster N nodes with a pod and a `causeway node` on each, and show who reaches whom before and after
    /// the routes of one are deleted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=i64::from(nodes::MOST)),
          conflicts_with_all = ["measure", "kubeconfig"])]
    pub(crate) nodes: Option<u8>,
    /// How packets get from node to node; of several each cluster takes the next.
    #[arg(
        long,
        value_name = "BACKEND,…",
        value_delimiter = ',',
        num_args = 1,
        default_value = "host-gw",
        requires = "nodes"
    )]
    pub(crate) nodes_backend: Vec<NodesBackend>,
    /// Give the nodes IPv6 besides IPv4; then a pod reaches another if it does so over both.
    #[arg(long, requires = "nodes")]
    pub(crate) nodes_ipv6: bool,
    /// Have the controllers keep networks too, as bridges in a network namespace of each cluster's own, and show who of
    /// the hosts on them reaches whom.
    #[arg(long, conflicts_with = "measure")]
    pub(crate) networks: bool,
    /// Have the networks made in this Neutron, which must ask for no credentials, and not as bridges; without --networks
    /// too.
    #[arg(long, value_name = "URL", conflicts_with = "measure")]
    pub(crate) neutron: Option<String>,
    /// Break something under traffic and show what comes of it.
    #[arg(long, value_name = "WHAT",
          conflicts_with_all = ["bare", "apply", "measure", "kubeconfig", "rules", "nodes", "networks", "neutron"])]
    pub(crate) demo: Option<Demo>,
    /// With --demo failover: the gateway falls silent as if its node had died, and nobody is told.
    #[arg(long, requires = "demo")]
    pub(crate) silent: bool,
    /// With --demo failover: N times, one after another; then say how long it took, and exit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), requires = "demo")]
    pub(crate) rounds: Option<u16>,
    /// With --rounds: so many tunnels on the gateway that is lost.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4_000),
          requires = "rounds")]
    pub(crate) tunnels: u32,
    /// Prove that packets cross, then exit: 0 if they did, 1 if not. With --bare: that the gateways were exchanged.
    #[arg(long)]
    pub(crate) once: bool,
    /// Measure the time to the first packet of N new tunnels, one after another, then exit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "apply")]
    pub(crate) measure: Option<u16>,
    /// How to report what is up.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    /// Folder for kubeconfigs and logs; without it a temporary one that vanishes at the end.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The iptables that holds the gateways' own chains.
    #[arg(long, value_name = "VARIANT", default_value = "auto")]
    pub(crate) iptables: Choice,
    /// Seconds to wait for the first packet before reporting that none came.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) timeout: u64,
}

/// How to report what is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables and a sentence.
    Text,
    /// One JSON document on stdout.
    Json,
}

/// Checks that the sandbox can run here and gets the privileges it needs.
///
/// Must be called before any thread starts, so before the async runtime; see
/// [`preflight`](self::preflight). On an error exit with [`EXIT_CODE`].
pub(crate) fn prepare(args: &Args) -> Result<(), NotReady> {
    preflight::check(args.iptables, Cloud::asked(args) == Some(Cloud::Bridge))
}

/// Runs the sandbox until it is interrupted, or with `--once` until the proof.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Already installed is as good: there is only one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let asks_for_failover = args.silent || args.rounds.is_some();
    anyhow::ensure!(
        !asks_for_failover || args.demo == Some(Demo::Failover),
        "--silent and --rounds are about --demo failover"
    );
    let mut stop = Stop::listen()?;
    let progress = Progress::new();
    let folder = Folder::open(args.dir.as_deref())?;
    start_logging(&folder)?;
    let name = format!("{}-{}", std::process::id(), start_time::since_process_start().as_nanos());
    let guardian = Guardian::start(&name, folder.temporary()).context("cannot start the guardian")?;
    let mut sandbox = Sandbox::new(name, progress.clone());
    let mut ready = None;
    let ended = tokio::select! {
        ended = live(&args, &folder, &mut sandbox, &mut ready) => ended,
        () = stop.asked() => Ok(()),
    };
    if sandbox.has_begun() {
        progress.stage("taking everything down");
    }
    tokio::select! {
        () = sandbox.end() => {}
        () = stop.asked() => {}
    }
    progress.finish();
    drop(folder);
    guardian.dismiss().await;
    ended.map(|()| match ready {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => ExitCode::from(INTERRUPTED),
    })
}

/// Builds, proves and reports; then, unless it was for once, stays.
async fn live(
    args: &Args,
    folder: &Folder,
    sandbox: &mut Sandbox,
    ready: &mut Option<bool>,
) -> anyhow::Result<()> {
    let patience = Duration::from_secs(args.timeout);
    let outcome = match sandbox.build(args, folder).await {
        Ok(()) => sandbox.prove(patience, folder).await,
        Err(error) => Err(error),
    };
    sandbox.progress.finish();
    let (mut report, broken) = match outcome {
        Ok(report) => (report, None),
        Err(error) => (Report::failed(folder.path(), &error), Some(error)),
    };
    *ready = Some(report.ready);
    if let (Some(rounds), true) = (args.measure, report.ready) {
        let measured = sandbox.measure(rounds, patience).await?;
        sandbox.progress.finish();
        return show(&measured, Measurement::text, args.output);
    }
    let cause = if args.silent { Cause::Silent } else { Cause::Deleted };
    if let (Some(rounds), true) = (args.rounds, report.ready) {
        let measure = async |stage: &Stage<'_>| demo::measure(stage, rounds, args.tunnels, cause).await;
        let measured = sandbox.show(patience, folder, measure).await?;
        sandbox.progress.finish();
        return show(&measured, Rounds::text, args.output);
    }
    if let (Some(demo), true) = (args.demo, report.ready) {
        let run = async |stage: &Stage<'_>| demo.run(stage, cause).await;
        report.take(sandbox.show(patience, folder, run).await?);
        sandbox.progress.finish();
        *ready = Some(report.ready);
    }
    report.stays = !args.once && args.measure.is_none();
    if broken.is_none() || args.output == Output::Json {
        show(&report, Report::text, args.output)?;
    }
    if let Some(error) = broken {
        return Err(error);
    }
    if report.ready {
        folder.mark_ready()?;
    }
    if report.stays {
        sandbox.progress.say("running until Ctrl-C");
        return Err(sandbox.first_failure().await);
    }
    Ok(())
}

/// What goes wrong and is tried again is written down; the screen is for what people wait for.
fn start_logging(folder: &Folder) -> anyhow::Result<()> {
    let log = File::options().create(true).append(true).open(folder.log()).context("cannot open the log")?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("causeway=debug,warn"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Arc::new(log));
    // Where somebody else listens already, they get to hear it.
    let _ = logs.try_init();
    Ok(())
}

fn show<T: Serialize>(report: &T, text: fn(&T) -> String, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Text => text(report),
        Output::Json => serde_json::to_string_pretty(report)? + "\n",
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot write the report")
}

/// The signals that ask to end.
#[derive(Debug)]
struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Stop> {
        Ok(Stop {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
