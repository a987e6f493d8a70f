//! What the room counts beside what every room has.

use std::sync::{Arc, Weak};

use causeway_core::rules::subscription::Answer;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::Rules;
use crate::metrics::{OnDemand, Reader, Reading};
use crate::room::Room;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    /// `acked` or `failed`.
    answer: &'static str,
}

/// The room's own counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pushes: Counter,
    answers: Family<Answered, Counter>,
    stuck: Counter,
}

impl Metrics {
    pub(super) fn register(&self, room: &Arc<Rules>) {
        let streams = {
            let room = Arc::downgrade(room);
            OnDemand {
                name: "streams",
                help: "Streams of data planes",
                read: Reader(Box::new(move || count_streams(&room))),
            }
        };
        room.house.metrics.of_room(Rules::NAME, |registry| {
            registry.register("pushes", "Sets sent to data planes", self.pushes.clone());
            registry.register("answers", "Answers of data planes", self.answers.clone());
            registry.register("stuck_streams", "Streams ended because nothing was taken", self.stuck.clone());
            registry.register_collector(Box::new(streams));
        });
    }

    pub(super) fn count_push(&self) {
        self.pushes.inc();
    }

    pub(super) fn count_stuck(&self) {
        self.stuck.inc();
    }

    pub(super) fn count_answer(&self, answer: Answer) {
        let answer = match answer {
            Answer::Acked => "acked",
            Answer::Failed => "failed",
            Answer::Pending => return,
        };
        self.answers.get_or_create(&Answered { answer }).inc();
    }
}

fn count_streams(room: &Weak<Rules>) -> Vec<Reading<0>> {
    let streams = room.upgrade().map(|room| room.hub.len()).unwrap_or_default();
    vec![([], i64::try_from(streams).unwrap_or(i64::MAX))]
}
