//! Watches of the cluster: what is seen of objects becomes events of the state.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_api::vpc::foreign::kubernetes::{Deployment, Pod, StatefulSet};
use causeway_api::vpc::foreign::{kube_ovn, submariner};
use causeway_api::vpc::{GatewayExIp, LooseTunnel, parse};
use causeway_core::Ipv4Cidr;
use causeway_core::names::parse_address;
use causeway_core::vpc::exchange::Record;
use causeway_core::vpc::nodes::Nodes;
use causeway_core::vpc::objects::{NodeHealth, Workload};
use causeway_core::vpc::{Change, Event};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, Resource};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Vpc;
use crate::clock::Clock;
use crate::follow::{Interruption, Seen, Watch};
use crate::found::{Found, by_key, by_name, keyed};
use crate::sources::{Feed, Sources, Standing};

/// Where kube-ovn keeps gateways.
const KUBE_SYSTEM: &str = "kube-system";
/// Where kube-ovn is configured how to make them.
const GATEWAY_CONFIG: &str = "ovn-vpc-nat-config";
/// Where Submariner keeps its own.
pub(super) const SUBMARINER: &str = "submariner-operator";
const EGRESS: &str = "cluster-egress.submariner.io";

/// Starts all watches of the room.
pub(super) fn start(room: &Arc<Vpc>, sources: &mut Sources<'_, Vpc>) {
    start_own(room, sources);
    start_gateways(room, sources);
    start_kube_ovn(room, sources);
    start_submariner(room, sources);
}

/// A record that cannot be decoded counts as present.
pub(super) fn record(object: &Found<GatewayExIp>) -> Option<Record> {
    match &object.0 {
        Ok(object) => parse::record(object),
        Err(invalid) => parse::unreadable_record(&invalid.metadata, &invalid.error.to_string()),
    }
}

fn start_own(room: &Arc<Vpc>, sources: &mut Sources<'_, Vpc>) {
    let client = || room.house.client.clone();
    let tunnels = Watch::<LooseTunnel>::new(Api::all(client()));
    sources.watch("vpcnattunnels", tunnels, by_key(parse::loose_tunnel), |change, _| Event::Tunnels(change));
    // Listed anew now and then: both sides of the exchange are compared as a whole.
    let records = Watch::<GatewayExIp>::new(Api::all(client())).resync(room.options.resync_interval);
    let by_key = |object: &Found<GatewayExIp>| keyed(object, record(object));
    sources.watch("gatewayexips", records, by_key, |change, _| Event::Records(change));
}

/// What gateways are: listed anew when kube-ovn is configured to name them otherwise.
fn start_gateways(room: &Arc<Vpc>, sources: &mut Sources<'_, Vpc>) {
    if room.options.gateway_prefix.is_none() {
        sources.task("configmaps", |feed| follow_prefix(feed, room.clone()));
    }
    let set = |set: &StatefulSet, prefix: &str| -> Option<Workload> {
        parse::workload(&set.metadata, &set.spec, &set.status, prefix)
    };
    sources.task("statefulsets", |feed| follow_named(feed, room.clone(), set, Event::StatefulSets));
    let deployment = |deployment: &Deployment, prefix: &str| -> Option<Workload> {
        parse::workload(&deployment.metadata, &deployment.spec, &deployment.status, prefix)
    };
    sources.task("deployments", |feed| follow_named(feed, room.clone(), deployment, Event::Deployments));
    sources.task("pods", |feed| follow_pods(feed, room.clone()));
    let nodes = Watch::new(Api::all(room.house.client.clone()));
    let (grace, clock) = (room.options.node_grace, room.house.clock);
    sources.task("nodes", |feed| follow_nodes(feed, nodes, grace, clock));
}

fn gateways_only<K>(room: &Vpc) -> Watch<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Watch::new(Api::namespaced(room.house.client.clone(), KUBE_SYSTEM)).labels(parse::GATEWAY_LABEL)
}

/// Follows workloads, over again whenever the prefix of their names changes; it waits for the first one.
async fn follow_named<K>(
    feed: Feed<Vpc>,
    room: Arc<Vpc>,
    value: fn(&K, &str) -> Option<Workload>,
    event: fn(Change<String, Workload>) -> Event,
) where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let follow = |prefix: String| {
        let convert = by_name(move |object: &K| value(object, &prefix));
        feed.clone().follow(gateways_only(&room), convert, move |change, _| event(change))
    };
    per_prefix(&room, follow).await;
}

async fn follow_pods(feed: Feed<Vpc>, room: Arc<Vpc>) {
    let follow = |prefix: String| {
        let convert = by_key(move |pod: &Pod| parse::gateway_pod(pod, &prefix));
        feed.clone().follow(gateways_only(&room), convert, |change, _| Event::Pods(change))
    };
    per_prefix(&room, follow).await;
}

async fn per_prefix<F: Future<Output = ()>>(room: &Vpc, follow: impl Fn(String) -> F) {
    let mut prefixes = room.gateway_prefix.subscribe();
    loop {
        let Ok(prefix) = prefixes.wait_for(Option::is_some).await.map(|prefix| prefix.clone()) else {
            return;
        };
        tokio::select! {
            biased;
            () = follow(prefix.unwrap_or_default()) => {}
            _ = prefixes.changed() => {}
        }
    }
}

