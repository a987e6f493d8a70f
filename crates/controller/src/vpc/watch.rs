//! Watches of the cluster: streams of objects become events of the state.
//!
//! Each watch starts with a full list, which replaces what was known; so what happened while nobody
//! looked is seen too. A foreign kind that does not exist here is an empty list. A kind of our own is
//! waited for: an API server that is just starting denies it too, and no tunnel may be lost to that.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::foreign::{kube_ovn, submariner};
use causeway_api::{GatewayExIp, VpcNatTunnel, parse};
use causeway_core::names::parse_address;
use causeway_core::vpc::objects::NodeHealth;
use causeway_core::vpc::{Change, Event};
use causeway_core::{Cidr, ObjectKey};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Note, Room};

/// Where kube-ovn keeps gateways.
const KUBE_SYSTEM: &str = "kube-system";
/// Where Submariner keeps its own.
const SUBMARINER: &str = "submariner-operator";
const EGRESS: &str = "cluster-egress.submariner.io";
pub(super) const DISCOVERY: &str = "service-discovery";

/// Whose kind it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    Foreign,
}

/// What a stream of objects says.
pub(super) enum Seen<K> {
    All(Vec<K>),
    One(K),
    Gone(K),
}

impl Kind {
    /// How soon a kind that does not exist here is asked for again: ours is about to be installed.
    fn patience(self) -> Duration {
        match self {
            Self::Own => Duration::from_secs(2),
            Self::Foreign => Duration::from_secs(30),
        }
    }
}

/// A watch that never ends: errors are waited out, lists arrive whole. Objects that can not be decoded
/// come as such.
pub(super) fn follow<K>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    kind: Kind,
) -> impl Stream<Item = Seen<DeserializeGuard<K>>> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let rounds = futures::stream::iter(0u64..).then(move |round| async move {
        if round > 0 {
            tokio::time::sleep(kind.patience()).await;
        }
    });
    rounds.flat_map(move |()| until_missing(watcher(api.clone(), config.clone()).default_backoff(), kind))
}

/// One round of a watch: it ends when the kind turns out not to exist.
fn until_missing<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<DeserializeGuard<K>>>>,
    kind: Kind,
) -> impl Stream<Item = Seen<DeserializeGuard<K>>>
where
    K: Resource<DynamicType = ()>,
{
    let mut listing = Vec::new();
    let steps = events.scan(false, move |ended, event| {
        if std::mem::replace(ended, matches!(&event, Err(error) if is_missing(error))) {
            return std::future::ready(None);
        }
        let seen = match event {
            Ok(watcher::Event::Init) => {
                listing.clear();
                None
            }
            Ok(watcher::Event::InitApply(object)) => {
                listing.push(object);
                None
            }
            Ok(watcher::Event::InitDone) => Some(Seen::All(std::mem::take(&mut listing))),
            Ok(watcher::Event::Apply(object)) => Some(Seen::One(object)),
            Ok(watcher::Event::Delete(object)) => Some(Seen::Gone(object)),
            Err(_) if *ended && kind == Kind::Foreign => {
                tracing::debug!(kind = %K::kind(&()), "this kind does not exist here");
                Some(Seen::All(Vec::new()))
            }
            Err(_) if *ended => {
                tracing::warn!(kind = %K::kind(&()), "its definition is not installed; `causeway crds` prints it");
                None
            }
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "a watch was interrupted");
                None
            }
        };
        std::future::ready(Some(seen))
    });
    steps.filter_map(std::future::ready)
}

fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// Turns what was seen into a change of a map; what has no value there counts as gone.
pub(super) fn change<K, Key: Ord, V>(
    seen: Seen<K>,
    key: impl Fn(&K) -> Key,
    value: impl Fn(&K) -> Option<V>,
) -> Change<Key, V> {
    match seen {
        Seen::All(objects) => Change::Reset(
            objects.iter().filter_map(|o| Some((key(o), value(o)?))).collect::<BTreeMap<_, _>>(),
        ),
        Seen::One(object) => match value(&object) {
            Some(value) => Change::Put(key(&object), value),
            None => Change::Gone(key(&object)),
        },
        Seen::Gone(object) => Change::Gone(key(&object)),
    }
}

/// Runs one watch: every sight becomes an event, the first full list is announced.
async fn pump<K>(
    name: &'static str,
    stream: impl Stream<Item = Seen<K>>,
    inbox: mpsc::Sender<Note>,
    event: impl Fn(Seen<K>) -> Event,
) {
    let mut stream = std::pin::pin!(stream);
    let mut listed = false;
    while let Some(seen) = stream.next().await {
        let full = matches!(seen, Seen::All(_));
        if inbox.send(Note::Event(Box::new(event(seen)))).await.is_err() {
            return;
        }
        if full && !std::mem::replace(&mut listed, true) && inbox.send(Note::Listed(name)).await.is_err() {
            return;
        }
    }
}

