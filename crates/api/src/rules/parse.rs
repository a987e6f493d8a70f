//! From objects to the values that decisions rest on.

mod router;

use std::sync::Arc;

use causeway_core::rules::rule::{
    BreakerStrategy, CircuitBreaker, ConcurrencyLimit, FaultTolerance, LimitMode, NoSpan, RateLimit,
    Reference, Span, Throttling,
};
use causeway_core::rules::{Kind, Refusal, Rule, RuleObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::field::{Field, Fields};
use super::status;
use super::tolerance::TARGET_NAME_MAX;
use crate::meta::key;

/// A rule of any kind. A spec that makes no sense is carried as the field that does not, and why.
pub fn rule(kind: Kind, meta: &ObjectMeta, spec: &Value, status: &Value) -> Option<RuleObject> {
    Some(RuleObject {
        key: key(meta)?,
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        labels: Arc::new(meta.labels.clone().unwrap_or_default()),
        rule: said(kind, &Field::spec(spec)),
        status: status::read(status),
    })
}

/// What a spec says.
fn said(kind: Kind, spec: &Field<'_>) -> Result<Rule, Refusal> {
    match kind {
        Kind::FaultToleranceRule => fault_tolerance(spec).map(Rule::FaultTolerance),
        Kind::RateLimitStrategy => rate_limit(spec).map(Rule::RateLimit),
        Kind::ThrottlingStrategy => throttling(spec).map(Rule::Throttling),
        Kind::ConcurrencyLimitStrategy => concurrency_limit(spec).map(Rule::ConcurrencyLimit),
        Kind::CircuitBreakerStrategy => circuit_breaker(spec).map(Rule::CircuitBreaker),
        Kind::TrafficRouter => router::router(spec).map(Rule::Router),
    }
}

fn fault_tolerance(spec: &Field<'_>) -> Result<FaultTolerance, Refusal> {
    let spec = spec.fields(&["targets", "strategies", "action"])?;
    Ok(FaultTolerance {
        targets: spec.required("targets")?.list(target)?,
        strategies: spec.required("strategies")?.list(strategy)?,
        action: spec.given("action", reference)?,
    })
}

fn target(item: &Field<'_>) -> Result<String, Refusal> {
    let name = item.fields(&["targetResourceName"])?.required("targetResourceName")?;
    let text = name.some_text()?;
    if text.chars().count() > TARGET_NAME_MAX {
        return Err(name.refuse(format!("it is longer than {TARGET_NAME_MAX} characters")));
    }
    Ok(text.into())
}

fn strategy(item: &Field<'_>) -> Result<Reference, Refusal> {
    const KINDS: [Kind; 4] = [
        Kind::RateLimitStrategy,
        Kind::ConcurrencyLimitStrategy,
        Kind::ThrottlingStrategy,
        Kind::CircuitBreakerStrategy,
    ];
    let strategy = reference(item)?;
    item.fields(&["name", "kind"])?.required("kind")?.one_of(&KINDS.map(|kind| (kind.name(), ())))?;
    Ok(strategy)
}

fn reference(item: &Field<'_>) -> Result<Reference, Refusal> {
    let fields = item.fields(&["name", "kind"])?;
    let text = |name: &str| Ok(fields.required(name)?.some_text()?.to_owned());
    Ok(Reference { name: text("name")?, kind: text("kind")? })
}

fn rate_limit(spec: &Field<'_>) -> Result<RateLimit, Refusal> {
    let spec = spec.fields(&["metricType", "limitMode", "threshold", "statDurationSeconds"])?;
    spec.required("metricType")?.one_of(&[("RequestAmount", ())])?;
    Ok(RateLimit {
        limit_mode: limit_mode(&spec)?,
        threshold: spec.required("threshold")?.integer(0, i64::MAX)?,
        stat_duration_seconds: spec.required("statDurationSeconds")?.integer(1, i32::MAX)?,
    })
}

fn limit_mode(spec: &Fields<'_>) -> Result<LimitMode, Refusal> {
    spec.required("limitMode")?.one_of(&[("Local", LimitMode::Local), ("Global", LimitMode::Global)])
}

fn throttling(spec: &Field<'_>) -> Result<Throttling, Refusal> {
    let spec = spec.fields(&["minIntervalOfRequests", "queueTimeout"])?;
    Ok(Throttling {
        min_interval: span_or_none(&spec.required("minIntervalOfRequests")?)?,
        queue_timeout: span(&spec.required("queueTimeout")?)?,
    })
}

fn concurrency_limit(spec: &Field<'_>) -> Result<ConcurrencyLimit, Refusal> {
    let spec = spec.fields(&["maxConcurrency", "limitMode"])?;
    Ok(ConcurrencyLimit {
        max_concurrency: spec.required("maxConcurrency")?.integer(0, i64::MAX)?,
        limit_mode: limit_mode(&spec)?,
    })
}

fn circuit_breaker(spec: &Field<'_>) -> Result<CircuitBreaker, Refusal> {
    let spec = spec.fields(&[
        "strategy",
        "triggerRatio",
        "statDuration",
        "recoveryTimeout",
        "minRequestAmount",
        "slowConditions",
        "errorConditions",
    ])?;
    // The stock definition demands a text here that no message has a field for.
    let error_conditions = spec.given("errorConditions", |given| given.fields(&["representation"]))?;
    Ok(CircuitBreaker {
        strategy: spec.required("strategy")?.one_of(&[
            ("SlowRequestRatio", BreakerStrategy::SlowRequestRatio),
            ("ErrorRequestRatio", BreakerStrategy::ErrorRequestRatio),
        ])?,
        trigger_ratio: spec.required("triggerRatio")?.parsed()?,
        stat_duration: span(&spec.required("statDuration")?)?,
        recovery_timeout: span(&spec.required("recoveryTimeout")?)?,
        min_request_amount: spec.required("minRequestAmount")?.integer(1, i32::MAX)?,
        max_allowed_rt: spec.given("slowConditions", max_allowed_rt)?,
        error_conditions: error_conditions.is_some(),
    })
}

fn max_allowed_rt(slow_conditions: &Field<'_>) -> Result<Span, Refusal> {
    span(&slow_conditions.fields(&["maxAllowedRt"])?.required("maxAllowedRt")?)
}

fn span(field: &Field<'_>) -> Result<Span, Refusal> {
    let span: Span = field.parsed()?;
    if span.millis() == 0 { Err(field.refuse("it must be longer than nothing")) } else { Ok(span) }
}

/// The stock definition allows zeros in front of this one.
fn span_or_none(field: &Field<'_>) -> Result<Span, Refusal> {
    let is_number = |text: &&str| text.starts_with(|first: char| first.is_ascii_digit());
    let mut text = field.text()?;
    while let Some(shorter) = text.strip_prefix('0').filter(is_number) {
        text = shorter;
    }
    text.parse().map_err(|why: NoSpan| field.refuse(why.to_string()))
}
