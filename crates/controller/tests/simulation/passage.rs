//! A controller's way into gateways, with all that can go wrong on it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use causeway_controller::vpc::way::{Conversation, Way};
use causeway_core::vpc::Plan;
use causeway_core::vpc::objects::PodRef;
use causeway_datapath::vpc::{Applied, Datapath, Digest, Listing, Looked};
use causeway_datapath::{RunError, Trouble};
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::bugs::{self, Bug};
use crate::gateway::Pod;
use crate::monitor::report;
use crate::replica::Who;
use crate::site::Reach;
use crate::weather::Fault;
use crate::world::{Place, World};

/// The longest that a command may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone)]
pub(crate) struct Passage {
    pub(crate) world: Arc<World>,
    pub(crate) who: Arc<Who>,
    /// What was seen of each pod, for a bug.
    seen: Arc<Mutex<BTreeMap<String, Listing>>>,
}

/// The way into one pod.
struct Door {
    passage: Passage,
    pod: String,
}

fn lost(why: &str) -> RunError {
    RunError::Lost(why.into())
}

impl Passage {
    pub(crate) fn new(world: Arc<World>, who: Arc<Who>) -> Self {
        Self { world, who, seen: Arc::default() }
    }

    /// A command begins in whichever pod goes by this name.
    async fn enter(&self, pod: &str) -> Result<Arc<Pod>, RunError> {
        self.who.alive().await;
        self.world.travel().await;
        match self.who.reach(&self.world, Place::Cluster(self.who.cluster)) {
            Reach::Open => {}
            Reach::Refused => return Err(RunError::Unreachable("connection refused".into())),
            Reach::Silent => std::future::pending().await,
        }
        if self.world.strikes(Fault::ExecRefused) {
            return Err(RunError::Refused("the kubelet refuses".into()));
        }
        let missing = || RunError::Refused(format!("pods {pod:?} not found"));
        self.world.pod(self.who.cluster, pod).ok_or_else(missing)
    }

    async fn leave(&self) -> Result<(), RunError> {
        self.world.travel().await;
        let is_lost = self.world.strikes(Fault::ExecAnswerLost);
        if is_lost { Err(lost("the answer was cut off")) } else { Ok(()) }
    }

    fn has(&self, bug: Bug) -> bool {
        self.world.bug == Some(bug)
    }
}

#[async_trait]
impl Way for Passage {
    fn datapath(&self, pod: &PodRef) -> Box<dyn Datapath> {
        Box::new(Door { passage: self.clone(), pod: pod.key.name().into() })
    }

    async fn monitor(&self, pod: &PodRef) -> Result<Conversation, RunError> {
        let late = |_| RunError::TimedOut(LIMIT);
        let pod = timeout(LIMIT, self.enter(pod.key.name())).await.map_err(late)??;
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (output, input) = tokio::io::split(near);
        let task = tokio::spawn(report(self.world.clone(), pod, far));
        let life = Box::new(AbortOnDropHandle::new(task));
        Ok(Conversation { input: Box::new(input), output: Box::new(output), life })
    }

    /// Listens, and hears everybody: no gateway dies in silence here.
    async fn watch(&self, pod: &PodRef) -> Result<Conversation, RunError> {
        let late = |_| RunError::TimedOut(LIMIT);
        timeout(LIMIT, self.enter(pod.key.name())).await.map_err(late)??;
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let (output, input) = tokio::io::split(near);
        let task = tokio::spawn(async move {
            while far.write_all(b"causeway-watch\n").await.is_ok() {
                sleep(Duration::from_secs(5)).await;
            }
        });
        let life = Box::new(AbortOnDropHandle::new(task));
        Ok(Conversation { input: Box::new(input), output: Box::new(output), life })
    }
}

impl Door {
    async fn bounded<T>(&self, run: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        timeout(LIMIT, run).await.unwrap_or(Err(Trouble::Run(RunError::TimedOut(LIMIT))))
    }

    /// What a bug takes for the truth.
    fn remembered(&self) -> Option<Listing> {
        let seen = self.passage.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&self.pod).filter(|_| self.passage.has(Bug::StaleRead)).cloned()
    }

    fn remember(&self, listing: &Listing) {
        if self.passage.has(Bug::StaleRead) {
            let mut seen = self.passage.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(self.pod.clone(), listing.clone());
        }
    }

    async fn look(&self, known: Option<&Digest>) -> Result<Looked, Trouble> {
        let pod = self.passage.enter(&self.pod).await.map_err(Trouble::Run)?;
        let listing = self.remembered().unwrap_or_else(|| pod.memory.listing());
        self.passage.leave().await.map_err(Trouble::Run)?;
        let is_known = known.is_some() && known == listing.digest.as_ref();
        Ok(if is_known { Looked::Same } else { Looked::Listed(listing) })
    }

    async fn carry_out(&self, plan: &Plan, term: Option<u64>) -> Result<Applied, Trouble> {
        let Passage { world, who, .. } = &self.passage;
        let pod = self.passage.enter(&self.pod).await.map_err(Trouble::Run)?;
        if world.strikes(Fault::CrashBeforeExec) {
            who.die(world).await;
        }
        if world.strikes(Fault::ExecHangs) {
            std::future::pending::<()>().await;
        }
        let count = plan.steps.len();
        if world.strikes(Fault::ExecLate) {
            let (world, plan, later) = (world.clone(), plan.clone(), world.dice.millis(5_000..60_000));
            tokio::spawn(async move {
                sleep(later).await;
                pod.excused.store(true, Ordering::Relaxed);
                let done = pod.carry_out(&world, &plan, count, None, term).is_ok();
                world.note(format!("{} a late plan of {count} steps, carried out: {done}", pod.name));
            });
            return std::future::pending().await;
        }
        let refused = (count > 0 && world.strikes(Fault::StepRefused)).then(|| world.dice.index(count));
        let half = count > 0 && world.strikes(Fault::ExecHalfWay);
        let steps = if half { world.dice.index(count) } else { count };
        let done = pod.carry_out(world, plan, steps, refused, term);
        let failures = done.as_ref().map(|applied| applied.failures.len());
        world
            .note(format!("{} {} term {term:?}: {steps} of {count} steps, {failures:?}", who.name, pod.name));
        for step in plan.steps.iter().take(steps) {
            world.note(format!("  {}", step.action));
        }
        if world.strikes(Fault::CrashAfterExec) {
            who.die(world).await;
        }
        if half {
            return Err(Trouble::Run(lost("the command was cut off")));
        }
        self.passage.leave().await.map_err(Trouble::Run)?;
        done
    }
}

#[async_trait]
impl Datapath for Door {
    async fn observe(&self, known: Option<&Digest>) -> Result<Looked, Trouble> {
        self.bounded(self.look(known)).await
    }

    async fn apply(&self, plan: &Plan, term: Option<u64>) -> Result<Applied, Trouble> {
        if let Some(listing) = self.remembered().filter(|_| plan.steps.is_empty()) {
            return Ok(Applied { listing, failures: BTreeMap::new() });
        }
        let mut plan = plan.clone();
        if self.passage.has(Bug::DropBeforePut) {
            plan.steps.sort_by_key(|step| !bugs::is_drop(&step.action));
        }
        let applied = self.bounded(self.carry_out(&plan, term)).await?;
        self.remember(&applied.listing);
        Ok(applied)
    }
}
