//! What the room counts.

use std::sync::{Arc, Weak};

use causeway_core::dns::status::READY;

use super::Dns;
use crate::metrics::{OnDemand, Reader, Reading};
use crate::room::Room;

/// Registers the room's gauges.
pub(super) fn register(room: &Arc<Dns>) {
    let weak: Weak<Dns> = Arc::downgrade(room);
    let read = Reader(Box::new(move || weak.upgrade().map(|room| forwards(&room)).unwrap_or_default()));
    room.house.metrics.of_room(Dns::NAME, |registry| {
        registry.register_collector(Box::new(OnDemand {
            name: "forwards",
            help: "VpcDnsForwards, by whether they say that they are ready",
            read,
        }));
    });
}

fn forwards(room: &Dns) -> Vec<Reading<1>> {
    let state = room.desk.state();
    let ready = state.forwards().filter(|forward| forward.status.conditions.is_true(READY)).count();
    let others = state.forwards().count() - ready;
    let reading =
        |ready: &'static str, count: usize| ([("ready", ready)], i64::try_from(count).unwrap_or(i64::MAX));
    vec![reading("true", ready), reading("false", others)]
}
