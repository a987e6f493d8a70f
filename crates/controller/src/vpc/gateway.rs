//! A visit to a gateway: observe, plan, apply, report.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use causeway_core::GatewayName;
use causeway_core::vpc::compile::{self, GatewayTask};
use causeway_core::vpc::objects::PodRef;
use causeway_core::vpc::outcome::{judge, refused_before, refused_now, repairs};
use causeway_core::vpc::{Event, Have, Outcome, Plan, Trouble, Visit, Want, plan, plan_after};
use causeway_datapath::vpc::{Applied, Datapath, Digest, Listing, Looked, StepError};
use causeway_datapath::{self as datapath, RunError};
use tokio::time::Instant;

use super::Vpc;
use super::looks::{Observed, RARELY};
use crate::election::Term;
use crate::queue::Next;

/// What a gateway holds, and what stands for it.
type Listed = (Arc<Have>, Option<Digest>);

impl Vpc {
    pub(super) async fn visit(self: &Arc<Self>, gateway: &GatewayName, term: &Term) -> Next {
        let (revision, task) = {
            let state = self.desk.state();
            (state.revision(), compile::gateway(&state, gateway))
        };
        let Some(task) = task else {
            self.forget(gateway);
            return Next::Done;
        };
        let pods: Vec<&str> = task.sweep.iter().chain([&task.pod]).map(|pod| pod.uid.as_str()).collect();
        self.looks.keep_pods(gateway, &pods);
        let result = self.close_the_difference(gateway, &task, term).await;
        if result.is_err() {
            self.monitors.announce(gateway);
        }
        // A replica that was stopped in between may have lost its term, and says nothing of what it then finds.
        if !term.is_held() {
            return Next::Done;
        }
        let result = match result {
            Ok(visit) => Ok(visit),
            Err(Stop::Superseded(by)) if self.believes(gateway, term, by) => return Next::Retry,
            Err(Stop::Superseded(by)) => Err(no_such_term(by)),
            Err(Stop::Unanswered(trouble, grace))
                if self.looks.unanswered(gateway, &task.pod.uid) < self.patience(gateway, grace) =>
            {
                tracing::info!(%gateway, pod = %task.pod.key, "no whole answer, observing again: {trouble}");
                return Next::Retry;
            }
            Err(Stop::Unanswered(trouble, _) | Stop::Trouble(trouble)) => Err(trouble),
        };
        match &result {
            Ok(_) => self.looks.answered(gateway, &task.pod.uid),
            Err(trouble) => {
                tracing::warn!(%gateway, pod = %task.pod.key, reason = trouble.reason(), "visit failed: {trouble}");
            }
        }
        let mut next = match &result {
            Err(_) => Next::Retry,
            Ok(visit) if visit.tunnels.values().any(|(_, trouble)| trouble.is_some()) => Next::Retry,
            // Nobody listens yet: a later visit begins with that.
            Ok(_) if !self.monitors.is_opened(gateway, &task.pod) => Next::After(SOON),
            // What is empty and should be is left alone until something is said about it.
            Ok(visit) if visit.tunnels.is_empty() && !visit.holding.anything => Next::Done,
            // Its monitor reports what changes; this is only in case that it does not.
            Ok(_) if self.is_watched(gateway, &task.pod) => Next::After(RARELY * self.options.drift_interval),
            Ok(_) => Next::After(self.options.drift_interval),
        };
        self.report_sight(gateway, &task, result.as_ref().err(), term);
        let (pod_uid, asked) = (task.pod.uid.clone(), self.monitors.change(gateway));
        self.desk.tell(Event::Outcome(gateway.clone(), Outcome { pod_uid, revision, asked, result }));
        self.monitors.announce(gateway);
        if !self.sweep(gateway, &task, term).await {
            next = Next::Retry;
        }
        next
    }

