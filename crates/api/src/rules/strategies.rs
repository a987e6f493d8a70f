//! The four strategies that a `FaultToleranceRule` refers to.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Status;

/// A length of time that is more than none.
const DURATION: &str = "^[1-9][0-9]*(s|ms|m|min|minute|h|d)$";
/// A length of time, none included. The stock definition allows zeros in front here, and only here.
const DURATION_OR_NONE: &str = "^[0-9]+(s|ms|m|min|minute|h|d)$";
/// Whole percents; or, beyond the stock definition, a number from 0 to 1.
const RATIO: &str = r"^((0|[1-9][0-9]?|100)%|0(\.[0-9]+)?|1(\.0+)?)$";

/// Whether a limit is for one process or for all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LimitMode {
    /// Each process counts for itself.
    Local,
    /// All count together.
    Global,
}

/// What a rate limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricType {
    /// Requests.
    RequestAmount,
}

/// Lets so many requests through in so much time.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "RateLimitStrategy",
    plural = "ratelimitstrategies",
    singular = "ratelimitstrategy",
    category = "causeway",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "So many requests in so much time"
)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitStrategySpec {
    /// What is counted.
    pub metric_type: MetricType,
    /// Who counts.
    pub limit_mode: LimitMode,
    /// How many.
    #[schemars(range(min = 0))]
    pub threshold: i64,
    /// In how many seconds.
    #[schemars(range(min = 1))]
    pub stat_duration_seconds: i32,
}

/// Lets requests through at even intervals; those that come too early wait.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "ThrottlingStrategy",
    plural = "throttlingstrategies",
    singular = "throttlingstrategy",
    category = "causeway",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "Requests at even intervals"
)]
#[serde(rename_all = "camelCase")]
pub struct ThrottlingStrategySpec {
    /// The least time between two requests, like 20ms.
    #[schemars(regex(pattern = DURATION_OR_NONE))]
    pub min_interval_of_requests: String,
    /// The longest that a request waits, like 500ms.
    #[schemars(regex(pattern = DURATION))]
    pub queue_timeout: String,
}

/// Lets so many requests be under way at once.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "ConcurrencyLimitStrategy",
    plural = "concurrencylimitstrategies",
    singular = "concurrencylimitstrategy",
    category = "causeway",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "So many requests at once"
)]
#[serde(rename_all = "camelCase")]
pub struct ConcurrencyLimitStrategySpec {
    /// How many.
    #[schemars(range(min = 0))]
    pub max_concurrency: i64,
    /// Who counts.
    pub limit_mode: LimitMode,
}

/// What makes a circuit breaker open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BreakerStrategy {
    /// The share of slow requests.
    SlowRequestRatio,
    /// The share of failed requests.
    ErrorRequestRatio,
}

/// Lets no requests through for a while after too many slow or failed ones.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "CircuitBreakerStrategy",
    plural = "circuitbreakerstrategies",
    singular = "circuitbreakerstrategy",
    category = "causeway",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "No requests for a while after too many slow or failed ones"
)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreakerStrategySpec {
    /// What is counted.
    pub strategy: BreakerStrategy,
    /// The share that is too much, like 60%.
    #[schemars(regex(pattern = RATIO))]
    pub trigger_ratio: String,
    /// Over how long it is taken, like 30s.
    #[schemars(regex(pattern = DURATION))]
    pub stat_duration: String,
    /// How long the breaker stays open, like 5s.
    #[schemars(regex(pattern = DURATION))]
    pub recovery_timeout: String,
    /// The fewest requests to judge by.
    #[schemars(range(min = 1))]
    pub min_request_amount: i32,
    /// Which requests are slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_conditions: Option<SlowConditions>,
    /// Which requests count as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_conditions: Option<ErrorConditions>,
}

/// Which requests are slow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlowConditions {
    /// Those that take longer than this, like 500ms.
    #[schemars(regex(pattern = DURATION))]
    pub max_allowed_rt: String,
}

/// Which requests count as failed: data planes know by themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorConditions {
    /// Ignored: the stock definition demands it, but data planes have no field for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representation: Option<String>,
}
