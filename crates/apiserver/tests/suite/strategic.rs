//! Strategic merge patch of built-in kinds, as `kubectl apply`, `set` and `rollout restart` send it.

use serde_json::{Value, json};

use crate::{
    harness::{Read, Scene, assert_says, scene},
    widget::anything,
    workloads::{pod, workload},
};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Patches a Deployment of these containers and returns the containers afterwards.
async fn containers(t: &Scene, before: Value, patch: Value) -> Value {
    let path = t.group("apps/v1", "deployments");
    let mut body = workload("Deployment", "d", 0);
    body["spec"]["template"]["spec"]["containers"] = before;
    t.post(&path, body).await.expect(201);
    let patch = json!({"spec": {"template": {"spec": patch}}});
    let after = t.patch(&format!("{path}/d"), STRATEGIC, patch).await.expect(200);
    t.delete(&format!("{path}/d")).await.expect(200);
    t.until_code(&format!("{path}/d"), 404).await;
    let all = after["spec"]["template"]["spec"]["containers"].as_array().expect("containers").clone();
    // Only what a test set, none of the defaults.
    let fields = ["name", "image", "env", "ports", "volumeMounts"];
    all.iter()
        .map(|container| {
            let kept = fields.iter().filter_map(|field| Some((*field, container.get(field)?.clone())));
            kept.map(|(field, value)| (field.to_owned(), value)).collect::<serde_json::Map<_, _>>()
        })
        .map(Value::Object)
        .collect()
}

#[tokio::test]
async fn an_image_and_a_variable_are_set_in_the_container_of_that_name() {
    scene(async |t: &Scene| {
        let before = json!([
            {"name": "a", "image": "i/a:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "b", "image": "i/b:1"},
        ]);
        let patch = json!({"containers": [{"name": "a", "image": "i/a:2", "env": [{"name": "Y", "value": "3"}]}]});
        let after = containers(t, before, patch).await;
        let env = json!([{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}]);
        assert_eq!(after, json!([{"name": "a", "image": "i/a:2", "env": env}, {"name": "b", "image": "i/b:1"}]));
    })
    .await;
}

#[tokio::test]
async fn containers_are_added_deleted_and_ordered() {
    scene(async |t: &Scene| {
        let of = |names: &[&str]| -> Value {
            names.iter().map(|name| json!({"name": name, "image": "i/i:1"})).collect()
        };
        let names = |list: &Value| -> Vec<String> {
            list.as_array().expect("a list").iter().map(|c| c.text("/name").to_owned()).collect()
        };
        let before = of(&["a", "b", "c"]);
        let add = json!({"containers": of(&["new"])});
        assert_eq!(names(&containers(t, before.clone(), add).await), ["new", "a", "b", "c"]);
        let delete = json!({"containers": [{"name": "b", "$patch": "delete"}]});
        assert_eq!(names(&containers(t, before.clone(), delete).await), ["a", "c"]);
        let replace = json!({"containers": [{"$patch": "replace"}, {"name": "z", "image": "i/i:1"}]});
        assert_eq!(names(&containers(t, before.clone(), replace).await), ["z"]);
        let order = json!({
            "$setElementOrder/containers": [{"name": "c"}, {"name": "new"}, {"name": "a"}],
            "containers": of(&["new"]),
        });
        assert_eq!(names(&containers(t, before, order).await), ["b", "c", "new", "a"]);
    })
    .await;
}

#[tokio::test]
async fn ports_mounts_and_volumes_are_merged_by_what_names_them() {
    scene(async |t: &Scene| {
        let before = json!([{
            "name": "a", "image": "i/a:1",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }]);
        let patch = json!({
            "containers": [{
                "name": "a", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81, "protocol": "TCP"}],
                "volumeMounts": [{"mountPath": "/v", "readOnly": true}],
            }],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["h"]}],
            "imagePullSecrets": [{"name": "s"}],
        });
        // The volume comes with the patch, so the mount is not there before.
        let path = t.group("apps/v1", "deployments");
        let mut body = workload("Deployment", "d", 0);
        body["spec"]["template"]["spec"]["containers"] = before;
        body["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/x", "type": ""}}]);
        t.post(&path, body).await.expect(201);
        let mut patch = json!({"spec": {"template": {"spec": patch}}});
        patch["spec"]["template"]["spec"]["volumes"][0]["$retainKeys"] = json!(["name", "emptyDir"]);
        let after = t.patch(&format!("{path}/d"), STRATEGIC, patch).await.expect(200);
        let spec = &after["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        assert_eq!(
            container["ports"],
            json!([{"name": "web", "containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "TCP"}])
        );
        assert_eq!(container["volumeMounts"], json!([{"name": "v", "mountPath": "/v", "readOnly": true}]));
        assert_eq!(spec["volumes"], json!([{"name": "v", "emptyDir": {}}]));
        assert_eq!(spec["hostAliases"], json!([{"ip": "10.0.0.1", "hostnames": ["h"]}]));
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
    })
    .await;
}

