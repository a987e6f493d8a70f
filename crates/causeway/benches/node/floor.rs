//! The same list, read by somebody who throws it away: what the API server itself takes to send it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use causeway_controller::client::{Streams, connect};
use http::{Response, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::sleep;

use crate::server::Cluster;

const COMPACT: &str = "/api/v1/nodes";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const STREAMING: &str = "/api/v1/nodes?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
/// Says that a streaming list is complete.
const END: &[u8] = b"k8s.io/initial-events-end";

const AFTERWARDS: Duration = Duration::from_secs(2);

/// What a form of the list took, from the question to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    pub(crate) compact: Option<Duration>,
    pub(crate) streaming: Option<Duration>,
}

impl Floor {
    /// That of the list which an agent asks for.
    pub(crate) fn usual(&self) -> Option<Duration> {
        self.compact.or(self.streaming)
    }
}

/// Each form that the server has.
pub(crate) async fn read(cluster: &Cluster) -> anyhow::Result<Floor> {
    let streaming = streaming(cluster).await?;
    // What that left behind the server tidies up for a while.
    sleep(AFTERWARDS).await;
    Ok(Floor { compact: compact(cluster).await?, streaming })
}

/// A client that has its connection already.
async fn client(cluster: &Cluster) -> anyhow::Result<Client> {
    let config = Kubeconfig::from_yaml(&cluster.kubeconfig)?;
    let client = connect(kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)?;
    client.apiserver_version().await?;
    Ok(client)
}

async fn ask(client: &Client, path: &str, form: &str) -> anyhow::Result<Response<Body>> {
    let request = http::Request::get(path).header(header::ACCEPT, form).extension(Streams);
    // As a watch asks for it.
    let request = request.header(header::ACCEPT_ENCODING, "identity");
    Ok(client.send(request.body(Body::empty())?).await?)
}

async fn compact(cluster: &Cluster) -> anyhow::Result<Option<Duration>> {
    let (client, start) = (client(cluster).await?, Instant::now());
    let answer = ask(&client, COMPACT, PROTOBUF).await?;
    if answer.status().as_u16() == 406 {
        return Ok(None);
    }
    let kind = answer.headers().get(header::CONTENT_TYPE).context("a list of no form")?;
    if kind != PROTOBUF {
        bail!("{kind:?} was not asked for");
    }
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        frame.context("the list")?;
    }
    Ok(Some(start.elapsed()))
}

async fn streaming(cluster: &Cluster) -> anyhow::Result<Option<Duration>> {
    let (client, start) = (client(cluster).await?, Instant::now());
    let answer = ask(&client, STREAMING, "application/json").await?;
    if matches!(answer.status().as_u16(), 400 | 422) {
        return Ok(None);
    }
    let (mut body, mut tail) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the list")?.into_data() else { continue };
        // The mark is in the last few hundred bytes, of this frame or of the one before.
        tail.extend_from_slice(&data[data.len().saturating_sub(2048)..]);
        tail.drain(..tail.len().saturating_sub(4096));
        if tail.windows(END.len()).any(|window| window == END) {
            return Ok(Some(start.elapsed()));
        }
    }
    bail!("the list ended in the middle")
}
