//! The broker: where it is, and what it holds.
//!
//! Its coordinates come from a kubeconfig given by flag or from Submariner's ServiceDiscovery object, which also
//! says who we are. The Secret that may hold its token is read again until it can be, whenever the broker does
//! not answer as it should, and now and then, so that a late or a rotated one is found. Until the coordinates are
//! known, and while the broker is away, everything else goes on; when it is back, both sides are compared as a
//! whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use causeway_api::vpc::foreign::submariner::{ServiceDiscovery, ServiceDiscoverySpec};
use causeway_api::vpc::{GatewayExIp, parse};
use causeway_core::ClusterId;
use causeway_core::vpc::Event;
use causeway_core::vpc::shares::RECORDS_PER_MEMBER;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::Vpc;
use super::watch::{SUBMARINER, only, record};
use crate::follow::{Interruption, Seen, Watch};
use crate::found::Found;
use crate::sources::{Feed, Sources, Standing};
use crate::words::describe;

/// The namespace of the exchange unless something else is said.
pub const DEFAULT_NAMESPACE: &str = "submariner-k8s-broker";
const DISCOVERY: &str = "service-discovery";

/// A reachable broker.
#[derive(Clone)]
pub struct Broker {
    /// A client of it.
    pub client: Client,
    /// The namespace of the exchange.
    pub namespace: String,
}

/// Where the broker is said to be.
#[derive(Clone, PartialEq)]
pub(super) struct Coordinates {
    /// The namespace of the object, and of its Secret.
    namespace: String,
    spec: ServiceDiscoverySpec,
}

/// All that a connection rests on.
#[derive(Clone, PartialEq)]
struct Access {
    server: String,
    namespace: String,
    token: Option<String>,
    ca: Option<String>,
    insecure: Option<bool>,
}

/// Starts following the coordinates, unless all that they say is given, and, once known, the broker. Readiness does
/// not wait for the broker: tunnels that are up must not.
pub(super) fn start(room: &Arc<Vpc>, sources: &mut Sources<'_, Vpc>) {
    if room.options.broker.is_none() || room.options.given.cluster.is_none() {
        sources.task("servicediscoveries", |feed| follow_coordinates(feed, room.clone()));
    }
    sources.beside("broker", |feed| exchange(feed, room.clone()));
}

async fn follow_coordinates(feed: Feed<Vpc>, room: Arc<Vpc>) {
    let api = Api::namespaced(room.house.client.clone(), SUBMARINER);
    let watch = Watch::<ServiceDiscovery>::new(api).named(DISCOVERY);
    let tell = |seen: Result<Seen<String, Coordinates>, Interruption>| {
        let standing = Standing::of(&seen);
        let found = seen.ok().and_then(only);
        let none = standing == Standing::Listed && found.as_ref().is_none_or(Option::is_none);
        if none && room.options.broker.is_none() {
            tracing::info!("no ServiceDiscovery object says where the broker is; waiting for one");
        }
        if let Some(found) = found {
            let identity = found.as_ref().and_then(|found| parse::identity(&found.spec));
            room.tell_identity(Event::Identity(identity));
            room.coordinates.send_if_modified(|known| {
                // The last known broker is kept while the object is away: so is what it holds.
                let news = found.is_some() && *known != found;
                if news {
                    *known = found;
                }
                news
            });
        }
        feed.note(standing);
    };
    let convert = |object: &Found<ServiceDiscovery>| {
        let namespace = object.namespace().unwrap_or_default();
        let found = object.0.as_ref().ok().map(|object| Coordinates { namespace, spec: object.spec.clone() });
        (object.name_any(), found)
    };
    match watch.follow(feed.pace(), convert, tell).await {}
}

/// The coordinates as they change.
type Known = tokio::sync::watch::Receiver<Option<Coordinates>>;

/// Joins the exchange, and joins it anew whenever the way to it changes.
async fn exchange(feed: Feed<Vpc>, room: Arc<Vpc>) {
    if let Some(broker) = &room.options.broker {
        join(&room, broker, true);
        follow_broker(&feed, &room, broker, &Notify::new()).await;
    }
    let mut joined: Option<(String, String)> = None;
    // One receiver for all: what changes while something is read is seen afterwards.
    let mut coordinates = room.coordinates.subscribe();
    loop {
        let (access, broker) = find(&feed, &room, &mut coordinates).await;
        let place = (access.server.clone(), access.namespace.clone());
        join(&room, &broker, joined.as_ref() != Some(&place));
        joined = Some(place);
        let trouble = Notify::new();
        tokio::select! {
            biased;
            () = follow_broker(&feed, &room, &broker, &trouble) => {}
            () = until_other_access(&feed, &room, &mut coordinates, &access, &trouble) => {
                tracing::info!("the way to the broker has changed: joining anew");
            }
        }
    }
}

/// What is known of another broker says nothing of this one.
fn join(room: &Vpc, broker: &Broker, another: bool) {
    tracing::info!(namespace = broker.namespace, "joining the exchange");
    if another {
        room.desk.tell(Event::Joining(broker.namespace.clone()));
    }
    room.broker.send_replace(Some(broker.clone()));
}

async fn follow_broker(feed: &Feed<Vpc>, room: &Vpc, broker: &Broker, trouble: &Notify) {
    tokio::join!(
        follow_copies(feed, room, broker, trouble),
        super::membership::follow(feed, room, broker),
        super::ends::follow(feed, room, broker),
    );
}

