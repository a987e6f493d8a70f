//! Creating, changing and deleting.

use axum::body::Body as HttpBody;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::negotiate::Presentation;
use super::{Call, respond};
use crate::audit::Wrote;
use crate::decode::{Body, FieldValidation};
use crate::patch::PatchBody;
use crate::status::ApiError;
use crate::verbs::{self, DeleteOptions, Deleted, Part, WriteOptions, Written};

/// As much as a real server takes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// A request that has been read.
struct Sent {
    method: Method,
    content_type: String,
    body: Bytes,
    presentation: Presentation,
}

async fn receive(call: &Call, request: Request<HttpBody>) -> Result<Sent, ApiError> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(|why| {
        if why.is::<http_body_util::LengthLimitError>() {
            let message = format!("Request entity too large: limit is {BODY_LIMIT}");
            ApiError::new(413, "RequestEntityTooLarge", message)
        } else {
            ApiError::bad_request(format!("the body could not be read: {why}"))
        }
    })?;
    let content_type =
        head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(Sent {
        method: head.method,
        content_type: content_type.to_owned(),
        body: body.to_bytes(),
        presentation: Presentation::of(&head.headers, &call.query)?,
    })
}

impl Sent {
    fn whole(&self) -> Result<Body, ApiError> {
        Body::parse(&self.content_type, &self.body)
    }

    /// The patch, unless the request replaces.
    fn patch(&self) -> Result<Option<PatchBody>, ApiError> {
        if self.method != Method::PATCH {
            return Ok(None);
        }
        PatchBody::parse(&self.content_type, &self.body).map(Some)
    }
}

fn options(call: &Call) -> Result<WriteOptions, ApiError> {
    Ok(WriteOptions { field_validation: FieldValidation::parse(call.query.text("fieldValidation"))? })
}

fn written(call: &Call, sent: &Sent, written: &Written) -> Response {
    let clock = call.shared.read().clock.clone();
    let code = if written.created { 201 } else { 200 };
    let mut response = respond::object(code, &call.resource, &written.object, sent.presentation, &clock);
    let (name, version) = (written.object.key().name, written.object.version);
    response.extensions_mut().insert(Wrote { name, version });
    respond::warn(response, &written.warnings)
}

pub(super) async fn create(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let (options, body) = (options(call)?, sent.whole()?);
    let result = verbs::create(&mut call.shared.write(), &call.target(), body, options)?;
    Ok(written(call, &sent, &result))
}

/// Replaces or patches an object or its status.
pub(super) async fn change(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let (options, target) = (options(call)?, call.target());
    let part = if call.place.subresource.is_some() { Part::Status } else { Part::Main };
    let result = match sent.patch()? {
        Some(patch) => verbs::patch(&mut call.shared.write(), &target, part, &patch, options)?,
        None => {
            let body = sent.whole()?;
            verbs::replace(&mut call.shared.write(), &target, part, body, options)?
        }
    };
    Ok(written(call, &sent, &result))
}

pub(super) async fn scale(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let wanted: Box<dyn FnOnce(Value) -> Result<Value, ApiError> + Send> = match sent.patch()? {
        Some(patch) => Box::new(move |scale| patch.apply(&scale)),
        None => {
            let body = sent.whole()?;
            Box::new(|_| Ok(body.value))
        }
    };
    let scale = verbs::write_scale(&mut call.shared.write(), &call.target(), wanted)?;
    Ok(respond::value(200, &scale))
}

pub(super) async fn delete(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    // Options in a body are all that counts; without one the query may hold them.
    let options = if sent.body.is_empty() {
        DeleteOptions::from_query(
            call.query.text("propagationPolicy"),
            call.query.number("gracePeriodSeconds")?,
        )?
    } else {
        DeleteOptions::parse(sent.whole()?.value)?
    };
    let deleted = verbs::delete(&mut call.shared.write(), &call.target(), &options)?;
    Ok(match deleted {
        Deleted::Gone(status) => respond::value(200, &status),
        Deleted::Object(object) => {
            written(call, &sent, &Written { object, created: false, warnings: Vec::new() })
        }
    })
}
