//! Connections to an API server on which every call ends.
//!
//! The client library's own connections wait for an acknowledgement before each small write (no TCP_NODELAY)
//! and for an answer without limit. Here a call that is not a watch or an exec has its whole answer within
//! [`READ`] or [`WRITE`], or fails; of a watch, an exec or what [`Streams`] the first answer is bounded, the rest is
//! its owner's business. A peer that vanished silently is noticed by keep-alive probes.

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

/// Marks a request whose answer is taken in as it comes, by somebody who bounds each wait: it is never held as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Streams;

/// How we are known to a server, unless the configuration says otherwise.
const AGENT: &str = concat!("causeway/", env!("CARGO_PKG_VERSION"));

/// A client from its configuration.
pub fn connect(mut config: Config) -> kube::Result<Client> {
    if !config.headers.iter().any(|(name, _)| *name == header::USER_AGENT) {
        config.headers.push((header::USER_AGENT, header::HeaderValue::from_static(AGENT)));
    }
    let https = config.rustls_https_connector_with_connector(connector())?;
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

/// A client of a server that is reached otherwise than by a connection. Every call ends there too.
pub fn over<S, B>(transport: S, default_namespace: &str) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Client::new(Bounded(transport), default_namespace)
}

/// Makes connections.
fn connector() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    http.set_keepalive(Some(QUIET));
    http.set_keepalive_interval(Some(QUIET / 4));
    http.set_keepalive_retries(Some(4));
    http.set_tcp_user_timeout(Some(QUIET * 2));
    http
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
    let is_marked = request.extensions().get::<Streams>().is_some();
    watches || is_marked || request.headers().contains_key(header::UPGRADE)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{PostParams, WatchParams};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    /// A server that answers every request with the same beginning, and never ends it.
    async fn unfinished(beginning: &'static str) -> Api<ConfigMap> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(beginning.as_bytes()).await;
                open.push(stream);
            }
        });
        let config = Config::new(format!("http://{address}").parse().expect("an address"));
        Api::namespaced(connect(config).expect("a client"), "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_answered_or_not_to_its_end_fails_in_time() {
        let part = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
        for beginning in ["", part] {
            let maps = unfinished(beginning).await;
            let asked = Instant::now();
            maps.get("a").await.expect_err("no answer");
            assert_eq!(asked.elapsed().as_secs(), READ.as_secs());
            let asked = Instant::now();
            maps.create(&PostParams::default(), &ConfigMap::default()).await.expect_err("no answer");
            assert_eq!(asked.elapsed().as_secs(), WRITE.as_secs());
        }
        let (maps, asked) = (unfinished("").await, Instant::now());
        let watch = maps.watch(&WatchParams::default(), "0").await;
        assert!(watch.is_err(), "its beginning is bounded too");
        assert_eq!(asked.elapsed().as_secs(), READ.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_in_as_it_comes_is_given_on_before_its_end() {
        let part = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{";
        let client = unfinished(part).await.into_client();
        let request = Request::get("/").extension(Streams).body(Body::empty()).expect("a request");
        let mut body = client.send(request).await.expect("its beginning").into_body();
        let first = body.frame().await.expect("a frame").expect("no error");
        assert_eq!(first.into_data().ok().as_deref(), Some(&b"{"[..]));
    }

    #[tokio::test]
    async fn small_writes_do_not_wait_for_an_acknowledgement() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}", listener.local_addr().expect("bound")).parse().expect("an address");
        let stream = connector().call(uri).await.expect("connected");
        assert!(stream.inner().nodelay().expect("an option"));
    }
}