async fn follow_copies(feed: &Feed<Vpc>, room: &Vpc, broker: &Broker, trouble: &Notify) {
    let api = Api::namespaced(broker.client.clone(), &broker.namespace);
    let copies = Watch::<GatewayExIp>::new(api).resync(room.options.resync_interval);
    let copy = |object: &Found<GatewayExIp>| (object.name_any(), record(object));
    let mut exceeding = BTreeSet::new();
    let tell = |seen: Result<Seen<_, _>, Interruption>| match seen {
        Ok(seen) => {
            if let Some((change, _)) = seen.change() {
                feed.tell(Event::Copies(change));
                report_exceeding(room, &mut exceeding);
            }
        }
        Err(_) => trouble.notify_one(),
    };
    match copies.follow(feed.pace(), copy, tell).await {}
}

/// Logs when a member begins to publish more than is brought here, and when it no longer does.
fn report_exceeding(room: &Vpc, known: &mut BTreeSet<ClusterId>) {
    let now: BTreeSet<ClusterId> =
        room.desk.state().exceeding_members().map(|(member, _)| member.clone()).collect();
    let most = room.options.given.records_per_member.unwrap_or(RECORDS_PER_MEMBER);
    for member in now.difference(known) {
        tracing::warn!(%member, most, "this cluster publishes more records than are brought here; the others are left at the broker");
    }
    for member in known.difference(&now) {
        tracing::info!(%member, most, "this cluster no longer publishes more records than are brought here");
    }
    *known = now;
}

/// Waits until the coordinates are known and usable.
async fn find(feed: &Feed<Vpc>, room: &Vpc, coordinates: &mut Known) -> (Access, Broker) {
    let mut pace = feed.pace();
    loop {
        let known = coordinates.borrow_and_update().clone();
        let Some(known) = known else {
            // It cannot fail: the room has the sender.
            let _ = coordinates.changed().await;
            continue;
        };
        match resolve(&room.house.client, &known).await {
            Ok(found) => return found,
            Err(error) => {
                tracing::warn!(
                    error = describe(error.as_ref()),
                    "the broker's coordinates cannot be used; trying again"
                );
            }
        }
        let _ = timeout(pace.pause(), coordinates.changed()).await;
    }
}

async fn resolve(home: &Client, known: &Coordinates) -> anyhow::Result<(Access, Broker)> {
    let access = read_access(home, known).await?;
    let client = connect(&access).await?;
    let namespace = access.namespace.clone();
    Ok((access, Broker { client, namespace }))
}

/// Returns when the coordinates or the Secret say something else than what the connection rests on.
async fn until_other_access(
    feed: &Feed<Vpc>,
    room: &Vpc,
    coordinates: &mut Known,
    access: &Access,
    trouble: &Notify,
) {
    let mut pace = feed.pace();
    loop {
        tokio::select! {
            biased;
            _ = coordinates.changed() => {}
            () = sleep(room.options.resync_interval) => pace.reset(),
            () = trouble.notified() => {
                let _ = timeout(pace.pause(), coordinates.changed()).await;
            }
        }
        let Some(known) = coordinates.borrow_and_update().clone() else { continue };
        match read_access(&room.house.client, &known).await {
            Ok(now) if now != *access => return,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(error = describe(error.as_ref()), "the broker's Secret cannot be read");
            }
        }
    }
}

/// What the coordinates say; a Secret beside the object, where named, wins.
async fn read_access(home: &Client, known: &Coordinates) -> anyhow::Result<Access> {
    let spec = &known.spec;
    let server = spec.broker_api_server.clone().context("brokerK8sApiServer is missing")?;
    let namespace = spec.broker_namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.into());
    let (mut token, mut ca) = (spec.broker_token.clone(), spec.broker_ca.clone());
    if let Some(name) = spec.broker_secret.as_deref().filter(|name| !name.is_empty()) {
        let secrets: Api<Secret> = Api::namespaced(home.clone(), &known.namespace);
        let secret = secrets.get(name).await.with_context(|| format!("reading secret {name}"))?;
        let data = secret.data.unwrap_or_default();
        token = data.get("token").map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).or(token);
        ca = data.get("ca.crt").map(|bytes| BASE64.encode(&bytes.0)).or(ca);
    }
    Ok(Access { server, namespace, token, ca, insecure: spec.broker_insecure })
}

async fn connect(access: &Access) -> anyhow::Result<Client> {
    // Files that tokens are read from end with a line break; the client library would not survive another one.
    let token = access.token.as_deref().map(str::trim);
    if let Some(token) = token {
        http::HeaderValue::from_str(token).context("the broker's token has characters that no token has")?;
    }
    if access.insecure == Some(true) {
        tracing::warn!(
            server = access.server,
            "brokerK8sInsecure is set: the broker's certificate is not checked, so anybody in between can be the broker"
        );
    }
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{ "name": "broker", "cluster": {
            "server": format!("https://{}", access.server),
            "certificate-authority-data": access.ca.as_ref().filter(|ca| !ca.is_empty()),
            "insecure-skip-tls-verify": access.insecure,
        }}],
        "users": [{ "name": "broker", "user": { "token": token } }],
        "contexts": [{ "name": "broker", "context": { "cluster": "broker", "user": "broker" } }],
        "current-context": "broker",
    }))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(crate::client::connect(config)?)
}
