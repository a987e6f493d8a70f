//! What the room counts beside what every room has.

use std::sync::{Arc, Weak};
use std::time::Duration;

use causeway_core::Family;
use causeway_core::leases::{About, Step};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family as Series;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Unit;

use super::Leases;
use crate::metrics::{OnDemand, Reader, Reading};
use crate::room::Room;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Repair {
    family: &'static str,
    /// What was wrong: `link`, `route`, `end`, `stale` or `rules`.
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Nodes {
    family: &'static str,
    /// `reached` or `refused`.
    state: &'static str,
}

/// The room's own metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    repairs: Series<Repair, Counter>,
    repair_time: Histogram,
    nodes: Series<Nodes, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let repair_time = Histogram::new(exponential_buckets(0.001, 2.0, 14));
        Self { repairs: Series::default(), repair_time, nodes: Series::default() }
    }
}

fn label(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

impl Metrics {
    pub(super) fn register(&self, room: &Arc<Leases>) {
        let held = |name, help, count: fn(&causeway_core::leases::Holding) -> usize| {
            let room = Arc::downgrade(room);
            let read = Reader(Box::new(move || count_held(&room, count)));
            Box::new(OnDemand { name, help, read })
        };
        let routes = held("routes", "Leases that the kernel has the way to", |holding| holding.routes);
        let contested = held("contested", "Leases whose place is taken by somebody else's route", |it| {
            it.contested.len()
        });
        let failed = held("failed", "Changes that the kernel refused at the last try", |it| it.failed.len());
        room.house.metrics.of_room(Leases::NAME, |registry| {
            registry.register("repairs", "Things put right that somebody changed", self.repairs.clone());
            registry.register_with_unit(
                "repair",
                "Time from a change by somebody else to its repair",
                Unit::Seconds,
                self.repair_time.clone(),
            );
            registry.register("nodes", "Other nodes, reached or refused", self.nodes.clone());
            registry.register_collector(routes);
            registry.register_collector(contested);
            registry.register_collector(failed);
        });
    }

    pub(super) fn count_repairs(&self, family: Family, steps: &[Step], took: Option<Duration>) {
        for step in steps {
            let cause = match About::of(step) {
                About::Link => "link",
                About::Route => "route",
                About::End => "end",
                About::Stale => "stale",
            };
            self.repairs.get_or_create(&Repair { family: label(family), cause }).inc();
        }
        if let Some(took) = took {
            self.repair_time.observe(took.as_secs_f64());
        }
    }

    /// Counts repairs of what is done with packets of pods, of whichever family.
    pub(super) fn count_rules(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.repairs.get_or_create(&Repair { family: "both", cause: "rules" }).inc_by(count);
    }

    pub(super) fn set_nodes(&self, family: Family, reached: usize, refused: usize) {
        for (state, count) in [("reached", reached), ("refused", refused)] {
            let gauge = self.nodes.get_or_create_owned(&Nodes { family: label(family), state });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}

fn count_held(room: &Weak<Leases>, count: fn(&causeway_core::leases::Holding) -> usize) -> Vec<Reading<1>> {
    let Some(room) = room.upgrade() else { return Vec::new() };
    let state = room.desk.state();
    let of = |family: Family| {
        let holding = state.held(family)?.as_ref().ok()?;
        Some(([("family", label(family))], i64::try_from(count(holding)).unwrap_or(i64::MAX)))
    };
    room.families().filter_map(of).collect()
}
