//! What each kind says, and what is refused by name.

use causeway_api::rules::{LooseRule, parse, resource};
use causeway_core::rules::Kind;
use causeway_core::rules::rule::{
    BreakerStrategy, CircuitBreaker, ConcurrencyLimit, FaultTolerance, LimitMode, RateLimit, Reference, Rule,
    Throttling,
};
use serde_json::{Value, json};

use crate::{refusal, said, specs};

fn reference(name: &str, kind: &str) -> Reference {
    Reference { name: name.into(), kind: kind.into() }
}

#[test]
fn each_kind_says_what_its_spec_says() {
    let parsed = |kind: Kind| said(kind, &specs::of(kind)).expect("valid");
    let span = |text: &str| text.parse().expect("a duration");
    assert_eq!(
        parsed(Kind::FaultToleranceRule),
        Rule::FaultTolerance(FaultTolerance {
            targets: vec!["GET:/foo".into()],
            strategies: vec![reference("limit", "RateLimitStrategy")],
            action: None,
        })
    );
    assert_eq!(
        parsed(Kind::RateLimitStrategy),
        Rule::RateLimit(RateLimit { limit_mode: LimitMode::Local, threshold: 10, stat_duration_seconds: 1 })
    );
    assert_eq!(
        parsed(Kind::ThrottlingStrategy),
        Rule::Throttling(Throttling { min_interval: span("20ms"), queue_timeout: span("500ms") })
    );
    assert_eq!(
        parsed(Kind::ConcurrencyLimitStrategy),
        Rule::ConcurrencyLimit(ConcurrencyLimit { max_concurrency: 8, limit_mode: LimitMode::Global })
    );
    assert_eq!(
        parsed(Kind::CircuitBreakerStrategy),
        Rule::CircuitBreaker(CircuitBreaker {
            strategy: BreakerStrategy::SlowRequestRatio,
            trigger_ratio: "60%".parse().expect("a ratio"),
            stat_duration: span("30s"),
            recovery_timeout: span("5s"),
            min_request_amount: 5,
            max_allowed_rt: Some(span("500ms")),
            error_conditions: false,
        })
    );
    for kind in Kind::ALL {
        assert_eq!(parsed(kind).kind(), kind);
    }
}

#[test]
fn a_rule_may_name_any_strategy_and_an_action() {
    let mut spec = specs::of(Kind::FaultToleranceRule);
    let kinds =
        ["RateLimitStrategy", "ConcurrencyLimitStrategy", "ThrottlingStrategy", "CircuitBreakerStrategy"];
    spec["strategies"] = kinds.iter().map(|kind| json!({ "name": "s", "kind": kind })).collect();
    spec["action"] = json!({ "name": "fallback", "kind": "HttpAction" });
    let Ok(Rule::FaultTolerance(rule)) = said(Kind::FaultToleranceRule, &spec) else { panic!("valid") };
    assert_eq!(rule.strategies, kinds.map(|kind| reference("s", kind)));
    assert_eq!(rule.action, Some(reference("fallback", "HttpAction")));
    // The stock definition accepts it, and the message can say it.
    let nothing = json!({ "targets": [], "strategies": [] });
    assert_eq!(said(Kind::FaultToleranceRule, &nothing), Ok(Rule::FaultTolerance(FaultTolerance::default())));
}

#[test]
fn what_is_slow_and_what_failed_are_said_only_where_they_are_given() {
    let kind = Kind::CircuitBreakerStrategy;
    let breaker = |spec: Value| match said(kind, &spec) {
        Ok(Rule::CircuitBreaker(rule)) => (rule.max_allowed_rt.is_some(), rule.error_conditions),
        other => panic!("{other:?}"),
    };
    assert_eq!(breaker(specs::of(kind)), (true, false));
    assert_eq!(breaker(specs::without(kind, "/slowConditions")), (false, false));
    assert_eq!(breaker(specs::with(kind, "/slowConditions", Value::Null)), (false, false));
    assert_eq!(breaker(specs::with(kind, "/errorConditions", json!({}))), (true, true));
    let as_the_stock_definition_demands = json!({ "representation": "5xx" });
    assert_eq!(breaker(specs::with(kind, "/errorConditions", as_the_stock_definition_demands)), (true, true));
}

#[test]
fn only_the_interval_between_requests_may_be_nothing_and_have_zeros_in_front() {
    let kind = Kind::ThrottlingStrategy;
    let interval = |text: &str| match said(kind, &specs::with(kind, "/minIntervalOfRequests", json!(text))) {
        Ok(Rule::Throttling(rule)) => Ok(rule.min_interval.millis()),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.field),
    };
    assert_eq!(["0ms", "000s", "020ms", "7s", "10m"].map(interval), [0, 0, 20, 7000, 600_000].map(Ok));
    let field = "spec.minIntervalOfRequests".to_owned();
    for text in ["", "0", "00", "ms", "-1s", "0x1s", "1.5s", "99999999999999999999s"] {
        assert_eq!(interval(text), Err(field.clone()), "{text}");
    }
    for pointer in ["/statDuration", "/recoveryTimeout", "/slowConditions/maxAllowedRt"] {
        let kind = Kind::CircuitBreakerStrategy;
        assert_eq!(
            refusal(kind, &specs::with(kind, pointer, json!("0s"))),
            format!("spec{}: it must be longer than nothing", pointer.replace('/', "."))
        );
    }
}

