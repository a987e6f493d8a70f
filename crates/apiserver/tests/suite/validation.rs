//! A custom object that does not fit its schema is refused, and every cause names its field, its
//! reason and a message that a person can act on. Rules (CEL) belong to the schema.

use serde_json::{Value, json};

use crate::{
    harness::{MERGE, Read, Scene, assert_says, scene},
    widget::{Widgets, version, with_spec},
};

/// `(field, reason, message)` of every cause, in order of field.
fn causes(status: &Value) -> Vec<(&str, &str, &str)> {
    let all = status["details"]["causes"].as_array().expect("causes").iter();
    let mut all: Vec<_> = all.map(|c| (c.text("/field"), c.text("/reason"), c.text("/message"))).collect();
    all.sort_unstable();
    all
}

/// The causes for which a spec is refused.
async fn refused(t: &Scene, widgets: &Widgets, spec: Value) -> Value {
    t.post(&widgets.path, widgets.widget("bad", spec)).await.refused(422, "Invalid")
}

#[tokio::test]
async fn the_status_names_kind_object_and_cause() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(with_spec(json!({"size": {"type": "integer", "minimum": 1}}))).await;
        let status = refused(t, &widgets, json!({"size": 0})).await;
        let message = "spec.size in body should be greater than or equal to 1";
        let want = format!("Widget.{} \"bad\" is invalid: spec.size: Invalid value: 0: {message}", widgets.group);
        assert_eq!(status["message"], want);
        let cause = json!({"field": "spec.size", "reason": "FieldValueInvalid", "message": format!("Invalid value: 0: {message}")});
        let details = json!({"name": "bad", "group": widgets.group, "kind": "Widget", "causes": [cause]});
        assert_eq!(status["details"], details);
    })
    .await;
}

