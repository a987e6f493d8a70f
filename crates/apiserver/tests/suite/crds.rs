//! Definitions as objects: their conditions, their refusals, their versions, their end; and the split
//! between spec and status that a definition can ask for.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, assert_says, eventually, scene},
    widget::{CRDS, anything, condition, version, with_spec},
};

#[tokio::test]
async fn a_definition_is_accepted_established_and_says_so() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let crd = t.get(&widgets.definition()).await.expect(200);
        for kind in ["NamesAccepted", "Established"] {
            assert_eq!(condition(&crd, kind).unwrap()["status"], "True", "{crd}");
        }
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        assert_eq!(crd["status"]["acceptedNames"]["plural"], "widgets");
        assert_eq!(crd["spec"]["conversion"]["strategy"], "None");
        assert_eq!(crd["metadata"]["generation"], 1);
    })
    .await;
}

#[tokio::test]
async fn a_definitions_other_names_are_filled_in() {
    scene(async |t: &Scene| {
        let mut definition = t.definition(anything());
        definition["spec"]["names"] = json!({"plural": "widgets", "kind": "Widget"});
        let widgets = t.define(definition).await;
        let crd = t.get(&widgets.definition()).await.expect(200);
        assert_eq!(crd["spec"]["names"]["singular"], "widget");
        assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
    })
    .await;
}

