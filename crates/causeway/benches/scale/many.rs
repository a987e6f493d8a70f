//! 1, 100 and 1,000 tunnels on 20 gateways to 50 clusters.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::floor;
use crate::gateways::Gateways;
use crate::real;
use crate::shape::Shape;
use crate::stage::{Built, Stage};
use crate::table::{Grid, met, seconds, sizes};

const SHAPE: Shape = Shape { gateways: 20, peers: 50 };
const LARGE: usize = 1_000;
/// For the large size.
const AIM: Duration = Duration::from_secs(15);
const AIM_ON_REAL: Duration = Duration::from_secs(20);
const AIM_MIB: f64 = 113.0;

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for size in sizes([1, 100, LARGE])? {
        rows.push(measure(size).await.with_context(|| format!("{size} tunnels"))?);
    }
    let floor = floor::measure(SHAPE, LARGE).context("the commands alone")?;
    print(&rows)?;
    let mut out = std::io::stdout().lock();
    let (time, cpu) = (seconds(floor.time), seconds(floor.cpu));
    writeln!(out, "floor: bare ip and iptables commands for {LARGE} tunnels: {time} s, {cpu} CPU s")?;
    Ok(())
}

struct Row {
    built: Built,
    down: Duration,
    /// The API server's part: the same writes, and nobody does anything.
    writes: Duration,
}

/// One size, from nothing to nothing.
async fn measure(size: usize) -> anyhow::Result<Row> {
    let mut stage = Stage::set(Gateways::create(SHAPE.gateways)?, SHAPE).await?;
    let built = stage.build(size).await?;
    let status = stage.cluster.status(0).await?;
    let down = stage.clear(size).await?;
    stage.controller.end().await?;
    let start = Instant::now();
    stage.cluster.write_alone(0..size, &status).await?;
    let writes = start.elapsed();
    stage.cluster.end().await?;
    Ok(Row { built, down, writes })
}

fn print(rows: &[Row]) -> anyhow::Result<()> {
    let mut grid = Grid::new([
        "TUNNELS",
        "READY s",
        "REQUESTS each",
        "EXECS each",
        "REQUESTS settled",
        "CPU s",
        "CPU settled s",
        "COMMANDS CPU s",
        "PEAK MiB",
        "DELETED s",
        "WRITES ALONE s",
    ]);
    for Row { built, down, writes } in rows {
        let each = |count: u64| format!("{:.2}", count as f64 / built.size as f64);
        grid.row([
            built.size.to_string(),
            seconds(built.up),
            each(built.asked.all()),
            each(built.asked.execs()),
            each(built.settled.all()),
            seconds(built.cpu_up),
            seconds(built.cpu_settled),
            seconds(built.commands_cpu),
            format!("{:.0}", built.peak_mib),
            seconds(*down),
            seconds(*writes),
        ]);
    }
    grid.print(&format!(
        "Tunnels created at once on {} gateways, to {} clusters",
        SHAPE.gateways, SHAPE.peers
    ))?;
    let mut out = std::io::stdout().lock();
    let aim = if real::given().is_some() { AIM_ON_REAL } else { AIM };
    for built in rows.iter().map(|row| &row.built).filter(|built| built.size == LARGE) {
        writeln!(out, "{LARGE} ready within {} s: {}", aim.as_secs(), met(built.up <= aim))?;
        writeln!(out, "{LARGE} within {AIM_MIB} MiB: {}", met(built.peak_mib <= AIM_MIB))?;
    }
    for Row { built, .. } in rows {
        let each = |(what, count): (String, u64)| format!("{what} {:.2}", count as f64 / built.size as f64);
        let kinds: Vec<String> = built.settled.kinds().into_iter().map(each).collect();
        let conflicts = built.settled.conflicts();
        writeln!(out, "{} tunnels, requests each: {}; conflicts: {conflicts}", built.size, kinds.join(", "))?;
    }
    Ok(())
}
