//! The room `dns`: the objects by which VPCs ask for names of other clusters, and those of kube-ovn's that hold the answer.
//!
//! [`forward`] is ours; [`workload`] is what is read of a Deployment; [`parse`] turns objects into the values that decisions
//! rest on, [`record`] and [`patch`] what was decided into what is written.

pub mod forward;
pub mod parse;
pub mod patch;
pub mod record;
pub mod workload;

use causeway_core::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, Resource};

pub use forward::{LooseForward, VpcDnsForward, VpcDnsForwardSpec, VpcDnsForwardStatus};

/// With value `true` on a forward being deleted: let it go although what was written for it cannot be taken away.
pub const ABANDON: &str = "causeway/abandon";
/// On a Deployment: the route that we put there, and beside what.
pub const RECORD: &str = "causeway/vpc-dns-route";
/// The key of a Corefile in its ConfigMap.
pub const COREFILE: &str = "Corefile";
/// The init container that puts routes, up to kube-ovn 1.12.
pub const INIT_ROUTE: &str = "init-route";

/// The definitions of the room's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![VpcDnsForward::crd()]
}

/// What an event about a forward refers to.
pub fn reference(key: &ObjectKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(VpcDnsForward::api_version(&()).into()),
        kind: Some(VpcDnsForward::kind(&()).into()),
        namespace: Some(key.namespace().into()),
        name: Some(key.name().into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    }
}
