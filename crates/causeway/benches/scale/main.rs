//! Many tunnels at once, on real gateways: 1, 100 and 1,000 tunnels on 20 gateways to 50 clusters.
//!
//! ```text
//!  creates ─▶ API server (this process) ─▶ `causeway controller` (a child, measured)
//!                   ▲ status                     │ exec
//!                   └────────────────────────────┘ ──▶ API server ─▶ nsenter ─▶ 20 namespaces
//! ```
//!
//! Every size has a cluster, gateways and a controller of its own. The clock runs from the first
//! create until the last tunnel says `Ready=True`; then the kernels are counted, so that nothing
//! is called ready that is not there. Everything ends with this process.

mod cluster;
mod controller;
mod exec;
mod gateways;
mod table;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep, timeout};

use cluster::{Cluster, Requests};
use controller::Controller;
use exec::GatewayExec;
use gateways::{Gateways, Held};
use table::Row;

const SIZES: [usize; 3] = [1, 100, 1_000];
const GATEWAYS: usize = 20;
const PEERS: usize = 50;
/// The longest that one size may take to come up, or to go.
const PATIENCE: Duration = Duration::from_secs(300);
/// Quiet for this long counts as idle.
const QUIET: Duration = Duration::from_millis(500);

fn main() -> anyhow::Result<ExitCode> {
    // `cargo test --benches` only wants to see that it starts.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(ExitCode::SUCCESS);
    }
    // Already installed is as good: there is only one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sizes = match std::env::var("SCALE_SIZES") {
        Ok(text) => text.split(',').map(str::parse).collect::<Result<_, _>>().context("SCALE_SIZES")?,
        Err(_) => SIZES.to_vec(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut rows = Vec::new();
    for size in sizes {
        rows.push(runtime.block_on(measure(size)).with_context(|| format!("{size} tunnels"))?);
    }
    let floor = gateways::floor(GATEWAYS, PEERS).context("the commands alone")?;
    table::print(&rows, floor, load.trim())?;
    Ok(ExitCode::SUCCESS)
}

/// One size, from nothing to nothing.
async fn measure(size: usize) -> anyhow::Result<Row> {
    let gateways = Arc::new(Gateways::create(GATEWAYS)?);
    let exec = Arc::new(GatewayExec::new(gateways.clone()));
    let cluster = Cluster::start(exec.clone(), GATEWAYS, PEERS).await?;
    let mut controller = Controller::start(cluster.kubeconfig(), cluster.folder())?;
    timeout(PATIENCE, cluster.published(GATEWAYS)).await.context("the gateways' records")??;
    idle(&cluster).await;

    let (before, cpu, commands) = (cluster.requests(), controller.cpu()?, controller::commands_cpu()?);
    let up = timed(&mut controller, cluster.create(size, GATEWAYS, PEERS)).await?;
    let (asked, cpu_up) = (cluster.requests().since(&before), controller.cpu()? - cpu);
    let commands = controller::commands_cpu()? - commands;
    let held = gateways.held()?;
    ensure!(held == Held::of(size), "{size} tunnels are ready, but the gateways hold {held:?}");
    idle(&cluster).await;
    let (settled, cpu_settled) = (cluster.requests().since(&before), controller.cpu()? - cpu);

    let down = timed(&mut controller, cluster.delete(size)).await?;
    let held = gateways.held()?;
    ensure!(held == Held::of(0), "no tunnel is left, but the gateways hold {held:?}");
    let peak_mib = controller.peak_mib()?;
    controller.end().await?;
    Ok(Row { size, up, asked, cpu_up, settled, cpu_settled, commands, down, peak_mib })
}

/// How long the work takes; ends early when the controller does.
async fn timed(
    controller: &mut Controller,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Duration> {
    let start = Instant::now();
    tokio::select! {
        done = timeout(PATIENCE, work) => done.context("it took too long")??,
        ended = controller.ended() => return Err(ended),
    }
    Ok(start.elapsed())
}

/// Waits until nobody asks the API server for anything.
async fn idle(cluster: &Cluster) {
    let mut last: Option<Requests> = None;
    loop {
        let now = cluster.requests();
        if last.as_ref() == Some(&now) {
            return;
        }
        last = Some(now);
        sleep(QUIET).await;
    }
}
