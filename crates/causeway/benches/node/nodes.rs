//! All nodes of a large cluster from one list: until the kernel has the way to each, and what it takes.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_core::leases::Mode;
use tokio::time::sleep;

use crate::floor::{self, Floor};
use crate::load::Load;
use crate::server::Cluster;
use crate::site::Machine;
use crate::table::{Grid, met, middle};

pub(crate) const NODES: u32 = 5_000;
const ROUNDS: usize = 5;
/// From the agent's first connection until the last route.
const IN_TIME: Duration = Duration::from_secs(1);
const MIB: f64 = 40.0;
/// It says of itself what it has to say.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// What one start took.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// From the process's start until the first connection.
    connected: Duration,
    /// Until the list began.
    first: Duration,
    /// Until it ended.
    last: Duration,
    /// Until the last route was there.
    routed: Duration,
    bytes: u64,
    cpu: Duration,
    peak_mib: f64,
    /// Of the memory what is the program's own file.
    files_mib: f64,
    others: f64,
    /// How long somebody took for the list who threw it away.
    floor: Option<Floor>,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let nodes = crate::given("NODES", NODES)?;
    let cluster = Cluster::start(nodes, Mode::HostGw).await?;
    let mut samples = Vec::new();
    for _ in 0..crate::given("NODES_ROUNDS", ROUNDS)? {
        let floor = floor::read(&cluster).await.context("reading the list")?;
        samples.push(Sample { floor: Some(floor), ..one(&cluster, nodes).await? });
    }
    print(&cluster, nodes, &samples)?;
    cluster.end().await
}

async fn one(cluster: &Cluster, nodes: u32) -> anyhow::Result<Sample> {
    let mut machine = Machine::new(cluster, Mode::HostGw)?;
    let (load, start) = (Load::now()?, Instant::now());
    let agent = machine.start_agent()?;
    let reached = tokio::task::block_in_place(|| machine.witness.until_reached(1..=nodes));
    let routed = start.elapsed();
    reached.with_context(|| agent.last_lines())?;
    let (cpu, trace) = (agent.cpu()?, machine.relay.trace());
    let others = load.others(cpu)?;
    let (first, last) = trace.list().context("no list has come")?;
    sleep(AFTERWARDS).await;
    let sample = Sample {
        connected: trace.connected().context("nobody has connected")? - start,
        first: first - start,
        last: last - start,
        routed,
        bytes: trace.bytes(),
        cpu,
        peak_mib: agent.peak_mib()?,
        files_mib: agent.files_mib()?,
        others,
        floor: None,
    };
    agent.end().await?;
    Ok(sample)
}

fn print(cluster: &Cluster, nodes: u32, samples: &[Sample]) -> anyhow::Result<()> {
    let mut grid = Grid::new([
        "CONNECTED s",
        "LIST BEGINS",
        "LIST ENDS",
        "ALL ROUTES",
        "CONNECTED TO ROUTES s",
        "FIRST BYTE TO ROUTES s",
        "LAST BYTE TO ROUTES s",
        "LIST ALONE s",
        "STREAMED s",
        "LIST MB",
        "CPU s",
        "PEAK MiB",
        "ITS FILE MiB",
        "OTHERS' CORES",
    ]);
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let maybe = |time: Option<Duration>| time.map_or_else(|| "-".into(), seconds);
    for sample in samples {
        grid.row([
            seconds(sample.connected),
            seconds(sample.first),
            seconds(sample.last),
            seconds(sample.routed),
            seconds(sample.routed - sample.connected),
            seconds(sample.routed - sample.first),
            seconds(sample.routed.saturating_sub(sample.last)),
            maybe(sample.floor.and_then(|floor| floor.usual())),
            maybe(sample.floor.and_then(|floor| floor.streaming)),
            format!("{:.1}", sample.bytes as f64 / 1e6),
            format!("{:.2}", sample.cpu.as_secs_f64()),
            format!("{:.1}", sample.peak_mib),
            format!("{:.1}", sample.files_mib),
            format!("{:.2}", sample.others),
        ]);
    }
    let (kind, kilobytes) = (cluster.kind(), cluster.node_bytes as f64 / 1e3);
    grid.print(&format!(
        "{nodes} nodes of {kilobytes:.1} kB on {kind}; from the start of the process, host-gw"
    ))?;
    let of = |pick: fn(&Sample) -> f64| middle(&samples.iter().map(pick).collect::<Vec<_>>());
    let time = of(|sample| (sample.routed - sample.connected).as_secs_f64());
    let first = of(|sample| (sample.routed - sample.first).as_secs_f64());
    let cpu = of(|sample| sample.cpu.as_secs_f64());
    let peak = samples.iter().map(|sample| sample.peak_mib).fold(0.0, f64::max);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{nodes} nodes, from the first connection to the last route: p50 {time:.2} s (aim: {} s, {}), {cpu:.2} CPU s; from the list's first byte {first:.2} s",
        IN_TIME.as_secs(),
        met(time <= IN_TIME.as_secs_f64())
    )?;
    let floors = samples.iter().filter_map(|sample| sample.floor?.usual());
    let floors: Vec<f64> = floors.map(|it| it.as_secs_f64()).collect();
    if !floors.is_empty() {
        let floor = middle(&floors);
        writeln!(
            out,
            "the same list, read and thrown away: p50 {floor:.2} s; with the routes {:.2} times that",
            time / floor
        )?;
    }
    writeln!(out, "the most memory of all rounds: {peak:.1} MiB (aim: {MIB} MiB, {})", met(peak <= MIB))?;
    Ok(())
}
