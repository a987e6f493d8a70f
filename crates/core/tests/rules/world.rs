//! Rules as the tests need them.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_core::ObjectKey;
use causeway_core::room::{Change, State as _};
use causeway_core::rules::rule::{
    BreakerStrategy, CircuitBreaker, ConcurrencyLimit, LimitMode, RateLimit, Span, Throttling,
};
use causeway_core::rules::state::{Event, Scope, Set, State, Target};
use causeway_core::rules::{Kind, Refusal, Rule, RuleObject, RuleStatus, Share};

use crate::protobuf::{any, message, number, text};

pub(crate) const RATE: Kind = Kind::RateLimitStrategy;

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name).expect("a key")
}

pub(crate) fn span(text: &str) -> Span {
    text.parse().expect("a duration")
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn rate_limit(threshold: i64) -> Rule {
    Rule::RateLimit(RateLimit { limit_mode: LimitMode::Local, threshold, stat_duration_seconds: 1 })
}

pub(crate) fn throttling(min_interval: &str, queue_timeout: &str) -> Rule {
    Rule::Throttling(Throttling { min_interval: span(min_interval), queue_timeout: span(queue_timeout) })
}

pub(crate) fn concurrency_limit(max_concurrency: i64, limit_mode: LimitMode) -> Rule {
    Rule::ConcurrencyLimit(ConcurrencyLimit { max_concurrency, limit_mode })
}

pub(crate) fn breaker() -> CircuitBreaker {
    CircuitBreaker {
        strategy: BreakerStrategy::SlowRequestRatio,
        trigger_ratio: "60%".parse().expect("a ratio"),
        stat_duration: span("30s"),
        recovery_timeout: span("5s"),
        min_request_amount: 5,
        max_allowed_rt: None,
        error_conditions: false,
    }
}

pub(crate) fn refusal() -> Refusal {
    Refusal::new("spec.threshold", "it is negative")
}

/// A rule of an app, in the namespace `default`.
pub(crate) fn object(name: &str, app: &str, rule: Rule) -> RuleObject {
    RuleObject {
        key: key(name),
        uid: format!("uid of {name}"),
        resource_version: "1".into(),
        generation: 1,
        labels: Arc::new(labels(&[("app", app)])),
        rule: Ok(rule),
        status: RuleStatus::default(),
    }
}

/// So many data planes run it.
pub(crate) fn acked(acked: u32) -> Share {
    Share { acked, ..Share::default() }
}

pub(crate) fn put(object: RuleObject, version: i64) -> Event {
    let kind = object.rule.as_ref().map_or(RATE, Rule::kind);
    Event::Rules { kind, change: Change::Put(object.key.clone(), object), version }
}

pub(crate) fn gone(name: &str, version: i64) -> Event {
    Event::Rules { kind: RATE, change: Change::Gone(key(name)), version }
}

pub(crate) fn list(objects: impl IntoIterator<Item = RuleObject>, version: i64) -> Event {
    let objects = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
    Event::Rules { kind: RATE, change: Change::Reset(objects), version }
}

pub(crate) fn target(app: &str) -> Target {
    Target { kind: RATE, namespace: "default".into(), app: app.into(), labels: Arc::default() }
}

pub(crate) fn app(app: &str) -> Scope {
    Scope::App(RATE, "default".into(), app.into())
}

/// A state that was told all this.
pub(crate) fn after(events: impl IntoIterator<Item = Event>) -> State {
    let mut state = State::default();
    events.into_iter().for_each(|event| drop(state.apply(event)));
    state
}

pub(crate) fn set(state: &State, app: &str) -> Set {
    state.set(&target(app)).expect("the kind was listed")
}

/// The names of a set's rules, and its version.
pub(crate) fn names(state: &State, app: &str) -> (Vec<String>, i64) {
    let set = set(state, app);
    (set.rules.iter().map(|key| key.name().to_owned()).collect(), set.version)
}

/// A rate limit as an entry of a set, by hand.
pub(crate) fn rate_limit_bytes(name: &str, threshold: i64) -> Vec<u8> {
    let threshold = if threshold == 0 { Vec::new() } else { number(4, threshold) };
    let fields = [text(1, name), number(2, 1), number(3, 1), threshold, number(5, 1), number(6, 2)];
    any(1, "io.opensergo.proto.fault_tolerance.v1.RateLimitStrategy", &message(fields))
}
