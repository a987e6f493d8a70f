//! The one status writer: conditions and fields go out as a merge patch that holds only for the version
//! of the object that the decision was made on.

use causeway_api::FIELD_MANAGER;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::queue::Next;

/// Patches an object's status, guarded by the version given.
pub async fn write<K>(api: &Api<K>, name: &str, version: &str, status: Value) -> Next
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
    let written = api.patch_status(name, &patching(), &Patch::Merge(&patch)).await;
    settle(written.map(drop), "status")
}

/// A patch under our name.
pub fn patching() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}

/// A create or an update under our name.
pub fn posting() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() }
}

/// What to do after a guarded write. A conflict means that a newer version is on its way here: its event
/// brings the key back, and so does the retry. What is gone needs nothing.
pub fn settle(written: kube::Result<()>, what: &'static str) -> Next {
    match written {
        Ok(()) => Next::Done,
        Err(kube::Error::Api(status)) if status.code == 404 => Next::Done,
        Err(kube::Error::Api(status)) if status.code == 409 => {
            tracing::debug!(what, "written by somebody else meanwhile");
            Next::Retry
        }
        Err(error) => {
            tracing::warn!(what, %error, "could not be written");
            Next::Retry
        }
    }
}
