//! Creating, changing and deleting.

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::negotiate::Presentation;
use super::read::ListOptions;
use super::{Call, respond};
use crate::audit::Wrote;
use crate::cluster::{Cluster, Target};
use crate::decode::{Body, FieldValidation};
use crate::messages;
use crate::meta;
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

    /// The patch of an object that consists of `message`, unless the request replaces.
    fn patch(&self, message: Option<&'static str>) -> Result<Option<PatchBody>, ApiError> {
        if self.method != Method::PATCH {
            return Ok(None);
        }
        PatchBody::parse(&self.content_type, &self.body, message).map(Some)
    }
}

fn options(call: &Call) -> Result<WriteOptions, ApiError> {
    Ok(WriteOptions { field_validation: FieldValidation::parse(call.query.text("fieldValidation"))? })
}

/// Whether the request only asks what would happen.
fn dry_run(call: &Call, method: &Method) -> Result<bool, ApiError> {
    let options = match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        _ => "DeleteOptions",
    };
    verbs::is_dry_run(&call.query.all("dryRun"), options)
}

/// Does something to the cluster, or to a copy of it that nobody sees.
fn change_cluster<T>(
    call: &Call,
    dry_run: bool,
    work: impl FnOnce(&mut Cluster) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    if dry_run { work(&mut call.shared.read().copy()) } else { work(&mut call.shared.write()) }
}

fn written(call: &Call, sent: &Sent, mut written: Written, dry_run: bool) -> Response {
    let clock = call.shared.read().clock.clone();
    if dry_run {
        // No version was used: a new object has none, another one keeps its own.
        let key = written.object.key();
        let version = call.shared.read().store.get(&call.resource.shelf, &key).map(|object| object.version);
        written.object = Arc::new(written.object.not_stored(version));
    }
    let code = if written.created { 201 } else { 200 };
    let mut response = respond::object(code, &call.resource, &written.object, sent.presentation, &clock);
    let (name, version) = (written.object.key().name, Some(written.object.version).filter(|_| !dry_run));
    response.extensions_mut().insert(Wrote { name, version, dry_run });
    respond::warn(response, &written.warnings)
}

pub(super) async fn create(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let (options, body) = (options(call)?, sent.whole()?);
    let dry_run = dry_run(call, &sent.method)?;
    let target = call.target();
    let result = change_cluster(call, dry_run, |cluster| verbs::create(cluster, &target, body, options))?;
    Ok(written(call, &sent, result, dry_run))
}

/// Replaces or patches an object or its status.
pub(super) async fn change(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let (options, target) = (options(call)?, call.target());
    let dry_run = dry_run(call, &sent.method)?;
    let part = if call.place.subresource.is_some() { Part::Status } else { Part::Main };
    let message = messages::name_of(&call.resource.api_version(), &call.resource.kind);
    let result = match sent.patch(message)? {
        Some(patch) => {
            change_cluster(call, dry_run, |cluster| verbs::patch(cluster, &target, part, &patch, options))?
        }
        None => {
            let body = sent.whole()?;
            change_cluster(call, dry_run, |cluster| verbs::replace(cluster, &target, part, body, options))?
        }
    };
    Ok(written(call, &sent, result, dry_run))
}

pub(super) async fn scale(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let dry_run = dry_run(call, &sent.method)?;
    let wanted: Box<dyn FnOnce(Value) -> Result<Value, ApiError> + Send> =
        match sent.patch(Some("autoscaling.Scale"))? {
            Some(patch) => Box::new(move |scale| patch.apply(&scale)),
            None => {
                let body = sent.whole()?;
                Box::new(|_| Ok(body.value))
            }
        };
    let target = call.target();
    let scale = change_cluster(call, dry_run, |cluster| verbs::write_scale(cluster, &target, wanted))?;
    let mut response = respond::value(200, &scale);
    let version = meta::text(&scale, "resourceVersion").parse().ok().filter(|_| !dry_run);
    response.extensions_mut().insert(Wrote { name: target.key.name, version, dry_run });
    Ok(response)
}

/// Options in a body are all that counts; without one the query may hold them.
fn delete_options(call: &Call, sent: &Sent) -> Result<DeleteOptions, ApiError> {
    if !sent.body.is_empty() {
        return DeleteOptions::parse(sent.whole()?.value);
    }
    let query = &call.query;
    let dry_run = dry_run(call, &sent.method)?;
    DeleteOptions::from_query(query.text("propagationPolicy"), query.number("gracePeriodSeconds")?, dry_run)
}

pub(super) async fn delete(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let options = delete_options(call, &sent)?;
    let (target, dry_run) = (call.target(), options.dry_run);
    let deleted = change_cluster(call, dry_run, |cluster| verbs::delete(cluster, &target, &options))?;
    Ok(match deleted {
        Deleted::Gone(status) => {
            let mut response = respond::value(200, &status);
            response.extensions_mut().insert(Wrote { name: target.key.name, version: None, dry_run });
            response
        }
        Deleted::Object(object) => {
            written(call, &sent, Written { object, created: false, warnings: Vec::new() }, dry_run)
        }
    })
}

/// Deletes what a list would show, and answers with that list.
pub(super) async fn delete_collection(call: &Call, request: Request<HttpBody>) -> Result<Response, ApiError> {
    let sent = receive(call, request).await?;
    let (options, listed) = (delete_options(call, &sent)?, ListOptions::of(call)?);
    let page = change_cluster(call, options.dry_run, |cluster| {
        let page = listed.page(call, cluster)?;
        for object in &page.objects {
            let target = Target { resource: call.resource.clone(), key: object.key() };
            // The first refusal ends it; what went before is gone.
            verbs::delete(cluster, &target, &options)?;
        }
        Ok(page)
    })?;
    let clock = call.shared.read().clock.clone();
    let mut response = respond::list(&call.resource, &page, sent.presentation, &clock);
    let wrote = Wrote { name: String::new(), version: None, dry_run: options.dry_run };
    response.extensions_mut().insert(wrote);
    Ok(response)
}
