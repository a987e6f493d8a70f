//! A cluster, its gateways and a controller, from nothing to nothing.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep, timeout};

use crate::broker::Broker;
use crate::cluster::{Cluster, Requests};
use crate::controller::Controller;
use crate::cost;
use crate::exec::GatewayExec;
use crate::gateways::{Gateways, Held};
use crate::objects;
use crate::shape::Shape;

/// The longest that one size may take to come up, or to go.
const PATIENCE: Duration = Duration::from_secs(300);
/// Quiet for this long counts as idle.
const QUIET: Duration = Duration::from_millis(500);

/// Everything that is needed to measure; it ends with this value.
pub(crate) struct Stage {
    pub(crate) gateways: Arc<Gateways>,
    pub(crate) exec: Arc<GatewayExec>,
    pub(crate) cluster: Cluster,
    pub(crate) controller: Controller,
    shape: Shape,
}

/// What it cost to bring up so many tunnels at once.
pub(crate) struct Built {
    pub(crate) size: usize,
    /// From the first create until all were ready.
    pub(crate) up: Duration,
    /// Requests until then.
    pub(crate) asked: Requests,
    /// The controller's CPU time until then.
    pub(crate) cpu_up: Duration,
    /// Requests until nothing more was asked.
    pub(crate) settled: Requests,
    /// The controller's CPU time until then.
    pub(crate) cpu_settled: Duration,
    /// CPU time of the commands in the gateways until all were ready.
    pub(crate) commands_cpu: Duration,
    /// How long they took, one after another.
    pub(crate) commands_time: Duration,
    /// The most memory that the controller held.
    pub(crate) peak_mib: f64,
}

impl Stage {
    /// Makes it and waits until the controller has nothing left to do.
    pub(crate) async fn set(gateways: Gateways, shape: Shape) -> anyhow::Result<Stage> {
        let gateways = Arc::new(gateways);
        let exec = Arc::new(GatewayExec::new(gateways.clone()));
        let cluster = Cluster::start(exec.clone(), gateways.folder(), shape).await?;
        cluster.put(objects::records(shape.peers)).await?;
        let controller = Controller::start(&cluster, gateways.folder(), None)?;
        Stage { gateways, exec, cluster, controller, shape }.begun().await
    }

    /// The same, where the peers' records are at a broker.
    pub(crate) async fn at_broker(
        gateways: Gateways,
        shape: Shape,
        broker: &Broker,
    ) -> anyhow::Result<Stage> {
        let gateways = Arc::new(gateways);
        let exec = Arc::new(GatewayExec::new(gateways.clone()));
        let cluster = Cluster::start(exec.clone(), gateways.folder(), shape).await?;
        let controller = Controller::start(&cluster, gateways.folder(), Some(broker.kubeconfig()))?;
        Stage { gateways, exec, cluster, controller, shape }.begun().await
    }

    async fn begun(self) -> anyhow::Result<Stage> {
        let stage = self;
        timeout(PATIENCE, stage.cluster.published()).await.context("the gateways' records")??;
        stage.idle().await?;
        Ok(stage)
    }

    /// Makes the other ends of tunnels.
    pub(crate) fn raise(&self, tunnels: Range<usize>) -> anyhow::Result<()> {
        self.gateways.raise(self.shape, tunnels)
    }

    /// Creates tunnels until all are ready, and sees that the kernels have them.
    pub(crate) async fn build(&mut self, size: usize) -> anyhow::Result<Built> {
        self.raise(0..size)?;
        let (before, cpu, clock) =
            (self.cluster.requests().await?, self.controller.cpu()?, self.exec.clock());
        let commands = cost::children()?;
        let up = timed(&mut self.controller, self.cluster.create(0..size)).await?;
        let (asked, cpu_up) = (self.cluster.requests().await?.since(&before), self.controller.cpu()? - cpu);
        let (commands_cpu, commands_time) =
            (cost::children()? - commands, self.exec.clock().time - clock.time);
        self.holds(size)?;
        for tunnel in [0, size / 2, size - 1] {
            self.gateways.ask(self.shape, tunnel)?;
        }
        self.idle().await?;
        let (settled, cpu_settled) =
            (self.cluster.requests().await?.since(&before), self.controller.cpu()? - cpu);
        let peak_mib = self.controller.peak_mib()?;
        Ok(Built { size, up, asked, cpu_up, settled, cpu_settled, commands_cpu, commands_time, peak_mib })
    }

    /// Deletes all tunnels; gives how long it took until they and all they had were gone.
    pub(crate) async fn clear(&mut self, size: usize) -> anyhow::Result<Duration> {
        let down = timed(&mut self.controller, self.cluster.delete(0..size)).await?;
        self.holds(0)?;
        Ok(down)
    }

    /// Ends the controller and takes everything away, but for what the gateways hold; gives those.
    pub(crate) async fn end(self) -> anyhow::Result<Arc<Gateways>> {
        self.controller.end().await?;
        self.cluster.end().await?;
        Ok(self.gateways)
    }

    fn holds(&self, tunnels: usize) -> anyhow::Result<()> {
        let held = self.gateways.held()?;
        ensure!(
            held == Held::of(tunnels),
            "{tunnels} tunnels should be there, but the gateways hold {held:?}"
        );
        Ok(())
    }

    /// Waits until nobody asks the API server for anything and no command runs.
    pub(crate) async fn idle(&self) -> anyhow::Result<()> {
        let mut last: Option<Requests> = None;
        loop {
            let now = self.cluster.requests().await?;
            if last.as_ref() == Some(&now) && !self.exec.is_busy() {
                return Ok(());
            }
            last = Some(now);
            sleep(QUIET).await;
        }
    }
}

/// How long the work takes; ends early when the controller does.
pub(crate) async fn timed(
    controller: &mut Controller,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Duration> {
    let start = Instant::now();
    tokio::select! {
        done = timeout(PATIENCE, work) => {
            done.with_context(|| format!("it took too long; the controller's last words: {}", controller.last_lines()))??;
        }
        ended = controller.ended() => return Err(ended),
    }
    Ok(start.elapsed())
}
