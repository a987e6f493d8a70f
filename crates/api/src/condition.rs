//! Conditions between Kubernetes' type and ours.

use causeway_core::{Condition, Conditions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Written, Time};
use k8s_openapi::jiff::Timestamp;

/// All conditions of an object, as read.
pub fn read(conditions: &[Written]) -> Conditions {
    let ours = conditions.iter().map(|condition| Condition {
        kind: condition.type_.clone(),
        status: condition.status.as_str().into(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        observed_generation: condition.observed_generation,
        since: Some(condition.last_transition_time.0.as_second()),
    });
    ours.collect()
}

/// All conditions of an object, to be written at `now`: what changes its status does so then.
pub fn written(conditions: &Conditions, now: Timestamp) -> Vec<Written> {
    let now = now.as_second();
    let theirs = conditions.iter().map(|condition| Written {
        type_: condition.kind.clone(),
        status: condition.status.to_string(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        observed_generation: condition.observed_generation,
        last_transition_time: Time(
            Timestamp::from_second(condition.since.unwrap_or(now)).unwrap_or(Timestamp::UNIX_EPOCH),
        ),
    });
    theirs.collect()
}
