//! Watches of the cluster: what is seen of objects becomes events of the state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::foreign::{kube_ovn, submariner};
use causeway_api::{GatewayExIp, VpcNatTunnel, parse};
use causeway_core::Cidr;
use causeway_core::names::parse_address;
use causeway_core::vpc::objects::{NodeHealth, Workload};
use causeway_core::vpc::{Change, Event};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::follow::{Kind, Seen, change, follow, object_key, per_value, resynced, the_one};
use super::{Note, Room};

/// Where kube-ovn keeps gateways.
const KUBE_SYSTEM: &str = "kube-system";
/// Where kube-ovn is told how to make them.
const GATEWAY_CONFIG: &str = "ovn-vpc-nat-config";
/// Where Submariner keeps its own.
const SUBMARINER: &str = "submariner-operator";
const EGRESS: &str = "cluster-egress.submariner.io";
const DISCOVERY: &str = "service-discovery";

/// The watches that must have listed before anything is decided. The broker is not among them: tunnels
/// that are up must not wait for it.
pub(super) const WATCHES: usize = 13;

/// What a watch saw.
struct Sight {
    /// Whether it is all there is.
    full: bool,
    event: Event,
}

fn sights<K>(
    stream: impl Stream<Item = Seen<K>>,
    event: impl Fn(Seen<K>) -> Event,
) -> impl Stream<Item = Sight> {
    stream.map(move |seen| Sight { full: matches!(seen, Seen::All(_)), event: event(seen) })
}

