//! Fills in and judges a definition.

use serde_json::{Value, json};

use super::paths::{check_scale, check_selectable};
use crate::schema::check_structural;
use crate::status::FieldError;

/// Defaults of a definition's `spec`.
pub(crate) fn prepare(definition: &mut Value) {
    let spec = &mut definition["spec"];
    if !spec.is_object() {
        return;
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({ "strategy": "None" });
    }
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if spec["names"].is_object() {
        if spec["names"]["singular"].as_str().unwrap_or_default().is_empty() {
            spec["names"]["singular"] = json!(kind.to_lowercase());
        }
        if spec["names"]["listKind"].as_str().unwrap_or_default().is_empty() {
            spec["names"]["listKind"] = json!(format!("{kind}List"));
        }
    }
}

/// What is wrong with a definition; `old` is what it replaces.
pub(crate) fn check(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &definition["spec"];
    check_names(definition, &mut errors);
    check_versions(spec, &mut errors);
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
    check_approval(definition, &mut errors);
    if let Some(old) = old {
        let established = old["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
        });
        let fixed: &[&str] = if established {
            &["/spec/group", "/spec/scope", "/spec/names/plural", "/spec/names/kind"]
        } else {
            &["/spec/group"]
        };
        for pointer in fixed {
            if definition.pointer(pointer) != old.pointer(pointer) {
                let path = pointer.trim_start_matches('/').replace('/', ".");
                let value = definition.pointer(pointer).cloned().unwrap_or_default();
                errors.push(FieldError::invalid(&path, &value, "field is immutable"));
            }
        }
    }
    errors
}

fn check_names(definition: &Value, errors: &mut Vec<FieldError>) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let name = crate::meta::name(definition);
    if name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(name),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Err(why) = crate::names::dns_subdomain(&group) {
        errors.push(FieldError::invalid("spec.group", &json!(group), &why));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            "spec.group",
            &json!(group),
            "should be a domain with at least one dot",
        ));
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = format!("spec.names.{field}");
        let value = text(&spec["names"][field]);
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if let Err(why) = crate::names::dns_1035_label(&value.to_lowercase()) {
            errors.push(FieldError::invalid(&path, &json!(value), &why));
        }
    }
    for (index, name) in spec["names"]["shortNames"].as_array().into_iter().flatten().enumerate() {
        if let Err(why) = crate::names::dns_1035_label(name.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(&format!("spec.names.shortNames[{index}]"), name, &why));
        }
    }
    match text(&spec["scope"]).as_str() {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(FieldError::required("spec.scope", "")),
        _ => {
            let allowed = ["Cluster", "Namespaced"].map(str::to_owned);
            errors.push(FieldError::not_supported("spec.scope", &spec["scope"], &allowed));
        }
    }
}

fn check_versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &Value::Array(Vec::new()), detail));
    }
    if spec["conversion"]["strategy"] != "None" {
        let allowed = ["None".to_owned()];
        errors.push(FieldError::not_supported(
            "spec.conversion.strategy",
            &spec["conversion"]["strategy"],
            &allowed,
        ));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        if let Err(why) = crate::names::dns_1035_label(name) {
            errors.push(FieldError::invalid(&format!("{path}.name"), &json!(name), &why));
        }
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(&format!("{path}.name"), &json!(name)));
        }
        seen.push(name);
        let schema = &version["schema"]["openAPIV3Schema"];
        // What all versions share is reported where it used to be written once for all.
        let (schema_path, columns_path) = if versions.len() == 1 {
            ("spec.validation.openAPIV3Schema".to_owned(), "spec".to_owned())
        } else {
            (format!("{path}.schema.openAPIV3Schema"), path.clone())
        };
        if schema.is_null() {
            let path = format!("{path}.schema.openAPIV3Schema");
            errors.push(FieldError::required(&path, "schemas are required"));
        } else {
            errors.extend(check_structural(schema, &schema_path));
        }
        check_columns(version, &columns_path, errors);
        check_scale(version, &columns_path, errors);
        check_selectable(version, &columns_path, errors);
    }
}

fn check_columns(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let columns = version["additionalPrinterColumns"].as_array();
    for (index, column) in columns.into_iter().flatten().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{index}]");
        for (field, shown) in [("name", "name"), ("type", "type"), ("jsonPath", "JSONPath")] {
            if column[field].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(&format!("{path}.{shown}"), ""));
            }
        }
        let kind = column["type"].as_str().unwrap_or_default();
        let known = ["boolean", "date", "integer", "number", "string"].map(str::to_owned);
        if !kind.is_empty() && !known.iter().any(|known| known == kind) {
            errors.push(FieldError::not_supported(&format!("{path}.type"), &column["type"], &known));
        }
        let source = column["jsonPath"].as_str().unwrap_or_default();
        if !source.is_empty()
            && let Err(why) = crate::jsonpath::JsonPath::parse(source)
        {
            errors.push(FieldError::invalid(&format!("{path}.JSONPath"), &json!(source), &why));
        }
    }
}

/// Groups of the Kubernetes project itself need its approval noted on the definition.
fn check_approval(definition: &Value, errors: &mut Vec<FieldError>) {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}")));
    if !protected {
        return;
    }
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let path = format!("metadata.annotations[{ANNOTATION}]");
    let value =
        definition["metadata"]["annotations"].get(ANNOTATION).and_then(Value::as_str).unwrap_or_default();
    if value.is_empty() {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", \
                      see https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::required(&path, detail));
    } else if !(value.starts_with("unapproved") || value.starts_with("http") && value.contains("://")) {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL \
                      or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::invalid(&path, &json!(value), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(group: &str) -> Value {
        let mut definition = json!({ "metadata": { "name": format!("foos.{group}") }, "spec": {
            "group": group, "scope": "Namespaced", "names": { "plural": "foos", "kind": "Foo" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                           "schema": { "openAPIV3Schema": { "type": "object" } } }],
        }});
        prepare(&mut definition);
        definition
    }

    #[test]
    fn a_plain_definition_is_accepted_with_names_filled_in() {
        let definition = definition("example.com");
        assert_eq!(check(&definition, None), []);
        assert_eq!(definition["spec"]["names"]["listKind"], "FooList");
    }

    #[test]
    fn groups_of_the_project_need_approval() {
        let mut definition = definition("x.k8s.io");
        assert_eq!(check(&definition, None).len(), 1);
        definition["metadata"]["annotations"] =
            json!({ "api-approved.kubernetes.io": "unapproved, for a test" });
        assert_eq!(check(&definition, None), []);
    }

    #[test]
    fn exactly_one_version_is_stored() {
        let mut definition = definition("example.com");
        definition["spec"]["versions"][0]["storage"] = json!(false);
        assert_eq!(check(&definition, None).len(), 1);
    }
}
