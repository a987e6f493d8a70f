//! Says what is wrong with a value, in the words of kube-apiserver.
//!
//! On an update a part that did not change is not judged again: a rule that came later must not
//! lock objects that were fine when written.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::format::has_format;
use super::{Additional, ListType, Schema, child, item};
use crate::status::FieldError;

/// Every violation, in the order of the schema. `old` is what the value replaces.
pub(crate) fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, value, old, "", &mut errors);
    errors
}

/// The same for a value that stands at `path`.
pub(super) fn validate_at(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, value, None, path, &mut errors);
    errors
}

fn check(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && schema.nullable {
        return;
    }
    if !check_type(schema, value, path, errors) {
        return;
    }
    if !schema.allowed.is_empty() && !schema.allowed.contains(value) {
        let allowed: Vec<String> =
            schema.allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        errors.push(FieldError::not_supported(path, value, &allowed));
    }
    match value {
        Value::String(text) => check_string(schema, text, path, errors),
        Value::Number(_) => check_number(schema, value, path, errors),
        Value::Array(items) => check_array(schema, items, old, path, errors),
        Value::Object(_) => check_object(schema, value, old, path, errors),
        Value::Null | Value::Bool(_) => {}
    }
    check_combinations(schema, value, path, errors);
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
    }
}

/// What does not fit 64 bits is no integer, whole or not.
fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64()
        || (number.is_f64() && number.as_f64().is_some_and(|n| n.fract() == 0.0 && n.abs() < 9e18))
}

fn check_type(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) -> bool {
    let actual = type_name(value);
    let (fits, wanted) = if schema.int_or_string {
        (matches!(actual, "integer" | "string"), "integer,string")
    } else if schema.kind.is_empty() {
        (true, "")
    } else {
        (schema.kind == actual || (schema.kind == "number" && actual == "integer"), schema.kind.as_str())
    };
    if !fits {
        let detail = format!("{path} in body must be of type {wanted}: {actual:?}");
        errors.push(FieldError::type_invalid(path, &json!(actual), &detail));
    }
    fits
}

fn check_string(schema: &Schema, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        errors.push(FieldError::too_long(path, max));
    }
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, &json!(text), &detail));
    if let Some(min) = schema.min_length.filter(|min| length < *min) {
        refuse(format!("{path} in body should be at least {min} chars long"));
    }
    if let Some((source, Some(pattern))) = &schema.pattern
        && !pattern.is_match(text)
    {
        refuse(format!("{path} in body should match '{source}'"));
    }
    if !schema.format.is_empty() && !has_format(&schema.format, text) {
        let detail = format!("{path} in body must be of type {}: {text:?}", schema.format);
        errors.push(FieldError::type_invalid(path, &json!(text), &detail));
    }
}

fn check_number(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(number) = value.as_f64() else { return };
    let (kind, range) = match schema.format.as_str() {
        "int32" => ("integer", f64::from(i32::MIN)..=f64::from(i32::MAX)),
        "float" => ("number", f64::from(f32::MIN)..=f64::from(f32::MAX)),
        _ => ("", f64::MIN..=f64::MAX),
    };
    if !range.contains(&number) {
        let detail = format!("Checked value must be of type {kind} with format {} in {path}", schema.format);
        errors.push(FieldError::invalid("", &json!(""), &detail));
    }
    let mut refuse =
        |detail: String| errors.push(FieldError::invalid(path, value, &format!("{path} in body {detail}")));
    if let Some(factor) = schema.multiple_of {
        let ratio = number / factor;
        if (ratio - ratio.round()).abs() > 1e-9 {
            refuse(format!("should be a multiple of {factor}"));
        }
    }
    if let Some((max, exclusive)) = schema.maximum {
        if exclusive && number >= max {
            refuse(format!("should be less than {max}"));
        } else if number > max {
            refuse(format!("should be less than or equal to {max}"));
        }
    }
    if let Some((min, exclusive)) = schema.minimum {
        if exclusive && number <= min {
            refuse(format!("should be greater than {min}"));
        } else if number < min {
            refuse(format!("should be greater than or equal to {min}"));
        }
    }
}

