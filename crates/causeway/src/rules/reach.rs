//! Ways to a replica of the controller: its address, or a port of its pod with the caller's rights.

use std::io;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::vpc::foreign::kubernetes::Pod;
use futures::FutureExt;
use futures::future::{BoxFuture, FusedFuture};
use k8s_openapi::api::core;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::clusters::Trouble;

/// The pods of the controller, as deploy/controller.yaml labels them.
const LABEL: &str = "app=multi-vpc-controller-manager";
/// The longest that a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a pod's own word on a failure may take.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Where replicas are.
#[derive(Clone)]
pub(crate) enum Reach {
    /// One, at this address.
    Address(String),
    /// Pods in this namespace, at this port.
    Pods(Client, String, u16),
}

/// A connection to a replica.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Why a port of a pod cannot be used, if that is ever said.
pub(crate) type LastWord = BoxFuture<'static, Option<String>>;

/// A connection, and what the way to it may have to say.
pub(crate) struct Line {
    io: Box<dyn Io>,
    last_word: Option<LastWord>,
}

impl Reach {
    /// Connects to a replica that is ready.
    pub(crate) async fn any(&self) -> anyhow::Result<Line> {
        match self {
            Self::Address(address) => to_address(address).await,
            Self::Pods(client, namespace, port) => {
                let pods = pods(client, namespace).await?;
                let ready = pods.iter().find(|pod| is_ready(pod));
                let ready = ready.with_context(|| format!("no pod {LABEL} in {namespace} is ready"))?;
                to_pod(client, namespace, &ready.name_any(), *port).await
            }
        }
    }
}

/// Connects to an address.
pub(crate) async fn to_address(address: &str) -> anyhow::Result<Line> {
    let connected = match timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            bail!("nothing listens at {address}")
        }
        Ok(connected) => connected.with_context(|| format!("connecting to {address}"))?,
        Err(_) => bail!("{address} did not answer within {} s", CONNECT.as_secs()),
    };
    let _ = connected.set_nodelay(true);
    Ok(Line { io: Box::new(connected), last_word: None })
}

/// All pods of the controller; that there is none is an error.
pub(crate) async fn pods(client: &Client, namespace: &str) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let listed = api.list(&ListParams::default().labels(LABEL)).await;
    let pods = listed
        .map_err(|error| Trouble::of_server(&error, "the API server"))
        .with_context(|| format!("listing the controller's pods in {namespace}"))?
        .items;
    if pods.is_empty() {
        bail!("there is no pod {LABEL} in namespace {namespace}; --address asks a replica without its pod");
    }
    Ok(pods)
}

fn is_ready(pod: &Pod) -> bool {
    pod.is_ready() == Some(true) && pod.metadata.deletion_timestamp.is_none()
}

/// Connects to a port of a pod, through the API server.
pub(crate) async fn to_pod(client: &Client, namespace: &str, pod: &str, port: u16) -> anyhow::Result<Line> {
    let api: Api<core::v1::Pod> = Api::namespaced(client.clone(), namespace);
    let what = || format!("port {port} of pod {namespace}/{pod}");
    let forwarded = api.portforward(pod, &[port]).await;
    let mut forwarder =
        forwarded.map_err(|error| Trouble::of_server(&error, "the API server")).with_context(what)?;
    let io = forwarder.take_stream(port).with_context(what)?;
    let last_word = forwarder.take_error(port).map(|word| Box::pin(word) as LastWord);
    Ok(Line { io: Box::new(io), last_word })
}

/// Works on a connection; where the pod's side says why there is none, that is the error.
pub(crate) async fn heeding<T>(
    work: impl Future<Output = anyhow::Result<T>>,
    last_word: Option<LastWord>,
) -> anyhow::Result<T> {
    let Some(last_word) = last_word else { return work.await };
    let mut last_word = last_word.fuse();
    let done = tokio::select! {
        biased;
        Some(word) = &mut last_word => bail!("{}", word.trim()),
        done = work => done,
    };
    match done {
        Err(error) if !last_word.is_terminated() => match timeout(LAST_WORD, last_word).await {
            Ok(Some(word)) => Err(error.context(word.trim().to_owned())),
            _ => Err(error),
        },
        done => done,
    }
}

impl Line {
    /// The connection alone, and what may explain its end.
    pub(crate) fn split(self) -> (Box<dyn Io>, Option<LastWord>) {
        (self.io, self.last_word)
    }
}
