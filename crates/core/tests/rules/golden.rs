//! The bytes of each fault-tolerance kind, by the protocol's table of fields.

use causeway_core::rules::Rule;
use causeway_core::rules::convert::{message as convert, type_url_of};
use causeway_core::rules::rule::{
    BreakerStrategy, CircuitBreaker, FaultTolerance, LimitMode, RateLimit, Reference,
};
use causeway_core::rules::{Kind, state::State};

use crate::protobuf::{any, double, inner, message, number, text};
use crate::world::{
    after, breaker, concurrency_limit, list, object, rate_limit, rate_limit_bytes, set, span, throttling,
};

/// The protocol's values of `TimeUnit`.
const MILLISECOND: i64 = 1;
const SECOND: i64 = 2;
const MINUTE: i64 = 3;
const HOUR: i64 = 4;
const DAY: i64 = 5;

fn converted(name: &str, rule: &Rule) -> Vec<u8> {
    let any = convert("default", name, rule).expect("it can be carried");
    assert_eq!(any.type_url, type_url_of(rule.kind()), "as its kind's");
    any.value
}

#[test]
fn types_are_called_as_the_protocol_calls_them() {
    let tolerance = "type.googleapis.com/io.opensergo.proto.fault_tolerance.v1";
    for kind in Kind::ALL {
        let url = match kind {
            Kind::TrafficRouter => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration".into(),
            other => format!("{tolerance}.{other}"),
        };
        assert_eq!(type_url_of(kind), url);
    }
}

#[test]
fn kinds_are_known_by_group_version_and_kind() {
    let tolerance = [
        "FaultToleranceRule",
        "RateLimitStrategy",
        "ThrottlingStrategy",
        "ConcurrencyLimitStrategy",
        "CircuitBreakerStrategy",
    ];
    let tolerance = tolerance.map(|name| format!("fault-tolerance.opensergo.io/v1alpha1/{name}"));
    let names = tolerance.into_iter().chain(["traffic.opensergo.io/v1alpha1/TrafficRouter".into()]);
    for (name, kind) in names.zip(Kind::ALL) {
        assert_eq!(name.parse(), Ok(kind));
        assert!(kind.name().parse::<Kind>().is_err(), "the kind alone is not its name: {kind}");
    }
    let plurals = "faulttolerancerules ratelimitstrategies throttlingstrategies concurrencylimitstrategies \
                   circuitbreakerstrategies trafficrouters";
    assert_eq!(Kind::ALL.map(Kind::plural).join(" "), plurals);
}

#[test]
fn a_rate_limit() {
    let rule = Rule::RateLimit(RateLimit {
        limit_mode: LimitMode::Global,
        threshold: 1000,
        stat_duration_seconds: 30,
    });
    let fields =
        [text(1, "limit"), number(2, 1), number(3, 2), number(4, 1000), number(5, 30), number(6, SECOND)];
    assert_eq!(converted("limit", &rule), message(fields));
    let literal = b"\x0a\x05limit\x10\x01\x18\x02\x20\xe8\x07\x28\x1e\x30\x02";
    assert_eq!(converted("limit", &rule), literal, "in bytes");
}

#[test]
fn a_rate_limit_of_nothing_leaves_the_zero_out() {
    let fields = [text(1, "limit"), number(2, 1), number(3, 1), number(5, 1), number(6, SECOND)];
    assert_eq!(converted("limit", &rate_limit(0)), message(fields));
}

#[test]
fn a_rate_limit_may_be_as_large_as_a_number() {
    let fields =
        [text(1, "limit"), number(2, 1), number(3, 1), number(4, i64::MAX), number(5, 1), number(6, SECOND)];
    assert_eq!(converted("limit", &rate_limit(i64::MAX)), message(fields));
}

#[test]
fn throttling_is_told_in_milliseconds() {
    let fields = message([text(1, "even"), number(2, 20), number(3, 5_000)]);
    assert_eq!(converted("even", &throttling("20ms", "5s")), fields);
    assert_eq!(converted("even", &throttling("0s", "1d")), message([text(1, "even"), number(3, 86_400_000)]));
}

#[test]
fn a_limit_of_concurrency() {
    let local = concurrency_limit(8, LimitMode::Local);
    assert_eq!(converted("few", &local), message([text(1, "few"), number(2, 1), number(3, 8)]));
    let global = concurrency_limit(0, LimitMode::Global);
    assert_eq!(converted("none", &global), message([text(1, "none"), number(2, 2)]));
}

