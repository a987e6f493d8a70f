//! What the built-in kinds do not allow, as far as a small server looks.

use serde_json::{Value, json};

use crate::meta;
use crate::resource::{Nature, Resource};
use crate::status::FieldError;

/// What is wrong with a built-in object; `old` is what it replaces.
pub(crate) fn check(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_finalizers(new, &mut errors);
    match &resource.nature {
        Nature::Pod => {
            check_containers(&new["spec"], "spec", &mut errors);
            if let Some(old) = old {
                check_pod_change(new, old, &mut errors);
            }
        }
        Nature::Workload => check_workload(resource, new, old, &mut errors),
        Nature::Event => errors.extend(crate::events::check(new, old, &resource.group)),
        Nature::Secret => {
            check_data(new, old, &["data"], &mut errors);
            if old.is_some_and(|old| old["type"] != new["type"]) {
                errors.push(FieldError::invalid("type", &new["type"], "field is immutable"));
            }
        }
        Nature::Plain if resource.kind == "Lease" => check_lease(new, &mut errors),
        Nature::Plain if resource.kind == "ConfigMap" => {
            check_data(new, old, &["data", "binaryData"], &mut errors);
        }
        Nature::Plain | Nature::Namespace | Nature::Node | Nature::Service => {}
        Nature::Definition | Nature::Custom(_) => {}
    }
    errors
}

/// Only finalizers of Kubernetes itself go without a domain.
fn check_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    for (index, name) in meta::finalizers(object).into_iter().enumerate() {
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&format!("metadata.finalizers[{index}]"), &json!(name), detail));
        }
    }
}

/// Keys have to be file names, and who asked for it is held to what was there.
fn check_data(new: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    let keys = |field: &str| new[field].as_object().into_iter().flat_map(serde_json::Map::keys);
    for field in fields {
        for key in keys(field) {
            let path = format!("{field}[{key}]");
            if let Err(why) = crate::names::data_key(key) {
                errors.push(FieldError::invalid(&path, &json!(key), &why));
            } else if *field == "data" && new["binaryData"].get(key).is_some() {
                errors.push(FieldError::invalid(
                    &path,
                    &json!(key),
                    "duplicate of key present in binaryData",
                ));
            }
        }
    }
    if let Some(old) = old.filter(|old| old["immutable"] == true) {
        for field in fields.iter().chain(&["immutable"]) {
            if new.get(field) != old.get(field) {
                let detail = "field is immutable when `immutable` is set";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
    }
}

fn check_lease(lease: &Value, errors: &mut Vec<FieldError>) {
    for (field, least, detail) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        let value = &lease["spec"][field];
        if value.as_i64().is_some_and(|number| number < least) {
            errors.push(FieldError::invalid(&format!("spec.{field}"), value, detail));
        }
    }
}

fn check_containers(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        errors.push(FieldError::required(&format!("{path}.containers"), ""));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(&format!("{path}.containers[{index}].{field}"), ""));
            }
        }
    }
}

/// A pod is settled when it is made; a few things may still change.
fn check_pod_change(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let settled = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        if let Value::Object(spec) = &mut spec {
            for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
                spec.remove(field);
            }
            for list in ["containers", "initContainers"] {
                for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Value::Object(container) = container {
                        container.remove("image");
                    }
                }
            }
        }
        spec
    };
    if new["spec"] != old["spec"] && settled(new) != settled(old) {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                      `spec.tolerations` (only additions to existing tolerations),\
                      `spec.schedulingGates` (only deletions)";
        errors.push(FieldError::forbidden("spec", detail));
    }
}

fn check_workload(resource: &Resource, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", &spec["replicas"], detail));
    }
    if spec["selector"].is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    check_containers(&spec["template"]["spec"], "spec.template.spec", errors);
    let labels = &spec["template"]["metadata"]["labels"];
    let wanted = spec["selector"]["matchLabels"].as_object();
    if wanted.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
    let Some(old) = old.map(|old| &old["spec"]) else { return };
    if spec["selector"] != old["selector"] {
        errors.push(FieldError::invalid("spec.selector", &spec["selector"], "field is immutable"));
    }
    let settled = ["serviceName", "podManagementPolicy", "volumeClaimTemplates"];
    if resource.kind == "StatefulSet" && settled.iter().any(|field| spec.get(field) != old.get(field)) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", detail));
    }
}
