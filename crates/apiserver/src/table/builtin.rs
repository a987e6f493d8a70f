//! Columns and cells of the built-in kinds.

use serde_json::{Value, json};

use super::pods;
use crate::clock::Clock;
use crate::meta;
use crate::resource::{Nature, Resource};

/// A column definition; priority 1 shows only in `-o wide`.
pub(super) fn column(name: &str, kind: &str, priority: u8) -> Value {
    let format = if name == "Name" { "name" } else { "" };
    json!({ "name": name, "type": kind, "format": format, "description": describe(name), "priority": priority })
}

fn describe(name: &str) -> String {
    match name {
        "Name" => "Name must be unique within a namespace.".to_owned(),
        "Age" | "Created At" => "When the object was created.".to_owned(),
        other => format!("{other} of the object."),
    }
}

/// Name, type, priority. Every row but the events' begins with the name.
type Columns = &'static [(&'static str, &'static str, u8)];

const PODS: Columns = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Status", "string", 0),
    ("Restarts", "string", 0),
    ("Age", "string", 0),
    ("IP", "string", 1),
    ("Node", "string", 1),
    ("Nominated Node", "string", 1),
    ("Readiness Gates", "string", 1),
];
const SERVICES: Columns = &[
    ("Name", "string", 0),
    ("Type", "string", 0),
    ("Cluster-IP", "string", 0),
    ("External-IP", "string", 0),
    ("Port(s)", "string", 0),
    ("Age", "string", 0),
    ("Selector", "string", 1),
];
const DEPLOYMENTS: Columns = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Up-to-date", "string", 0),
    ("Available", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
const STATEFUL_SETS: Columns = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
];
const NODES: Columns = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Roles", "string", 0),
    ("Age", "string", 0),
    ("Version", "string", 0),
    ("Internal-IP", "string", 1),
    ("External-IP", "string", 1),
    ("OS-Image", "string", 1),
    ("Kernel-Version", "string", 1),
    ("Container-Runtime", "string", 1),
];
const EVENTS: Columns = &[
    ("Last Seen", "string", 0),
    ("Type", "string", 0),
    ("Reason", "string", 0),
    ("Object", "string", 0),
    ("Subobject", "string", 1),
    ("Source", "string", 1),
    ("Message", "string", 0),
    ("First Seen", "string", 1),
    ("Count", "string", 1),
    ("Name", "string", 1),
];
const CONFIG_MAPS: Columns = &[("Name", "string", 0), ("Data", "string", 0), ("Age", "string", 0)];
const SECRETS: Columns =
    &[("Name", "string", 0), ("Type", "string", 0), ("Data", "string", 0), ("Age", "string", 0)];
const NAMESPACES: Columns = &[("Name", "string", 0), ("Status", "string", 0), ("Age", "string", 0)];
const LEASES: Columns = &[("Name", "string", 0), ("Holder", "string", 0), ("Age", "string", 0)];
const DEFINITIONS: Columns = &[("Name", "string", 0), ("Created At", "date", 0)];
const OTHERS: Columns = &[("Name", "string", 0), ("Age", "string", 0)];

pub(super) fn columns(resource: &Resource) -> Vec<Value> {
    let columns = match (&resource.nature, resource.kind.as_str()) {
        (Nature::Pod, _) => PODS,
        (Nature::Service, _) => SERVICES,
        (Nature::Workload, "Deployment") => DEPLOYMENTS,
        (Nature::Workload, _) => STATEFUL_SETS,
        (Nature::Node, _) => NODES,
        (Nature::Event, _) => EVENTS,
        (Nature::Secret, _) => SECRETS,
        (Nature::Namespace, _) => NAMESPACES,
        (Nature::Definition, _) => DEFINITIONS,
        (Nature::Plain, "ConfigMap") => CONFIG_MAPS,
        (Nature::Plain, "Lease") => LEASES,
        (Nature::Plain | Nature::Custom(_), _) => OTHERS,
    };
    columns.iter().map(|(name, kind, priority)| column(name, kind, *priority)).collect()
}

