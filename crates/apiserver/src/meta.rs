//! Object metadata: reading it, bringing what was sent into its stored shape, and judging it.

use serde_json::{Map, Value, json};

use crate::resource::{Nature, Resource};
use crate::status::FieldError;

/// Text of a metadata field; empty when absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"].get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The object's name.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Whether deletion has begun.
pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
}

/// The object's finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"].get("finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// `metadata.generation`, 0 when not counted.
pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"].get("generation").and_then(Value::as_i64).unwrap_or(0)
}

/// Writes a metadata field, or removes it.
pub(crate) fn set(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        match value {
            Some(value) => drop(metadata.insert(field.to_owned(), value)),
            None => drop(metadata.remove(field)),
        }
    }
}

/// What metadata fields hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Number,
    Strings,
    TextMap,
    Objects,
}

const FIELDS: [(&str, Shape); 14] = [
    ("annotations", Shape::TextMap),
    ("creationTimestamp", Shape::Text),
    ("deletionGracePeriodSeconds", Shape::Number),
    ("deletionTimestamp", Shape::Text),
    ("finalizers", Shape::Strings),
    ("generateName", Shape::Text),
    ("generation", Shape::Number),
    ("labels", Shape::TextMap),
    ("name", Shape::Text),
    ("namespace", Shape::Text),
    ("ownerReferences", Shape::Objects),
    ("resourceVersion", Shape::Text),
    ("selfLink", Shape::Text),
    ("uid", Shape::Text),
];

/// Leaves only metadata that is known, well typed and not empty. Managed fields are not kept.
/// Returns the paths of unknown fields.
///
/// # Errors
/// A sentence about the first field of a wrong type.
pub(crate) fn normalize(object: &mut Value) -> Result<Vec<String>, String> {
    let slot = &mut object["metadata"];
    if slot.is_null() {
        *slot = json!({});
    }
    let Value::Object(metadata) = slot else {
        return Err("json: cannot unmarshal metadata: it is not an object".to_owned());
    };
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    let mut unknown = Vec::new();
    for (field, value) in metadata.iter() {
        match FIELDS.iter().find(|(name, _)| name == field) {
            None => unknown.push(format!("metadata.{field}")),
            Some((_, shape)) => check_shape(field, value, *shape)?,
        }
    }
    metadata.retain(|field, value| FIELDS.iter().any(|(name, _)| name == field) && !is_empty(value));
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(map)) = metadata.get_mut(field) {
            // A null where a text belongs decodes as the empty text.
            map.values_mut().filter(|value| value.is_null()).for_each(|value| *value = json!(""));
        }
    }
    Ok(unknown)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn check_shape(field: &str, value: &Value, shape: Shape) -> Result<(), String> {
    let is_text = |value: &Value| value.is_string() || value.is_null();
    let fits = match (shape, value) {
        (_, Value::Null) => true,
        (Shape::Text, value) => value.is_string(),
        (Shape::Number, value) => value.is_i64(),
        (Shape::Strings, Value::Array(items)) => items.iter().all(is_text),
        (Shape::TextMap, Value::Object(map)) => map.values().all(is_text),
        (Shape::Objects, Value::Array(items)) => items.iter().all(Value::is_object),
        (Shape::Strings | Shape::TextMap | Shape::Objects, _) => false,
    };
    if fits {
        return Ok(());
    }
    Err(format!("json: cannot unmarshal metadata.{field}: the value does not have its type"))
}

/// What is wrong with an object's metadata.
pub(crate) fn validate(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = name(object);
    let judge = match &resource.nature {
        Nature::Namespace => crate::names::dns_label,
        Nature::Service => crate::names::dns_1035_label,
        _ => crate::names::dns_subdomain,
    };
    let prefix = text(object, "generateName");
    // A dash at its end will be followed by something.
    let completed = prefix.strip_suffix('-').map_or(prefix.to_owned(), |start| format!("{start}a"));
    if !prefix.is_empty()
        && let Err(why) = judge(&completed)
    {
        errors.push(FieldError::invalid("metadata.generateName", &json!(prefix), &why));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if let Err(why) = judge(name) {
        errors.push(FieldError::invalid("metadata.name", &json!(name), &why));
    }
    let empty = Map::new();
    let map = |field: &str| object["metadata"].get(field).and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in map("labels") {
        if let Err(why) = crate::names::qualified_name(key) {
            errors.push(FieldError::invalid("metadata.labels", &json!(key), &why));
        }
        if let Err(why) = crate::names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("metadata.labels", value, &why));
        }
    }
    let annotations = map("annotations");
    for key in annotations.keys() {
        if let Err(why) = crate::names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", &json!(key), &why));
        }
    }
    let size: usize = annotations.iter().map(|(k, v)| k.len() + v.as_str().unwrap_or_default().len()).sum();
    if size > 256 * 1024 {
        errors.push(FieldError::too_long("metadata.annotations", 256 * 1024));
    }
    for finalizer in finalizers(object) {
        if let Err(why) = crate::names::qualified_name(finalizer) {
            errors.push(FieldError::invalid("metadata.finalizers", &json!(finalizer), &why));
        }
    }
    validate_owners(object, &mut errors);
    errors
}

fn validate_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let owners = object["metadata"].get("ownerReferences").and_then(Value::as_array);
    for (index, owner) in owners.into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                errors.push(FieldError::required(&path, "must not be empty"));
            }
        }
    }
}

/// What may not change from `old` to `new`.
pub(crate) fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_deleting(old) {
        let before = finalizers(old);
        let mut added: Vec<&str> = finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        added.sort_unstable();
        if !added.is_empty() {
            let list = added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ");
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (before, after) = (old["metadata"].get(field), new["metadata"].get(field));
        if before != after {
            let value = after.cloned().unwrap_or_default();
            errors.push(FieldError::invalid(&format!("metadata.{field}"), &value, "field is immutable"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_unknown_metadata_is_not_kept() {
        let mut object =
            json!({ "metadata": { "name": "a", "labels": {}, "creationTimestamp": null, "odd": 1 } });
        assert_eq!(normalize(&mut object).unwrap(), ["metadata.odd"]);
        assert_eq!(object, json!({ "metadata": { "name": "a" } }));
        assert!(normalize(&mut json!({ "metadata": { "labels": { "a": 1 } } })).is_err());
    }

    #[test]
    fn a_deleted_object_gains_no_finalizers() {
        let old = json!({ "metadata": { "deletionTimestamp": "t", "finalizers": ["a/b"] } });
        let new = json!({ "metadata": { "deletionTimestamp": "t", "finalizers": ["a/b", "c/d"] } });
        assert_eq!(validate_update(&old, &new).len(), 1);
        assert!(validate_update(&new, &old).is_empty());
    }
}
