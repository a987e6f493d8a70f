//! Failures as the API speaks of them: an HTTP code, a reason a program can match on, a sentence
//! for a person, and, for a refused object, one cause per offending field.
//!
//! Everything below the HTTP layer returns [`ApiError`]; only the HTTP layer turns it into bytes.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// A refusal, ready to become a `Status` object.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Boxed: most results carry no refusal, and all would carry its size.
    pub(crate) details: Option<Box<Details>>,
}

/// What the refusal is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    /// The resource's plural, or for an invalid object its kind: the API mixes the two.
    pub(crate) kind: String,
    pub(crate) causes: Vec<Cause>,
    pub(crate) retry_after: u32,
    /// A token with which a list can be continued after all.
    pub(crate) continuing: String,
}

/// One reason of several, usually one field.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) field: String,
}

/// Group and plural (or kind), printed the way error sentences name them: `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Qualified {
    pub(crate) group: String,
    pub(crate) name: String,
}

impl Qualified {
    pub(crate) fn new(group: &str, name: &str) -> Self {
        Qualified { group: group.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Qualified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}.{}", self.name, self.group)
        }
    }
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        ApiError { code, reason: reason.to_owned(), message: message.into(), details: None }
    }

    fn about(mut self, what: &Qualified, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: what.group.clone(),
            kind: what.name.clone(),
            ..Details::default()
        }));
        self
    }

    pub(crate) fn not_found(what: &Qualified, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{what} {name:?} not found")).about(what, name)
    }

    /// A path nothing is served under.
    pub(crate) fn no_such_path() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(Box::default());
        error
    }

    /// The same, of what a cluster may have and this server does not: by its name.
    pub(crate) fn not_served(path: &str) -> Self {
        let mut error = Self::no_such_path();
        error.message = format!("{}: {path} is not served here", error.message);
        error
    }

    pub(crate) fn already_exists(what: &Qualified, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{what} {name:?} already exists")).about(what, name)
    }

    pub(crate) fn conflict(what: &Qualified, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(what, name)
    }

    pub(crate) fn forbidden(what: &Qualified, name: &str, why: &str) -> Self {
        let message = format!("{what} {name:?} is forbidden: {why}");
        Self::new(403, "Forbidden", message).about(what, name)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn method_not_allowed(what: &Qualified, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {:?}", what.to_string());
        Self::new(405, "MethodNotAllowed", message).about(what, "")
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// `kind` is a kind here, not a plural.
    pub(crate) fn invalid(kind: &Qualified, name: &str, errors: Vec<FieldError>) -> Self {
        let mut seen = HashSet::new();
        let lines: Vec<String> =
            errors.iter().map(ToString::to_string).filter(|line| seen.insert(line.clone())).collect();
        let text = if lines.len() == 1 { lines.concat() } else { format!("[{}]", lines.join(", ")) };
        let mut error =
            Self::new(422, "Invalid", format!("{kind} {name:?} is invalid: {text}")).about(kind, name);
        if let Some(details) = &mut error.details {
            details.causes = errors.into_iter().map(FieldError::into_cause).collect();
        }
        error
    }

    /// The `Status` object.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
            if !details.continuing.is_empty() {
                status["metadata"]["continue"] = json!(details.continuing);
            }
        }
        status
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind)] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            out.insert("causes".to_owned(), self.causes.iter().map(Cause::to_value).collect());
        }
        if self.retry_after > 0 {
            out.insert("retryAfterSeconds".to_owned(), json!(self.retry_after));
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        Value::Object(out)
    }
}

/// One refused field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) body: String,
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

impl FieldError {
    fn new(reason: &'static str, field: &str, head: String, detail: &str) -> Self {
        let body = if detail.is_empty() { head } else { format!("{head}: {detail}") };
        let field = if field.is_empty() { "<nil>".to_owned() } else { field.to_owned() };
        FieldError { reason, field, body }
    }

    pub(crate) fn required(field: &str, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, "Required value".into(), detail)
    }

    pub(crate) fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {}", shown(value)), detail)
    }

    /// Like [`FieldError::invalid`] for a value too large to be quoted.
    pub(crate) fn invalid_tree(field: &str, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, "Invalid value".into(), detail)
    }

    pub(crate) fn type_invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self::new("FieldValueTypeInvalid", field, format!("Invalid value: {}", shown(value)), detail)
    }

    pub(crate) fn not_supported(field: &str, value: &Value, allowed: &[String]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|a| format!("{a:?}")).collect();
        let detail = format!("supported values: {}", allowed.join(", "));
        Self::new("FieldValueNotSupported", field, format!("Unsupported value: {}", shown(value)), &detail)
    }

    pub(crate) fn forbidden(field: &str, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, "Forbidden".into(), detail)
    }

    pub(crate) fn duplicate(field: &str, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {}", shown(value)), "")
    }

    pub(crate) fn too_long(field: &str, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            "FieldValueTooLong",
            field,
            "Too long".into(),
            &format!("may not be more than {max} {unit}"),
        )
    }

    pub(crate) fn too_many(field: &str, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::new("FieldValueTooMany", field, format!("Too many: {actual}"), &detail)
    }

    fn into_cause(self) -> Cause {
        Cause { reason: self.reason.to_owned(), message: self.body, field: self.field }
    }
}

/// A value as error sentences quote it.
pub(crate) fn shown(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The `Status` that answers a delete which left nothing behind.
pub(crate) fn deleted(what: &Qualified, name: &str, uid: &str) -> Value {
    let mut details = json!({ "name": name, "kind": what.name, "uid": uid });
    if !what.group.is_empty() {
        details["group"] = json!(what.group);
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_causes_are_listed_in_brackets_and_one_is_not() {
        let kind = Qualified::new("example.com", "Foo");
        let one = || FieldError::required("spec.a", "");
        let two = || FieldError::invalid("spec.b", &json!(-1), "too small");
        let single = ApiError::invalid(&kind, "x", vec![one()]);
        assert_eq!(single.message, r#"Foo.example.com "x" is invalid: spec.a: Required value"#);
        let both = ApiError::invalid(&kind, "x", vec![one(), two()]);
        assert!(both.message.ends_with("[spec.a: Required value, spec.b: Invalid value: -1: too small]"));
        assert_eq!(both.to_value()["details"]["causes"][1]["field"], "spec.b");
    }
}
