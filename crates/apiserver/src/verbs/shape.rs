//! What was sent, brought into the shape that is stored, and judged.

use serde_json::{Map, Value, json};

use super::WriteOptions;
use crate::builtin;
use crate::decode::{Body, FieldValidation};
use crate::meta;
use crate::resource::{Nature, Resource};
use crate::status::{ApiError, FieldError};

/// Whether a body was sent as such or came of a patch: refusals differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Sent,
    Patched,
}

/// How many fields are complained of; more would help nobody.
const MAX_COMPLAINTS: usize = 100;

/// Stored shape: known metadata only, unknown fields dropped (or refused), defaults filled in.
pub(super) fn shape(
    resource: &Resource,
    body: Body,
    old: Option<&Value>,
    options: WriteOptions,
    origin: Origin,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    let Body { mut value, duplicates } = body;
    check_type(resource, &mut value, origin)?;
    let mut complaints: Vec<String> =
        duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    let mistyped = |why: String| mistyped(resource, &why, origin);
    let mut unknown = meta::normalize(&mut value).map_err(mistyped)?;
    if let Some(custom) = resource.custom() {
        unknown.extend(crate::schema::prune(&custom.schema, &mut value));
        crate::schema::apply_defaults(&custom.schema, &mut value);
        warnings.extend(custom.deprecation.clone());
    } else {
        unknown.extend(builtin::conform(resource, &mut value).map_err(mistyped)?);
    }
    unknown.sort();
    unknown.truncate(MAX_COMPLAINTS);
    complaints.truncate(MAX_COMPLAINTS - unknown.len());
    complaints.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
    complain(resource, complaints, options, origin, warnings)?;
    resource.unview(&mut value);
    if resource.custom().is_none() {
        if !matches!(resource.nature, Nature::Definition) {
            builtin::drop_nulls(&mut value);
        }
        if let Value::Object(map) = &mut value {
            builtin::default(&resource.nature, map, old);
        }
    }
    if matches!(resource.nature, Nature::Definition) {
        crate::crd::prepare(&mut value);
    }
    Ok(value)
}

/// Kind and version may be left out; a wrong one may not be sent.
fn check_type(resource: &Resource, value: &mut Value, origin: Origin) -> Result<(), ApiError> {
    let Value::Object(map) = value else {
        return Err(ApiError::bad_request("the object provided is unrecognized: it must be a JSON object"));
    };
    let version = resource.api_version();
    let sent = |map: &Map<String, Value>, key: &str| {
        map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (sent_version, sent_kind) = (sent(map, "apiVersion"), sent(map, "kind"));
    if !sent_version.is_empty() && sent_version != version {
        let why = format!(
            "the API version in the data ({sent_version}) does not match the expected API version ({version})"
        );
        return Err(match origin {
            Origin::Sent => ApiError::bad_request(why),
            Origin::Patched => mistyped(resource, &why, origin),
        });
    }
    if !sent_kind.is_empty() && sent_kind != resource.kind {
        if resource.custom().is_some() || origin == Origin::Patched {
            let error = FieldError::invalid("kind", &json!(sent_kind), &format!("must be {}", resource.kind));
            return Err(ApiError::invalid(&resource.qualified_kind(), "", vec![error]));
        }
        return Err(ApiError::bad_request(format!(
            "{sent_kind} in version {:?} cannot be handled as a {}: the kind in the data does not match",
            resource.version, resource.kind
        )));
    }
    if resource.custom().is_some() && (sent_version.is_empty() || sent_kind.is_empty()) {
        return Err(ApiError::bad_request(format!(
            "Object 'Kind' is missing: expected kind {:?} and apiVersion {version:?}",
            resource.kind
        )));
    }
    map.insert("apiVersion".into(), json!(version));
    map.insert("kind".into(), json!(resource.kind));
    Ok(())
}

/// A field of a wrong type: unreadable when sent so, invalid when patched so.
fn mistyped(resource: &Resource, why: &str, origin: Origin) -> ApiError {
    let Resource { kind, version, .. } = resource;
    match origin {
        Origin::Sent => ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        )),
        Origin::Patched => {
            let error = FieldError::invalid("patch", &json!("{}"), why);
            ApiError::invalid(&resource.qualified_kind(), "", vec![error])
        }
    }
}

fn complain(
    resource: &Resource,
    complaints: Vec<String>,
    options: WriteOptions,
    origin: Origin,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    if complaints.is_empty() {
        return Ok(());
    }
    match options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            warnings.extend(complaints);
            Ok(())
        }
        FieldValidation::Strict => {
            let text = format!("strict decoding error: {}", complaints.join(", "));
            let Resource { kind, version, .. } = resource;
            Err(match origin {
                Origin::Sent => ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {text}"
                )),
                Origin::Patched => ApiError::invalid(
                    &resource.qualified_kind(),
                    "",
                    vec![FieldError::invalid("patch", &json!("{}"), &text)],
                ),
            })
        }
    }
}

/// Refuses what may not be stored. Both values are in stored shape.
pub(super) fn judge(resource: &Resource, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let mut errors = meta::validate(resource, new);
    if let Some(old) = old {
        errors.extend(meta::validate_update(old, new));
    }
    match &resource.nature {
        Nature::Definition => errors.extend(crate::crd::check(new, old)),
        Nature::Custom(custom) => {
            let (new_view, old_view) = (resource.view(new), old.and_then(|old| resource.view(old)));
            let new = new_view.as_ref().unwrap_or(new);
            let old = old_view.as_ref().or(old);
            errors.extend(crate::schema::validate(&custom.schema, new, old));
            // Rules may rely on types and required fields: they are not asked about broken objects.
            if !errors.iter().any(blocks_rules) {
                errors.extend(custom.rules.check(new, old));
            } else if custom.rules.any() {
                errors.push(FieldError::invalid("", &Value::Null, UNCHECKED));
            }
        }
        _ => errors.extend(builtin::check(resource, new, old)),
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&resource.qualified_kind(), meta::name(new), errors))
}

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
                         errors to complete validation";

fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.reason,
        "FieldValueNotSupported"
            | "FieldValueRequired"
            | "FieldValueTooLong"
            | "FieldValueTooMany"
            | "FieldValueTypeInvalid"
    )
}