    /// For how long no answer of a gateway is no reason to say anything: where tunnels are known to be up, that is true
    /// until something speaks against it.
    fn patience(&self, gateway: &GatewayName, grace: Duration) -> Duration {
        if self.desk.state().is_any_ready(gateway) { grace.max(LONG) } else { grace }
    }

    /// Says once for all tunnels of a gateway that it cannot be looked at, and that it can again.
    fn report_sight(
        &self,
        gateway: &GatewayName,
        task: &GatewayTask,
        trouble: Option<&Trouble>,
        term: &Term,
    ) {
        let state = self.desk.state();
        let before = state.outcome(gateway).and_then(|outcome| outcome.result.as_ref().err());
        let was_blind = before.is_some_and(Trouble::is_blindness);
        let (reason, note) = match trouble {
            Some(trouble) if trouble.is_blindness() && !was_blind && state.is_any_ready(gateway) => {
                let count = task.want.tunnels.len();
                (
                    trouble.reason(),
                    format!(
                        "gateway {gateway} cannot be looked at, so nothing is known of its {count} tunnels, which are left as they are: {trouble}"
                    ),
                )
            }
            None if was_blind => ("GatewaySeen", format!("gateway {gateway} can be looked at again")),
            _ => return,
        };
        if let Some(tunnel) = task.want.tunnels.values().next().and_then(|want| state.tunnel(&want.owner)) {
            self.announce(term, tunnel, trouble.is_some(), reason, note);
        }
    }

    /// Takes what is ours off the pods that served the gateway before; whether that is done.
    async fn sweep(self: &Arc<Self>, gateway: &GatewayName, task: &GatewayTask, term: &Term) -> bool {
        let want = Want { frozen: task.want.frozen.clone(), ..Want::default() };
        let mut done = true;
        let waits = |pod: &PodRef| {
            // It may serve the gateway again by now.
            let task = compile::gateway(&self.desk.state(), gateway);
            task.is_some_and(|task| task.sweep.contains(pod))
        };
        for pod in task.sweep.iter().filter(|pod| waits(pod)) {
            let revision = self.desk.state().revision();
            let result = self.empty(gateway, pod, &want, term).await;
            if !term.is_held() {
                return false;
            }
            let result = match result {
                Ok(visit) => {
                    self.looks.answered(gateway, &pod.uid);
                    Ok(visit)
                }
                Err(Stop::Superseded(by)) if self.believes(gateway, term, by) => return false,
                Err(Stop::Superseded(by)) => Err(no_such_term(by)),
                Err(Stop::Unanswered(_, grace)) if self.looks.unanswered(gateway, &pod.uid) < grace => {
                    done = false;
                    continue;
                }
                Err(Stop::Unanswered(trouble, _) | Stop::Trouble(trouble)) => {
                    tracing::warn!(%gateway, pod = %pod.key, reason = trouble.reason(), "sweep failed: {trouble}");
                    Err(trouble)
                }
            };
            done &= result.is_ok();
            let pod_uid = pod.uid.clone();
            let asked = self.monitors.change(gateway);
            self.desk.tell(Event::Outcome(gateway.clone(), Outcome { pod_uid, revision, asked, result }));
        }
        done
    }

    /// Whether a gateway's word that a newer term has been there counts. Then this term is over, and all work with
    /// it: so each gateway has that word once in a while only.
    fn believes(&self, gateway: &GatewayName, term: &Term, by: u64) -> bool {
        let mut heard = self.superseded.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = heard.get(gateway).is_some_and(|at| at.elapsed() < BELIEVED_EVERY);
        let believed = !recent && term.superseded_by(by);
        if believed {
            tracing::warn!(%gateway, by, "a newer term has been seen there");
            heard.insert(gateway.clone(), Instant::now());
        }
        believed
    }

