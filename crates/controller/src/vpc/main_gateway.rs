//! A VPC of ours: writing the record that names its main gateway, and moving the routes that follow it.
//!
//! These writes are what traffic waits for when a gateway is lost, so they are made one right after the other, each decided
//! anew on what the one before gave. In a switch on purpose nothing waits, and the flows of the tunnels are handed over first, those
//! that begin meanwhile right after.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_api::vpc::foreign::kube_ovn;
use causeway_api::vpc::{MOVED_ROUTES, parse};
use causeway_core::vpc::exchange::{LOCAL_GATEWAY, RecordTask};
use causeway_core::vpc::mains::{self, Handover, RouteTask, Step};
use causeway_core::vpc::{Change, Event};
use causeway_datapath::vpc::Flow;
use causeway_datapath::{self as datapath};
use kube::Api;
use kube::api::Patch;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Vpc;
use super::record;
use crate::election::Term;
use crate::queue::Next;
use crate::write::{guarded, patching};

/// What is handed over, the record, the routes, the record without what was to be moved; and one more for what changed meanwhile.
const STEPS: usize = 5;

impl Vpc {
    pub(super) async fn write_vpc(&self, name: &str, term: &Term) -> Next {
        let mut wrote = false;
        let mut carried: Option<(Handover, BTreeSet<Flow>)> = None;
        for _ in 0..STEPS {
            let (step, handover) = {
                let state = self.desk.state();
                (mains::step(&state, name), mains::handover(&state, name))
            };
            let done = match step {
                Step::Nothing => return if wrote { self.seen_again() } else { Next::Done },
                Step::Record(task) => match handover.filter(|_| carried.is_none()) {
                    // What is to be written is decided anew afterwards: that may have taken seconds.
                    Some(handover) => {
                        let flows = self.carry_flows(name, &handover, &BTreeSet::new(), term).await;
                        carried = Some((handover, flows));
                        Ok(())
                    }
                    None => self.write_vpc_record(name, task, term).await,
                },
                Step::Routes(task) => {
                    let moved = self.move_routes(name, &task, term).await;
                    // What began between the first look and the move.
                    if let Some((handover, flows)) = carried.take() {
                        self.carry_flows(name, &handover, &flows, term).await;
                    }
                    moved
                }
            };
            if let Err(next) = done {
                return next;
            }
            wrote = true;
        }
        Next::Retry
    }

    /// Has the gateway that takes over know the flows of the one before, but for those that it knows; gives all of them. What
    /// cannot be carried is no reason to keep a switch waiting: those flows begin anew.
    async fn carry_flows(
        &self,
        vpc: &str,
        handover: &Handover,
        known: &BTreeSet<Flow>,
        term: &Term,
    ) -> BTreeSet<Flow> {
        let carry = async {
            let flows = self.way.datapath(&handover.from).flows(&handover.ranges).await?;
            let mut new: BTreeSet<Flow> = flows.difference(known).copied().collect();
            if !new.is_empty() {
                // One that was the main one before knows many still, and would have to be told one by one.
                let to = self.way.datapath(&handover.to);
                let theirs = to.flows(&handover.ranges).await?;
                new.retain(|flow| !theirs.contains(flow));
                if !new.is_empty() && term.is_held() {
                    to.take_flows(&new).await?;
                }
            }
            tracing::info!(vpc, from = %handover.from.key, to = %handover.to.key, flows = new.len(), "flows are handed over");
            Ok(flows)
        };
        let why = match timeout(CARRIED_WITHIN, carry).await {
            Ok(Ok(flows)) => return flows,
            Ok(Err::<_, datapath::Trouble>(trouble)) => trouble.to_string(),
            Err(_) => format!("it took more than {} s", CARRIED_WITHIN.as_secs()),
        };
        tracing::warn!(vpc, from = %handover.from.key, to = %handover.to.key, "flows are not handed over: {why}");
        let note = format!(
            "flows could not be handed over from pod {} to {}, so connections through the tunnel begin anew: {why}",
            handover.from.key.name(),
            handover.to.key.name()
        );
        let state = self.desk.state();
        for tunnel in state.tunnels().filter(|tunnel| tunnel.is_from_vpc(vpc)).take(ANNOUNCED) {
            self.announce(term, tunnel, true, "FlowsNotCarried", note.clone());
        }
        BTreeSet::new()
    }

