//! 100, 1,000 and 5,000 tunnels on one gateway, to as many clusters, and one change among many.
//!
//! What the controller takes should grow with the number of tunnels and no faster. The gateway's commands do too,
//! as far as the kernel lets them: what the same commands take by themselves is printed beside them.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::cost;
use crate::floor::{self, Floor};
use crate::gateways::Gateways;
use crate::real;
use crate::shape::{self, OURS, OURS_TOO, Shape};
use crate::stage::{Built, Stage, timed};
use crate::table::{Grid, met, middle, seconds, sizes};

/// As many times what a linear growth would be.
const AIM: f64 = 1.3;
/// Single changes are measured among so many.
const MANY: usize = 1_000;
const ROUNDS: usize = 10;
/// For half of them.
pub(crate) const AIM_CHANGE: Duration = Duration::from_millis(300);
const AIM_CHANGE_CPU: Duration = Duration::from_millis(100);

struct Row {
    built: Built,
    down: Duration,
    floor: Floor,
    changes: Vec<Changes>,
}

/// One kind of change, one at a time.
pub(crate) struct Changes {
    pub(crate) what: &'static str,
    /// Each until it is said to be done.
    pub(crate) times: Vec<Duration>,
    /// The controller's CPU time for each, until nothing more was asked.
    pub(crate) cpu: Duration,
    /// The commands' CPU time for each.
    commands_cpu: Duration,
    /// How many commands each took.
    execs: f64,
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let usual = if real::given().is_some() { sizes([100, MANY]) } else { sizes([100, MANY, 5_000]) };
    for size in usual? {
        rows.push(measure(size).await.with_context(|| format!("{size} tunnels on one gateway"))?);
    }
    print(&rows)?;
    print_growth(&rows)?;
    print_changes(&rows)
}

async fn measure(size: usize) -> anyhow::Result<Row> {
    // One more peer, for a tunnel that comes and goes.
    let shape = Shape { gateways: 1, peers: size + 1 };
    let floor = floor::measure(shape, size).context("the commands alone")?;
    let mut stage = Stage::set(Gateways::create(1)?, shape).await?;
    let built = stage.build(size).await?;
    let changes = if size == MANY { change(&mut stage, size).await? } else { Vec::new() };
    let down = stage.clear(size).await?;
    stage.end().await?;
    Ok(Row { built, down, floor, changes })
}

/// One changed, one created and one deleted, again and again.
pub(crate) async fn change(stage: &mut Stage, size: usize) -> anyhow::Result<Vec<Changes>> {
    let number = size / 2;
    let mut changed = Changes::of("changed");
    for round in 0..ROUNDS {
        let end = if round % 2 == 0 { OURS_TOO } else { OURS };
        changed
            .round(stage, async |stage| timed(&mut stage.controller, stage.cluster.change(number, end)).await)
            .await?;
        let address = shape::interface(number + 1, end);
        let shown = stage.gateways.all()[0].sh(&format!("ip -4 addr show dev {}", shape::name(number)))?;
        ensure!(shown.contains(&address), "{address} should be there, but {shown}");
    }
    stage.raise(size..size + 1)?;
    let (mut created, mut deleted) = (Changes::of("created"), Changes::of("deleted"));
    for _ in 0..ROUNDS {
        created
            .round(stage, async |stage| {
                timed(&mut stage.controller, stage.cluster.create(size..size + 1)).await
            })
            .await?;
        deleted
            .round(stage, async |stage| {
                timed(&mut stage.controller, stage.cluster.delete(size..size + 1)).await
            })
            .await?;
    }
    Ok(vec![changed, created, deleted])
}

impl Changes {
    fn of(what: &'static str) -> Changes {
        Changes { what, times: Vec::new(), cpu: Duration::ZERO, commands_cpu: Duration::ZERO, execs: 0.0 }
    }

    async fn round(
        &mut self,
        stage: &mut Stage,
        work: impl AsyncFnOnce(&mut Stage) -> anyhow::Result<Duration>,
    ) -> anyhow::Result<()> {
        let (cpu, commands, clock) = (stage.controller.cpu()?, cost::children()?, stage.exec.clock());
        self.times.push(work(stage).await.with_context(|| format!("one {}", self.what))?);
        stage.idle().await?;
        let rounds = u32::try_from(ROUNDS)?;
        self.cpu += (stage.controller.cpu()? - cpu) / rounds;
        self.commands_cpu += (cost::children()? - commands) / rounds;
        self.execs += (stage.exec.clock().ended - clock.ended) as f64 / f64::from(rounds);
        Ok(())
    }
}

