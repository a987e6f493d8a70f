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

#[tokio::test]
async fn keys_of_data_are_file_names() {
    scene(async |t: &Scene| {
        let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        for key in ["a b", "..", "../x"] {
            assert_about(t.post(&t.core("configmaps"), map(json!({key: "v"}))).await, &format!("data[{key}]"));
        }
        let mut both = map(json!({"x": "v"}));
        both["binaryData"] = json!({"x": "YQ=="});
        assert_about(t.post(&t.core("configmaps"), both).await, "data[x]");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a b": "YQ=="}});
        assert_about(t.post(&t.core("secrets"), secret).await, "data[a b]");
    })
    .await;
}

#[tokio::test]
async fn what_was_made_immutable_stays_as_it_is() {
    scene(async |t: &Scene| {
        let mut map = config_map("a", "1");
        map["immutable"] = json!(true);
        t.post(&t.core("configmaps"), map).await.expect(201);
        let patch = |change: Value| t.patch(&t.core("configmaps/a"), MERGE, change);
        assert_about(patch(json!({"data": {"key": "2"}})).await, "data");
        assert_about(patch(json!({"immutable": false})).await, "immutable");
        patch(json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_typo_in_a_definition_is_found_when_asked_for() {
    scene(async |t: &Scene| {
        let mut version = with_spec(json!({"a": {"type": "string", "maxLenght": 3}}));
        let strict = format!("{CRDS}?fieldValidation=Strict");
        let status = t.post(&strict, t.definition(version.clone())).await.refused(400, "BadRequest");
        let path = "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.a.maxLenght";
        assert_says(status.text("/message"), &[&format!("strict decoding error: unknown field {path:?}")]);
        let mut definition = t.definition(anything());
        definition["spec"]["names"]["shortName"] = json!(["w"]);
        t.post(&strict, definition).await.refused(400, "BadRequest");
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"]["maxLength"] =
            json!("3");
        t.post(CRDS, t.definition(version)).await.refused(400, "BadRequest");
    })
    .await;
}

#[tokio::test]
async fn the_branches_of_a_schema_only_narrow_it() {
    scene(async |t: &Scene| {
        for (schema, field) in [
            (json!({"type": "string", "anyOf": [{"type": "string"}]}), "properties[z].anyOf[0].type"),
            (json!({"type": "string", "anyOf": [{"pattern": "("}]}), "properties[z].anyOf[0].pattern"),
            (json!({"type": "string", "not": {"type": "string"}}), "properties[z].not.type"),
            (
                json!({"type": "string", "oneOf": [{"description": "x"}]}),
                "properties[z].oneOf[0].description",
            ),
            (json!({"type": "string", "allOf": [{"default": "x"}]}), "properties[z].allOf[0].default"),
            (json!({"type": "string", "allOf": [{"nullable": true}]}), "properties[z].allOf[0].nullable"),
        ] {
            assert_about(t.post(CRDS, t.definition(with_spec(json!({"z": schema})))).await, field);
        }
        let either =
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
        t.widgets(with_spec(json!({"z": either}))).await;
    })
    .await;
}

#[tokio::test]
async fn paths_of_a_definition_lead_somewhere() {
    scene(async |t: &Scene| {
        let with = |key: &str, value: Value| {
            let mut version = with_spec(json!({"a": {"type": "string"}, "o": {"type": "object"}}));
            version[key] = value;
            t.post(CRDS, t.definition(version))
        };
        assert_about(with("subresources", json!({"scale": {}})).await, "scale.specReplicasPath");
        let paths = json!({"specReplicasPath": "spec.a", "statusReplicasPath": ".spec.b", "labelSelectorPath": ".metadata.x"});
        assert_about(with("subresources", json!({"scale": paths})).await, "scale.labelSelectorPath");
        for path in [".spec.none", ".spec.o", "spec.a"] {
            assert_about(with("selectableFields", json!([{"jsonPath": path}])).await, "selectableFields[0].jsonPath");
        }
        let column = json!([{"name": "X", "type": "string", "jsonPath": "{.spec.a}"}]);
        assert_about(with("additionalPrinterColumns", column).await, "additionalPrinterColumns[0].JSONPath");
        let mut definition = t.definition(anything());
        definition["spec"]["preserveUnknownFields"] = json!(true);
        assert_about(t.post(CRDS, definition).await, "spec.preserveUnknownFields");
    })
    .await;
}

#[tokio::test]
async fn a_rule_calls_what_there_is_and_its_message_is_text() {
    scene(async |t: &Scene| {
        let with = |rule: Value| {
            let mut version = with_spec(json!({"n": {"type": "integer"}, "s": {"type": "string"}}));
            let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["x-kubernetes-validations"] = json!([rule]);
            t.post(CRDS, t.definition(version))
        };
        for rule in [
            "isIPv4(self.s)",
            "math.abs(self.n) == 1",
            "base64.encode(b'x') == 'y'",
            "self.s.quote() == ''",
            "none == 1",
        ] {
            assert_about(with(json!({"rule": rule})).await, "x-kubernetes-validations[0].rule");
        }
        for message in ["'a' +", "self.n", "'x' + self.none"] {
            let rule = json!({"rule": "self.n > 1", "messageExpression": message});
            assert_about(with(rule).await, "x-kubernetes-validations[0].messageExpression");
        }
        let broken = json!({"rule": "self.n > 1", "message": "a\nb"});
        assert_about(with(broken).await, "x-kubernetes-validations[0].message");
    })
    .await;
}

#[tokio::test]
async fn a_prefix_of_names_must_begin_a_name() {
    scene(async |t: &Scene| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "Bad_"}});
        assert_about(t.post(&t.core("configmaps"), map).await, "metadata.generateName");
    })
    .await;
}
