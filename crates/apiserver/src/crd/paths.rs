//! Whether the paths of a definition lead where they must: `scale` and selectable fields.

use serde_json::Value;

use crate::status::FieldError;

/// The paths of the `scale` subresource: replicas wanted, replicas there, a selector as text.
pub(super) fn check_scale(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = version["subresources"].get("scale").filter(|scale| !scale.is_null()) else { return };
    for (field, roots, detail, required) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec", true),
        ("statusReplicasPath", &[".status."], "should be a json path under .status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
            false,
        ),
    ] {
        let path = format!("{path}.subresources.scale.{field}");
        match scale[field].as_str().unwrap_or_default() {
            "" if required => errors.push(FieldError::required(&path, "")),
            "" => {}
            given if !given.starts_with('.') => {
                let detail = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(&path, &scale[field], detail));
            }
            given if !roots.iter().any(|root| given.starts_with(root)) => {
                errors.push(FieldError::invalid(&path, &scale[field], detail));
            }
            _ => {}
        }
    }
}

/// Fields that objects are selected by must be there, and be plain values.
pub(super) fn check_selectable(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let fields = version["selectableFields"].as_array();
    for (index, field) in fields.into_iter().flatten().enumerate() {
        let path = format!("{path}.selectableFields[{index}].jsonPath");
        let given = field["jsonPath"].as_str().unwrap_or_default();
        if given.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        let detail = match given.strip_prefix('.').map(|names| lookup(schema, names)) {
            None => "is an invalid path: expected [ or . at its beginning",
            Some(None) => "is an invalid path: does not refer to a valid field",
            Some(Some(found)) => match found["type"].as_str() {
                Some("string" | "boolean" | "integer") => continue,
                _ => {
                    "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                     formats are allowed."
                }
            },
        };
        errors.push(FieldError::invalid(&path, &field["jsonPath"], detail));
    }
}

fn lookup<'a>(schema: &'a Value, names: &str) -> Option<&'a Value> {
    names.split('.').try_fold(schema, |here, name| here.get("properties")?.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints(version: Value) -> Vec<String> {
        let mut errors = Vec::new();
        check_scale(&version, "s", &mut errors);
        check_selectable(&version, "s", &mut errors);
        errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn scale_paths_stay_in_their_part() {
        let scale = |spec: &str, status: &str, selector: &str| {
            let paths = json!({ "specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": selector });
            complaints(json!({ "subresources": { "scale": paths } })).len()
        };
        assert_eq!(scale(".spec.replicas", ".status.replicas", ".status.selector"), 0);
        assert_eq!(scale(".spec.replicas", ".status.replicas", ""), 0);
        assert_eq!(scale("", "", ""), 2);
        assert_eq!(scale("spec.a", ".spec.b", ".metadata.x"), 3);
    }

    #[test]
    fn selectable_fields_are_plain_and_there() {
        let field = |path: &str| {
            let properties =
                json!({ "spec": { "properties": { "a": { "type": "string" }, "o": { "type": "object" } } } });
            let schema = json!({ "openAPIV3Schema": { "properties": properties } });
            complaints(json!({ "schema": schema, "selectableFields": [{ "jsonPath": path }] })).is_empty()
        };
        assert!(field(".spec.a"));
        assert!(!field(".spec.o") && !field(".spec.none") && !field("spec.a") && !field(""));
    }
}
