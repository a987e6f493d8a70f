//! Drops what a schema does not know, and names it.

use serde_json::Value;

use super::{Additional, Schema, child, item};

/// Removes unknown fields from a whole object; returns their paths.
pub(crate) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_at(schema, object, "", true, &mut unknown);
    unknown
}

/// `whole`: the value is an object with kind and metadata of its own, which are never unknown.
fn prune_at(schema: &Schema, value: &mut Value, path: &str, whole: bool, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let keeps_all = schema.preserve_unknown || matches!(schema.additional, Additional::Anything);
            map.retain(|name, inner| {
                if whole && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                let here = child(path, name);
                match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => prune_at(property, inner, &here, property.embedded, unknown),
                    (None, Additional::Each(each)) => prune_at(each, inner, &here, each.embedded, unknown),
                    (None, Additional::Unsaid | Additional::Forbidden | Additional::Anything)
                        if keeps_all => {}
                    (None, Additional::Unsaid | Additional::Forbidden | Additional::Anything) => {
                        unknown.push(here);
                        return false;
                    }
                }
                true
            });
        }
        Value::Array(items) => {
            if let Some(each) = &schema.items {
                for (index, inner) in items.iter_mut().enumerate() {
                    prune_at(each, inner, &item(path, index), each.embedded, unknown);
                }
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
    fn only_what_the_schema_knows_is_kept() {
        let schema = Schema::parse(&json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "known": { "type": "string" },
                "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                          "properties": { "inner": { "type": "object" } } },
                "template": { "type": "object", "x-kubernetes-embedded-resource": true },
                "list": { "type": "array", "items": { "type": "object" } },
            }},
        }}));
        let mut value = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": { "name": "n" }, "stray": 1,
            "spec": { "known": "k", "unknown": 1, "open": { "x": 1, "inner": { "y": 1 } },
                      "template": { "kind": "T", "metadata": {}, "z": 1 }, "list": [{ "w": 1 }] },
        });
        let mut unknown = prune(&schema, &mut value);
        unknown.sort();
        assert_eq!(
            unknown,
            ["spec.list[0].w", "spec.open.inner.y", "spec.template.z", "spec.unknown", "stray"]
        );
        assert_eq!(
            value["spec"],
            json!({
                "known": "k", "open": { "x": 1, "inner": {} }, "template": { "kind": "T", "metadata": {} }, "list": [{}],
            })
        );
    }
}
