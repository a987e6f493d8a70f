//! What was decided, as the patches that are sent: just the fields that change, over the version that was seen.

use causeway_core::dns::deployment::{Edit, Field};
use causeway_core::dns::{Deployment, ForwardStatus};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{COREFILE, INIT_ROUTE, RECORD, record};
use crate::condition;

/// A status as it is patched at `now`; in a merge patch null takes a field away.
pub fn status(status: &ForwardStatus, now: Timestamp) -> Value {
    json!({
        "vpc": status.vpc,
        "vpcDns": status.vpc_dns,
        "kubeDns": status.kube_dns,
        "gateway": status.gateway,
        "corefiles": status.corefiles,
        "observedGeneration": status.observed_generation,
        "conditions": condition::written(&status.conditions, now),
    })
}

/// A merge patch of a ConfigMap: another Corefile.
pub fn corefile(text: &str, version: &str) -> Value {
    json!({ "metadata": { "resourceVersion": version }, "data": { COREFILE: text } })
}

/// A strategic merge patch of a Deployment: lists of containers are merged by their names, so that no other field of
/// them is sent, nor any other container. `seen` is what the edit was decided on.
pub fn deployment(edit: &Edit, seen: &Deployment) -> Value {
    let mut meta = Map::from_iter([("resourceVersion".to_owned(), json!(seen.resource_version))]);
    if let Some(written) = &edit.record {
        meta.insert("annotations".into(), json!({ RECORD: written.as_ref().map(record::write) }));
    }
    let mut pods = Map::new();
    let mut annotations: Map<String, Value> =
        edit.annotations.iter().map(|(key, text)| (key.clone(), json!(text))).collect();
    if edit.drop_copy {
        annotations.insert(RECORD.into(), Value::Null);
    }
    if !annotations.is_empty() {
        pods.insert("metadata".into(), json!({ "annotations": annotations }));
    }
    if let (Some(text), Some(Ok(script))) = (&edit.script, &seen.script) {
        let field = match script.field {
            Field::Command => "command",
            Field::Args => "args",
        };
        pods.insert(
            "spec".into(),
            json!({ "initContainers": [{ "name": INIT_ROUTE, field: script.with(text) }] }),
        );
    }
    let mut patch = Map::from_iter([("metadata".to_owned(), Value::Object(meta))]);
    if !pods.is_empty() {
        patch.insert("spec".into(), json!({ "template": pods }));
    }
    Value::Object(patch)
}
