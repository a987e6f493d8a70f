//! Where data planes connect: plain, and with TLS where there are certificates.
//!
//! A connection is a task, and so is each of its streams, and each can be ended by itself: a client that takes nothing
//! notices nothing else.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::Context as _;
use causeway_core::rules::wire::DESCRIPTORS;
use causeway_core::rules::wire::transport::v1::SubscribeRequest;
use futures::FutureExt;
use futures::future::{AbortHandle, Abortable, BoxFuture, Either};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codec::BufferSettings;
use tonic::service::Routes;
use tonic::{Status, Streaming};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tonic_prost::ProstDecoder;
use tonic_reflection::server as reflection;
use tower::Service;

use super::Rules;
use super::body::Outgoing;
use super::connection::{Begun, Streams};
use super::mailbox::{Connection, Farewell};
use super::stream::Subscriber;
use super::tls;

/// With TLS, and where.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Where data planes connect.
    pub listen: SocketAddr,
    /// The certificate and those above it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Whose certificates clients must have; without it they need none.
    pub client_ca: Option<PathBuf>,
}

/// The service.
const SERVICE: &str = "io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService";
/// Its only method.
const SUBSCRIBE: &str = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/SubscribeConfig";
/// How a client says that it compresses.
const ENCODING: &str = "grpc-encoding";
/// Most requests are not larger; a stream that is idle holds a buffer of this size.
const REQUEST: usize = 256;
/// What a client may send before it is read.
const WINDOW: u32 = 64 * 1024;
/// The same for all streams of a connection: one that is not read must not silence the others. How many small frames may
/// wait unread goes by this too, and answers come in bursts.
const CONNECTION_WINDOW: u32 = STREAMS_PER_CONNECTION * WINDOW;
/// The largest request that is read.
const LARGEST_REQUEST: usize = 64 * 1024;
/// Streams of one connection.
const STREAMS_PER_CONNECTION: u32 = 64;
/// A connection that is silent is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(30);
/// And has so long to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection must be understood within this.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// What waits to be written to one connection.
const SEND_BUFFER: usize = 64 * 1024;
/// Connections beyond the streams that there may be.
pub const LATE: usize = 512;
/// How soon a failure to accept is said again.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
/// What clients that were told to go have to do so.
const FAREWELL: Duration = Duration::from_secs(1);

/// Accepts data planes until the process stops, then lets them go a few at a time.
pub(super) async fn run(room: Arc<Rules>) -> anyhow::Result<()> {
    let stop = room.house.stop.clone();
    // Nothing is served before everything was seen once: a rule that is not known yet is not a rule that is gone.
    let ready = room.house.readiness.clone();
    if stop.run_until_cancelled(ready.until_ready("rules/")).await.is_none() {
        return Ok(());
    }
    let (reporter, connections) = (HealthReporter::new(), TaskTracker::new());
    reporter.set_service_status("", ServingStatus::Serving).await;
    reporter.set_service_status(SERVICE, ServingStatus::Serving).await;
    let others = others(reporter.clone())?;
    let door = |tls| {
        let (room, others, connections) = (room.clone(), others.clone(), connections.clone());
        Door { room, others, connections, tls }
    };
    let mut doors = vec![door(None).open(room.options.listen).await?];
    if let Some(tls) = &room.options.tls {
        doors.push(door(Some(tls::Reloading::new(tls)?)).open(tls.listen).await?);
    }
    let (addresses, doors): (Vec<_>, Vec<_>) = doors.into_iter().unzip();
    room.bound.send_replace(addresses);
    let watching = watch_stuck(room.clone());
    let accepting = futures::future::try_join_all(doors);
    tokio::select! {
        () = stop.cancelled() => {}
        ended = accepting => { ended?; }
        () = watching => {}
    }
    reporter.set_service_status("", ServingStatus::NotServing).await;
    reporter.set_service_status(SERVICE, ServingStatus::NotServing).await;
    drain(&room).await;
    connections.close();
    if timeout(FAREWELL, connections.wait()).await.is_err() {
        room.hub.streams().iter().for_each(|stream| stream.connection.over.abort());
    }
    Ok(())
}

/// Ends all streams, spread over a few seconds: whoever is let go comes back to another replica at once.
async fn drain(room: &Rules) {
    let streams = room.hub.streams();
    let pause = room.options.drain / u32::try_from(streams.len().max(1)).unwrap_or(u32::MAX);
    let start = Instant::now();
    for (at, stream) in (0u32..).zip(&streams) {
        // Pauses shorter than a timer's are taken together.
        let due = start + pause * at;
        if due > Instant::now() + Duration::from_millis(5) {
            tokio::time::sleep_until(due).await;
        }
        stream.close(Farewell::Stopping);
    }
}

/// Ends streams whose clients take nothing, or never ask for anything.
async fn watch_stuck(room: Arc<Rules>) {
    let (stuck_after, asks_within) = (room.options.stuck_after, room.options.asks_within);
    let shorter = stuck_after.min(asks_within);
    loop {
        sleep((shorter / 4).clamp(Duration::from_millis(10), Duration::from_secs(5))).await;
        for stream in room.hub.streams() {
            if stream.waiting().is_some_and(|since| since.elapsed() >= stuck_after) {
                tracing::info!(client = stream.client(), "it takes nothing: disconnecting it");
                room.metrics.count_stuck();
                stream.cut();
            } else if stream.silent().is_some_and(|since| since.elapsed() >= asks_within) {
                tracing::debug!(client = stream.client(), "it asks for nothing: ending its stream");
                stream.close(Farewell::Silent);
            }
        }
    }
}

