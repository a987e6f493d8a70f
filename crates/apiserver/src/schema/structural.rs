//! Whether a definition's schema is structural: every part typed, nothing that could not be pruned.

use serde_json::Value;

use super::fields::undefined;
use super::validate::validate_at;
use super::{Schema, child};
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
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        errors.push(FieldError::forbidden(
            &child(path, "additionalProperties"),
            "additionalProperties cannot be set to false",
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
        let source = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let path = format!("{path}.x-kubernetes-validations[{index}].rule");
        if source.trim().is_empty() {
            errors.push(FieldError::required(&path, "rule is not specified"));
            continue;
        }
        let optional_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let problem = match kube_cel::cel::Program::compile(source) {
            Err(why) => Some(why.to_string()),
            Ok(program) => undefined(program.expression(), schema, root, optional_old)
                .map(|field| format!("undefined field '{field}'")),
        };
        if let Some(problem) = problem {
            let detail = format!("compilation failed: {problem}");
            errors.push(FieldError::invalid(&path, &Value::String(source.to_owned()), &detail));
        }
    }
}

/// A default must be what the schema would accept.
fn check_default(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default") {
        errors.extend(validate_at(&Schema::parse(schema), default, &child(path, "default")));
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
