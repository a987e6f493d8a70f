//! Replacing and patching an object, whole or its `status` alone.

use serde_json::{Value, json};

use super::create::{create, place};
use super::shape::{Origin, judge, shape};
use super::{WriteOptions, Written, definitions, delete, expiry};
use crate::cluster::{Cluster, Target, shown};
use crate::decode::Body;
use crate::meta;
use crate::patch::PatchBody;
use crate::resource::{Nature, Resource};
use crate::status::{ApiError, FieldError};

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
}

/// Replaces the object, or its part, by what was sent.
pub(crate) fn replace(
    cluster: &mut Cluster,
    target: &Target,
    part: Part,
    body: Body,
    options: WriteOptions,
) -> Result<Written, ApiError> {
    if cluster.get(target).is_err() && target.resource.traits.create_on_update && part == Part::Main {
        return create_by_replace(cluster, target, body, options);
    }
    write(cluster, target, part, body, options, Origin::Sent)
}

/// Creates what was to be replaced. Who knows its uid meant an object that is gone; a version alone
/// is no obstacle.
fn create_by_replace(
    cluster: &mut Cluster,
    target: &Target,
    mut body: Body,
    options: WriteOptions,
) -> Result<Written, ApiError> {
    target.check_name(&body.value)?;
    let uid = meta::text(&body.value, "uid");
    if !uid.is_empty() {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        return Err(target.conflict(&why));
    }
    if body.value.is_object() {
        meta::set(&mut body.value, "resourceVersion", None);
    }
    create(cluster, target, body, options)
}

/// Changes the object, or its part, by a patch.
pub(crate) fn patch(
    cluster: &mut Cluster,
    target: &Target,
    part: Part,
    patch: &PatchBody,
    options: WriteOptions,
) -> Result<Written, ApiError> {
    let current = shown(&target.resource, &cluster.get(target)?.value);
    let value = patch.apply(&current)?;
    write(cluster, target, part, Body { value, duplicates: Vec::new() }, options, Origin::Patched)
}

fn write(
    cluster: &mut Cluster,
    target: &Target,
    part: Part,
    body: Body,
    options: WriteOptions,
    origin: Origin,
) -> Result<Written, ApiError> {
    let resource = &*target.resource;
    let mut warnings = Vec::new();
    let old = cluster.get(target)?.clone();
    let mut new = shape(resource, body, Some(&old.value), options, origin, &mut warnings)?;
    check_identity(target, &mut new, &old.value, origin)?;
    keep_system_fields(&mut new, &old.value);
    restrict(resource, part, &mut new, &old.value);
    meta::set(&mut new, "resourceVersion", Some(old.value["metadata"]["resourceVersion"].clone()));
    if resource.traits.generation && wants_change(resource, &new, &old.value) {
        meta::set(&mut new, "generation", Some(json!(meta::generation(&old.value) + 1)));
    }
    if new == old.value {
        return Ok(Written { object: old, created: false, warnings });
    }
    judge(resource, &new, Some(&old.value))?;
    if delete::is_done(resource, &new) {
        let object = delete::remove_as(cluster, target, new);
        return Ok(Written { object, created: false, warnings });
    }
    let object = cluster.store.put(&resource.shelf, target.key.clone(), new);
    settle(cluster, target, object.version);
    Ok(Written { object, created: false, warnings })
}

/// What a kind has to do after a write: those that are being deleted may have waited for it.
fn settle(cluster: &mut Cluster, target: &Target, version: u64) {
    match &target.resource.nature {
        Nature::Definition => definitions::settle(cluster, &target.key),
        Nature::Namespace => super::namespaces::finish(cluster, &target.key.name),
        Nature::Event => expiry::note(cluster, target, version),
        _ => {}
    }
}

/// Name, namespace, version and uid must be those of the object that is there.
fn check_identity(target: &Target, new: &mut Value, old: &Value, origin: Origin) -> Result<(), ApiError> {
    let resource = &*target.resource;
    target.check_name(new)?;
    place(resource, new, &target.key.namespace)?;
    let (sent, current) = (meta::text(new, "resourceVersion"), meta::text(old, "resourceVersion"));
    if sent.is_empty() && !resource.traits.unconditional_update {
        let detail = "must be specified for an update";
        let error = FieldError::invalid("metadata.resourceVersion", &json!(0), detail);
        // The sentence names the plural here, where others name the kind.
        return Err(ApiError::invalid(&resource.qualified(), &target.key.name, vec![error]));
    }
    let uid = meta::text(new, "uid");
    if origin == Origin::Sent && !uid.is_empty() && uid != meta::text(old, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta::text(old, "uid")
        );
        return Err(target.conflict(&why));
    }
    if !sent.is_empty() && sent != current {
        return Err(target.conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        ));
    }
    Ok(())
}

/// Fields of metadata that the server alone writes. A uid or deletion stamp that differs is left
/// to be refused.
fn keep_system_fields(new: &mut Value, old: &Value) {
    let before = |field: &str| old["metadata"].get(field).cloned();
    if meta::text(new, "uid").is_empty() {
        meta::set(new, "uid", before("uid"));
    }
    for field in ["creationTimestamp", "generation"] {
        meta::set(new, field, before(field));
    }
    if meta::is_deleting(old) {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            meta::set(new, field, before(field));
        }
    }
}

/// A write of one part leaves the other as it was.
fn restrict(resource: &Resource, part: Part, new: &mut Value, old: &Value) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    let mut keep = |key: &str| match old.get(key) {
        Some(value) => drop(new.insert(key.to_owned(), value.clone())),
        None => drop(new.remove(key)),
    };
    match part {
        Part::Main if resource.status => {
            keep("status");
        }
        Part::Main => {}
        Part::Status => {
            let whole = resource.custom().is_some() || matches!(resource.nature, Nature::Definition);
            if whole {
                keep("metadata");
            }
            let others: Vec<String> =
                old.keys().filter(|key| *key != "metadata" && *key != "status").cloned().collect();
            others.iter().for_each(|key| keep(key));
            new.retain(|key, _| key == "status" || key == "metadata" || old.contains_key(key));
        }
    }
}

/// Whether what is wanted changed, as opposed to what is reported or how it is labelled.
fn wants_change(resource: &Resource, new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
    let counts = |key: &&String| *key != "metadata" && !(resource.status && *key == "status");
    let spec_changed = new.keys().chain(old.keys()).filter(counts).any(|key| new.get(key) != old.get(key));
    let annotations =
        |object: &serde_json::Map<String, Value>| object["metadata"].get("annotations").cloned();
    spec_changed || (resource.kind == "Deployment" && annotations(new) != annotations(old))
}
