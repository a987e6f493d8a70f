//! Connections to an API server on which every call ends.
//!
//! The client library's own connections wait for an acknowledgement before each small write (no TCP_NODELAY)
//! and for an answer without limit. Here a call that is not a watch or an exec has its whole answer within
//! [`READ`] or [`WRITE`], or fails; of a watch or an exec the first answer is bounded, the rest is its owner's
//! business. A peer that vanished silently is noticed by keep-alive probes.

use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tokio::time::timeout;
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

/// The longest that a read may take: a page of a list, at most.
pub const READ: Duration = Duration::from_secs(30);
/// The longest that a write may take.
pub const WRITE: Duration = Duration::from_secs(10);
/// The longest that a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// After so long in silence a peer is probed, and given up after as long again.
const QUIET: Duration = Duration::from_secs(20);

/// How we are known to a server, unless the configuration says otherwise.
const AGENT: &str = concat!("causeway/", env!("CARGO_PKG_VERSION"));

/// A client from its configuration.
pub fn connect(mut config: Config) -> kube::Result<Client> {
    if !config.headers.iter().any(|(name, _)| *name == header::USER_AGENT) {
        config.headers.push((header::USER_AGENT, header::HeaderValue::from_static(AGENT)));
    }
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    http.set_keepalive(Some(QUIET));
    http.set_keepalive_interval(Some(QUIET / 4));
    http.set_keepalive_retries(Some(4));
    http.set_tcp_user_timeout(Some(QUIET * 2));
    let https = config.rustls_https_connector_with_connector(http)?;
    let connections = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(https);
    let service = ServiceBuilder::new()
        .layer_fn(Bounded)
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(Client::new(service, config.default_namespace))
}

type Answer = UnsyncBoxBody<bytes::Bytes, BoxError>;

/// Answers within the limit or with an error.
#[derive(Clone)]
struct Bounded<S>(S);

impl<S, B> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Answer>, BoxError>>;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let streams = is_stream(&request);
        let limit = if request.method() == Method::GET { READ } else { WRITE };
        let answer = self.0.call(request);
        Box::pin(async move {
            let whole = async {
                let response = answer.await.map_err(Into::into)?;
                if streams && response.status().as_u16() < 400 {
                    return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
                }
                let (parts, body) = response.into_parts();
                let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
                let whole = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
                Ok(Response::from_parts(parts, whole))
            };
            let late = |_| format!("the API server has not answered within {} s", limit.as_secs());
            timeout(limit, whole).await.map_err(late)?
        })
    }
}

/// Whether the answer goes on for as long as its owner likes.
fn is_stream(request: &Request<Body>) -> bool {
    let watches =
        request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    watches || request.headers().contains_key(header::UPGRADE)
}
