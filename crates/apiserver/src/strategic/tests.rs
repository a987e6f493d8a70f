use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply;
use crate::status::ApiError;

fn patched(message: &'static str, object: Value, patch: Value) -> Result<Value, ApiError> {
    apply(message, &object, patch.as_object().expect("a patch is an object"))
}

fn pod(containers: Value) -> Value {
    json!({ "spec": { "containers": containers } })
}

fn containers(patch: Value, before: Value) -> Value {
    patched("core.Pod", pod(before), json!({ "spec": patch })).unwrap()["spec"]["containers"].clone()
}

#[test]
fn containers_are_merged_by_name_and_what_is_inside_them_too() {
    let before = json!([
        { "name": "a", "image": "a:1", "env": [{ "name": "X", "value": "1" }, { "name": "Y", "value": "2" }] },
        { "name": "b", "image": "b:1", "ports": [{ "containerPort": 80 }] },
    ]);
    let patch = json!({ "containers": [
        { "name": "b", "ports": [{ "containerPort": 81 }] },
        { "name": "a", "image": "a:2", "env": [{ "name": "Y", "value": "3" }] },
    ] });
    // Those that the patch names come in its order.
    assert_eq!(
        containers(patch, before),
        json!([
            { "name": "b", "image": "b:1", "ports": [{ "containerPort": 81 }, { "containerPort": 80 }] },
            { "name": "a", "image": "a:2", "env": [{ "name": "X", "value": "1" }, { "name": "Y", "value": "3" }] },
        ])
    );
}

#[test]
fn elements_are_deleted_and_lists_replaced_by_directive() {
    let before =
        json!([{ "name": "a", "image": "1" }, { "name": "b", "image": "1" }, { "name": "c", "image": "1" }]);
    let without = containers(json!({ "containers": [{ "name": "b", "$patch": "delete" }] }), before.clone());
    assert_eq!(without, json!([{ "name": "a", "image": "1" }, { "name": "c", "image": "1" }]));
    let replaced = json!({ "containers": [{ "$patch": "replace" }, { "name": "z", "image": "9" }] });
    assert_eq!(containers(replaced, before.clone()), json!([{ "name": "z", "image": "9" }]));
    let whole = json!({ "spec": { "$patch": "replace", "nodeName": "n" } });
    assert_eq!(
        patched("core.Pod", pod(before.clone()), whole).unwrap(),
        json!({ "spec": { "nodeName": "n" } })
    );
    let emptied = json!({ "spec": { "$patch": "delete" } });
    assert_eq!(patched("core.Pod", pod(before), emptied).unwrap(), json!({ "spec": {} }));
}

#[test]
fn an_order_that_is_said_is_kept_and_what_only_the_server_has_stays_beside_its_neighbours() {
    let before = json!([{ "name": "a" }, { "name": "server" }, { "name": "b" }]);
    let patch = json!({
        "$setElementOrder/containers": [{ "name": "b" }, { "name": "new" }, { "name": "a" }],
        "containers": [{ "name": "new", "image": "n" }],
    });
    assert_eq!(
        containers(patch, before.clone()),
        json!([{ "name": "server" }, { "name": "b" }, { "name": "new", "image": "n" }, { "name": "a" }])
    );
    let only_order = json!({ "$setElementOrder/containers": [{ "name": "b" }, { "name": "a" }] });
    assert_eq!(
        containers(only_order, before.clone()),
        json!([{ "name": "server" }, { "name": "b" }, { "name": "a" }])
    );
    let contradiction = json!({ "spec": {
        "$setElementOrder/containers": [{ "name": "b" }, { "name": "a" }],
        "containers": [{ "name": "a" }, { "name": "b" }],
    } });
    let error = patched("core.Pod", pod(before), contradiction).unwrap_err();
    assert!(error.message.contains("doesn't match $setElementOrder list"), "{error:?}");
}

