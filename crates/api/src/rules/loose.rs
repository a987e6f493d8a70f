//! Rules as any definition lets them be.

use std::borrow::Cow;

use causeway_core::rules::{Kind, RuleObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parse;

/// The API of a kind.
pub fn resource(kind: Kind) -> ApiResource {
    let gvk = GroupVersionKind::gvk(part(kind, 0), part(kind, 1), kind.name());
    ApiResource::from_gvk_with_plural(&gvk, kind.plural())
}

/// Group or version.
fn part(kind: Kind, index: usize) -> &'static str {
    kind.full_name().split('/').nth(index).unwrap_or_default()
}

/// A rule of any kind whose spec and status are taken as they are: the stock or an older definition lets them be
/// anything, and what cannot be decoded must still be reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LooseRule {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What should be the kind's spec.
    #[serde(default)]
    pub spec: Value,
    /// What should be a [`Status`](super::Status).
    #[serde(default)]
    pub status: Value,
}

impl LooseRule {
    /// The value that decisions rest on; nothing for an object whose name is none.
    pub fn parsed(&self, kind: Kind) -> Option<RuleObject> {
        parse::rule(kind, &self.metadata, &self.spec, &self.status)
    }
}

/// Which kind it is, is known to the API that it comes from.
impl Resource for LooseRule {
    type DynamicType = Kind;
    type Scope = DynamicResourceScope;

    fn group(kind: &Kind) -> Cow<'_, str> {
        part(*kind, 0).into()
    }

    fn version(kind: &Kind) -> Cow<'_, str> {
        part(*kind, 1).into()
    }

    fn kind(kind: &Kind) -> Cow<'_, str> {
        kind.name().into()
    }

    fn plural(kind: &Kind) -> Cow<'_, str> {
        kind.plural().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
