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

/// An event lives in the namespace of what it is about; about cluster-wide objects, in `default`.
pub(crate) fn check(event: &Value) -> Option<FieldError> {
    let about = event["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let fits = match crate::meta::text(event, "namespace") {
        "default" | "kube-system" if about.is_empty() => true,
        own => about == own,
    };
    let refuse =
        || FieldError::invalid("involvedObject.namespace", &about.into(), "does not match event.namespace");
    (!fits).then(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
