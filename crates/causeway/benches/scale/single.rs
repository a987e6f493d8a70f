//! One tunnel at a time: from its create until the last command in its gateway has said all, and where the time goes.
//!
//! Every gateway gets two. For the first it is new: the controller has never been there. For the second it is known.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::time::timeout;

use crate::cluster::{Cluster, is_ready};
use crate::exec::{Kind, Ran};
use crate::gateways::Gateways;
use crate::objects;
use crate::shape::{self, Shape};
use crate::stage::Stage;
use crate::table::{Grid, met, middle};

const ROUNDS: usize = 25;
const SHAPE: Shape = Shape { gateways: ROUNDS, peers: 50 };
const PATIENCE: Duration = Duration::from_secs(60);
const AIM_NEW: Duration = Duration::from_millis(120);
const AIM_KNOWN: Duration = Duration::from_millis(80);

/// What one tunnel took, all from just before its create.
struct Sample {
    /// The server's answer to the create.
    created: Duration,
    /// The first command began.
    begun: Duration,
    /// The last command had said all.
    last: Duration,
    /// `Ready=True` was seen.
    ready: Duration,
    commands: Vec<(Kind, Duration, Duration)>,
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut stage = Stage::set(Gateways::create(SHAPE.gateways)?, SHAPE).await?;
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for gateway in 1..=ROUNDS {
        ensure!(stage.exec.ran(gateway).is_empty(), "gateway {gateway} has been visited without a tunnel");
        // Tunnels go round the gateways.
        new.push(measure(&mut stage, gateway, gateway - 1).await.context("on a new gateway")?);
        known.push(measure(&mut stage, gateway, gateway - 1 + ROUNDS).await.context("on a known gateway")?);
    }
    stage.clear(2 * ROUNDS).await?;
    stage.end().await?;
    print(&[("new", AIM_NEW, new), ("known", AIM_KNOWN, known)])
}

async fn measure(stage: &mut Stage, gateway: usize, tunnel: usize) -> anyhow::Result<Sample> {
    debug_assert_eq!(SHAPE.ends(tunnel).0, gateway);
    let before = stage.exec.ran(gateway).len();
    let (start, created, ready) = tokio::select! {
        done = timeout(PATIENCE, create(&stage.cluster, tunnel)) => done.context("it took too long")??,
        ended = stage.controller.ended() => return Err(ended),
    };
    stage.idle().await?;
    let ran = stage.exec.ran(gateway).split_off(before);
    let after = |at: Instant| at.saturating_duration_since(start);
    let told = |ran: &Ran| (ran.kind, after(ran.start), after(ran.last));
    let commands: Vec<_> = ran.iter().map(told).collect();
    let begun = commands.iter().map(|(_, start, _)| *start).min().context("no command ran")?;
    let last = commands.iter().map(|(_, _, last)| *last).max().context("no command ran")?;
    Ok(Sample { created: after(created), begun, last, ready: after(ready), commands })
}

/// Creates a tunnel that is watched already; gives when it began, when it was created and when it was ready.
async fn create(cluster: &Cluster, tunnel: usize) -> anyhow::Result<(Instant, Instant, Instant)> {
    let name = shape::name(tunnel);
    let this_one = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(cluster.tunnels(), this_one));
    while !matches!(events.next().await.context("the watch ended")??, Event::InitDone) {}
    let object = serde_json::from_value(objects::tunnel(tunnel, SHAPE))?;
    let (api, params) = (cluster.tunnels(), PostParams::default());
    let start = Instant::now();
    let created = async {
        api.create(&params, &object).await?;
        anyhow::Ok(Instant::now())
    };
    let ready = async {
        while let Some(event) = events.next().await {
            if let Event::Apply(object) | Event::InitApply(object) = event?
                && is_ready(&object)
            {
                return Ok(Instant::now());
            }
        }
        bail!("the watch ended")
    };
    let (created, ready) = tokio::try_join!(created, ready)?;
    Ok((start, created, ready))
}

fn print(all: &[(&str, Duration, Vec<Sample>)]) -> anyhow::Result<()> {
    let mut grid = Grid::new([
        "GATEWAY",
        "CREATED ms",
        "FIRST COMMAND ms",
        "COMMANDS each",
        "COMMANDS ms each",
        "LAST SAID ms",
        "WORST ms",
        "READY ms",
    ]);
    for (what, _, samples) in all {
        let p50 = |of: fn(&Sample) -> Duration| millis(middle_of(samples, of));
        let commands: usize = samples.iter().map(|sample| sample.commands.len()).sum();
        grid.row([
            (*what).into(),
            p50(|sample| sample.created),
            p50(|sample| sample.begun),
            format!("{:.1}", commands as f64 / samples.len() as f64),
            p50(|sample| sample.commands.iter().map(|(_, start, last)| *last - *start).sum()),
            p50(|sample| sample.last),
            millis(samples.iter().map(|sample| sample.last).max().unwrap_or_default()),
            p50(|sample| sample.ready),
        ]);
    }
    grid.print(&format!("One tunnel, from its create; the middle of {ROUNDS}, monitors until they listen"))?;
    let mut out = std::io::stdout().lock();
    for (what, aim, samples) in all {
        let p50 = middle_of(samples, |sample| sample.last);
        let (aim_ms, p50_ms) = (millis(*aim), millis(p50));
        writeln!(
            out,
            "one tunnel on a {what} gateway, until the last command has said all: p50 {p50_ms} ms (aim: {aim_ms} ms, {})",
            met(p50 <= *aim)
        )?;
        let typical = samples.iter().find(|sample| sample.last == p50);
        let line = |(kind, start, last): &(Kind, Duration, Duration)| {
            format!("{} {}–{}", format!("{kind:?}").to_lowercase(), millis(*start), millis(*last))
        };
        let lines: Vec<String> = typical.iter().flat_map(|sample| &sample.commands).map(line).collect();
        writeln!(out, "  that one: {}", lines.join(", "))?;
    }
    Ok(())
}

fn middle_of(samples: &[Sample], of: fn(&Sample) -> Duration) -> Duration {
    middle(&samples.iter().map(of).collect::<Vec<_>>())
}

fn millis(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e3)
}
