//! What a schema does to an object on its way in: defaults are filled in, what it does not know is
//! dropped or complained about, as the client asked.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, assert_says, eventually, scene},
    widget::{Widgets, version, with_spec},
};

#[tokio::test]
async fn defaults_are_filled_in_at_every_depth() {
    scene(async |t: &Scene| {
        let mode = json!({"type": "string", "default": "slow"});
        let item = json!({"type": "object", "properties": {"mode": mode}});
        let nested = json!({"type": "object", "default": {}, "properties": {"mode": mode}});
        let bare = json!({"type": "object", "properties": {"mode": mode}});
        let widgets = t
            .widgets(with_spec(json!({
                "size": {"type": "integer", "default": 3}, "on": {"type": "boolean", "default": false},
                "nested": nested, "bare": bare, "list": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": item},
                "tags": {"type": "array", "items": {"type": "string"}, "default": ["x"]},
            })))
            .await;
        let made = t.widget(&widgets, "a", json!({"list": [{}, {"mode": "fast"}], "map": {"k": {}}})).await;
        let want = json!({
            "size": 3, "on": false, "nested": {"mode": "slow"}, "tags": ["x"],
            "list": [{"mode": "slow"}, {"mode": "fast"}], "map": {"k": {"mode": "slow"}},
        });
        assert_eq!(made["spec"], want, "a default does not make its missing parent");
        let got = t.patch(&widgets.at("a"), MERGE, json!({"spec": {"size": null}})).await.expect(200);
        assert_eq!(got["spec"]["size"], 3);
    })
    .await;
}

#[tokio::test]
async fn a_null_gives_way_to_the_default_unless_null_is_allowed() {
    scene(async |t: &Scene| {
        let widgets = t
            .widgets(with_spec(json!({
                "size": {"type": "integer", "default": 3},
                "maybe": {"type": "integer", "nullable": true, "default": 3},
            })))
            .await;
        let made = t.widget(&widgets, "a", json!({"size": null, "maybe": null})).await;
        assert_eq!(made["spec"], json!({"size": 3, "maybe": null}));
    })
    .await;
}

#[tokio::test]
async fn a_default_added_later_shows_on_objects_stored_before() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(with_spec(json!({"size": {"type": "integer"}}))).await;
        t.widget(&widgets, "a", json!({})).await;
        let size = json!({"op": "add", "value": 5,
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default"});
        t.patch(&widgets.definition(), crate::harness::JSON_PATCH, json!([size])).await.expect(200);
        eventually("the default shows", async || {
            let got = t.get(&widgets.at("a")).await.expect(200);
            (got["spec"]["size"] == 5).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn unknown_fields_are_pruned_except_where_the_schema_keeps_them() {
    scene(async |t: &Scene| {
        let keep = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"inner": {"type": "object", "properties": {"known": {"type": "string"}}}}});
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        let widgets = t
            .widgets(with_spec(json!({
                "size": {"type": "integer"}, "keep": keep, "embedded": embedded,
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            })))
            .await;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "anything": true});
        let spec = json!({
            "size": 1, "gone": 1, "map": {"free": "x"}, "embedded": pod,
            "keep": {"kept": {"deep": 1}, "inner": {"known": "k", "gone": 1}},
        });
        let mut body = widgets.widget("a", spec);
        body["toplevel"] = json!("gone");
        let made = t.post(&widgets.path, body).await.expect(201);
        let want = json!({
            "size": 1, "map": {"free": "x"}, "embedded": pod,
            "keep": {"kept": {"deep": 1}, "inner": {"known": "k"}},
        });
        assert_eq!((&made["spec"], made.get("toplevel")), (&want, None));
    })
    .await;
}

