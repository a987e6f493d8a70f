//! Create, get, list and update of single objects, and every way in which they are refused.

use serde_json::{Value, json};

use crate::{
    harness::{Read, Scene, assert_says, config_map, scene},
    widget::with_spec,
};

#[tokio::test]
async fn a_created_object_gets_identity_time_and_version() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        assert_eq!(made.text("/metadata/namespace"), t.ns);
        assert_eq!(made.text("/metadata/uid").len(), 36);
        assert!(made.version().parse::<u64>().unwrap() > 0);
        let created = made.text("/metadata/creationTimestamp");
        assert!(created.len() == 20 && created.ends_with('Z'), "{created}");
        let got = t.get(&t.core("configmaps/a")).await.expect(200);
        assert_eq!(got, made);
    })
    .await;
}

#[tokio::test]
async fn a_taken_name_already_exists() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let status = t.post(&t.core("configmaps"), config_map("a", "2")).await.refused(409, "AlreadyExists");
        assert_eq!(status["message"], r#"configmaps "a" already exists"#);
        assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    })
    .await;
}

#[tokio::test]
async fn a_generated_name_starts_with_its_prefix_and_is_new_each_time() {
    scene(async |t: &Scene| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}});
        let one = t.post(&t.core("configmaps"), body.clone()).await.expect(201);
        let two = t.post(&t.core("configmaps"), body).await.expect(201);
        assert!(one.name().starts_with("x-") && one.name().len() == 7, "{}", one.name());
        assert_eq!(one.text("/metadata/generateName"), "x-");
        assert_ne!(one.name(), two.name());
    })
    .await;
}

#[tokio::test]
async fn a_nameless_or_badly_named_object_is_invalid() {
    scene(async |t: &Scene| {
        let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
        let status = t.post(&t.core("configmaps"), nameless).await.refused(422, "Invalid");
        assert_says(status.text("/message"), &["name or generateName is required"]);
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.name");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueRequired");
        let status = t.post(&t.core("configmaps"), config_map("Not_Good", "")).await.refused(422, "Invalid");
        assert_says(status.text("/message"), &[r#"metadata.name: Invalid value: "Not_Good""#, "RFC 1123"]);
    })
    .await;
}

#[tokio::test]
async fn an_object_must_fit_the_path_it_is_sent_to() {
    scene(async |t: &Scene| {
        let mut elsewhere = config_map("a", "1");
        elsewhere["metadata"]["namespace"] = json!("default");
        let status = t.post(&t.core("configmaps"), elsewhere).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &["the namespace of the provided object does not match"]);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        t.post(&t.core("configmaps"), secret).await.refused(400, "BadRequest");
        t.config_map("a", "1").await;
        let status = t.put(&t.core("configmaps/a"), config_map("b", "1")).await.refused(400, "BadRequest");
        assert_says(
            status.text("/message"),
            &["the name of the object (b) does not match the name on the URL (a)"],
        );
    })
    .await;
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_a_bad_request() {
    scene(async |t: &Scene| {
        let path = t.core("configmaps");
        let broken = t.call(http::Method::POST, &path).json(json!(null)).bytes("{\"apiVersion\":");
        broken.await.refused(400, "BadRequest");
        let typed =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"a": 1}}});
        t.post(&path, typed).await.refused(400, "BadRequest");
        let text = t.call(http::Method::POST, &path).json(json!({})).header("content-type", "text/plain");
        text.await.refused(415, "UnsupportedMediaType");
    })
    .await;
}