/// All watches of the room; they end only when told to.
pub(crate) async fn run(room: Arc<Room>, stop: CancellationToken) -> anyhow::Result<()> {
    let mut watches = JoinSet::new();
    start_own(&room, &mut watches);
    start_gateways(&room, &mut watches);
    start_foreign(&room, &mut watches);
    let ended = stop.run_until_cancelled(watches.join_next()).await;
    match ended {
        None => Ok(()),
        Some(_) => anyhow::bail!("a watch ended"),
    }
}

fn start_own(room: &Arc<Room>, watches: &mut JoinSet<()>) {
    let client = || room.client.clone();
    let tunnels = follow::<VpcNatTunnel>(Api::all(client()), watcher::Config::default(), Kind::Own);
    let tunnel = |object: &DeserializeGuard<VpcNatTunnel>| {
        Some(match &object.0 {
            Ok(object) => parse::tunnel(object),
            Err(invalid) => parse::unreadable_tunnel(&invalid.metadata, &invalid.error.to_string()),
        })
    };
    let event = move |seen| Event::Tunnels(change(seen, object_key, tunnel));
    watches.spawn(pump("tunnels", tunnels, room.inbox.clone(), event));

    // Restarted now and then, which compares the whole set.
    let (resync, gone) = (room.options.resync_interval, client());
    let records = resynced(resync, move || {
        follow::<GatewayExIp>(Api::all(gone.clone()), watcher::Config::default(), Kind::Own)
    });
    let record = |object: &DeserializeGuard<GatewayExIp>| object.0.as_ref().ok().map(parse::record);
    let event = move |seen| Event::Records(change(seen, object_key, record));
    watches.spawn(pump("records", records, room.inbox.clone(), event));
}

fn start_gateways(room: &Arc<Room>, watches: &mut JoinSet<()>) {
    let client = || room.client.clone();
    let labelled = || watcher::Config::default().labels(parse::GATEWAY_LABEL);
    let prefix = room.options.gateway_prefix.clone();
    let sets = follow::<StatefulSet>(Api::namespaced(client(), KUBE_SYSTEM), labelled(), Kind::Foreign);
    let set = {
        let prefix = prefix.clone();
        move |object: &DeserializeGuard<StatefulSet>| {
            let set = object.0.as_ref().ok()?;
            let template = set.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
            let available = set.status.as_ref().and_then(|status| status.available_replicas);
            parse::workload(&set.metadata, template, available, &prefix)
        }
    };
    let event = move |seen| Event::StatefulSets(change(seen, ResourceExt::name_any, &set));
    watches.spawn(pump("statefulsets", sets, room.inbox.clone(), event));

    let pods = follow::<Pod>(Api::namespaced(client(), KUBE_SYSTEM), labelled(), Kind::Foreign);
    let pod = {
        let prefix = prefix.clone();
        move |object: &DeserializeGuard<Pod>| parse::gateway_pod(object.0.as_ref().ok()?, &prefix)
    };
    let event = move |seen| Event::Pods(change(seen, object_key, &pod));
    watches.spawn(pump("pods", pods, room.inbox.clone(), event));

    let deployments = follow::<Deployment>(Api::namespaced(client(), KUBE_SYSTEM), labelled(), Kind::Foreign);
    let deployment = move |object: &DeserializeGuard<Deployment>| {
        let deployment = object.0.as_ref().ok()?;
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
        parse::workload(&deployment.metadata, template, available, &prefix)
    };
    let event = move |seen| Event::Deployments(change(seen, ResourceExt::name_any, &deployment));
    watches.spawn(pump("deployments", deployments, room.inbox.clone(), event));

    watches.spawn(watch_nodes(room.clone()));
}