fn check_array(
    schema: &Schema,
    items: &[Value],
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(max) = schema.max_items.filter(|max| items.len() as u64 > *max) {
        errors.push(FieldError::too_many(path, items.len(), max));
    }
    if let Some(min) = schema.min_items.filter(|min| (items.len() as u64) < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        errors.push(FieldError::invalid(path, &json!(items.len()), &detail));
    }
    let before = Before::of(&schema.list, old.and_then(Value::as_array));
    if let Some(each) = &schema.items {
        for (index, value) in items.iter().enumerate() {
            check(each, value, before.of_item(index, value), &item(path, index), errors);
        }
    }
    check_uniqueness(schema, items, path, errors);
}

/// What distinguishes an item of a list from the others; `None` where its place does.
fn identity(list: &ListType, value: &Value) -> Option<Value> {
    match list {
        ListType::Atomic => None,
        ListType::Set => Some(value.clone()),
        ListType::Map(keys) => {
            Some(keys.iter().filter_map(|key| Some((key.clone(), value.get(key)?.clone()))).collect())
        }
    }
}

/// The items that a list had, by what distinguishes them.
struct Before<'a> {
    list: &'a ListType,
    items: &'a [Value],
    identified: HashMap<Value, &'a Value>,
}

impl<'a> Before<'a> {
    fn of(list: &'a ListType, items: Option<&'a Vec<Value>>) -> Before<'a> {
        let items = items.map(Vec::as_slice).unwrap_or_default();
        let identified = items.iter().filter_map(|item| Some((identity(list, item)?, item))).collect();
        Before { list, items, identified }
    }

    fn of_item(&self, index: usize, value: &Value) -> Option<&'a Value> {
        match identity(self.list, value) {
            Some(identity) => self.identified.get(&identity).copied(),
            None => self.items.get(index),
        }
    }
}

fn check_uniqueness(schema: &Schema, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (index, value) in items.iter().enumerate() {
        let Some(identity) = identity(&schema.list, value) else { return };
        if seen.contains(&identity) {
            errors.push(FieldError::duplicate(&item(path, index), &identity));
        } else {
            seen.insert(identity);
        }
    }
}

fn check_object(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Value::Object(map) = value else { return };
    if let Some(max) = schema.max_properties.filter(|max| map.len() as u64 > *max) {
        errors.push(FieldError::too_many(path, map.len(), max));
    }
    if let Some(min) = schema.min_properties.filter(|min| (map.len() as u64) < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        errors.push(FieldError::invalid(path, &json!(map.len()), &detail));
    }
    for name in schema.required.iter().filter(|name| !map.contains_key(*name)) {
        errors.push(FieldError::required(&child(path, name), ""));
    }
    if schema.embedded {
        for name in ["apiVersion", "kind"] {
            match map.get(name).and_then(Value::as_str) {
                None => errors.push(FieldError::required(&child(path, name), "must not be empty")),
                Some("") => {
                    errors.push(FieldError::invalid(&child(path, name), &json!(""), "must not be empty"));
                }
                Some(_) => {}
            }
        }
    }
    for (name, inner) in map {
        let before = old.and_then(|old| old.get(name));
        match (schema.properties.get(name), &schema.additional) {
            (Some(property), _) => check(property, inner, before, &child(path, name), errors),
            (None, Additional::Each(each)) => check(each, inner, before, &child(path, name), errors),
            (None, Additional::Forbidden) => {
                let detail = format!("{path}.{name} in body is a forbidden property");
                errors.push(FieldError::invalid(path, &json!(""), &detail));
            }
            (None, Additional::Unsaid | Additional::Anything) => {}
        }
    }
}

