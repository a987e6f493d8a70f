//! Rules as any definition lets them be.

use std::borrow::Cow;
use std::marker::PhantomData;

use causeway_core::rules::{Kind, RuleObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, GroupVersionKind, NamespaceResourceScope};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    CircuitBreakerStrategy, ConcurrencyLimitStrategy, FaultToleranceRule, RateLimitStrategy,
    ThrottlingStrategy, TrafficRouter, parse,
};

/// A kind of rule as a type.
pub trait RuleKind: Resource<DynamicType = (), Scope = NamespaceResourceScope> {
    /// The same as a value.
    const KIND: Kind;
}

impl RuleKind for FaultToleranceRule {
    const KIND: Kind = Kind::FaultToleranceRule;
}

impl RuleKind for RateLimitStrategy {
    const KIND: Kind = Kind::RateLimitStrategy;
}

impl RuleKind for ThrottlingStrategy {
    const KIND: Kind = Kind::ThrottlingStrategy;
}

impl RuleKind for ConcurrencyLimitStrategy {
    const KIND: Kind = Kind::ConcurrencyLimitStrategy;
}

impl RuleKind for CircuitBreakerStrategy {
    const KIND: Kind = Kind::CircuitBreakerStrategy;
}

impl RuleKind for TrafficRouter {
    const KIND: Kind = Kind::TrafficRouter;
}

/// The API of a kind that is known only as a value.
pub fn resource(kind: Kind) -> ApiResource {
    let mut parts = kind.full_name().split('/');
    let mut part = || parts.next().unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(part(), part(), part()), kind.plural())
}

/// A rule of the kind `K` whose spec and status are taken as they are: the stock or an older definition lets them be
/// anything, and what cannot be decoded must still be reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct LooseRule<K> {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What should be the kind's spec.
    #[serde(default)]
    pub spec: Value,
    /// What should be a [`Status`](super::Status).
    #[serde(default)]
    pub status: Value,
    /// Says which kind it is.
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K: RuleKind> LooseRule<K> {
    /// The value that decisions rest on; nothing for an object whose name is none.
    pub fn parsed(&self) -> Option<RuleObject> {
        parse::rule(K::KIND, &self.metadata, &self.spec, &self.status)
    }
}

impl<K: RuleKind> Resource for LooseRule<K> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn group(of: &()) -> Cow<'_, str> {
        K::group(of)
    }

    fn kind(of: &()) -> Cow<'_, str> {
        K::kind(of)
    }

    fn version(of: &()) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &()) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
