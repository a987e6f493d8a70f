//! Fills in the defaults of a schema.

use serde_json::Value;

use super::{Additional, Schema};

/// An absent property gets its default; so does one that is null and may not be, or it goes.
pub(crate) fn apply_defaults(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let nullable = |name: &String| match (schema.properties.get(name), &schema.additional) {
                (Some(property), _) => property.nullable,
                (None, Additional::Each(each)) => each.nullable,
                (None, Additional::Unsaid | Additional::Forbidden | Additional::Anything) => true,
            };
            map.retain(|name, inner| !inner.is_null() || nullable(name));
            for (name, property) in &schema.properties {
                if !map.contains_key(name)
                    && let Some(default) = &property.default
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, inner) in map.iter_mut() {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => apply_defaults(property, inner),
                    (None, Additional::Each(each)) => apply_defaults(each, inner),
                    (None, Additional::Unsaid | Additional::Forbidden | Additional::Anything) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(each) = &schema.items {
                items.iter_mut().for_each(|inner| apply_defaults(each, inner));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_reach_into_lists_maps_and_other_defaults() {
        let schema = Schema::parse(&json!({ "properties": {
            "a": { "type": "object", "default": {}, "properties": { "b": { "type": "integer", "default": 1 } } },
            "list": { "type": "array", "items": { "properties": { "c": { "default": "x" } } } },
            "map": { "type": "object", "additionalProperties": { "properties": { "d": { "default": true } } } },
            "n": { "type": "string", "default": "filled" },
            "m": { "type": "string", "default": "filled", "nullable": true },
            "gone": { "type": "string" },
        }}));
        let mut value = json!({ "list": [{}], "map": { "k": {} }, "n": null, "m": null, "gone": null });
        apply_defaults(&schema, &mut value);
        let expected = json!({
            "a": { "b": 1 }, "list": [{ "c": "x" }], "map": { "k": { "d": true } }, "n": "filled", "m": null,
        });
        assert_eq!(value, expected);
    }
}
