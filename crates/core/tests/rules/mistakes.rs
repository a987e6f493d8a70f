//! The mistakes of the control plane before this one, each of which must not come back.

use std::sync::Arc;

use causeway_core::room::State as _;
use causeway_core::rules::rule::{BreakerStrategy, CircuitBreaker, LimitMode, RateLimit};
use causeway_core::rules::state::{Scope, State, Target};
use causeway_core::rules::subscription::{Verdict, verdict};
use causeway_core::rules::wire::fault_tolerance::v1::{
    CircuitBreakerStrategy, ConcurrencyLimitStrategy, RateLimitStrategy, ThrottlingStrategy,
};
use causeway_core::rules::{Rule, RuleObject, convert};
use prost::Message;

use crate::world::{
    RATE, after, app, breaker, concurrency_limit, gone, key, labels, list, names, object, put, rate_limit,
    refusal, set, span, target, throttling,
};

fn decoded<M: Message + Default>(rule: &Rule) -> M {
    let any = convert::message("default", "it", rule).expect("it can be carried");
    M::decode(&any.value[..]).expect("it is its message")
}

#[test]
fn seconds_are_not_multiplied_by_ten() {
    let even: ThrottlingStrategy = decoded(&throttling("2s", "5s"));
    assert_eq!((even.min_interval_millis_of_requests, even.queue_timeout_millis), (2_000, 5_000));
    let slow = CircuitBreaker { max_allowed_rt: Some(span("1s")), ..breaker() };
    let slow: CircuitBreakerStrategy = decoded(&Rule::CircuitBreaker(slow));
    assert_eq!((slow.stat_duration, slow.recovery_timeout), (30_000, 5_000));
    assert_eq!(slow.slow_condition.map(|slow| slow.max_allowed_rt_millis), Some(1_000));
}

#[test]
fn enums_are_not_always_zero() {
    for (limit_mode, number) in [(LimitMode::Local, 1), (LimitMode::Global, 2)] {
        let rule = Rule::RateLimit(RateLimit { limit_mode, threshold: 1, stat_duration_seconds: 1 });
        let limit: RateLimitStrategy = decoded(&rule);
        assert_eq!((limit.metric_type, limit.limit_mode, limit.stat_duration_time_unit), (1, number, 2));
        let few: ConcurrencyLimitStrategy = decoded(&concurrency_limit(1, limit_mode));
        assert_eq!(few.limit_mode, number);
    }
    for (strategy, number) in
        [(BreakerStrategy::SlowRequestRatio, 1), (BreakerStrategy::ErrorRequestRatio, 2)]
    {
        let breaker: CircuitBreakerStrategy =
            decoded(&Rule::CircuitBreaker(CircuitBreaker { strategy, ..breaker() }));
        assert_eq!(breaker.strategy, number);
        assert_eq!(
            (breaker.stat_duration_time_unit, breaker.recovery_timeout_time_unit),
            (1, 1),
            "a real unit"
        );
    }
}

#[test]
fn the_first_list_is_not_pushed_rule_by_rule() {
    let mut state = State::default();
    assert_eq!(state.set(&target("a")), None, "what was not listed is not known to be empty");
    let touched = state.apply(list(["x", "y", "z"].map(|name| object(name, "a", rate_limit(1))), 9));
    let pushes: Vec<_> = touched.iter().filter(|scope| !matches!(scope, Scope::Status(..))).collect();
    assert_eq!(pushes, [&app("a"), &Scope::Kind(RATE)], "for all of them together");
    assert_eq!(names(&state, "a"), (vec!["x".into(), "y".into(), "z".into()], 9));
    assert_eq!(names(&state, "b"), (vec![], 9), "and who has no rule learns that");
}

#[test]
fn a_rule_of_an_app_that_nobody_asked_for_is_not_dropped() {
    let mut state = after([list([object("x", "a", rate_limit(1))], 1)]);
    state.apply(put(object("y", "b", rate_limit(1)), 2));
    assert_eq!(names(&state, "b"), (vec!["y".into()], 2), "whoever comes later gets it");
    assert!(state.everything().contains(&app("b")));
}

#[test]
fn versions_do_not_restart_at_one() {
    let rule = || object("x", "a", rate_limit(1));
    let mut state = after([list([], 41_000), put(rule(), 41_007)]);
    assert_eq!(names(&state, "a").1, 41_007, "the version of the event");
    let restarted = after([list([rule()], 41_050)]);
    assert_eq!(names(&restarted, "a").1, 41_050, "the version of the list");
    state.apply(gone("x", 41_060));
    assert_eq!(names(&state, "a"), (vec![], 41_060), "also of an empty set");
    assert_eq!(names(&after([list([], 41_070)]), "a"), (vec![], 41_070));
}

