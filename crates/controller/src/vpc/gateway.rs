//! A visit to a gateway: observe, plan, apply, tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_core::GatewayName;
use causeway_core::vpc::compile::{self, GatewayTask};
use causeway_core::vpc::outcome::{judge, refused_before, refused_now, repairs};
use causeway_core::vpc::{Event, Have, Outcome, Plan, Trouble, Visit, plan_after};
use causeway_datapath::vpc::{Applied, Commands, Datapath, StepError};
use causeway_datapath::{self as datapath, RunError};

use super::Room;
use super::exec::PodExec;
use crate::metrics;
use crate::queue::Next;

impl Room {
    pub(super) async fn visit(self: &Arc<Self>, gateway: &GatewayName) -> Next {
        let (revision, task) = {
            let state = self.state();
            (state.revision(), compile::gateway(&state, gateway))
        };
        let Some(task) = task else {
            self.forget(gateway);
            return Next::Done;
        };
        let result = self.close_the_difference(gateway, &task).await;
        if let Err(trouble) = &result {
            tracing::warn!(%gateway, pod = %task.pod.key, reason = trouble.reason(), "visit failed: {trouble}");
        }
        let next = match &result {
            Err(_) => Next::Retry,
            Ok(visit) if visit.tunnels.values().any(|(_, trouble)| trouble.is_some()) => Next::Retry,
            // What is empty and should be is left alone until something is said about it.
            Ok(visit) if visit.tunnels.is_empty() && !visit.holding.anything => Next::Done,
            Ok(_) => Next::After(self.options.drift_interval),
        };
        self.tell(Event::Outcome(gateway.clone(), Outcome { pod_uid: task.pod.uid, revision, result })).await;
        next
    }

    async fn close_the_difference(
        self: &Arc<Self>,
        gateway: &GatewayName,
        task: &GatewayTask,
    ) -> Result<Visit, Trouble> {
        let explain = |error: RunError| trouble(datapath::Trouble::Run(error));
        let commands = Commands::new(PodExec::new(&self.client, &task.pod, self.options.exec_timeout));
        let heard = match self.listen_to(gateway, &task.pod).await {
            // Where the monitor could not begin, an observation says why in clearer words.
            Err(lost @ RunError::Lost(_)) => Err(explain(lost)),
            other => Ok(other.map_err(explain)?),
        };
        let seen = self.counted("observe", commands.observe(None).await)?;
        let have = seen.listing().unwrap_or_default().have;
        heard?;
        let refused = refused_before(self.state().outcome(gateway), &task.pod.uid);
        let mut planned = plan_after(&refused, &task.want, &have);
        if planned.is_empty() {
            return Ok(judge(&task.want, &planned, &BTreeMap::new(), &have));
        }
        let (mut failures, mut now) = self.carry_out(gateway, &commands, &planned).await?;
        // It may have been planned from a change half done, as of a link on its way out; and what a tunnel got whose
        // link could not be made is taken away again.
        let again = plan_after(&refused_now(&planned, &failures, &now), &task.want, &now);
        if again.has_news_since(&planned) {
            (failures, now) = self.carry_out(gateway, &commands, &again).await?;
            planned = again;
        }
        let visit = judge(&task.want, &planned, &failures, &now);
        self.report_repairs(gateway, task, &planned, &visit).await;
        Ok(visit)
    }

    async fn carry_out(
        &self,
        gateway: &GatewayName,
        commands: &impl Datapath,
        plan: &Plan,
    ) -> Result<(BTreeMap<usize, Trouble>, Have), Trouble> {
        self.metrics.steps.inc_by(plan.steps.len() as u64);
        let Applied { listing, failures } = self.counted("apply", commands.apply(plan, None).await)?;
        for (at, step) in plan.steps.iter().enumerate() {
            let object = step.owner.as_ref().map(ToString::to_string);
            match failures.get(&at) {
                None => tracing::info!(%gateway, object, step = %step.action, "done"),
                Some(error) => tracing::warn!(%gateway, object, step = %step.action, %error, "failed"),
            }
        }
        let failures = failures.into_iter().map(|(at, error)| (at, step_trouble(error))).collect();
        Ok((failures, listing.have))
    }

    fn counted<T>(&self, command: &'static str, done: Result<T, datapath::Trouble>) -> Result<T, Trouble> {
        let result = if done.is_ok() { metrics::Result::Success } else { metrics::Result::Failure };
        self.metrics.execs.get_or_create(&metrics::Exec { command, result }).inc();
        done.map_err(trouble)
    }

    /// Says on each tunnel that was up what had gone missing and is back.
    async fn report_repairs(&self, gateway: &GatewayName, task: &GatewayTask, plan: &Plan, visit: &Visit) {
        let repaired = {
            let state = self.state();
            repairs(state.outcome(gateway), &task.pod.uid, &task.want, plan, visit)
        };
        let of_all = repaired.gateway.and_then(|what| Some((visit.tunnels.keys().next()?.clone(), what)));
        for (key, what) in of_all.into_iter().chain(repaired.tunnels) {
            let note = format!("repaired on gateway {gateway}: {what}");
            self.announce(&key, false, "DriftRepaired", note).await;
        }
    }
}

fn trouble(error: datapath::Trouble) -> Trouble {
    match error {
        datapath::Trouble::Run(RunError::Refused(why) | RunError::Lost(why)) => Trouble::ExecRefused(why),
        datapath::Trouble::Run(RunError::TimedOut(limit)) => Trouble::ExecTimedOut(limit.as_secs()),
        datapath::Trouble::ToolMissing(tool) => Trouble::ToolMissing(tool),
        failed @ (datapath::Trouble::Failed { .. }
        | datapath::Trouble::Superseded { .. }
        | datapath::Trouble::Unreadable { .. }) => Trouble::CommandFailed(failed.to_string()),
    }
}

fn step_trouble(error: StepError) -> Trouble {
    match error {
        StepError::KernelLacksTunnelType(kind) => Trouble::KernelLacksTunnelType(kind.into()),
        StepError::Refused(why) => Trouble::CommandFailed(why),
    }
}
