//! Writes to an API server: under our name, only while we may, and only over the version that the decision was
//! made on.

use causeway_api::FIELD_MANAGER;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::election::Term;
use crate::queue::Next;
use crate::words::describe;

/// Patches an object's status, guarded by the version given; returns the object as written.
pub async fn status<K>(term: &Term, api: &Api<K>, name: &str, version: &str, status: Value) -> Result<K, Next>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    status_if_any(term, api, name, Some(version), status).await?.ok_or(Next::Done)
}

/// The same where there may be no status to patch: nothing if the object has gone, or its definition knows none.
pub async fn status_if_any<K>(
    term: &Term,
    api: &Api<K>,
    name: &str,
    version: Option<&str>,
    status: Value,
) -> Result<Option<K>, Next>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut patch = json!({ "status": status });
    if let Some(version) = version {
        patch["metadata"] = json!({ "resourceVersion": version });
    }
    let (params, patch) = (patching(), Patch::Merge(&patch));
    let request = async {
        match api.patch_status(name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            written => written.map(Some),
        }
    };
    guarded(term, "status", request).await
}

/// Patches an object's finalizers, guarded by the version given; returns the object as written.
pub async fn finalizers<K>(
    term: &Term,
    api: &Api<K>,
    name: &str,
    version: &str,
    finalizers: &[&str],
) -> Result<K, Next>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let patch = json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
    guarded(term, "finalizers", api.patch(name, &patching(), &Patch::Merge(&patch))).await
}

/// A patch under our name.
pub fn patching() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}

/// A create or an update under our name.
pub fn posting() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() }
}

/// A deletion of just the version given.
pub fn deleting(version: &str) -> DeleteParams {
    let preconditions = Preconditions { resource_version: Some(version.into()), uid: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// Sends a write of an object that exists, while the term is held. On `Err` it says what should become of the key:
/// a conflict means that a newer version is on its way here, and an object that is gone needs nothing more.
pub async fn guarded<T>(
    term: &Term,
    what: &'static str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Next> {
    send(term, what, Next::Done, request).await
}

/// Creates an object, while the term is held. Here 404 means that its namespace or its definition is missing,
/// which may change.
pub async fn created<T>(
    term: &Term,
    what: &'static str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Next> {
    send(term, what, Next::Retry, request).await
}

async fn send<T>(
    term: &Term,
    what: &'static str,
    when_missing: Next,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Next> {
    if !term.is_held() {
        // Whoever leads now decides anew.
        return Err(Next::Done);
    }
    match request.await {
        Ok(written) => Ok(written),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            tracing::debug!(what, "written by somebody else meanwhile");
            Err(Next::Retry)
        }
        Err(kube::Error::Api(status)) if status.code == 404 && when_missing == Next::Done => Err(Next::Done),
        Err(error) => {
            tracing::warn!(what, error = describe(&error), "could not be written");
            Err(Next::Retry)
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    async fn answer(code: u16) -> kube::Result<()> {
        Err(kube::Error::Api(Box::new(Status::failure("", "").with_code(code))))
    }

    #[tokio::test]
    async fn what_is_gone_needs_no_write_but_what_cannot_be_created_is_tried_again() {
        let term = Term::unelected();
        assert_eq!(guarded(&term, "record", answer(404)).await, Err(Next::Done));
        assert_eq!(created(&term, "record", answer(404)).await, Err(Next::Retry), "its namespace may come");
        for code in [403, 409, 500] {
            assert_eq!(guarded(&term, "record", answer(code)).await, Err(Next::Retry), "{code}");
            assert_eq!(created(&term, "record", answer(code)).await, Err(Next::Retry), "{code}");
        }
    }

    #[tokio::test]
    async fn nothing_is_sent_once_the_term_is_over() {
        let term = Term::unelected();
        term.over().cancel();
        let never = async { panic!("it was sent") };
        assert_eq!(guarded::<()>(&term, "record", never).await, Err(Next::Done));
    }
}
