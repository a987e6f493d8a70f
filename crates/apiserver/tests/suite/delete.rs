//! Deletion: what it answers, what holds it up, what guards it.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, assert_says, scene},
    widget::anything,
    workloads::pod,
};

fn options(fields: Value) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_deleted_object_is_gone_and_the_answer_names_it() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        let status = t.delete(&t.core("configmaps/a")).await.expect(200);
        assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
        let details = json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]});
        assert_eq!(status["details"], details);
        t.get(&t.core("configmaps/a")).await.refused(404, "NotFound");
        t.delete(&t.core("configmaps/a")).await.refused(404, "NotFound");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_custom_object_is_answered_with_a_status() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let made = t.widget(&widgets, "a", json!({})).await;
        let status = t.delete(&widgets.at("a")).await.expect(200);
        let details =
            json!({"name": "a", "group": widgets.group, "kind": "widgets", "uid": made["metadata"]["uid"]});
        assert_eq!((&status["status"], &status["details"]), (&json!("Success"), &details));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_pod_without_a_node_is_returned_and_gone_at_once() {
    scene(async |t: &Scene| {
        t.post(&t.core("pods"), pod("p")).await.expect(201);
        let gone = t.delete(&t.core("pods/p")).await.expect(200);
        assert_eq!((&gone["kind"], gone.name()), (&json!("Pod"), "p"));
        t.get(&t.core("pods/p")).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let mut body = widgets.widget("a", json!({"x": 1}));
        body["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
        let made = t.post(&widgets.path, body).await.expect(201);
        let path = widgets.at("a");
        let deleting = t.delete(&path).await.expect(200);
        assert_eq!((deleting.name(), &deleting["kind"]), ("a", &json!("Widget")));
        assert_ne!(deleting.text("/metadata/deletionTimestamp"), "");
        assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
        assert_eq!(deleting["metadata"]["generation"], 2, "a deletion mark is a new generation");
        assert_ne!(deleting.version(), made.version());
        let again = t.delete(&path).await.expect(200);
        assert_eq!(again["metadata"]["deletionTimestamp"], deleting["metadata"]["deletionTimestamp"]);
        assert_eq!(again.version(), deleting.version(), "a second delete changes nothing");
        let one = json!({"metadata": {"finalizers": ["example.com/two"]}});
        t.patch(&path, MERGE, one).await.expect(200);
        t.get(&path).await.expect(200);
        t.patch(&path, MERGE, json!({"metadata": {"finalizers": []}})).await.expect(200);
        t.get(&path).await.refused(404, "NotFound");
    })
    .await;
}

#[tokio::test]
async fn an_object_being_deleted_takes_no_new_finalizer() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        let hold = |list: Value| json!({"metadata": {"finalizers": list}});
        t.patch(&path, MERGE, hold(json!(["example.com/one"]))).await.expect(200);
        t.delete(&path).await.expect(200);
        let more = hold(json!(["example.com/one", "example.com/two"]));
        let status = t.patch(&path, MERGE, more).await.refused(422, "Invalid");
        assert_says(
            status.text("/message"),
            &["metadata.finalizers: Forbidden: no new finalizers can be added"],
        );
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueForbidden");
        let changed = t.patch(&path, MERGE, json!({"data": {"key": "still writable"}})).await.expect(200);
        assert_ne!(changed.text("/metadata/deletionTimestamp"), "");
        t.patch(&path, MERGE, hold(json!(null))).await.expect(200);
        t.get(&path).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn a_client_cannot_set_or_clear_the_deletion_mark() {
    scene(async |t: &Scene| {
        let mark = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]}});
        t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        let status = t.patch(&path, MERGE, mark).await.refused(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.deletionTimestamp");
        let mut made = t.get(&path).await.expect(200);
        made["metadata"]["finalizers"] = json!(["example.com/x"]);
        t.put(&path, made).await.expect(200);
        t.delete(&path).await.expect(200);
        let clear = json!({"metadata": {"deletionTimestamp": null}});
        let got = t.patch(&path, MERGE, clear).await.expect(200);
        assert_ne!(got.text("/metadata/deletionTimestamp"), "");
        t.patch(&path, MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_precondition_that_does_not_hold_stops_the_delete() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        let guarded = |guard: Value| t.delete(&path).json(options(json!({"preconditions": guard})));
        let status =
            guarded(json!({"uid": "00000000-0000-0000-0000-000000000000"})).await.refused(409, "Conflict");
        assert_says(
            status.text("/message"),
            &["the UID in the precondition", "does not match the UID in record"],
        );
        let status = guarded(json!({"resourceVersion": "1"})).await.refused(409, "Conflict");
        assert_says(status.text("/message"), &["the ResourceVersion in the precondition (1)"]);
        t.get(&path).await.expect(200);
        let both = json!({"uid": made["metadata"]["uid"], "resourceVersion": made.version()});
        guarded(both).await.expect(200);
        t.get(&path).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn background_propagation_and_grace_are_accepted_in_body_and_query() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let body = options(json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0}));
        t.delete(&t.core("configmaps/a")).json(body).await.expect(200);
        t.get(&t.core("configmaps/a")).await.expect(404);
        t.config_map("b", "1").await;
        let path = t.core("configmaps/b?propagationPolicy=Background&gracePeriodSeconds=0");
        t.delete(&path).await.expect(200);
        t.get(&t.core("configmaps/b")).await.expect(404);
        t.config_map("c", "1").await;
        let body = options(json!({"propagationPolicy": "Sideways"}));
        t.delete(&t.core("configmaps/c")).json(body).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn a_recreated_object_has_a_new_identity() {
    scene(async |t: &Scene| {
        let first = t.config_map("a", "1").await;
        t.delete(&t.core("configmaps/a")).await.expect(200);
        let second = t.config_map("a", "1").await;
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
        assert!(second.version().parse::<u64>().unwrap() > first.version().parse::<u64>().unwrap());
    })
    .await;
}

#[tokio::test]
async fn options_that_cannot_be_understood_delete_nothing() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        for options in [
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": 5}}),
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": "x"}),
            json!([]),
            json!("x"),
        ] {
            t.delete(&path).json(options).await.refused(400, "BadRequest");
        }
        t.delete(&t.core("configmaps/a?gracePeriodSeconds=abc")).await.refused(400, "BadRequest");
        t.get(&path).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn options_in_the_body_are_all_that_counts() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        t.delete(&t.core("configmaps/a?propagationPolicy=Zed")).json(options).await.expect(200);
    })
    .await;
}
