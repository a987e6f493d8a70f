//! What `kubectl get` prints is made by the server: Tables, their columns and cells, and the metadata
//! that goes along; and objects cut down to their metadata.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, TABLE, scene},
    watch::Watch,
    widget::{Widgets, version, with_spec},
    workloads::{pod, workload},
};

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

async fn gateways(t: &Scene) -> Widgets {
    let mut version = version(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut wide = column("Peer", "string", ".spec.peer");
    wide["priority"] = json!(1);
    wide["description"] = json!("the other end");
    version["additionalPrinterColumns"] = json!([
        column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#),
        column("Size", "integer", ".spec.size"),
        column("On", "boolean", ".spec.on"),
        column("First", "string", ".spec.list[0]"),
        column("Age", "date", ".metadata.creationTimestamp"),
        wide,
    ]);
    t.widgets(version).await
}

fn columns(table: &Value) -> Vec<&str> {
    table["columnDefinitions"].as_array().expect("columns").iter().map(|c| c.text("/name")).collect()
}

#[tokio::test]
async fn a_custom_kinds_columns_make_its_table() {
    scene(async |t: &Scene| {
        let widgets = gateways(t).await;
        t.widget(&widgets, "a", json!({"size": 3, "on": true, "list": ["x", "y"], "peer": "p"})).await;
        t.widget(&widgets, "b", json!({})).await;
        let ready = json!({"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        t.patch(&widgets.status("a"), MERGE, ready).await.expect(200);
        let table = t.get(&widgets.path).header("accept", TABLE).await.expect(200);
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
        assert_ne!(table.version(), "");
        assert_eq!(columns(&table), ["Name", "Ready", "Size", "On", "First", "Age", "Peer"]);
        let name = &table["columnDefinitions"][0];
        assert_eq!((&name["type"], &name["format"], &name["priority"]), (&json!("string"), &json!("name"), &json!(0)));
        let peer = &table["columnDefinitions"][6];
        assert_eq!((&peer["priority"], &peer["description"]), (&json!(1), &json!("the other end")));
        let cells = |row: usize| table["rows"][row]["cells"].as_array().unwrap().clone();
        let (mut full, mut bare) = (cells(0), cells(1));
        let age = |cell: Value| cell.as_str().is_some_and(|age| age.ends_with('s') && age.len() <= 3);
        assert!(age(full.remove(5)) && age(bare.remove(5)), "{table}");
        assert_eq!(full, [json!("a"), json!("True"), json!(3), json!(true), json!("x"), json!("p")]);
        assert_eq!(bare, [json!("b"), json!(null), json!(null), json!(null), json!(null), json!(null)]);
    })
    .await;
}

#[tokio::test]
async fn a_row_carries_metadata_or_the_object_or_nothing() {
    scene(async |t: &Scene| {
        let widgets = gateways(t).await;
        t.widget(&widgets, "a", json!({"size": 3})).await;
        let row = async |query: &str| {
            let path = format!("{}{query}", widgets.path);
            t.get(&path).header("accept", TABLE).await.expect(200)["rows"][0]["object"].clone()
        };
        for query in ["", "?includeObject=Metadata"] {
            let object = row(query).await;
            assert_eq!((&object["kind"], object.name()), (&json!("PartialObjectMetadata"), "a"));
            assert_eq!((&object["apiVersion"], object.get("spec")), (&json!("meta.k8s.io/v1"), None));
        }
        let object = row("?includeObject=Object").await;
        assert_eq!((&object["kind"], &object["spec"]["size"]), (&json!("Widget"), &json!(3)));
        assert_eq!(row("?includeObject=None").await, Value::Null);
    })
    .await;
}

#[tokio::test]
async fn one_object_is_a_table_of_one_row() {
    scene(async |t: &Scene| {
        let widgets = gateways(t).await;
        t.widget(&widgets, "a", json!({"size": 3})).await;
        let table = t.get(&widgets.at("a")).header("accept", TABLE).await.expect(200);
        assert_eq!((&table["kind"], table["rows"].as_array().unwrap().len()), (&json!("Table"), 1));
        assert_eq!(table["rows"][0]["cells"][0], "a");
    })
    .await;
}

#[tokio::test]
async fn a_kind_without_columns_shows_name_and_age() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(with_spec(json!({}))).await;
        t.widget(&widgets, "a", json!({})).await;
        let table = t.get(&widgets.path).header("accept", TABLE).await.expect(200);
        assert_eq!(columns(&table), ["Name", "Age"]);
        assert_eq!(table["rows"][0]["cells"][0], "a");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_also_takes_plain_json_still_gets_a_table() {
    scene(async |t: &Scene| {
        let accept = format!("{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        let table = t.get(&t.core("configmaps")).header("accept", &accept).await.expect(200);
        assert_eq!(table["kind"], "Table");
        let status = t.get(&t.core("configmaps/none")).header("accept", &accept).await;
        status.refused(404, "NotFound");
        t.get(&t.core("configmaps")).header("accept", "text/html").await.refused(406, "NotAcceptable");
    })
    .await;
}

#[tokio::test]
async fn built_in_kinds_have_the_columns_people_know() {
    scene(async |t: &Scene| {
        let cases = [
            (
                t.core("pods"),
                vec!["Name", "Ready", "Status", "Restarts", "Age"],
                vec!["IP", "Node", "Nominated Node", "Readiness Gates"],
            ),
            (
                t.core("services"),
                vec!["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"],
                vec!["Selector"],
            ),
            (t.core("configmaps"), vec!["Name", "Data", "Age"], vec![]),
            (t.core("secrets"), vec!["Name", "Type", "Data", "Age"], vec![]),
            (
                t.core("events"),
                vec!["Last Seen", "Type", "Reason", "Object", "Message"],
                vec!["Subobject", "Source", "First Seen", "Count", "Name"],
            ),
            ("/api/v1/namespaces".into(), vec!["Name", "Status", "Age"], vec![]),
            (
                t.group("apps/v1", "deployments"),
                vec!["Name", "Ready", "Up-to-date", "Available", "Age"],
                vec!["Containers", "Images", "Selector"],
            ),
            (t.group("apps/v1", "statefulsets"), vec!["Name", "Ready", "Age"], vec!["Containers", "Images"]),
            (t.group("coordination.k8s.io/v1", "leases"), vec!["Name", "Holder", "Age"], vec![]),
        ];
        for (path, normal, wide) in cases {
            let table = t.get(&path).header("accept", TABLE).await.expect(200);
            let of = |priority: bool| {
                let all = table["columnDefinitions"].as_array().unwrap().iter();
                all.filter(|c| (c["priority"] != 0) == priority).map(|c| c.text("/name")).collect::<Vec<_>>()
            };
            assert_eq!((of(false), of(true)), (normal, wide), "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_running_pod_shows_ready_containers_and_restarts() {
    scene(async |t: &Scene| {
        t.post(&t.core("pods"), pod("p")).await.expect(201);
        let row = async || {
            let table = t.get(&t.core("pods/p")).header("accept", TABLE).await.expect(200);
            table["rows"][0]["cells"].as_array().unwrap()[..4].to_vec()
        };
        assert_eq!(row().await, [json!("p"), json!("0/1"), json!("Pending"), json!("0")]);
        let container = json!({"name": "main", "ready": true, "restartCount": 0, "image": "i", "imageID": "i",
            "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}});
        let condition = json!({"type": "Ready", "status": "True"});
        let status = json!({"status": {"phase": "Running", "containerStatuses": [container], "conditions": [condition]}});
        t.patch(&t.core("pods/p/status"), MERGE, status).await.expect(200);
        assert_eq!(row().await, [json!("p"), json!("1/1"), json!("Running"), json!("0")]);
    })
    .await;
}

#[tokio::test]
async fn a_workload_shows_ready_of_wanted() {
    scene(async |t: &Scene| {
        let path = t.group("apps/v1", "statefulsets");
        t.post(&path, workload("StatefulSet", "w", 0)).await.expect(201);
        let table = t.get(&format!("{path}/w")).header("accept", TABLE).await.expect(200);
        assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..2], [json!("w"), json!("0/0")]);
    })
    .await;
}

#[tokio::test]
async fn a_watch_can_deliver_table_rows() {
    scene(async |t: &Scene| {
        let widgets = gateways(t).await;
        t.widget(&widgets, "a", json!({"size": 3})).await;
        let path = format!("{}?watch=true", widgets.path);
        let mut watch = Watch::of(t.get(&path).header("accept", TABLE)).await;
        let first = watch.expect("ADDED").await;
        assert_eq!((&first["kind"], columns(&first)[1]), (&json!("Table"), "Ready"));
        assert_eq!((&first["rows"][0]["cells"][2], first["rows"][0]["object"].name()), (&json!(3), "a"));
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"size": 4}})).await.expect(200);
        let second = watch.expect("MODIFIED").await;
        assert_eq!(second["rows"][0]["cells"][2], 4);
        assert_eq!(second["columnDefinitions"], Value::Null, "columns come with the first row only");
        t.delete(&widgets.at("a")).await.expect(200);
        assert_eq!(watch.expect("DELETED").await["rows"][0]["cells"][0], "a");
    })
    .await;
}

#[tokio::test]
async fn objects_can_be_asked_for_as_metadata_only() {
    scene(async |t: &Scene| {
        let list_as = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let one_as = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let made = t.config_map("a", "1").await;
        let list = t
            .get(&t.core("configmaps?fieldSelector=metadata.name%3Da"))
            .header("accept", list_as)
            .await
            .expect(200);
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
        );
        assert_ne!(list.version(), "");
        assert_eq!((list.names(), list["items"][0].get("data")), (vec!["a"], None));
        let one = t.get(&t.core("configmaps/a")).header("accept", one_as).await.expect(200);
        assert_eq!(
            (&one["kind"], &one["metadata"]["uid"]),
            (&json!("PartialObjectMetadata"), &made["metadata"]["uid"])
        );
        let path = t.core("configmaps?watch=true&fieldSelector=metadata.name%3Da");
        let mut watch = Watch::of(t.get(&path).header("accept", one_as)).await;
        let event = watch.expect("ADDED").await;
        assert_eq!(
            (&event["kind"], event.name(), event.get("data")),
            (&json!("PartialObjectMetadata"), "a", None)
        );
    })
    .await;
}
