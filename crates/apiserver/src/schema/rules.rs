//! A schema's CEL rules, compiled once.

use std::sync::{Mutex, PoisonError};

use kube_cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use serde_json::Value;

use super::deep::{in_place, is_shallow, on_a_deep_stack};
use crate::status::FieldError;

/// The rules of one schema; `None` inside when it has none, which costs nothing to ask.
pub(crate) struct Rules {
    /// A sentence instead when they could not be compiled: then no object can be said to obey them.
    compiled: Option<Result<Compiled, String>>,
}

struct Compiled {
    rules: Mutex<(CompiledSchema, Validator)>,
    /// Whether an ordinary stack is enough for all of them.
    shallow: bool,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("any", &self.any()).finish()
    }
}

impl Rules {
    pub(crate) fn compile(schema: &Value) -> Rules {
        if !mentions_rules(schema) {
            return Rules { compiled: None };
        }
        let mut schema = schema.clone();
        make_old_optional(&mut schema);
        let compiled = on_a_deep_stack(|| Compiled {
            rules: Mutex::new((compile_schema(&schema), Validator::new())),
            shallow: expressions(&schema).into_iter().all(is_shallow),
        });
        Rules { compiled: Some(compiled) }
    }

    /// Whether there is anything to ask.
    pub(crate) fn any(&self) -> bool {
        self.compiled.is_some()
    }

    /// Rules broken by `object`. A rule about an unchanged part is not asked again, unless it
    /// compares with the old value.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        let judged = compiled.as_ref().map_err(String::clone).and_then(|compiled| {
            let ask = || {
                let rules = compiled.rules.lock().unwrap_or_else(PoisonError::into_inner);
                rules.1.validate_compiled(&rules.0, object, old).err()
            };
            if compiled.shallow { in_place(ask) } else { on_a_deep_stack(ask) }
        });
        let broken = match judged {
            Ok(broken) => broken,
            Err(why) => {
                return vec![FieldError::invalid_tree("", &format!("rules could not be evaluated: {why}"))];
            }
        };
        let mut errors = Vec::new();
        for error in broken.into_iter().flatten() {
            let value = at(object, &error.field_path);
            let unchanged = value.is_some() && old.and_then(|old| at(old, &error.field_path)) == value;
            if !unchanged || error.rule.contains("oldSelf") {
                errors.push(field_error(&error, value));
            }
        }
        // The evaluator walks properties in no particular order.
        errors.sort_by(|a, b| a.field.cmp(&b.field));
        errors
    }
}

fn field_error(error: &kube_cel::ValidationError, value: Option<&Value>) -> FieldError {
    let path = &error.field_path;
    let detail = match error.kind {
        ErrorKind::ValidationFailure => error.message.clone(),
        _ => format!("{} evaluating rule: {}", error.message, error.rule),
    };
    let detail = detail.replace(OPTIONAL_OLD, "oldSelf");
    match error.reason.as_deref() {
        Some("FieldValueForbidden") => return FieldError::forbidden(path, &detail),
        Some("FieldValueRequired") => return FieldError::required(path, &detail),
        _ => {}
    }
    match value {
        Some(scalar) if !scalar.is_object() && !scalar.is_array() => {
            FieldError::invalid(path, scalar, &detail)
        }
        // Whole trees are not quoted back.
        _ => FieldError::invalid_tree(path, &detail),
    }
}

/// The value at a path like `spec.list[0].name`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut here = object;
    for part in path.split(['.', '[']).filter(|part| !part.is_empty()) {
        here = match part.strip_suffix(']') {
            Some(index) => here.get(index.parse::<usize>().ok()?)?,
            None => here.get(part)?,
        };
    }
    Some(here)
}

/// A rule with `optionalOldSelf` sees the old value as an optional; the evaluator offers it bare, or
/// null when there is none.
fn make_old_optional(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("optionalOldSelf") == Some(&Value::Bool(true)) {
                for key in ["rule", "messageExpression"] {
                    if let Some(Value::String(source)) = map.get_mut(key) {
                        *source = replace_word(source, "oldSelf", OPTIONAL_OLD);
                    }
                }
            }
            map.values_mut().for_each(make_old_optional);
        }
        Value::Array(items) => items.iter_mut().for_each(make_old_optional),
        _ => {}
    }
}