#[test]
fn a_restored_cluster_does_not_make_data_planes_refuse_everything() {
    let mut state =
        after([list([object("x", "a", rate_limit(1))], 1_000), put(object("x", "a", rate_limit(2)), 1_010)]);
    state.apply(list([object("x", "a", rate_limit(1))], 500));
    let restored = names(&state, "a").1;
    assert!(restored > 1_010, "{restored} is above what they hold");
    state.apply(put(object("x", "a", rate_limit(3)), 501));
    assert_eq!(names(&state, "a").1, restored + 1, "and so it goes on");
    state.apply(list([object("x", "a", rate_limit(3))], 510));
    assert_eq!(names(&state, "a").1, restored + 10);
    state.apply(list([object("x", "a", rate_limit(3))], 5_000));
    assert!(names(&state, "a").1 >= 5_000);
}

#[test]
fn a_relabelled_rule_leaves_the_old_app_and_its_deletion_crashes_nothing() {
    let mut state = after([list([object("x", "a", rate_limit(1)), object("y", "a", rate_limit(1))], 1)]);
    let touched = state.apply(put(object("x", "b", rate_limit(1)), 2));
    assert!(touched.contains(&app("a")) && touched.contains(&app("b")), "{touched:?}");
    assert_eq!(names(&state, "a"), (vec!["y".into()], 2));
    assert_eq!(names(&state, "b"), (vec!["x".into()], 2));
    assert_eq!(state.apply(gone("x", 3)).iter().filter(|scope| matches!(scope, Scope::App(..))).count(), 1);
    assert_eq!(names(&state, "b"), (vec![], 3));
    assert_eq!(names(&state, "a"), (vec!["y".into()], 2), "which it left before");
    assert!(state.apply(gone("x", 4)).is_empty());
    let of_nobody = RuleObject { labels: Arc::default(), ..object("y", "a", rate_limit(1)) };
    assert!(state.apply(put(of_nobody, 5)).contains(&app("a")));
    assert_eq!(names(&state, "a"), (vec![], 5));
    state.apply(gone("y", 6));
    assert_eq!(state.rule(RATE, &key("y")), None);
}

#[test]
fn a_nack_without_status_is_a_failure_like_others() {
    let failed = Verdict::Failed { code: 0, message: "it gave no status".into() };
    assert_eq!(verdict(false, None), failed);
    assert_eq!(verdict(true, None), failed, "nor does an ack without one prove anything");
}

#[test]
fn a_rule_that_cannot_be_converted_is_never_sent_half() {
    let refused = || RuleObject { rule: Err(refusal()), ..object("x", "a", rate_limit(1)) };
    let mut state = after([list([refused(), object("y", "a", rate_limit(1))], 1)]);
    assert_eq!(names(&state, "a").0, ["y"]);
    state.apply(put(object("x", "a", rate_limit(1)), 2));
    let good = set(&state, "a").data;
    state.apply(put(refused(), 3));
    assert_eq!(set(&state, "a").data, good, "the last that made sense stays");
    assert_eq!(set(&state, "a").version, 3, "of which others may say another set");
    let another = RuleObject { uid: "another".into(), ..refused() };
    state.apply(list([another, object("y", "a", rate_limit(1))], 9));
    assert_eq!(names(&state, "a"), (vec!["y".into()], 9), "but not that of an object that is gone");
}

#[test]
fn labels_that_are_asked_for_must_all_be_there() {
    let labelled = |name, pairs: &[(&str, &str)]| RuleObject {
        labels: Arc::new(labels(pairs)),
        ..object(name, "a", rate_limit(1))
    };
    let rules = [
        labelled("x", &[("app", "a"), ("zone", "1"), ("tier", "web")]),
        labelled("y", &[("app", "a"), ("zone", "1")]),
        labelled("z", &[("app", "b"), ("zone", "1"), ("tier", "web")]),
    ];
    let state = after([list(rules, 1)]);
    let asked = |app: &str, pairs| {
        let set = state.set(&Target { labels: Arc::new(labels(pairs)), ..target(app) }).expect("listed");
        set.rules.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(asked("a", &[("zone", "1")]), ["x", "y"]);
    assert_eq!(asked("a", &[("zone", "1"), ("tier", "web")]), ["x"]);
    assert_eq!(asked("*", &[("tier", "web")]), ["x", "z"]);
    assert_eq!(asked("*", &[("tier", "db")]), [""; 0]);
}