#[tokio::test]
async fn each_keyword_has_its_reason_and_message() {
    scene(async |t: &Scene| {
        let widgets = t
            .widgets(with_spec(json!({
                "max": {"type": "integer", "maximum": 5, "exclusiveMaximum": true},
                "multiple": {"type": "integer", "multipleOf": 4},
                "word": {"type": "string", "enum": ["a", "b"]},
                "long": {"type": "string", "maxLength": 3},
                "short": {"type": "string", "minLength": 2},
                "shape": {"type": "string", "pattern": "^[a-z]+$"},
                "few": {"type": "array", "items": {"type": "string"}, "maxItems": 1},
                "many": {"type": "array", "items": {"type": "string"}, "minItems": 2},
                "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "when": {"type": "string", "format": "date-time"},
            })))
            .await;
        let cases = [
            (
                json!({"max": 5}),
                "spec.max",
                "FieldValueInvalid",
                "Invalid value: 5: spec.max in body should be less than 5",
            ),
            (
                json!({"multiple": 6}),
                "spec.multiple",
                "FieldValueInvalid",
                "Invalid value: 6: spec.multiple in body should be a multiple of 4",
            ),
            (
                json!({"word": "c"}),
                "spec.word",
                "FieldValueNotSupported",
                r#"Unsupported value: "c": supported values: "a", "b""#,
            ),
            (
                json!({"long": "abcd"}),
                "spec.long",
                "FieldValueTooLong",
                "Too long: may not be more than 3 bytes",
            ),
            (
                json!({"short": "a"}),
                "spec.short",
                "FieldValueInvalid",
                r#"Invalid value: "a": spec.short in body should be at least 2 chars long"#,
            ),
            (
                json!({"shape": "A1"}),
                "spec.shape",
                "FieldValueInvalid",
                r#"Invalid value: "A1": spec.shape in body should match '^[a-z]+$'"#,
            ),
            (
                json!({"few": ["a", "b"]}),
                "spec.few",
                "FieldValueTooMany",
                "Too many: 2: must have at most 1 item",
            ),
            (
                json!({"many": ["a"]}),
                "spec.many",
                "FieldValueInvalid",
                "Invalid value: 1: spec.many in body should have at least 2 items",
            ),
            (json!({"set": ["a", "a"]}), "spec.set[1]", "FieldValueDuplicate", r#"Duplicate value: "a""#),
            (
                json!({"when": "soon"}),
                "spec.when",
                "FieldValueTypeInvalid",
                r#"Invalid value: "soon": spec.when in body must be of type date-time: "soon""#,
            ),
            (
                json!({"max": "1"}),
                "spec.max",
                "FieldValueTypeInvalid",
                r#"Invalid value: "string": spec.max in body must be of type integer: "string""#,
            ),
            (
                json!({"word": 1}),
                "spec.word",
                "FieldValueTypeInvalid",
                r#"Invalid value: "integer": spec.word in body must be of type string: "integer""#,
            ),
            (
                json!({"few": "a"}),
                "spec.few",
                "FieldValueTypeInvalid",
                r#"Invalid value: "string": spec.few in body must be of type array: "string""#,
            ),
            (
                json!("text"),
                "spec",
                "FieldValueTypeInvalid",
                r#"Invalid value: "string": spec in body must be of type object: "string""#,
            ),
        ];
        let mut wrong = Vec::new();
        for (spec, field, reason, message) in cases {
            let status = refused(t, &widgets, spec.clone()).await;
            if !causes(&status).contains(&(field, reason, message)) {
                wrong.push(format!("{spec}: {:?}", causes(&status)));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    })
    .await;
}

#[tokio::test]
async fn required_fields_are_reported_together_with_everything_else() {
    scene(async |t: &Scene| {
        let spec = json!({"type": "object", "required": ["name", "size"], "properties": {
            "name": {"type": "string"}, "size": {"type": "integer"}, "word": {"type": "string", "maxLength": 1}}});
        let mut whole = version(spec);
        whole["schema"]["openAPIV3Schema"]["required"] = json!(["spec"]);
        let widgets = t.widgets(whole).await;
        let status = refused(t, &widgets, json!({"word": "long"})).await;
        let found = causes(&status);
        assert!(found.contains(&("spec.name", "FieldValueRequired", "Required value")), "{found:?}");
        assert!(found.contains(&("spec.size", "FieldValueRequired", "Required value")), "{found:?}");
        assert!(found.contains(&("spec.word", "FieldValueTooLong", "Too long: may not be more than 1 byte")), "{found:?}");
        assert_says(status.text("/message"), &["is invalid: [", "spec.name: Required value", "spec.size: Required value"]);
        let mut empty = widgets.widget("bad", json!({}));
        empty.as_object_mut().unwrap().remove("spec");
        let status = t.post(&widgets.path, empty).await.refused(422, "Invalid");
        assert!(causes(&status).contains(&("spec", "FieldValueRequired", "Required value")), "{status}");
    })
    .await;
}

#[tokio::test]
async fn items_and_map_values_are_named_by_their_place() {
    scene(async |t: &Scene| {
        let item = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let widgets = t
            .widgets(with_spec(json!({
                "list": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "keyed": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]},
            })))
            .await;
        let status = refused(t, &widgets, json!({"list": [{"n": 1}, {}]})).await;
        assert!(causes(&status).contains(&("spec.list[1].n", "FieldValueRequired", "Required value")), "{status}");
        let status = refused(t, &widgets, json!({"map": {"k": "v"}})).await;
        assert_eq!(causes(&status)[0].0, "spec.map.k");
        let status = refused(t, &widgets, json!({"keyed": [{"n": 1}, {"n": 1}]})).await;
        let found = causes(&status);
        assert_eq!((found[0].0, found[0].1), ("spec.keyed[1]", "FieldValueDuplicate"));
    })
    .await;
}

#[tokio::test]
async fn one_of_several_forms_can_be_demanded() {
    scene(async |t: &Scene| {
        let spec = json!({"type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        let widgets = t.widgets(version(spec)).await;
        t.widget(&widgets, "ok", json!({"a": "x"})).await;
        let status = refused(t, &widgets, json!({"a": "x", "b": "y"})).await;
        assert_says(status.text("/message"), &["must validate one and only one schema (oneOf)"]);
        refused(t, &widgets, json!({})).await;
    })
    .await;
}

#[tokio::test]
async fn a_status_write_is_validated_too() {
    scene(async |t: &Scene| {
        let mut version = with_spec(json!({}));
        version["schema"]["openAPIV3Schema"]["properties"]["status"] =
            json!({"type": "object", "properties": {"phase": {"type": "string", "enum": ["Up", "Down"]}}});
        let widgets = t.widgets(version).await;
        t.widget(&widgets, "a", json!({})).await;
        let status = t
            .patch(&widgets.status("a"), MERGE, json!({"status": {"phase": "Odd"}}))
            .await
            .refused(422, "Invalid");
        assert_eq!(causes(&status)[0].0, "status.phase");
        t.patch(&widgets.status("a"), MERGE, json!({"status": {"phase": "Up"}})).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_failed_rule_says_its_message() {
    scene(async |t: &Scene| {
        let spec = json!({"type": "object",
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string", "maxLength": 15,
                "x-kubernetes-validations": [{"rule": "self != 'lo'", "message": "lo is taken", "reason": "FieldValueForbidden"}]}},
            "x-kubernetes-validations": [
                {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "message": "min must not exceed max"},
                {"rule": "!has(self.max) || self.max < 100", "messageExpression": "'max of ' + self.name + ' is at most 99'", "fieldPath": ".max"},
                {"rule": "!has(self.min) || self.min > -100"},
            ]});
        let widgets = t.widgets(version(spec)).await;
        t.widget(&widgets, "ok", json!({"min": 1, "max": 2, "name": "eth1"})).await;
        let cases = [
            (json!({"min": 3, "max": 2}), "spec", "FieldValueInvalid", "min must not exceed max"),
            (json!({"max": 200, "name": "x"}), "spec.max", "FieldValueInvalid", "max of x is at most 99"),
            (json!({"min": -200}), "spec", "FieldValueInvalid", "failed rule: !has(self.min) || self.min > -100"),
            (json!({"name": "lo"}), "spec.name", "FieldValueForbidden", "lo is taken"),
        ];
        for (spec, field, reason, message) in cases {
            let status = refused(t, &widgets, spec).await;
            let found = causes(&status);
            assert_eq!((found[0].0, found[0].1), (field, reason), "{status}");
            assert!(found[0].2.ends_with(message), "{status}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_transition_rule_binds_updates_and_not_creation() {
    scene(async |t: &Scene| {
        let kind = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "kind is immutable"}]});
        let widgets = t.widgets(with_spec(json!({"kind": kind, "size": {"type": "integer"}}))).await;
        t.widget(&widgets, "a", json!({"kind": "gre"})).await;
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"size": 2}})).await.expect(200);
        let status = t.patch(&widgets.at("a"), MERGE, json!({"spec": {"kind": "vxlan"}})).await.refused(422, "Invalid");
        assert_eq!(causes(&status)[0].0, "spec.kind");
        assert_says(status.text("/message"), &["kind is immutable"]);
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"kind": null}})).await.expect(200);
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"kind": "vxlan"}})).await.expect(200);
    })
    .await;
}