#[tokio::test]
async fn a_missing_object_is_not_found_by_name() {
    scene(async |t: &Scene| {
        let status = t.get(&t.core("configmaps/none")).await.refused(404, "NotFound");
        assert_eq!(status["message"], r#"configmaps "none" not found"#);
        assert_eq!(status["details"], json!({"name": "none", "kind": "configmaps"}));
        let path = t.group("apps/v1", "statefulsets/none");
        let status = t.get(&path).await.refused(404, "NotFound");
        assert_eq!(status["message"], r#"statefulsets.apps "none" not found"#);
        assert_eq!(status["details"], json!({"name": "none", "group": "apps", "kind": "statefulsets"}));
        t.put(&t.core("configmaps/none"), config_map("none", "1")).await.refused(404, "NotFound");
    })
    .await;
}

#[tokio::test]
async fn a_list_has_a_kind_a_version_and_its_items_in_order_of_name() {
    scene(async |t: &Scene| {
        for name in ["c", "a", "b"] {
            t.config_map(name, "1").await;
        }
        let path =
            t.core("configmaps?labelSelector=!controller-made&fieldSelector=metadata.name!=kube-root-ca.crt");
        let list = t.get(&path).await.expect(200);
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
        assert_eq!(list.names(), ["a", "b", "c"]);
        let newest =
            list["items"].as_array().unwrap().iter().map(|i| i.version().parse::<u64>().unwrap()).max();
        assert!(list.version().parse::<u64>().ok() >= newest);
    })
    .await;
}

#[tokio::test]
async fn a_list_without_a_namespace_crosses_all_of_them() {
    scene(async |t: &Scene| {
        let other = format!("{}-2", t.ns);
        t.make_namespace(&other).await;
        t.config_map("here", "1").await;
        t.post(&format!("/api/v1/namespaces/{other}/configmaps"), config_map("there", "1")).await.expect(201);
        let all = t.get("/api/v1/configmaps").await.expect(200);
        let found = |name: &str, ns: &str| {
            let mut items = all["items"].as_array().unwrap().iter();
            items.any(|i| i.name() == name && i.text("/metadata/namespace") == ns)
        };
        assert!(found("here", &t.ns) && found("there", &other));
    })
    .await;
}

#[tokio::test]
async fn a_list_of_custom_objects_names_their_kind() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(with_spec(json!({"size": {"type": "integer"}}))).await;
        let empty = t.get(&widgets.path).await.expect(200);
        assert_eq!((&empty["kind"], &empty["items"]), (&json!("WidgetList"), &json!([])));
        t.widget(&widgets, "a", json!({"size": 1})).await;
        let list = t.get(&widgets.path).await.expect(200);
        assert_eq!(list["apiVersion"], format!("{}/v1", widgets.group));
        let item = &list["items"][0];
        assert_eq!(
            (item.name(), &item["kind"], &item["apiVersion"]),
            ("a", &json!("Widget"), &list["apiVersion"])
        );
    })
    .await;
}

#[tokio::test]
async fn an_update_replaces_the_object_and_gives_it_a_newer_version() {
    scene(async |t: &Scene| {
        let mut object = t.config_map("a", "1").await;
        let (before, uid) = (object.version().parse::<u64>().unwrap(), object["metadata"]["uid"].clone());
        object["data"] = json!({"other": "2"});
        object["metadata"]["labels"] = json!({"x": "y"});
        object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
        let updated = t.put(&t.core("configmaps/a"), object).await.expect(200);
        assert_eq!(updated["data"], json!({"other": "2"}));
        assert_eq!(updated["metadata"]["labels"], json!({"x": "y"}));
        assert_eq!(updated["metadata"]["uid"], uid);
        assert_ne!(updated["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
        assert!(updated.version().parse::<u64>().unwrap() > before);
    })
    .await;
}

#[tokio::test]
async fn an_update_from_a_stale_version_conflicts() {
    scene(async |t: &Scene| {
        let mut stale = t.config_map("a", "1").await;
        let mut fresh = stale.clone();
        fresh["data"]["key"] = json!("2");
        t.put(&t.core("configmaps/a"), fresh).await.expect(200);
        stale["data"]["key"] = json!("3");
        let status = t.put(&t.core("configmaps/a"), stale).await.refused(409, "Conflict");
        let message = r#"Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again"#;
        assert_eq!(status["message"], message);
        assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    })
    .await;
}

#[tokio::test]
async fn an_update_without_a_version_overwrites_built_in_objects_only() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let updated = t.put(&t.core("configmaps/a"), config_map("a", "2")).await.expect(200);
        assert_eq!(updated["data"]["key"], "2");
        let widgets = t.widgets(with_spec(json!({"size": {"type": "integer"}}))).await;
        t.widget(&widgets, "a", json!({"size": 1})).await;
        let body = widgets.widget("a", json!({"size": 2}));
        let status = t.put(&widgets.at("a"), body).await.refused(422, "Invalid");
        assert_says(
            status.text("/message"),
            &["metadata.resourceVersion", "must be specified for an update"],
        );
    })
    .await;
}

