//! Whether a CEL rule speaks of fields that its schema has. A rule about a field that cannot exist
//! would fail for every object: it is refused with the definition.
//!
//! Types are followed as far as they are plain: through `self`, members, indices and macros over
//! lists. Where the type is not known, nothing is claimed.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use serde_json::{Value, json};

/// Names in scope with their schemas, innermost last.
type Scope<'a> = Vec<(&'a str, Option<&'a Value>)>;

/// The first undefined field a rule of `schema` mentions. `root`: the schema is of whole objects.
pub(super) fn undefined(rule: &IdedExpr, schema: &Value, root: bool, optional_old: bool) -> Option<String> {
    let whole;
    let schema = if root {
        whole = with_type_fields(schema);
        &whole
    } else {
        schema
    };
    let old = (!optional_old).then_some(schema);
    let mut scope: Scope<'_> = vec![("self", Some(schema)), ("oldSelf", old)];
    let mut found = None;
    type_of(rule, &mut scope, &mut found);
    found
}

fn with_type_fields(schema: &Value) -> Value {
    let text = json!({ "type": "string" });
    let metadata = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut schema = schema.clone();
    schema["properties"]["apiVersion"] = text.clone();
    schema["properties"]["kind"] = text;
    schema["properties"]["metadata"] = metadata;
    schema
}

/// The schema of what an expression yields, where known.
fn type_of<'a>(expr: &'a IdedExpr, scope: &mut Scope<'a>, found: &mut Option<String>) -> Option<&'a Value> {
    match &expr.expr {
        Expr::Ident(name) => {
            scope.iter().rev().find(|(have, _)| have == name).and_then(|(_, schema)| *schema)
        }
        Expr::Select(select) => {
            let operand = type_of(&select.operand, scope, found)?;
            member(operand, &select.field, found)
        }
        Expr::Call(call) => {
            let target = call.target.as_ref().and_then(|target| type_of(target, scope, found));
            let arguments: Vec<_> =
                call.args.iter().map(|argument| type_of(argument, scope, found)).collect();
            match (call.func_name.as_str(), target.or(arguments.first().copied().flatten())) {
                ("_[_]", Some(container)) => element(container),
                _ => None,
            }
        }
        Expr::Comprehension(each) => {
            let range = type_of(&each.iter_range, scope, found);
            let depth = scope.len();
            // Over a list the variable is an item, over a map a key.
            scope.push((&each.iter_var, range.and_then(|range| range.get("items"))));
            scope.extend(each.iter_var2.as_deref().map(|name| (name, None)));
            scope.push((&each.accu_var, None));
            for part in [&each.accu_init, &each.loop_cond, &each.loop_step, &each.result] {
                type_of(part, scope, found);
            }
            scope.truncate(depth);
            None
        }
        Expr::List(list) => {
            for element in &list.elements {
                type_of(element, scope, found);
            }
            None
        }
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    type_of(&entry.key, scope, found);
                    type_of(&entry.value, scope, found);
                }
            }
            None
        }
        Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => None,
    }
}

fn member<'a>(schema: &'a Value, field: &str, found: &mut Option<String>) -> Option<&'a Value> {
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
    if let Some(property) = schema.get("properties").and_then(|properties| properties.get(field)) {
        return Some(property);
    }
    if let Some(each @ Value::Object(_)) = schema.get("additionalProperties") {
        return Some(each);
    }
    let open = flag("x-kubernetes-preserve-unknown-fields")
        || flag("x-kubernetes-embedded-resource")
        || schema.get("additionalProperties").is_some();
    // An escaped name stands for another one.
    if schema["type"] == "object" && !open && !field.contains("__") {
        found.get_or_insert_with(|| field.to_owned());
    }
    None
}

fn element(schema: &Value) -> Option<&Value> {
    schema.get("items").or_else(|| schema.get("additionalProperties")).filter(|schema| schema.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_cel::cel::Program;

    #[test]
    fn only_fields_that_cannot_exist_are_reported() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "integer" },
            "list": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "string" } } } },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
        }});
        let undefined_in =
            |rule: &str| undefined(Program::compile(rule).unwrap().expression(), &schema, false, false);
        assert_eq!(undefined_in("self.a > 1 && has(self.list) && self.map.any == 'x'"), None);
        assert_eq!(undefined_in("self.list.all(i, i.x != '') && self.list[0].x == 'y'"), None);
        assert_eq!(undefined_in("self.nobody > 1").as_deref(), Some("nobody"));
        assert_eq!(undefined_in("self.list.exists(i, i.z == 'a')").as_deref(), Some("z"));
    }
}
