//! The room `rules`: its definitions under an API server, and its objects as values.

mod any_spec;
mod parsing;
mod router;
mod schema;
mod server;
mod specs;
mod status;
mod stock;

use causeway_core::rules::{Kind, Refusal, Rule};
use serde_json::Value;

/// What a spec of a kind says.
fn said(kind: Kind, spec: &Value) -> Result<Rule, Refusal> {
    let meta = serde_json::from_value(serde_json::json!({ "name": "a", "namespace": "default" }));
    let object = causeway_api::rules::parse::rule(kind, &meta.expect("metadata"), spec, &Value::Null);
    object.expect("a key").rule
}

/// Why a spec of a kind is refused, as it is said to people.
fn refusal(kind: Kind, spec: &Value) -> String {
    said(kind, spec).map(|rule| format!("accepted: {rule:?}")).unwrap_or_else(|refusal| refusal.to_string())
}
