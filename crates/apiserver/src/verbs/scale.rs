//! The `scale` subresource: the replica count of an object through a small object of its own.

use serde_json::{Value, json};

use super::replace::{Part, replace};
use super::{WriteOptions, Written};
use crate::builtin;
use crate::cluster::{Cluster, Target, shown};
use crate::decode::Body;
use crate::meta;
use crate::resource::ScalePaths;
use crate::status::{ApiError, FieldError};

/// The `Scale` of an object.
pub(crate) fn read_scale(cluster: &Cluster, target: &Target) -> Result<Value, ApiError> {
    let paths = paths(target)?;
    let object = shown(&target.resource, &cluster.get(target)?.value);
    Ok(scale_of(paths, &object))
}

/// Sets the replica count from a `Scale`, made by `change` of the present one.
pub(crate) fn write_scale(
    cluster: &mut Cluster,
    target: &Target,
    change: impl FnOnce(Value) -> Result<Value, ApiError>,
) -> Result<Value, ApiError> {
    let paths = paths(target)?.clone();
    let mut object = shown(&target.resource, &cluster.get(target)?.value);
    let mut wanted = change(scale_of(&paths, &object))?;
    builtin::conform_to("autoscaling.Scale", &mut wanted).map_err(ApiError::bad_request)?;
    if let Some(kind) = wanted["kind"].as_str().filter(|kind| *kind != "Scale") {
        return Err(ApiError::bad_request(format!("a {kind} is no Scale: nothing was changed")));
    }
    if !meta::name(&wanted).is_empty() {
        target.check_name(&wanted)?;
    }
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let error =
            FieldError::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
        let kind = crate::status::Qualified::new("autoscaling", "Scale");
        return Err(ApiError::invalid(&kind, &target.key.name, vec![error]));
    }
    let version = meta::text(&wanted, "resourceVersion");
    if !version.is_empty() {
        meta::set(&mut object, "resourceVersion", Some(json!(version)));
    }
    put(&mut object, &paths.spec_replicas, json!(replicas));
    let body = Body { value: object, duplicates: Vec::new() };
    let Written { object, .. } = replace(cluster, target, Part::Main, body, WriteOptions::default())?;
    Ok(scale_of(&paths, &shown(&target.resource, &object.value)))
}

fn paths(target: &Target) -> Result<&ScalePaths, ApiError> {
    target.resource.scale.as_ref().ok_or_else(ApiError::no_such_path)
}

fn scale_of(paths: &ScalePaths, object: &Value) -> Value {
    let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut status = json!({ "replicas": count(&paths.status_replicas) });
    let selector = match &paths.selector {
        Some(pointer) => object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => selector_text(&object["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    let mut spec = json!({});
    if count(&paths.spec_replicas) != 0 {
        spec["replicas"] = json!(count(&paths.spec_replicas));
    }
    json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status })
}

/// A label selector object in the text form.
fn selector_text(selector: &Value) -> String {
    let mut terms: Vec<String> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.extend(match expression["operator"].as_str() {
            Some("In") => Some(format!("{key} in ({values})")),
            Some("NotIn") => Some(format!("{key} notin ({values})")),
            Some("Exists") => Some(key.to_owned()),
            Some("DoesNotExist") => Some(format!("!{key}")),
            _ => None,
        });
    }
    terms.join(",")
}

/// Writes at a JSON pointer, making what is missing on the way.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut here = object;
    for part in pointer.split('/').filter(|part| !part.is_empty()) {
        if !here.is_object() {
            *here = json!({});
        }
        here = &mut here[part];
    }
    *here = value;
}
