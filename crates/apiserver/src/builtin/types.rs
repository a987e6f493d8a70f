//! Whether what was sent has the fields and types of its kind.

use base64::Engine as _;
use serde_json::Value;

use crate::clock::is_rfc3339;
use crate::messages::{self, Entry, Item, Kind};
use crate::resource::Resource;

/// Drops unknown fields, whose paths are returned.
///
/// # Errors
/// A sentence about the first field of a wrong type.
pub(crate) fn conform(resource: &Resource, object: &mut Value) -> Result<Vec<String>, String> {
    match messages::name_of(&resource.api_version(), &resource.kind) {
        Some(name) => conform_to(name, object),
        None => Ok(Vec::new()),
    }
}

/// The same for what is not stored but has a type, like the options of a request.
pub(crate) fn conform_to(name: &str, object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    message(name, object, "", &mut unknown)?;
    Ok(unknown)
}

fn message(name: &str, value: &mut Value, path: &str, unknown: &mut Vec<String>) -> Result<(), String> {
    let Value::Object(map) = value else { return Err(wrong(path, value, "object")) };
    let Some(known) = messages::find(name) else { return Ok(()) };
    let join = |field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    let strange: Vec<String> = map
        .keys()
        .filter(|field| known.field(field).is_none() && !(path.is_empty() && is_type(field)))
        .cloned()
        .collect();
    for field in strange {
        map.remove(&field);
        unknown.push(join(&field));
    }
    for (field, value) in map.iter_mut() {
        // An object's own metadata is looked at for every kind alike, elsewhere.
        if let Some(entry) = known.field(field).filter(|_| !(path.is_empty() && field == "metadata")) {
            check_field(entry, value, &join(field), unknown)?;
        }
    }
    Ok(())
}

fn is_type(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}

fn check_field(
    entry: &Entry,
    value: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match (entry.kind, value) {
        (_, Value::Null) => Ok(()),
        (Kind::One(item), value) => check_item(item, value, path, unknown),
        (Kind::List(item), Value::Array(items)) => {
            for (index, value) in items.iter_mut().enumerate() {
                check_item(item, value, &format!("{path}[{index}]"), unknown)?;
            }
            Ok(())
        }
        (Kind::Map(item), Value::Object(map)) => {
            for (key, value) in map.iter_mut() {
                if !value.is_null() {
                    check_item(item, value, &format!("{path}.{key}"), unknown)?;
                }
            }
            Ok(())
        }
        (Kind::List(_), value) => Err(wrong(path, value, "array")),
        (Kind::Map(_), value) => Err(wrong(path, value, "map")),
    }
}

fn check_item(item: Item, value: &mut Value, path: &str, unknown: &mut Vec<String>) -> Result<(), String> {
    let (fits, wanted) = match item {
        Item::Message(name) | Item::Wrapped(name) => return message(name, value, path, unknown),
        Item::FlagOrMessage(_) if value.is_boolean() => (true, ""),
        Item::FlagOrMessage(name) => return message(name, value, path, unknown),
        Item::Text => (value.is_string(), "string"),
        Item::Flag => (value.is_boolean(), "bool"),
        Item::Integer => (value.is_i64() || value.is_u64(), "integer"),
        Item::Float => (value.is_number(), "number"),
        Item::NumberOrText => (value.is_i64() || value.is_string(), "integer or string"),
        Item::Bytes => (value.as_str().is_some_and(is_base64), "base64 text"),
        Item::Time => (value.as_str().is_some_and(is_rfc3339), "time"),
        Item::MicroTime => (value.as_str().is_some_and(is_micro_time), "time with microseconds"),
        Item::Quantity => {
            if value.is_number() {
                *value = Value::String(value.to_string());
            }
            (value.is_string(), "quantity")
        }
        Item::Json => (true, ""),
    };
    if fits { Ok(()) } else { Err(wrong(path, value, wanted)) }
}

fn wrong(path: &str, value: &Value, wanted: &str) -> String {
    let actual = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {actual} into field {path} of type {wanted}")
}

fn is_base64(text: &str) -> bool {
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// Exactly six digits of a second, no more and no less.
fn is_micro_time(text: &str) -> bool {
    let fraction =
        text.split_once('.').map(|(_, fraction)| fraction.chars().take_while(char::is_ascii_digit).count());
    is_rfc3339(text) && fraction == Some(6)
}
