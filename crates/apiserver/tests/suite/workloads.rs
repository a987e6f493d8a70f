//! The built-in kinds as far as clients lean on them: fields the server fills in, `status` apart from
//! the rest, and generation.

use serde_json::{Value, json};

use crate::harness::{MERGE, Scene, scene};

pub(crate) fn pod(name: &str) -> Value {
    let container = json!({"name": "main", "image": "example.com/none"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "automountServiceAccountToken": false},
    })
}

/// A Deployment or StatefulSet whose pods carry `app: <name>`.
pub(crate) fn workload(kind: &str, name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name});
    let mut body = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod(name)["spec"]},
        },
    });
    if kind == "StatefulSet" {
        body["spec"]["serviceName"] = json!(name);
    }
    body
}

#[tokio::test]
async fn every_built_in_kind_can_be_stored_and_read_back() {
    scene(async |t: &Scene| {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000006Z"}});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x"}});
        let cases = [
            (t.core("pods"), pod("x"), "/spec/containers/0/image"),
            (t.core("services"), service, "/spec/ports/0/port"),
            (t.core("serviceaccounts"), account, "/metadata/name"),
            (t.group("apps/v1", "deployments"), workload("Deployment", "x", 0), "/spec/selector/matchLabels/app"),
            (t.group("apps/v1", "statefulsets"), workload("StatefulSet", "x", 0), "/spec/serviceName"),
            (t.group("coordination.k8s.io/v1", "leases"), lease, "/spec/renewTime"),
        ];
        for (path, body, pointer) in cases {
            t.post(&path, body.clone()).await.expect(201);
            let got = t.get(&format!("{path}/x")).await.expect(200);
            assert_eq!(got.pointer(pointer), body.pointer(pointer), "{path}");
            assert_eq!((&got["kind"], &got["apiVersion"]), (&body["kind"], &body["apiVersion"]));
        }
    })
    .await;
}

#[tokio::test]
async fn a_lease_can_be_created_by_an_update() {
    scene(async |t: &Scene| {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "x", "namespace": t.ns}, "spec": {"holderIdentity": "me"}});
        t.put(&t.group("coordination.k8s.io/v1", "leases/x"), lease).await.expect(201);
    })
    .await;
}

#[tokio::test]
async fn a_secrets_plain_strings_become_base64_data() {
    scene(async |t: &Scene| {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}});
        let made = t.post(&t.core("secrets"), body).await.expect(201);
        assert_eq!((&made["data"], &made["type"]), (&json!({"a": "Yg=="}), &json!("Opaque")));
        assert_eq!(made.get("stringData"), None);
    })
    .await;
}

#[tokio::test]
async fn a_pods_status_belongs_to_the_status_path_alone() {
    scene(async |t: &Scene| {
        let mut body = pod("p");
        body["status"] = json!({"phase": "Running"});
        let made = t.post(&t.core("pods"), body).await.expect(201);
        assert_eq!(made["status"]["phase"], "Pending");
        let status =
            json!({"status": {"phase": "Running", "podIP": "10.0.0.9"}, "spec": {"nodeName": "nowhere"}});
        t.patch(&t.core("pods/p/status"), MERGE, status).await.expect(200);
        let got = t.get(&t.core("pods/p")).await.expect(200);
        assert_eq!(
            (&got["status"]["phase"], &got["status"]["podIP"]),
            (&json!("Running"), &json!("10.0.0.9"))
        );
        assert_eq!(got["spec"].get("nodeName"), None);
        let labels = json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}});
        let got = t.patch(&t.core("pods/p"), MERGE, labels).await.expect(200);
        assert_eq!(
            (&got["status"]["phase"], &got["metadata"]["labels"]["a"]),
            (&json!("Running"), &json!("b"))
        );
        let read = t.get(&t.core("pods/p/status")).await.expect(200);
        assert_eq!(read, got);
    })
    .await;
}

#[tokio::test]
async fn a_nodes_annotations_and_conditions_are_written_through_its_status() {
    scene(async |t: &Scene| {
        let path = format!("/api/v1/nodes/{}", t.id);
        t.forget_later(&path);
        let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": t.id}, "spec": {"podCIDR": "10.1.2.0/24"}});
        let made = t.post("/api/v1/nodes", body).await.expect(201);
        assert_eq!(made["spec"]["podCIDRs"], json!(["10.1.2.0/24"]));
        let condition = json!({"type": "NetworkUnavailable", "status": "False", "reason": "Up"});
        let status = json!({"metadata": {"annotations": {"a.example.com/b": "c"}}, "status": {"conditions": [condition]}});
        let got = t.patch(&format!("{path}/status"), MERGE, status).await.expect(200);
        assert_eq!(got["metadata"]["annotations"]["a.example.com/b"], "c");
        let conditions = got["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|c| c["type"] == "NetworkUnavailable" && c["reason"] == "Up"), "{got}");
    })
    .await;
}

#[tokio::test]
async fn a_workloads_generation_follows_its_spec_only() {
    scene(async |t: &Scene| {
        for (kind, plural) in [("Deployment", "deployments"), ("StatefulSet", "statefulsets")] {
            let path = t.group("apps/v1", plural);
            let made = t.post(&path, workload(kind, "w", 0)).await.expect(201);
            assert_eq!(made["metadata"]["generation"], 1);
            let at = format!("{path}/w");
            let meta = json!({"metadata": {"labels": {"a": "b"}}});
            assert_eq!(t.patch(&at, MERGE, meta).await.expect(200)["metadata"]["generation"], 1);
            let status = json!({"status": {"observedGeneration": 1, "replicas": 0}});
            let got = t.patch(&format!("{at}/status"), MERGE, status).await.expect(200);
            assert_eq!(got["metadata"]["generation"], 1);
            let spec = json!({"spec": {"minReadySeconds": 3}});
            assert_eq!(t.patch(&at, MERGE, spec).await.expect(200)["metadata"]["generation"], 2);
        }
        assert_eq!(t.config_map("c", "1").await["metadata"].get("generation"), None);
    })
    .await;
}

#[tokio::test]
async fn a_statefulsets_status_is_kept_apart_from_its_spec() {
    scene(async |t: &Scene| {
        let path = t.group("apps/v1", "statefulsets");
        let mut body = workload("StatefulSet", "w", 0);
        body["status"] = json!({"replicas": 7, "availableReplicas": 7});
        let made = t.post(&path, body).await.expect(201);
        assert_ne!(made["status"]["availableReplicas"], 7);
        let at = format!("{path}/w");
        let got = t.patch(&at, MERGE, json!({"status": {"replicas": 9}})).await.expect(200);
        assert_ne!(got["status"]["replicas"], 9);
        let got = t
            .patch(&format!("{at}/status"), MERGE, json!({"spec": {"minReadySeconds": 9}}))
            .await
            .expect(200);
        assert_ne!(got["spec"]["minReadySeconds"], 9);
    })
    .await;
}
