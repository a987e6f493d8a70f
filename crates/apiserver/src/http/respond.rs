//! Results into bytes.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::negotiate::{Form, Presentation};
use super::page::Page;
use crate::clock::Clock;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Encoding, EncodingForm, Object};
use crate::table::{row, table};

pub(crate) const JSON: &str = "application/json";

/// What all warnings of an answer may add up to, and how many there may be: clients refuse answers
/// with larger heads, or with a hundred headers.
const WARNING_BYTES: usize = 4096;
const WARNINGS: usize = 50;

/// A response with a body of the given type.
pub(crate) fn bytes(code: u16, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A document.
pub(crate) fn value(code: u16, value: &Value) -> Response {
    bytes(code, JSON, serialize(value))
}

/// A refusal.
pub(crate) fn error(error: &ApiError) -> Response {
    let mut response = value(error.code, &error.to_value());
    if let Some(wait) = error.details.as_ref().map(|details| details.retry_after).filter(|wait| *wait > 0) {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}

/// Adds a `Warning` header per sentence, as far as clients take headers.
pub(crate) fn warn(mut response: Response, warnings: &[String]) -> Response {
    let mut room = WARNING_BYTES;
    for warning in warnings.iter().take(WARNINGS) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if quoted.len() > room {
            break;
        }
        room -= quoted.len();
        match HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            Ok(header) => {
                response.headers_mut().append(HeaderName::from_static("warning"), header);
            }
            Err(why) => tracing::debug!(error = %why, warning, "a warning cannot be a header"),
        }
    }
    response
}

/// JSON text of a value.
pub(crate) fn serialize(value: &Value) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// An object as its resource shows it, encoded once for all who ask.
pub(crate) fn object_bytes(resource: &Resource, object: &Object) -> Bytes {
    let encoding = Encoding { api_version: resource.api_version(), form: EncodingForm::Object };
    object.encoded(encoding, |_| object_bytes_uncached(resource, object))
}

/// The same, for use while another encoding of the object is being made.
pub(crate) fn object_bytes_uncached(resource: &Resource, object: &Object) -> Bytes {
    match resource.view(&object.value) {
        Some(view) => serialize(&view),
        None => serialize(&object.value),
    }
}

/// The metadata of an object, as an object of its own.
pub(crate) fn partial(stored: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": stored["metadata"] })
}

/// One object.
pub(crate) fn object(
    code: u16,
    resource: &Resource,
    object: &Object,
    presentation: Presentation,
    clock: &Clock,
) -> Response {
    match presentation.form {
        Form::Object => bytes(code, JSON, object_bytes(resource, object)),
        Form::Metadata => value(code, &partial(&object.value)),
        Form::Table => {
            let rows = vec![row(resource, &object.value, presentation.include, clock)];
            value(code, &table(resource, rows, &object.version.to_string(), true))
        }
    }
}

/// Many objects as they were at one version, or some of them.
pub(crate) fn list(resource: &Resource, page: &Page, presentation: Presentation, clock: &Clock) -> Response {
    let Page { objects, metadata } = page;
    match presentation.form {
        Form::Table => {
            let shown = |object: &Arc<Object>| row(resource, &object.value, presentation.include, clock);
            let rows = objects.iter().map(shown).collect();
            let mut table = table(resource, rows, "", true);
            table["metadata"] = metadata.clone();
            value(200, &table)
        }
        Form::Metadata => {
            let items: Vec<Value> = objects.iter().map(|object| partial(&object.value)).collect();
            value(
                200,
                &json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata, "items": items,
                }),
            )
        }
        Form::Object => {
            let encoded: Vec<Bytes> = objects.iter().map(|object| object_bytes(resource, object)).collect();
            let mut out = Vec::with_capacity(512 + encoded.iter().map(|item| item.len() + 1).sum::<usize>());
            let head = format!(
                r#"{{"kind":"{}","apiVersion":"{}","metadata":{metadata},"items":["#,
                resource.list_kind,
                resource.api_version()
            );
            out.extend_from_slice(head.as_bytes());
            for (index, item) in encoded.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(item);
            }
            out.extend_from_slice(b"]}");
            bytes(200, JSON, out)
        }
    }
}