fn check_combinations(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let verdicts = |branches: &[Schema]| -> Vec<Vec<FieldError>> {
        let judge = |branch: &Schema| {
            let mut found = Vec::new();
            check(branch, value, None, path, &mut found);
            found
        };
        branches.iter().map(judge).collect()
    };
    let sentence = |text: String| FieldError::invalid("", &json!(""), &text);
    for found in verdicts(&schema.all_of) {
        errors.extend(found);
    }
    if !schema.any_of.is_empty() {
        let found = verdicts(&schema.any_of);
        if found.iter().all(|errors| !errors.is_empty()) {
            errors.push(sentence(format!("{path:?} must validate at least one schema (anyOf)")));
            errors.extend(found.into_iter().min_by_key(Vec::len).unwrap_or_default());
        }
    }
    if !schema.one_of.is_empty() {
        let found = verdicts(&schema.one_of);
        let valid = found.iter().filter(|errors| errors.is_empty()).count();
        let text = |why: &str| format!("{path:?} must validate one and only one schema (oneOf). {why}");
        if valid == 0 {
            errors.push(sentence(text("Found none valid")));
            errors.extend(found.into_iter().min_by_key(Vec::len).unwrap_or_default());
        } else if valid > 1 {
            errors.push(sentence(text(&format!("Found {valid} valid alternatives"))));
        }
    }
    if let Some(not) = &schema.not
        && verdicts(std::slice::from_ref(&**not)).concat().is_empty()
    {
        errors.push(sentence(format!("{path:?} must not validate the schema (not)")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(schema: Value, value: Value) -> Vec<String> {
        validate(&Schema::parse(&schema), &value, None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn violations_read_as_kubernetes_writes_them() {
        let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "required": ["must"],
            "properties": {
                "n": { "type": "integer", "minimum": 1, "maximum": 5 },
                "s": { "type": "string", "pattern": "^a", "maxLength": 3, "enum": ["abc", "b"] },
                "l": { "type": "array", "maxItems": 1, "items": { "type": "string" } },
                "ip": { "type": "string", "format": "ipv4" },
        }}}});
        let value = json!({ "spec": { "n": 0, "s": "bcde", "l": [1, "x"], "ip": "1.2.3" } });
        assert_eq!(
            complaints(schema, value),
            [
                "spec.must: Required value",
                "spec.ip: Invalid value: \"1.2.3\": spec.ip in body must be of type ipv4: \"1.2.3\"",
                "spec.l: Too many: 2: must have at most 1 item",
                "spec.l[0]: Invalid value: \"integer\": spec.l[0] in body must be of type string: \"integer\"",
                "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1",
                "spec.s: Unsupported value: \"bcde\": supported values: \"abc\", \"b\"",
                "spec.s: Too long: may not be more than 3 bytes",
                "spec.s: Invalid value: \"bcde\": spec.s in body should match '^a'",
            ]
        );
    }

    #[test]
    fn keyed_lists_hold_each_key_once() {
        let schema = json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                             "items": { "type": "object" } });
        let found = complaints(schema, json!([{ "name": "a", "v": 1 }, { "name": "a", "v": 2 }]));
        assert_eq!(found, ["[1]: Duplicate value: {\"name\":\"a\"}"]);
    }

    #[test]
    fn what_did_not_change_is_not_judged_again() {
        let schema =
            Schema::parse(&json!({ "properties": { "a": { "type": "string" }, "b": { "type": "string" } } }));
        let old = json!({ "a": 1 });
        assert!(validate(&schema, &json!({ "a": 1, "b": "x" }), Some(&old)).is_empty());
        assert_eq!(validate(&schema, &json!({ "a": 2 }), Some(&old)).len(), 1);
    }

    #[test]
    fn numbers_fit_their_formats() {
        for (schema, number, fits) in [
            (json!({ "type": "integer", "format": "int32" }), json!(2_147_483_647), true),
            (json!({ "type": "integer", "format": "int32" }), json!(3_000_000_000_u32), false),
            (json!({ "type": "integer", "format": "int64" }), json!(i64::MAX), true),
            (json!({ "type": "integer" }), json!(u64::MAX), false),
            (json!({ "type": "integer" }), json!(1e300), false),
            (json!({ "type": "number", "format": "float" }), json!(1e39), false),
            (json!({ "type": "number", "format": "double" }), json!(1e300), true),
        ] {
            assert_eq!(complaints(schema.clone(), number.clone()).is_empty(), fits, "{schema} {number}");
        }
    }

    #[test]
    fn exactly_one_alternative_must_hold() {
        let schema = json!({ "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
        assert!(complaints(schema.clone(), json!({ "a": 1 })).is_empty());
        assert!(
            complaints(schema.clone(), json!({ "a": 1, "b": 1 }))[0].contains("Found 2 valid alternatives")
        );
        assert_eq!(complaints(schema, json!({})).len(), 2);
        let number = json!({ "x-kubernetes-int-or-string": true });
        assert!(
            complaints(number.clone(), json!("5%")).is_empty() && complaints(number, json!(true)).len() == 1
        );
    }
}
