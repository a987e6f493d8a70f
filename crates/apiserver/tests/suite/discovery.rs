//! What a client learns before it asks for anything: versions, groups, resources, in the legacy and
//! in the aggregated form, and that definitions come and go in both.

use serde_json::{Value, json};

use crate::{
    harness::{Read, Scene, eventually, scene},
    widget::anything,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn find<'a>(list: &'a Value, key: &str, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| item[key] == name)
}

fn has_verbs(resource: &Value, verbs: &[&str]) -> bool {
    let all = resource["verbs"].as_array().expect("verbs");
    verbs.iter().all(|verb| all.contains(&json!(verb)))
}

const FULL: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

#[tokio::test]
async fn the_version_names_a_kubernetes_release() {
    scene(async |t: &Scene| {
        let version = t.get("/version").await.expect(200);
        assert_eq!(version["major"], "1");
        assert!(version.text("/gitVersion").starts_with("v1."), "{version}");
        assert!(version.text("/minor").trim_end_matches('+').parse::<u32>().is_ok(), "{version}");
    })
    .await;
}

#[tokio::test]
async fn health_end_points_say_ok_in_plain_text() {
    scene(async |t: &Scene| {
        for path in ["/readyz", "/livez", "/healthz"] {
            let answer = t.get(path).header("accept", "*/*").await;
            assert_eq!((answer.code, answer.text.as_str()), (200, "ok"), "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn legacy_discovery_lists_versions_and_groups() {
    scene(async |t: &Scene| {
        let core = t.get("/api").await.expect(200);
        assert_eq!((&core["kind"], &core["versions"]), (&json!("APIVersions"), &json!(["v1"])));
        let groups = t.get("/apis").await.expect(200);
        assert_eq!(groups["kind"], "APIGroupList");
        for group in ["apps", "coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io"] {
            let found = find(&groups["groups"], "name", group).unwrap_or_else(|| panic!("{group}"));
            let v1 = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
            assert_eq!(found["preferredVersion"], v1);
            assert!(found["versions"].as_array().unwrap().contains(&v1), "{found}");
            let alone = t.get(&format!("/apis/{group}")).await.expect(200);
            assert_eq!((&alone["kind"], alone.text("/name")), (&json!("APIGroup"), group));
        }
    })
    .await;
}

#[tokio::test]
async fn legacy_discovery_describes_the_core_resources() {
    scene(async |t: &Scene| {
        let list = t.get("/api/v1").await.expect(200);
        assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
        let known = [
            ("namespaces", "Namespace", false, "ns"),
            ("nodes", "Node", false, "no"),
            ("pods", "Pod", true, "po"),
            ("services", "Service", true, "svc"),
            ("configmaps", "ConfigMap", true, "cm"),
            ("events", "Event", true, "ev"),
            ("serviceaccounts", "ServiceAccount", true, "sa"),
        ];
        for (plural, kind, namespaced, short) in known {
            let found = find(&list["resources"], "name", plural).unwrap_or_else(|| panic!("{plural}"));
            assert_eq!((&found["kind"], &found["namespaced"]), (&json!(kind), &json!(namespaced)));
            assert_eq!(found["shortNames"], json!([short]));
            assert_eq!(found["singularName"], kind.to_lowercase());
            assert!(has_verbs(found, &FULL), "{found}");
        }
        let pods = find(&list["resources"], "name", "pods").unwrap();
        assert_eq!(pods["categories"], json!(["all"]));
        let secrets = find(&list["resources"], "name", "secrets").unwrap();
        assert_eq!(secrets.get("shortNames"), None);
        for sub in ["pods/status", "nodes/status", "namespaces/status", "services/status"] {
            let found = find(&list["resources"], "name", sub).unwrap_or_else(|| panic!("{sub}"));
            assert!(has_verbs(found, &["get", "patch", "update"]), "{found}");
        }
        let exec = find(&list["resources"], "name", "pods/exec").unwrap();
        assert_eq!(exec["kind"], "PodExecOptions");
        let log = find(&list["resources"], "name", "pods/log").unwrap();
        assert_eq!((&log["kind"], &log["verbs"]), (&json!("Pod"), &json!(["get"])));
        assert!(has_verbs(exec, &["create", "get"]), "{exec}");
    })
    .await;
}

#[tokio::test]
async fn legacy_discovery_gives_scale_its_own_group_and_kind() {
    scene(async |t: &Scene| {
        let list = t.get("/apis/apps/v1").await.expect(200);
        for (plural, short) in [("deployments", "deploy"), ("statefulsets", "sts")] {
            let found = find(&list["resources"], "name", plural).unwrap();
            assert_eq!((&found["shortNames"], &found["categories"]), (&json!([short]), &json!(["all"])));
            let scale = find(&list["resources"], "name", &format!("{plural}/scale")).unwrap();
            let kind = (&scale["group"], &scale["version"], &scale["kind"]);
            assert_eq!(kind, (&json!("autoscaling"), &json!("v1"), &json!("Scale")));
            assert!(find(&list["resources"], "name", &format!("{plural}/status")).is_some());
        }
        let leases = t.get("/apis/coordination.k8s.io/v1").await.expect(200);
        let lease = find(&leases["resources"], "name", "leases").unwrap();
        assert_eq!((&lease["kind"], &lease["namespaced"]), (&json!("Lease"), &json!(true)));
        let events = t.get("/apis/events.k8s.io/v1").await.expect(200);
        assert!(find(&events["resources"], "name", "events").is_some());
    })
    .await;
}

#[tokio::test]
async fn aggregated_discovery_answers_in_one_request() {
    scene(async |t: &Scene| {
        let answer = t.get("/apis").header("accept", AGGREGATED).await;
        let content_type = answer.headers["content-type"].to_str().unwrap();
        assert!(content_type.contains("as=APIGroupDiscoveryList"), "{content_type}");
        assert!(content_type.contains("v=v2"), "{content_type}");
        let list = answer.expect(200);
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
        let apps = list["items"].as_array().unwrap().iter().find(|g| g.name() == "apps").unwrap();
        let v1 = find(&apps["versions"], "version", "v1").unwrap();
        assert_eq!(v1["freshness"], "Current");
        let sts = find(&v1["resources"], "resource", "statefulsets").unwrap();
        assert_eq!((&sts["scope"], &sts["singularResource"]), (&json!("Namespaced"), &json!("statefulset")));
        assert_eq!(sts["responseKind"]["kind"], "StatefulSet");
        assert!(has_verbs(sts, &FULL), "{sts}");
        let scale = find(&sts["subresources"], "subresource", "scale").unwrap();
        let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        assert_eq!(scale["responseKind"], kind);
    })
    .await;
}

#[tokio::test]
async fn aggregated_discovery_covers_the_core_group() {
    scene(async |t: &Scene| {
        let list = t.get("/api").header("accept", AGGREGATED).await.expect(200);
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        let v1 = find(&list["items"][0]["versions"], "version", "v1").unwrap();
        let nodes = find(&v1["resources"], "resource", "nodes").unwrap();
        assert_eq!((&nodes["scope"], &nodes["shortNames"]), (&json!("Cluster"), &json!(["no"])));
        let pods = find(&v1["resources"], "resource", "pods").unwrap();
        assert!(find(&pods["subresources"], "subresource", "exec").is_some(), "{pods}");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_accepts_several_forms_gets_one_it_listed() {
    scene(async |t: &Scene| {
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let accept = format!("{AGGREGATED},{old},application/json");
        let list = t.get("/apis").header("accept", &accept).await.expect(200);
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        let unknown = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList";
        let accept = format!("{unknown},application/json");
        let list = t.get("/apis").header("accept", &accept).await.expect(200);
        assert_eq!(list["kind"], "APIGroupList");
    })
    .await;
}

#[tokio::test]
async fn a_definition_appears_in_discovery_and_leaves_with_it() {
    scene(async |t: &Scene| {
        let mut definition = t.definition(anything());
        definition["spec"]["names"]["shortNames"] = json!(["wd"]);
        definition["spec"]["names"]["categories"] = json!(["all", "gadgets"]);
        let widgets = t.define(definition).await;
        let path = format!("/apis/{}/v1", widgets.group);
        let list = t.until_code(&path, 200).await.expect(200);
        let found = find(&list["resources"], "name", "widgets").unwrap();
        assert_eq!((&found["kind"], &found["singularName"]), (&json!("Widget"), &json!("widget")));
        assert_eq!(found["shortNames"], json!(["wd"]));
        assert_eq!(found["categories"], json!(["all", "gadgets"]));
        assert!(has_verbs(found, &FULL), "{found}");
        let status = find(&list["resources"], "name", "widgets/status").unwrap();
        assert!(has_verbs(status, &["get", "patch", "update"]), "{status}");
        let in_aggregated = async || {
            let list = t.get("/apis").header("accept", AGGREGATED).await.expect(200);
            let items = list["items"].as_array().unwrap();
            items.iter().find(|g| g.name() == widgets.group).cloned()
        };
        let group = eventually("aggregated discovery has the group", in_aggregated).await;
        let resource = &group["versions"][0]["resources"][0];
        assert_eq!((&resource["resource"], &resource["scope"]), (&json!("widgets"), &json!("Namespaced")));
        t.delete(&widgets.definition()).await.expect(200);
        t.until_code(&path, 404).await;
        eventually("aggregated discovery forgets", async || in_aggregated().await.is_none().then_some(()))
            .await;
    })
    .await;
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    scene(async |t: &Scene| {
        for path in ["/apis/nobody.example.com", "/apis/nobody.example.com/v1", "/apis/apps/v9", "/nowhere"] {
            t.get(path).await.expect(404);
        }
        t.get(&t.core("gizmos")).await.expect(404);
        t.get(&t.core("gizmos/one")).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn the_rust_client_discovers_everything() {
    scene(async |t: &Scene| {
        for aggregated in [false, true] {
            // It asks group by group, and the groups of other tests go while it does.
            let found = eventually("discovery is complete", async || {
                let discovery = kube::Discovery::new(t.client.clone());
                let found = if aggregated { discovery.run_aggregated().await } else { discovery.run().await };
                found.ok()
            })
            .await;
            let gvk = kube::core::GroupVersionKind::gvk("apps", "v1", "StatefulSet");
            let (resource, capabilities) = found.resolve_gvk(&gvk).expect("apps/v1 StatefulSet");
            assert_eq!(resource.plural, "statefulsets");
            assert!(capabilities.supports_operation(kube::discovery::verbs::WATCH));
        }
    })
    .await;
}
