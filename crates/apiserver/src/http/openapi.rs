//! OpenAPI v3, as far as `kubectl` reads it: which writes take `fieldValidation`, and, for
//! `kubectl explain`, the schemas of custom resources. Built-in kinds are described as open objects.

use std::hash::{DefaultHasher, Hasher};

use axum::response::Response;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::respond;
use crate::resource::{Registry, Resource};
use crate::status::ApiError;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// All documents, each with a hash that changes when it does.
pub(super) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let name =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let text = build(registry, &group, &version).to_string();
            let mut hasher = DefaultHasher::new();
            hasher.write(text.as_bytes());
            let url = format!("/openapi/v3/{name}?hash={:016X}", hasher.finish());
            paths.insert(name, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// OpenAPI v2: a document without any kind. Enough for clients that look there for what v3 does not
/// have, and then say themselves that it does not exist.
pub(super) fn old(headers: &HeaderMap) -> Response {
    let accept =
        headers.get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains("proto-openapi.spec.v2") {
        // The one field that a document must have: its version, "2.0".
        return respond::bytes(
            200,
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
            &b"\x0a\x032.0"[..],
        );
    }
    let info = json!({ "title": "Kubernetes", "version": "v1.33.0" });
    respond::value(200, &json!({ "swagger": "2.0", "info": info, "paths": {}, "definitions": {} }))
}

/// The document of one group and version.
pub(super) fn document(registry: &Registry, name: &str) -> Result<Value, ApiError> {
    let parts: Vec<&str> = name.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::no_such_path()),
    };
    if registry.of(group, version).is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(build(registry, group, version))
}

fn build(registry: &Registry, group: &str, version: &str) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    schemas.insert(OBJECT_META.to_owned(), object_meta());
    for resource in registry.of(group, version) {
        schemas.insert(schema_name(&resource), schema(&resource));
        schemas.insert(format!("{}List", schema_name(&resource)), list_schema(&resource));
        add_paths(&resource, &mut paths);
    }
    json!({
        "openapi": "3.0.0", "info": { "title": "Kubernetes", "version": "v1.33.0" },
        "paths": paths, "components": { "schemas": schemas },
    })
}

/// The group backwards, as Kubernetes names schemas.
fn schema_name(resource: &Resource) -> String {
    if resource.group.is_empty() {
        return format!("io.k8s.api.core.{}.{}", resource.version, resource.kind);
    }
    let mut parts: Vec<&str> = resource.group.split('.').rev().collect();
    parts.extend([resource.version.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

fn identity(resource: &Resource) -> Value {
    json!({ "group": resource.group, "version": resource.version, "kind": resource.kind })
}

fn schema(resource: &Resource) -> Value {
    let mut schema = match resource.custom() {
        Some(custom) => custom.source.clone(),
        None => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
    };
    let metadata = json!({
        "description": "Standard object's metadata.", "default": {},
        "allOf": [{ "$ref": format!("#/components/schemas/{OBJECT_META}") }],
    });
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = json!({ "type": "string", "description": "The versioned schema of this representation of an object." });
    schema["properties"]["kind"] = json!({ "type": "string", "description": "What kind of object this is." });
    schema["properties"]["metadata"] = metadata;
    schema["x-kubernetes-group-version-kind"] = json!([identity(resource)]);
    schema
}

fn list_schema(resource: &Resource) -> Value {
    let item = json!({ "$ref": format!("#/components/schemas/{}", schema_name(resource)) });
    let text = json!({ "type": "string" });
    json!({
        "type": "object", "description": format!("A list of {}.", resource.kind), "required": ["items"],
        "properties": {
            "apiVersion": text, "kind": text, "metadata": { "type": "object" },
            "items": { "type": "array", "description": "The objects.", "items": item },
        },
        "x-kubernetes-group-version-kind":
            [{ "group": resource.group, "version": resource.version, "kind": resource.list_kind }],
    })
}

fn object_meta() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let texts = |description: &str| json!({ "type": "object", "description": description, "additionalProperties": { "type": "string", "default": "" } });
    json!({
        "type": "object", "description": "Metadata that all persisted objects have.",
        "properties": {
            "annotations": texts("Free-form notes of tools and people; not selected by."),
            "creationTimestamp": text("When the server created the object."),
            "deletionTimestamp": text("When the object was, or will be, deleted."),
            "finalizers": { "type": "array", "description": "Must be empty before the object goes.",
                            "items": { "type": "string", "default": "" } },
            "generateName": text("A prefix the server completes to a unique name."),
            "generation": { "type": "integer", "format": "int64", "description": "Counts changes of the desired state." },
            "labels": texts("Keys and values that objects are selected by."),
            "name": text("Unique within a namespace."),
            "namespace": text("The space within which the name is unique."),
            "ownerReferences": { "type": "array", "description": "Objects this one depends on.",
                                 "items": { "type": "object" } },
            "resourceVersion": text("The version of the object, opaque to clients."),
            "uid": text("Unique in time and space."),
        },
    })
}

fn add_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let prefix =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let space = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{prefix}/{}{space}/{}", resource.version, resource.plural);
    let item = format!("{collection}/{{name}}");
    let methods = |list: &[(&str, &str)]| -> Value {
        list.iter().map(|(method, action)| ((*method).to_owned(), operation(resource, action))).collect()
    };
    let change: &[(&str, &str)] = &[("get", "get"), ("put", "put"), ("patch", "patch")];
    paths.insert(collection, methods(&[("get", "list"), ("post", "post")]));
    paths.insert(
        item.clone(),
        methods(&[("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")]),
    );
    if resource.status {
        paths.insert(format!("{item}/status"), methods(change));
    }
}

fn operation(resource: &Resource, action: &str) -> Value {
    let parameter = |name: &str, description: &str| {
        json!({ "name": name, "in": "query", "description": description,
                "schema": { "type": "string", "uniqueItems": true } })
    };
    let mut parameters = vec![parameter("pretty", "Accepted and without effect.")];
    if matches!(action, "post" | "put" | "patch") {
        parameters.push(parameter("fieldManager", "Who makes this change."));
        parameters.push(parameter(
            "fieldValidation",
            "What to do with unknown or repeated fields: Ignore, Warn (the default) or Strict.",
        ));
    }
    let reference = json!({ "$ref": format!("#/components/schemas/{}", schema_name(resource)) });
    let content = json!({ "application/json": { "schema": reference } });
    let mut operation = json!({
        "operationId": format!("{action}{}{}", resource.version, resource.kind),
        "parameters": parameters,
        "responses": { "200": { "description": "OK", "content": content } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": identity(resource),
    });
    let body = match action {
        "post" | "put" => Some(content),
        "patch" => Some(json!({
            "application/json-patch+json": { "schema": {} }, "application/merge-patch+json": { "schema": {} },
        })),
        _ => None,
    };
    if let Some(content) = body {
        operation["requestBody"] = json!({ "content": content, "required": true });
    }
    operation
}
