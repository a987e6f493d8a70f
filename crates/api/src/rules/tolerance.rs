//! `FaultToleranceRule`: which strategies guard which resources.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Status;

/// The longest name of a resource, in characters.
pub const TARGET_NAME_MAX: usize = 1024;

/// Guards resources of an app with strategies, which are objects of their own in the same namespace.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "fault-tolerance.opensergo.io",
    version = "v1alpha1",
    kind = "FaultToleranceRule",
    plural = "faulttolerancerules",
    singular = "faulttolerancerule",
    category = "causeway",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "Which strategies guard which resources of the app that the label `app` names"
)]
#[serde(rename_all = "camelCase")]
pub struct FaultToleranceRuleSpec {
    /// The resources.
    pub targets: Vec<Target>,
    /// The strategies that guard each of them.
    pub strategies: Vec<StrategyReference>,
    /// What is done when a strategy refuses a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ActionReference>,
}

/// A resource of the app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// What the app calls it, like GET:/foo.
    #[schemars(length(min = 1, max = TARGET_NAME_MAX))]
    pub target_resource_name: String,
}

/// A strategy in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrategyReference {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its kind.
    pub kind: StrategyKind,
}

/// The kinds of strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(clippy::enum_variant_names, reason = "they are the names of the kinds")]
pub enum StrategyKind {
    /// So many requests in so much time.
    RateLimitStrategy,
    /// So many requests at once.
    ConcurrencyLimitStrategy,
    /// Requests at even intervals.
    ThrottlingStrategy,
    /// No requests for a while after too many slow or failed ones.
    CircuitBreakerStrategy,
}

/// What is done instead of a refused request, by name and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionReference {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its kind.
    #[schemars(length(min = 1))]
    pub kind: String,
}
