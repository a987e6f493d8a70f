//! The listener: TLS, bearer tokens, and the tasks that serve connections.
//!
//! One task accepts; it owns a task per connection. Stopping cancels all of them and waits.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use http::Request;
use http::header::AUTHORIZATION;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::counters::{Counters, RequestCount};
use crate::exec::Exec;
use crate::faults::{Fault, Faults, Switches};
use crate::http::{Client, Shared, router};
use crate::status::ApiError;
use crate::{Error, ids, tls};

/// How long connections may take to end when the server stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// How long a client may take to begin: who only connects must not be waited for.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What to serve, and where.
pub struct Config {
    /// Names the cluster and the context in the kubeconfig.
    pub name: String,
    /// A loopback address; port 0 takes any free one.
    pub listen: SocketAddr,
    /// How many changes are remembered for watches that begin in the past.
    pub history: usize,
    /// Makes uids and generated names repeatable.
    pub seed: Option<u64>,
    /// The wall-clock time at start; the present when absent.
    pub epoch: Option<SystemTime>,
    /// Runs commands in pods.
    pub exec: Option<Arc<dyn Exec>>,
    /// Faults that are on from the first request.
    pub faults: Vec<Fault>,
    /// A file that gets one line of JSON per request that changes something or runs a command.
    pub audit: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: "cluster".to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            history: 10_000,
            seed: None,
            epoch: None,
            exec: None,
            faults: Vec::new(),
            audit: None,
        }
    }
}

/// A running server. Dropping it stops it and ends its watches; [`Server::shutdown`] also waits.
pub struct Server {
    name: String,
    address: SocketAddr,
    token: String,
    authority: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens and serves.
    ///
    /// # Errors
    /// When the address is not loopback or cannot be listened on, or no certificate can be made.
    pub async fn start(config: Config) -> Result<Server, Error> {
        if !config.listen.ip().is_loopback() {
            return Err(Error::NotLoopback(config.listen));
        }
        let tls = tls::generate(&config.name)?;
        let listener =
            TcpListener::bind(config.listen).await.map_err(|why| Error::Listen(config.listen, why))?;
        let address = listener.local_addr().map_err(|why| Error::Listen(config.listen, why))?;
        let mut cluster = Cluster::new(config.history, config.seed, config.epoch);
        cluster.found_own_service(address.port());
        let faults = Switches::new(config.faults, cluster.store.version(), config.seed)?;
        let audit = Audit::default();
        if let Some(path) = config.audit {
            audit.begin(&path).map_err(|why| Error::Audit(path, why))?;
        }
        let shared = Arc::new(Shared {
            cluster: RwLock::new(cluster),
            counters: Counters::default(),
            faults,
            audit,
            exec: config.exec,
            stopping: CancellationToken::new(),
            sessions: TaskTracker::new(),
        });
        let token = ids::token();
        let door = Door { token: token.clone(), router: router(shared.clone()) };
        let accepting =
            tokio::spawn(accept(listener, TlsAcceptor::from(tls.server), Arc::new(door), shared.clone()));
        Ok(Server { name: config.name, address, token, authority: tls.authority, shared, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://` and the address.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The bearer token that lets clients in.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The certificate authority's certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.authority
    }

    /// A kubeconfig with everything a client needs, YAML.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_with(&self.token)
    }

    /// The same for a client that faults and the audit shall know apart: its token begins with its
    /// name and a dot. There are no rights to differ in.
    pub fn kubeconfig_as(&self, user: &str) -> String {
        self.kubeconfig_with(&format!("{user}.{}", self.token))
    }

    fn kubeconfig_with(&self, token: &str) -> String {
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.authority);
        let (name, url) = (&self.name, self.url());
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: {name:?}\n  cluster:\n    server: {url}\n    certificate-authority-data: {authority}\n\
             users:\n\
             - name: {name:?}\n  user:\n    token: {token}\n\
             contexts:\n\
             - name: {name:?}\n  context:\n    cluster: {name:?}\n    user: {name:?}\n    namespace: default\n\
             current-context: {name:?}\n"
        )
    }

    /// Writes the kubeconfig so that its owner alone can read it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_kubeconfig(&self, path: &Path) -> std::io::Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // An older file keeps its mode when it is opened.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(self.kubeconfig().as_bytes())
    }

    /// The service itself, in process: no TLS, no token. It cannot upgrade, so no exec.
    pub fn router(&self) -> Router {
        router(self.shared.clone())
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> Faults {
        Faults::of(&self.shared)
    }

    /// What was asked of this server so far.
    pub fn requests(&self) -> Vec<RequestCount> {
        self.shared.counters.all()
    }

    /// Stops: watches and commands end, connections close.
    pub async fn shutdown(mut self) {
        self.shared.stopping.cancel();
        self.shared.sessions.close();
        // A panic in the accepting task was reported when it happened.
        let _ = (&mut self.accepting).await;
        let _ = tokio::time::timeout(FAREWELL, self.shared.sessions.wait()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}

/// Lets in whoever has the token, and notes by what name.
struct Door {
    token: String,
    router: Router,
}

/// The name of a client whose token says none.
const ANY_USER: &str = "admin";

impl Door {
    /// The user of a request, if it may come in.
    fn user(&self, request: &Request<Incoming>) -> Option<String> {
        let given = request.headers().get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        if given == self.token {
            return Some(ANY_USER.to_owned());
        }
        let (user, token) = given.rsplit_once('.')?;
        (token == self.token).then(|| user.to_owned())
    }

    async fn enter(&self, mut request: Request<Incoming>) -> Response {
        let public = matches!(request.uri().path(), "/healthz" | "/livez" | "/readyz" | "/version");
        match self.user(&request) {
            Some(user) => drop(request.extensions_mut().insert(Client { user })),
            None if public => {}
            None => return crate::http::refusal(&ApiError::new(401, "Unauthorized", "Unauthorized")),
        }
        match self.router.clone().oneshot(request.map(Body::new)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, door: Arc<Door>, shared: Arc<Shared>) {
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(why) => {
                    // Out of descriptors, most likely: somebody has to end first.
                    tracing::warn!(error = %why, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = shared.stopping.cancelled() => break,
        };
        connections.spawn(connection(stream, tls.clone(), door.clone(), shared.stopping.clone()));
    }
    connections.close();
    let _ = tokio::time::timeout(FAREWELL, connections.wait()).await;
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, door: Arc<Door>, stopping: CancellationToken) {
    // Small messages matter more than full packets here; without it a watch event waits.
    let _ = stream.set_nodelay(true);
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(HANDSHAKE, tls.accept(stream)) => accepted,
        () = stopping.cancelled() => return,
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(why)) => return tracing::debug!(error = %why, "TLS handshake failed"),
        Err(late) => return tracing::debug!(error = %late, "TLS handshake took too long"),
    };
    let service = service_fn(move |request| {
        let door = door.clone();
        async move { Ok::<_, std::convert::Infallible>(door.enter(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    // Every watch is a stream: informers of a busy client hold many at once.
    builder.http2().max_concurrent_streams(10_000);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let result = tokio::select! {
        result = serving.as_mut() => result,
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            match tokio::time::timeout(FAREWELL, serving).await {
                Ok(result) => result,
                Err(_) => return,
            }
        }
    };
    if let Err(why) = result {
        tracing::debug!(error = %why, "connection ended");
    }
}
