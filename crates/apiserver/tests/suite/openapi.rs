//! OpenAPI v3, as far as `kubectl apply` (does the server validate fields?) and `kubectl explain` (what
//! does this field mean?) lean on it. Published a little after a definition is served.

use serde_json::{Value, json};

use crate::{
    harness::{Read, Scene, eventually, scene},
    widget::{Widgets, version},
};

async fn document(t: &Scene, group_version: &str) -> Option<Value> {
    let index = t.get("/openapi/v3").await.expect(200);
    let url = index["paths"].get(group_version)?["serverRelativeURL"].as_str()?.to_owned();
    assert!(url.starts_with(&format!("/openapi/v3/{group_version}?hash=")), "{url}");
    let answer = t.get(&url).await;
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("application/json"));
    Some(answer.expect(200))
}

/// Whether an operation of the document takes this query parameter.
fn takes(document: &Value, path: &str, verb: &str, parameter: &str) -> bool {
    let operation = &document["paths"][path][verb];
    let all = [&operation["parameters"], &document["paths"][path]["parameters"]];
    let mut all = all.into_iter().filter_map(Value::as_array).flatten();
    all.any(|p| p["name"] == parameter && p["in"] == "query")
}

fn kind_of(value: &Value) -> Option<(&str, &str, &str)> {
    let gvk = &value["x-kubernetes-group-version-kind"];
    let gvk = if gvk.is_array() { &gvk[0] } else { gvk };
    gvk.is_object().then(|| (gvk.text("/group"), gvk.text("/version"), gvk.text("/kind")))
}

/// Follows references, also through the `allOf` that wraps one with a description.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let schema = schema["allOf"].get(0).unwrap_or(schema);
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).expect("a known schema"),
        None => schema,
    }
}

#[tokio::test]
async fn the_index_names_every_group_version() {
    scene(async |t: &Scene| {
        let index = t.get("/openapi/v3").await.expect(200);
        for path in [
            "api/v1",
            "apis/apps/v1",
            "apis/coordination.k8s.io/v1",
            "apis/events.k8s.io/v1",
            "apis/apiextensions.k8s.io/v1",
        ] {
            assert!(index["paths"].get(path).is_some(), "{path}");
        }
        t.get("/openapi/v3/apis/nobody.example.com/v1").await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn writes_of_built_in_kinds_promise_field_validation() {
    scene(async |t: &Scene| {
        let core = document(t, "api/v1").await.expect("api/v1");
        assert!(core.text("/openapi").starts_with("3.0"));
        let many = "/api/v1/namespaces/{namespace}/configmaps";
        let one = "/api/v1/namespaces/{namespace}/configmaps/{name}";
        for (path, verb) in [(many, "post"), (one, "patch"), (one, "put")] {
            assert!(takes(&core, path, verb, "fieldValidation"), "{verb} {path}");
        }
        let patch = &core["paths"][one]["patch"];
        assert_eq!(kind_of(patch), Some(("", "v1", "ConfigMap")));
        let apps = document(t, "apis/apps/v1").await.expect("apps/v1");
        assert!(takes(
            &apps,
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
            "patch",
            "fieldValidation"
        ));
    })
    .await;
}

async fn documented(t: &Scene) -> (Widgets, Value) {
    let mut version = version(json!({
        "type": "object", "description": "What the widget should be.", "required": ["size"],
        "properties": {"size": {"type": "integer", "description": "How large it is."}},
    }));
    version["schema"]["openAPIV3Schema"]["description"] = json!("A thing for tests.");
    let widgets = t.widgets(version).await;
    let group_version = format!("apis/{}/v1", widgets.group);
    let document =
        eventually("the definition is published", async || document(t, &group_version).await).await;
    (widgets, document)
}

#[tokio::test]
async fn a_definition_is_published_with_its_descriptions() {
    scene(async |t: &Scene| {
        let (widgets, document) = documented(t).await;
        let want = (widgets.group.as_str(), "v1", "Widget");
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let widget = schemas.values().find(|schema| kind_of(schema) == Some(want)).expect("the kind");
        assert_eq!(widget["description"], "A thing for tests.");
        let spec = resolve(&document, &widget["properties"]["spec"]);
        assert_eq!(
            (&spec["description"], &spec["required"]),
            (&json!("What the widget should be."), &json!(["size"]))
        );
        assert_eq!(spec["properties"]["size"], json!({"type": "integer", "description": "How large it is."}));
        let meta = resolve(&document, &widget["properties"]["metadata"]);
        assert_eq!(meta["properties"]["name"]["type"], "string");
        assert_eq!(widget["properties"]["apiVersion"]["type"], "string");
        let list = (widgets.group.as_str(), "v1", "WidgetList");
        assert!(schemas.values().any(|schema| kind_of(schema) == Some(list)));
    })
    .await;
}

#[tokio::test]
async fn a_definitions_paths_promise_field_validation() {
    scene(async |t: &Scene| {
        let (widgets, document) = documented(t).await;
        let many = format!("/apis/{}/v1/namespaces/{{namespace}}/widgets", widgets.group);
        let one = format!("{many}/{{name}}");
        for (path, verb) in [(&many, "post"), (&one, "patch"), (&one, "put")] {
            assert!(takes(&document, path, verb, "fieldValidation"), "{verb} {path}");
            let want = Some((widgets.group.as_str(), "v1", "Widget"));
            assert_eq!(kind_of(&document["paths"][path][verb]), want);
        }
        assert!(document["paths"].get(format!("{one}/status")).is_some());
    })
    .await;
}

#[tokio::test]
async fn a_deleted_definition_is_unpublished() {
    scene(async |t: &Scene| {
        let (widgets, _) = documented(t).await;
        t.delete(&widgets.definition()).await.expect(200);
        let group_version = format!("apis/{}/v1", widgets.group);
        eventually("it is gone from the index", async || {
            let index = t.get("/openapi/v3").await.expect(200);
            index["paths"].get(&group_version).is_none().then_some(())
        })
        .await;
    })
    .await;
}