#[test]
fn texts_are_added_once_and_taken_out_by_directive() {
    let before = json!({ "metadata": { "finalizers": ["a/1", "a/2"] } });
    let add = json!({ "metadata": { "finalizers": ["a/2", "a/3"] } });
    let added = patched("core.ConfigMap", before.clone(), add).unwrap();
    assert_eq!(added["metadata"]["finalizers"], json!(["a/1", "a/2", "a/3"]));
    let take = json!({ "metadata": {
        "$deleteFromPrimitiveList/finalizers": ["a/1"], "$setElementOrder/finalizers": ["a/2"],
    } });
    let taken = patched("core.ConfigMap", before, take).unwrap();
    assert_eq!(taken["metadata"]["finalizers"], json!(["a/2"]));
}

#[test]
fn retained_keys_are_all_that_stays() {
    let before =
        json!({ "spec": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } } } });
    let patch = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } });
    let after = patched("apps.Deployment", before.clone(), patch).unwrap();
    assert_eq!(after["spec"]["strategy"], json!({ "type": "Recreate" }));
    let contradiction = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "rollingUpdate": {} } } });
    assert_eq!(patched("apps.Deployment", before, contradiction).unwrap_err().code, 400);
}

#[test]
fn other_lists_are_replaced_and_maps_merged_with_null_removing() {
    let before = json!({
        "metadata": { "labels": { "a": "1", "b": "2" } },
        "spec": { "tolerations": [{ "key": "a" }], "nodeSelector": { "x": "y" } },
    });
    let patch = json!({
        "metadata": { "labels": { "a": null, "c": "3" } },
        "spec": { "tolerations": [{ "key": "b" }], "nodeSelector": null },
    });
    assert_eq!(
        patched("core.Pod", before, patch).unwrap(),
        json!({ "metadata": { "labels": { "b": "2", "c": "3" } }, "spec": { "tolerations": [{ "key": "b" }] } })
    );
}

#[test]
fn new_values_keep_neither_nulls_nor_directives() {
    let patch = json!({ "spec": { "volumes": [
        { "name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}, "hostPath": null },
        { "name": "gone", "$patch": "delete" },
    ] } });
    let after = patched("core.Pod", json!({}), patch).unwrap();
    assert_eq!(after, json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }] } }));
}

#[test]
fn an_element_without_its_key_and_a_directive_nobody_knows_are_refused() {
    let before = || pod(json!([{ "name": "a", "image": "1" }]));
    for (patch, says) in [
        (json!({ "containers": [{ "image": "2" }] }), "does not contain declared merge key: name"),
        (json!({ "containers": [{ "$patch": "delete" }] }), "does not contain declared merge key: name"),
        (
            json!({ "containers": [{ "name": "a", "$patch": "merge" }] }),
            "merging lists cannot yet be specified",
        ),
        (json!({ "containers": [{ "name": "a", "$patch": "shake" }] }), "unknown patch type"),
        (json!({ "containers": ["a"] }), "not identical"),
        (json!({ "$patch": "shake" }), "unknown patch type"),
    ] {
        let error = patched("core.Pod", before(), json!({ "spec": patch })).unwrap_err();
        assert!(error.message.contains(says), "{error:?}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let key = "name|spec|metadata|containers|volumes|finalizers|env|image|\\$patch|\\$retainKeys|\
               \\$setElementOrder/(containers|finalizers)|\\$deleteFromPrimitiveList/finalizers";
    let leaf = prop_oneof![Just(Value::Null), Just(json!(1)), "a|b|delete|replace".prop_map(Value::from)];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_patch_of_any_object_is_applied_or_refused(object in value(), patch in value()) {
        if let Value::Object(patch) = &patch {
            let _ = apply("core.Pod", &object, patch);
        }
    }

    #[test]
    fn applying_twice_is_applying_once_where_nothing_is_ordered(
        names in prop::collection::btree_set("[a-e]", 0..4), others in prop::collection::btree_set("[a-e]", 0..4),
    ) {
        let list = |names: &std::collections::BTreeSet<String>, image: &str| -> Value {
            names.iter().map(|name| json!({ "name": name, "image": image })).collect()
        };
        let patch = json!({ "spec": { "containers": list(&others, "new") } });
        let once = patched("core.Pod", pod(list(&names, "old")), patch.clone()).unwrap();
        prop_assert_eq!(patched("core.Pod", once.clone(), patch).unwrap(), once);
    }
}