/// How kube-ovn begins the names of gateways' workloads; nothing is known of gateways before this is.
async fn follow_prefix(feed: Feed<Vpc>, room: Arc<Vpc>) {
    let configs = Watch::<ConfigMap>::new(Api::namespaced(room.house.client.clone(), KUBE_SYSTEM))
        .named(GATEWAY_CONFIG);
    let tell = |seen: Result<Seen<String, ConfigMap>, Interruption>| {
        let standing = Standing::of(&seen);
        if let Some(config) = seen.ok().and_then(only) {
            let prefix = Some(parse::gateway_prefix(&config.unwrap_or_default()).to_string());
            room.gateway_prefix.send_if_modified(|known| {
                let changed = *known != prefix;
                known.clone_from(&prefix);
                changed
            });
        }
        feed.note(standing);
    };
    match configs.follow(feed.pace(), by_name(|config: &ConfigMap| Some(config.clone())), tell).await {}
}

/// The object of a watch on one name, or that there is none; nothing where that cannot be seen, as while the
/// kind's definition is installed anew: then what is known stays.
pub(super) fn only<V>(seen: Seen<String, V>) -> Option<Option<V>> {
    match seen {
        Seen::All { objects, .. } => Some(objects.into_values().next()),
        Seen::Put(_, object, _) => Some(Some(object)),
        Seen::Gone(..) => Some(None),
        Seen::Missing | Seen::Forbidden(_) => None,
    }
}

fn start_kube_ovn(room: &Arc<Vpc>, sources: &mut Sources<'_, Vpc>) {
    let client = || room.house.client.clone();
    let gateways = Watch::<kube_ovn::VpcNatGateway>::new(Api::all(client()));
    sources.watch(
        "vpc-nat-gateways",
        gateways,
        by_name(|gateway| Some(parse::vpc_gateway(gateway))),
        |change, _| Event::VpcGateways(change),
    );
    let eips = Watch::<kube_ovn::IptablesEIP>::new(Api::all(client()));
    sources.watch("iptables-eips", eips, by_name(parse::eip), |change, _| Event::Eips(change));
    let subnets = Watch::<kube_ovn::Subnet>::new(Api::all(client()));
    sources.watch("subnets", subnets, by_name(|subnet| Some(parse::subnet(subnet))), |change, _| {
        Event::Subnets(change)
    });
    let vpcs = Watch::<kube_ovn::Vpc>::new(Api::all(client()));
    sources.watch("vpcs", vpcs, by_name(|vpc| Some(parse::vpc(vpc))), |change, _| Event::Vpcs(change));
}

/// What Submariner says of this cluster, unless it is given: what is not read needs no right to be read.
fn start_submariner(room: &Arc<Vpc>, sources: &mut Sources<'_, Vpc>) {
    let client = || room.house.client.clone();
    if room.options.given.globalnet.is_none() {
        let clusters = Watch::<submariner::Cluster>::new(Api::namespaced(client(), SUBMARINER));
        let range = |cluster: &submariner::Cluster| -> Option<Ipv4Cidr> {
            cluster.spec.global_cidr.as_ref()?.first()?.parse().ok()
        };
        sources.watch("clusters", clusters, by_name(range), |change, _| Event::Globalnets(change));
    }
    if room.options.given.egress.is_empty() {
        let egress = Watch::<submariner::ClusterGlobalEgressIP>::new(Api::all(client())).named(EGRESS);
        sources.task("clusterglobalegressips", |feed| follow_egress(feed, egress));
    }
}

async fn follow_egress(feed: Feed<Vpc>, egress: Watch<submariner::ClusterGlobalEgressIP>) {
    let tell = |seen: Result<Seen<String, Vec<String>>, Interruption>| {
        let standing = Standing::of(&seen);
        if let Some(addresses) = seen.ok().and_then(only) {
            let addresses = addresses.unwrap_or_default();
            feed.tell(Event::Egress(addresses.iter().filter_map(|text| parse_address(text).ok()).collect()));
        }
        feed.note(standing);
    };
    let allocated = |object: &submariner::ClusterGlobalEgressIP| {
        Some(object.status.clone().unwrap_or_default().allocated_ips)
    };
    match egress.follow(feed.pace(), by_name(allocated), tell).await {}
}

/// Nodes, with a timer: one that has been silent for longer than `grace` counts as lost.
async fn follow_nodes(feed: Feed<Vpc>, watch: Watch<Node>, grace: Duration, clock: Clock) {
    let now = || clock.now().as_second();
    let nodes = Mutex::new(Nodes::new(i64::try_from(grace.as_secs()).unwrap_or(i64::MAX)));
    let lock = || nodes.lock().unwrap_or_else(PoisonError::into_inner);
    let changed = Notify::new();
    let follow = feed.clone().follow(watch, by_name(|node| Some(parse::node(node))), |change, _| {
        let event = Event::Nodes(lock().take(change, now()));
        changed.notify_one();
        event
    });
    let expire = async {
        loop {
            let lost = lock().lost(now());
            lost.into_iter().for_each(|name| feed.tell(Event::Nodes(Change::Put(name, NodeHealth::Lost))));
            let next = lock().next();
            match next.map(|next| Duration::from_secs(u64::try_from(next - now()).unwrap_or(0))) {
                Some(left) => drop(timeout(left, changed.notified()).await),
                None => changed.notified().await,
            }
        }
    };
    tokio::select! {
        biased;
        () = follow => {}
        () = expire => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_is_missing_for_a_while_says_nothing_of_the_one_object() {
        let all = |objects: &[(&str, u8)]| Seen::All {
            objects: objects.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            version: String::new(),
        };
        assert_eq!(only(all(&[("it", 1)])), Some(Some(1)));
        assert_eq!(only(all(&[])), Some(None));
        assert_eq!(only(Seen::Gone::<_, u8>("it".into(), "7".into())), Some(None));
        assert_eq!(only::<u8>(Seen::Missing), None);
        assert_eq!(only::<u8>(Seen::Forbidden("no".into())), None);
    }
}