#[tokio::test]
async fn an_int_or_string_takes_either() {
    scene(async |t: &Scene| {
        let port = json!({"x-kubernetes-int-or-string": true});
        let widgets = t.widgets(with_spec(json!({"port": port}))).await;
        for (name, port) in [("a", json!(80)), ("b", json!("http"))] {
            let made = t.widget(&widgets, name, json!({"port": port})).await;
            assert_eq!(made["spec"]["port"], port);
        }
        let body = widgets.widget("c", json!({"port": true}));
        t.post(&widgets.path, body).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn whole_numbers_written_as_floats_are_integers() {
    scene(async |t: &Scene| {
        let widgets =
            t.widgets(with_spec(json!({"size": {"type": "integer"}, "share": {"type": "number"}}))).await;
        let made = t.widget(&widgets, "a", json!({"size": 2, "share": 0.5})).await;
        assert_eq!(made["spec"], json!({"size": 2, "share": 0.5}));
        let body = widgets.widget("b", json!({"size": 2.5}));
        t.post(&widgets.path, body).await.refused(422, "Invalid");
    })
    .await;
}

async fn sized(t: &Scene) -> Widgets {
    t.widgets(version(json!({"type": "object", "properties": {"size": {"type": "integer"}}}))).await
}

fn with_unknown(widgets: &Widgets, name: &str) -> Value {
    widgets.widget(name, json!({"size": 1, "sized": 2}))
}

#[tokio::test]
async fn strict_validation_refuses_unknown_fields() {
    scene(async |t: &Scene| {
        let widgets = sized(t).await;
        let path = format!("{}?fieldValidation=Strict", widgets.path);
        let status = t.post(&path, with_unknown(&widgets, "a")).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &[r#"strict decoding error: unknown field "spec.sized""#]);
        t.get(&widgets.at("a")).await.expect(404);
        let made = t.widget(&widgets, "a", json!({"size": 1})).await;
        let path = format!("{}?fieldValidation=Strict", widgets.at("a"));
        let mut put = made;
        put["spec"]["sized"] = json!(2);
        t.put(&path, put).await.refused(400, "BadRequest");
        let patch = t.patch(&path, MERGE, json!({"spec": {"sized": 2}})).await;
        let status = patch.refused(422, "Invalid");
        assert_says(status.text("/message"), &[r#"unknown field "spec.sized""#]);
    })
    .await;
}

#[tokio::test]
async fn warning_is_the_default_and_ignoring_is_silent() {
    scene(async |t: &Scene| {
        let widgets = sized(t).await;
        let warning = r#"299 - "unknown field \"spec.sized\"""#;
        for (name, query, warnings) in [
            ("a", "?fieldValidation=Warn", vec![warning]),
            ("b", "", vec![warning]),
            ("c", "?fieldValidation=Ignore", vec![]),
        ] {
            let path = format!("{}{query}", widgets.path);
            let answer = t.post(&path, with_unknown(&widgets, name)).await;
            assert_eq!(answer.warnings(), warnings, "{query}");
            assert_eq!(answer.expect(201)["spec"], json!({"size": 1}));
        }
        let path = format!("{}?fieldValidation=Perhaps", widgets.path);
        t.post(&path, with_unknown(&widgets, "d")).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn a_doubled_field_is_reported_as_asked() {
    scene(async |t: &Scene| {
        let widgets = sized(t).await;
        let text = widgets.widget("a", json!({"size": 1})).to_string();
        let doubled = text.replace(r#""size":1"#, r#""size":1,"size":2"#);
        assert_ne!(text, doubled);
        let post = |query: &str| {
            let path = format!("{}?fieldValidation={query}", widgets.path);
            t.call(http::Method::POST, &path).json(json!(null)).bytes(doubled.clone())
        };
        let status = post("Strict").await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &[r#"strict decoding error: duplicate field "spec.size""#]);
        let answer = post("Warn").await;
        assert_eq!(answer.warnings(), [r#"299 - "duplicate field \"spec.size\"""#]);
        assert_eq!(answer.expect(201)["spec"]["size"], 2, "the last one wins");
    })
    .await;
}

#[tokio::test]
async fn unknown_metadata_is_reported_too() {
    scene(async |t: &Scene| {
        let widgets = sized(t).await;
        let mut body = widgets.widget("a", json!({}));
        body["metadata"]["lables"] = json!({"a": "b"});
        let path = format!("{}?fieldValidation=Strict", widgets.path);
        let status = t.post(&path, body).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &[r#"unknown field "metadata.lables""#]);
    })
    .await;
}