#[tokio::test]
async fn a_strategy_retains_only_the_keys_that_are_listed() {
    scene(async |t: &Scene| {
        let path = t.group("apps/v1", "deployments");
        let made = t.post(&path, workload("Deployment", "d", 0)).await.expect(201);
        assert!(made["spec"]["strategy"]["rollingUpdate"].is_object());
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        let after = t.patch(&format!("{path}/d"), STRATEGIC, patch).await.expect(200);
        assert_eq!(after["spec"]["strategy"], json!({"type": "Recreate"}));
        let patch =
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {"maxSurge": 1}}}});
        t.patch(&format!("{path}/d"), STRATEGIC, patch).await.refused(400, "BadRequest");
    })
    .await;
}

#[tokio::test]
async fn finalizers_owners_labels_and_annotations_are_merged() {
    scene(async |t: &Scene| {
        // By its name too: a real control plane deletes what has an owner that is not there.
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
        let mut body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
        body["metadata"]["labels"] = json!({"x": "1", "y": "2"});
        body["metadata"]["finalizers"] = json!(["suite.example.com/1", "suite.example.com/2"]);
        t.post(&t.core("serviceaccounts"), body).await.expect(201);
        let path = t.core("serviceaccounts/a");
        let patch = json!({"metadata": {
            "labels": {"x": null, "z": "3"}, "annotations": {"n": "m"},
            "finalizers": ["suite.example.com/3"], "$deleteFromPrimitiveList/finalizers": ["suite.example.com/1"],
        }});
        let after = t.patch(&path, STRATEGIC, patch).await.expect(200);
        assert_eq!(after["metadata"]["labels"], json!({"y": "2", "z": "3"}));
        assert_eq!(after["metadata"]["annotations"], json!({"n": "m"}));
        let mut finalizers: Vec<&str> =
            after["metadata"]["finalizers"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        finalizers.sort_unstable();
        assert_eq!(finalizers, ["suite.example.com/2", "suite.example.com/3"]);
        let clear = json!({"metadata": {"finalizers": null}});
        t.patch(&path, STRATEGIC, clear).await.expect(200);
        let config = t.config_map("owner", "1").await;
        let uid = config.text("/metadata/uid");
        t.patch(&path, STRATEGIC, json!({"metadata": {"ownerReferences": [owner(uid)]}})).await.expect(200);
        let block = json!({"metadata": {"ownerReferences": [{"uid": uid, "blockOwnerDeletion": true}]}});
        let after = t.patch(&path, STRATEGIC, block).await.expect(200);
        assert_eq!(after["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        assert_eq!(after["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
    })
    .await;
}

#[tokio::test]
async fn the_ports_of_a_service_and_the_conditions_of_a_status_are_merged() {
    scene(async |t: &Scene| {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"ports": [{"name": "a", "port": 80}], "selector": {"app": "x"}},
        });
        t.post(&t.core("services"), service).await.expect(201);
        let patch = json!({"spec": {"ports": [{"name": "b", "port": 81}, {"port": 80, "targetPort": 8080}]}});
        let after = t.patch(&t.core("services/s"), STRATEGIC, patch).await.expect(200);
        let mut ports: Vec<(&str, &Value)> = after["spec"]["ports"]
            .as_array()
            .expect("ports")
            .iter()
            .map(|port| (port.text("/name"), &port["targetPort"]))
            .collect();
        ports.sort_by_key(|(name, _)| *name);
        assert_eq!(ports, [("a", &json!(8080)), ("b", &json!(81))]);

        t.post(&t.core("pods"), pod("p")).await.expect(201);
        let status = t.core("pods/p/status");
        for (kind, truth) in [("Ready", "False"), ("suite.example.com/Fed", "True"), ("Ready", "True")] {
            let patch = json!({"status": {"conditions": [{"type": kind, "status": truth}]}});
            t.patch(&status, STRATEGIC, patch).await.expect(200);
        }
        let pod = t.get(&t.core("pods/p")).await.expect(200);
        let mut conditions: Vec<(&str, &str)> = pod["status"]["conditions"]
            .as_array()
            .expect("conditions")
            .iter()
            .map(|condition| (condition.text("/type"), condition.text("/status")))
            .filter(|(kind, _)| ["Ready", "suite.example.com/Fed"].contains(kind))
            .collect();
        conditions.sort_unstable();
        assert_eq!(conditions, [("Ready", "True"), ("suite.example.com/Fed", "True")]);
    })
    .await;
}