/// Runs one watch: every sight becomes an event, the first full list is announced.
async fn pump(name: &'static str, sights: impl Stream<Item = Sight>, inbox: mpsc::Sender<Note>) {
    let mut sights = std::pin::pin!(sights);
    let mut listed = false;
    while let Some(Sight { full, event }) = sights.next().await {
        if inbox.send(Note::Event(Box::new(event))).await.is_err() {
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
    let tunnels = sights(tunnels, move |seen| Event::Tunnels(change(seen, object_key, tunnel)));
    watches.spawn(pump("tunnels", tunnels, room.inbox.clone()));

    // Restarted now and then, which compares the whole set.
    let (resync, home) = (room.options.resync_interval, client());
    let records = resynced(resync, move || {
        follow::<GatewayExIp>(Api::all(home.clone()), watcher::Config::default(), Kind::Own)
    });
    let record = |object: &DeserializeGuard<GatewayExIp>| object.0.as_ref().ok().map(parse::record);
    let records = sights(records, move |seen| Event::Records(change(seen, object_key, record)));
    watches.spawn(pump("records", records, room.inbox.clone()));
}

/// What gateways are: listed anew when kube-ovn is told to name them otherwise.
fn start_gateways(room: &Arc<Room>, watches: &mut JoinSet<()>) {
    let labelled = || watcher::Config::default().labels(parse::GATEWAY_LABEL);
    if room.options.gateway_prefix.is_none() {
        watches.spawn(watch_prefix(room.clone()));
    }

    let client = room.client.clone();
    let sets = per_value(room.gateway_prefix.subscribe(), move |prefix| {
        let workload = move |object: &DeserializeGuard<StatefulSet>| -> Option<Workload> {
            let set = object.0.as_ref().ok()?;
            let template = set.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
            let available = set.status.as_ref().and_then(|status| status.available_replicas);
            parse::workload(&set.metadata, template, available, &prefix)
        };
        let sets = follow(Api::namespaced(client.clone(), KUBE_SYSTEM), labelled(), Kind::Foreign);
        sights(sets, move |seen| Event::StatefulSets(change(seen, ResourceExt::name_any, &workload)))
    });
    watches.spawn(pump("statefulsets", sets, room.inbox.clone()));

    let client = room.client.clone();
    let deployments = per_value(room.gateway_prefix.subscribe(), move |prefix| {
        let workload = move |object: &DeserializeGuard<Deployment>| -> Option<Workload> {
            let deployment = object.0.as_ref().ok()?;
            let template = deployment.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
            let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
            parse::workload(&deployment.metadata, template, available, &prefix)
        };
        let deployments = follow(Api::namespaced(client.clone(), KUBE_SYSTEM), labelled(), Kind::Foreign);
        sights(deployments, move |seen| Event::Deployments(change(seen, ResourceExt::name_any, &workload)))
    });
    watches.spawn(pump("deployments", deployments, room.inbox.clone()));

    let client = room.client.clone();
    let pods = per_value(room.gateway_prefix.subscribe(), move |prefix| {
        let pod = move |object: &DeserializeGuard<Pod>| parse::gateway_pod(object.0.as_ref().ok()?, &prefix);
        let pods = follow(Api::namespaced(client.clone(), KUBE_SYSTEM), labelled(), Kind::Foreign);
        sights(pods, move |seen| Event::Pods(change(seen, object_key, &pod)))
    });
    watches.spawn(pump("pods", pods, room.inbox.clone()));

    let nodes = follow(Api::all(room.client.clone()), watcher::Config::default(), Kind::Foreign);
    watches.spawn(pump("nodes", node_health(nodes, room.options.node_grace), room.inbox.clone()));
}

/// How kube-ovn begins the names of gateways' workloads; nothing is known of gateways before this is.
async fn watch_prefix(room: Arc<Room>) {
    let only = watcher::Config::default().fields(&format!("metadata.name={GATEWAY_CONFIG}"));
    let configs = follow::<ConfigMap>(Api::namespaced(room.client.clone(), KUBE_SYSTEM), only, Kind::Foreign);
    let mut configs = std::pin::pin!(configs);
    while let Some(seen) = configs.next().await {
        let config = the_one(seen).unwrap_or_default();
        let prefix = Some(parse::gateway_prefix(&config).to_string());
        room.gateway_prefix.send_if_modified(|known| {
            let changed = *known != prefix;
            known.clone_from(&prefix);
            changed
        });
    }
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
    watches.spawn(pump("vpc-nat-gateways", sights(gateways, event), inbox()));

    let eips = follow::<kube_ovn::IptablesEIP>(Api::all(client()), config(), Kind::Foreign);
    let eip = |object: &DeserializeGuard<kube_ovn::IptablesEIP>| parse::eip(object.0.as_ref().ok()?);
    let event = move |seen| Event::Eips(change(seen, ResourceExt::name_any, eip));
    watches.spawn(pump("iptables-eips", sights(eips, event), inbox()));

    let subnets = follow::<kube_ovn::Subnet>(Api::all(client()), config(), Kind::Foreign);
    let event = |seen| Event::Subnets(change(seen, ResourceExt::name_any, value(parse::subnet)));
    watches.spawn(pump("subnets", sights(subnets, event), inbox()));

    let vpcs = follow::<kube_ovn::Vpc>(Api::all(client()), config(), Kind::Foreign);
    let event = |seen| Event::Vpcs(change(seen, ResourceExt::name_any, value(parse::static_routes)));
    watches.spawn(pump("vpcs", sights(vpcs, event), inbox()));

    let clusters =
        follow::<submariner::Cluster>(Api::namespaced(client(), SUBMARINER), config(), Kind::Foreign);
    let range = |object: &DeserializeGuard<submariner::Cluster>| -> Option<Cidr> {
        object.0.as_ref().ok()?.spec.global_cidr.as_ref()?.first()?.parse().ok()
    };
    let event = move |seen| Event::Globalnets(change(seen, ResourceExt::name_any, range));
    watches.spawn(pump("clusters", sights(clusters, event), inbox()));

    let only = config().fields(&format!("metadata.name={EGRESS}"));
    let egress = follow::<submariner::ClusterGlobalEgressIP>(Api::all(client()), only, Kind::Foreign);
    let event = |seen: Seen<DeserializeGuard<submariner::ClusterGlobalEgressIP>>| {
        let addresses = the_one(seen).and_then(|object| object.status).unwrap_or_default().allocated_ips;
        Event::Egress(addresses.iter().filter_map(|text| parse_address(text).ok()).collect())
    };
    watches.spawn(pump("egress", sights(egress, event), inbox()));
}

/// The coordinates' own watch, shared with the exchange.
pub(super) fn discovery(
    room: &Room,
) -> impl Stream<Item = Seen<DeserializeGuard<submariner::ServiceDiscovery>>> {
    let only = watcher::Config::default().fields(&format!("metadata.name={DISCOVERY}"));
    follow(Api::namespaced(room.client.clone(), SUBMARINER), only, Kind::Foreign)
}

/// Nodes, with a timer: one that has been silent for longer than `grace` counts as lost.
fn node_health(
    nodes: impl Stream<Item = Seen<DeserializeGuard<Node>>> + Send,
    grace: Duration,
) -> impl Stream<Item = Sight> + Send {
    let silent: BTreeMap<String, Instant> = BTreeMap::new();
    futures::stream::unfold((Box::pin(nodes), silent), move |(mut nodes, mut silent)| async move {
        let due = silent.iter().min_by_key(|(_, due)| **due).map(|(name, due)| (name.clone(), *due));
        let seen = match due {
            None => nodes.next().await,
            Some((name, due)) => match tokio::time::timeout_at(due, nodes.next()).await {
                Ok(seen) => seen,
                Err(_) => {
                    silent.remove(&name);
                    let event = Event::Nodes(Change::Put(name, NodeHealth::Lost));
                    return Some((Sight { full: false, event }, (nodes, silent)));
                }
            },
        }?;
        let full = matches!(seen, Seen::All(_));
        if full {
            silent.clear();
        }
        let deadlines = std::cell::RefCell::new(&mut silent);
        let health = |object: &DeserializeGuard<Node>| {
            let (health, since) = parse::node(object.0.as_ref().ok()?);
            deadlines.borrow_mut().remove(&object.name_any());
            if health != NodeHealth::Ready {
                let silent_for = since.map_or(0, |since| Timestamp::now().as_second() - since);
                let left = grace.saturating_sub(Duration::from_secs(silent_for.try_into().unwrap_or(0)));
                deadlines.borrow_mut().insert(object.name_any(), Instant::now() + left);
            }
            Some(health)
        };
        let event = Event::Nodes(change(seen, ResourceExt::name_any, health));
        Some((Sight { full, event }, (nodes, silent)))
    })
}
