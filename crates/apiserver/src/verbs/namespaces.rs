//! The end of a namespace: everything in it is deleted, and when the last object is gone, so is
//! the namespace.

use std::sync::Arc;

use serde_json::json;

use super::delete::{delete_all, mark};
use crate::cluster::{Cluster, Target, namespaces};
use crate::meta;
use crate::status::ApiError;
use crate::store::{Key, Object};

/// Namespaces a cluster cannot be without.
const PERMANENT: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Begins the end; answers with the namespace as it was then.
pub(super) fn delete(cluster: &mut Cluster, target: &Target) -> Result<Arc<Object>, ApiError> {
    let name = target.key.name.as_str();
    if PERMANENT.contains(&name) {
        let what = target.resource.qualified();
        return Err(ApiError::forbidden(&what, name, "this namespace may not be deleted"));
    }
    let object = cluster.get(target)?.clone();
    if meta::is_deleting(&object.value) {
        return Ok(object);
    }
    let mut value = object.value.clone();
    mark(cluster, &mut value, 0);
    meta::set(&mut value, "deletionGracePeriodSeconds", None);
    value["status"]["phase"] = json!("Terminating");
    let answer = cluster.store.put(&namespaces(), target.key.clone(), value);
    let doomed = cluster.store.inside(name);
    delete_all(cluster, doomed);
    finish(cluster, name);
    Ok(answer)
}

/// Removes a namespace that is being deleted and has nothing left to wait for.
pub(super) fn finish(cluster: &mut Cluster, name: &str) {
    let Some(namespace) = cluster.namespace(name) else { return };
    let waiting = !meta::finalizers(&namespace.value).is_empty();
    if meta::is_deleting(&namespace.value) && !waiting && !cluster.store.has_any_inside(name) {
        cluster.store.remove(&namespaces(), &Key::new("", name));
    }
}
