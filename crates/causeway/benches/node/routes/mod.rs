//! As many leases at once as a cluster has nodes, beside what people do it with by hand.

pub(crate) mod child;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_datapath::leases::PROTOCOL;

use crate::addresses;
use crate::namespace::Namespace;
use crate::plot;
use crate::table::{Grid, met, middle};

/// The first argument of a child.
pub(crate) const ROLE: &str = "routes-child";
const SIZES: &str = "100,1000,10000,100000";
const ROUNDS: usize = 5;
/// Next hops that many leases share. A kernel looks for each new one among all that lead over the same link, whoever asks:
/// with as many as leases that is all that would be seen.
const HOPS: usize = 256;
/// Up to so many leases are also measured with a next hop each, as nodes have it.
const HOP_EACH: usize = 10_000;
/// From here on the aims hold: below it is the start of a process that is seen.
const MANY: usize = 10_000;
const TIMES_AS_FAST: f64 = 2.0;
const CHECK: (usize, Duration) = (100_000, Duration::from_millis(300));
/// A kernel takes a namespace's routes away after the namespace is gone; nobody is told when.
const GONE: Duration = Duration::from_millis(500);

/// What a child measured of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub(crate) struct Figures {
    /// Nodes become what the kernel should hold.
    pub(crate) compile: Duration,
    /// What it holds is listed, compared and changed.
    pub(crate) apply: Duration,
    /// What it holds is listed and compared, and nothing is wrong.
    pub(crate) check: Duration,
    /// The most memory.
    pub(crate) peak_kib: u64,
}

struct Row {
    leases: usize,
    hops: usize,
    ours: Figures,
    ip: Duration,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    // Children, and nothing else happens meanwhile.
    tokio::task::block_in_place(measure)
}

fn measure() -> anyhow::Result<()> {
    let sizes: String = crate::given("LEASES", SIZES.to_owned())?;
    let sizes: Vec<usize> =
        sizes.split(',').map(|size| size.parse().context("LEASES")).collect::<Result<_, _>>()?;
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    for leases in &sizes {
        rows.push(row(*leases, HOPS.min(*leases), folder.path())?);
    }
    for leases in sizes.iter().filter(|leases| (HOPS..=HOP_EACH).contains(leases)) {
        rows.push(row(*leases, *leases, folder.path())?);
    }
    print(&rows)
}

fn row(leases: usize, hops: usize, folder: &Path) -> anyhow::Result<Row> {
    let batch = folder.join("batch");
    std::fs::write(&batch, by_hand(leases, hops))?;
    let nothing = folder.join("nothing");
    std::fs::write(&nothing, "")?;
    let (mut ours, mut ip) = (Vec::new(), Vec::new());
    // By turns: whoever else uses the cores is in both.
    for _ in 0..ROUNDS {
        ours.push(one_child(leases, hops, folder)?);
        let machine = machine(folder)?;
        let start = ip_batch(&machine, &nothing)?;
        ip.push(ip_batch(&machine, &batch)?.saturating_sub(start));
        let held = machine.sh(&format!("ip -4 route show proto {PROTOCOL} | wc -l"))?;
        ensure!(held.trim() == leases.to_string(), "ip left {} of {leases} routes", held.trim());
        drop(machine);
        std::thread::sleep(GONE);
    }
    let of = |pick: fn(&Figures) -> Duration| middle(&ours.iter().map(pick).collect::<Vec<_>>());
    let figures = Figures {
        compile: of(|it| it.compile),
        apply: of(|it| it.apply),
        check: of(|it| it.check),
        peak_kib: ours.iter().map(|it| it.peak_kib).max().unwrap_or_default(),
    };
    Ok(Row { leases, hops, ours: figures, ip: middle(&ip) })
}

fn machine(folder: &Path) -> anyhow::Result<Namespace> {
    let namespace = Namespace::create(folder)?;
    namespace.sh(&addresses::machine())?;
    Ok(namespace)
}