pub(super) fn cells(resource: &Resource, object: &Value, clock: &Clock) -> Vec<Value> {
    let name = json!(meta::name(object));
    let age = json!(age(object, "/metadata/creationTimestamp", clock));
    match (&resource.nature, resource.kind.as_str()) {
        (Nature::Pod, _) => pods::cells(object, clock),
        (Nature::Service, _) => service(object, name, age),
        (Nature::Workload, "Deployment") => deployment(object, name, age),
        (Nature::Workload, _) => stateful_set(object, name, age),
        (Nature::Node, _) => node(object, name, age),
        (Nature::Event, _) => event(object, name, clock),
        (Nature::Secret, _) => vec![name, object["type"].clone(), json!(entries(object, &["data"])), age],
        (Nature::Namespace, _) => vec![name, object["status"]["phase"].clone(), age],
        (Nature::Definition, _) => vec![name, object["metadata"]["creationTimestamp"].clone()],
        (Nature::Plain, "ConfigMap") => vec![name, json!(entries(object, &["data", "binaryData"])), age],
        (Nature::Plain, "Lease") => vec![name, json!(text(object, "/spec/holderIdentity")), age],
        (Nature::Plain | Nature::Custom(_), _) => vec![name, age],
    }
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

pub(super) fn age(object: &Value, pointer: &str, clock: &Clock) -> String {
    match text(object, pointer) {
        "" => "<unknown>".to_owned(),
        stamp => clock.age(stamp),
    }
}

pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn entries(object: &Value, fields: &[&str]) -> usize {
    fields.iter().map(|field| object[*field].as_object().map_or(0, serde_json::Map::len)).sum()
}

fn labels(value: &Value) -> String {
    let pairs: Vec<String> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

fn service(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let kind = text(object, "/spec/type");
    let joined = |pointer: &str| {
        let found: Vec<&str> = items(object, pointer).iter().filter_map(Value::as_str).collect();
        found.join(",")
    };
    let ingress: Vec<&str> = items(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|entry| or(text(entry, "/ip"), text(entry, "/hostname")))
        .collect();
    let external = match kind {
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        "LoadBalancer" if ingress.is_empty() => or(&joined("/spec/externalIPs"), "<pending>").to_owned(),
        "LoadBalancer" => ingress.join(","),
        _ => or(&joined("/spec/externalIPs"), "<none>").to_owned(),
    };
    let ports: Vec<String> = items(object, "/spec/ports").iter().map(service_port).collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    let address = or(text(object, "/spec/clusterIP"), "<none>");
    vec![
        name,
        json!(kind),
        json!(address),
        json!(external),
        json!(ports),
        age,
        json!(labels(&object["spec"]["selector"])),
    ]
}

fn service_port(port: &Value) -> String {
    let protocol = or(text(port, "/protocol"), "TCP");
    match number(port, "/nodePort") {
        0 => format!("{}/{protocol}", number(port, "/port")),
        node => format!("{}:{node}/{protocol}", number(port, "/port")),
    }
}

fn containers(object: &Value, field: &str) -> Value {
    let found: Vec<&str> =
        items(object, "/spec/template/spec/containers").iter().filter_map(|c| c[field].as_str()).collect();
    json!(found.join(","))
}

fn deployment(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    vec![
        name,
        json!(ready),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age,
        containers(object, "name"),
        containers(object, "image"),
        json!(labels(&object["spec"]["selector"]["matchLabels"])),
    ]
}

fn stateful_set(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    vec![name, json!(ready), age, containers(object, "name"), containers(object, "image")]
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = items(object, "/status/conditions").iter().find(|c| c["type"] == "Ready");
    let mut status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let roles: Vec<&str> = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    let address = |kind: &str| {
        let found = items(object, "/status/addresses").iter().find(|a| a["type"] == kind);
        found.map_or("<none>", |a| or(text(a, "/address"), "<none>")).to_owned()
    };
    let info = |field: &str| or(text(object, &format!("/status/nodeInfo/{field}")), "<unknown>").to_owned();
    vec![
        name,
        json!(status),
        json!(or(&roles.join(","), "<none>")),
        age,
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(info("kernelVersion")),
        json!(info("containerRuntimeVersion")),
    ]
}

fn event(object: &Value, name: Value, clock: &Clock) -> Vec<Value> {
    let first = match text(object, "/firstTimestamp") {
        "" => age(object, "/eventTime", clock),
        _ => age(object, "/firstTimestamp", clock),
    };
    let last = match text(object, "/lastTimestamp") {
        "" => first.clone(),
        _ => age(object, "/lastTimestamp", clock),
    };
    let (last, count) = match object.get("series") {
        Some(series) => (age(series, "/lastObservedTime", clock), number(series, "/count")),
        None => (last, number(object, "/count").max(1)),
    };
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let subject = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let reporter = or(text(object, "/source/component"), text(object, "/reportingComponent"));
    let source = match or(text(object, "/source/host"), text(object, "/reportingInstance")) {
        "" => reporter.to_owned(),
        host => format!("{reporter}, {host}"),
    };
    vec![
        json!(last),
        object["type"].clone(),
        object["reason"].clone(),
        json!(subject),
        json!(text(object, "/involvedObject/fieldPath")),
        json!(source),
        json!(text(object, "/message").trim()),
        json!(first),
        json!(count),
        name,
    ]
}