fn print(rows: &[Row]) -> anyhow::Result<()> {
    let mut grid = Grid::new([
        "TUNNELS",
        "READY s",
        "CPU s",
        "CPU settled s",
        "PEAK MiB",
        "EXECS",
        "COMMANDS s",
        "COMMANDS CPU s",
        "FLOOR s",
        "FLOOR CPU s",
        "DELETED s",
    ]);
    for Row { built, down, floor, .. } in rows {
        grid.row([
            built.size.to_string(),
            seconds(built.up),
            seconds(built.cpu_up),
            seconds(built.cpu_settled),
            format!("{:.0}", built.peak_mib),
            built.asked.execs().to_string(),
            seconds(built.commands_time),
            seconds(built.commands_cpu),
            seconds(floor.time),
            seconds(floor.cpu),
            seconds(*down),
        ]);
    }
    grid.print("Tunnels created at once on one gateway, each to a cluster of its own")
}

fn print_growth(rows: &[Row]) -> anyhow::Result<()> {
    let mut grid = Grid::new(["GROWTH", "TIME but commands", "CPU", "MEMORY", "TIME", "COMMANDS", "FLOOR"]);
    let mut all_met = true;
    for pair in rows.windows(2) {
        let linear = pair[1].built.size as f64 / pair[0].built.size as f64;
        let times = |of: fn(&Row) -> f64| of(&pair[1]) / of(&pair[0]) / linear;
        // The controller's; the gateway's own commands are beside them.
        let judged = [
            times(|row| row.built.up.saturating_sub(row.built.commands_time).as_secs_f64()),
            times(|row| row.built.cpu_settled.as_secs_f64()),
            times(|row| row.built.peak_mib),
        ];
        let beside = [
            times(|row| row.built.up.as_secs_f64()),
            times(|row| row.built.commands_time.as_secs_f64()),
            times(|row| row.floor.time.as_secs_f64()),
        ];
        all_met &= judged.iter().all(|growth| *growth <= AIM);
        let cells = judged.iter().chain(&beside).map(|growth| format!("{growth:.2}"));
        let name = format!("{} → {}", pair[0].built.size, pair[1].built.size);
        grid.row(std::iter::once(name).chain(cells));
    }
    grid.print(&format!(
        "Growth, 1 being linear (aim: {AIM} for time but commands, CPU and memory, {})",
        met(all_met)
    ))
}

fn print_changes(rows: &[Row]) -> anyhow::Result<()> {
    if rows.iter().all(|row| row.changes.is_empty()) {
        return Ok(());
    }
    let mut grid =
        Grid::new(["AMONG", "ONE", "p50 s", "WORST s", "CPU s each", "EXECS each", "COMMANDS CPU s each"]);
    let mut missed = Vec::new();
    for row in rows {
        for changes in &row.changes {
            let p50 = middle(&changes.times);
            if row.built.size == MANY && (p50 > AIM_CHANGE || changes.cpu > AIM_CHANGE_CPU) {
                missed.push(changes.what);
            }
            grid.row([
                row.built.size.to_string(),
                changes.what.into(),
                format!("{:.3}", p50.as_secs_f64()),
                format!("{:.3}", changes.times.iter().max().copied().unwrap_or_default().as_secs_f64()),
                format!("{:.3}", changes.cpu.as_secs_f64()),
                format!("{:.1}", changes.execs),
                format!("{:.3}", changes.commands_cpu.as_secs_f64()),
            ]);
        }
    }
    grid.print(&format!("One change among many on one gateway, {ROUNDS} rounds"))?;
    let mut out = std::io::stdout().lock();
    let (time, cpu) = (AIM_CHANGE.as_secs_f64(), AIM_CHANGE_CPU.as_secs_f64());
    writeln!(out, "one among {MANY} within {time} s and {cpu} CPU s: {}", met(missed.is_empty()))?;
    if !missed.is_empty() {
        writeln!(out, "  missed by: {}", missed.join(", "))?;
    }
    Ok(())
}