/// A port.
struct Door {
    room: Arc<Rules>,
    others: Routes,
    connections: TaskTracker,
    tls: Option<tls::Reloading>,
}

impl Door {
    /// Takes the port at once, so that a mistake is known at once.
    async fn open(
        self,
        listen: SocketAddr,
    ) -> anyhow::Result<(SocketAddr, BoxFuture<'static, anyhow::Result<()>>)> {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
        let address = listener.local_addr()?;
        tracing::info!(%address, tls = self.tls.is_some(), "data planes may connect");
        Ok((address, Box::pin(self.accept(listener))))
    }

    async fn accept(self, listener: TcpListener) -> anyhow::Result<()> {
        let mut complained: Option<Instant> = None;
        loop {
            let (socket, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // There are no more descriptors, or the client has gone already.
                    if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                        complained = Some(Instant::now());
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let _ = socket.set_nodelay(true);
            // Those who come a little late are told so in words.
            if self.connections.len() >= self.room.options.most_streams + LATE {
                tracing::debug!(%address, "there are as many connections as there may be");
                continue;
            }
            let (room, others, tls) = (self.room.clone(), self.others.clone(), self.tls.clone());
            match tls {
                None => self.connections.spawn(async move {
                    if let Ok(Ok(socket)) = timeout(HANDSHAKE, Begun::new(socket)).await {
                        converse(room, others, socket, address).await;
                    }
                }),
                Some(tls) => self.connections.spawn(async move {
                    let begun = async { Begun::new(tls.accept(socket).await?).await };
                    match timeout(HANDSHAKE, begun).await {
                        Ok(Ok(socket)) => converse(room, others, socket, address).await,
                        Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS"),
                        Err(_) => tracing::debug!(%address, "no TLS in time"),
                    }
                }),
            };
        }
    }
}

/// Serves one connection until either side ends it.
fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    room: Arc<Rules>,
    others: Routes,
    socket: S,
    address: SocketAddr,
) -> impl Future<Output = ()> {
    let streams = Streams::default();
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Some(PING_EVERY))
        .keep_alive_timeout(PING_TIMEOUT)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(16 * 1024);
    let (over, ending) = AbortHandle::new_pair();
    let connection = Arc::new(Connection { over, streams: AtomicUsize::new(0) });
    let front = Front { transport: Transport { room, address, streams, connection }, others };
    let connection = builder.serve_connection(TokioIo::new(socket), front);
    Abortable::new(connection, ending).map(move |ended| {
        if let Ok(Err(error)) = ended {
            tracing::debug!(%address, %error, "a connection ended");
        }
    })
}

/// What is served beside the rules: which services there are, and whether they serve.
fn others(reporter: HealthReporter) -> anyhow::Result<Routes> {
    let reflection = || {
        let builder = reflection::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
        builder.register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let health = HealthServer::new(HealthService::from_health_reporter(reporter));
    // Many tools ask in the older way only.
    let routes = Routes::new(health).add_service(reflection().build_v1()?);
    Ok(routes.add_service(reflection().build_v1alpha()?).prepare())
}

/// What one connection is served by. The way to the rules is short, since it is everybody's.
struct Front {
    transport: Transport,
    others: Routes,
}

type Answered = Result<Response<Outgoing>, Infallible>;

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = Response<Outgoing>;
    type Error = Infallible;
    type Future = Either<Ready<Answered>, BoxFuture<'static, Answered>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if request.uri().path() == SUBSCRIBE {
            return Either::Left(ready(Ok(self.transport.answer(request))));
        }
        let answered = self.others.clone().call(request);
        Either::Right(Box::pin(answered.map(|answer| answer.map(|answer| answer.map(Outgoing::Other)))))
    }
}

/// Whether a request is one of gRPC, in its usual encoding.
fn is_grpc(request: &Request<Incoming>) -> bool {
    let content = request.headers().get(CONTENT_TYPE).and_then(|content| content.to_str().ok());
    let rest = content.and_then(|content| content.strip_prefix("application/grpc"));
    request.method() == Method::POST
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// The transport service.
struct Transport {
    room: Arc<Rules>,
    address: SocketAddr,
    streams: Streams,
    connection: Arc<Connection>,
}

impl Transport {
    fn answer(&self, request: Request<Incoming>) -> Response<Outgoing> {
        if !is_grpc(&request) {
            let mut response = Response::new(Outgoing::Other(Body::empty()));
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        match self.subscriber(request) {
            Ok(subscriber) => {
                let mut response = Response::new(Outgoing::Rules(Some(subscriber)));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                response
            }
            Err(status) => status.into_http::<Body>().map(Outgoing::Other),
        }
    }

    fn subscriber(&self, request: Request<Incoming>) -> Result<Subscriber, Status> {
        let room = self.room.clone();
        if room.house.stop.is_cancelled() {
            // On this connection it would come back to this replica again and again.
            self.connection.over.abort();
            return Err(Status::unavailable("this replica is stopping; another one serves"));
        }
        if request.headers().get(ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Status::unimplemented("requests may not be compressed"));
        }
        if room.hub.len() >= room.options.most_streams {
            return Err(Status::resource_exhausted("this replica has as many streams as it may have"));
        }
        let decoder = ProstDecoder::<SubscribeRequest>::new(BufferSettings::new(REQUEST, REQUEST));
        let requests = Streaming::new_request(decoder, request.into_body(), None, Some(LARGEST_REQUEST));
        let (end, connection) = (self.streams.handle(), self.connection.clone());
        let mailbox = room.hub.open(Some(self.address), room.house.clock.now(), end, connection);
        Ok(Subscriber::new(room, mailbox, requests))
    }
}
