//! The verbs without HTTP.

use serde_json::{Value, json};

use super::*;
use crate::cluster::{Cluster, Target};
use crate::decode::Body;
use crate::patch::PatchBody;
use crate::status::ApiError;
use crate::store::{Change, Key};

fn cluster() -> Cluster {
    Cluster::new(1000, Some(1), None)
}

fn body(value: Value) -> Body {
    Body { value, duplicates: Vec::new() }
}

fn target(cluster: &Cluster, group: &str, plural: &str, namespace: &str, name: &str) -> Target {
    Target::new(cluster.registry.find(group, "v1", plural).expect("is served"), namespace, name)
}

fn make(cluster: &mut Cluster, target: &Target, object: Value) -> Result<Value, ApiError> {
    create(cluster, target, body(object), WriteOptions::default()).map(|written| written.object.value.clone())
}

fn merge(cluster: &mut Cluster, target: &Target, change: Value) -> Result<Written, ApiError> {
    patch(cluster, target, Part::Main, &PatchBody::Merge(change), WriteOptions::default())
}

fn remove(cluster: &mut Cluster, target: &Target) -> Deleted {
    delete(cluster, target, &DeleteOptions::default()).expect("can be deleted")
}

fn define_widgets(cluster: &mut Cluster) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": { "size": { "type": "integer", "default": 1 } } },
                    "status": { "type": "object", "properties": { "seen": { "type": "integer" } } } } } } }],
        },
    });
    let definitions = target(cluster, "apiextensions.k8s.io", "customresourcedefinitions", "", "");
    make(cluster, &definitions, definition).expect("the definition is accepted");
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

#[test]
fn what_does_not_change_an_object_leaves_no_trace() {
    let mut cluster = cluster();
    let map = target(&cluster, "", "configmaps", "default", "a");
    make(&mut cluster, &map, json!({ "metadata": { "name": "a" }, "data": { "k": "v" } })).unwrap();
    let before = cluster.store.version();
    merge(&mut cluster, &map, json!({ "data": { "k": "v" } })).unwrap();
    assert_eq!(cluster.store.version(), before);
    merge(&mut cluster, &map, json!({ "data": { "k": "w" } })).unwrap();
    assert_eq!(cluster.store.version(), before + 1);
}

#[test]
fn a_version_in_a_patch_is_a_precondition() {
    let mut cluster = cluster();
    let map = target(&cluster, "", "configmaps", "default", "a");
    make(&mut cluster, &map, json!({ "metadata": { "name": "a" } })).unwrap();
    let stale = json!({ "metadata": { "resourceVersion": "1" }, "data": { "k": "v" } });
    assert_eq!(merge(&mut cluster, &map, stale).unwrap_err().code, 409);
}

#[test]
fn spec_and_status_are_written_apart_and_only_spec_counts() {
    let mut cluster = cluster();
    define_widgets(&mut cluster);
    let a = target(&cluster, "example.com", "widgets", "default", "a");
    let mut made = widget("a", json!({ "odd": 1 }));
    made["status"] = json!({ "seen": 9 });
    let made = make(&mut cluster, &a, made).unwrap();
    assert_eq!((&made["spec"], made.get("status")), (&json!({ "size": 1 }), None));
    let both = json!({ "spec": { "size": 2 }, "status": { "seen": 1 } });
    let main = merge(&mut cluster, &a, both.clone()).unwrap().object;
    assert_eq!((main.value.get("status"), &main.value["metadata"]["generation"]), (None, &json!(2)));
    let both = json!({ "spec": { "size": 3 }, "status": { "seen": 1 } });
    let status =
        patch(&mut cluster, &a, Part::Status, &PatchBody::Merge(both), WriteOptions::default()).unwrap();
    let value = &status.object.value;
    assert_eq!((&value["spec"]["size"], &value["status"]["seen"]), (&json!(2), &json!(1)));
    assert_eq!(value["metadata"]["generation"], 2);
}

#[test]
fn a_finalizer_holds_an_object_and_its_namespace() {
    let mut cluster = cluster();
    let namespace = target(&cluster, "", "namespaces", "", "n");
    make(&mut cluster, &namespace, json!({ "metadata": { "name": "n" } })).unwrap();
    let held = target(&cluster, "", "configmaps", "n", "held");
    let object = json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
    make(&mut cluster, &held, object).unwrap();
    let free = target(&cluster, "", "configmaps", "n", "free");
    make(&mut cluster, &free, json!({ "metadata": { "name": "free" } })).unwrap();
    remove(&mut cluster, &namespace);
    assert!(cluster.get(&free).is_err());
    assert_eq!(cluster.get(&namespace).unwrap().value["status"]["phase"], "Terminating");
    let late = make(&mut cluster, &free, json!({ "metadata": { "name": "free" } })).unwrap_err();
    assert_eq!((late.code, late.reason.as_str()), (403, "Forbidden"));
    merge(&mut cluster, &held, json!({ "metadata": { "finalizers": null } })).unwrap();
    assert!(cluster.get(&held).is_err() && cluster.get(&namespace).is_err());
}