    async fn write_vpc_record(&self, name: &str, task: RecordTask, term: &Term) -> Result<(), Next> {
        let before = self.desk.state().recorded_main(name).map(ToString::to_string);
        let now = match &task {
            RecordTask::Update { object, .. } => object.labels.get(LOCAL_GATEWAY).cloned(),
            RecordTask::Nothing | RecordTask::Create(_) | RecordTask::Delete(..) => None,
        };
        let gone = match &task {
            RecordTask::Delete(key, _) => Some(key.clone()),
            RecordTask::Nothing | RecordTask::Create(_) | RecordTask::Update { .. } => None,
        };
        let written = record::carry_out(term, &self.house.client, task, "own").await?;
        if let (Some(from), Some(to)) = (before, now) {
            self.announce_main(name, &from, &to, term);
        }
        if let Some(record) = written.as_ref().and_then(parse::record) {
            self.desk.tell(Event::Records(Change::Put(record.key.clone(), record)));
        } else if let Some(key) = gone {
            self.desk.tell(Event::Records(Change::Gone(key)));
        }
        Ok(())
    }

    /// Says on the tunnels of a VPC that another gateway carries them from now on.
    fn announce_main(&self, vpc: &str, from: &str, to: &str, term: &Term) {
        if from == to {
            return;
        }
        let state = self.desk.state();
        tracing::info!(vpc, from, to, "another gateway is the main one");
        let note = format!("gateway {to} of VPC {vpc} takes over from {from}");
        for tunnel in state.tunnels().filter(|tunnel| tunnel.is_from_vpc(vpc)).take(ANNOUNCED) {
            self.announce(term, tunnel, false, "Failover", note.clone());
        }
    }

    /// Moves next hops in one update of the object: kube-ovn deletes before it adds, and lets one plain next hop per range stand.
    async fn move_routes(&self, name: &str, task: &RouteTask, term: &Term) -> Result<(), Next> {
        let api: Api<kube_ovn::Vpc> = Api::all(self.house.client.clone());
        let patch = serde_json::from_value(patch(task)).map_err(|_| Next::Retry)?;
        let patch: Patch<()> = Patch::Json(patch);
        let written = guarded(term, "routes of a VPC", api.patch(name, &patching(), &patch)).await?;
        tracing::info!(vpc = name, moved = task.note, "routes lead to the main gateway");
        self.desk.tell(Event::Vpcs(Change::Put(name.into(), parse::vpc(&written))));
        Ok(())
    }
}

/// Handing flows over may take no longer than this.
const CARRIED_WITHIN: Duration = Duration::from_secs(5);
/// More tunnels of one VPC are not told one by one.
const ANNOUNCED: usize = 20;

/// Just the next hops, in their places: whatever else a route says, and fields that we do not know, stay. The version makes the
/// server refuse it when the list has changed meanwhile.
fn patch(task: &RouteTask) -> Value {
    let hop = |place: &usize| {
        let path = format!("/spec/staticRoutes/{place}/nextHopIP");
        json!({ "op": "replace", "path": path, "value": task.to })
    };
    let mut patch =
        vec![json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": task.version })];
    patch.extend(task.places.iter().map(hop));
    let annotation = format!("/metadata/annotations/{}", MOVED_ROUTES.replace('/', "~1"));
    if !task.annotated {
        patch.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    patch.push(json!({ "op": "add", "path": annotation, "value": task.note }));
    Value::Array(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_next_hops_are_touched_and_only_in_the_version_that_was_seen() {
        let to = [10, 0, 1, 253].into();
        let note = "242.1.0.0/16 from 10.0.1.254 to 10.0.1.253".to_string();
        let task = RouteTask { version: "7".into(), places: vec![1], to, note, annotated: true };
        let mut vpc = json!({
            "metadata": { "resourceVersion": "7", "annotations": { "a": "b" } },
            "spec": { "staticRoutes": [
                { "cidr": "0.0.0.0/0", "nextHopIP": "10.0.1.254", "policy": "policyDst" },
                { "cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.254", "unknown": 7 },
            ] },
        });
        let patch: json_patch::Patch = serde_json::from_value(patch(&task)).expect("a patch");
        json_patch::patch(&mut vpc, &patch).expect("it fits");
        assert_eq!(
            vpc,
            json!({
                "metadata": {
                    "resourceVersion": "7",
                    "annotations": { "a": "b", "causeway/moved-routes": "242.1.0.0/16 from 10.0.1.254 to 10.0.1.253" },
                },
                "spec": { "staticRoutes": [
                    { "cidr": "0.0.0.0/0", "nextHopIP": "10.0.1.254", "policy": "policyDst" },
                    { "cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.253", "unknown": 7 },
                ] },
            })
        );
    }
}
