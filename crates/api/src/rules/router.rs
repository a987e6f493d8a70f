//! `TrafficRouter`: which requests go where, in the shape of Istio's `VirtualService`.
//!
//! The schema has the fields that data planes can be told, and keeps all others: dropped by the API server, nobody
//! would learn that they have no effect.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Status;

/// Sends requests to one service or another, by their path, headers and query parameters.
///
/// Any other field of a VirtualService is accepted, but a rule that has one is not sent to data planes: its
/// condition names the field.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "traffic.opensergo.io",
    version = "v1alpha1",
    kind = "TrafficRouter",
    plural = "trafficrouters",
    singular = "trafficrouter",
    shortname = "tr",
    category = "causeway",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "Which requests go where"
)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct TrafficRouterSpec {
    /// The services whose requests these are: a name in this namespace, or one with dots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// The routes; the first that matches a request counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Vec<HttpRoute>>,
}

/// Some requests and where they go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct HttpRoute {
    /// For people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which requests: those that any of these matches; all if there is none.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<RequestMatch>>,
    /// Where they go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Vec<RouteDestination>>,
}

/// Which requests: those for which all of this holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct RequestMatch {
    /// For people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<StringMatch>,
    /// Headers, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, StringMatch>>,
    /// Query parameters, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_params: Option<BTreeMap<String, StringMatch>>,
}

/// Which texts: exactly one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct StringMatch {
    /// This one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// Those that begin so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Those that an expression matches, in RE2's syntax.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

/// A destination and its share of the requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct RouteDestination {
    /// Where they go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Destination>,
    /// Its share, in proportion to the others'; each of several destinations needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// A service, or a named part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Destination {
    /// The service: a name in this namespace, or one with dots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A named part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    /// Where requests go when nobody is there; only where there is one destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
}

/// A service, or a named part of it, for when nobody is at another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Fallback {
    /// The service: a name in this namespace, or one with dots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A named part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
}
