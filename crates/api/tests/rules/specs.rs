//! A spec of each kind, to change one thing about.

use causeway_core::rules::Kind;
use serde_json::{Value, json};

pub(crate) fn of(kind: Kind) -> Value {
    match kind {
        Kind::FaultToleranceRule => json!({
            "targets": [{ "targetResourceName": "GET:/foo" }],
            "strategies": [{ "name": "limit", "kind": "RateLimitStrategy" }],
        }),
        Kind::RateLimitStrategy => json!({
            "metricType": "RequestAmount", "limitMode": "Local", "threshold": 10, "statDurationSeconds": 1,
        }),
        Kind::ThrottlingStrategy => json!({ "minIntervalOfRequests": "20ms", "queueTimeout": "500ms" }),
        Kind::ConcurrencyLimitStrategy => json!({ "maxConcurrency": 8, "limitMode": "Global" }),
        Kind::CircuitBreakerStrategy => json!({
            "strategy": "SlowRequestRatio", "triggerRatio": "60%", "statDuration": "30s", "recoveryTimeout": "5s",
            "minRequestAmount": 5, "slowConditions": { "maxAllowedRt": "500ms" },
        }),
        Kind::TrafficRouter => json!({
            "hosts": ["foo"],
            "http": [{
                "match": [{ "headers": { "x-tag": { "exact": "v2" } } }],
                "route": [{ "destination": { "host": "foo", "subset": "v2" } }],
            }],
        }),
    }
}

/// The same with another value somewhere.
pub(crate) fn with(kind: Kind, pointer: &str, value: Value) -> Value {
    let mut spec = of(kind);
    match pointer.rsplit_once('/').and_then(|(parent, name)| Some((spec.pointer_mut(parent)?, name))) {
        Some((Value::Object(fields), name)) => drop(fields.insert(name.into(), value)),
        Some((items, at)) => items[at.parse::<usize>().expect("an index")] = value,
        None => panic!("there is no {pointer} in a {kind}"),
    }
    spec
}

/// The same without one field.
pub(crate) fn without(kind: Kind, pointer: &str) -> Value {
    let mut spec = of(kind);
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let fields = spec.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    fields.remove(name).expect("a field");
    spec
}