#[test]
fn a_pod_on_a_node_waits_for_its_kubelet() {
    let mut cluster = cluster();
    let spec = json!({ "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] });
    let pod = target(&cluster, "", "pods", "default", "p");
    make(&mut cluster, &pod, json!({ "metadata": { "name": "p" }, "spec": spec })).unwrap();
    remove(&mut cluster, &pod);
    let waiting = cluster.get(&pod).unwrap().value.clone();
    assert_eq!(waiting["metadata"]["deletionGracePeriodSeconds"], 30);
    let now = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
    delete(&mut cluster, &pod, &now).unwrap();
    assert!(cluster.get(&pod).is_err());
}

#[test]
fn a_definition_goes_after_its_objects() {
    let mut cluster = cluster();
    define_widgets(&mut cluster);
    let a = target(&cluster, "example.com", "widgets", "default", "a");
    let mut held = widget("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(&mut cluster, &a, held).unwrap();
    let definition =
        target(&cluster, "apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com");
    remove(&mut cluster, &definition);
    let b = target(&cluster, "example.com", "widgets", "default", "b");
    assert_eq!(make(&mut cluster, &b, widget("b", json!({}))).unwrap_err().code, 405);
    merge(&mut cluster, &a, json!({ "metadata": { "finalizers": null } })).unwrap();
    assert!(cluster.get(&definition).is_err());
    assert!(cluster.registry.find("example.com", "v1", "widgets").is_none());
}

#[test]
fn the_last_finalizer_takes_the_object_along_in_one_event() {
    let mut cluster = cluster();
    let map = target(&cluster, "", "configmaps", "default", "a");
    let object = json!({ "metadata": { "name": "a", "finalizers": ["example.com/hold"] } });
    make(&mut cluster, &map, object).unwrap();
    remove(&mut cluster, &map);
    let before = cluster.store.version();
    merge(&mut cluster, &map, json!({ "metadata": { "finalizers": [] } })).unwrap();
    let (events, _) = cluster.store.since(&map.resource.shelf, before, 10).unwrap();
    assert_eq!(events.iter().map(|event| event.change).collect::<Vec<_>>(), [Change::Deleted]);
    assert!(cluster.store.get(&map.resource.shelf, &Key::new("default", "a")).is_none());
}

#[test]
fn a_replace_needs_the_version_where_the_kind_demands_it() {
    let mut cluster = cluster();
    define_widgets(&mut cluster);
    let a = target(&cluster, "example.com", "widgets", "default", "a");
    make(&mut cluster, &a, widget("a", json!({}))).unwrap();
    let put = |cluster: &mut Cluster, target: &Target, object: Value| {
        replace(cluster, target, Part::Main, body(object), WriteOptions::default())
    };
    assert_eq!(put(&mut cluster, &a, widget("a", json!({ "size": 2 }))).unwrap_err().code, 422);
    let lease = target(&cluster, "coordination.k8s.io", "leases", "default", "l");
    let created = put(&mut cluster, &lease, json!({ "metadata": { "name": "l" } })).unwrap();
    assert!(created.created);
}

#[test]
fn one_seed_gives_one_history() {
    let run = || {
        let epoch = std::time::SystemTime::UNIX_EPOCH;
        let mut cluster = Cluster::new(100, Some(42), Some(epoch));
        let map = target(&cluster, "", "configmaps", "default", "");
        make(&mut cluster, &map, json!({ "metadata": { "generateName": "x-" } })).unwrap()
    };
    assert_eq!(run(), run());
}

#[tokio::test(start_paused = true)]
async fn an_event_lives_an_hour_from_its_last_write() {
    let mut cluster = cluster();
    let event =
        |name: &str| json!({ "metadata": { "name": name }, "involvedObject": { "namespace": "default" } });
    let at = |cluster: &Cluster, name: &str| target(cluster, "", "events", "default", name);
    for name in ["renewed", "forgotten"] {
        let target = at(&cluster, name);
        make(&mut cluster, &target, event(name)).unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_secs(3000)).await;
    let renewed = at(&cluster, "renewed");
    merge(&mut cluster, &renewed, json!({ "count": 2 })).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(700)).await;
    let late = at(&cluster, "late");
    make(&mut cluster, &late, event("late")).unwrap();
    let left = cluster.store.keys(&late.resource.shelf);
    assert_eq!(left.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["late", "renewed"]);
}

#[test]
fn a_generated_name_that_is_taken_is_not_used() {
    let mut cluster = cluster();
    let map = target(&cluster, "", "configmaps", "default", "");
    let generated = json!({ "metadata": { "generateName": "x-" } });
    let first = make(&mut cluster, &map, generated.clone()).unwrap();
    // The same seed again: it would give the same name.
    cluster.ids = crate::ids::Ids::new(Some(1));
    let mut names = vec![first["metadata"]["name"].clone()];
    for _ in 0..8 {
        names.push(make(&mut cluster, &map, generated.clone()).unwrap()["metadata"]["name"].clone());
    }
    names.sort_by_key(Value::to_string);
    names.dedup();
    assert_eq!(names.len(), 9);
}
