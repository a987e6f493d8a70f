//! Namespaces: what they need to exist for, and how they take their contents with them. On a real
//! cluster the last part is the controller-manager's work.

use serde_json::json;

use crate::{
    harness::{MERGE, Read, Scene, assert_says, config_map, eventually, scene},
    widget::anything,
};

#[tokio::test]
async fn the_system_namespaces_exist() {
    scene(async |t: &Scene| {
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = t.get(&format!("/api/v1/namespaces/{name}")).await.expect(200);
            assert_eq!(namespace["status"]["phase"], "Active");
        }
    })
    .await;
}

#[tokio::test]
async fn a_namespace_is_born_active_and_labelled_with_its_name() {
    scene(async |t: &Scene| {
        let namespace = t.get(&format!("/api/v1/namespaces/{}", t.ns)).await.expect(200);
        assert_eq!(namespace["status"]["phase"], "Active");
        assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], t.ns);
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    })
    .await;
}

#[tokio::test]
async fn nothing_can_be_created_in_a_missing_namespace() {
    scene(async |t: &Scene| {
        let path = format!("/api/v1/namespaces/{}-none/configmaps", t.ns);
        let status = t.post(&path, config_map("a", "1")).await.refused(404, "NotFound");
        assert_eq!(status["message"], format!("namespaces \"{}-none\" not found", t.ns));
        let list = t.get(&path).await.expect(200);
        assert_eq!(list["items"], json!([]), "reading it is no error");
        let widgets = t.widgets(anything()).await;
        let path = widgets.path.replace(&t.ns, &format!("{}-none", t.ns));
        t.post(&path, widgets.widget("a", json!({}))).await.refused(404, "NotFound");
    })
    .await;
}

#[tokio::test]
async fn a_namespace_takes_its_contents_along_but_waits_for_finalizers() {
    scene(async |t: &Scene| {
        let name = format!("{}-2", t.ns);
        t.make_namespace(&name).await;
        let path = format!("/api/v1/namespaces/{name}");
        let maps = format!("{path}/configmaps");
        t.post(&maps, config_map("plain", "1")).await.expect(201);
        let mut held = config_map("held", "1");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        t.post(&maps, held).await.expect(201);
        let widgets = t.widgets(anything()).await;
        let widget = widgets.path.replace(&t.ns, &name);
        t.post(&widget, widgets.widget("a", json!({}))).await.expect(201);

        let deleting = t.delete(&path).await.expect(200);
        assert_eq!((&deleting["kind"], deleting.name()), (&json!("Namespace"), name.as_str()));
        assert_eq!(deleting["status"]["phase"], "Terminating");
        assert_ne!(deleting.text("/metadata/deletionTimestamp"), "");

        t.until_code(&format!("{maps}/plain"), 404).await;
        t.until_code(&format!("{widget}/a"), 404).await;
        let held = format!("{maps}/held");
        eventually("the held one is marked", async || {
            let held = t.get(&held).await.expect(200);
            (!held.text("/metadata/deletionTimestamp").is_empty()).then_some(())
        })
        .await;
        let status = t.post(&maps, config_map("late", "1")).await.refused(403, "Forbidden");
        assert_says(status.text("/message"), &["because it is being terminated"]);
        assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");

        t.patch(&held, MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
        t.until_code(&path, 404).await;
    })
    .await;
}

#[tokio::test]
async fn an_empty_namespace_goes_and_can_come_back() {
    scene(async |t: &Scene| {
        let name = format!("{}-2", t.ns);
        t.make_namespace(&name).await;
        let path = format!("/api/v1/namespaces/{name}");
        t.delete(&path).await.expect(200);
        t.until_code(&path, 404).await;
        t.make_namespace(&name).await;
        let back = t.get(&path).await.expect(200);
        assert_eq!(back["status"]["phase"], "Active");
    })
    .await;
}

#[tokio::test]
async fn the_default_namespace_may_not_be_deleted() {
    scene(async |t: &Scene| {
        for name in ["default", "kube-system"] {
            let status = t.delete(&format!("/api/v1/namespaces/{name}")).await.refused(403, "Forbidden");
            assert_says(status.text("/message"), &["this namespace may not be deleted"]);
        }
    })
    .await;
}

#[tokio::test]
async fn the_service_of_the_api_server_itself_exists_from_the_start() {
    scene(async |t: &Scene| {
        let service = t.get("/api/v1/namespaces/default/services/kubernetes").await.expect(200);
        assert_eq!(
            service["metadata"]["labels"],
            json!({"component": "apiserver", "provider": "kubernetes"})
        );
        let spec = &service["spec"];
        assert_eq!((&spec["type"], &spec["clusterIP"]), (&json!("ClusterIP"), &json!("10.96.0.1")));
        assert_eq!((&spec["clusterIPs"], &spec["sessionAffinity"]), (&json!(["10.96.0.1"]), &json!("None")));
        let port = &spec["ports"][0];
        assert_eq!(
            (&port["name"], &port["port"], &port["protocol"]),
            (&json!("https"), &json!(443), &json!("TCP"))
        );
        assert!(port["targetPort"].as_u64().is_some_and(|port| port > 0), "{port}");
        let list = t.get("/api/v1/services?labelSelector=component%3Dapiserver").await.expect(200);
        assert_eq!(list.names(), ["kubernetes"]);
    })
    .await;
}
