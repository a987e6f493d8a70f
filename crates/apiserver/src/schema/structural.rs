//! Whether a definition's schema is structural: every part typed, nothing that could not be pruned.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rule_types::problem;
use super::validate::validate_at;
use super::{Schema, child, prune};
use crate::status::FieldError;

/// What is wrong with the schema found at `path` of the definition.
pub(crate) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(schema, path, true, &mut errors);
    errors
}

fn node(schema: &Value, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    let Value::Object(map) = schema else {
        errors.push(FieldError::invalid(path, schema, "must be a schema object"));
        return;
    };
    check_type(schema, path, root, errors);
    check_keywords(schema, path, errors);
    check_rules(schema, path, root, errors);
    check_default(schema, path, errors);
    check_list(schema, path, errors);
    if root {
        check_metadata(schema, path, errors);
    }
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        node(property, &format!("{path}.properties[{name}]"), false, errors);
    }
    if let Some(items) = map.get("items") {
        node(items, &child(path, "items"), false, errors);
    }
    if let Some(additional @ Value::Object(_)) = map.get("additionalProperties") {
        node(additional, &child(path, "additionalProperties"), false, errors);
    }
}

fn check_type(schema: &Value, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let untyped = flag("x-kubernetes-int-or-string") || flag("x-kubernetes-preserve-unknown-fields");
    let type_path = child(path, "type");
    if root && kind != "object" {
        let value = Value::String(kind.to_owned());
        if kind.is_empty() {
            errors.push(FieldError::required(&type_path, "must not be empty at the root"));
        } else {
            errors.push(FieldError::invalid(&type_path, &value, "must be object at the root"));
        }
    } else if kind.is_empty() && !untyped {
        errors.push(FieldError::required(&type_path, "must not be empty for specified object fields"));
    } else if !kind.is_empty()
        && !["object", "array", "string", "integer", "number", "boolean"].contains(&kind)
    {
        let known = ["array", "boolean", "integer", "number", "object", "string"].map(str::to_owned);
        errors.push(FieldError::not_supported(&type_path, &Value::String(kind.to_owned()), &known));
    }
    if kind == "array" && schema.get("items").is_none() {
        errors.push(FieldError::required(&child(path, "items"), "must be specified"));
    }
}

fn check_keywords(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let set =
        |key: &str| schema.get(key).is_some_and(|value| !value.is_null() && *value != Value::Bool(false));
    if set("properties") && set("additionalProperties") {
        errors.push(FieldError::forbidden(
            &child(path, "additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    for key in ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"] {
        if set(key) {
            errors.push(FieldError::forbidden(&child(path, key), &format!("{key} is not supported")));
        }
    }
    if set("uniqueItems") {
        errors.push(FieldError::forbidden(
            &child(path, "uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(why) = regex::Regex::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(
            &child(path, "pattern"),
            &Value::String(pattern.to_owned()),
            &detail,
        ));
    }
}

fn check_rules(schema: &Value, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        check_rule(rule, schema, &format!("{path}.rule"), root, errors);
        let reasons =
            ["Duplicate", "Forbidden", "Invalid", "Required"].map(|reason| format!("FieldValue{reason}"));
        if let Some(reason) =
            rule.get("reason").filter(|reason| !reasons.iter().any(|known| *reason == known))
        {
            errors.push(FieldError::not_supported(&format!("{path}.reason"), reason, &reasons));
        }
        if let Some(field) = rule.get("fieldPath").and_then(Value::as_str)
            && !leads_somewhere(schema, field)
        {
            let detail = "fieldPath must be a valid path: it does not lead to a field of the schema";
            errors.push(FieldError::invalid(&format!("{path}.fieldPath"), &rule["fieldPath"], detail));
        }
    }
}

fn check_rule(rule: &Value, schema: &Value, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    let source = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    if source.trim().is_empty() {
        errors.push(FieldError::required(path, "rule is not specified"));
        return;
    }
    let optional_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    let found = match kube_cel::cel::Program::compile(source) {
        Err(why) => Some(why.to_string()),
        Ok(program) => problem(program.expression(), schema, root, optional_old),
    };
    if let Some(found) = found {
        let detail = format!("compilation failed: {found}");
        errors.push(FieldError::invalid(path, &Value::String(source.to_owned()), &detail));
    }
}

/// Whether a path of members, `.a.b` or `.a['b']`, exists in the schema.
fn leads_somewhere(schema: &Value, path: &str) -> bool {
    let parts = path
        .split(['.', '['])
        .map(|part| part.trim_matches([']', '\'', '"']))
        .filter(|part| !part.is_empty());
    let mut here = schema;
    for part in parts {
        let property = here.get("properties").and_then(|properties| properties.get(part));
        match property.or_else(|| here.get("additionalProperties")) {
            Some(next) => here = next,
            None => return false,
        }
    }
    true
}

/// A default must be what the schema would accept, and keep.
fn check_default(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(default) = schema.get("default") else { return };
    let path = child(path, "default");
    let parsed = Schema::parse(schema);
    errors.extend(validate_at(&parsed, default, &path));
    // Wrapped, for at its own root an object may have kind and metadata.
    let wrapped =
        Schema { properties: BTreeMap::from([("default".to_owned(), parsed)]), ..Schema::default() };
    let mut object = json!({ "default": default });
    if !prune(&wrapped, &mut object).is_empty() {
        errors.push(FieldError::invalid(&path, default, "must not have unknown fields"));
    }
}

/// Items of a keyed list must have their keys, be it by default.
fn check_list(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if schema["x-kubernetes-list-type"] != "map" {
        return;
    }
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&child(path, "x-kubernetes-list-map-keys"), detail));
    }
    let items = &schema["items"];
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let required = items["required"].as_array().is_some_and(|required| required.contains(key));
        match items["properties"].get(name) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&child(path, "x-kubernetes-list-map-keys"), key, detail));
            }
            Some(property) if !required && property.get("default").is_none() => {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                              required property";
                errors
                    .push(FieldError::required(&format!("{path}.items.properties[{name}].default"), detail));
            }
            Some(_) => {}
        }
    }
}

/// Metadata is the server's: a schema may only narrow the name.
fn check_metadata(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(metadata) = schema["properties"].get("metadata") else { return };
    let names = metadata.get("properties").and_then(Value::as_object);
    if names.into_iter().flatten().any(|(name, _)| name != "name" && name != "generateName") {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&format!("{path}.properties[metadata]"), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn untyped_and_unprunable_schemas_are_refused() {
        assert!(
            check(&json!({ "type": "object", "properties": { "a": { "type": "string" } } }), "s").is_empty()
        );
        for bad in [
            json!({ "type": "string" }),
            json!({ "type": "object", "properties": { "a": {} } }),
            json!({ "type": "object", "properties": { "a": { "type": "array" } } }),
            json!({ "type": "object", "properties": { "a": { "type": "strnig" } } }),
            json!({ "type": "object", "x-kubernetes-validations": [{ "rule": "self.(" }] }),
        ] {
            assert!(!check(&bad, "s").is_empty(), "{bad}");
        }
    }
}
