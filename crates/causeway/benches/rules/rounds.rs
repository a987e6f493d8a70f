//! One rule is edited twenty times, and each time everybody who asked for it gets it.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep, timeout};

use crate::crowd::Crowd;
use crate::load::Load;
use crate::server::{Kind, Server};
use crate::{clock, figures};

const SIZES: [usize; 2] = [1_000, 10_000];
pub(crate) const ROUNDS: usize = 20;
/// After all have come, until nothing is said of that any more.
const SETTLING: Duration = Duration::from_secs(4);
/// After an edit has reached all: their answers are counted and written within it.
const PAUSE: Duration = Duration::from_millis(1_200);
const PATIENCE: Duration = Duration::from_secs(180);

/// What one server and so many subscribers made of it.
pub(crate) struct Outcome {
    pub(crate) kind: Kind,
    pub(crate) size: usize,
    /// Until all were connected and had the rule.
    pub(crate) joined: Duration,
    /// In microseconds, in order.
    pub(crate) latencies: Vec<u64>,
    /// CPU time of the rounds.
    pub(crate) server_cpu: Duration,
    pub(crate) clients_cpu: Duration,
    /// Cores that others used meanwhile.
    pub(crate) others: f64,
    /// The server's memory: before the first client, with all of them idle, and after the rounds.
    pub(crate) kib: Memory,
}

#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) empty: f64,
    pub(crate) idle: f64,
    pub(crate) after: f64,
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let rules = number("RULES")?.unwrap_or(1);
    let mut outcomes = Vec::new();
    for size in sizes()? {
        for kind in servers()? {
            let what = || format!("{} with {size} subscribers", kind.name());
            outcomes.push(measure(kind, size, rules).await.with_context(what)?);
        }
    }
    figures::print(&outcomes, rules)
}

/// How many subscribers: those of `SUBSCRIBERS`, or the usual.
fn sizes() -> anyhow::Result<Vec<usize>> {
    match std::env::var("SUBSCRIBERS") {
        Ok(text) => text.split(',').map(|size| size.parse().context("SUBSCRIBERS")).collect(),
        Err(_) => Ok(SIZES.to_vec()),
    }
}

/// Which servers: those of `SERVERS`, or all.
fn servers() -> anyhow::Result<Vec<Kind>> {
    let Ok(text) = std::env::var("SERVERS") else { return Ok(Kind::ALL.to_vec()) };
    let named = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name);
    text.split(',').map(|name| named(name).with_context(|| format!("SERVERS: {name}"))).collect()
}

/// A number of the environment.
pub(crate) fn number(name: &str) -> anyhow::Result<Option<usize>> {
    let text = std::env::var(name).ok();
    text.map(|text| text.parse().with_context(|| name.to_owned())).transpose()
}

async fn measure(kind: Kind, size: usize, rules: usize) -> anyhow::Result<Outcome> {
    let mut server = Server::start(kind, rules).await?;
    sleep(Duration::from_secs(1)).await;
    let empty = server.process.resident_kib()?;
    let start = Instant::now();
    let joining = Crowd::join(kind.wire(), server.address, size, 1);
    let mut crowd = timeout(PATIENCE, joining).await.context("not all were answered")??;
    let joined = start.elapsed();
    sleep(SETTLING).await;
    let idle = server.process.resident_kib()?;
    let (server_cpu, clients_cpu) = (server.process.cpu()?, crowd.cpu()?);
    let load = Load::now()?;
    for _ in 0..ROUNDS {
        let instant = clock::micros()?;
        let reached = async { timeout(PATIENCE, crowd.all_have(instant)).await.context("not all got it")? };
        tokio::try_join!(server.change(instant), reached)?;
        sleep(PAUSE).await;
    }
    let (server_cpu, clients_cpu) = (server.process.cpu()? - server_cpu, crowd.cpu()? - clients_cpu);
    let others = load.others(server_cpu + clients_cpu)?;
    let after = server.process.resident_kib()?;
    let latencies = crowd.latencies().await?;
    ensure!(latencies.len() == ROUNDS * size, "{} pushes arrived", latencies.len());
    crowd.end().await?;
    server.end().await?;
    let kib = Memory { empty, idle, after };
    Ok(Outcome { kind, size, joined, latencies, server_cpu, clients_cpu, others, kib })
}

/// What such a share of all is not above, in seconds; they are in microseconds and in order.
pub(crate) fn percentile(latencies: &[u64], percent: usize) -> f64 {
    let at = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
    latencies.get(at).map_or(0.0, |micros| *micros as f64 / 1e6)
}

impl Outcome {
    /// The latency that such a share of all is not above, in seconds.
    pub(crate) fn latency(&self, percent: usize) -> f64 {
        percentile(&self.latencies, percent)
    }

    fn per_thousand(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1_000.0 / (ROUNDS * self.size) as f64
    }

    /// CPU seconds of the server for a thousand pushes.
    pub(crate) fn server_cost(&self) -> f64 {
        self.per_thousand(self.server_cpu)
    }

    /// The same of the clients.
    pub(crate) fn clients_cost(&self) -> f64 {
        self.per_thousand(self.clients_cpu)
    }

    /// What an idle subscriber costs.
    pub(crate) fn idle_kib(&self) -> f64 {
        (self.kib.idle - self.kib.empty) / self.size as f64
    }

    /// What one costs after the rounds.
    pub(crate) fn kib_after(&self) -> f64 {
        (self.kib.after - self.kib.empty) / self.size as f64
    }
}
