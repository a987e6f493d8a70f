//! A thousand gateways with a tunnel each, and a minute in which nothing happens.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::Cluster;
use crate::controller::Controller;
use crate::gateways::Gateways;
use crate::objects;
use crate::pretend::Pretend;
use crate::shape::Shape;
use crate::stage::timed;
use crate::table::{met, seconds, sizes};

const MINUTE: Duration = Duration::from_secs(60);
/// Two drift intervals and a little.
const SETTLING: Duration = Duration::from_secs(35);
const PATIENCE: Duration = Duration::from_secs(120);
/// Of one core.
const AIM_PERCENT: f64 = 1.0;

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    for size in sizes([1_000])? {
        measure(size).await?;
    }
    Ok(())
}

async fn measure(size: usize) -> anyhow::Result<()> {
    let gateways = Arc::new(Gateways::create(1)?);
    let pretend = Arc::new(Pretend::new(gateways.clone()));
    let shape = Shape { gateways: size, peers: 1 };
    gateways.raise(shape, 0..1)?;
    let cluster = Cluster::start(pretend.clone(), gateways.folder(), shape).await?;
    cluster.put(objects::records(shape.peers)).await?;
    let mut controller = Controller::start(&cluster, gateways.folder(), None)?;
    timeout(PATIENCE, cluster.published()).await.context("the gateways' records")??;
    timed(&mut controller, cluster.create(0..1)).await.context("the real gateway")?;
    let rehearsed = async {
        while !pretend.is_rehearsed() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, rehearsed).await.context("the real gateway was not built")?;
    let up = timed(&mut controller, cluster.create(1..size)).await.context("the others")?;
    timeout(PATIENCE, at_rest(&cluster)).await.context("the controller does not come to rest")??;

    // Until each gateway was visited once more, and its monitor has confirmed what was built.
    sleep(SETTLING).await;
    let (requests, cpu, beats) = (cluster.requests().await?, controller.cpu()?, pretend.beats());
    let start = Instant::now();
    sleep(MINUTE).await;
    let (elapsed, cpu) = (start.elapsed(), controller.cpu()? - cpu);
    let (asked, beats) = (cluster.requests().await?.since(&requests), pretend.beats() - beats);
    let resident = controller.resident_mib()?;
    ensure!(asked.all() == asked.execs(), "it was not idle: {:?}", asked.kinds());
    controller.end().await?;
    cluster.end().await?;

    let percent = 100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "\n{size} gateways with a tunnel each, idle for a minute (gateways pretended below the exec)"
    )?;
    writeln!(out, "  ready after {} s", seconds(up))?;
    writeln!(
        out,
        "  {} CPU s, {percent:.2} % of a core (aim: {AIM_PERCENT} %, {})",
        seconds(cpu),
        met(percent <= AIM_PERCENT)
    )?;
    writeln!(
        out,
        "  {:.1} heartbeats a second, {} requests, {resident:.0} MiB",
        beats as f64 / elapsed.as_secs_f64(),
        asked.all()
    )?;
    Ok(())
}

/// Waits until nothing but commands is asked for.
async fn at_rest(cluster: &Cluster) -> anyhow::Result<()> {
    loop {
        let before = cluster.requests().await?;
        sleep(Duration::from_secs(5)).await;
        let asked = cluster.requests().await?.since(&before);
        if asked.all() == asked.execs() {
            return Ok(());
        }
    }
}