#[tokio::test]
async fn a_malformed_definition_is_invalid() {
    scene(async |t: &Scene| {
        let refused = async |change: &dyn Fn(&mut Value), field: &str| {
            let mut definition = t.definition(anything());
            change(&mut definition);
            let status = t.post(CRDS, definition).await.refused(422, "Invalid");
            let causes = status["details"]["causes"].as_array().unwrap();
            assert!(causes.iter().any(|c| c.text("/field").starts_with(field)), "{field}: {status}");
        };
        refused(&|d| d["metadata"]["name"] = json!("wrong.example.com"), "metadata.name").await;
        refused(&|d| d["spec"]["versions"][0]["schema"] = Value::Null, "spec.versions[0].schema").await;
        refused(&|d| d["spec"]["versions"][0]["storage"] = json!(false), "spec.versions").await;
        refused(&|d| d["spec"]["scope"] = json!("Everywhere"), "spec.scope").await;
        let untyped = json!({"type": "object", "properties": {"a": {"description": "no type"}}});
        let schema = "spec.validation.openAPIV3Schema.properties[a].type";
        refused(&|d| d["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = untyped.clone(), schema).await;
    })
    .await;
}

#[tokio::test]
async fn a_default_that_does_not_fit_is_refused_with_the_definition() {
    scene(async |t: &Scene| {
        let default = json!({"size": {"type": "integer", "default": "many"}});
        let status = t.post(CRDS, t.definition(with_spec(default))).await.refused(422, "Invalid");
        assert_says(status.text("/message"), &["properties[size].default", "must be of type integer"]);
    })
    .await;
}

async fn with_rule(t: &Scene, rule: &str) -> Value {
    let spec = json!({"type": "object", "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule}]});
    let status = t.post(CRDS, t.definition(version(spec))).await.refused(422, "Invalid");
    assert_says(status.text("/message"), &["x-kubernetes-validations[0].rule", "compilation failed"]);
    status
}

#[tokio::test]
async fn a_rule_that_does_not_parse_is_refused_with_the_definition() {
    scene(async |t: &Scene| {
        with_rule(t, "self.a >").await;
    })
    .await;
}

#[tokio::test]
async fn a_rule_over_a_field_that_the_schema_lacks_is_refused_with_the_definition() {
    scene(async |t: &Scene| {
        let status = with_rule(t, "self.nobody > 1").await;
        assert_says(status.text("/message"), &["undefined field 'nobody'"]);
    })
    .await;
}

#[tokio::test]
async fn a_protected_group_needs_an_approval() {
    scene(async |t: &Scene| {
        let group = format!("{}.k8s.io", t.id);
        let mut definition = t.definition(anything());
        definition["spec"]["group"] = json!(group);
        definition["metadata"]["name"] = json!(format!("widgets.{group}"));
        let status = t.post(CRDS, definition.clone()).await.refused(422, "Invalid");
        assert_says(
            status.text("/message"),
            &["api-approved.kubernetes.io", "protected groups must have approval"],
        );
        definition["metadata"]["annotations"] =
            json!({"api-approved.kubernetes.io": "unapproved, test-only"});
        let widgets = t.define(definition).await;
        let made = t.widget(&widgets, "a", json!({})).await;
        assert_eq!(made["apiVersion"], format!("{group}/v1"));
    })
    .await;
}

#[tokio::test]
async fn a_kind_that_is_taken_is_not_accepted() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let mut second = t.definition(anything());
        second["metadata"]["name"] = json!(format!("gadgets.{}", widgets.group));
        second["spec"]["names"] =
            json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget", "listKind": "GadgetList"});
        t.post(CRDS, second).await.expect(201);
        let path = format!("{CRDS}/gadgets.{}", widgets.group);
        t.forget_later(&path);
        let refused = eventually("the names are refused", async || {
            let crd = t.get(&path).await.expect(200);
            condition(&crd, "NamesAccepted").filter(|c| c["status"] == "False").cloned()
        })
        .await;
        assert_eq!(refused["reason"], "KindConflict");
        let crd = t.get(&path).await.expect(200);
        assert!(condition(&crd, "Established").is_none_or(|c| c["status"] == "False"), "{crd}");
    })
    .await;
}

#[tokio::test]
async fn a_cluster_scoped_kind_lives_outside_namespaces() {
    scene(async |t: &Scene| {
        let mut definition = t.definition(anything());
        definition["spec"]["scope"] = json!("Cluster");
        let widgets = t.define(definition).await;
        let made = t.widget(&widgets, "a", json!({})).await;
        assert_eq!(made["metadata"].get("namespace"), None);
        let namespaced = t.group(&format!("{}/v1", widgets.group), "widgets");
        t.get(&namespaced).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn every_served_version_shows_the_same_object() {
    scene(async |t: &Scene| {
        let mut definition = t.definition(anything());
        let mut beta = definition["spec"]["versions"][0].clone();
        beta["name"] = json!("v1beta1");
        beta["storage"] = json!(false);
        let mut old = beta.clone();
        (old["name"], old["served"]) = (json!("v1alpha1"), json!(false));
        definition["spec"]["versions"].as_array_mut().unwrap().extend([beta, old]);
        let widgets = t.define(definition).await;
        let made = t.widget(&widgets, "a", json!({"x": 1})).await;
        let beta = widgets.at("a").replace("/v1/", "/v1beta1/");
        let seen = t.until_code(&beta, 200).await.expect(200);
        assert_eq!(seen["apiVersion"], format!("{}/v1beta1", widgets.group));
        assert_eq!((&seen["metadata"]["uid"], &seen["spec"]), (&made["metadata"]["uid"], &made["spec"]));
        t.get(&widgets.at("a").replace("/v1/", "/v1alpha1/")).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn a_changed_definition_takes_effect() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(with_spec(json!({"old": {"type": "string"}}))).await;
        let made = t.widget(&widgets, "a", json!({"old": "o", "new": "n"})).await;
        assert_eq!(made["spec"], json!({"old": "o"}));
        let mut crd = t.get(&widgets.definition()).await.expect(200);
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        *crd.pointer_mut(spec).unwrap() = json!({"old": {"type": "string"}, "new": {"type": "string"}});
        let changed = t.put(&widgets.definition(), crd).await.expect(200);
        assert_eq!(changed["metadata"]["generation"], 2);
        eventually("the new field is kept", async || {
            let got = t.patch(&widgets.at("a"), MERGE, json!({"spec": {"new": "n"}})).await.expect(200);
            (got["spec"] == json!({"old": "o", "new": "n"})).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({})).await;
        t.delete(&widgets.definition()).await.expect(200);
        t.until_code(&widgets.definition(), 404).await;
        t.until_code(&widgets.path, 404).await;
        let again = t.define(t.definition(anything())).await;
        assert_eq!(t.get(&again.path).await.expect(200)["items"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn status_is_written_through_its_own_path_only() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(with_spec(json!({"size": {"type": "integer"}}))).await;
        let mut body = widgets.widget("a", json!({"size": 1}));
        body["status"] = json!({"ready": true});
        let made = t.post(&widgets.path, body).await.expect(201);
        assert_eq!(made.get("status"), None);
        assert_eq!(made["metadata"]["generation"], 1);

        let mut write = made.clone();
        write["status"] = json!({"ready": true});
        write["spec"]["size"] = json!(7);
        write["metadata"]["labels"] = json!({"a": "b"});
        let written = t.put(&widgets.status("a"), write).await.expect(200);
        assert_eq!((&written["status"], &written["spec"]), (&json!({"ready": true}), &json!({"size": 1})));
        assert_eq!(written["metadata"].get("labels"), None, "metadata is not the status path's to write");
        assert_eq!(written["metadata"]["generation"], 1);

        let both = json!({"spec": {"size": 2}, "status": {"ready": false}});
        let got = t.patch(&widgets.at("a"), MERGE, both).await.expect(200);
        assert_eq!((&got["status"], &got["spec"]), (&json!({"ready": true}), &json!({"size": 2})));
        assert_eq!(got["metadata"]["generation"], 2);
        assert_eq!(t.get(&widgets.status("a")).await.expect(200), got);
    })
    .await;
}

#[tokio::test]
async fn a_stale_status_write_conflicts() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let mut stale = t.widget(&widgets, "a", json!({})).await;
        t.patch(&widgets.status("a"), MERGE, json!({"status": {"n": 1}})).await.expect(200);
        stale["status"] = json!({"n": 2});
        t.put(&widgets.status("a"), stale).await.refused(409, "Conflict");
    })
    .await;
}

#[tokio::test]
async fn metadata_changes_are_no_new_generation() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({"x": 1})).await;
        let meta = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/x"]}});
        let got = t.patch(&widgets.at("a"), MERGE, meta).await.expect(200);
        assert_eq!(got["metadata"]["generation"], 1);
        let forged = json!({"metadata": {"generation": 99, "finalizers": null}});
        let got = t.patch(&widgets.at("a"), MERGE, forged).await.expect(200);
        assert_eq!(got["metadata"]["generation"], 1);
    })
    .await;
}

#[tokio::test]
async fn without_the_subresource_status_is_a_field_like_others() {
    scene(async |t: &Scene| {
        let mut plain = anything();
        plain.as_object_mut().unwrap().remove("subresources");
        let widgets = t.widgets(plain).await;
        let mut body = widgets.widget("a", json!({}));
        body["status"] = json!({"n": 1});
        let made = t.post(&widgets.path, body).await.expect(201);
        assert_eq!(made["status"], json!({"n": 1}));
        let got = t.patch(&widgets.at("a"), MERGE, json!({"status": {"n": 2}})).await.expect(200);
        assert_eq!((&got["status"]["n"], &got["metadata"]["generation"]), (&json!(2), &json!(2)));
        t.patch(&widgets.status("a"), MERGE, json!({"status": {"n": 3}})).await.expect(404);
    })
    .await;
}