#[test]
fn every_field_but_the_optional_ones_must_be_given() {
    let required = [
        (Kind::FaultToleranceRule, "/targets"),
        (Kind::FaultToleranceRule, "/strategies"),
        (Kind::RateLimitStrategy, "/metricType"),
        (Kind::RateLimitStrategy, "/limitMode"),
        (Kind::RateLimitStrategy, "/threshold"),
        (Kind::RateLimitStrategy, "/statDurationSeconds"),
        (Kind::ThrottlingStrategy, "/minIntervalOfRequests"),
        (Kind::ThrottlingStrategy, "/queueTimeout"),
        (Kind::ConcurrencyLimitStrategy, "/maxConcurrency"),
        (Kind::ConcurrencyLimitStrategy, "/limitMode"),
        (Kind::CircuitBreakerStrategy, "/strategy"),
        (Kind::CircuitBreakerStrategy, "/triggerRatio"),
        (Kind::CircuitBreakerStrategy, "/statDuration"),
        (Kind::CircuitBreakerStrategy, "/recoveryTimeout"),
        (Kind::CircuitBreakerStrategy, "/minRequestAmount"),
        (Kind::CircuitBreakerStrategy, "/slowConditions/maxAllowedRt"),
    ];
    for (kind, pointer) in required {
        let missing = format!("spec{}: it is missing", pointer.replace('/', "."));
        assert_eq!(refusal(kind, &specs::without(kind, pointer)), missing);
        assert_eq!(refusal(kind, &specs::with(kind, pointer, Value::Null)), missing);
    }
    for kind in Kind::ALL {
        assert_eq!(refusal(kind, &Value::Null), "spec: it is missing");
        assert_eq!(refusal(kind, &json!([])), "spec: a list is not an object");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name_with_a_reason() {
    let refused = [
        (
            Kind::FaultToleranceRule,
            "/targets/0/targetResourceName",
            json!(""),
            "spec.targets[0].targetResourceName: it is empty",
        ),
        (
            Kind::FaultToleranceRule,
            "/targets/0/targetResourceName",
            json!("ü".repeat(1025)),
            "spec.targets[0].targetResourceName: it is longer than 1024 characters",
        ),
        (Kind::FaultToleranceRule, "/targets", json!("x"), "spec.targets: `x` is not a list"),
        (Kind::FaultToleranceRule, "/targets/0", json!("x"), "spec.targets[0]: `x` is not an object"),
        (Kind::FaultToleranceRule, "/strategies/0/name", json!(""), "spec.strategies[0].name: it is empty"),
        (
            Kind::FaultToleranceRule,
            "/strategies/0/kind",
            json!("TrafficRouter"),
            "spec.strategies[0].kind: `TrafficRouter` is none of RateLimitStrategy, ConcurrencyLimitStrategy, \
             ThrottlingStrategy, CircuitBreakerStrategy",
        ),
        (Kind::FaultToleranceRule, "/action", json!({ "name": "a" }), "spec.action.kind: it is missing"),
        (
            Kind::RateLimitStrategy,
            "/metricType",
            json!("Bytes"),
            "spec.metricType: `Bytes` is none of RequestAmount",
        ),
        (
            Kind::RateLimitStrategy,
            "/limitMode",
            json!("local"),
            "spec.limitMode: `local` is none of Local, Global",
        ),
        (
            Kind::RateLimitStrategy,
            "/threshold",
            json!(-1),
            "spec.threshold: `-1` is not a whole number from 0 to 9223372036854775807",
        ),
        (
            Kind::RateLimitStrategy,
            "/threshold",
            json!(u64::MAX),
            "spec.threshold: `18446744073709551615` is not a whole number from 0 to 9223372036854775807",
        ),
        (
            Kind::RateLimitStrategy,
            "/threshold",
            json!("10"),
            "spec.threshold: `10` is not a whole number from 0 to 9223372036854775807",
        ),
        (
            Kind::RateLimitStrategy,
            "/statDurationSeconds",
            json!(0),
            "spec.statDurationSeconds: `0` is not a whole number from 1 to 2147483647",
        ),
        (
            Kind::RateLimitStrategy,
            "/statDurationSeconds",
            json!(2_147_483_648_u32),
            "spec.statDurationSeconds: `2147483648` is not a whole number from 1 to 2147483647",
        ),
        (
            Kind::ConcurrencyLimitStrategy,
            "/maxConcurrency",
            json!(1.5),
            "spec.maxConcurrency: `1.5` is not a whole number from 0 to 9223372036854775807",
        ),
        (
            Kind::CircuitBreakerStrategy,
            "/minRequestAmount",
            json!(0),
            "spec.minRequestAmount: `0` is not a whole number from 1 to 2147483647",
        ),
        (
            Kind::CircuitBreakerStrategy,
            "/strategy",
            json!("ErrorCount"),
            "spec.strategy: `ErrorCount` is none of SlowRequestRatio, ErrorRequestRatio",
        ),
        (
            Kind::CircuitBreakerStrategy,
            "/triggerRatio",
            json!(0.6),
            "spec.triggerRatio: `0.6` is not text: put it in quotes",
        ),
        (
            Kind::CircuitBreakerStrategy,
            "/triggerRatio",
            json!("101%"),
            "spec.triggerRatio: `101%` is not a ratio: use whole percents, like 60%, or a number from 0 to 1, like 0.6",
        ),
        (
            Kind::CircuitBreakerStrategy,
            "/statDuration",
            json!("5sec"),
            "spec.statDuration: `5sec` is not a duration: use a whole number and one of ms, s, m, min, minute, h, d, \
             like 500ms",
        ),
        (
            Kind::CircuitBreakerStrategy,
            "/slowConditions",
            json!("500ms"),
            "spec.slowConditions: `500ms` is not an object",
        ),
        (
            Kind::ThrottlingStrategy,
            "/queueTimeout",
            json!("0ms"),
            "spec.queueTimeout: it must be longer than nothing",
        ),
    ];
    for (kind, pointer, value, sentence) in refused {
        assert_eq!(refusal(kind, &specs::with(kind, pointer, value)), sentence);
    }
}

#[test]
fn a_field_that_would_be_lost_is_refused_unless_it_says_nothing() {
    for kind in Kind::ALL {
        let sentence = "spec.burst: data planes cannot be told of this field: remove it, or correct its name";
        assert_eq!(refusal(kind, &specs::with(kind, "/burst", json!(false))), sentence);
        for empty in [json!(null), json!([]), json!({})] {
            assert_eq!(said(kind, &specs::with(kind, "/burst", empty)), said(kind, &specs::of(kind)));
        }
    }
}

#[test]
fn a_refusal_is_short_whatever_was_written() {
    let long = "ü".repeat(10_000);
    let kind = Kind::RateLimitStrategy;
    for spec in
        [specs::with(kind, "/limitMode", json!(long)), specs::with(kind, &format!("/{long}"), json!(1))]
    {
        assert!(refusal(kind, &spec).chars().count() <= 604);
    }
}

#[test]
fn whole_numbers_may_be_written_with_a_point() {
    let kind = Kind::ConcurrencyLimitStrategy;
    let spec = specs::with(kind, "/maxConcurrency", json!(8.0));
    assert_eq!(said(kind, &spec), said(kind, &specs::of(kind)));
    assert!(said(kind, &specs::with(kind, "/maxConcurrency", json!(1e300))).is_err());
}

#[test]
fn an_object_brings_its_names_versions_and_labels() {
    let meta = serde_json::from_value(json!({
        "name": "limit", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
        "labels": { "app": "foo", "tier": "web" },
    }));
    let kind = Kind::RateLimitStrategy;
    let object = parse::rule(kind, &meta.expect("metadata"), &specs::of(kind), &Value::Null).expect("a key");
    assert_eq!((object.key.namespace(), object.key.name()), ("shop", "limit"));
    assert_eq!((object.uid.as_str(), object.resource_version.as_str(), object.generation), ("u", "7", 3));
    assert_eq!(object.app(), Some("foo"));
    assert_eq!(object.labels.len(), 2);
    assert!(parse::rule(kind, &Default::default(), &specs::of(kind), &Value::Null).is_none());
}

#[test]
fn an_object_of_any_definition_is_read_and_says_whether_it_has_a_status() {
    let loose = |value: Value| serde_json::from_value::<LooseRule>(value).expect("loose");
    let metadata = json!({ "name": "limit", "namespace": "shop" });
    let odd = loose(json!({ "metadata": metadata, "spec": [1], "status": "fine" }));
    assert_eq!(
        odd.parsed(Kind::RateLimitStrategy).expect("a key").rule.expect_err("odd").to_string(),
        "spec: a list is not an object"
    );
    let bare = loose(json!({ "metadata": metadata }));
    assert_eq!(
        bare.parsed(Kind::RateLimitStrategy).expect("a key").rule.expect_err("bare").to_string(),
        "spec: it is missing"
    );
}

#[test]
fn kinds_are_called_as_everybody_calls_them() {
    for kind in Kind::ALL {
        let resource = resource(kind);
        assert_eq!(format!("{}/{}", resource.api_version, resource.kind), kind.full_name());
        let name = format!("{}.{}", resource.plural, resource.group);
        let crds = causeway_api::rules::crds();
        let crd =
            crds.iter().find(|crd| crd.metadata.name.as_deref() == Some(&name)).expect("its definition");
        assert_eq!((crd.spec.names.kind.as_str(), crd.spec.scope.as_str()), (kind.name(), "Namespaced"));
        let short = crd.spec.names.short_names.clone().unwrap_or_default();
        assert_eq!(short, if kind == Kind::TrafficRouter { vec!["tr"] } else { vec![] });
    }
}