const OPTIONAL_OLD: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";

/// Replaces a name where it stands alone and outside of quotes.
fn replace_word(source: &str, word: &str, by: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let (mut quote, mut before) = (None, ' ');
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let whole = !(before.is_alphanumeric() || before == '_' || before == '.');
        if quote.is_none() && whole && rest.starts_with(word) {
            let after = rest[word.len()..].chars().next().unwrap_or(' ');
            if !(after.is_alphanumeric() || after == '_') {
                out.push_str(by);
                rest = &rest[word.len()..];
                before = 'x';
                continue;
            }
        }
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open && before != '\\' => quote = None,
            _ => {}
        }
        out.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Every expression in a schema, and perhaps texts that only look like one.
fn expressions(schema: &Value) -> Vec<&str> {
    match schema {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| match value {
                Value::String(text) if ["rule", "messageExpression"].contains(&key.as_str()) => {
                    vec![text.as_str()]
                }
                _ => expressions(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

fn mentions_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            map.contains_key("x-kubernetes-validations") || map.values().any(mentions_rules)
        }
        Value::Array(items) => items.iter().any(mentions_rules),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> Rules {
        Rules::compile(&json!({ "type": "object", "properties": { "spec": {
            "type": "object",
            "x-kubernetes-validations": [{ "rule": "self.min <= self.max", "message": "min must not exceed max" }],
            "properties": {
                "min": { "type": "integer" }, "max": { "type": "integer" },
                "name": { "type": "string",
                    "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "is immutable" }] },
            },
        }}}))
    }

    #[test]
    fn a_broken_rule_names_its_field() {
        let errors = rules().check(&json!({ "spec": { "min": 2, "max": 1 } }), None);
        assert_eq!(errors[0].to_string(), "spec: Invalid value: min must not exceed max");
    }

    #[test]
    fn a_transition_rule_compares_with_what_was() {
        let old = json!({ "spec": { "min": 1, "max": 2, "name": "a" } });
        let new = json!({ "spec": { "min": 1, "max": 2, "name": "b" } });
        let errors = rules().check(&new, Some(&old));
        assert_eq!(errors[0].to_string(), "spec.name: Invalid value: \"b\": is immutable");
        assert!(rules().check(&new, None).is_empty());
    }

    #[test]
    fn an_optional_old_value_is_seen_at_creation_too() {
        let rules = Rules::compile(&json!({ "type": "integer", "x-kubernetes-validations": [{
            "rule": "!oldSelf.hasValue() ? self < 10 : self >= oldSelf.value()", "optionalOldSelf": true }] }));
        assert!(rules.check(&json!(5), None).is_empty());
        assert_eq!(rules.check(&json!(11), None).len(), 1);
        assert!(rules.check(&json!(11), Some(&json!(5))).is_empty());
        assert_eq!(rules.check(&json!(4), Some(&json!(5))).len(), 1);
    }

    #[test]
    fn the_longest_chains_are_evaluated_and_dropped_without_running_out_of_stack() {
        let fits = |start: &str, link: &str| {
            let links = (super::super::deep::MAX_LENGTH - start.len() - 16) / link.len();
            format!("{start}{} != 'x'", link.repeat(links))
        };
        for source in [
            fits("self.n", ".a"),
            fits("dyn", "[0]"),
            format!("{} != 1", fits("1", "+1").replace(" != 'x'", "")),
        ] {
            let schema = json!({ "type": "object", "x-kubernetes-validations": [{ "rule": source }] });
            let _ = Rules::compile(&schema).check(&json!({ "n": {} }), None);
        }
    }

    #[test]
    fn an_overflow_breaks_the_rule_and_nothing_else() {
        let rules = Rules::compile(&json!({ "type": "integer", "x-kubernetes-validations": [
            { "rule": "self + 9223372036854775807 > 0" }] }));
        assert_eq!(rules.check(&json!(1), None).len(), 1);
        assert!(rules.check(&json!(0), None).is_empty());
    }

    #[test]
    fn an_unchanged_part_is_not_judged_again() {
        let old = json!({ "spec": { "min": 3, "max": 2 }, "status": 1 });
        let new = json!({ "spec": { "min": 3, "max": 2 }, "status": 2 });
        assert!(rules().check(&new, Some(&old)).is_empty());
    }
}
