//! A thousand Networks on a real Neutron, and what that costs.
//!
//! ```text
//!  creates ─▶ API server (this process) ─▶ `causeway controller --enable networks` (a child, measured) ─┐
//!  floor: bare POSTs of networks and subnets, as many at once ──────────────────────────────────────────┴▶ proxy ─▶ Neutron
//! ```
//!
//! The proxy counts what reaches Neutron. Floor, creation and looks run one after the other on one Neutron, which does
//! one thing at a time; everything ends with this process, and all of it stays on loopback.

#[path = "../../tests/cloud/mod.rs"]
mod cloud;
#[path = "../scale/cost.rs"]
#[allow(dead_code, reason = "the other benchmark uses all of it")]
mod cost;
mod floor;
mod site;
#[path = "../scale/table.rs"]
#[allow(dead_code, reason = "the other benchmark uses all of it")]
mod table;
mod tally;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;

use cloud::{Neutron, Request, Settings};
use site::{Controller, Site};
use table::{Grid, met, seconds};
use tally::Tally;

/// As many as a controller works on at once.
const AT_ONCE: usize = 8;
/// How long one list is, at most.
const PAGE: usize = 500;
/// How often the controller looks at the whole cloud here.
const RESYNC: Duration = Duration::from_secs(5);
/// How many looks are counted.
const LOOKS: usize = 4;

/// Creation takes at most so many times as long as the bare POSTs do, which are half of its writes.
const TIMES_THE_FLOOR: f64 = 2.5;
/// Making and tagging a network and a subnet, and looking for what may be there before that.
const REQUESTS_PER_NETWORK: f64 = 6.5;
const MOST_MEMORY_MIB: f64 = 64.0;

fn main() -> anyhow::Result<ExitCode> {
    // `cargo test --benches` only wants to see that it starts.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(ExitCode::SUCCESS);
    }
    let networks = match std::env::var("NETWORKS") {
        Ok(text) => text.parse().context("NETWORKS")?,
        Err(_) => 1000,
    };
    // Already installed is as good: there is only one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    writeln!(std::io::stdout(), "{networks} networks; load before: {}", load.trim_end())?;
    runtime.block_on(run(networks))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(networks: usize) -> anyhow::Result<()> {
    let vnis = 1..=u32::try_from(3 * networks + 1000)?;
    let neutron = Neutron::start(Settings { vnis, ..Settings::default() }).await;
    let site = Site::new(&neutron.url()).await?;
    let floor = floor::measure(&site.proxy.url(), networks).await?;

    let controller = site.start(RESYNC)?;
    controller.looks(&site, 1).await?;
    site.proxy.forget();
    let (cpu, begun) = (controller.cpu()?, Instant::now());
    site.declare(networks).await?;
    site.all_ready(networks).await?;
    let took = begun.elapsed();
    let cpu = controller.cpu()?.saturating_sub(cpu);
    let made = Tally::of(&site.proxy.requests());
    report_creation(networks, floor, took, cpu, &made, controller.memory_mib()?)?;
    report_looks(networks, &site, &controller).await
}

fn report_creation(
    networks: usize,
    floor: Duration,
    took: Duration,
    cpu: Duration,
    made: &Tally,
    memory: f64,
) -> anyhow::Result<()> {
    #[allow(clippy::cast_precision_loss, reason = "there are few")]
    let each = |count: usize| count as f64 / networks as f64;
    let mut grid = Grid::new(["creation", "s", "of the floor", "CPU s", "MiB"]);
    let times = took.as_secs_f64() / floor.as_secs_f64();
    grid.row([
        "bare POST of network and subnet".into(),
        seconds(floor),
        "1.00".into(),
        String::new(),
        String::new(),
    ]);
    grid.row([
        "all Ready=True".into(),
        seconds(took),
        format!("{times:.2}"),
        seconds(cpu),
        format!("{memory:.1}"),
    ]);
    grid.print(&format!("{networks} networks, {AT_ONCE} at once"))?;
    let mut grid = Grid::new(["request", "per network"]);
    for (kind, count) in made.kinds() {
        grid.row([kind.clone(), format!("{:.2}", each(*count))]);
    }
    let requests = each(made.about_one());
    grid.row(["all but the lists of everything".into(), format!("{requests:.2}")]);
    grid.print("requests to Neutron")?;
    let mut aims = Grid::new(["aim", "is", ""]);
    let mut aim = |text: String, is: String, is_met: bool| aims.row([text, is, met(is_met).into()]);
    aim(
        format!("at most {TIMES_THE_FLOOR} times the floor"),
        format!("{times:.2}"),
        times <= TIMES_THE_FLOOR,
    );
    aim(
        format!("at most {REQUESTS_PER_NETWORK} requests per network"),
        format!("{requests:.2}"),
        requests <= REQUESTS_PER_NETWORK,
    );
    aim(format!("at most {MOST_MEMORY_MIB} MiB"), format!("{memory:.1}"), memory <= MOST_MEMORY_MIB);
    aims.print("creation: aims")
}

async fn report_looks(networks: usize, site: &Site, controller: &Controller) -> anyhow::Result<()> {
    controller.looks(site, 1).await?;
    site.proxy.forget();
    let cpu = controller.cpu()?;
    let looks = controller.looks(site, LOOKS + 1).await?;
    let cpu = controller.cpu()?.saturating_sub(cpu) / u32::try_from(LOOKS)?;
    // The lists of one look begin at once, in any order; the next look is much later.
    let early = RESYNC / 5;
    let is_between = |it: &Request| looks[0] <= it.at + early && it.at + early < looks[LOOKS];
    let requests: Vec<_> = site.proxy.requests().into_iter().filter(is_between).collect();
    let seen = Tally::of(&requests);
    // A list of just as many as fit on its pages has one more, which is empty.
    let pages = networks / PAGE + 1;
    let wanted = 4 * pages;
    let lists = seen.lists_of_everything() / LOOKS;
    let others = seen.all() - seen.lists_of_everything();
    let mut grid = Grid::new(["a look at what did not change", "is", "aim", ""]);
    grid.row(["pages of lists".into(), lists.to_string(), format!("{wanted}"), met(lists == wanted).into()]);
    grid.row(["other requests".into(), others.to_string(), "0".into(), met(others == 0).into()]);
    grid.row([
        "CPU ms of the controller".into(),
        format!("{:.1}", cpu.as_secs_f64() * 1e3),
        String::new(),
        String::new(),
    ]);
    grid.row(["MiB".into(), format!("{:.1}", controller.memory_mib()?), String::new(), String::new()]);
    grid.print(&format!("{networks} unchanged networks, {LOOKS} looks"))
}