#[tokio::test]
async fn a_rule_at_the_root_sees_status_and_name() {
    scene(async |t: &Scene| {
        let mut version = with_spec(json!({"kind": {"type": "string"}}));
        let root = &mut version["schema"]["openAPIV3Schema"];
        root["properties"]["status"] = json!({"type": "object", "properties": {"initialized": {"type": "boolean"}}});
        root["x-kubernetes-validations"] = json!([
            {"rule": "size(self.metadata.name) <= 15", "message": "name must be at most 15 characters"},
            {"rule": "!has(oldSelf.status) || !oldSelf.status.initialized || self.spec.kind == oldSelf.spec.kind", "message": "kind is fixed once initialized"},
        ]);
        let widgets = t.widgets(version).await;
        let long = widgets.widget("a-name-that-is-too-long", json!({"kind": "gre"}));
        let status = t.post(&widgets.path, long).await.refused(422, "Invalid");
        assert_says(status.text("/message"), &["name must be at most 15 characters"]);
        t.widget(&widgets, "a", json!({"kind": "gre"})).await;
        let kind = |kind: &str| t.patch(&widgets.at("a"), MERGE, json!({"spec": {"kind": kind}}));
        kind("vxlan").await.expect(200);
        t.patch(&widgets.status("a"), MERGE, json!({"status": {"initialized": true}})).await.expect(200);
        let status = kind("gre").await.refused(422, "Invalid");
        assert_says(status.text("/message"), &["kind is fixed once initialized"]);
    })
    .await;
}

#[tokio::test]
async fn an_optional_old_value_lets_a_transition_rule_see_creation() {
    scene(async |t: &Scene| {
        let size = json!({"type": "integer", "x-kubernetes-validations": [{
            "rule": "!oldSelf.hasValue() ? self < 10 : self >= oldSelf.value()",
            "optionalOldSelf": true, "message": "starts below 10 and only grows"}]});
        let widgets = t.widgets(with_spec(json!({"size": size}))).await;
        refused(t, &widgets, json!({"size": 11})).await;
        t.widget(&widgets, "a", json!({"size": 5})).await;
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"size": 50}})).await.expect(200);
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"size": 4}})).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn an_unchanged_value_that_became_invalid_does_not_block_other_changes() {
    scene(async |t: &Scene| {
        let widgets =
            t.widgets(with_spec(json!({"word": {"type": "string"}, "size": {"type": "integer"}}))).await;
        t.widget(&widgets, "a", json!({"word": "toolong"})).await;
        let word = json!([{"op": "add", "value": 3,
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/word/maxLength"}]);
        t.patch(&widgets.definition(), crate::harness::JSON_PATCH, word).await.expect(200);
        // A dry run leaves nothing behind; a server without it refuses it and tightens at once.
        crate::harness::eventually("the tighter schema holds", async || {
            let path = format!("{}?dryRun=All", widgets.path);
            let answer = t.post(&path, widgets.widget("b", json!({"word": "toolong"}))).await;
            (answer.code != 201).then_some(())
        })
        .await;
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"size": 1}})).await.expect(200);
        t.patch(&widgets.at("a"), MERGE, json!({"spec": {"word": "longer"}})).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn numbers_fit_their_formats() {
    scene(async |t: &Scene| {
        let widgets = t
            .widgets(with_spec(json!({
                "small": {"type": "integer", "format": "int32"}, "large": {"type": "integer", "format": "int64"},
                "single": {"type": "number", "format": "float"}, "double": {"type": "number", "format": "double"},
            })))
            .await;
        t.widget(&widgets, "a", json!({"small": i32::MAX, "large": i64::MAX, "single": 1.5, "double": 1e300})).await;
        for (spec, format) in [
            (json!({"small": 3_000_000_000_u32}), "integer with format int32 in spec.small"),
            (json!({"single": 1e39}), "number with format float in spec.single"),
        ] {
            let status = refused(t, &widgets, spec).await;
            assert_says(status.text("/message"), &[&format!("Checked value must be of type {format}")]);
        }
        refused(t, &widgets, json!({"large": u64::MAX})).await;
    })
    .await;
}
