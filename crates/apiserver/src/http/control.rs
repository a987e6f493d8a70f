//! `/faults` and `/audit`: what tests in other processes switch, with the kubeconfig they have anyway.
//! Nothing here is counted, nor ever frozen or refused by a fault.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Shared, respond};
use crate::faults::{Fault, Faults};
use crate::status::ApiError;

const BODY_LIMIT: usize = 1024 * 1024;

pub(super) fn is_control(path: &str) -> bool {
    matches!(path, "/faults" | "/audit")
}

pub(super) async fn answer(shared: &Arc<Shared>, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_LIMIT).collect().await.map(http_body_util::Collected::to_bytes);
    let result = match (body, head.uri.path()) {
        (Err(why), _) => Err(ApiError::bad_request(format!("the body could not be read: {why}"))),
        (Ok(body), "/faults") => faults(shared, &head.method, &body),
        (Ok(body), _) => audit(shared, &head.method, &body),
    };
    match result {
        Ok(value) => respond::value(200, &value),
        Err(error) => respond::error(&error),
    }
}

/// One fault or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<Fault>),
    One(Fault),
}

fn faults(shared: &Arc<Shared>, method: &Method, body: &[u8]) -> Result<Value, ApiError> {
    let faults = Faults::of(shared);
    let refused =
        |why: &dyn std::fmt::Display| ApiError::bad_request(format!("no fault was switched: {why}"));
    match *method {
        Method::GET => {}
        Method::DELETE => faults.clear(),
        Method::PUT => {
            let wanted = parse(body).map_err(|why| refused(&why))?;
            faults.set(wanted).map_err(|why| refused(&why))?;
        }
        Method::POST => {
            let more = parse(body).map_err(|why| refused(&why))?;
            faults.add(more).map_err(|why| refused(&why))?;
        }
        _ => return Err(not_allowed()),
    }
    Ok(json!(faults.all()))
}

fn parse(body: &[u8]) -> Result<Vec<Fault>, serde_json::Error> {
    match serde_json::from_slice(body) {
        Ok(OneOrMany::Many(faults)) => Ok(faults),
        Ok(OneOrMany::One(fault)) => Ok(vec![fault]),
        // An untagged enum cannot say what is wrong; its parts can.
        Err(_) if body.trim_ascii_start().starts_with(b"[") => serde_json::from_slice::<Vec<Fault>>(body),
        Err(_) => serde_json::from_slice::<Fault>(body).map(|fault| vec![fault]),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditTo {
    file: PathBuf,
}

fn audit(shared: &Shared, method: &Method, body: &[u8]) -> Result<Value, ApiError> {
    let refused = |why: &dyn std::fmt::Display| ApiError::bad_request(format!("no audit was begun: {why}"));
    match *method {
        Method::GET => {}
        Method::DELETE => shared.audit.end(),
        Method::PUT | Method::POST => {
            let AuditTo { file } = serde_json::from_slice(body).map_err(|why| refused(&why))?;
            shared.audit.begin(&file).map_err(|why| refused(&format!("{}: {why}", file.display())))?;
        }
        _ => return Err(not_allowed()),
    }
    Ok(json!({ "file": shared.audit.path() }))
}

fn not_allowed() -> ApiError {
    ApiError::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
}
