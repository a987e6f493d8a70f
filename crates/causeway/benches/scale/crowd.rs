//! A thousand tunnels on one gateway while ten times as many clusters have published theirs at the broker: until all is
//! settled, over a minute in which nothing happens, and for one change.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep, timeout};

use crate::broker::Broker;
use crate::cost;
use crate::exec::Answers;
use crate::gateways::Gateways;
use crate::one::{self, AIM_CHANGE};
use crate::shape::Shape;
use crate::stage::Stage;
use crate::table::{met, middle, seconds, sizes};

/// Records at the broker for each tunnel.
const RECORDS_EACH: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Until the monitor has confirmed what was built, and every peer was asked three times: what is new is asked more often.
const SETTLING: Duration = Duration::from_secs(50);
/// Lines about peers that come sooner than this after each other are of one round.
const APART: Duration = Duration::from_secs(3);
/// From one round to the next are 15 s, and three without an answer make a peer silent.
const AIM_ROUND: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(300);
/// Of one core.
const AIM_PERCENT: f64 = 2.0;

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    for size in sizes([1_000])? {
        measure(size).await.with_context(|| format!("{size} tunnels"))?;
    }
    Ok(())
}

async fn measure(size: usize) -> anyhow::Result<()> {
    let records = RECORDS_EACH * size;
    let gateways = Gateways::create(1)?;
    let broker = Broker::start(gateways.folder(), records).await?;
    let start = Instant::now();
    // One more peer, for a tunnel that comes and goes.
    let shape = Shape { gateways: 1, peers: size + 1 };
    let mut stage = Stage::at_broker(gateways, shape, &broker).await?;
    timeout(PATIENCE, stage.cluster.came_home(records)).await.context("the records do not come home")??;
    let home = start.elapsed();
    stage.idle().await?;

    let start = Instant::now();
    let built = stage.build(size).await?;
    let settled = start.elapsed();
    sleep(SETTLING).await;
    let idle = Idle::minute(&stage).await?;
    let changes = one::change(&mut stage, size).await?;
    let down = stage.clear(size).await?;
    stage.end().await?;

    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{size} tunnels on one gateway, {records} clusters' records at the broker")?;
    writeln!(out, "  the records were home after {} s", seconds(home))?;
    let (up, cpu, peak) = (seconds(built.up), seconds(built.cpu_settled), built.peak_mib);
    writeln!(out, "  ready after {up} s, settled after {} s, {cpu} CPU s, {peak:.0} MiB", seconds(settled))?;
    idle.print(&mut out)?;
    for change in &changes {
        let (p50, worst) = (middle(&change.times), change.times.iter().max().copied().unwrap_or_default());
        writeln!(
            out,
            "  one {}: {} s, at worst {} s, {:.3} CPU s (aim: {} s, {})",
            change.what,
            seconds(p50),
            seconds(worst),
            change.cpu.as_secs_f64(),
            seconds(AIM_CHANGE),
            met(p50 <= AIM_CHANGE)
        )?;
    }
    writeln!(out, "  all deleted after {} s", seconds(down))?;
    Ok(())
}

/// What a minute cost in which nothing happened.
struct Idle {
    /// Of the controller, and of all that runs in the gateway, in parts of a core.
    controller: f64,
    gateway: f64,
    asked: Vec<(String, u64)>,
    commands: u64,
    resident_mib: f64,
    /// How many tunnels' peers each round of questions asked, and how long it took from its first answers to its last.
    rounds: Vec<(usize, Duration)>,
}

impl Idle {
    async fn minute(stage: &Stage) -> anyhow::Result<Idle> {
        let gateway = || cost::inside(stage.gateways.all()[0].pid());
        let (cpu, inside, asked, ran) =
            (stage.controller.cpu()?, gateway()?, stage.cluster.requests().await?, stage.exec.clock());
        let start = Instant::now();
        sleep(MINUTE).await;
        let heard = stage.exec.answers(start.into_std());
        let part = |cpu: Duration| cpu.as_secs_f64() / start.elapsed().as_secs_f64();
        Ok(Idle {
            controller: part(stage.controller.cpu()? - cpu),
            gateway: part(gateway()?.saturating_sub(inside)),
            asked: stage.cluster.requests().await?.since(&asked).kinds(),
            commands: stage.exec.clock().ended - ran.ended,
            resident_mib: stage.controller.resident_mib()?,
            rounds: rounds(&heard, start.into_std(), start.elapsed()),
        })
    }

    fn print(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let (own, gateway) = (100.0 * self.controller, 100.0 * self.gateway);
        let kinds: Vec<String> = self.asked.iter().map(|(what, count)| format!("{what} {count}")).collect();
        let kinds = if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") };
        writeln!(
            out,
            "  idle for a minute: {own:.2} % of a core (aim: {AIM_PERCENT} %, {}), {gateway:.2} % in the gateway, {:.0} MiB; \
             {} commands; asked for: {kinds}",
            met(own <= AIM_PERCENT),
            self.resident_mib,
            self.commands
        )?;
        let (asked, took) = (
            self.rounds.iter().map(|(asked, _)| *asked).min().unwrap_or_default(),
            self.rounds.iter().map(|(_, took)| *took).max().unwrap_or_default(),
        );
        writeln!(
            out,
            "  whole rounds of questions in it: {}, of {asked} peers or more, {} s at most (aim: {} s, {})",
            self.rounds.len(),
            seconds(took),
            seconds(AIM_ROUND),
            met(!self.rounds.is_empty() && took <= AIM_ROUND)
        )?;
        Ok(())
    }
}

/// Rounds of questions that began and ended in a time.
fn rounds(heard: &[Answers], start: std::time::Instant, time: Duration) -> Vec<(usize, Duration)> {
    let is_inside = |at: std::time::Instant| at - start >= APART && at - start <= time.saturating_sub(APART);
    let rounds = heard.chunk_by(|one, next| next.at - one.at < APART);
    let ends = rounds.filter_map(|round| Some((round, round.first()?.at, round.last()?.at)));
    let whole = ends.filter(|(_, first, last)| is_inside(*first) && is_inside(*last));
    let counted = whole.map(|(round, first, last)| (round.iter().map(|it| it.tunnels).sum(), last - first));
    // What is said only to be heard is no round.
    counted.filter(|(asked, _)| *asked > 0).collect()
}
