//! What a `TrafficRouter` says. It may say all that Istio's `VirtualService` can; what data planes cannot be told is
//! refused, because the rest alone would be another rule.

use causeway_core::rules::Refusal;
use causeway_core::rules::rule::{Cluster, Destination, HttpRoute, RequestMatch, Router, StringMatch};
use serde_json::json;

use super::super::field::{Field, Fields};

pub(super) fn router(spec: &Field<'_>) -> Result<Router, Refusal> {
    let spec = spec.fields(&["hosts", "http", "gateways", "exportTo"])?;
    for_all_processes(&spec)?;
    // Rules reach the subscribers of their own namespace.
    spec.only("exportTo", &[json!(["*"]), json!(["."])])?;
    Ok(Router {
        hosts: spec.list("hosts", |host| Ok(host.some_text()?.to_owned()))?,
        http: spec.list("http", http_route)?,
    })
}

/// Istio's word for every process beside which no gateway stands, and its default.
fn for_all_processes(fields: &Fields<'_>) -> Result<(), Refusal> {
    fields.only("gateways", &[json!(["mesh"])])
}

/// A name is for people: a route does the same without it.
fn http_route(route: &Field<'_>) -> Result<HttpRoute, Refusal> {
    let route = route.fields(&["name", "match", "route"])?;
    Ok(HttpRoute {
        matches: route.list("match", request_match)?,
        destinations: route.list("route", destination)?,
    })
}

fn request_match(request: &Field<'_>) -> Result<RequestMatch, Refusal> {
    let request = request.fields(&["name", "uri", "headers", "queryParams", "gateways", "ignoreUriCase"])?;
    for_all_processes(&request)?;
    request.only("ignoreUriCase", &[json!(false)])?;
    let named = |name| request.given(name, |field| field.named(string_match));
    Ok(RequestMatch {
        uri: request.given("uri", string_match)?,
        headers: named("headers")?.unwrap_or_default(),
        query_params: named("queryParams")?.unwrap_or_default(),
    })
}

fn string_match(field: &Field<'_>) -> Result<StringMatch, Refusal> {
    let fields = field.fields(&["exact", "prefix", "regex"])?;
    let text = |field: &Field<'_>| Ok(field.text()?.to_owned());
    // Empty, these would match everything, which is easier said by leaving them out.
    let some_text = |field: &Field<'_>| Ok(field.some_text()?.to_owned());
    match (
        fields.given("exact", text)?,
        fields.given("prefix", some_text)?,
        fields.given("regex", some_text)?,
    ) {
        (Some(exact), None, None) => Ok(StringMatch::Exact(exact)),
        (None, Some(prefix), None) => Ok(StringMatch::Prefix(prefix)),
        (None, None, Some(regex)) => Ok(StringMatch::Regex(regex)),
        _ => Err(field.refuse("it needs exactly one of exact, prefix and regex")),
    }
}

fn destination(item: &Field<'_>) -> Result<Destination, Refusal> {
    let item = item.fields(&["destination", "weight"])?;
    let to = item.required("destination")?.fields(&["host", "subset", "fallback"])?;
    Ok(Destination {
        to: cluster(&to)?,
        fallback: to.given("fallback", |fallback| cluster(&fallback.fields(&["host", "subset"])?))?,
        weight: item.given("weight", |weight| weight.integer(0, u32::MAX))?,
    })
}

fn cluster(fields: &Fields<'_>) -> Result<Cluster, Refusal> {
    let host = fields.required("host")?;
    host.some_text()?;
    Ok(Cluster { host: name(&host)?, subset: fields.given("subset", name)?.unwrap_or_default() })
}

/// Data planes are told host and subset as one text, with bars between them.
fn name(field: &Field<'_>) -> Result<String, Refusal> {
    let text = field.text()?;
    if text.contains('|') { Err(field.refuse(format!("`{text}` has a bar in it"))) } else { Ok(text.into()) }
}
