//! What the definitions of all six kinds have in common.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition as Column, CustomResourceDefinition,
};

/// A definition with the columns that `kubectl get` shows, and without the demand for a spec: the stock definitions
/// accept an object that has none, so ours do too, and its condition says what is missing.
pub(super) fn completed(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns());
        if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            root.required = None;
        }
    }
    crd
}

fn columns() -> Vec<Column> {
    vec![
        column("App", "string", ".metadata.labels.app", "Whose rule it is"),
        column("Acked", "integer", ".status.acked", "Data planes that run it"),
        column("Failed", "integer", ".status.failed", "Data planes that refused it"),
        column("Pending", "integer", ".status.pending", "Data planes that have not answered yet"),
        column("Age", "date", ".metadata.creationTimestamp", "Since when there is this object"),
        wide("Accepted", r#".status.conditions[?(@.type=="Accepted")].status"#, "Whether it can be sent"),
        wide("Message", r#".status.conditions[?(@.type=="Accepted")].message"#, "Why, in a sentence"),
        wide("Failure", ".status.lastFailure.message", "What the last data plane that refused it said"),
    ]
}

/// A column that is always shown.
fn column(name: &str, type_: &str, json_path: &str, description: &str) -> Column {
    Column {
        name: name.into(),
        type_: type_.into(),
        json_path: json_path.into(),
        description: Some(description.into()),
        ..Column::default()
    }
}

/// A column for those who ask for more.
fn wide(name: &str, json_path: &str, description: &str) -> Column {
    Column { priority: Some(1), ..column(name, "string", json_path, description) }
}
