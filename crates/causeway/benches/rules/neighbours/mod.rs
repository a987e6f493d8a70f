//! A hundred healthy clients, by turns without and with bad ones beside them.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep, timeout};

use crate::bad::Bad;
use crate::clock;
use crate::crowd::Crowd;
use crate::framing::Wire;
use crate::load::Load;
use crate::rounds::number;
use crate::server::{Kind, Server};
use crate::site::Site;
use crate::unruly::Vice;

pub(crate) mod figures;

pub(crate) const HEALTHY: usize = 100;
pub(crate) const RULES: usize = 60;
/// Many short ones, so that whoever else uses the cores disturbs both sides alike.
const ROUNDS: usize = 20;
/// Of each round, on each side. With half as many in all, p99 of two sides without bad ones differed by a tenth.
pub(crate) const EDITS: usize = 60;
/// Between edits.
const PAUSE: Duration = Duration::from_millis(5);
/// After bad ones came or went.
const SETTLING: Duration = Duration::from_millis(500);
/// Whoever takes nothing is disconnected well within this.
const STUCK_WITHIN: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(60);

/// What some edits came to.
pub(crate) struct Phase {
    /// In microseconds.
    pub(crate) latencies: Vec<u64>,
    /// The controller's requests meanwhile, which are statuses.
    pub(crate) requests: u64,
}

/// What the rounds came to.
pub(crate) struct Outcome {
    pub(crate) without: Vec<Phase>,
    pub(crate) with: Vec<Phase>,
    /// How often the bad ones did what they do, in the order of `Vice::ALL`.
    pub(crate) times: Vec<u64>,
    /// Cores that others used meanwhile.
    pub(crate) others: f64,
    /// How many were disconnected because they took nothing, and how long the last had been there.
    pub(crate) stuck: (u64, Duration),
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let rounds = number("NEIGHBOUR_ROUNDS")?.unwrap_or(ROUNDS).max(1);
    let mut stage = Stage::set().await?;
    let (mut without, mut with, mut times) = (Vec::new(), Vec::new(), vec![0; Vice::ALL.len()]);
    let (load, cpu, mut bad_cpu) = (Load::now()?, stage.cpu()?, Duration::ZERO);
    let (last, came) = loop {
        without.push(stage.edits().await?);
        let came = Instant::now();
        let mut bad = Bad::join(&Vice::ALL, stage.server.address).await?;
        with.push(stage.edits().await?);
        times.iter_mut().zip(bad.times().await?).for_each(|(sum, more)| *sum += more);
        bad_cpu += bad.cpu()?;
        if with.len() == rounds {
            break (bad, came);
        }
        bad.end().await?;
    };
    let others = load.others(stage.cpu()? - cpu + bad_cpu)?;
    let stuck = (stage.until_stuck(came).await?, came.elapsed());
    last.end().await?;
    stage.crowd.end().await?;
    stage.server.end().await?;
    figures::print(&Outcome { without, with, times, others, stuck })
}

/// The controller and the healthy ones.
struct Stage {
    server: Server,
    crowd: Crowd,
}

impl Stage {
    async fn set() -> anyhow::Result<Stage> {
        let server = Server::start(Kind::Causeway, RULES).await?;
        let joining = Crowd::join(Wire::Grpc, server.address, HEALTHY, 1);
        let crowd = timeout(PATIENCE, joining).await.context("not all were answered")??;
        let mut stage = Stage { server, crowd };
        // The first edits are slower, and would all be on one side.
        stage.edits().await?;
        Ok(stage)
    }

    /// Some edits, each of which has reached all healthy ones before the next.
    async fn edits(&mut self) -> anyhow::Result<Phase> {
        sleep(SETTLING).await;
        let before = self.requests();
        for _ in 0..EDITS {
            let instant = clock::micros()?;
            let reached =
                async { timeout(PATIENCE, self.crowd.all_have(instant)).await.context("not all got it")? };
            tokio::try_join!(self.server.change(instant), reached)?;
            sleep(PAUSE).await;
        }
        let latencies = self.crowd.latencies().await?;
        ensure!(latencies.len() == EDITS * HEALTHY, "{} pushes arrived", latencies.len());
        Ok(Phase { latencies, requests: self.requests() - before - EDITS as u64 })
    }

    fn requests(&self) -> u64 {
        self.server.site.iter().flat_map(Site::requests).map(|(_, count)| count).sum()
    }

    /// Waits until the controller has disconnected whoever takes nothing; how many those were.
    async fn until_stuck(&self, came: Instant) -> anyhow::Result<u64> {
        loop {
            let stuck = self.server.stuck_streams().await?;
            if stuck > 0 || came.elapsed() > STUCK_WITHIN {
                return Ok(stuck);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(self.server.process.cpu()? + self.crowd.cpu()?)
    }
}
