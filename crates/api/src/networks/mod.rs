//! The room `networks`: the objects that declare a cloud's networks.
//!
//! [`network`] is the kind as people write it, with the rules that refuse at once what no cloud could make;
//! [`LooseNetwork`] is the same object as any definition lets it be, and [`parse`] turns that into the value that
//! decisions rest on.

pub mod network;
pub mod parse;

use causeway_core::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, Resource};

pub use network::{LooseNetwork, Network, NetworkSpec, NetworkStatus};

/// With value `true` on a network being deleted: let it go and leave in the cloud what it has there.
pub const ABANDON: &str = "causeway/abandon";
/// The id of the cloud's network that a network should take over instead of having one made.
pub const ADOPT: &str = "causeway/adopt";
/// With value `true`: another range may take its subnet from whatever is attached.
pub const ALLOW_REPLACE: &str = "causeway/allow-replace";

/// The definitions of the room's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![Network::crd()]
}

/// What an event about a network refers to.
pub fn reference(key: &ObjectKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(Network::api_version(&()).into()),
        kind: Some(Network::kind(&()).into()),
        namespace: Some(key.namespace().into()),
        name: Some(key.name().into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    }
}
