//! What a cluster refuses although it looks harmless. A server that let it through would let a manifest
//! or a controller pass its tests that fails in production.

use serde_json::{Value, json};

use crate::{
    harness::{Answer, MERGE, Read, Scene, assert_says, config_map, scene},
    widget::{CRDS, anything, with_spec},
    workloads::pod,
};

/// Asserts that some cause of a refusal is about this field.
#[track_caller]
fn assert_about(answer: Answer, field: &str) {
    let status = answer.refused(422, "Invalid");
    let causes = status["details"]["causes"].as_array().expect("causes");
    assert!(causes.iter().any(|cause| cause.text("/field").ends_with(field)), "{field}: {status}");
}

fn keyed(items: Value, keys: Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
}

#[tokio::test]
async fn a_schema_must_be_sound_in_its_details() {
    scene(async |t: &Scene| {
        let named = json!({"type": "object", "properties": {"n": {"type": "string"}}});
        let unknown = json!({"type": "object", "default": {"b": 1}, "properties": {"a": {"type": "string"}}});
        for (schema, field) in [
            (keyed(named.clone(), json!([])), "properties[z].x-kubernetes-list-map-keys"),
            (keyed(named, json!(["n"])), "properties[z].items.properties[n].default"),
            (unknown, "properties[z].default"),
            (json!({"type": "integer", "minimum": 1, "default": 0}), "properties[z].default"),
            (json!({"type": "array"}), "properties[z].items"),
            (json!({"type": "string", "pattern": "("}), "properties[z].pattern"),
        ] {
            assert_about(t.post(CRDS, t.definition(with_spec(json!({"z": schema})))).await, field);
        }
        let mut definition = t.definition(anything());
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] =
            json!({"type": "object", "properties": {"labels": {"type": "object"}}});
        assert_about(t.post(CRDS, definition).await, "properties[metadata]");
    })
    .await;
}

#[tokio::test]
async fn a_rule_must_type_check() {
    scene(async |t: &Scene| {
        for (rule, field) in [
            (json!({"rule": "self.a"}), "x-kubernetes-validations[0].rule"),
            (json!({"rule": "self.a == 'one'"}), "x-kubernetes-validations[0].rule"),
            (json!({"rule": "nobody(self.a)"}), "x-kubernetes-validations[0].rule"),
            (json!({"rule": "self.a > 1", "reason": "Because"}), "x-kubernetes-validations[0].reason"),
            (json!({"rule": "self.a > 1", "fieldPath": ".nobody"}), "x-kubernetes-validations[0].fieldPath"),
        ] {
            let mut version = with_spec(json!({"a": {"type": "integer"}}));
            let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["x-kubernetes-validations"] = json!([rule]);
            assert_about(t.post(CRDS, t.definition(version)).await, field);
        }
    })
    .await;
}

#[tokio::test]
async fn names_and_columns_of_a_definition_must_be_usable() {
    scene(async |t: &Scene| {
        let mut definition = t.definition(anything());
        definition["spec"]["names"]["shortNames"] = json!(["Not_Good"]);
        assert_about(t.post(CRDS, definition).await, "spec.names.shortNames[0]");
        let mut version = anything();
        version["additionalPrinterColumns"] = json!([{"name": "X", "type": "colour", "jsonPath": ".spec.x"}]);
        assert_about(t.post(CRDS, t.definition(version)).await, "additionalPrinterColumns[0].type");
        let mut version = anything();
        version["additionalPrinterColumns"] = json!([{"name": "X", "type": "string", "jsonPath": "spec.x"}]);
        assert_about(t.post(CRDS, t.definition(version)).await, "additionalPrinterColumns[0].JSONPath");
    })
    .await;
}

#[tokio::test]
async fn a_lease_is_renewed_in_microseconds() {
    scene(async |t: &Scene| {
        let path = t.group("coordination.k8s.io/v1", "leases");
        let lease = |spec: Value| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec});
        for time in ["2026-01-02T03:04:05Z", "yesterday"] {
            t.post(&path, lease(json!({"renewTime": time}))).await.refused(400, "BadRequest");
        }
        assert_about(t.post(&path, lease(json!({"leaseDurationSeconds": 0}))).await, "spec.leaseDurationSeconds");
        t.post(&path, lease(json!({"renewTime": "2026-01-02T03:04:05.000000Z"}))).await.expect(201);
    })
    .await;
}

