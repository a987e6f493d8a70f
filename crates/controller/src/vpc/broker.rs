//! The broker: where it is, and what it holds.
//!
//! Its coordinates come from a kubeconfig given by flag or from Submariner's ServiceDiscovery object,
//! which also says who we are. Until they are known, and while the broker is away, everything else goes
//! on; when it is back, both sides are compared as a whole.

use std::sync::Arc;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use causeway_api::foreign::submariner::ServiceDiscovery;
use causeway_api::{GatewayExIp, parse};
use causeway_core::vpc::Event;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::follow::{Kind, Seen, change, follow, resynced, the_one};
use super::membership::{follow_claims, settled};
use super::watch::discovery;
use super::{Note, Room};

/// The namespace of the exchange unless something else is said.
pub const DEFAULT_NAMESPACE: &str = "submariner-k8s-broker";

/// A reachable broker.
#[derive(Clone)]
pub struct Broker {
    /// A client of it.
    pub client: Client,
    /// The namespace of the exchange.
    pub namespace: String,
}

/// Follows the coordinates and, once known, the broker.
pub(crate) async fn run(room: Arc<Room>, stop: CancellationToken) -> anyhow::Result<()> {
    stop.run_until_cancelled(follow_coordinates(room)).await.unwrap_or(Ok(()))
}

async fn follow_coordinates(room: Arc<Room>) -> anyhow::Result<()> {
    let mut exchange: Option<AbortOnDropHandle<()>> = None;
    let mut coordinates = None;
    if let Some(broker) = &room.options.broker {
        exchange = Some(join(&room, broker.clone()).await);
    }
    let mut sights = std::pin::pin!(discovery(&room));
    let (mut listed, mut told) = (false, false);
    while let Some(seen) = sights.next().await {
        let full = matches!(seen, Seen::All(_));
        let found = the_one(seen);
        let identity = found.as_ref().and_then(|object| object.spec.cluster_id.as_deref()?.parse().ok());
        room.tell(Event::Identity(identity)).await;
        if full && !std::mem::replace(&mut listed, true) {
            let _ = room.inbox.send(Note::Listed("servicediscovery")).await;
        }
        if room.options.broker.is_some() {
            continue;
        }
        let Some(found) = found else {
            if !std::mem::replace(&mut told, true) {
                tracing::info!("no ServiceDiscovery object says where the broker is; waiting for one");
            }
            continue;
        };
        if coordinates.as_ref() == Some(&found.spec) {
            continue;
        }
        match connect(&room.client, &found).await {
            Ok(broker) => {
                coordinates = Some(found.spec);
                exchange = Some(join(&room, broker).await);
            }
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the broker's coordinates can not be used");
            }
        }
    }
    drop(exchange);
    anyhow::bail!("the watch of the broker's coordinates ended")
}

/// Starts following a broker; dropping the handle stops it.
async fn join(room: &Arc<Room>, broker: Broker) -> AbortOnDropHandle<()> {
    tracing::info!(namespace = broker.namespace, "joining the exchange");
    room.tell(Event::Joining(broker.namespace.clone())).await;
    room.broker.send_replace(Some(broker.clone()));
    let room = room.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::join!(follow_copies(&room, broker.clone()), follow_members(&room, broker));
    }))
}

async fn follow_copies(room: &Room, broker: Broker) {
    let copies = resynced(room.options.resync_interval, move || {
        let api = Api::namespaced(broker.client.clone(), &broker.namespace);
        follow::<GatewayExIp>(api, watcher::Config::default(), Kind::Own)
    });
    let mut copies = std::pin::pin!(copies);
    let copy = |object: &DeserializeGuard<GatewayExIp>| object.0.as_ref().ok().map(parse::record);
    while let Some(seen) = copies.next().await {
        room.tell(Event::Copies(change(seen, kube::ResourceExt::name_any, copy))).await;
    }
}

/// Follows who goes by which id there, for which we must know ourselves. Where we may not, the exchange goes on
/// without; a server that only does not answer is waited for, and nothing is exported meanwhile.
async fn follow_members(room: &Room, broker: Broker) {
    match own_uid(&room.client).await {
        Some(uid) => {
            room.tell(Event::Uid(uid)).await;
            follow_claims(room, broker).await;
        }
        None => {
            tracing::warn!(
                "namespace kube-system may not be read (deploy/controller.yaml has the rule): a cluster with \
                 our own id could not be told from us"
            );
            room.tell(Event::NoMembers).await;
        }
    }
}

/// The uid of a namespace that every cluster has, and that lasts as long as the cluster; none where it may not
/// be read.
async fn own_uid(client: &Client) -> Option<String> {
    let namespaces = Api::<Namespace>::all(client.clone());
    settled("our own uid", || namespaces.get("kube-system")).await?.metadata.uid
}

/// A client from the coordinates. A secret beside the object, where named, wins.
async fn connect(home: &Client, object: &ServiceDiscovery) -> anyhow::Result<Broker> {
    let spec = &object.spec;
    let server = spec.broker_api_server.as_deref().context("brokerK8sApiServer is missing")?;
    let namespace = spec.broker_namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.into());
    let (mut token, mut ca) = (spec.broker_token.clone(), spec.broker_ca.clone());
    if let Some(name) = spec.broker_secret.as_deref().filter(|name| !name.is_empty()) {
        let secrets: Api<Secret> =
            Api::namespaced(home.clone(), object.metadata.namespace.as_deref().unwrap_or_default());
        let secret = secrets.get(name).await.with_context(|| format!("reading secret {name}"))?;
        let data = secret.data.unwrap_or_default();
        token = data.get("token").map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).or(token);
        ca = data.get("ca.crt").map(|bytes| BASE64.encode(&bytes.0)).or(ca);
    }
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{ "name": "broker", "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority-data": ca.filter(|ca| !ca.is_empty()),
            "insecure-skip-tls-verify": spec.broker_insecure,
        }}],
        "users": [{ "name": "broker", "user": { "token": token } }],
        "contexts": [{ "name": "broker", "context": { "cluster": "broker", "user": "broker" } }],
        "current-context": "broker",
    }))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Broker { client: Client::try_from(config)?, namespace })
}
