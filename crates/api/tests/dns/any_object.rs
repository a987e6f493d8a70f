//! Objects come from people and from other software: whatever their fields say, parsing them ends with a value, and what
//! was put there is taken away again.

use std::net::Ipv4Addr;

use causeway_api::dns::workload::{Deployment, Service};
use causeway_api::dns::{LooseForward, parse, patch, record};
use causeway_core::dns::Route;
use causeway_core::dns::deployment::{Inherited, Want, plan};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{new_form, old_form};

/// Any JSON, or something that could be meant.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "10.96.0.10",
            "init-route",
            "-c",
            "sh",
            "ovn-default",
            "[]",
            "None"
        ])
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = prop::sample::select(vec![
            "vpc",
            "name",
            "command",
            "args",
            "initContainers",
            "annotations",
            "template",
            "spec",
            "metadata",
            "dst",
            "gw",
            "clusterIP",
            "clusterIPs",
            "conditions",
            "corefiles",
            "causeway/vpc-dns-route",
            "x.kubernetes.io/routes",
            "x.kubernetes.io/logical_switch",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

/// A list as anybody may write it.
fn any_list() -> impl Strategy<Value = String> {
    let pretty = prop::collection::vec(any_value(), 0..4)
        .prop_map(|list| serde_json::to_string_pretty(&list).expect("JSON"));
    let plain = prop::collection::vec(any_value(), 0..4).prop_map(|list| json!(list).to_string());
    prop_oneof![pretty, plain, ".*"]
}

/// An object after a patch as an API server merges it, as far as these patches go.
fn patched(mut object: Value, body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(inits) = body.pointer_mut("/spec/template/spec/initContainers").map(Value::take) {
        let fields = inits[0].as_object().expect("a container").clone();
        let all = object["spec"]["template"]["spec"]["initContainers"].as_array_mut().expect("a list");
        let own = all.iter_mut().find(|it| it["name"] == fields["name"]).expect("the container");
        own.as_object_mut().expect("a container").extend(fields);
        body["spec"]["template"].as_object_mut().expect("a template").remove("spec");
    }
    json_patch::merge(&mut object, &body);
    // An API server leaves no empty maps behind; neither does this.
    if object
        .pointer("/metadata/annotations")
        .is_some_and(|it| it.as_object().is_some_and(serde_json::Map::is_empty))
    {
        object["metadata"].as_object_mut().expect("metadata").remove("annotations");
    }
    object
}

fn read(object: &Value) -> causeway_core::dns::Deployment {
    let object: Deployment = serde_json::from_value(object.clone()).expect("a Deployment");
    parse::deployment(&object).expect("of a DNS server")
}

proptest! {
    #[test]
    fn parsing_always_ends_with_a_value(spec in any_value(), status in any_value(), meta in any_value(), text in ".*") {
        let forward = json!({ "metadata": { "name": "f", "namespace": "n" }, "spec": spec, "status": status });
        let forward: LooseForward = serde_json::from_value(forward).expect("a forward");
        parse::forward(&forward).expect("a key");
        let template = json!({ "metadata": meta, "spec": status });
        let object = json!({ "metadata": { "name": "vpc-dns-x" }, "spec": { "template": template } });
        if let Ok(object) = serde_json::from_value::<Deployment>(object) {
            let have = parse::deployment(&object).expect("of a DNS server");
            let route = Route { to: Ipv4Addr::new(10, 96, 0, 10), via: Ipv4Addr::new(10, 244, 0, 1) };
            if let Some(edit) = plan(&have, Want::Route(route, Inherited::Theirs), Some("x")).edit {
                patch::deployment(&edit, &have);
            }
        }
        if let Ok(service) = serde_json::from_value::<Service>(json!({ "metadata": {}, "spec": spec })) {
            let _ = parse::address(&service);
        }
        let _ = record::read(&text);
    }

    #[test]
    fn what_is_put_into_any_deployment_is_taken_away_to_the_byte(
        is_old: bool, list in any_list(), script in "[ -~\n]{0,80}", to: Ipv4Addr, via: Ipv4Addr,
    ) {
        let before = if is_old { old_form(&script) } else { new_form(&list) };
        let mut now = before.clone();
        let want = Want::Route(Route { to, via }, Inherited::Theirs);
        for want in [want, want, Want::Nothing] {
            let seen = read(&now);
            if let Some(edit) = plan(&seen, want, None).edit {
                now = patched(now, &patch::deployment(&edit, &seen));
            }
            prop_assert_eq!(&plan(&read(&now), want, None).edit, &None);
        }
        prop_assert_eq!(now, before);
    }
}
