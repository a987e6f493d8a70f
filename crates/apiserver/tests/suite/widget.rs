//! Custom resource definitions for tests: kind `Widget` in a group of the test's own.

use serde_json::{Value, json};

use crate::harness::{Scene, eventually};

/// A definition that the server serves.
pub(crate) struct Widgets {
    pub(crate) group: String,
    /// Name of the CustomResourceDefinition.
    pub(crate) crd: String,
    /// Path of the collection in the scene's namespace (or cluster-wide).
    pub(crate) path: String,
}

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl Widgets {
    /// Path of one object.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Path of one object's status.
    pub(crate) fn status(&self, name: &str) -> String {
        format!("{}/{name}/status", self.path)
    }

    /// Path of the definition.
    pub(crate) fn definition(&self) -> String {
        format!("{CRDS}/{}", self.crd)
    }

    /// A manifest.
    pub(crate) fn widget(&self, name: &str, spec: Value) -> Value {
        let api_version = format!("{}/v1", self.group);
        json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec})
    }
}

/// A version with these properties of `spec`, a free-form `status` and the status subresource.
pub(crate) fn with_spec(properties: Value) -> Value {
    version(json!({"type": "object", "properties": properties}))
}

/// As [`with_spec`], with the whole schema of `spec` given.
pub(crate) fn version(spec: Value) -> Value {
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({"schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}})
}

/// A version that keeps whatever it is given.
pub(crate) fn anything() -> Value {
    version(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
}

impl Scene {
    /// The group of this scene's definitions.
    pub(crate) fn widget_group(&self) -> String {
        format!("{}.suite.example.com", self.id)
    }

    /// The manifest of a definition with one version, `v1`.
    pub(crate) fn definition(&self, mut version: Value) -> Value {
        let group = self.widget_group();
        for (field, value) in [("name", json!("v1")), ("served", json!(true)), ("storage", json!(true))] {
            version[field] = value;
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "versions": [version],
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            },
        })
    }

    /// Creates a definition from one version and waits until it is served.
    pub(crate) async fn widgets(&self, version: Value) -> Widgets {
        self.define(self.definition(version)).await
    }

    /// Creates a definition and waits until its first version is served.
    pub(crate) async fn define(&self, definition: Value) -> Widgets {
        let made = self.post(CRDS, definition).await.expect(201);
        let text = |pointer| crate::harness::Read::text(&made, pointer).to_owned();
        let (group, plural, crd) = (text("/spec/group"), text("/spec/names/plural"), text("/metadata/name"));
        let first = text("/spec/versions/0/name");
        self.forget_later(&format!("{CRDS}/{crd}"));
        let path = match text("/spec/scope").as_str() {
            "Cluster" => format!("/apis/{group}/{first}/{plural}"),
            _ => self.group(&format!("{group}/{first}"), &plural),
        };
        let widgets = Widgets { group, crd, path };
        eventually("the definition is established", async || {
            let crd = self.get(&widgets.definition()).await.expect(200);
            condition(&crd, "Established").is_some_and(|c| c["status"] == "True").then_some(())
        })
        .await;
        // A real server serves a little later than it says so.
        self.until_code(&widgets.path, 200).await;
        widgets
    }

    /// Creates a widget.
    pub(crate) async fn widget(&self, widgets: &Widgets, name: &str, spec: Value) -> Value {
        self.post(&widgets.path, widgets.widget(name, spec)).await.expect(201)
    }
}

/// The condition of this type in an object's status.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}
