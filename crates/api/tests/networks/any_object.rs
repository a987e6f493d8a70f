//! Whatever an object holds, parsing it ends with a value.

use causeway_api::networks::parse;
use k8s_openapi::jiff::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::loose;

const NAMES: &[&str] = &[
    "cidr",
    "gateway",
    "provider",
    "networkId",
    "subnetId",
    "lastSyncTime",
    "observedGeneration",
    "conditions",
    "type",
    "status",
    "reason",
    "message",
    "lastTransitionTime",
    "",
];
const TEXTS: &[&str] =
    &["", "192.168.0.0/16", "192.168.0.1", "fd00:7::/64", "True", "Ready", "1970-01-01T00:00:00Z", "ü"];
const ANNOTATIONS: &[&str] = &["causeway/abandon", "causeway/adopt", "causeway/allow-replace", "x"];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(TEXTS).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(select(NAMES), inner, 0..8).prop_map(|fields| json!(fields)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn parsing_always_ends_with_a_value(
        spec in any_value(), status in any_value(), annotations in btree_map(select(ANNOTATIONS), any::<String>(), 0..4),
        now in 0_i64..4_000_000_000,
    ) {
        let metadata = json!({ "name": "a", "namespace": "ns1", "annotations": annotations });
        let network = parse::network(&loose(metadata.clone(), spec, status)).expect("a key");
        if let Err(why) = &network.spec {
            prop_assert!(!why.is_empty() && why.len() < 512, "{}", why);
        }
        let now = Timestamp::from_second(now).expect("a time");
        let written = parse::body(&network.status, now);
        let again = parse::network(&loose(metadata, Value::Null, written)).expect("a key");
        prop_assert_eq!(again.status, network.status, "what is read is written as it was");
    }
}