#[tokio::test]
async fn an_update_of_a_recreated_object_conflicts_on_its_uid() {
    scene(async |t: &Scene| {
        let mut old = t.config_map("a", "1").await;
        t.delete(&t.core("configmaps/a")).await.expect(200);
        t.config_map("a", "2").await;
        old["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let status = t.put(&t.core("configmaps/a"), old).await.refused(409, "Conflict");
        assert_says(status.text("/message"), &["Precondition failed: UID in precondition"]);
    })
    .await;
}

#[tokio::test]
async fn an_update_that_changes_nothing_keeps_the_version() {
    scene(async |t: &Scene| {
        let object = t.config_map("a", "1").await;
        let same = t.put(&t.core("configmaps/a"), object.clone()).await.expect(200);
        assert_eq!(same.version(), object.version());
        let same = t.put(&t.core("configmaps/a"), config_map("a", "1")).await.expect(200);
        assert_eq!(same.version(), object.version());
    })
    .await;
}

#[tokio::test]
async fn a_version_given_on_create_is_refused() {
    scene(async |t: &Scene| {
        let mut body = config_map("a", "1");
        body["metadata"]["resourceVersion"] = json!("5");
        let status = t.post(&t.core("configmaps"), body).await.expect(500);
        assert_says(status.text("/message"), &["resourceVersion should not be set on objects to be created"]);
    })
    .await;
}

#[tokio::test]
async fn a_verb_that_a_path_does_not_know_is_not_allowed() {
    scene(async |t: &Scene| {
        t.post(&t.core("configmaps/a"), config_map("a", "1")).await.refused(405, "MethodNotAllowed");
        t.put(&t.core("configmaps"), config_map("a", "1")).await.refused(405, "MethodNotAllowed");
    })
    .await;
}

#[tokio::test]
async fn an_update_that_creates_must_name_what_its_path_names() {
    scene(async |t: &Scene| {
        let lease = |metadata: Value| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
        let path = t.group("coordination.k8s.io/v1", "leases/a");
        let status = t.put(&path, lease(json!({"name": "b"}))).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &["the name of the object (b) does not match the name on the URL (a)"]);
        t.put(&path, lease(json!({}))).await.refused(400, "BadRequest");
        // Who renews a lease that was deleted meanwhile knows its uid, and gets an error.
        let status = t.put(&path, lease(json!({"name": "a", "uid": "x", "resourceVersion": "5"}))).await.refused(409, "Conflict");
        assert_says(status.text("/message"), &["Precondition failed: UID in precondition: x, UID in object meta: "]);
        t.put(&path, lease(json!({"name": "a", "resourceVersion": "5"}))).await.expect(201);
    })
    .await;
}

#[tokio::test]
async fn flags_are_true_unless_they_say_no() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        for (flag, watched) in [
            ("watch=false", false),
            ("watch=0", false),
            ("watch=False", false),
            ("watch=f", true),
            ("watch", true),
        ] {
            let answer = t.get(&t.core(&format!("configmaps?{flag}&timeoutSeconds=1"))).await;
            assert_eq!(answer.text.starts_with(r#"{"type":"ADDED""#), watched, "{flag}: {}", answer.text);
        }
    })
    .await;
}
