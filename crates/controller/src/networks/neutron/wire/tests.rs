use proptest::prelude::*;
use serde_json::json;

use super::*;

fn subnet(change: impl FnOnce(&mut Value)) -> Result<HeldSubnet, String> {
    let mut value = json!({
        "id": "s1", "network_id": "n1", "name": "a", "description": "", "tags": ["b"], "revision_number": 3,
        "cidr": "10.1.0.0/24", "gateway_ip": "10.1.0.1",
        "allocation_pools": [{"start": "10.1.0.9", "end": "10.1.0.20"}, {"start": "10.1.0.2", "end": "10.1.0.4"}],
    });
    change(&mut value);
    let row = Row::new("subnet", value).map_err(|trouble| trouble.to_string())?;
    row.subnet().map_err(|trouble| trouble.to_string())
}

#[test]
fn a_subnet_is_read_field_by_field() {
    let read = subnet(|_| {}).expect("a subnet");
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(read.pools[0], (address("10.1.0.2"), address("10.1.0.4")), "in order");
    assert_eq!((read.revision, read.gateway), (Some(3), Some(address("10.1.0.1"))));
}

#[test]
fn what_is_null_or_missing_is_empty() {
    let read = subnet(|it| {
        for field in ["name", "description", "tags", "gateway_ip", "allocation_pools", "revision_number"] {
            it[field] = Value::Null;
        }
    });
    let read = read.expect("a subnet");
    assert_eq!((read.name, read.description.as_str(), read.tags.len()), (None, "", 0));
    assert_eq!((read.gateway, read.pools.len(), read.revision), (None, 0, None));
}

#[test]
fn what_is_not_understood_is_named() {
    let odd = |field: &str, value: Value| subnet(|it| it[field] = value).expect_err("odd");
    let why = "the cloud does not answer: subnet s1: its";
    assert_eq!(odd("cidr", json!("ten")), format!("{why} cidr is not understood: \"ten\""));
    assert_eq!(odd("cidr", Value::Null), format!("{why} cidr is not understood: null"));
    assert_eq!(odd("gateway_ip", json!(7)), format!("{why} gateway_ip is not understood: 7"));
    assert_eq!(odd("tags", json!({})), format!("{why} tags is not understood: {{}}"));
    assert!(
        odd("allocation_pools", json!([{"start": "10.1.0.1"}]))
            .starts_with(&format!("{why} allocation_pools"))
    );
    for id in [json!(""), json!("../networks"), json!("a b"), Value::Null, json!("x".repeat(65))] {
        assert_eq!(odd("id", id), "the cloud does not answer: what was answered is a subnet without an id");
    }
}

/// Anything that JSON can be, often with names that we read.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(10\\.0\\.0\\.0/8|::1|[0-9a-f:./]{0,12}|\\PC{0,8})".prop_map(Value::from),
    ];
    let names: Vec<&str> =
        NETWORK.iter().chain(SUBNET).chain(&["start", "end", "network", "subnet"]).copied().collect();
    leaf.prop_recursive(4, 64, 12, move |inner| {
        let name = prop::sample::select(names.clone()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..12)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_answer_is_understood_or_an_error_that_can_be_read(mut value in anything(), has_id in any::<bool>()) {
        if has_id && value.is_object() {
            value["id"] = "a".into();
        }
        let mut said = Vec::new();
        said.extend(tags(&value).err());
        said.extend(Row::only("network", value.clone()).err());
        match Row::new("network", value) {
            Ok(row) => {
                said.extend(row.network().err());
                said.extend(row.subnet().err());
                said.extend(row.subnets().err());
            }
            Err(trouble) => said.push(trouble),
        }
        for trouble in said {
            let words = trouble.to_string();
            prop_assert!(words.len() < 600 && !words.chars().any(char::is_control), "{}", words);
        }
    }
}
