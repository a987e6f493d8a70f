//! A custom resource's schema, parsed once per definition: `prune` drops what it does not know,
//! `default` fills in what is absent, `validate` says what is wrong, `rules` asks its CEL rules.
//!
//! The order on a write is always that one.

mod deep;
mod default;
mod format;
mod prune;
mod rule_types;
mod rules;
mod structural;
mod validate;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

pub(crate) use default::apply_defaults;
pub(crate) use prune::prune;
pub(crate) use rules::Rules;
pub(crate) use structural::check as check_structural;
pub(crate) use validate::validate;

/// One node of a structural schema.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// Empty when any type will do.
    kind: String,
    nullable: bool,
    properties: BTreeMap<String, Schema>,
    additional: Additional,
    items: Option<Box<Schema>>,
    required: Vec<String>,
    allowed: Vec<Value>,
    pattern: Option<(String, Option<Regex>)>,
    format: String,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    default: Option<Value>,
    preserve_unknown: bool,
    embedded: bool,
    int_or_string: bool,
    list: ListType,
}

/// What `additionalProperties` allows.
#[derive(Debug, Default)]
enum Additional {
    #[default]
    Unsaid,
    Forbidden,
    Anything,
    Each(Box<Schema>),
}

/// Which items of a list exclude each other.
#[derive(Debug, Default)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl Schema {
    /// Reads a schema; what is not a schema keyword is ignored, as it was checked before.
    pub(crate) fn parse(source: &Value) -> Schema {
        let flag = |key: &str| source.get(key).and_then(Value::as_bool).unwrap_or(false);
        let text = |key: &str| source.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let count = |key: &str| source.get(key).and_then(Value::as_u64);
        let list = |key: &str| source.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let schemas = |key: &str| list(key).iter().map(Schema::parse).collect::<Vec<_>>();
        let boxed = |key: &str| source.get(key).filter(|s| s.is_object()).map(|s| Box::new(Schema::parse(s)));
        let bound = |key: &str, exclusive: &str| {
            source.get(key).and_then(Value::as_f64).map(|n| (n, flag(exclusive)))
        };
        let strings = |key: &str| {
            list(key).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>()
        };
        let properties = source.get("properties").and_then(Value::as_object);
        Schema {
            kind: text("type"),
            nullable: flag("nullable"),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), Schema::parse(v)))
                .collect(),
            additional: match source.get("additionalProperties") {
                Some(Value::Bool(true)) => Additional::Anything,
                Some(Value::Bool(false)) => Additional::Forbidden,
                Some(each @ Value::Object(_)) => Additional::Each(Box::new(Schema::parse(each))),
                _ => Additional::Unsaid,
            },
            items: boxed("items"),
            required: strings("required"),
            allowed: list("enum"),
            pattern: source
                .get("pattern")
                .and_then(Value::as_str)
                .map(|p| (p.to_owned(), Regex::new(p).ok())),
            format: text("format"),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: source.get("multipleOf").and_then(Value::as_f64),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: boxed("not"),
            default: source.get("default").cloned(),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list: match text("x-kubernetes-list-type").as_str() {
                "set" => ListType::Set,
                "map" => ListType::Map(strings("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
        }
    }
}

/// `a.b` from `a` and `b`; `b` alone at the root.
fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// `a[0]` from `a` and 0.
fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
