//! What is served, in the two ways clients ask for it, and the small documents about the
//! server itself.

use axum::response::Response;
use http::HeaderMap;
use http::header::{HeaderValue, VARY};
use serde_json::{Map, Value, json};

use super::path::Route;
use super::{Shared, negotiate, openapi, respond};
use crate::resource::{Nature, Registry, Resource};
use crate::status::ApiError;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers every path that is no resource.
pub(super) fn answer(shared: &Shared, route: &Route, headers: &HeaderMap) -> Result<Response, ApiError> {
    // Describing everything takes a while; writers need not wait for it.
    let registry = &shared.read().registry.clone();
    match route {
        Route::Core | Route::Groups => {
            let core = *route == Route::Core;
            let mut response = if negotiate::wants_aggregated(headers) {
                respond::bytes(200, AGGREGATED, respond::serialize(&aggregated(registry, core)))
            } else if core {
                respond::value(200, &core_versions(headers))
            } else {
                respond::value(200, &group_list(registry))
            };
            response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
            Ok(response)
        }
        Route::Group(group) => {
            let versions = registry.groups().remove(group).filter(|_| !group.is_empty());
            let versions = versions.ok_or_else(ApiError::no_such_path)?;
            let mut document = api_group(group, &versions);
            document["kind"] = json!("APIGroup");
            document["apiVersion"] = json!("v1");
            Ok(respond::value(200, &document))
        }
        Route::Version(group, version) => {
            let resources = registry.of(group, version);
            if resources.is_empty() {
                return Err(ApiError::no_such_path());
            }
            Ok(respond::value(200, &resource_list(group, version, &resources)))
        }
        Route::OpenApi => Ok(respond::value(200, &openapi::index(registry))),
        Route::OldOpenApi => Ok(openapi::old(headers)),
        Route::OpenApiDocument(name) => {
            openapi::document(registry, name).map(|document| respond::value(200, &document))
        }
        Route::ServerVersion => Ok(respond::value(200, &server_version())),
        Route::Health => Ok(respond::bytes(200, "text/plain; charset=utf-8", "ok")),
        Route::Resource(_) | Route::Nothing => Err(ApiError::no_such_path()),
    }
}

fn server_version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0+causeway", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2025-04-23T00:00:00Z", "goVersion": "go1.24", "compiler": "gc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn core_versions(headers: &HeaderMap) -> Value {
    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": host }],
    })
}

fn group_list(registry: &Registry) -> Value {
    let groups = registry.groups();
    let groups: Vec<Value> = groups
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| api_group(group, versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn api_group(group: &str, versions: &[String]) -> Value {
    let entry =
        |version: &String| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let entries: Vec<Value> = versions.iter().map(entry).collect();
    json!({ "name": group, "versions": entries, "preferredVersion": entries.first() })
}

/// A part of a resource with a path of its own.
struct Subresource {
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: String,
    verbs: &'static [&'static str],
}

fn subresources(resource: &Resource) -> Vec<Subresource> {
    let mut found = Vec::new();
    if matches!(resource.nature, Nature::Pod) {
        let verbs: &[&str] = &["create", "get"];
        found.push(Subresource {
            name: "exec",
            group: "",
            version: "v1",
            kind: "PodExecOptions".into(),
            verbs,
        });
        let kind = resource.kind.clone();
        found.push(Subresource { name: "log", group: "", version: "", kind, verbs: &["get"] });
    }
    let verbs: &[&str] = &["get", "patch", "update"];
    if resource.scale.is_some() {
        found.push(Subresource {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: "Scale".into(),
            verbs,
        });
    }
    if resource.status {
        found.push(Subresource {
            name: "status",
            group: "",
            version: "",
            kind: resource.kind.clone(),
            verbs,
        });
    }
    found
}

fn resource_list(group: &str, version: &str, resources: &[std::sync::Arc<Resource>]) -> Value {
    let mut entries = Vec::new();
    for resource in resources {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs(),
        });
        put_list(&mut entry, "shortNames", &resource.short_names);
        put_list(&mut entry, "categories", &resource.categories);
        entries.push(entry);
        for part in subresources(resource) {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, part.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": part.kind, "verbs": part.verbs,
            });
            if !part.group.is_empty() {
                entry["group"] = json!(part.group);
                entry["version"] = json!(part.version);
            }
            entries.push(entry);
        }
    }
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": entries })
}

fn put_list(entry: &mut Value, key: &str, list: &[String]) {
    if !list.is_empty() {
        entry[key] = json!(list);
    }
}

fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = registry.groups();
    let items: Vec<Value> = groups
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|version| aggregated_version(registry, group, version)).collect();
            let metadata = if core {
                json!({ "creationTimestamp": null })
            } else {
                json!({ "name": group, "creationTimestamp": null })
            };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let resources: Vec<Value> = registry
        .of(group, version)
        .iter()
        .map(|resource| {
            let mut entry = json!({
                "resource": resource.plural, "responseKind": kind(group, version, &resource.kind),
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular, "verbs": resource.verbs(),
            });
            put_list(&mut entry, "shortNames", &resource.short_names);
            put_list(&mut entry, "categories", &resource.categories);
            let parts: Vec<Value> = subresources(resource)
                .into_iter()
                .map(|part| {
                    let mut entry = Map::new();
                    let own = part.version.is_empty();
                    let (group, version) = if own { (group, version) } else { (part.group, part.version) };
                    entry.insert("subresource".into(), json!(part.name));
                    entry.insert("responseKind".into(), kind(group, version, &part.kind));
                    entry.insert("verbs".into(), json!(part.verbs));
                    Value::Object(entry)
                })
                .collect();
            if !parts.is_empty() {
                entry["subresources"] = json!(parts);
            }
            entry
        })
        .collect();
    json!({ "version": version, "resources": resources, "freshness": "Current" })
}
