//! Getting and listing.

use std::sync::Arc;

use axum::response::Response;
use http::HeaderMap;

use super::negotiate::Presentation;
use super::page::{Page, Token, Wanted};
use super::query::Query;
use super::{Call, respond};
use crate::cluster::Cluster;
use crate::selector::Selector;
use crate::status::{ApiError, Cause, Details, FieldError, Qualified};
use crate::store::{Lost, Object};

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
    let presentation = Presentation::of(headers, &call.query)?;
    let options = ListOptions::of(call)?;
    let (page, clock) = {
        let cluster = call.shared.read();
        (options.page(call, &cluster)?, cluster.clock.clone())
    };
    Ok(with_deprecation(call, respond::list(&call.resource, &page, presentation, &clock)))
}

/// What a list asks for.
pub(super) struct ListOptions {
    selector: Selector,
    limit: Option<usize>,
    token: Option<Token>,
    /// The version asked for, 0 for any; and whether it must be just that one.
    version: u64,
    exact: bool,
}

impl ListOptions {
    pub(super) fn of(call: &Call) -> Result<ListOptions, ApiError> {
        let query = &call.query;
        let selector =
            Selector::parse(query.text("labelSelector"), query.text("fieldSelector"), &call.resource)?;
        check_list_options(query)?;
        let limit = query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|n| *n > 0);
        let asked = query.text("resourceVersion");
        let token = match query.text("continue") {
            "" => None,
            text => Some(Token::parse(text)?),
        };
        if token.is_some() && !["", "0"].contains(&asked) {
            let why = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(why));
        }
        let version = version(asked)?;
        let exact = match (&token, query.text("resourceVersionMatch")) {
            (Some(_), _) | (None, "NotOlderThan") => false,
            (None, "Exact") => true,
            // A limit has always meant the very version asked for.
            (None, _) => limit.is_some() && version > 0,
        };
        // Who takes any version takes it from a cache, which gives all it has.
        let limit = limit.filter(|_| token.is_some() || asked != "0");
        Ok(ListOptions { selector, limit, token, version, exact })
    }

    /// The objects asked for.
    pub(super) fn page(&self, call: &Call, cluster: &Cluster) -> Result<Page, ApiError> {
        let namespace = call.place.namespace.as_deref();
        let shelf = &call.resource.shelf;
        let past = match &self.token {
            Some(token) => token.version,
            None => self.exact.then_some(self.version),
        };
        let (objects, current) = stale(call, cluster)
            .unwrap_or_else(|| (cluster.store.list(shelf, namespace), cluster.store.version()));
        let asked = past.unwrap_or(self.version);
        if asked > current {
            return Err(too_large(asked, current));
        }
        let (objects, version) = match past {
            None => (objects, current),
            Some(past) => {
                let objects =
                    cluster.store.list_at(shelf, namespace, past).map_err(|Lost| match &self.token {
                        Some(token) => token.expired(),
                        None => ApiError::expired("The resourceVersion for the provided list is too old."),
                    })?;
                (objects, past)
            }
        };
        let wanted =
            Wanted { namespace, selector: &self.selector, limit: self.limit, token: self.token.as_ref() };
        Ok(wanted.of(objects, version))
    }
}

/// What a list shows in place of the present, when that was switched on and is still known.
fn stale(call: &Call, cluster: &Cluster) -> Option<(Vec<Arc<Object>>, u64)> {
    let past = call.asked.as_of.or_else(|| call.shared.faults.stale(&call.asked));
    let past = past?.min(cluster.store.version());
    let objects = cluster.store.list_at(&call.resource.shelf, call.place.namespace.as_deref(), past);
    Some((objects.ok()?, past))
}

fn with_deprecation(call: &Call, response: Response) -> Response {
    let deprecation = call.resource.custom().and_then(|custom| custom.deprecation.as_ref());
    respond::warn(response, deprecation.map(std::slice::from_ref).unwrap_or_default())
}

fn check_list_options(query: &Query) -> Result<(), ApiError> {
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
        if !query.text("continue").is_empty() {
            errors.push(FieldError::forbidden(
                path,
                "resourceVersionMatch is forbidden when continue is provided",
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
    list_options_error(errors)
}

/// The refusal of wrong list or watch options, if any are wrong.
pub(super) fn list_options_error(errors: Vec<FieldError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&Qualified::new("meta.k8s.io", "ListOptions"), "", errors))
}

/// An object is always read as it is now: a future version has not come.
fn check_version(query: &Query, current: u64) -> Result<(), ApiError> {
    let asked = version(query.text("resourceVersion"))?;
    if asked > current { Err(too_large(asked, current)) } else { Ok(()) }
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
