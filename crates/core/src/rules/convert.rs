//! From a rule to its message.

use prost::{Message, Name};

use super::rule::{
    BreakerStrategy, CircuitBreaker, ConcurrencyLimit, FaultTolerance, LimitMode, RateLimit, Reference,
    Refusal, Rule, Span, Throttling,
};
use super::wire::Any;
use super::wire::common::v1::TimeUnit;
use super::wire::fault_tolerance::v1::{
    CircuitBreakerStrategy, ConcurrencyLimitStrategy, FaultToleranceRule, RateLimitStrategy,
    ThrottlingStrategy, circuit_breaker_strategy as breaker, concurrency_limit_strategy,
    fault_tolerance_rule as tolerance, rate_limit_strategy,
};
use super::{Kind, router};

/// The message of a rule, by its namespace and name.
pub fn message(namespace: &str, name: &str, rule: &Rule) -> Result<Any, Refusal> {
    let (full_name, value) = match rule {
        Rule::FaultTolerance(rule) => encoded(&fault_tolerance(rule)),
        Rule::RateLimit(rule) => encoded(&rate_limit(name, rule)),
        Rule::Throttling(rule) => encoded(&throttling(name, rule)?),
        Rule::ConcurrencyLimit(rule) => encoded(&concurrency_limit(name, rule)),
        Rule::CircuitBreaker(rule) => encoded(&circuit_breaker(name, rule)?),
        Rule::Router(rule) => encoded(&router::configuration(namespace, name, rule)?),
    };
    Ok(Any { type_url: type_url(&full_name), value })
}

/// The type URL of a kind's messages.
pub fn type_url_of(kind: Kind) -> String {
    use super::wire::envoy::config::route::v3::RouteConfiguration;
    type_url(&match kind {
        Kind::FaultToleranceRule => FaultToleranceRule::full_name(),
        Kind::RateLimitStrategy => RateLimitStrategy::full_name(),
        Kind::ThrottlingStrategy => ThrottlingStrategy::full_name(),
        Kind::ConcurrencyLimitStrategy => ConcurrencyLimitStrategy::full_name(),
        Kind::CircuitBreakerStrategy => CircuitBreakerStrategy::full_name(),
        Kind::TrafficRouter => RouteConfiguration::full_name(),
    })
}

pub(super) fn type_url(full_name: &str) -> String {
    format!("type.googleapis.com/{full_name}")
}

fn encoded<M: Message + Name>(message: &M) -> (String, Vec<u8>) {
    (M::full_name(), message.encode_to_vec())
}

fn fault_tolerance(rule: &FaultTolerance) -> FaultToleranceRule {
    let target =
        |name: &String| tolerance::FaultToleranceRuleTargetRef { target_resource_name: name.clone() };
    let strategy = |Reference { name, kind }: &Reference| tolerance::FaultToleranceStrategyRef {
        name: name.clone(),
        kind: kind.clone(),
    };
    let action = |Reference { name, kind }: &Reference| tolerance::FaultToleranceActionRef {
        name: name.clone(),
        kind: kind.clone(),
    };
    FaultToleranceRule {
        targets: rule.targets.iter().map(target).collect(),
        strategies: rule.strategies.iter().map(strategy).collect(),
        action: rule.action.as_ref().map(action),
    }
}

fn rate_limit(name: &str, rule: &RateLimit) -> RateLimitStrategy {
    use rate_limit_strategy::{LimitMode as Mode, MetricType};
    let mode = match rule.limit_mode {
        LimitMode::Local => Mode::ModeLocal,
        LimitMode::Global => Mode::ModeGlobal,
    };
    RateLimitStrategy {
        name: name.into(),
        metric_type: MetricType::TypeRequestAmount.into(),
        limit_mode: mode.into(),
        threshold: rule.threshold,
        stat_duration: rule.stat_duration_seconds,
        stat_duration_time_unit: TimeUnit::Second.into(),
    }
}

fn throttling(name: &str, rule: &Throttling) -> Result<ThrottlingStrategy, Refusal> {
    Ok(ThrottlingStrategy {
        name: name.into(),
        min_interval_millis_of_requests: millis("spec.minIntervalOfRequests", rule.min_interval)?,
        queue_timeout_millis: millis("spec.queueTimeout", rule.queue_timeout)?,
    })
}

