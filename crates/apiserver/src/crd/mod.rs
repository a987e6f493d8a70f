//! Custom resource definitions: checked, then turned into served [`Resource`]s.

mod check;
mod columns;
mod names;
mod paths;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use check::{check, prepare};
pub(crate) use columns::Column;
pub(crate) use names::{judge, upsert};

use crate::resource::{Nature, Resource, ScalePaths, Traits};
use crate::schema::{Rules, Schema};

/// The finalizer that holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What is particular to one version of a custom resource.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub(crate) schema: Schema,
    pub(crate) rules: Rules,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<String>,
    /// The schema as written, for OpenAPI.
    pub(crate) source: Value,
    /// Warned of on every use.
    pub(crate) deprecation: Option<String>,
    /// The definition is being deleted: no new objects.
    pub(crate) terminating: bool,
}

/// The resources an accepted definition serves.
pub(crate) fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &definition["status"]["acceptedNames"];
    let list = |key: &str| {
        let items = names.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        items.iter().map(text).collect::<Vec<_>>()
    };
    let (group, plural, kind) = (text(&spec["group"]), text(&names["plural"]), text(&names["kind"]));
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    let stored = versions.iter().find(|v| v["storage"] == true).map(|v| text(&v["name"])).unwrap_or_default();
    let terminating = crate::meta::is_deleting(definition);
    let served = versions.iter().filter(|version| version["served"] == true);
    served
        .map(|version| Resource {
            group: group.clone(),
            version: text(&version["name"]),
            kind: kind.clone(),
            list_kind: text(&names["listKind"]),
            plural: plural.clone(),
            singular: text(&names["singular"]),
            short_names: list("shortNames"),
            categories: list("categories"),
            namespaced: spec["scope"] == "Namespaced",
            shelf: format!("{plural}.{group}").into(),
            stored_as: format!("{group}/{stored}"),
            status: version["subresources"].get("status").is_some(),
            scale: version["subresources"].get("scale").map(scale_paths),
            traits: Traits { generation: true, ..Traits::default() },
            nature: Nature::Custom(Arc::new(custom_version(version, &group, &kind, terminating))),
        })
        .collect()
}

fn custom_version(version: &Value, group: &str, kind: &str, terminating: bool) -> CustomVersion {
    let source = &version["schema"]["openAPIV3Schema"];
    let name = version["name"].as_str().unwrap_or_default();
    let deprecation = (version["deprecated"] == true).then(|| {
        let given = version["deprecationWarning"].as_str().map(str::to_owned);
        given.unwrap_or_else(|| format!("{group}/{name} {kind} is deprecated"))
    });
    let selectable = version["selectableFields"].as_array().cloned().unwrap_or_default();
    CustomVersion {
        schema: Schema::parse(source),
        rules: Rules::compile(source),
        columns: Column::of_version(version),
        selectable: selectable
            .iter()
            .filter_map(|field| field["jsonPath"].as_str())
            .map(|path| path.trim_start_matches('.').to_owned())
            .collect(),
        source: source.clone(),
        deprecation,
        terminating,
    }
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let pointer = |key: &str| scale[key].as_str().map(|path| path.replace('.', "/"));
    ScalePaths {
        spec_replicas: pointer("specReplicasPath").unwrap_or_default(),
        status_replicas: pointer("statusReplicasPath").unwrap_or_default(),
        selector: Some(pointer("labelSelectorPath").unwrap_or_default()),
    }
}
