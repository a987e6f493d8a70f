//! Requests that end: each has its whole answer within a limit, or fails in words.
//!
//! A GET that failed quickly is repeated here, twice at most. A write never is: what became of it is not known, and
//! whoever asked has to look first.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::Timestamp;
use kube::client::ConfigExt;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::config::Config;
use super::metrics::Requests;
use super::secret::Secret;

/// The longest that a read may take: a page of a list, at most.
pub(super) const READ: Duration = Duration::from_secs(30);
/// The longest that a write may take. Neutron tells its back ends before it answers; proxies in front of it give up
/// after a minute themselves, so nothing is answered later.
pub(super) const WRITE: Duration = Duration::from_secs(60);
/// The longest that a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection is kept for the next request: servers in front of OpenStack close theirs after five seconds,
/// and a write on a connection that is just being closed has no outcome.
const IDLE: Duration = Duration::from_secs(4);
/// The largest answer. A page of a list has less than one megabyte.
const LARGEST: usize = 64 << 20;
/// The pauses before a GET is repeated, each spread over half of itself.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(600)];
/// What failed after more than this is not repeated here: somebody waits.
const PATIENCE: Duration = Duration::from_secs(6);
/// The longest wish of a server that is followed.
const LONGEST_WISH: Duration = Duration::from_secs(300);

/// How we are known to a server.
const AGENT: &str = concat!("causeway/", env!("CARGO_PKG_VERSION"));

type Service = BoxCloneSyncService<http::Request<Full<Bytes>>, http::Response<Incoming>, legacy::Error>;

/// Connections to a cloud's servers.
pub(super) struct Http {
    service: Service,
    requests: Requests,
}

/// One request.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) uri: String,
    /// The longest that it may take.
    pub(super) limit: Duration,
    pub(super) token: Option<&'a Secret>,
    pub(super) revision: Option<u64>,
    pub(super) body: Option<serde_json::Value>,
}

/// An answer, whatever it says.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Http {
    pub(super) fn new(config: &Config, requests: Requests) -> anyhow::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        let https = trust(config)?.rustls_https_connector_with_connector(http).context("preparing TLS")?;
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(https);
        Ok(Self { service: BoxCloneSyncService::new(client), requests })
    }

    /// The answer, or why there is none.
    pub(super) async fn send(&self, request: &Request<'_>) -> Result<Answer, String> {
        let begun = Instant::now();
        for pause in PAUSES {
            let answer = self.send_once(request).await;
            let may_pass = answer.as_ref().map_or(true, Answer::may_pass);
            if !may_pass || request.method != Method::GET || begun.elapsed() > PATIENCE {
                return answer;
            }
            sleep(pause.mul_f64(fastrand::f64().mul_add(0.5, 0.5))).await;
        }
        self.send_once(request).await
    }

    async fn send_once(&self, request: &Request<'_>) -> Result<Answer, String> {
        let begun = Instant::now();
        let late = |_| Err(format!("no answer within {} s", request.limit.as_secs()));
        let answer = timeout(request.limit, self.exchange(request)).await.unwrap_or_else(late);
        self.requests.count(&request.method, answer.as_ref().ok().map(|answer| answer.status));
        let address = address(&request.uri);
        let (method, ms) = (&request.method, begun.elapsed().as_millis());
        match &answer {
            Ok(answer) => {
                let (status, id) = (answer.status.as_u16(), answer.request_id());
                tracing::debug!(%method, address, status, id, ms, "asked the cloud");
            }
            Err(error) => tracing::debug!(%method, address, error, ms, "asked the cloud in vain"),
        }
        answer.map_err(|error| format!("{method} {address}: {error}"))
    }

    async fn exchange(&self, request: &Request<'_>) -> Result<Answer, String> {
        let built = request.build().map_err(|error| error.to_string())?;
        let response = self.service.clone().oneshot(built).await.map_err(|error| chain(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, LARGEST).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return format!("an answer of more than {LARGEST} bytes");
            }
            format!("the answer was cut off: {}", chain(&*error))
        })?;
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }
}

impl Request<'_> {
    fn build(&self) -> http::Result<http::Request<Full<Bytes>>> {
        let mut request = http::Request::builder()
            .method(&self.method)
            .uri(&self.uri)
            .header(header::USER_AGENT, AGENT)
            .header(header::ACCEPT, "application/json");
        if let Some(token) = self.token {
            let mut value = HeaderValue::from_str(token.reveal())?;
            value.set_sensitive(true);
            request = request.header("X-Auth-Token", value);
        }
        if let Some(revision) = self.revision {
            request = request.header(header::IF_MATCH, format!("revision_number={revision}"));
        }
        let body = match &self.body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        request.body(Full::new(body))
    }
}

impl Answer {
    /// What the server calls the request in its log, as far as that is printable.
    pub(super) fn request_id(&self) -> Option<&str> {
        let value = self.headers.get("x-openstack-request-id")?.to_str().ok()?;
        (value.len() <= 64).then_some(value)
    }