fn concurrency_limit(name: &str, rule: &ConcurrencyLimit) -> ConcurrencyLimitStrategy {
    use concurrency_limit_strategy::LimitMode as Mode;
    let mode = match rule.limit_mode {
        LimitMode::Local => Mode::ModeLocal,
        LimitMode::Global => Mode::ModeGlobal,
    };
    ConcurrencyLimitStrategy {
        name: name.into(),
        limit_mode: mode.into(),
        max_concurrency: rule.max_concurrency,
    }
}

fn circuit_breaker(name: &str, rule: &CircuitBreaker) -> Result<CircuitBreakerStrategy, Refusal> {
    let strategy = match rule.strategy {
        BreakerStrategy::SlowRequestRatio => breaker::Strategy::SlowRequestRatio,
        BreakerStrategy::ErrorRequestRatio => breaker::Strategy::ErrorRequestRatio,
    };
    let (stat_duration, stat_unit) = with_unit("spec.statDuration", rule.stat_duration)?;
    let (recovery_timeout, recovery_unit) = with_unit("spec.recoveryTimeout", rule.recovery_timeout)?;
    let slow = |span: Span| {
        let max_allowed_rt_millis = millis("spec.slowConditions.maxAllowedRt", span)?;
        Ok(breaker::CircuitBreakerSlowCondition { max_allowed_rt_millis })
    };
    Ok(CircuitBreakerStrategy {
        name: name.into(),
        strategy: strategy.into(),
        trigger_ratio: rule.trigger_ratio.get(),
        stat_duration: stat_duration.into(),
        stat_duration_time_unit: stat_unit.into(),
        recovery_timeout,
        recovery_timeout_time_unit: recovery_unit.into(),
        min_request_amount: rule.min_request_amount,
        slow_condition: rule.max_allowed_rt.map(slow).transpose()?,
        error_condition: rule.error_conditions.then_some(breaker::CircuitBreakerErrorCondition {}),
    })
}

/// As many milliseconds as a field can hold.
fn millis<N: TryFrom<u64>>(field: &str, span: Span) -> Result<N, Refusal> {
    N::try_from(span.millis()).map_err(|_| too_long(field, span))
}

/// A number and the smallest unit in which it fits. Without a unit data planes ignore the whole rule.
fn with_unit(field: &str, span: Span) -> Result<(i32, TimeUnit), Refusal> {
    let units = [
        (TimeUnit::Millisecond, 1),
        (TimeUnit::Second, 1000),
        (TimeUnit::Minute, 60_000),
        (TimeUnit::Hour, 3_600_000),
        (TimeUnit::Day, 86_400_000),
    ];
    let whole = units.into_iter().filter(|(_, millis)| span.millis().is_multiple_of(*millis));
    let mut fitting =
        whole.filter_map(|(unit, millis)| Some((i32::try_from(span.millis() / millis).ok()?, unit)));
    fitting.next().ok_or_else(|| too_long(field, span))
}

fn too_long(field: &str, span: Span) -> Refusal {
    Refusal::new(field, format!("{span} is more than a data plane can be told"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Span {
        text.parse().expect("a duration")
    }

    #[test]
    fn a_duration_has_the_smallest_unit_that_fits() {
        let unit = |text: &str| with_unit("f", span(text)).map_err(|refusal| refusal.to_string());
        assert_eq!(unit("500ms"), Ok((500, TimeUnit::Millisecond)));
        assert_eq!(unit("1d"), Ok((86_400_000, TimeUnit::Millisecond)));
        assert_eq!(unit("2147483647ms"), Ok((i32::MAX, TimeUnit::Millisecond)));
        assert_eq!(unit("30d"), Ok((2_592_000, TimeUnit::Second)));
        assert_eq!(unit("30000d"), Ok((43_200_000, TimeUnit::Minute)));
        assert_eq!(
            unit("2147483649ms"),
            Err("f: 2147483649ms is more than a data plane can be told".into()),
            "half of it would be another rule"
        );
    }

    #[test]
    fn a_refusal_names_the_field() {
        let rule = Rule::CircuitBreaker(CircuitBreaker {
            strategy: BreakerStrategy::SlowRequestRatio,
            trigger_ratio: "60%".parse().expect("a ratio"),
            stat_duration: span("30s"),
            recovery_timeout: span("5s"),
            min_request_amount: 5,
            max_allowed_rt: Some(span("30d")),
            error_conditions: false,
        });
        let refusal = message("default", "slow", &rule).expect_err("it cannot be carried");
        assert_eq!(refusal.field, "spec.slowConditions.maxAllowedRt");
    }
}
