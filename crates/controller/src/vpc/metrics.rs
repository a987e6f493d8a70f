//! What the room counts beside what every room has.

use std::sync::{Arc, Weak};

use causeway_core::vpc::status::READY;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::Vpc;
use crate::metrics::{OnDemand, Outcome, Reader, Reading};
use crate::room::Room;

/// Labels of the exec counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Exec {
    /// `observe`, `apply` or `monitor`.
    command: &'static str,
    result: Outcome,
}

/// The room's own counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    execs: Family<Exec, Counter>,
    steps: Counter,
}

impl Metrics {
    pub(super) fn register(&self, room: &Arc<Vpc>) {
        let tunnels = {
            let room = Arc::downgrade(room);
            OnDemand {
                name: "tunnels",
                help: "Tunnels by readiness",
                read: Reader(Box::new(move || count_tunnels(&room))),
            }
        };
        let left = {
            let room = Arc::downgrade(room);
            OnDemand {
                name: "records_left_at_broker",
                help: "Records that are not brought here because their cluster publishes more than the limit",
                read: Reader(Box::new(move || count_left(&room))),
            }
        };
        room.house.metrics.of_room(Vpc::NAME, |registry| {
            registry.register("execs", "Commands run in gateways", self.execs.clone());
            registry.register("steps", "Steps planned for gateways", self.steps.clone());
            registry.register_collector(Box::new(tunnels));
            registry.register_collector(Box::new(left));
        });
    }

    pub(super) fn count_exec<T, E>(&self, command: &'static str, result: &Result<T, E>) {
        self.execs.get_or_create(&Exec { command, result: Outcome::of(result) }).inc();
    }

    pub(super) fn count_steps(&self, steps: usize) {
        self.steps.inc_by(steps as u64);
    }
}

fn count_tunnels(room: &Weak<Vpc>) -> Vec<Reading<1>> {
    let Some(room) = room.upgrade() else { return Vec::new() };
    let (mut ready, mut not_ready) = (0, 0);
    for tunnel in room.desk.state().tunnels() {
        let is_ready = tunnel.status.conditions.is_true(READY);
        *(if is_ready { &mut ready } else { &mut not_ready }) += 1;
    }
    vec![([("ready", "true")], ready), ([("ready", "false")], not_ready)]
}

/// Of all members together: a label for each would let any of them fill what collects metrics.
fn count_left(room: &Weak<Vpc>) -> Vec<Reading<0>> {
    let Some(room) = room.upgrade() else { return Vec::new() };
    let left: usize = room.desk.state().exceeding_members().map(|(_, left)| left).sum();
    vec![([], i64::try_from(left).unwrap_or(i64::MAX))]
}
