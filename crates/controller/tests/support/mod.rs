//! An API server in this process, and clients of it that need no socket, so that paused time moves all of it.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod vpc;

use std::cell::RefCell;
use std::future::Future;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use causeway_apiserver::{Config, Fault, Match, Server, Switch};
use causeway_controller::clock::Clock;
use causeway_controller::election::Times;
use causeway_controller::events::Announcer;
use causeway_controller::health::Readiness;
use causeway_controller::metrics::Metrics;
use causeway_controller::room::House;
use kube::Client;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Where replicas have their Leases.
pub(crate) const LEASES: &str = "default";

/// A server with one namespace, `default`.
pub(crate) async fn server() -> Server {
    hear();
    let _ = rustls::crypto::ring::default_provider().install_default();
    Server::start(Config { seed: Some(1), ..Config::default() }).await.expect("an API server")
}

/// A client that speaks to the server without a socket.
pub(crate) fn client(server: &Server, user: &str) -> Client {
    let token = server.token().to_owned();
    let user = user.to_owned();
    let router = tower::ServiceBuilder::new()
        .map_request(move |mut request: http::Request<kube::client::Body>| {
            let bearer = format!("Bearer {token}").parse().expect("a header");
            request.headers_mut().insert(http::header::AUTHORIZATION, bearer);
            request.headers_mut().insert(http::header::USER_AGENT, user.parse().expect("a header"));
            request.map(axum::body::Body::new)
        })
        .service(server.router());
    Client::new(router, "default")
}

/// What the rooms of one replica share; its leases are in `default`.
pub(crate) fn house(client: &Client, identity: &str) -> House {
    House {
        client: client.clone(),
        identity: identity.into(),
        lease_namespace: Some(LEASES.into()),
        lease_times: Times::default(),
        clock: Clock::System,
        seed: 1,
        metrics: Arc::new(Metrics::default()),
        readiness: Readiness::default(),
        announcer: Announcer::new().0,
        stop: CancellationToken::new(),
    }
}

/// A fault for one client.
pub(crate) fn fault_of(user: &str, switch: Switch) -> Fault {
    Fault::new(switch).on(Match { user_agent: Some(user.into()), ..Match::default() })
}

/// Waits until something holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// What this thread logs, as text, while the guard lives.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

thread_local! {
    static HEARD: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// Has all that is logged go to whoever listens on its thread. Before anything is: what is logged for the first time just
/// when somebody begins to listen would be taken for something that nobody ever listens to.
fn hear() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let heard = || HEARD.with_borrow(|log| log.clone().unwrap_or_default());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(heard).finish();
        tracing::subscriber::set_global_default(subscriber).expect("nobody else does");
    });
}

/// Ends with the test.
pub(crate) struct Listening;

impl Drop for Listening {
    fn drop(&mut self) {
        HEARD.set(None);
    }
}

impl Log {
    /// Begins to listen.
    pub(crate) fn listen() -> (Self, Listening) {
        hear();
        let log = Self::default();
        HEARD.set(Some(log.clone()));
        (log, Listening)
    }

    /// The lines so far that contain a text.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        let bytes = self.0.lock().expect("no panic");
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
