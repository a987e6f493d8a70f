//! Creating an object.

use serde_json::{Value, json};

use super::shape::{Origin, judge, shape};
use super::{WriteOptions, Written, definitions, expiry};
use crate::builtin;
use crate::cluster::{Cluster, Target};
use crate::decode::Body;
use crate::meta;
use crate::resource::{Nature, Resource};
use crate::status::{ApiError, Cause};
use crate::store::Key;

/// Stores a new object under `target`, whose name is the body's own when empty.
pub(crate) fn create(
    cluster: &mut Cluster,
    target: &Target,
    body: Body,
    options: WriteOptions,
) -> Result<Written, ApiError> {
    let resource = &*target.resource;
    let mut warnings = Vec::new();
    if resource.custom().is_some_and(|custom| custom.terminating) {
        let mut error = ApiError::method_not_allowed(&resource.qualified(), "create");
        error.message = "create not allowed while custom resource definition is terminating".into();
        return Err(error);
    }
    let mut object = shape(resource, body, None, options, Origin::Sent, &mut warnings)?;
    place(resource, &mut object, &target.key.namespace)?;
    if !meta::text(&object, "resourceVersion").is_empty() {
        return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    if meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty() {
        let name = free_name(cluster, target, meta::text(&object, "generateName"));
        meta::set(&mut object, "name", Some(json!(name)));
    }
    let target = Target::new(&target.resource, &target.key.namespace, meta::name(&object));
    check_namespace(cluster, &target)?;
    begin(cluster, resource, &mut object);
    judge(resource, &object, None)?;
    if cluster.store.get(&resource.shelf, &target.key).is_some() {
        return Err(ApiError::already_exists(&resource.qualified(), &target.key.name));
    }
    let stored = cluster.store.put(&resource.shelf, target.key.clone(), object);
    match &resource.nature {
        Nature::Definition => definitions::settle(cluster, &target.key),
        Nature::Event => expiry::note(cluster, &target, stored.version),
        _ => {}
    }
    Ok(Written { object: stored, created: true, warnings })
}

/// A generated name. One that is taken is not the sender's fault, so others are tried first.
fn free_name(cluster: &mut Cluster, target: &Target, base: &str) -> String {
    let mut name = cluster.ids.name(base);
    for _ in 0..7 {
        let key = Key::new(&target.key.namespace, &name);
        if cluster.store.get(&target.resource.shelf, &key).is_none() {
            break;
        }
        name = cluster.ids.name(base);
    }
    name
}

/// The namespace comes from the request; a different one in the body is a mistake.
pub(super) fn place(resource: &Resource, object: &mut Value, namespace: &str) -> Result<(), ApiError> {
    let sent = meta::text(object, "namespace");
    if !sent.is_empty() && sent != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    meta::set(object, "namespace", resource.namespaced.then(|| json!(namespace)));
    Ok(())
}

fn check_namespace(cluster: &Cluster, target: &Target) -> Result<(), ApiError> {
    if !target.resource.namespaced {
        return Ok(());
    }
    let name = &target.key.namespace;
    let Some(namespace) = cluster.namespace(name) else {
        return Err(ApiError::not_found(&crate::status::Qualified::new("", "namespaces"), name));
    };
    if !meta::is_deleting(&namespace.value) {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = ApiError::forbidden(&target.resource.qualified(), &target.key.name, &why);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(error)
}

/// What only the server may say about a new object.
fn begin(cluster: &mut Cluster, resource: &Resource, object: &mut Value) {
    meta::set(object, "uid", Some(json!(cluster.ids.uid())));
    meta::set(object, "creationTimestamp", Some(json!(cluster.clock.stamp())));
    meta::set(object, "generation", resource.traits.generation.then(|| json!(1)));
    meta::set(object, "deletionTimestamp", None);
    meta::set(object, "deletionGracePeriodSeconds", None);
    if resource.status
        && let Some(map) = object.as_object_mut()
    {
        let sent = map.remove("status");
        let status = match &resource.nature {
            Nature::Definition => map.get("spec").map(definitions::unsettled),
            nature => builtin::initial_status(nature, sent),
        };
        if let Some(status) = status {
            map.insert("status".into(), status);
        }
    }
}
