//! A whole list in one answer of the protobuf form, from what the API server has in memory.
//!
//! A real server writes it in a fraction of the time that a streaming list takes, in which every object is an event in JSON;
//! one from 1.31 on asks no etcd for it, and yet it is as new as the store. Where a server has no such list, everything is
//! listed as without this.

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Collected, Limited};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::Status;
use prost::DecodeError;
use tokio::time::timeout;

use super::STALLED;
use super::protobuf::{Reader, Refusal, Unreadable};
use crate::client::Streams;

/// Only this is taken. A server that has nothing else says so in a few bytes, instead of sending all as JSON.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// A refusal is a sentence.
const REFUSAL: usize = 64 << 10;

/// An object from its protobuf form.
pub type Decode<K> = fn(&[u8]) -> Result<K, DecodeError>;

/// Why there is no list.
pub(super) enum Failure {
    /// This server has none.
    Absent(String),
    /// The server has one that cannot be read.
    Unreadable(Unreadable),
    /// The server is not there yet, or no longer.
    NotNow(String),
    /// It was not complete.
    Cut(&'static str),
    /// It has nothing to do with this form.
    Error(kube::Error),
}

/// Asks for all objects as they are now: one of an older version could bring back what is gone.
pub(super) fn request(path: &str, params: &WatchParams) -> kube::Result<Request<Vec<u8>>> {
    let params = ListParams {
        label_selector: params.label_selector.clone(),
        field_selector: params.field_selector.clone(),
        ..ListParams::default()
    };
    let request = kube::core::Request::new(path).list(&params);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, header::HeaderValue::from_static(PROTOBUF));
    // To compress so much takes a server longer than to send it.
    headers.insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
    request.extensions_mut().insert(Streams);
    Ok(request)
}

/// Reads a list: each object is given on as soon as it is here. Returns the list's version.
pub(super) async fn read(
    client: &Client,
    request: Request<Vec<u8>>,
    mut reader: Reader,
    object: &mut (dyn FnMut(&[u8]) -> Result<(), DecodeError> + Send),
) -> Result<String, Failure> {
    // Silence before the first word says nothing about this form.
    let silent = |_| Failure::Error(kube::Error::Service("the API server does not answer".into()));
    let answer = timeout(STALLED, client.send(request.map(Body::from))).await.map_err(silent)?;
    let answer = answer.map_err(Failure::Error)?;
    if !answer.status().is_success() {
        return Err(timeout(STALLED, refusal(answer)).await.map_err(silent)?);
    }
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with(PROTOBUF)) {
        return Err(Failure::Absent(format!("the answer is {}", kind.unwrap_or("anything"))));
    }
    let stalls = |_| Failure::Cut("the list stalled");
    let mut body = answer.into_body();
    while let Some(frame) = timeout(STALLED, body.frame()).await.map_err(stalls)? {
        // It is this list that does not arrive, whatever the server says to other requests.
        if let Ok(data) = frame.map_err(|_| Failure::Cut("the list broke off"))?.into_data() {
            reader.feed(&data, object).map_err(Failure::Unreadable)?;
        }
    }
    reader.end().map_err(|why| match why {
        Unreadable::Incomplete => Failure::Cut("the list ended in the middle"),
        why => Failure::Unreadable(why),
    })
}

/// What becomes of a list that is refused.
async fn refusal(answer: Response<Body>) -> Failure {
    let code = answer.status();
    let body = Limited::new(answer.into_body(), REFUSAL).collect().await;
    let status = status(code, &body.map(Collected::to_bytes).unwrap_or_default());
    match code.as_u16() {
        400 | 406 | 415 | 422 => Failure::Absent(status.message),
        // The server has forgotten that version, or has not heard of it yet.
        410 | 504 => Failure::NotNow(status.message),
        _ => Failure::Error(kube::Error::Api(status.boxed())),
    }
}

/// The server's own words, in whichever form they are.
fn status(code: StatusCode, body: &Bytes) -> Status {
    let said = match Refusal::read(body) {
        Some(Refusal { message, reason }) => Status::failure(&message, &reason),
        None => serde_json::from_slice(body)
            .unwrap_or_else(|_| Status::failure(String::from_utf8_lossy(body).trim(), "Unknown")),
    };
    said.with_code(code.as_u16())
}
