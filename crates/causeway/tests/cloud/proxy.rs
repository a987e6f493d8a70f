//! A proxy that fails as it is told, in front of a server that does not.
//!
//! Every request is kept, then matched with the rules in the order in which they were given: the first whose turn it
//! is decides. Without one the request passes. The server sees its own address as the `Host`, as behind many a
//! load balancer: the links in its lists lead past the proxy.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::Api;
use super::tls::{self, Tls};

/// What becomes of a request.
#[derive(Debug, Clone)]
enum Fate {
    /// The server never sees it.
    Answered { status: StatusCode, headers: HeaderMap, body: Bytes },
    /// It passes, and the answer comes this much later.
    Delayed(Duration),
    /// The connection ends, and the server never sees it.
    CutBefore,
    /// The connection ends after the server has answered: whoever asked does not know whether it was done.
    CutAfter,
}

/// Whose fate it is.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    method: Option<Method>,
    prefix: String,
    skips: usize,
    times: usize,
    /// A state of chance, and how many of a thousand.
    chance: Option<(u64, u32)>,
    fate: Fate,
}

impl Rule {
    /// For requests with a method, to paths that begin like this; queries are part of a path.
    pub(crate) fn on(method: Method, prefix: &str) -> Self {
        Self { method: Some(method), ..Self::on_any(prefix) }
    }

    /// The same whatever the method. Until it is told otherwise the rule answers 503.
    pub(crate) fn on_any(prefix: &str) -> Self {
        let rule = Self {
            method: None,
            prefix: prefix.into(),
            skips: 0,
            times: usize::MAX,
            chance: None,
            fate: Fate::CutBefore,
        };
        rule.answer(503, "the proxy was told to")
    }

    /// Lets so many of them pass first.
    pub(crate) fn after(self, skips: usize) -> Self {
        Self { skips, ..self }
    }

    /// Ends after so many.
    pub(crate) fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// Meets so many of a thousand, always the same with one seed.
    pub(crate) fn at_random(self, seed: u64, of_thousand: u32) -> Self {
        Self { chance: Some((seed, of_thousand)), ..self }
    }

    /// Answers with this instead of asking the server.
    pub(crate) fn answer(self, status: u16, body: impl Into<Bytes>) -> Self {
        let status = StatusCode::from_u16(status).expect("a status");
        Self { fate: Fate::Answered { status, headers: HeaderMap::new(), body: body.into() }, ..self }
    }

    /// Adds a header to that answer.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        let Fate::Answered { headers, .. } = &mut self.fate else { panic!("a header of which answer?") };
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
        self
    }

    /// Answers what the server answers, but later.
    pub(crate) fn delay(self, time: Duration) -> Self {
        Self { fate: Fate::Delayed(time), ..self }
    }

    /// Ends the connection instead of asking the server.
    pub(crate) fn cut_before(self) -> Self {
        Self { fate: Fate::CutBefore, ..self }
    }

    /// Asks the server, and ends the connection instead of answering.
    pub(crate) fn cut_after(self) -> Self {
        Self { fate: Fate::CutAfter, ..self }
    }

    fn is_for(&self, method: &Method, path: &str) -> bool {
        self.method.as_ref().is_none_or(|only| only == method) && path.starts_with(&self.prefix)
    }

    /// Whether it is this rule's turn, for a request that it is for.
    fn takes_turn(&mut self) -> bool {
        if self.times == 0 {
            return false;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        if let Some((state, of_thousand)) = &mut self.chance
            && next_random(state) % 1000 >= u64::from(*of_thousand)
        {
            return false;
        }
        self.times -= 1;
        true
    }
}

/// SplitMix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// `Null`, if it was no JSON.
    pub(crate) body: Value,
    pub(crate) at: Instant,
    /// What the server said, if it was asked.
    pub(crate) server: Option<u16>,
    /// What was answered, if anything.
    pub(crate) answer: Option<u16>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    requests: VecDeque<Request>,
    /// How many requests were forgotten: their numbers go on.
    forgotten: usize,
}

/// What its tasks share.
struct Shared {
    /// The server's host and port.
    upstream: String,
    state: Mutex<State>,
    /// Whether nobody gets through.
    gone: watch::Sender<bool>,
}

