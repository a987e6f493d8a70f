//! `dryRun=All`: judged and answered as if it were meant, and nothing has happened afterwards.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, assert_says, config_map, scene},
    watch::Watch,
    widget::with_spec,
    workloads::workload,
};

#[tokio::test]
async fn a_dry_create_is_answered_and_leaves_nothing() {
    scene(async |t: &Scene| {
        let path = t.core("configmaps?dryRun=All");
        let answer = t.post(&path, config_map("a", "1")).await.expect(201);
        assert_eq!((answer.name(), &answer["data"]["key"]), ("a", &json!("1")));
        assert_eq!(answer["metadata"].get("resourceVersion"), None);
        assert!(
            !answer.text("/metadata/uid").is_empty()
                && !answer.text("/metadata/creationTimestamp").is_empty()
        );
        t.get(&t.core("configmaps/a")).await.expect(404);
        let mut named = config_map("", "1");
        named["metadata"] = json!({"generateName": "some-"});
        assert!(t.post(&path, named).await.expect(201).name().starts_with("some-"));
    })
    .await;
}

#[tokio::test]
async fn dry_changes_and_deletions_are_answered_and_leave_all_as_it_was() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        let list = t.get(&t.core("configmaps?fieldSelector=metadata.name%3Da")).await.expect(200);
        let path = t.core("configmaps/a?dryRun=All");
        for answer in [
            t.put(&path, config_map("a", "2")).await.expect(200),
            t.patch(&path, MERGE, json!({"data": {"key": "2"}})).await.expect(200),
        ] {
            assert_eq!(answer["data"]["key"], "2");
            assert_eq!(answer.version(), made.version());
        }
        t.delete(&path).await.expect(200);
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
        t.delete(&t.core("configmaps/a")).json(options).await.expect(200);
        assert_eq!(t.get(&t.core("configmaps/a")).await.expect(200), made);
        // Watches saw nothing of it: the next event is the next real change.
        let since = t.core(&format!(
            "configmaps?watch=true&fieldSelector=metadata.name%3Da&resourceVersion={}",
            list.version()
        ));
        let mut watch = Watch::of(t.get(&since)).await;
        let changed = t.put(&t.core("configmaps/a"), config_map("a", "3")).await.expect(200);
        assert_eq!(watch.expect("MODIFIED").await, changed);
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_is_judged_like_any_other_request() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        t.post(&t.core("configmaps?dryRun=All"), config_map("a", "1")).await.refused(409, "AlreadyExists");
        t.post(&t.core("configmaps?dryRun=All"), config_map("A!", "1")).await.refused(422, "Invalid");
        let mut stale = config_map("a", "2");
        stale["metadata"]["resourceVersion"] = json!("1");
        t.put(&t.core("configmaps/a?dryRun=All"), stale).await.refused(409, "Conflict");
        t.delete(&t.core("configmaps/none?dryRun=All")).await.refused(404, "NotFound");
        let widgets = t.widgets(with_spec(json!({"size": {"type": "integer", "maximum": 3}}))).await;
        let path = format!("{}?dryRun=All", widgets.path);
        t.post(&path, widgets.widget("w", json!({"size": 4}))).await.refused(422, "Invalid");
        t.post(&path, widgets.widget("w", json!({"size": 3}))).await.expect(201);
        t.get(&widgets.at("w")).await.expect(404);
        assert_eq!(t.get(&t.core("configmaps/a")).await.expect(200), made);
    })
    .await;
}

#[tokio::test]
async fn other_values_of_dry_run_are_refused_in_the_name_of_the_options() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let refusals: [(Value, &str); 5] = [
            (
                t.post(&t.core("configmaps?dryRun=Some"), config_map("b", "1")).await.refused(422, "Invalid"),
                "CreateOptions",
            ),
            (
                t.put(&t.core("configmaps/a?dryRun=Some"), config_map("a", "2"))
                    .await
                    .refused(422, "Invalid"),
                "UpdateOptions",
            ),
            (
                t.patch(&t.core("configmaps/a?dryRun=Some"), MERGE, json!({})).await.refused(422, "Invalid"),
                "PatchOptions",
            ),
            (t.delete(&t.core("configmaps/a?dryRun=Some")).await.refused(422, "Invalid"), "DeleteOptions"),
            (
                t.delete(&t.core("configmaps/a"))
                    .json(json!({"dryRun": ["All", "Some"]}))
                    .await
                    .refused(422, "Invalid"),
                "DeleteOptions",
            ),
        ];
        for (status, kind) in refusals {
            let says = [kind, "meta.k8s.io", "dryRun: Unsupported value: [", r#"supported values: "All""#];
            assert_says(status.text("/message"), &says);
        }
        t.get(&t.core("configmaps/a")).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_of_status_and_scale_changes_neither() {
    scene(async |t: &Scene| {
        let path = t.group("apps/v1", "deployments");
        t.post(&path, workload("Deployment", "d", 0)).await.expect(201);
        let scale =
            t.patch(&format!("{path}/d/scale?dryRun=All"), MERGE, json!({"spec": {"replicas": 5}})).await;
        assert_eq!(scale.expect(200)["spec"]["replicas"], 5);
        let status = json!({"status": {"replicas": 7}});
        let answer = t.patch(&format!("{path}/d/status?dryRun=All"), MERGE, status).await.expect(200);
        assert_eq!(answer["status"]["replicas"], 7);
        let after = t.get(&format!("{path}/d")).await.expect(200);
        assert_eq!(after["spec"]["replicas"], 0);
        assert_ne!(after["status"]["replicas"], json!(7));
    })
    .await;
}
