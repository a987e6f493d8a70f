//! One tunnel at a time: from its create until the last command that looks at its gateway or changes it has said all, and
//! where the time goes. A new gateway's monitor comes after that, and is shown beside it.
//!
//! A gateway is new when its pod begins to run in the moment in which the tunnel is created: the controller has never
//! been there. It is empty when the controller has been there and it has no tunnel, and known when it has one.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::time::timeout;

use crate::cluster::{Cluster, is_ready};
use crate::exec::Kind;
use crate::gateways::Gateways;
use crate::objects;
use crate::shape::{self, Shape};
use crate::stage::{Stage, timed};
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
    /// The last command that looks or changes had said all.
    last: Duration,
    /// The monitor of a new gateway listened, which comes after that.
    heard: Option<Duration>,
    /// `Ready=True` was seen.
    ready: Duration,
    commands: Vec<(Kind, Duration, Duration)>,
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut stage = Stage::set(Gateways::create(SHAPE.gateways)?, SHAPE).await?;
    stage.gateways.raise(SHAPE, 0..2 * ROUNDS)?;
    let (mut new, mut empty, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for gateway in 1..=ROUNDS {
        // Tunnels go round the gateways.
        let (first, second) = (gateway - 1, gateway - 1 + ROUNDS);
        empty.push(measure(&mut stage, first, false).await.context("on an empty gateway")?);
        known.push(measure(&mut stage, second, false).await.context("on a known gateway")?);
        for tunnel in [first, second] {
            timed(&mut stage.controller, stage.cluster.delete(tunnel..tunnel + 1)).await?;
        }
        stage.idle().await?;
        stage.cluster.replace_pod(gateway).await?;
        stage.idle().await?;
        new.push(measure(&mut stage, first, true).await.context("on a new gateway")?);
    }
    stage.clear(ROUNDS).await?;
    stage.end().await?;
    print(&[("new", AIM_NEW, new), ("empty", AIM_KNOWN, empty), ("known", AIM_KNOWN, known)])
}

async fn measure(stage: &mut Stage, tunnel: usize, is_new: bool) -> anyhow::Result<Sample> {
    let (gateway, _) = SHAPE.ends(tunnel);
    let before = stage.exec.ran(gateway).len();
    let work = create(&stage.cluster, tunnel, is_new.then_some(gateway));
    let (start, created, ready) = tokio::select! {
        done = timeout(PATIENCE, work) => done.context("it took too long")??,
        ended = stage.controller.ended() => return Err(ended),
    };
    stage.idle().await?;
    let ran = stage.exec.ran(gateway).split_off(before);
    ensure!(!is_new || ran.iter().any(|ran| ran.kind == Kind::Monitor), "it is not new: {ran:?}");
    let after = |at: Instant| at.saturating_duration_since(start);
    let commands: Vec<_> = ran.iter().map(|ran| (ran.kind, after(ran.start), after(ran.last))).collect();
    let begun = commands.iter().map(|(_, start, _)| *start).min().context("no command ran")?;
    let end = |of: fn(Kind) -> bool| commands.iter().filter(|it| of(it.0)).map(|it| it.2).max();
    let last = end(|kind| kind != Kind::Monitor).context("no command ran")?;
    let heard = end(|kind| kind == Kind::Monitor);
    Ok(Sample { created: after(created), begun, last, heard, ready: after(ready), commands })
}

/// Creates a tunnel that is watched already, and in the same moment has its gateway's pod run; gives when that
/// began, when the tunnel was created and when it was ready.
async fn create(
    cluster: &Cluster,
    tunnel: usize,
    pod_of: Option<usize>,
) -> anyhow::Result<(Instant, Instant, Instant)> {
    let this_one = watcher::Config::default().fields(&format!("metadata.name={}", shape::name(tunnel)));
    let mut events = std::pin::pin!(watcher(cluster.tunnels(), this_one));
    while !matches!(events.next().await.context("the watch ended")??, Event::InitDone) {}
    let object = serde_json::from_value(objects::tunnel(tunnel, SHAPE))?;
    let (api, params) = (cluster.tunnels(), PostParams::default());
    let start = Instant::now();
    let created = async {
        api.create(&params, &object).await?;
        anyhow::Ok(Instant::now())
    };
    let runs = async {
        match pod_of {
            Some(gateway) => cluster.run_pod(gateway).await,
            None => Ok(()),
        }
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
    let (created, (), ready) = tokio::try_join!(created, runs, ready)?;
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
        "MONITORED ms",
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
            match samples.iter().filter_map(|sample| sample.heard).collect::<Vec<_>>() {
                heard if heard.is_empty() => "-".into(),
                heard => millis(middle(&heard)),
            },
        ]);
    }
    grid.print(&format!("One tunnel, from its create; the middle of {ROUNDS}, monitors until they listen"))?;
    let mut out = std::io::stdout().lock();
    for (what, aim, samples) in all {
        let p50 = middle_of(samples, |sample| sample.last);
        let (aim_ms, p50_ms) = (millis(*aim), millis(p50));
        writeln!(
            out,
            "one tunnel, gateway {what}, until the last look or change has said all: p50 {p50_ms} ms (aim: {aim_ms} ms, {})",
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