#[tokio::test]
async fn values_of_built_in_kinds_have_their_types() {
    scene(async |t: &Scene| {
        let maps = t.core("configmaps");
        let mut number = config_map("a", "1");
        number["data"]["key"] = json!(1);
        t.post(&maps, number).await.refused(400, "BadRequest");
        t.config_map("a", "1").await;
        t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"key": 1}})).await.refused(422, "Invalid");
        let secret = |data: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": data}});
        t.post(&t.core("secrets"), secret("not base64!")).await.refused(400, "BadRequest");
        t.post(&t.core("secrets"), secret("YQ==")).await.expect(201);
        assert_about(t.patch(&t.core("secrets/s"), MERGE, json!({"type": "other"})).await, "type");
    })
    .await;
}

#[tokio::test]
async fn a_typo_in_a_built_in_kind_is_found_when_asked_for() {
    scene(async |t: &Scene| {
        let mut typo = config_map("a", "1");
        typo["dtaa"] = json!({"a": "b"});
        let path = t.core("configmaps?fieldValidation=Strict");
        let status = t.post(&path, typo.clone()).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &[r#"strict decoding error: unknown field "dtaa""#]);
        let answer = t.post(&t.core("configmaps?fieldValidation=Warn"), typo).await;
        assert_eq!(answer.warnings(), [r#"299 - "unknown field \"dtaa\"""#]);
        assert_eq!(answer.expect(201).get("dtaa"), None);
    })
    .await;
}

#[tokio::test]
async fn a_finalizer_of_a_built_in_kind_has_a_domain() {
    scene(async |t: &Scene| {
        let mut body = config_map("a", "1");
        body["metadata"]["finalizers"] = json!(["plain"]);
        assert_about(t.post(&t.core("configmaps"), body).await, "metadata.finalizers[0]");
        let widgets = t.widgets(anything()).await;
        let mut body = widgets.widget("a", json!({}));
        body["metadata"]["finalizers"] = json!(["plain"]);
        t.post(&widgets.path, body).await.expect(201);
        t.patch(&widgets.at("a"), MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_pods_spec_is_settled_when_it_is_created() {
    scene(async |t: &Scene| {
        t.post(&t.core("pods"), pod("p")).await.expect(201);
        let change = json!({"spec": {"nodeName": "elsewhere"}});
        let status = t.patch(&t.core("pods/p"), MERGE, change).await.refused(422, "Invalid");
        assert_says(status.text("/message"), &["pod updates may not change fields other than"]);
        let image =
            json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/other"}]);
        t.patch(&t.core("pods/p"), crate::harness::JSON_PATCH, image).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_workloads_selector_is_settled_when_it_is_created() {
    scene(async |t: &Scene| {
        let path = t.group("apps/v1", "statefulsets");
        t.post(&path, crate::workloads::workload("StatefulSet", "w", 0)).await.expect(201);
        let change = json!({"spec": {
            "selector": {"matchLabels": {"app": "other"}}, "template": {"metadata": {"labels": {"app": "other"}}}}});
        assert_about(t.patch(&format!("{path}/w"), MERGE, change).await, "spec.selector");
    })
    .await;
}

#[tokio::test]
async fn an_empty_part_is_no_part() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(with_spec(json!({"size": {"type": "integer"}}))).await;
        let made = t.post(&widgets.path, widgets.widget("a", Value::Null)).await.expect(201);
        assert_eq!(made.get("spec"), None);
        let text =
            widgets.widget("b", json!({"size": 1})).to_string().replace(r#""size":1"#, r#""size":1.0"#);
        let made = t.call(http::Method::POST, &widgets.path).json(json!(null)).bytes(text).await;
        assert_says(&made.text, &[r#""size":1}"#]);
    })
    .await;
}

#[tokio::test]
async fn an_object_of_another_kind_is_invalid() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let mut other = widgets.widget("a", json!({}));
        other["kind"] = json!("Gadget");
        assert_about(t.post(&widgets.path, other).await, "kind");
        t.widget(&widgets, "a", json!({})).await;
        assert_about(t.patch(&widgets.at("a"), MERGE, json!({"kind": "Gadget"})).await, "kind");
        let body = json!({"apiVersion": "v1", "kind": "Gadget"});
        t.delete(&widgets.at("a")).json(body).await.refused(400, "BadRequest");
        t.get(&widgets.at("a")).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn numbers_in_a_query_are_numbers() {
    scene(async |t: &Scene| {
        for query in ["limit=some", "timeoutSeconds=soon", "watch=true&timeoutSeconds=soon"] {
            t.get(&t.core(&format!("configmaps?{query}"))).await.refused(400, "BadRequest");
        }
    })
    .await;
}
