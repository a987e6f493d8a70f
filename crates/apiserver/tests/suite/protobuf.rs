//! What typed Go clients send: bodies in protobuf.

use serde_json::json;

use crate::{
    harness::{Read, Scene, assert_says, eventually, scene},
    widget::{CRDS, condition},
};

/// A definition as `apiextensions-apiserver`'s own types (v0.37.1) encode it: properties with limits,
/// formats, enumerations, defaults, lists, maps, rules; status, scale and a column.
const DEFINITION: &[u8] = include_bytes!("definition.pb");

const GROUP: &str = "protobuf.suite.example.com";

#[tokio::test]
async fn a_definition_sent_as_protobuf_is_the_one_it_would_have_been_as_json() {
    scene(async |t: &Scene| {
        let path = format!("{CRDS}/gadgets.{GROUP}");
        t.forget_later(&path);
        let call = t.call(http::Method::POST, CRDS).bytes(DEFINITION);
        let made = call.header("content-type", "application/vnd.kubernetes.protobuf").await.expect(201);
        assert_eq!(made["metadata"]["labels"], json!({"sent": "as-protobuf"}));
        let version = &made["spec"]["versions"][0];
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(
            spec["properties"],
            json!({
                "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
                "ratio": {"type": "number", "minimum": 0.5},
                "text": {"type": "string", "maxLength": 9, "pattern": "^[a-z]*$", "default": "few"},
                "color": {"type": "string", "enum": ["red", "blue"]},
                "list": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 5},
                         "x-kubernetes-list-type": "set"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "port": {"x-kubernetes-int-or-string": true},
            })
        );
        assert_eq!(version["subresources"]["status"], json!({}));
        assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.size");
        eventually("the definition is established", async || {
            let crd = t.get(&path).await.expect(200);
            condition(&crd, "Established").is_some_and(|c| c["status"] == "True").then_some(())
        })
        .await;
        let gadgets = t.group(&format!("{GROUP}/v1"), "gadgets");
        t.until_code(&gadgets, 200).await;
        let gadget = |size: u64| {
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": size}})
        };
        let status = t.post(&gadgets, gadget(7)).await.refused(422, "Invalid");
        assert_says(status.text("/message"), &["seven is taken"]);
        t.post(&gadgets, gadget(11)).await.refused(422, "Invalid");
        let made = t.post(&gadgets, gadget(3)).await.expect(201);
        assert_eq!(made["spec"], json!({"size": 3, "text": "few"}));
        t.delete(&format!("{gadgets}/g")).await.expect(200);
    })
    .await;
}