/// It listens on loopback until it is dropped. It lives in the runtime that it was started in.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    tls: Option<Tls>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// In front of a server with such a URL; what follows its host and port does not matter.
    pub(crate) async fn start(upstream: &str) -> Self {
        Self::listen(upstream, None).await
    }

    /// The same with TLS, and an authority of its own.
    pub(crate) async fn start_with_tls(upstream: &str) -> Self {
        Self::listen(upstream, Some(tls::generate())).await
    }

    async fn listen(upstream: &str, tls: Option<Tls>) -> Self {
        let upstream: hyper::Uri = upstream.parse().expect("a URL");
        let upstream = upstream.authority().expect("a host and a port").to_string();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared { upstream, state: Mutex::default(), gone: watch::Sender::new(false) });
        let acceptor = tls.as_ref().map(|tls| tls.acceptor.clone());
        let task = tokio::spawn(serve(listener, acceptor, shared.clone()));
        Self { address, shared, tls, task }
    }

    /// Where it is: `http://127.0.0.1:4711`, or with `https`.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The authority that signed its certificate, as PEM.
    pub(crate) fn authority(&self) -> &str {
        &self.tls.as_ref().expect("it has TLS").pem
    }

    /// The server's API through it; `version` is `v2.0` or `v3`.
    pub(crate) fn api(&self, version: &str) -> Api {
        let api = Api::new(format!("{}/{version}", self.url()));
        self.tls.iter().fold(api, |api, tls| api.trusting(tls.client.clone()))
    }

    /// Adds a rule, behind those that are there.
    pub(crate) fn tell(&self, rule: Rule) {
        self.shared.state().rules.push(rule);
    }

    /// Takes all rules away.
    pub(crate) fn pass(&self) {
        self.shared.state().rules.clear();
    }

    /// From now on every connection is closed at once, also those that are open; or no longer.
    pub(crate) fn set_gone(&self, gone: bool) {
        self.shared.gone.send_replace(gone);
    }

    /// All that arrived, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.iter().cloned().collect()
    }

    /// How many arrived with a method, to paths that begin like this.
    pub(crate) fn count(&self, method: &Method, prefix: &str) -> usize {
        let state = self.shared.state();
        state.requests.iter().filter(|it| it.method == method && it.path.starts_with(prefix)).count()
    }

    /// Forgets what arrived.
    pub(crate) fn forget(&self) {
        let mut state = self.shared.state();
        state.forgotten += state.requests.len();
        state.requests.clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with it")
    }

    /// Keeps a request, and says its number and what becomes of it.
    fn take(&self, request: Request) -> (usize, Option<Fate>) {
        let mut state = self.state();
        let mut rules = state.rules.iter_mut().filter(|rule| rule.is_for(&request.method, &request.path));
        let fate = rules.find_map(|rule| rule.takes_turn().then(|| rule.fate.clone()));
        state.requests.push_back(request);
        (state.forgotten + state.requests.len() - 1, fate)
    }

    fn note(&self, number: usize, change: impl FnOnce(&mut Request)) {
        let mut state = self.state();
        let kept = number.checked_sub(state.forgotten);
        if let Some(request) = kept.and_then(|place| state.requests.get_mut(place)) {
            change(request);
        }
    }

    async fn handle(&self, request: hyper::Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let (number, fate) = self.take(Request {
            method: parts.method.clone(),
            path,
            headers: parts.headers.clone(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            at: Instant::now(),
            server: None,
            answer: None,
        });
        let answer = match &fate {
            Some(Fate::CutBefore) => return Err("cut before the server was asked".into()),
            Some(Fate::Answered { status, headers, body }) => {
                let mut answer = Response::new(Full::new(body.clone()));
                *answer.status_mut() = *status;
                *answer.headers_mut() = headers.clone();
                answer
            }
            None | Some(Fate::CutAfter | Fate::Delayed(_)) => {
                let answer = self.forward(hyper::Request::from_parts(parts, Full::new(body))).await?;
                self.note(number, |request| request.server = Some(answer.status().as_u16()));
                answer
            }
        };
        match fate {
            Some(Fate::CutAfter) => return Err("cut after the server had answered".into()),
            Some(Fate::Delayed(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
        self.note(number, |request| request.answer = Some(answer.status().as_u16()));
        Ok(answer)
    }

    async fn forward(&self, mut request: hyper::Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Cut> {
        request.headers_mut().remove(CONNECTION);
        request.headers_mut().remove(TRANSFER_ENCODING);
        request.headers_mut().insert(HOST, HeaderValue::from_str(&self.upstream)?);
        let stream = TcpStream::connect(&self.upstream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let exchange = async move {
            let (mut parts, body) = sender.send_request(request).await?.into_parts();
            parts.headers.remove(CONNECTION);
            parts.headers.remove(TRANSFER_ENCODING);
            Ok(Response::from_parts(parts, Full::new(body.collect().await?.to_bytes())))
        };
        tokio::join!(exchange, connection).0
    }
}

/// Why a connection ends without an answer.
type Cut = Box<dyn std::error::Error + Send + Sync>;

async fn serve(listener: TcpListener, acceptor: Option<tokio_rustls::TlsAcceptor>, shared: Arc<Shared>) {
    // They end with this task.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        while connections.try_join_next().is_some() {}
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        connections.spawn(async move {
            let mut gone = shared.gone.subscribe();
            let talk = async {
                match acceptor {
                    None => converse(stream, &shared).await,
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => converse(stream, &shared).await,
                        Err(_) => { /* whoever came does not trust us */ }
                    },
                }
            };
            tokio::select! {
                _ = gone.wait_for(|gone| *gone) => {}
                () = talk => {}
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, shared: &Shared) {
    let service = service_fn(|request| shared.handle(request));
    // An error is a connection that was cut, by either side.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