    /// When the server wants to be asked again.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        retry_after(text, Timestamp::now())
    }

    /// Whether asking again at once may help.
    fn may_pass(&self) -> bool {
        let is_busy = self.status == StatusCode::TOO_MANY_REQUESTS || self.status.is_server_error();
        is_busy && self.retry_after().is_none()
    }
}

/// A wish in seconds or as a time of day, cut to five minutes: a wrong clock must not stop us for a day. One for now, or for
/// a time that has passed, is none: whoever follows it would ask without a pause.
pub(super) fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let wish = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_or(LONGEST_WISH, Duration::from_secs)
    } else {
        let then = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        Duration::try_from(then.duration_since(now)).ok()?
    };
    Some(wish.min(LONGEST_WISH)).filter(|wish| !wish.is_zero())
}

/// A part of an address in which nothing has a meaning.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// An address without its query, for people.
fn address(uri: &str) -> &str {
    uri.split_once('?').map_or(uri, |(address, _)| address)
}

fn chain(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    let mut words: Vec<String> = all.map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}

/// Whom to trust, in the terms of the client library for Kubernetes, which has all that is needed.
fn trust(config: &Config) -> anyhow::Result<kube::Config> {
    let mut trust = kube::Config::new(http::Uri::from_static("https://cloud.invalid"));
    if config.insecure {
        tracing::warn!("certificates of the cloud are not verified: whoever answers is sent our password");
        trust.accept_invalid_certs = true;
        trust.root_cert = Some(Vec::new());
        return Ok(trust);
    }
    if let Some(path) = &config.ca {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let all = all.with_context(|| format!("reading {}", path.display()))?;
        anyhow::ensure!(!all.is_empty(), "{} holds no certificate", path.display());
        trust.root_cert = Some(all.iter().map(|der| der.to_vec()).collect());
        // Read again now and then.
        trust.root_cert_file = Some(path.clone());
    } else if let Err(error) = trust.rustls_client_config() {
        // Without TLS all is well.
        tracing::warn!(%error, "the system trusts nobody; for https:// give a file of certificates (OS_CACERT)");
        trust.root_cert = Some(Vec::new());
    }
    Ok(trust)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers every request with the same beginning, and never ends it.
    async fn unfinished(beginning: &'static str) -> String {
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
        format!("http://{address}/v2.0/networks?a=b")
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_or_not_to_its_end_fails_in_time_and_once() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config::open();
        let http = Http::new(&config, Requests::default()).expect("a client");
        let part = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{";
        for (beginning, method, limit) in [
            ("", Method::GET, READ),
            (part, Method::GET, READ),
            ("", Method::POST, WRITE),
            (part, Method::PUT, WRITE),
        ] {
            let uri = unfinished(beginning).await;
            let address = address(&uri).to_owned();
            let request =
                Request { method: method.clone(), uri, limit, token: None, revision: None, body: None };
            let begun = Instant::now();
            let error = http.send(&request).await.expect_err("no answer");
            assert_eq!(begun.elapsed().as_secs(), limit.as_secs());
            assert_eq!(error, format!("{method} {address}: no answer within {} s", limit.as_secs()));
        }
    }

    const NOW: &str = "2026-11-17T12:00:00Z";

    fn wish(text: &str) -> Option<u64> {
        retry_after(text, NOW.parse().expect("a time")).map(|wish| wish.as_secs())
    }

    #[test]
    fn a_wish_is_in_seconds_or_a_time_of_day() {
        assert_eq!(wish("7"), Some(7));
        assert_eq!(wish(" 8 "), Some(8));
        assert_eq!(wish("Tue, 17 Nov 2026 12:01:30 GMT"), Some(90));
    }

    #[test]
    fn a_wish_is_not_followed_for_long_and_never_into_the_past() {
        assert_eq!(wish("86400"), Some(300));
        assert_eq!(wish("99999999999999999999999999"), Some(300));
        assert_eq!(wish("Wed, 18 Nov 2026 12:00:00 GMT"), Some(300));
        assert_eq!(wish("Mon, 16 Nov 2026 12:00:00 GMT"), None);
    }

    #[test]
    fn what_is_no_wish_is_none() {
        for text in ["", " 0 ", "soon", "-1", "1.5", "+3", "Tue, 99 Nov 2026 12:01:30 GMT"] {
            assert_eq!(wish(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_wish_is_bounded(text in ".{0,64}") {
            let wish = retry_after(&text, NOW.parse().expect("a time"));
            prop_assert!(wish.is_none_or(|wish| wish <= LONGEST_WISH));
        }

        #[test]
        fn nothing_in_an_encoded_text_has_a_meaning(text in ".{0,64}") {
            let uri = format!("http://a.example/{}?b={}", encoded(&text), encoded(&text));
            let uri: http::Uri = uri.parse().expect("an address");
            prop_assert_eq!(uri.path().matches('/').count(), 1);
            prop_assert_eq!(uri.query().unwrap_or_default().matches(['&', '=', '#']).count(), 1);
        }
    }
}
