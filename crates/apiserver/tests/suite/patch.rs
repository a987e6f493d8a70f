//! JSON patch and JSON merge patch: what they change, what guards them, how they fail.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    runtime::finalizer::{Event, finalizer},
};
use serde_json::json;

use crate::{
    harness::{JSON_PATCH, MERGE, Read, Scene, assert_says, scene},
    widget::anything,
};

#[tokio::test]
async fn a_merge_patch_merges_objects_and_null_removes() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        let got = t.patch(&path, MERGE, json!({"data": {"two": "2"}})).await.expect(200);
        assert_eq!(got["data"], json!({"key": "1", "two": "2"}));
        let got = t
            .patch(&path, MERGE, json!({"data": {"key": null}, "metadata": {"labels": {"x": "y"}}}))
            .await
            .expect(200);
        assert_eq!(got["data"], json!({"two": "2"}));
        assert_eq!(got["metadata"]["labels"], json!({"x": "y"}));
        let got = t.patch(&path, MERGE, json!({"data": null})).await.expect(200);
        assert_eq!(got.get("data"), None);
    })
    .await;
}

#[tokio::test]
async fn a_merge_patch_replaces_arrays_whole() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({"list": [1, 2, 3], "kept": true})).await;
        let got = t.patch(&widgets.at("a"), MERGE, json!({"spec": {"list": [4]}})).await.expect(200);
        assert_eq!(got["spec"], json!({"list": [4], "kept": true}));
    })
    .await;
}

#[tokio::test]
async fn a_json_patch_adds_replaces_removes_moves_and_copies() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({"list": [1, 3], "old": "x", "gone": 1})).await;
        let ops = json!([
            {"op": "add", "path": "/spec/list/1", "value": 2},
            {"op": "add", "path": "/spec/list/-", "value": 4},
            {"op": "replace", "path": "/spec/old", "value": "y"},
            {"op": "remove", "path": "/spec/gone"},
            {"op": "copy", "from": "/spec/old", "path": "/spec/copy"},
            {"op": "move", "from": "/spec/old", "path": "/spec/new"},
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/example.com~1a", "value": "slash"},
        ]);
        let got = t.patch(&widgets.at("a"), JSON_PATCH, ops).await.expect(200);
        assert_eq!(got["spec"], json!({"list": [1, 2, 3, 4], "copy": "y", "new": "y"}));
        assert_eq!(got["metadata"]["annotations"], json!({"example.com/a": "slash"}));
    })
    .await;
}

#[tokio::test]
async fn a_failed_json_patch_test_changes_nothing() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        let ops = json!([
            {"op": "replace", "path": "/data/key", "value": "2"},
            {"op": "test", "path": "/data/key", "value": "something else"},
        ]);
        t.patch(&t.core("configmaps/a"), JSON_PATCH, ops).await.refused(422, "Invalid");
        assert_eq!(t.get(&t.core("configmaps/a")).await.expect(200), made);
    })
    .await;
}

#[tokio::test]
async fn a_json_patch_test_for_null_passes_where_nothing_is() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let ops = json!([
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]},
        ]);
        let path = t.core("configmaps/a");
        let got = t.patch(&path, JSON_PATCH, ops.clone()).await.expect(200);
        assert_eq!(got["metadata"]["finalizers"], json!(["example.com/x"]));
        t.patch(&path, JSON_PATCH, ops).await.refused(422, "Invalid");
        let absent = json!([{"op": "test", "path": "/metadata/labels", "value": "x"}]);
        t.patch(&path, JSON_PATCH, absent).await.refused(422, "Invalid");
        t.patch(&path, MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_json_patch_that_cannot_apply_is_unprocessable() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        for ops in [
            json!([{"op": "remove", "path": "/data/none"}]),
            json!([{"op": "add", "path": "/nobody/here", "value": "1"}]),
        ] {
            t.patch(&path, JSON_PATCH, ops).await.refused(422, "Invalid");
        }
    })
    .await;
}

