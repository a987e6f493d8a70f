//! Creating, changing and deleting.

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::path::Place;
use super::query::Query;
use super::read::target;
use super::{Shared, negotiate, respond};
use crate::decode::{Body, FieldValidation};
use crate::patch::PatchBody;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::table::Include;
use crate::verbs::{self, DeleteOptions, Deleted, Part, WriteOptions, Written};

/// As much as a real server takes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// All of a request but the part that has been read.
struct Sent {
    method: Method,
    content_type: String,
    body: Bytes,
    query: Query,
    form: negotiate::Form,
}

async fn receive(request: Request<HttpBody>) -> Result<Sent, ApiError> {
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
        query: Query::of(&head.uri),
        form: negotiate::form(&head.headers)?,
    })
}

fn options(query: &Query) -> Result<WriteOptions, ApiError> {
    Ok(WriteOptions { field_validation: FieldValidation::parse(query.text("fieldValidation"))? })
}

fn written(
    shared: &Shared,
    resource: &Resource,
    sent: &Sent,
    written: &Written,
) -> Result<Response, ApiError> {
    let clock = shared.read().clock.clone();
    let include = Include::parse(sent.query.text("includeObject"))?;
    let code = if written.created { 201 } else { 200 };
    let response = respond::object(code, resource, &written.object, sent.form, include, &clock);
    Ok(respond::warn(response, &written.warnings))
}

pub(super) async fn create(
    shared: &Shared,
    resource: &Arc<Resource>,
    place: &Place,
    request: Request<HttpBody>,
) -> Result<Response, ApiError> {
    let sent = receive(request).await?;
    let options = options(&sent.query)?;
    let body = Body::parse(&sent.content_type, &sent.body)?;
    let result = verbs::create(&mut shared.write(), &target(resource, place), body, options)?;
    written(shared, resource, &sent, &result)
}

/// Replaces or patches an object or its status.
pub(super) async fn change(
    shared: &Shared,
    resource: &Arc<Resource>,
    place: &Place,
    request: Request<HttpBody>,
) -> Result<Response, ApiError> {
    let sent = receive(request).await?;
    let options = options(&sent.query)?;
    let part = if place.subresource.is_some() { Part::Status } else { Part::Main };
    let target = target(resource, place);
    let result = if sent.method == Method::PATCH {
        let patch = PatchBody::parse(&sent.content_type, &sent.body)?;
        verbs::patch(&mut shared.write(), &target, part, &patch, options)?
    } else {
        let body = Body::parse(&sent.content_type, &sent.body)?;
        verbs::replace(&mut shared.write(), &target, part, body, options)?
    };
    written(shared, resource, &sent, &result)
}

pub(super) async fn scale(
    shared: &Shared,
    resource: &Arc<Resource>,
    place: &Place,
    request: Request<HttpBody>,
) -> Result<Response, ApiError> {
    let sent = receive(request).await?;
    let target = target(resource, place);
    let scale = if sent.method == Method::PATCH {
        let patch = PatchBody::parse(&sent.content_type, &sent.body)?;
        verbs::write_scale(&mut shared.write(), &target, |scale| patch.apply(&scale))?
    } else {
        let body = Body::parse(&sent.content_type, &sent.body)?;
        verbs::write_scale(&mut shared.write(), &target, |_| Ok(body.value))?
    };
    Ok(respond::value(200, &scale))
}

pub(super) async fn delete(
    shared: &Shared,
    resource: &Arc<Resource>,
    place: &Place,
    request: Request<HttpBody>,
) -> Result<Response, ApiError> {
    let sent = receive(request).await?;
    let body =
        if sent.body.is_empty() { Value::Null } else { Body::parse(&sent.content_type, &sent.body)?.value };
    if body["dryRun"].as_array().is_some_and(|list| !list.is_empty()) {
        return Err(ApiError::bad_request("dryRun is not supported by this server: nothing was changed"));
    }
    if let Some(kind) = body["kind"].as_str().filter(|kind| !["", "DeleteOptions"].contains(kind)) {
        return Err(ApiError::bad_request(format!("a {kind} is no DeleteOptions: nothing was deleted")));
    }
    let mut options = DeleteOptions::parse(&body)?;
    if let Some(grace) = sent.query.number("gracePeriodSeconds")? {
        options.grace = Some(grace);
    }
    let policy = sent.query.text("propagationPolicy");
    if !policy.is_empty() {
        verbs::check_propagation(&Value::from(policy))?;
    }
    let deleted = verbs::delete(&mut shared.write(), &target(resource, place), &options)?;
    match deleted {
        Deleted::Gone(status) => Ok(respond::value(200, &status)),
        Deleted::Object(object) => {
            written(shared, resource, &sent, &Written { object, created: false, warnings: Vec::new() })
        }
    }
}
