//! Tables: what `kubectl get` prints. Custom resources say themselves which columns they have.

mod builtin;
mod pods;

use serde_json::{Value, json};

use crate::clock::Clock;
use crate::resource::Resource;
use crate::status::ApiError;

/// How much of each object comes along with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(text: &str) -> Result<Include, ApiError> {
        match text {
            "None" => Ok(Include::Nothing),
            "" | "Metadata" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            other => Err(ApiError::bad_request(format!(
                "includeObject: Unsupported value: {other:?}: supported values: \"Metadata\", \"None\", \"Object\""
            ))),
        }
    }
}

/// A table of the given rows; the headers may be left out where they were sent before.
pub(crate) fn table(resource: &Resource, rows: Vec<Value>, version: &str, headers: bool) -> Value {
    let columns = if headers { json!(columns(resource)) } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": { "resourceVersion": version },
        "columnDefinitions": columns, "rows": rows,
    })
}

/// The row of a stored object.
pub(crate) fn row(resource: &Resource, stored: &Value, include: Include, clock: &Clock) -> Value {
    let mut row = json!({ "cells": cells(resource, stored, clock) });
    match include {
        Include::Nothing => {}
        Include::Metadata => row["object"] = crate::http::partial(stored),
        Include::Object => row["object"] = crate::cluster::shown(resource, stored),
    }
    row
}

fn columns(resource: &Resource) -> Vec<Value> {
    match resource.custom() {
        Some(custom) => {
            let name = builtin::column("Name", "string", 0);
            std::iter::once(name)
                .chain(custom.columns.iter().map(|column| column.definition.clone()))
                .collect()
        }
        None => builtin::columns(resource),
    }
}

fn cells(resource: &Resource, stored: &Value, clock: &Clock) -> Vec<Value> {
    match resource.custom() {
        Some(custom) => {
            let view = resource.view(stored);
            let shown = view.as_ref().unwrap_or(stored);
            let name = json!(crate::meta::name(stored));
            std::iter::once(name)
                .chain(custom.columns.iter().map(|column| column.cell(shown, clock)))
                .collect()
        }
        None => builtin::cells(resource, stored, clock),
    }
}