fn one_child(leases: usize, hops: usize, folder: &Path) -> anyhow::Result<Figures> {
    let machine = machine(folder)?;
    let (enter, _) = machine.enter();
    let mut command = Command::new(&enter[0]);
    command.args(&enter[1..]).arg(std::env::current_exe()?).args([
        ROLE,
        &leases.to_string(),
        &hops.to_string(),
    ]);
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "a child failed: {}", output.status);
    let figures = child::parse(&String::from_utf8_lossy(&output.stdout))?;
    drop(machine);
    std::thread::sleep(GONE);
    Ok(figures)
}

/// The same routes as text.
fn by_hand(leases: usize, hops: usize) -> String {
    (1..=leases as u32).fold(String::new(), |mut text, node| {
        let (subnet, public) = (addresses::subnet(node), addresses::hop(node, hops as u32));
        let _ = writeln!(text, "route add {subnet} via {public} dev eth0 proto {PROTOCOL}");
        text
    })
}

fn ip_batch(machine: &Namespace, file: &Path) -> anyhow::Result<Duration> {
    let (enter, _) = machine.enter();
    let mut command = Command::new(&enter[0]);
    command.args(&enter[1..]).args(["ip", "-batch", "-"]).stdin(File::open(file)?);
    let start = Instant::now();
    let status = command.status()?;
    let time = start.elapsed();
    ensure!(status.success(), "ip -batch: {status}");
    Ok(time)
}

fn print(rows: &[Row]) -> anyhow::Result<()> {
    let mut grid = Grid::new([
        "LEASES",
        "NEXT HOPS",
        "COMPILE ms",
        "APPLIED ms",
        "ROUTES/s",
        "ip -batch ms",
        "ROUTES/s",
        "TIMES AS FAST",
        "CHECK ms",
        "PEAK MiB",
    ]);
    let per_second = |row: &Row, time: Duration| format!("{:.0}", row.leases as f64 / time.as_secs_f64());
    for row in rows {
        let Figures { compile, apply, check, peak_kib } = row.ours;
        grid.row([
            row.leases.to_string(),
            row.hops.to_string(),
            millis(compile),
            millis(apply),
            per_second(row, apply),
            millis(row.ip),
            per_second(row, row.ip),
            format!("{:.1}", row.times_as_fast()),
            millis(check),
            format!("{:.1}", peak_kib as f64 / 1024.0),
        ]);
    }
    grid.print(&format!("Leases at start, host-gw; the middle of {ROUNDS}, the most memory of all"))?;
    let mut out = std::io::stdout().lock();
    let shared: Vec<&Row> = rows.iter().filter(|row| row.hops <= HOPS).collect();
    let lines = shared.iter().flat_map(|row| {
        let each = [("causeway", row.ours.apply), ("ip -batch", row.ip), ("check", row.ours.check)];
        each.map(|(what, time)| (what, row.leases, time.as_secs_f64() * 1e3))
    });
    writeln!(out, "{}", plot::bars(lines, 0.05, "ms"))?;
    for row in rows.iter().filter(|row| row.leases >= MANY) {
        let times = row.times_as_fast();
        writeln!(
            out,
            "{} leases, {} next hops: {times:.1} times as fast as ip -batch (aim: {TIMES_AS_FAST}, {})",
            row.leases,
            row.hops,
            met(times >= TIMES_AS_FAST)
        )?;
    }
    for [less, more] in shared.array_windows() {
        let grown = more.ours.check.as_secs_f64() / less.ours.check.as_secs_f64();
        let linear = more.leases as f64 / less.leases as f64;
        writeln!(
            out,
            "a check from {} to {} leases: {:.2} times what is linear",
            less.leases,
            more.leases,
            grown / linear
        )?;
    }
    for row in rows.iter().filter(|row| row.leases == CHECK.0) {
        let is_met = met(row.ours.check <= CHECK.1);
        writeln!(
            out,
            "a check of {}: {} ms (aim: {} ms, {is_met})",
            row.leases,
            millis(row.ours.check),
            millis(CHECK.1)
        )?;
    }
    Ok(())
}

impl Row {
    fn times_as_fast(&self) -> f64 {
        self.ip.as_secs_f64() / self.ours.apply.as_secs_f64()
    }
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
