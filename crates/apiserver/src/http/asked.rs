//! What a request is about and who sent it, for counters, faults and the audit.

use axum::body::Body;
use http::header::USER_AGENT;
use http::{Method, Request};

use super::path::{Place, Route};
use super::query::Query;
use super::{Client, Shared};
use crate::faults::Asked;
use crate::local::AsOf;

pub(super) fn describe(shared: &Shared, route: &Route, request: &Request<Body>) -> Asked {
    let query = Query::of(request.uri()).unwrap_or_default();
    let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let client = request.extensions().get::<Client>();
    let asked = Asked {
        user: client.map(|client| client.user.clone()).unwrap_or_default(),
        user_agent: agent.to_owned(),
        field_manager: query.text("fieldManager").to_owned(),
        dry_run: !query.text("dryRun").is_empty(),
        as_of: request.extensions().get::<AsOf>().map(|AsOf(version)| *version),
        verb: method(request.method()),
        ..Asked::default()
    };
    let path = request.uri().path();
    let place = match route {
        Route::Resource(place) => place,
        Route::Nothing => return asked,
        Route::Health => {
            let check = path.split('/').find(|part| !part.is_empty()).unwrap_or_default();
            return Asked { resource: format!("/{check}"), ..asked };
        }
        _ => return Asked { resource: path.to_owned(), ..asked },
    };
    if shared.read().registry.find(&place.group, &place.version, &place.plural).is_none() {
        return asked;
    }
    let part = place.subresource.clone().filter(|part| ["status", "scale", "exec"].contains(&part.as_str()));
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    Asked {
        verb: verb(request.method(), place, query.flag("watch")).unwrap_or(asked.verb.clone()),
        group: place.group.clone(),
        resource: place.plural.clone(),
        subresource: part.unwrap_or_default(),
        namespace: text(&place.namespace),
        name: text(&place.name),
        ..asked
    }
}

fn method(method: &Method) -> String {
    match *method {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => {
            method.as_str().to_lowercase()
        }
        _ => "other".to_owned(),
    }
}

fn verb(method: &Method, place: &Place, watching: bool) -> Option<String> {
    let verb = match (method, &place.name) {
        (&Method::GET, None) if watching => "watch",
        (&Method::GET, None) => "list",
        (&Method::GET, Some(_)) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, None) => "deletecollection",
        (&Method::DELETE, Some(_)) => "delete",
        _ => return None,
    };
    Some(verb.to_owned())
}
