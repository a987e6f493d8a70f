//! Events are served by two groups. They are stored as `v1` and translated for `events.k8s.io`.

use serde_json::{Map, Value};

use crate::status::FieldError;

/// Name in `v1`, name in `events.k8s.io/v1`. Fields not listed are called the same in both.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// As `events.k8s.io` shows it.
pub(crate) fn from_core(event: &mut Value) {
    if let Value::Object(event) = event {
        RENAMED.iter().for_each(|(core, new)| rename(event, core, new));
    }
}

/// As it is stored.
pub(crate) fn to_core(event: &mut Value) {
    if let Value::Object(event) = event {
        RENAMED.iter().for_each(|(core, new)| rename(event, new, core));
    }
}

fn rename(event: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = event.remove(from) {
        event.insert(to.to_owned(), value);
    }
}

/// Where a selectable field is in the stored event.
pub(crate) fn selectable_field(field: &str, group: &str) -> Option<String> {
    const OF_OBJECT: [&str; 7] =
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    let (object, reporter) = if group.is_empty() {
        ("involvedObject.", "reportingComponent")
    } else {
        ("regarding.", "reportingController")
    };
    if let Some(part) = field.strip_prefix(object) {
        return OF_OBJECT.contains(&part).then(|| format!("/involvedObject/{part}"));
    }
    match field {
        "reason" | "type" => Some(format!("/{field}")),
        "source" if group.is_empty() => Some("/source/component".to_owned()),
        _ if field == reporter => Some("/reportingComponent".to_owned()),
        _ => None,
    }
}

/// What is wrong with an event; `old` is what it replaces. Fields are named as they are stored. The
/// newer group demands more, and so does whoever sets `eventTime`, which only its clients do.
pub(crate) fn check(event: &Value, old: Option<&Value>, group: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_namespace(event, &mut errors);
    if !event["eventTime"].is_null() {
        let reporter = if group.is_empty() { "reportingComponent" } else { "reportingController" };
        check_report(event, reporter, &mut errors);
    }
    match old {
        _ if group.is_empty() => {}
        Some(old) => check_unchanged(event, old, &mut errors),
        None => check_modern(event, &mut errors),
    }
    errors
}

/// An event lives in the namespace of what it is about; about cluster-wide objects, in `default`.
fn check_namespace(event: &Value, errors: &mut Vec<FieldError>) {
    let about = event["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let fits = match crate::meta::text(event, "namespace") {
        "default" | "kube-system" if about.is_empty() => true,
        own => about == own,
    };
    if !fits {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", &about.into(), detail));
    }
}

/// Who reports what, in words that are not too long.
fn check_report(event: &Value, reporter: &str, errors: &mut Vec<FieldError>) {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let controller = text("reportingComponent");
    if controller.is_empty() {
        errors.push(FieldError::required(reporter, ""));
    }
    if let Err(why) = crate::names::qualified_name(controller) {
        errors.push(FieldError::invalid(reporter, &controller.into(), &why));
    }
    for field in ["reportingInstance", "action", "reason"] {
        match text(field).len() {
            0 => errors.push(FieldError::required(field, "")),
            1..=128 => {}
            _ => errors.push(FieldError::invalid(field, &"".into(), "can have at most 128 characters")),
        }
    }
    if text("message").len() > 1024 {
        errors.push(FieldError::invalid("message", &"".into(), "can have at most 1024 characters"));
    }
}

/// Whether a field says nothing: clients in Go send some of them empty rather than not at all.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_unset),
    }
}

/// What the newer group demands of a new event.
fn check_modern(event: &Value, errors: &mut Vec<FieldError>) {
    let mut refuse = |field: &str, why: &str| errors.push(FieldError::invalid(field, &"".into(), why));
    let kind = event["type"].as_str().unwrap_or_default();
    if !["Normal", "Warning"].contains(&kind) {
        refuse("type", &format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if !is_unset(&event[field]) {
            refuse(field, "needs to be unset");
        }
    }
    if event["series"].is_object() && event["series"]["count"].as_i64().unwrap_or(0) < 2 {
        refuse("series.count", "should be at least 2");
    }
    if event["eventTime"].is_null() {
        errors.push(FieldError::required("eventTime", ""));
    }
}

/// In the newer group only how often an event repeated may change.
fn check_unchanged(event: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reportingComponent",
        "reportingInstance",
        "action",
        "type",
        "eventTime",
        "related",
    ] {
        let same = event[field] == old[field] || is_unset(&event[field]) && is_unset(&old[field]);
        if !same {
            errors.push(FieldError::invalid(field, &event[field], "field is immutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newer_group_demands_more() {
        let about = json!({ "namespace": "n" });
        let core = json!({ "metadata": { "namespace": "n" }, "involvedObject": about });
        assert_eq!(check(&core, None, ""), []);
        assert_eq!(check(&core, None, "events.k8s.io").len(), 2);
        let mut modern = json!({
            "metadata": { "namespace": "n" }, "involvedObject": about, "eventTime": "t", "type": "Normal", "action": "A",
            "reason": "R", "reportingComponent": "c", "reportingInstance": "i", "message": "m",
        });
        assert_eq!(check(&modern, None, "events.k8s.io"), []);
        let old = modern.clone();
        modern["message"] = json!("m".repeat(1025));
        assert_eq!(check(&modern, None, "").len(), 1);
        assert_eq!(check(&modern, Some(&old), "events.k8s.io").len(), 2);
    }

    #[test]
    fn translating_there_and_back_changes_nothing() {
        let core = json!({ "involvedObject": { "name": "a" }, "message": "m", "count": 2, "reason": "r" });
        let mut event = core.clone();
        from_core(&mut event);
        assert_eq!(
            event,
            json!({ "regarding": { "name": "a" }, "note": "m", "deprecatedCount": 2, "reason": "r" })
        );
        to_core(&mut event);
        assert_eq!(event, core);
    }
}
