//! Whether a definition's schema is structural: every part typed, nothing that could not be pruned.

use std::collections::BTreeMap;

use kube_cel::cel::Program;
use serde_json::{Value, json};

use super::deep::{MAX_LENGTH, on_a_deep_stack};
use super::rule_types::{Purpose, Site, problem};
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
    check_branches(schema, path, errors);
}

/// What a branch may not say, and why: it only narrows what the schema around it says.
const NOT_IN_BRANCHES: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-list-map-keys", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

/// The branches of `allOf`, `anyOf`, `oneOf` and `not`.
fn check_branches(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let int_or_string = schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    for key in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get(key).and_then(Value::as_array);
        for (index, each) in branches.into_iter().flatten().enumerate() {
            // The usual way to write that both types will do.
            let typed = int_or_string && key == "anyOf";
            branch(each, &format!("{path}.{key}[{index}]"), typed, errors);
        }
    }
    if let Some(not) = schema.get("not") {
        branch(not, &child(path, "not"), false, errors);
    }
}

fn branch(schema: &Value, path: &str, typed: bool, errors: &mut Vec<FieldError>) {
    for (key, why) in NOT_IN_BRANCHES {
        let said = schema.get(key).is_some_and(|value| !value.is_null() && *value != Value::Bool(false));
        if said && !(typed && key == "type") {
            errors.push(FieldError::forbidden(&child(path, key), why));
        }
    }
    check_keywords(schema, path, errors);
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        branch(property, &format!("{path}.properties[{name}]"), false, errors);
    }
    if let Some(items) = schema.get("items") {
        branch(items, &child(path, "items"), false, errors);
    }
    check_branches(schema, path, errors);
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
        let optional_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        check_expressions(rule, &path, &Site { schema, root, optional_old }, errors);
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

/// A rule and the message it may make must be such that they can be evaluated.
fn check_expressions(rule: &Value, path: &str, site: &Site<'_>, errors: &mut Vec<FieldError>) {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
    let read = |source: &str, purpose: Purpose| match Program::compile(source) {
        Err(why) => Some(format!("compilation failed: {why}")),
        Ok(program) => problem(program.expression(), site, purpose),
    };
    let wrong = |source: &str, purpose: Purpose| {
        if source.len() > MAX_LENGTH {
            return Some(format!("is longer than {MAX_LENGTH} bytes, which this server does not evaluate"));
        }
        on_a_deep_stack(|| read(source, purpose))
            .unwrap_or_else(|why| Some(format!("compilation failed: {why}")))
    };
    let (source, rule_path) = (text("rule"), format!("{path}.rule"));
    if source.trim().is_empty() {
        errors.push(FieldError::required(&rule_path, "rule is not specified"));
    } else if let Some(why) = wrong(source, Purpose::Rule) {
        errors.push(FieldError::invalid(&rule_path, &json!(source), &why));
    }
    let source = text("messageExpression");
    if !source.is_empty()
        && let Some(why) = wrong(source, Purpose::Message)
    {
        let path = format!("{path}.messageExpression");
        errors.push(FieldError::invalid(&path, &json!(source), &format!("messageExpression {why}")));
    }
    if text("message").contains(['\n', '\r']) {
        let path = format!("{path}.message");
        errors.push(FieldError::invalid(&path, &rule["message"], "must not contain line breaks"));
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
    use proptest::prelude::*;
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
            json!({ "type": "object", "anyOf": [{ "type": "object" }] }),
            json!({ "type": "object", "not": { "properties": { "a": { "pattern": "(" } } } }),
        ] {
            assert!(!check(&bad, "s").is_empty(), "{bad}");
        }
        let either = json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] });
        assert_eq!(check(&json!({ "type": "object", "properties": { "a": either } }), "s"), []);
    }

    fn complaint(rule: Value) -> String {
        let properties = json!({ "a": { "type": "string" } });
        let schema =
            json!({ "type": "object", "properties": properties, "x-kubernetes-validations": [rule] });
        check(&schema, "s").first().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn an_expression_that_cannot_be_evaluated_is_refused_with_its_definition() {
        assert!(
            complaint(json!({ "rule": "self.?a.orValue('') == ''" })).contains("unsupported syntax '.?'")
        );
        for (expression, why) in [
            ("self.nobody", "undefined field"),
            ("1", "must evaluate to a string"),
            ("'a' +", "compilation failed"),
        ] {
            let found = complaint(json!({ "rule": "true", "messageExpression": expression }));
            assert!(found.contains("messageExpression") && found.contains(why), "{found}");
        }
        assert_eq!(complaint(json!({ "rule": "true", "messageExpression": "'a' + self.a" })), "");
        assert!(complaint(json!({ "rule": "true", "message": "a\nb" })).contains("line breaks"));
    }

    #[test]
    fn expressions_nested_without_end_are_refused() {
        for source in ["(".repeat(50_000), "(".repeat(4000), "!".repeat(4000), "[".repeat(1000)] {
            assert_ne!(complaint(json!({ "rule": source })), "");
        }
        // Many branches in a row make the parser panic.
        let _ = complaint(json!({ "rule": format!("{}true", "true?true:".repeat(300)) }));
    }

    proptest! {
        #[test]
        fn any_expression_is_taken_or_refused(
            source in r#"(self|oldSelf|\.a|\.|\?|\(|\)|\[|\]|'|"|==|&&|\|\||!|-|[0-9]|has|all|x|,|ü| ){0,12}"#
        ) {
            complaint(json!({ "rule": source, "messageExpression": source }));
        }
    }
}
