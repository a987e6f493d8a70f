//! Whatever a spec and a status hold, parsing ends with a value, and a refusal names a field of the spec.

use causeway_api::rules::parse;
use causeway_core::rules::{Kind, convert};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::specs;

/// Names that mean something somewhere, and some that mean nothing.
const NAMES: &[&str] = &[
    "targets",
    "strategies",
    "action",
    "targetResourceName",
    "name",
    "kind",
    "metricType",
    "limitMode",
    "threshold",
    "statDurationSeconds",
    "minIntervalOfRequests",
    "queueTimeout",
    "maxConcurrency",
    "strategy",
    "triggerRatio",
    "statDuration",
    "recoveryTimeout",
    "minRequestAmount",
    "slowConditions",
    "maxAllowedRt",
    "errorConditions",
    "hosts",
    "http",
    "match",
    "route",
    "headers",
    "queryParams",
    "uri",
    "exact",
    "prefix",
    "regex",
    "destination",
    "host",
    "subset",
    "fallback",
    "weight",
    "gateways",
    "replicas",
    "conditions",
    "lastFailure",
    "time",
    "acked",
    "",
];

const TEXTS: &[&str] = &[
    "",
    "Local",
    "RequestAmount",
    "RateLimitStrategy",
    "SlowRequestRatio",
    "60%",
    "0.6",
    "5s",
    "0ms",
    "007ms",
    "0",
    "213503982334602d",
    "ü",
    "foo",
    "a|b",
    "1970-01-01T00:00:00Z",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec![0, 1, -1, i64::from(i32::MAX), i64::MAX, i64::MIN]).prop_map(Value::from),
        select(TEXTS).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(select(NAMES), inner, 0..6).prop_map(|fields| json!(fields)),
        ]
    })
}

/// A valid spec with something else in one place.
fn disturbed(kind: Kind, at: usize, value: Value) -> Value {
    fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
        all.push(here.to_owned());
        let inner: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(items) => {
                items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        inner.into_iter().for_each(|(name, value)| pointers(value, &format!("{here}/{name}"), all));
    }
    let mut spec = specs::of(kind);
    let mut all = Vec::new();
    pointers(&spec, "", &mut all);
    let place = spec.pointer_mut(&all[at % all.len()]).expect("it is there");
    *place = value;
    spec
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn parsing_always_ends_with_a_value(
        kind in select(&Kind::ALL[..]), at in any::<usize>(), value in any_value(), status in any_value(),
        near in any::<bool>(),
    ) {
        let spec = if near { disturbed(kind, at, value) } else { value };
        let meta = serde_json::from_value(json!({ "name": "a", "namespace": "ns1" })).expect("metadata");
        let object = parse::rule(kind, &meta, &spec, &status).expect("a key");
        match object.rule {
            Ok(rule) => {
                prop_assert_eq!(rule.kind(), kind);
                if let Err(refusal) = convert::message("ns1", "a", &rule) {
                    prop_assert!(refusal.field.starts_with("spec."), "{}", refusal);
                }
            }
            Err(refusal) => {
                prop_assert!(refusal.field.starts_with("spec"), "{}", refusal);
                prop_assert!(!refusal.why.is_empty());
            }
        }
    }
}
