//! Which definition may have which names, and the conditions that say so.
//!
//! Within a group plurals, singulars and short names share one space, kinds and list kinds another;
//! whoever held a name first keeps it.

use serde_json::{Value, json};

/// The status a definition should have, given the others of its group.
pub(crate) fn judge(definition: &Value, others: &[&Value], now: &str) -> Value {
    let names = &definition["spec"]["names"];
    let taken_by = |field: &str| {
        let same_space: &[&str] = if matches!(field, "kind" | "listKind") {
            &["kind", "listKind"]
        } else {
            &["plural", "singular", "shortNames"]
        };
        let wanted = texts(&names[field]);
        others.iter().any(|other| {
            let accepted = &other["status"]["acceptedNames"];
            same_space.iter().any(|space| texts(&accepted[*space]).iter().any(|name| wanted.contains(name)))
        })
    };
    let reasons = [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ];
    let conflict = reasons.iter().rfind(|(field, _)| taken_by(field));
    let old = &definition["status"];
    let conditions = match conflict {
        None => [
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found".to_owned()),
            (
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted".to_owned(),
            ),
        ],
        Some((field, reason)) => [
            ("NamesAccepted", "False", *reason, format!("{} is already in use", names[*field])),
            ("Established", "False", "NotAccepted", "not all names are accepted".to_owned()),
        ],
    };
    let mut status = old.clone();
    if !status.is_object() {
        status = json!({});
    }
    if conflict.is_none() {
        status["acceptedNames"] = names.clone();
    } else if status["acceptedNames"].is_null() {
        status["acceptedNames"] = json!({ "kind": "", "plural": "" });
    }
    status["storedVersions"] = stored_versions(definition);
    let mut list = old["conditions"].as_array().cloned().unwrap_or_default();
    for (kind, state, reason, message) in conditions {
        upsert(&mut list, kind, state, reason, &message, now);
    }
    status["conditions"] = Value::Array(list);
    status
}

/// Sets a condition; its transition time moves only with its state.
pub(crate) fn upsert(list: &mut Vec<Value>, kind: &str, state: &str, reason: &str, message: &str, now: &str) {
    let condition = |since: &str| json!({ "type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since });
    match list.iter_mut().find(|have| have["type"] == kind) {
        Some(have) => {
            let since = have["lastTransitionTime"].as_str().unwrap_or(now).to_owned();
            *have = condition(if have["status"] == state { &since } else { now });
        }
        None => list.push(condition(now)),
    }
}

/// Every version that ever was the stored one.
fn stored_versions(definition: &Value) -> Value {
    let mut stored = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let current = definition["spec"]["versions"].as_array().into_iter().flatten();
    for version in current.filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    Value::Array(stored)
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_use_is_not_accepted_until_it_is_free() {
        let names = json!({ "plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList", "shortNames": ["f"] });
        let other = json!({ "status": { "acceptedNames": { "plural": "f", "kind": "Other" } } });
        let mut definition =
            json!({ "spec": { "names": names, "versions": [{ "name": "v1", "storage": true }] } });
        let refused = judge(&definition, &[&other], "t1");
        assert_eq!(refused["conditions"][0]["reason"], "ShortNamesConflict");
        assert_eq!(refused["conditions"][1]["status"], "False");
        definition["status"] = refused;
        let accepted = judge(&definition, &[], "t2");
        assert_eq!(accepted["acceptedNames"]["plural"], "foos");
        assert_eq!(accepted["conditions"][1]["lastTransitionTime"], "t2");
        assert_eq!(accepted["storedVersions"], json!(["v1"]));
    }
}
