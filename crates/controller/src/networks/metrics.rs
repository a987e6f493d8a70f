//! What the room counts beside what every room has.

use std::sync::{Arc, Weak};

use causeway_core::networks::status::READY;
use causeway_core::networks::{Step, Trouble};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::Networks;
use super::provider::NetworkProvider;
use crate::metrics::{OnDemand, Outcome, Reader, Reading};
use crate::room::Room;

/// Labels of the step counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStep {
    step: &'static str,
    result: Outcome,
}

/// Labels of the look counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLook {
    result: Outcome,
}

/// Labels of the trouble counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTrouble {
    reason: &'static str,
}

/// The room's own counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    steps: Family<OfStep, Counter>,
    looks: Family<OfLook, Counter>,
    troubles: Family<OfTrouble, Counter>,
}

impl Metrics {
    pub(super) fn register<P: NetworkProvider>(&self, room: &Arc<Networks<P>>) {
        let on_demand = |name, help, read: fn(&Networks<P>) -> Vec<Reading<1>>| {
            let room: Weak<Networks<P>> = Arc::downgrade(room);
            let read = move || room.upgrade().map(|room| read(&room)).unwrap_or_default();
            Box::new(OnDemand { name, help, read: Reader(Box::new(read)) })
        };
        room.house.metrics.of_room(Networks::<P>::NAME, |registry| {
            registry.register("steps", "Changes of the cloud", self.steps.clone());
            registry.register("looks", "Looks at the cloud", self.looks.clone());
            registry.register("troubles", "What went wrong with the cloud", self.troubles.clone());
            registry.register_collector(on_demand("objects", "Networks by readiness", by_readiness));
            registry.register_collector(on_demand(
                "held",
                "Networks of the cloud by whose they are",
                by_owner,
            ));
        });
    }

    pub(super) fn count_step<T>(&self, step: &Step, result: &Result<T, Trouble>) {
        self.steps.get_or_create(&OfStep { step: step.verb(), result: Outcome::of(result) }).inc();
        self.count_trouble(result);
    }

    pub(super) fn count_look<T>(&self, result: &Result<T, Trouble>) {
        self.looks.get_or_create(&OfLook { result: Outcome::of(result) }).inc();
        self.count_trouble(result);
    }

    fn count_trouble<T>(&self, result: &Result<T, Trouble>) {
        if let Err(trouble) = result {
            self.troubles.get_or_create(&OfTrouble { reason: trouble.reason() }).inc();
        }
    }
}

fn by_readiness<P: NetworkProvider>(room: &Networks<P>) -> Vec<Reading<1>> {
    let (mut ready, mut not_ready) = (0, 0);
    for network in room.desk().state().networks() {
        let is_ready = network.status.conditions.is_true(READY);
        *(if is_ready { &mut ready } else { &mut not_ready }) += 1;
    }
    vec![([("ready", "true")], ready), ([("ready", "false")], not_ready)]
}

fn by_owner<P: NetworkProvider>(room: &Networks<P>) -> Vec<Reading<1>> {
    let state = room.desk().state();
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let (all, orphans, namesakes) =
        (state.cloud().map_or(0, |cloud| cloud.iter().count()), state.orphans(), state.namesakes());
    vec![
        ([("owner", "object")], count(all.saturating_sub(orphans + namesakes))),
        ([("owner", "nobody")], count(orphans)),
        ([("owner", "namesake")], count(namesakes)),
    ]
}
