//! The policy that refuses another range by mistake, which people apply beside the definition.

use kube_cel::{VapEvaluator, VapExpression};
use serde_json::{Value, json};

/// A condition and a validation of the shipped policy.
fn expressions() -> [VapExpression; 2] {
    let text = include_str!("../../../../deploy/networks-policy.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let spec = &documents[0]["spec"];
    assert_eq!(documents[1]["spec"]["policyName"], documents[0]["metadata"]["name"]);
    ["/matchConditions/0", "/validations/0"].map(|place| {
        let found = spec.pointer(place).expect("an expression");
        let text = found["expression"].as_str().expect("text");
        // This evaluator spells the keys of every map as if they were fields of a schema; API servers do not.
        let expression = text.replace("causeway/allow-replace", "causeway__slash__allow__dash__replace");
        assert_ne!(text.contains("annotations"), expression == text);
        VapExpression { expression, message: None, message_expression: None }
    })
}

/// Whether it lets an object be changed.
fn allows(old: Value, new: Value) -> bool {
    let evaluator = VapEvaluator::builder().object(new).old_object(old).build();
    let [is_meant, is_allowed] = &evaluator.evaluate(&expressions())[..] else { panic!("two results") };
    !is_meant.passed || is_allowed.passed
}

fn network(cidr: &str, annotations: Value, status: Value) -> Value {
    json!({ "metadata": { "name": "a", "annotations": annotations }, "spec": { "cidr": cidr }, "status": status })
}

#[test]
fn a_range_changes_only_where_the_object_says_that_it_may() {
    let made = || json!({ "subnetId": "91d0", "cidr": "10.8.0.0/24" });
    let old = || network("10.8.0.0/24", json!({}), made());
    let other = |annotations: Value| network("10.9.0.0/24", annotations, made());
    assert!(!allows(old(), other(json!({}))));
    assert!(!allows(old(), other(json!({ "causeway/allow-replace": "false" }))));
    assert!(!allows(old(), other(json!({ "causeway/abandon": "true" }))));
    assert!(allows(old(), other(json!({ "causeway/allow-replace": "true" }))));
    let mut bare = other(json!({}));
    bare["metadata"] = json!({ "name": "a" });
    assert!(!allows(old(), bare), "without any annotation");
}

#[test]
fn whatever_else_changes_and_the_way_back_are_nobodys_business() {
    let made = || json!({ "subnetId": "91d0", "cidr": "10.8.0.0/24" });
    let old = || network("10.8.0.0/24", json!({}), made());
    let mut gateway = old();
    gateway["spec"]["gateway"] = "10.8.0.7".into();
    assert!(allows(old(), gateway));
    // Accepted while the policy was not there, and taken back.
    assert!(allows(network("10.9.0.0/24", json!({}), made()), old()));
    // Nothing was made of it yet.
    for status in [json!({}), json!({ "conditions": [] })] {
        let changed = network("10.9.0.0/24", json!({}), status.clone());
        assert!(allows(network("10.8.0.0/24", json!({}), status), changed));
    }
    let mut new = old();
    new.as_object_mut().expect("an object").remove("status");
    assert!(allows(new, network("10.9.0.0/24", json!({}), json!({}))));
}
