//! The same list, read by somebody who throws it away: what the API server itself takes to send it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use causeway_controller::client::connect;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::server::Cluster;

const LIST: &str = "/api/v1/nodes?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
/// Says that the list is complete.
const END: &[u8] = b"k8s.io/initial-events-end";

/// From the first byte to the end; nothing where the server has no streaming lists.
pub(crate) async fn read(cluster: &Cluster) -> anyhow::Result<Option<Duration>> {
    let config = Kubeconfig::from_yaml(&cluster.kubeconfig)?;
    let client = connect(kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)?;
    // As a watch asks for it.
    let request = http::Request::get(LIST).header(http::header::ACCEPT_ENCODING, "identity");
    let answer = client.send(request.body(Body::empty())?).await?;
    if matches!(answer.status().as_u16(), 400 | 422) {
        return Ok(None);
    }
    let (mut body, mut first, mut tail) = (answer.into_body(), None, Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the list")?.into_data() else { continue };
        let first = *first.get_or_insert_with(Instant::now);
        // The mark is in the last few hundred bytes, of this frame or of the one before.
        tail.extend_from_slice(&data[data.len().saturating_sub(2048)..]);
        tail.drain(..tail.len().saturating_sub(4096));
        if tail.windows(END.len()).any(|window| window == END) {
            return Ok(Some(first.elapsed()));
        }
    }
    bail!("the list ended in the middle")
}