    async fn empty(
        self: &Arc<Self>,
        gateway: &GatewayName,
        pod: &PodRef,
        want: &Want,
        term: &Term,
    ) -> Result<Visit, Stop> {
        let commands = &*self.way.datapath(pod);
        let (have, _) = self.look(commands, None, term).await?;
        let planned = plan(want, &have);
        if planned.is_empty() {
            return Ok(judge(want, &planned, &BTreeMap::new(), &have));
        }
        let (failures, (now, _)) = self.carry_out(gateway, commands, &planned, term).await?;
        Ok(judge(want, &planned, &failures, &now))
    }

    async fn close_the_difference(
        self: &Arc<Self>,
        gateway: &GatewayName,
        task: &GatewayTask,
        term: &Term,
    ) -> Result<Visit, Stop> {
        let commands = &*self.way.datapath(&task.pod);
        let refused = refused_before(self.desk.state().outcome(gateway), &task.pod.uid);
        let plan = |have: &Have| plan_after(&refused, &task.want, have);
        // More to do right after a change waits for nobody to confirm that change: the next one's listing does. But a
        // monitor that has ended is opened first, since nobody would hear of what comes after.
        let is_heard =
            !self.monitors.is_opened(gateway, &task.pod) || self.monitors.lines(gateway, &task.pod).is_some();
        let seen =
            self.looks.since(gateway, &task.pod.uid, SOON).filter(|_| is_heard).map(|have| plan(&have));
        let mut planned = match seen.filter(|planned| !planned.is_empty()) {
            Some(planned) => planned,
            None => {
                let have = self.observed(gateway, task, commands, term).await?;
                let planned = plan(&have);
                if planned.is_empty() {
                    return Ok(judge(&task.want, &planned, &BTreeMap::new(), &have));
                }
                planned
            }
        };
        self.monitors.begin(gateway, task.want.links_of(&planned.steps));
        let (mut failures, (mut now, mut digest)) = self.carry_out(gateway, commands, &planned, term).await?;
        // It may have been planned from a change half done, as of a link on its way out; and what a tunnel got whose
        // link could not be made is taken away again.
        let again = plan_after(&refused_now(&planned, &failures, &now), &task.want, &now);
        if again.has_news_since(&planned) {
            self.monitors.begin(gateway, task.want.links_of(&again.steps));
            (failures, (now, digest)) = self.carry_out(gateway, commands, &again, term).await?;
            planned = again;
        }
        // The monitor speaks of our own changes too: it has to confirm that there was nothing else.
        let (pod_uid, at) = (task.pod.uid.clone(), Instant::now());
        let observed =
            Observed { pod_uid, lines: None, void: false, at, have: now.clone(), digest, confirmed: false };
        self.looks.remember(gateway, observed);
        let visit = judge(&task.want, &planned, &failures, &now);
        self.report_repairs(gateway, task, &planned, &visit, term);
        Ok(visit)
    }

    /// What the gateway holds. An observation still holds if the gateway's monitor has said nothing since, or has
    /// confirmed it by its digest: on its own now and then, or here, when it is asked. An observation by a
    /// command of its own is the first one, and the one that tells what has changed.
    ///
    /// A gateway that is new gets what it lacks first, and its monitor a moment later. So where commands run and no
    /// monitor does, its tunnels are up for that moment before they say what is wrong.
    async fn observed(
        self: &Arc<Self>,
        gateway: &GatewayName,
        task: &GatewayTask,
        commands: &dyn Datapath,
        term: &Term,
    ) -> Result<Arc<Have>, Stop> {
        let pod = &task.pod;
        let lines = || self.monitors.lines(gateway, pod);
        if let Some(have) = self.known(gateway, pod).or_else(|| self.just_seen(gateway, pod)) {
            return Ok(have);
        }
        let lost = |error| stop(datapath::Trouble::Run(error));
        let (last, at) = (self.looks.last(gateway, &pod.uid), Instant::now());
        let mut confirmed = false;
        let (before, (have, digest)) = if last.is_none() && !self.monitors.is_opened(gateway, pod) {
            (None, self.look(commands, None, term).await?)
        } else {
            let heard = match self.listen_to(gateway, pod).await {
                // Where the monitor could not begin, an observation says why in clearer words.
                Err(error @ RunError::Lost(_)) => Err(error),
                other => Ok(other.map_err(lost)?),
            };
            let before = lines();
            let listed = match last {
                Some((have, digest @ Some(_)))
                    if before.is_some() && self.held(gateway, pod).await.map_err(lost)? == digest =>
                {
                    confirmed = true;
                    (have, digest)
                }
                last => self.look(commands, last, term).await?,
            };
            heard.map_err(lost)?;
            (before, listed)
        };
        let lines = before.filter(|before| lines() == Some(*before));
        let pod_uid = pod.uid.clone();
        let observed = Observed { pod_uid, lines, void: false, at, have: have.clone(), digest, confirmed };
        self.looks.remember(gateway, observed);
        Ok(have)
    }

