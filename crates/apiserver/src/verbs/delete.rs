//! Deleting: at once, or as soon as finalizers, grace periods or contents allow.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{definitions, is_dry_run, namespaces};
use crate::builtin;
use crate::cluster::{Cluster, Target};
use crate::meta;
use crate::resource::{Nature, Resource};
use crate::status::{self, ApiError, FieldError, Qualified};
use crate::store::{Key, Object, ShelfName};

/// What a delete may ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) grace: Option<i64>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// From a body. What cannot be understood is refused: a precondition that was overlooked would
    /// delete what its sender meant to keep.
    pub(crate) fn parse(mut body: Value) -> Result<DeleteOptions, ApiError> {
        builtin::conform_to("meta.DeleteOptions", &mut body).map_err(ApiError::bad_request)?;
        if let Some(kind) = body["kind"].as_str().filter(|kind| !["", "DeleteOptions"].contains(kind)) {
            return Err(ApiError::bad_request(format!("a {kind} is no DeleteOptions: nothing was deleted")));
        }
        let dry_run = body["dryRun"].as_array().into_iter().flatten();
        let dry_run: Vec<String> =
            dry_run.map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
        check_propagation(&body["propagationPolicy"])?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(DeleteOptions {
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            grace: body["gracePeriodSeconds"].as_i64(),
            dry_run: is_dry_run(&dry_run, "DeleteOptions")?,
        })
    }

    /// From query parameters; an empty policy is none.
    pub(crate) fn from_query(
        policy: &str,
        grace: Option<i64>,
        dry_run: bool,
    ) -> Result<DeleteOptions, ApiError> {
        if !policy.is_empty() {
            check_propagation(&Value::from(policy))?;
        }
        Ok(DeleteOptions { grace, dry_run, ..DeleteOptions::default() })
    }
}

/// Owners' dependents are not followed, so the policies differ only in name; an unknown one is
/// refused anyway.
fn check_propagation(policy: &Value) -> Result<(), ApiError> {
    let known = ["Background", "Foreground", "Orphan"];
    match policy.as_str() {
        None => Ok(()),
        Some(policy) if known.contains(&policy) => Ok(()),
        Some(_) => {
            let error = FieldError::not_supported("propagationPolicy", policy, &known.map(str::to_owned));
            Err(ApiError::invalid(&Qualified::new("meta.k8s.io", "DeleteOptions"), "", vec![error]))
        }
    }
}

/// What a delete answers with.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object: it is still there, or its kind answers so.
    Object(Arc<Object>),
    /// A `Status`.
    Gone(Value),
}

/// Begins the deletion of an object, and completes it when nothing stands against it.
pub(crate) fn delete(
    cluster: &mut Cluster,
    target: &Target,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let object = cluster.get(target)?.clone();
    check_preconditions(target, &object.value, options)?;
    match &target.resource.nature {
        Nature::Namespace => namespaces::delete(cluster, target).map(Deleted::Object),
        Nature::Definition => Ok(Deleted::Object(definitions::delete(cluster, &target.key, object))),
        _ => Ok(delete_plain(cluster, target, object, options)),
    }
}

fn check_preconditions(target: &Target, object: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    // The sentence names the kind here, where others name the plural.
    let what = target.resource.qualified_kind();
    let refuse = |why: String| Err(ApiError::conflict(&what, &target.key.name, &why));
    let uid = meta::text(object, "uid");
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return refuse(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        ));
    }
    let version = meta::text(object, "resourceVersion");
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        return refuse(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        ));
    }
    Ok(())
}

fn delete_plain(
    cluster: &mut Cluster,
    target: &Target,
    object: Arc<Object>,
    options: &DeleteOptions,
) -> Deleted {
    let resource = &*target.resource;
    let grace = grace_of(resource, &object.value, options);
    if grace == 0 && meta::finalizers(&object.value).is_empty() {
        let uid = meta::text(&object.value, "uid").to_owned();
        let removed = remove(cluster, &resource.shelf, &target.key).unwrap_or(object);
        return if resource.traits.returns_deleted {
            Deleted::Object(removed)
        } else {
            Deleted::Gone(status::deleted(&resource.qualified(), &target.key.name, &uid))
        };
    }
    let pending = object.value["metadata"].get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let already = meta::is_deleting(&object.value);
    if already && pending.is_none_or(|pending| grace >= pending) {
        return Deleted::Object(object);
    }
    let mut value = object.value.clone();
    mark(cluster, &mut value, grace);
    Deleted::Object(cluster.store.put(&resource.shelf, target.key.clone(), value))
}

/// Only pods that were given to a node and still run are left time to end.
fn grace_of(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    let on_a_node = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !matches!(resource.nature, Nature::Pod) || !on_a_node || over {
        return 0;
    }
    let usual = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    // Once begun, a deletion is only ever shortened by saying so.
    let pending = object["metadata"].get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let grace = options.grace.or(pending).or(usual).unwrap_or(30);
    if grace < 0 { 1 } else { grace }
}

/// Notes on the object that its deletion began.
pub(super) fn mark(cluster: &Cluster, object: &mut Value, grace: i64) {
    if !meta::is_deleting(object) && meta::generation(object) > 0 {
        meta::set(object, "generation", Some(json!(meta::generation(object) + 1)));
    }
    let end = cluster.clock.stamp_in(Duration::from_secs(grace.unsigned_abs()));
    meta::set(object, "deletionTimestamp", Some(json!(end)));
    meta::set(object, "deletionGracePeriodSeconds", Some(json!(grace)));
}

/// Whether an object about to be written is only waiting to go.
pub(super) fn is_done(resource: &Resource, object: &Value) -> bool {
    let waits = matches!(resource.nature, Nature::Namespace | Nature::Definition);
    let grace = object["metadata"].get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    !waits && meta::is_deleting(object) && grace == 0 && meta::finalizers(object).is_empty()
}

/// Removes an object whose last state is `value`, which was never stored.
pub(super) fn remove_as(cluster: &mut Cluster, target: &Target, value: Value) -> Arc<Object> {
    let shelf = &target.resource.shelf;
    let removed = cluster.store.remove_as(shelf, &target.key, value);
    after_removal(cluster, shelf, &target.key);
    removed
}

/// The one way out of the store.
pub(super) fn remove(cluster: &mut Cluster, shelf: &ShelfName, key: &Key) -> Option<Arc<Object>> {
    let removed = cluster.store.remove(shelf, key)?;
    after_removal(cluster, shelf, key);
    Some(removed)
}

fn after_removal(cluster: &mut Cluster, shelf: &ShelfName, key: &Key) {
    if !key.namespace.is_empty() {
        namespaces::finish(cluster, &key.namespace);
    }
    definitions::finish_if_empty(cluster, shelf);
}

/// Deletes everything listed, as far as it lets itself be deleted.
pub(super) fn delete_all(cluster: &mut Cluster, doomed: Vec<(ShelfName, Key)>) {
    for (shelf, key) in doomed {
        let Some(resource) = cluster.registry.of_shelf(&shelf).cloned() else { continue };
        let target = Target { resource, key };
        if let Some(object) = cluster.store.get(&shelf, &target.key).cloned() {
            delete_plain(cluster, &target, object, &DeleteOptions::default());
        }
    }
}