fn start_foreign(room: &Arc<Room>, watches: &mut JoinSet<()>) {
    fn value<K, V>(parse: impl Fn(&K) -> V) -> impl Fn(&DeserializeGuard<K>) -> Option<V> {
        move |object| object.0.as_ref().ok().map(&parse)
    }
    let client = || room.client.clone();
    let config = watcher::Config::default;
    let inbox = || room.inbox.clone();

    let gateways = follow::<kube_ovn::VpcNatGateway>(Api::all(client()), config(), Kind::Foreign);
    let event = |seen| Event::VpcGateways(change(seen, ResourceExt::name_any, value(parse::vpc_gateway)));
    watches.spawn(pump("vpc-nat-gateways", gateways, inbox(), event));

    let subnets = follow::<kube_ovn::Subnet>(Api::all(client()), config(), Kind::Foreign);
    let event = |seen| Event::Subnets(change(seen, ResourceExt::name_any, value(parse::subnet)));
    watches.spawn(pump("subnets", subnets, inbox(), event));

    let vpcs = follow::<kube_ovn::Vpc>(Api::all(client()), config(), Kind::Foreign);
    let event = |seen| Event::Vpcs(change(seen, ResourceExt::name_any, value(parse::static_routes)));
    watches.spawn(pump("vpcs", vpcs, inbox(), event));

    let clusters =
        follow::<submariner::Cluster>(Api::namespaced(client(), SUBMARINER), config(), Kind::Foreign);
    let range = |object: &DeserializeGuard<submariner::Cluster>| -> Option<Cidr> {
        object.0.as_ref().ok()?.spec.global_cidr.as_ref()?.first()?.parse().ok()
    };
    let event = move |seen| Event::Globalnets(change(seen, ResourceExt::name_any, range));
    watches.spawn(pump("clusters", clusters, inbox(), event));

    let only = config().fields(&format!("metadata.name={EGRESS}"));
    let egress = follow::<submariner::ClusterGlobalEgressIP>(Api::all(client()), only, Kind::Foreign);
    let event = |seen: Seen<DeserializeGuard<submariner::ClusterGlobalEgressIP>>| {
        let addresses = the_one(seen).and_then(|object| object.status).unwrap_or_default().allocated_ips;
        Event::Egress(addresses.iter().filter_map(|text| parse_address(text).ok()).collect())
    };
    watches.spawn(pump("egress", egress, inbox(), event));
}

/// The only object of a watch on one name.
pub(super) fn the_one<K>(seen: Seen<DeserializeGuard<K>>) -> Option<K> {
    match seen {
        Seen::All(objects) => objects.into_iter().next().and_then(|object| object.0.ok()),
        Seen::One(object) => object.0.ok(),
        Seen::Gone(_) => None,
    }
}

/// The coordinates' own watch, shared with the exchange.
pub(super) fn discovery(
    room: &Room,
) -> impl Stream<Item = Seen<DeserializeGuard<submariner::ServiceDiscovery>>> {
    let only = watcher::Config::default().fields(&format!("metadata.name={DISCOVERY}"));
    follow(Api::namespaced(room.client.clone(), SUBMARINER), only, Kind::Foreign)
}

pub(super) fn object_key<K: Resource>(object: &DeserializeGuard<K>) -> ObjectKey
where
    DeserializeGuard<K>: Resource,
{
    parse::key(object.meta())
}

/// Starts a stream over every so often; each start lists everything anew.
pub(super) fn resynced<S: Stream + Send + 'static>(
    every: Duration,
    start: impl Fn() -> S + Send + 'static,
) -> impl Stream<Item = S::Item> + Send {
    let rounds = futures::stream::repeat_with(move || start().take_until(tokio::time::sleep(every)));
    rounds.flatten()
}

/// Nodes, with a timer: one that has been silent for too long counts as lost.
async fn watch_nodes(room: Arc<Room>) {
    let nodes = follow::<Node>(Api::all(room.client.clone()), watcher::Config::default(), Kind::Foreign);
    let grace = room.options.node_grace;
    let (inbox, lost) = (room.inbox.clone(), room.inbox.clone());
    let mut silent: BTreeMap<String, tokio::time::Instant> = BTreeMap::new();
    let mut nodes = std::pin::pin!(nodes);
    let mut listed = false;
    loop {
        let due = silent.iter().min_by_key(|(_, due)| **due).map(|(name, due)| (name.clone(), *due));
        let seen = match due {
            Some((name, due)) => match tokio::time::timeout_at(due, nodes.next()).await {
                Ok(seen) => seen,
                Err(_) => {
                    silent.remove(&name);
                    let event = Event::Nodes(Change::Put(name, NodeHealth::Lost));
                    if lost.send(Note::Event(Box::new(event))).await.is_err() {
                        return;
                    }
                    continue;
                }
            },
            None => nodes.next().await,
        };
        let Some(seen) = seen else { return };
        if matches!(seen, Seen::All(_)) {
            silent.clear();
        }
        let full = matches!(seen, Seen::All(_));
        let deadlines = std::cell::RefCell::new(&mut silent);
        let health = |object: &DeserializeGuard<Node>| {
            let (health, since) = parse::node(object.0.as_ref().ok()?);
            deadlines.borrow_mut().remove(&object.name_any());
            if health == NodeHealth::Ready {
                return Some(health);
            }
            let silent_for = since.map_or(0, |since| Timestamp::now().as_second() - since);
            let left = grace.saturating_sub(Duration::from_secs(silent_for.try_into().unwrap_or(0)));
            deadlines.borrow_mut().insert(object.name_any(), tokio::time::Instant::now() + left);
            Some(health)
        };
        let event = Event::Nodes(change(seen, ResourceExt::name_any, health));
        if inbox.send(Note::Event(Box::new(event))).await.is_err() {
            return;
        }
        if full && !std::mem::replace(&mut listed, true) && inbox.send(Note::Listed("nodes")).await.is_err() {
            return;
        }
    }
}