#[tokio::test]
async fn a_json_patch_replaces_a_member_that_was_not_there() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let ops = json!([{"op": "replace", "path": "/data/none", "value": "2"}]);
        let got = t.patch(&t.core("configmaps/a"), JSON_PATCH, ops).await.expect(200);
        assert_eq!(got["data"], json!({"key": "1", "none": "2"}), "laxer than RFC 6902");
    })
    .await;
}

#[tokio::test]
async fn a_patch_that_is_not_one_is_a_bad_request() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        t.patch(&path, JSON_PATCH, json!({"op": "add"})).await.refused(400, "BadRequest");
        t.patch(&path, MERGE, json!([])).await.refused(400, "BadRequest");
        t.patch(&path, MERGE, json!({})).bytes("{").await.refused(400, "BadRequest");
    })
    .await;
}

#[tokio::test]
async fn a_patch_of_an_unknown_type_is_unsupported() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        t.patch(&path, "application/json", json!({})).await.refused(415, "UnsupportedMediaType");
    })
    .await;
}

#[tokio::test]
async fn a_version_inside_a_patch_is_a_precondition() {
    scene(async |t: &Scene| {
        let first = t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        let guarded = |version: &str, value: &str| json!({"metadata": {"resourceVersion": version}, "data": {"key": value}});
        let second = t.patch(&path, MERGE, guarded(first.version(), "2")).await.expect(200);
        let status = t.patch(&path, MERGE, guarded(first.version(), "3")).await.refused(409, "Conflict");
        assert_says(status.text("/message"), &["the object has been modified"]);
        let ops = |version: &str| {
            json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                {"op": "replace", "path": "/data/key", "value": "4"},
            ])
        };
        t.patch(&path, JSON_PATCH, ops(first.version())).await.refused(409, "Conflict");
        t.patch(&path, JSON_PATCH, ops(second.version())).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_uid_inside_a_patch_cannot_change() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let other = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}});
        let status = t.patch(&t.core("configmaps/a"), MERGE, other).await.refused(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.uid");
    })
    .await;
}

#[tokio::test]
async fn a_patch_that_changes_nothing_keeps_the_version() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        for (kind, body) in [
            (MERGE, json!({})),
            (MERGE, json!({"data": {"key": "1", "none": null}})),
            (JSON_PATCH, json!([])),
            (JSON_PATCH, json!([{"op": "replace", "path": "/data/key", "value": "1"}])),
        ] {
            assert_eq!(t.patch(&path, kind, body).await.expect(200).version(), made.version());
        }
    })
    .await;
}

#[tokio::test]
async fn a_patch_of_a_missing_object_is_not_found() {
    scene(async |t: &Scene| {
        for (kind, body) in [(MERGE, json!({})), (JSON_PATCH, json!([]))] {
            t.patch(&t.core("configmaps/none"), kind, body).await.refused(404, "NotFound");
        }
    })
    .await;
}

#[tokio::test]
async fn a_patch_cannot_rename() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let rename = json!({"metadata": {"name": "b"}});
        t.patch(&t.core("configmaps/a"), MERGE, rename).await.refused(400, "BadRequest");
    })
    .await;
}

#[tokio::test]
async fn the_rust_finalizer_helper_adds_and_removes_its_mark() {
    scene(async |t: &Scene| {
        let api = Api::<ConfigMap>::namespaced(t.client.clone(), &t.ns);
        t.config_map("a", "1").await;
        let step = async || {
            let object = api.get("a").await.expect("still there");
            finalizer(&api, "example.com/mark", object.into(), |event| async move {
                Ok::<_, std::convert::Infallible>(match event {
                    Event::Apply(_) | Event::Cleanup(_) => kube::runtime::controller::Action::await_change(),
                })
            })
            .await
            .expect("the helper's patch is accepted");
        };
        step().await;
        assert_eq!(api.get("a").await.unwrap().finalizers(), ["example.com/mark"]);
        t.delete(&t.core("configmaps/a")).await.expect(200);
        step().await;
        t.get(&t.core("configmaps/a")).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn a_patch_cannot_make_another_kind_of_an_object() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        for change in [json!({"kind": "Secret"}), json!({"apiVersion": "apps/v1"})] {
            t.patch(&t.core("configmaps/a"), MERGE, change).await.refused(422, "Invalid");
        }
    })
    .await;
}