    /// What was observed lately, where the monitor has said nothing since.
    fn known(&self, gateway: &GatewayName, pod: &PodRef) -> Option<Arc<Have>> {
        let lines = self.monitors.lines(gateway, pod)?;
        self.looks.known(gateway, &pod.uid, lines, self.options.drift_interval)
    }

    /// What a pod held a moment ago that no monitor has been opened for. What has changed since, the listing after a
    /// change shows, and the monitor's digest when it is there.
    fn just_seen(&self, gateway: &GatewayName, pod: &PodRef) -> Option<Arc<Have>> {
        if self.monitors.is_opened(gateway, pod) { None } else { self.looks.since(gateway, &pod.uid, SOON) }
    }

    /// Whether whatever changes in a pod is reported by its monitor, by its digest if by nothing else.
    fn is_watched(&self, gateway: &GatewayName, pod: &PodRef) -> bool {
        self.looks.is_confirmed(gateway, &pod.uid) && self.known(gateway, pod).is_some()
    }

    /// A listing of a pod, of which one may be known. The first of a term makes the gateway refuse what is still on
    /// its way from a former leader: this may be all that the new one has to do here.
    async fn look(&self, commands: &dyn Datapath, last: Option<Listed>, term: &Term) -> Result<Listed, Stop> {
        let Some((have, digest)) = last else {
            still_leads(term)?;
            let applied = commands.apply(&Plan::default(), term.number()).await;
            let Listing { have, digest } = self.counted("observe", applied)?.listing;
            return Ok((Arc::new(have), digest));
        };
        match self.counted("observe", commands.observe(digest.as_ref()).await)? {
            Looked::Listed(Listing { have, digest }) => Ok((Arc::new(have), digest)),
            Looked::Same => Ok((have, digest)),
        }
    }

    async fn carry_out(
        &self,
        gateway: &GatewayName,
        commands: &dyn Datapath,
        plan: &Plan,
        term: &Term,
    ) -> Result<(BTreeMap<usize, Trouble>, Listed), Stop> {
        // Whatever comes of it, what was observed before no longer holds.
        self.looks.outdate(gateway);
        still_leads(term)?;
        self.metrics.count_steps(plan.steps.len());
        let Applied { listing, failures } =
            self.counted("apply", commands.apply(plan, term.number()).await)?;
        for (at, step) in plan.steps.iter().enumerate() {
            let object = step.owner.as_ref().map(ToString::to_string);
            match failures.get(&at) {
                None => tracing::info!(%gateway, object, step = %step.action, "done"),
                Some(error) => tracing::warn!(%gateway, object, step = %step.action, %error, "failed"),
            }
        }
        let failures = failures.into_iter().map(|(at, error)| (at, step_trouble(error))).collect();
        Ok((failures, (Arc::new(listing.have), listing.digest)))
    }