#[test]
fn a_circuit_breaker_for_slow_requests() {
    let rule = Rule::CircuitBreaker(CircuitBreaker { max_allowed_rt: Some(span("500ms")), ..breaker() });
    let fields = [
        text(1, "slow"),
        number(2, 1),
        double(3, 0.6),
        number(4, 30_000),
        number(5, MILLISECOND),
        number(6, 5_000),
        number(7, MILLISECOND),
        number(8, 5),
        inner(9, [number(1, 500)]),
    ];
    assert_eq!(converted("slow", &rule), message(fields));
}

#[test]
fn a_circuit_breaker_for_errors() {
    let rule = Rule::CircuitBreaker(CircuitBreaker {
        strategy: BreakerStrategy::ErrorRequestRatio,
        trigger_ratio: "0.07".parse().expect("a ratio"),
        error_conditions: true,
        ..breaker()
    });
    let fields = [
        text(1, "errors"),
        number(2, 2),
        double(3, 0.07),
        number(4, 30_000),
        number(5, MILLISECOND),
        number(6, 5_000),
        number(7, MILLISECOND),
        number(8, 5),
        inner(10, []),
    ];
    assert_eq!(converted("errors", &rule), message(fields));
}

#[test]
fn a_circuit_breaker_has_no_conditions_that_were_not_given_and_no_zeros() {
    let rule =
        Rule::CircuitBreaker(CircuitBreaker { trigger_ratio: "0%".parse().expect("a ratio"), ..breaker() });
    let fields = [
        text(1, "bare"),
        number(2, 1),
        number(4, 30_000),
        number(5, MILLISECOND),
        number(6, 5_000),
        number(7, MILLISECOND),
        number(8, 5),
    ];
    assert_eq!(converted("bare", &rule), message(fields));
}

#[test]
fn long_times_have_the_smallest_unit_that_fits() {
    let units = [
        ("24d", (2_073_600_000, MILLISECOND)),
        ("25d", (2_160_000, SECOND)),
        ("30000d", (43_200_000, MINUTE)),
        ("2000000d", (48_000_000, HOUR)),
        ("2147483647d", (2_147_483_647, DAY)),
    ];
    for (long, (amount, unit)) in units {
        let rule = CircuitBreaker { stat_duration: span(long), recovery_timeout: span(long), ..breaker() };
        let fields = [
            text(1, "long"),
            number(2, 1),
            double(3, 0.6),
            number(4, amount),
            number(5, unit),
            number(6, amount),
            number(7, unit),
            number(8, 5),
        ];
        assert_eq!(converted("long", &Rule::CircuitBreaker(rule)), message(fields), "{long}");
    }
}

#[test]
fn a_fault_tolerance_rule() {
    let reference = |name: &str, kind: &str| Reference { name: name.into(), kind: kind.into() };
    let mut rule = FaultTolerance {
        targets: vec!["GET:/a".into(), "b".into()],
        strategies: vec![
            reference("limit", "RateLimitStrategy"),
            reference("slow", "CircuitBreakerStrategy"),
        ],
        action: None,
    };
    let targets = message([inner(1, [text(1, "GET:/a")]), inner(1, [text(1, "b")])]);
    let strategies = message([
        inner(2, [text(1, "limit"), text(2, "RateLimitStrategy")]),
        inner(2, [text(1, "slow"), text(2, "CircuitBreakerStrategy")]),
    ]);
    let without = [targets, strategies].concat();
    assert_eq!(converted("guard", &Rule::FaultTolerance(rule.clone())), without);
    rule.action = Some(reference("page", "FallbackAction"));
    let action = inner(3, [text(1, "page"), text(2, "FallbackAction")]);
    assert_eq!(converted("guard", &Rule::FaultTolerance(rule)), [without, action].concat());
}

#[test]
fn a_set_is_its_rules_as_entries_of_data() {
    let state: State = after([list([object("b", "a", rate_limit(2)), object("a", "a", rate_limit(1))], 7)]);
    assert_eq!(set(&state, "a").data, [rate_limit_bytes("a", 1), rate_limit_bytes("b", 2)].concat());
    let tolerance = "io.opensergo.proto.fault_tolerance.v1.RateLimitStrategy";
    let value = converted("a", &rate_limit(1));
    assert_eq!(rate_limit_bytes("a", 1), any(1, tolerance, &value));
}
