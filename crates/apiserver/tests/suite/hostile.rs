//! Requests that nobody makes in good faith, and some that a small mistake makes: each is answered, and
//! the server is none the worse for it.

use serde_json::{Value, json};

use crate::{
    harness::{JSON_PATCH, MERGE, Read, Scene, assert_says, config_map, ours_only, scene},
    widget::{CRDS, anything, version, with_spec},
};

#[tokio::test]
async fn a_watch_for_ever_is_a_watch() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let path = t.core(&format!("configmaps?watch=true&timeoutSeconds={}", i64::MAX));
        assert_eq!(t.get(&path).response().await.status(), 200);
    })
    .await;
}

#[tokio::test]
async fn of_very_many_unknown_fields_some_are_warned_of() {
    ours_only("a real server sends more headers than this client takes", async |t: &Scene| {
        let mut many = config_map("a", "1");
        for n in 0..40_000 {
            many[format!("f{n}")] = json!(1);
        }
        let answer = t.post(&t.core("configmaps"), many.clone()).await;
        assert_eq!((answer.code, answer.warnings().len()), (201, 50));
        let answer = t.post(&t.core("configmaps?fieldValidation=Strict"), many).await;
        assert!(answer.text.len() < 10_000);
        answer.refused(400, "BadRequest");
    })
    .await;
}

#[tokio::test]
async fn a_patch_cannot_blow_an_object_up() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let patch = |operations: Value| t.patch(&t.core("configmaps/a"), JSON_PATCH, operations);
        let many = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
        patch(json!(many)).await.refused(413, "RequestEntityTooLarge");
        let mut copies = vec![json!({"op": "add", "path": "/data/x", "value": "y".repeat(1_000_000)})];
        copies
            .extend((0..5).map(|n| json!({"op": "copy", "from": "/data/x", "path": format!("/data/x{n}")})));
        patch(json!(copies)).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn a_patch_cannot_nest_an_object_without_end() {
    ours_only("a real server allows more levels", async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({"x": {}})).await;
        let mut operations = Vec::new();
        for _ in 0..1000 {
            operations.push(json!({"op": "add", "path": "/spec/w", "value": {"c": null}}));
            operations.push(json!({"op": "move", "from": "/spec/x", "path": "/spec/w/c"}));
            operations.push(json!({"op": "move", "from": "/spec/w", "path": "/spec/x"}));
        }
        t.patch(&widgets.at("a"), JSON_PATCH, json!(operations)).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn senseless_operations_are_invalid_and_what_is_no_patch_is_unreadable() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let patch = |operations: Value| t.patch(&t.core("configmaps/a"), JSON_PATCH, operations);
        for operation in [
            json!({"op": "zed", "path": "/data/x"}),
            json!({"op": "add", "value": 1}),
            json!({"op": "add", "path": "data", "value": {}}),
            json!({"op": "add", "path": "", "value": {}}),
            json!({"op": "remove", "path": ""}),
        ] {
            patch(json!([operation])).await.refused(422, "Invalid");
        }
        patch(json!([1])).await.refused(400, "BadRequest");
        patch(json!({"op": "add"})).await.refused(400, "BadRequest");
    })
    .await;
}

#[tokio::test]
async fn a_body_nested_without_end_cannot_be_read() {
    scene(async |t: &Scene| {
        let nested = format!("{}1{}", r#"{"a":"#.repeat(20_000), "}".repeat(20_000));
        let call = t.call(http::Method::POST, &t.core("configmaps")).bytes(nested);
        call.header("content-type", "application/json").await.refused(400, "BadRequest");
    })
    .await;
}

#[tokio::test]
async fn expressions_and_paths_nested_without_end_are_refused_with_their_definition() {
    scene(async |t: &Scene| {
        for rule in ["(".repeat(2000), format!("{}1{}", "(".repeat(300), ")".repeat(300))] {
            let rules = json!([{"rule": format!("{rule} == 1")}]);
            let spec = json!({"type": "object", "x-kubernetes-validations": rules});
            t.post(CRDS, t.definition(version(spec))).await.refused(422, "Invalid");
        }
    })
    .await;
    ours_only("a real server finds out when it makes a table", async |t: &Scene| {
        let mut version = anything();
        let path = format!(".spec{}", "[?(@".repeat(100_000));
        version["additionalPrinterColumns"] = json!([{"name": "X", "type": "string", "jsonPath": path}]);
        t.post(CRDS, t.definition(version)).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn a_rule_nested_as_people_nest_is_evaluated() {
    scene(async |t: &Scene| {
        let rule = format!("{}self.n{} > 0", "(".repeat(40), ")".repeat(40));
        let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}},
                          "x-kubernetes-validations": [{"rule": rule, "message": "more than none"}]});
        let widgets = t.widgets(version(spec)).await;
        t.widget(&widgets, "a", json!({"n": 1})).await;
        let status =
            t.post(&widgets.path, widgets.widget("b", json!({"n": 0}))).await.refused(422, "Invalid");
        assert_says(status.text("/message"), &["more than none"]);
    })
    .await;
}

#[tokio::test]
async fn a_large_list_is_checked_for_doubles_in_good_time() {
    scene(async |t: &Scene| {
        let set = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"});
        let widgets = t.widgets(with_spec(json!({"set": set}))).await;
        let numbers: Vec<u32> = (0..60_000).collect();
        t.widget(&widgets, "a", json!({"set": numbers})).await;
        let more = json!({"spec": {"set": (1..60_000).collect::<Vec<u32>>()}});
        t.patch(&widgets.at("a"), MERGE, more).await.expect(200);
    })
    .await;
}
