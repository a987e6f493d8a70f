//! A client that knows nothing but HTTP and JSON, for what a test wants to see or to have.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Keystone, User};

/// An API below a URL such as `http://127.0.0.1:9696/v2.0`. Every request has a connection of its own, so this can be
/// shared among tests, whose runtimes differ.
#[derive(Clone)]
pub(crate) struct Api {
    base: String,
    token: Option<String>,
    /// Who gets a token of Keystone's for every request: they may end while something else is waited for.
    login: Option<(&'static Keystone, User)>,
    trusts: Option<Arc<ClientConfig>>,
}

/// What was answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// A string, if it was no JSON.
    pub(crate) body: Value,
}

impl Api {
    pub(crate) fn new(base: impl Into<String>) -> Self {
        Self { base: base.into(), token: None, login: None, trusts: None }
    }

    /// The same with a token of Keystone's.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.into()), ..self.clone() }
    }

    /// The same as somebody who logs in for every request.
    pub(crate) fn logging_in(&self, keystone: &'static Keystone, user: User) -> Self {
        Self { login: Some((keystone, user)), ..self.clone() }
    }

    /// The same for an `https` URL.
    pub(crate) fn trusting(&self, config: Arc<ClientConfig>) -> Self {
        Self { trusts: Some(config), ..self.clone() }
    }

    /// Asks, and says why there was no answer.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<Value>,
    ) -> Result<Answer, String> {
        let uri: Uri = format!("{}/{path}", self.base).parse().map_err(|error| format!("{path}: {error}"))?;
        let authority = uri.authority().ok_or("a URL without a host")?.as_str().to_owned();
        let target = uri.path_and_query().map_or("/", |path| path.as_str());
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|error| format!("{target}: {error}"))?;
        let said = request.headers_mut();
        said.insert(HOST, HeaderValue::from_str(&authority).expect("a header"));
        said.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            said.insert("x-auth-token", HeaderValue::from_str(token).expect("a header"));
        }
        for (name, value) in headers {
            let name = HeaderName::try_from(*name).expect("a header's name");
            said.insert(name, HeaderValue::from_str(value).expect("a header"));
        }
        let stream = TcpStream::connect(&authority).await.map_err(|error| error.to_string())?;
        let Some(config) = &self.trusts else { return send(stream, request).await };
        let name = ServerName::try_from(uri.host().unwrap_or_default().to_owned()).expect("a host's name");
        let stream = TlsConnector::from(config.clone()).connect(name, stream).await;
        send(stream.map_err(|error| error.to_string())?, request).await
    }

    async fn answer(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let asked = match self.login {
            None => self.ask(method.clone(), path, &[], body).await,
            Some((keystone, user)) => {
                let token = Box::pin(keystone.token(user)).await;
                self.ask(method.clone(), path, &[("x-auth-token", &token)], body).await
            }
        };
        asked.unwrap_or_else(|error| panic!("{method} {}/{path}: {error}", self.base))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.answer(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.answer(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.answer(Method::PUT, path, Some(body)).await
    }

    /// A change of what is still at a revision.
    pub(crate) async fn put_at(&self, path: &str, revision: u64, body: Value) -> Answer {
        let condition = format!("revision_number={revision}");
        let asked = self.ask(Method::PUT, path, &[("if-match", &condition)], Some(body)).await;
        asked.unwrap_or_else(|error| panic!("PUT {path}: {error}"))
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.answer(Method::DELETE, path, None).await
    }

    /// All that a query such as `networks` or `subnets?network_id=…` finds.
    pub(crate) async fn list(&self, query: &str) -> Vec<Value> {
        let kind = query.split('?').next().unwrap_or_default();
        let answer = self.get(query).await;
        let Value::Array(found) = answer.clone().ok()[kind].take() else { panic!("no {kind} in {answer:?}") };
        found
    }

    /// Creates a `network`, `subnet`, `port`, …, and gives it as it was answered.
    pub(crate) async fn create(&self, kind: &str, attributes: Value) -> Value {
        self.post(&format!("{kind}s"), json!({ kind: attributes })).await.ok()[kind].take()
    }
}

impl Answer {
    /// Asserts that it succeeded, and gives its body.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    /// Asserts that Neutron refused with a status and an error of a type; gives its message.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, kind: &str) -> String {
        let error = &self.body["NeutronError"];
        assert_eq!((self.status, error["type"].as_str()), (status, Some(kind)), "{self:?}");
        error["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The token that Keystone's answer carries.
    #[track_caller]
    pub(crate) fn token(&self) -> String {
        self.header("x-subject-token").unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

async fn send(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    // Without the sender the connection ends too.
    let exchange = async move {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        Ok((parts, body.collect().await?.to_bytes()))
    };
    let (answered, _): (Result<_, hyper::Error>, _) = tokio::join!(exchange, connection);
    let (parts, body) = answered.map_err(|error| error.to_string())?;
    let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
}
