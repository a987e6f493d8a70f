//! A definition's printer columns.

use serde_json::{Value, json};

use crate::clock::Clock;
use crate::jsonpath::JsonPath;

/// One column of `kubectl get`.
#[derive(Debug)]
pub(crate) struct Column {
    /// As a Table's `columnDefinitions` shows it.
    pub(crate) definition: Value,
    kind: String,
    path: Option<JsonPath>,
}

impl Column {
    /// Those of a version; an age when it names none.
    pub(super) fn of_version(version: &Value) -> Vec<Column> {
        match version["additionalPrinterColumns"].as_array() {
            Some(columns) if !columns.is_empty() => columns.iter().map(Column::parse).collect(),
            _ => vec![Column::parse(&json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            }))],
        }
    }

    fn parse(column: &Value) -> Column {
        let text = |key: &str| column[key].as_str().unwrap_or_default();
        let described = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")),
            given => given.to_owned(),
        };
        let definition = json!({
            "name": text("name"), "type": text("type"), "format": text("format"), "description": described,
            "priority": column["priority"].as_i64().unwrap_or(0),
        });
        Column { definition, kind: text("type").to_owned(), path: JsonPath::parse(text("jsonPath")).ok() }
    }

    /// What the column shows of an object; null when there is nothing.
    pub(crate) fn cell(&self, object: &Value, clock: &Clock) -> Value {
        let Some(path) = &self.path else { return Value::Null };
        let Some(&value) = path.find(object).first() else { return Value::Null };
        match (self.kind.as_str(), value) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(_)) => value.clone(),
            ("string", other) => json!(other.to_string()),
            ("integer", Value::Number(number)) => number
                .as_i64()
                .or_else(|| number.as_f64().map(|n| n as i64))
                .map_or(Value::Null, |n| json!(n)),
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(stamp)) => json!(clock.age(stamp)),
            _ => Value::Null,
        }
    }
}
