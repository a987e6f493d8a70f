//! Getting and listing.

use axum::response::Response;
use http::HeaderMap;

use super::negotiate::Presentation;
use super::query::Query;
use super::{Call, respond};
use crate::selector::Selector;
use crate::status::{ApiError, Cause, Details, FieldError, Qualified};

pub(super) fn get(call: &Call, headers: &HeaderMap) -> Result<Response, ApiError> {
    let presentation = Presentation::of(headers, &call.query)?;
    let (object, clock) = {
        let cluster = call.shared.read();
        check_version(&call.query, cluster.store.version())?;
        (cluster.get(&call.target())?.clone(), cluster.clock.clone())
    };
    let response = respond::object(200, &call.resource, &object, presentation, &clock);
    Ok(with_deprecation(call, response))
}

pub(super) fn scale(call: &Call) -> Result<Response, ApiError> {
    let scale = crate::verbs::read_scale(&call.shared.read(), &call.target())?;
    Ok(respond::value(200, &scale))
}

pub(super) fn list(call: &Call, headers: &HeaderMap) -> Result<Response, ApiError> {
    let (resource, query) = (&call.resource, &call.query);
    let presentation = Presentation::of(headers, query)?;
    let selector = Selector::parse(query.text("labelSelector"), query.text("fieldSelector"), resource)?;
    check_list_options(query)?;
    let (mut objects, version, clock) = {
        let cluster = call.shared.read();
        let version = cluster.store.version();
        check_version(query, version)?;
        let objects = cluster.store.list(&resource.shelf, call.place.namespace.as_deref());
        (objects, version, cluster.clock.clone())
    };
    if !selector.is_empty() {
        objects.retain(|object| selector.matches(&object.value));
    }
    Ok(with_deprecation(call, respond::list(resource, &objects, version, presentation, &clock)))
}

fn with_deprecation(call: &Call, response: Response) -> Response {
    let deprecation = call.resource.custom().and_then(|custom| custom.deprecation.as_ref());
    respond::warn(response, deprecation.map(std::slice::from_ref).unwrap_or_default())
}

fn check_list_options(query: &Query) -> Result<(), ApiError> {
    // Lists come whole whatever the limit; it has to be a number all the same.
    query.number("limit")?;
    query.number("timeoutSeconds")?;
    let mut errors = Vec::new();
    let (matching, version) = (query.text("resourceVersionMatch"), query.text("resourceVersion"));
    let path = "resourceVersionMatch";
    if !matching.is_empty() {
        if version.is_empty() {
            errors.push(FieldError::forbidden(
                path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !["Exact", "NotOlderThan"].contains(&matching) {
            let allowed = ["Exact", "NotOlderThan", ""].map(str::to_owned);
            errors.push(FieldError::not_supported(path, &matching.into(), &allowed));
        }
        if matching == "Exact" && version == "0" {
            errors.push(FieldError::forbidden(
                path,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if query.flag_if_given("sendInitialEvents").is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if !query.text("continue").is_empty() {
        // No list is ever given in parts, so no token was ever given out.
        return Err(ApiError::bad_request(
            "continue key is not valid: this server does not give lists in parts",
        ));
    }
    list_options_error(errors)
}

/// The refusal of wrong list or watch options, if any are wrong.
pub(super) fn list_options_error(errors: Vec<FieldError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&Qualified::new("meta.k8s.io", "ListOptions"), "", errors))
}

/// Reads are always of the present: an older exact version is gone, a future one has not come.
fn check_version(query: &Query, current: u64) -> Result<(), ApiError> {
    let asked = version(query.text("resourceVersion"))?;
    if asked > current {
        return Err(too_large(asked, current));
    }
    if query.text("resourceVersionMatch") == "Exact" && asked != current {
        return Err(ApiError::expired(format!(
            "The provided resource version {asked} is no longer available"
        )));
    }
    Ok(())
}

/// A version as sent; empty is 0, which is any.
pub(super) fn version(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// The client knows of a version that this server has not reached.
pub(super) fn too_large(asked: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut error = ApiError::new(504, "Timeout", message);
    let cause = Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    };
    error.details = Some(Box::new(Details { causes: vec![cause], retry_after: 1, ..Details::default() }));
    error
}
