//! Deleting a collection.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, config_map, scene},
    widget::{CRDS, anything},
    workloads::pod,
};

async fn labelled(t: &Scene, name: &str, color: &str) -> Value {
    let mut map = config_map(name, "1");
    map["metadata"]["labels"] = json!({"color": color});
    t.post(&t.core("configmaps"), map).await.expect(201)
}

/// What is left of the tests' own.
async fn left(t: &Scene) -> Vec<String> {
    let list = t.get(&t.core("configmaps?labelSelector=color")).await.expect(200);
    list.names().into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_it_is_selected_and_the_answer_lists_it() {
    scene(async |t: &Scene| {
        for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
            labelled(t, name, color).await;
        }
        let gone = t.delete(&t.core("configmaps?labelSelector=color%3Dred")).await.expect(200);
        assert_eq!((&gone["kind"], gone.names()), (&json!("ConfigMapList"), vec!["a", "c"]));
        assert_eq!(left(t).await, ["b"]);
        t.delete(&t.core("configmaps?fieldSelector=metadata.name%3Dother")).await.expect(200);
        assert_eq!(left(t).await, ["b"]);
        t.delete(&t.core("configmaps?fieldSelector=metadata.name%3Db")).await.expect(200);
        assert_eq!(left(t).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_whole_collection_of_custom_objects_is_deleted_and_finalizers_hold_theirs() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "free", json!({})).await;
        let mut held = widgets.widget("held", json!({}));
        held["metadata"]["finalizers"] = json!(["suite.example.com/hold"]);
        t.post(&widgets.path, held).await.expect(201);
        t.delete(&widgets.path).await.expect(200);
        t.get(&widgets.at("free")).await.expect(404);
        let held = t.get(&widgets.at("held")).await.expect(200);
        assert!(!held.text("/metadata/deletionTimestamp").is_empty(), "{held}");
        t.patch(&widgets.at("held"), MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
        t.get(&widgets.at("held")).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn options_count_for_every_object_of_the_collection() {
    scene(async |t: &Scene| {
        labelled(t, "a", "red").await;
        let path = t.core("configmaps?labelSelector=color%3Dred");
        t.delete(&path).json(json!({"dryRun": ["All"]})).await.expect(200);
        t.delete(&format!("{path}&dryRun=All")).await.expect(200);
        t.delete(&path).json(json!({"propagationPolicy": "Sometimes"})).await.refused(422, "Invalid");
        let other = json!({"preconditions": {"uid": "another"}});
        t.delete(&path).json(other).await.refused(409, "Conflict");
        t.delete(&t.core("configmaps?labelSelector=a%3D%3D%3Db")).await.refused(400, "BadRequest");
        assert_eq!(left(t).await, ["a"]);
        t.delete(&path).json(json!({"propagationPolicy": "Background"})).await.expect(200);
        assert_eq!(left(t).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn pods_without_a_node_go_at_once_and_a_limit_deletes_that_many() {
    scene(async |t: &Scene| {
        for name in ["a", "b", "c"] {
            t.post(&t.core("pods"), pod(name)).await.expect(201);
        }
        let gone = t.delete(&t.core("pods?limit=2")).await.expect(200);
        assert_eq!(gone.names(), ["a", "b"]);
        assert_eq!(t.get(&t.core("pods")).await.expect(200).names(), ["c"]);
    })
    .await;
}

#[tokio::test]
async fn not_every_collection_can_be_deleted() {
    scene(async |t: &Scene| {
        t.delete("/api/v1/namespaces").await.refused(405, "MethodNotAllowed");
        t.delete("/api/v1/configmaps?labelSelector=nobody%3Dhas-this").await.refused(405, "MethodNotAllowed");
        t.delete(&format!("{CRDS}?labelSelector=nobody%3Dhas-this")).await.expect(200);
        let core = t.get("/api/v1").await.expect(200);
        let verbs = |name: &str| -> bool {
            let all = core["resources"].as_array().expect("resources");
            let found = all.iter().find(|resource| resource["name"] == name).expect("it is served");
            found["verbs"].as_array().expect("verbs").contains(&json!("deletecollection"))
        };
        assert_eq!((verbs("configmaps"), verbs("pods"), verbs("namespaces")), (true, true, false));
    })
    .await;
}
