//! Objects as people write them become the values that decisions rest on.

use causeway_api::networks::{LooseNetwork, parse, reference};
use causeway_core::networks::NetworkStatus;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{loose, object, parsed};

#[test]
fn the_well_known_sample_is_a_network() {
    let sample: LooseNetwork =
        serde_saphyr::from_str(include_str!("../../../../samples/networks/network.yaml")).expect("a network");
    let mut sample = sample;
    sample.metadata.namespace = Some("default".into());
    let network = parse::network(&sample).expect("a key");
    assert_eq!(network.key.to_string(), "default/example-network");
    let spec = network.spec.expect("valid");
    assert_eq!(
        (spec.cidr.to_string(), spec.gateway.to_string()),
        ("192.168.0.0/16".into(), "192.168.0.1".into())
    );
    assert!(!network.abandon && !network.may_replace && network.adopt.is_none());
}

#[test]
fn without_a_gateway_it_is_the_first_address_of_a_host() {
    let gateway = |spec: Value| parsed(&spec).expect("valid").gateway.to_string();
    assert_eq!(gateway(json!({ "cidr": "10.8.0.0/24" })), "10.8.0.1");
    assert_eq!(gateway(json!({ "cidr": "fd00:7::/64", "gateway": null })), "fd00:7::1");
}

#[test]
fn annotations_say_true_or_nothing() {
    let annotated = |annotations: Value| {
        let metadata = json!({ "name": "a", "namespace": "ns1", "annotations": annotations });
        let network = parse::network(&loose(metadata, json!({ "cidr": "10.8.0.0/24" }), Value::Null));
        network.map(|it| (it.abandon, it.may_replace, it.adopt)).expect("a key")
    };
    let all =
        json!({ "causeway/abandon": "true", "causeway/allow-replace": "true", "causeway/adopt": "7a1c" });
    assert_eq!(annotated(all), (true, true, Some("7a1c".into())));
    let none = json!({ "causeway/abandon": "yes", "causeway/allow-replace": "True", "causeway/adopt": "" });
    assert_eq!(annotated(none), (false, false, None));
}

#[test]
fn what_cannot_be_read_is_a_sentence_and_the_rest_is_kept() {
    let metadata = json!({
        "name": "a", "namespace": "ns1", "uid": "u", "resourceVersion": "7", "generation": 3,
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["causeway/network", "theirs"],
    });
    let status = json!({ "networkId": "7a1c", "subnetId": 5, "conditions": [{ "type": "Odd" }] });
    for spec in [Value::Null, json!({}), json!({ "cidr": 7 }), json!("x".repeat(100_000)), json!([])] {
        let network = parse::network(&loose(metadata.clone(), spec.clone(), status.clone())).expect("a key");
        let why = network.spec.clone().expect_err("no spec");
        assert!(why.starts_with("the object cannot be read: ") && why.len() < 512, "{spec}: {why}");
        assert!(network.deleting && network.is_held() && network.generation == 3);
        assert_eq!(network.status.network_id.as_deref(), Some("7a1c"), "what can be read counts");
        assert_eq!(network.status.subnet_id, None);
    }
}

#[test]
fn a_name_that_no_cloud_takes_is_told() {
    let named = |name: &str| {
        let metadata = json!({ "name": name, "namespace": "n".repeat(63) });
        parse::network(&loose(metadata, json!({ "cidr": "10.8.0.0/24" }), Value::Null)).expect("a key").spec
    };
    assert!(named(&"a".repeat(191)).is_ok(), "255 with the slash");
    let why = named(&"a".repeat(192)).expect_err("256");
    assert!(why.contains("256 characters") && why.contains("at most 255"), "{why}");
}

#[test]
fn a_status_is_written_as_it_is_read() {
    let time = |second: i64| Timestamp::from_second(second).expect("a time");
    let mut status = NetworkStatus {
        provider: Some("openstack".into()),
        network_id: Some("7a1c".into()),
        subnet_id: Some("91d0".into()),
        cidr: Some("10.8.0.0/24".into()),
        gateway: Some("10.8.0.1".into()),
        observed_generation: Some(2),
        ..NetworkStatus::default()
    };
    status.conditions.set("Ready", false, "Syncing", "next: create it".into(), 2);
    assert_eq!(parse::body(&status, time(60))["lastSyncTime"], Value::Null, "it never was as declared");
    status.conditions.set("Ready", true, "Synced", "it is as declared".into(), 2);
    let body = parse::body(&status, time(60));
    assert_eq!(body["lastSyncTime"], "1970-01-01T00:01:00Z", "with this write");
    let mut object = object(json!({ "cidr": "10.8.0.0/24" }));
    object.status = body;
    let read = parse::network(&object).expect("a key").status;
    assert_eq!(read.synced, Some(60));
    assert_eq!(read.conditions.get("Ready").and_then(|ready| ready.since), Some(60));
    assert_eq!((&read.network_id, &read.subnet_id), (&status.network_id, &status.subnet_id));
    assert_eq!(parse::body(&read, time(90)), object.status, "later writes keep both times");
}

#[test]
fn an_event_refers_to_the_object() {
    let key = causeway_core::ObjectKey::new("default", "a").expect("a key");
    let about = reference(&key, "u");
    assert_eq!(about.api_version.as_deref(), Some("samplecrd.k8s.io/v1"));
    assert_eq!((about.kind.as_deref(), about.uid.as_deref()), (Some("Network"), Some("u")));
    assert_eq!((about.namespace.as_deref(), about.name.as_deref()), (Some("default"), Some("a")));
}