#[tokio::test]
async fn a_version_in_the_patch_is_a_precondition_and_wrong_types_are_refused() {
    scene(async |t: &Scene| {
        let made = t.config_map("a", "1").await;
        let path = t.core("configmaps/a");
        let change = |version: &str| json!({"metadata": {"resourceVersion": version}, "data": {"key": "2"}});
        t.patch(&path, STRATEGIC, change("1")).await.refused(409, "Conflict");
        t.patch(&path, STRATEGIC, change(made.version())).await.expect(200);
        t.patch(&path, STRATEGIC, json!({"data": {"key": 7}})).await.refused(422, "Invalid");
        t.patch(&path, STRATEGIC, json!([])).await.refused(400, "BadRequest");
        t.patch(&t.core("configmaps/none"), STRATEGIC, json!({})).await.refused(404, "NotFound");
        let status = t.patch(&path, STRATEGIC, json!({"$patch": "shake"})).await.expect(500);
        assert_says(status.text("/message"), &["unknown patch type"]);
    })
    .await;
}

#[tokio::test]
async fn an_element_without_its_key_is_an_error() {
    scene(async |t: &Scene| {
        let path = t.group("apps/v1", "deployments");
        t.post(&path, workload("Deployment", "d", 0)).await.expect(201);
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "i/i:2"}]}}}});
        let status = t.patch(&format!("{path}/d"), STRATEGIC, patch).await.expect(500);
        assert_says(status.text("/message"), &["does not contain declared merge key: name"]);
    })
    .await;
}

#[tokio::test]
async fn a_custom_resource_has_no_strategic_merge_patch() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let made = t.widget(&widgets, "w", json!({"a": 1})).await;
        for path in [widgets.at("w"), widgets.status("w")] {
            let status = t.patch(&path, STRATEGIC, json!({"spec": {"a": 2}})).await;
            let status = status.refused(415, "UnsupportedMediaType");
            assert_says(
                status.text("/message"),
                &[
                    "the body of the request was in an unknown format - accepted media types include: ",
                    "application/json-patch+json, application/merge-patch+json",
                ],
            );
        }
        assert_eq!(t.get(&widgets.at("w")).await.expect(200), made);
        // Definitions themselves are a built-in kind.
        let label = json!({"metadata": {"labels": {"suite": "yes"}}});
        let crd = t.patch(&widgets.definition(), STRATEGIC, label).await.expect(200);
        assert_eq!(crd["metadata"]["labels"], json!({"suite": "yes"}));
    })
    .await;
}
