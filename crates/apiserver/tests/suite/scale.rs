//! The `scale` subresource of workloads: what `kubectl scale` and autoscalers use.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, scene},
    workloads::workload,
};

const BOTH: [(&str, &str); 2] = [("Deployment", "deployments"), ("StatefulSet", "statefulsets")];

async fn made(t: &Scene, kind: &str, plural: &str) -> String {
    let path = t.group("apps/v1", plural);
    t.post(&path, workload(kind, "w", 0)).await.expect(201);
    format!("{path}/w")
}

async fn replicas(t: &Scene, path: &str) -> Value {
    t.get(path).await.expect(200)["spec"]["replicas"].clone()
}

#[tokio::test]
async fn a_workload_shows_its_scale() {
    scene(async |t: &Scene| {
        for (kind, plural) in BOTH {
            let path = made(t, kind, plural).await;
            let scale = t.get(&format!("{path}/scale")).await.expect(200);
            assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
            let object = t.get(&path).await.expect(200);
            assert_eq!((scale.name(), &scale["metadata"]["uid"]), ("w", &object["metadata"]["uid"]));
            assert_eq!(scale.text("/metadata/namespace"), t.ns);
            assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=w"}));
        }
    })
    .await;
}

#[tokio::test]
async fn a_scale_can_be_replaced_or_patched() {
    scene(async |t: &Scene| {
        for (kind, plural) in BOTH {
            let path = made(t, kind, plural).await;
            let at = format!("{path}/scale");
            let mut scale = t.get(&at).await.expect(200);
            scale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            scale["spec"] = json!({"replicas": 2});
            let answer = t.put(&at, scale).await.expect(200);
            assert_eq!((&answer["kind"], &answer["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
            assert_eq!(replicas(t, &path).await, 2);
            let answer = t.patch(&at, MERGE, json!({"spec": {"replicas": 3}})).await.expect(200);
            assert_eq!(answer["spec"]["replicas"], 3);
            let object = t.get(&path).await.expect(200);
            assert_eq!(
                (&object["spec"]["replicas"], &object["metadata"]["generation"]),
                (&json!(3), &json!(3))
            );
            t.patch(&at, MERGE, json!({"spec": {"replicas": 0}})).await.expect(200);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stale_scale_conflicts_and_a_negative_one_is_invalid() {
    scene(async |t: &Scene| {
        for (kind, plural) in BOTH {
            let path = made(t, kind, plural).await;
            let at = format!("{path}/scale");
            let mut stale = t.get(&at).await.expect(200);
            t.patch(&at, MERGE, json!({"spec": {"replicas": 1}})).await.expect(200);
            stale["spec"] = json!({"replicas": 2});
            t.put(&at, stale).await.refused(409, "Conflict");
            let status = t.patch(&at, MERGE, json!({"spec": {"replicas": -1}})).await.refused(422, "Invalid");
            assert_eq!(status["details"]["causes"][0]["field"], "spec.replicas");
            t.patch(&at, MERGE, json!({"spec": {"replicas": 0}})).await.expect(200);
            t.get(&t.group("apps/v1", &format!("{plural}/none/scale"))).await.refused(404, "NotFound");
        }
    })
    .await;
}

#[tokio::test]
async fn a_scale_that_cannot_be_understood_scales_nothing() {
    scene(async |t: &Scene| {
        let path = made(t, "Deployment", "deployments").await;
        let before = t.get(&path).await.expect(200);
        let scale = format!("{path}/scale");
        let mut wrong = t.get(&scale).await.expect(200);
        wrong["spec"]["replicas"] = json!("3");
        t.put(&scale, wrong).await.refused(400, "BadRequest");
        let answer = t.patch(&scale, MERGE, json!({"spec": {"replicas": "3"}})).await;
        assert!([400, 422].contains(&answer.code), "{answer:?}");
        assert_eq!(t.get(&path).await.expect(200)["spec"], before["spec"]);
    })
    .await;
}