    fn counted<T>(&self, command: &'static str, done: Result<T, datapath::Trouble>) -> Result<T, Stop> {
        self.metrics.count_exec(command, &done);
        done.map_err(stop)
    }

    /// Says on each tunnel that was up what had gone missing and is back.
    fn report_repairs(
        &self,
        gateway: &GatewayName,
        task: &GatewayTask,
        plan: &Plan,
        visit: &Visit,
        term: &Term,
    ) {
        let state = self.desk.state();
        let repaired = repairs(state.outcome(gateway), &task.pod.uid, &task.want, plan, visit);
        // What all tunnels share is said once, on the first of them.
        let of_all = repaired.gateway.and_then(|what| Some((visit.tunnels.keys().next()?.clone(), what)));
        for (key, what) in of_all.into_iter().chain(repaired.tunnels) {
            if let Some(tunnel) = state.tunnel(&key) {
                self.metrics.count_repair(&key);
                let note = format!("repaired on gateway {gateway}: {what}");
                self.announce(term, tunnel, false, "DriftRepaired", note);
            }
        }
    }
}

/// A new gateway's monitor is opened after this, to be in nobody's way meanwhile.
const SOON: Duration = Duration::from_millis(300);

/// How long a gateway may be without a whole answer before its tunnels report that: a server that is starting refuses
/// everything for a second or two.
const SHORT: Duration = Duration::from_secs(3);
/// The same where the API server did not pass the question on, which says nothing about the gateway. When that server
/// serves nobody the term ends sooner.
const LONG: Duration = Duration::from_secs(60);

/// Our next term is newer than what a gateway has reported. One that has seen a newer term already is lying, or
/// Leases are being deleted by the hour.
const BELIEVED_EVERY: Duration = Duration::from_secs(3600);

/// Why a visit came to nothing.
enum Stop {
    /// The gateway is in trouble.
    Trouble(Trouble),
    /// No whole answer came, or a refusal. For so long that is no reason to report anything.
    Unanswered(Trouble, Duration),
    /// A newer term has been seen there.
    Superseded(u64),
}

/// To be called right before a change.
fn still_leads(term: &Term) -> Result<(), Stop> {
    let lost = || Stop::Unanswered(Trouble::ExecRefused("this replica no longer leads".into()), LONG);
    if term.is_held() { Ok(()) } else { Err(lost()) }
}

/// A gateway that refuses everybody is its own trouble, and nobody else's.
fn no_such_term(number: u64) -> Trouble {
    Trouble::CommandFailed(format!(
        "the alias of its lo claims term {number}, which no leader has had; `ip link set dev lo alias ''` there \
         removes it"
    ))
}

fn stop(error: datapath::Trouble) -> Stop {
    use datapath::Trouble as From;
    match error {
        From::Run(RunError::Unreachable(why)) => Stop::Unanswered(Trouble::ExecRefused(why), LONG),
        From::Run(RunError::Lost(why) | RunError::Refused(why)) => {
            Stop::Unanswered(Trouble::ExecRefused(why), SHORT)
        }
        From::Run(RunError::TimedOut(limit)) => {
            Stop::Unanswered(Trouble::ExecTimedOut(limit.as_secs()), SHORT)
        }
        From::Busy => Stop::Unanswered(Trouble::CommandFailed(From::Busy.to_string()), LONG),
        From::Superseded { by } => Stop::Superseded(by),
        From::ToolMissing(tool) => Stop::Trouble(Trouble::ToolMissing(tool)),
        failed @ (From::Failed { .. } | From::Unreadable { .. }) => {
            Stop::Unanswered(Trouble::CommandFailed(failed.to_string()), Duration::ZERO)
        }
    }
}

fn step_trouble(error: StepError) -> Trouble {
    match error {
        StepError::KernelLacksTunnelType(kind) => Trouble::KernelLacksTunnelType(kind.into()),
        StepError::Refused(why) => Trouble::CommandFailed(why),
    }
}
