//! What is filled in when it is absent.

use serde_json::{Map, Value, json};

use crate::resource::Nature;

/// Removes nulls and what typed decoding would not keep.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// What is filled in on every write of a built-in object. `old` is what it replaces.
pub(crate) fn default(nature: &Nature, object: &mut Map<String, Value>, old: Option<&Value>) {
    match nature {
        Nature::Namespace => {
            section(object, "spec").entry("finalizers").or_insert_with(|| json!(["kubernetes"]));
            let name = object.get("metadata").and_then(|m| m.get("name")).cloned().unwrap_or_default();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                section(metadata, "labels").insert("kubernetes.io/metadata.name".into(), name);
            }
        }
        Nature::Secret => default_secret(object),
        Nature::Service => default_service(object, old),
        Nature::Pod => default_pod_spec(section(object, "spec")),
        Nature::Workload => {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            default_workload(&kind, section(object, "spec"));
        }
        Nature::Node => {
            let spec = section(object, "spec");
            if let Some(range) = spec.get("podCIDR").cloned() {
                fill(spec, json!({ "podCIDRs": [range] }));
            }
        }
        Nature::Plain | Nature::Event | Nature::Definition | Nature::Custom(_) => {}
    }
}

/// The `status` a new object starts with, whatever was sent.
pub(crate) fn initial_status(nature: &Nature, sent: Option<Value>) -> Option<Value> {
    match nature {
        // A kubelet registers its node status and all.
        Nature::Node => Some(sent.unwrap_or_else(|| json!({}))),
        Nature::Namespace => Some(json!({ "phase": "Active" })),
        Nature::Pod => Some(json!({ "phase": "Pending", "qosClass": "BestEffort" })),
        Nature::Service => Some(json!({ "loadBalancer": {} })),
        Nature::Workload => Some(json!({ "replicas": 0 })),
        Nature::Plain | Nature::Secret | Nature::Event | Nature::Definition | Nature::Custom(_) => None,
    }
}

fn section<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let slot = object.entry(name).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("made an object just above")
}

/// Sets what is absent, or sent as an empty object.
fn fill(object: &mut Map<String, Value>, defaults: Value) {
    if let Value::Object(defaults) = defaults {
        for (key, value) in defaults {
            let slot = object.entry(key).or_insert(Value::Null);
            if slot.is_null() || *slot == json!({}) {
                *slot = value;
            }
        }
    }
}

fn default_secret(object: &mut Map<String, Value>) {
    fill(object, json!({ "type": "Opaque" }));
    if let Some(Value::Object(plain)) = object.remove("stringData") {
        use base64::Engine as _;
        let data = section(object, "data");
        for (key, text) in plain {
            let text = text.as_str().unwrap_or_default();
            data.insert(key, json!(base64::engine::general_purpose::STANDARD.encode(text)));
        }
    }
}

fn default_service(object: &mut Map<String, Value>, old: Option<&Value>) {
    let spec = section(object, "spec");
    fill(spec, json!({ "type": "ClusterIP", "sessionAffinity": "None" }));
    if let Some(address) = old.and_then(|old| old["spec"].get("clusterIP")) {
        fill(spec, json!({ "clusterIP": address }));
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(port) = port {
            let target = port.get("port").cloned().unwrap_or_default();
            fill(port, json!({ "protocol": "TCP", "targetPort": target }));
        }
    }
}

fn default_pod_spec(spec: &mut Map<String, Value>) {
    fill(
        spec,
        json!({
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "securityContext": {},
        }),
    );
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(container) = container {
                let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
                let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
                let pull = if matches!(tag, None | Some("latest")) { "Always" } else { "IfNotPresent" };
                fill(
                    container,
                    json!({
                        "imagePullPolicy": pull, "resources": {},
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    }),
                );
            }
        }
    }
}

fn default_workload(kind: &str, spec: &mut Map<String, Value>) {
    fill(spec, json!({ "replicas": 1, "revisionHistoryLimit": 10 }));
    if kind == "Deployment" {
        let rolling = json!({ "maxSurge": "25%", "maxUnavailable": "25%" });
        fill(
            spec,
            json!({
                "progressDeadlineSeconds": 600,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": rolling },
            }),
        );
    } else {
        let retention = json!({ "whenDeleted": "Retain", "whenScaled": "Retain" });
        let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } });
        fill(
            spec,
            json!({
                "podManagementPolicy": "OrderedReady", "serviceName": "", "updateStrategy": rolling,
                "persistentVolumeClaimRetentionPolicy": retention,
            }),
        );
    }
    if let Some(pod) = spec.get_mut("template").and_then(Value::as_object_mut) {
        default_pod_spec(section(pod, "spec"));
    }
}
