//! All that the room knows, and what each event touches.
//!
//! One task feeds events to [`State::apply`] and queues the scopes it returns. Invariant: when
//! `compile` of a scope differs before and after an event, that scope is among those returned, so
//! nothing else ever has to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::compile;
use super::exchange::Record;
use super::objects::{Ends, GatewayPod, NodeHealth, Peer, StaticRoute, Subnet, Tunnel, VpcGateway, Workload};
use super::outcome::Outcome;
use crate::names::{Cidr, ClusterId, GatewayName, ObjectKey};

/// What a worker is sent to look after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A gateway's network namespace.
    Gateway(GatewayName),
    /// A tunnel object's status and finalizer.
    Tunnel(ObjectKey),
    /// The record of a gateway of ours.
    Record(GatewayName),
    /// A copy at the broker, by its name there.
    Export(String),
    /// A record of another cluster, here.
    Import(ObjectKey),
}

/// A change in a set of objects: one of them, or all at once after a list.
#[derive(Debug, Clone)]
pub enum Change<K, V> {
    /// Added or changed.
    Put(K, V),
    /// Gone.
    Gone(K),
    /// These, and no others.
    Reset(BTreeMap<K, V>),
}

/// Something that was seen.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "an event lives only from a watch to the state")]
pub enum Event {
    /// Tunnels.
    Tunnels(Change<ObjectKey, Tunnel>),
    /// Gateway workloads that are StatefulSets.
    StatefulSets(Change<String, Workload>),
    /// Gateway workloads that are Deployments.
    Deployments(Change<String, Workload>),
    /// Gateway pods.
    Pods(Change<ObjectKey, GatewayPod>),
    /// kube-ovn's gateways.
    VpcGateways(Change<String, VpcGateway>),
    /// kube-ovn's subnets.
    Subnets(Change<String, Subnet>),
    /// The VPCs' static routes.
    Vpcs(Change<String, Vec<StaticRoute>>),
    /// Nodes.
    Nodes(Change<String, NodeHealth>),
    /// Gateway records in this cluster: our own and imported ones.
    Records(Change<ObjectKey, Record>),
    /// Gateway records at the broker by name.
    Copies(Change<String, Record>),
    /// Who we are.
    Identity(Option<ClusterId>),
    /// What tells us from another cluster that claims our id.
    Uid(String),
    /// The namespace of the exchange at the broker.
    BrokerNamespace(String),
    /// Clusters' ranges of global addresses.
    Globalnets(Change<String, Cidr>),
    /// The addresses that our traffic appears to come from elsewhere.
    Egress(Vec<Ipv4Addr>),
    /// How a visit to a gateway went.
    Outcome(GatewayName, Outcome),
}

/// Values that people give by flag, which win over what is observed.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The cluster's id.
    pub cluster: Option<ClusterId>,
    /// Its range of global addresses.
    pub globalnet: Option<Cidr>,
    /// Its egress addresses.
    pub egress: Vec<Ipv4Addr>,
}

/// The room's memory: the last word of each watch, and two indexes.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Counts events, so that "observed after" can be said without a clock.
    pub(super) revision: u64,
    pub(super) given: Given,
    pub(super) identity: Option<ClusterId>,
    pub(super) uid: Option<String>,
    /// Where the broker keeps the copies; what lies there is never exported again.
    pub(super) broker_namespace: String,
    pub(super) globalnets: BTreeMap<String, Cidr>,
    pub(super) egress: Vec<Ipv4Addr>,
    pub(super) tunnels: BTreeMap<ObjectKey, Tunnel>,
    /// The revision at which what a tunnel asks for was last seen to change.
    pub(super) asked: BTreeMap<ObjectKey, u64>,
    stateful_sets: BTreeMap<String, Workload>,
    deployments: BTreeMap<String, Workload>,
    pub(super) pods: BTreeMap<ObjectKey, GatewayPod>,
    pub(super) vpc_gateways: BTreeMap<String, VpcGateway>,
    pub(super) subnets: BTreeMap<String, Subnet>,
    pub(super) vpcs: BTreeMap<String, Vec<StaticRoute>>,
    pub(super) nodes: BTreeMap<String, NodeHealth>,
    pub(super) records: BTreeMap<ObjectKey, Record>,
    /// Absent until the broker's first full list.
    pub(super) copies: Option<BTreeMap<String, Record>>,
    pub(super) outcomes: BTreeMap<GatewayName, Outcome>,
    by_gateway: BTreeMap<GatewayName, BTreeSet<ObjectKey>>,
    by_peer: BTreeMap<Peer, BTreeSet<ObjectKey>>,
    /// Where the record of a peer is.
    peers: BTreeMap<Peer, BTreeSet<ObjectKey>>,
    /// Tunnels that can not be understood and are not being deleted.
    unreadable: BTreeSet<ObjectKey>,
    /// Tunnels that are being deleted.
    leaving: BTreeSet<ObjectKey>,
}

/// Carries a change out on a map and returns what really differs: key, before, after.
fn change<K: Ord + Clone, V: PartialEq + Clone>(
    map: &mut BTreeMap<K, V>,
    change: Change<K, V>,
) -> Vec<(K, Option<V>, Option<V>)> {
    let mut differences = Vec::new();
    match change {
        Change::Put(key, new) => {
            let old = map.insert(key.clone(), new.clone());
            differences.push((key, old, Some(new)));
        }
        Change::Gone(key) => {
            let old = map.remove(&key);
            differences.push((key, old, None));
        }
        Change::Reset(new) => {
            let old = std::mem::replace(map, new.clone());
            let keys: BTreeSet<K> = old.keys().chain(new.keys()).cloned().collect();
            let pair = |key: K| (key.clone(), old.get(&key).cloned(), new.get(&key).cloned());
            differences.extend(keys.into_iter().map(pair));
        }
    }
    differences.retain(|(_, old, new)| old != new);
    differences
}

type Touched = BTreeSet<Scope>;

impl State {
    /// An empty memory.
    pub fn new(given: Given) -> Self {
        Self { given, ..Self::default() }
    }

    /// The number of events so far.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The tunnel as last seen.
    pub fn tunnel(&self, key: &ObjectKey) -> Option<&Tunnel> {
        self.tunnels.get(key)
    }

    /// All tunnels.
    pub fn tunnels(&self) -> impl Iterator<Item = &Tunnel> {
        self.tunnels.values()
    }

    /// What the last visit to a gateway found.
    pub fn outcome(&self, gateway: &GatewayName) -> Option<&Outcome> {
        self.outcomes.get(gateway)
    }

    /// Our cluster's id, once known.
    pub fn cluster(&self) -> Option<&ClusterId> {
        self.given.cluster.as_ref().or(self.identity.as_ref())
    }

    /// A copy at the broker that another cluster wrote under our id. While there is one, nothing of ours is
    /// written there: the two would undo each other's work for ever.
    pub(super) fn namesake(&self) -> Option<&Record> {
        let (ours, cluster) = (self.uid.as_ref()?, self.cluster()?);
        let theirs = |copy: &&Record| {
            copy.origin.as_ref() == Some(cluster) && copy.writer.as_ref().is_some_and(|writer| writer != ours)
        };
        self.copies.iter().flat_map(BTreeMap::values).find(theirs)
    }

    pub(super) fn globalnet(&self) -> Option<Cidr> {
        let observed = || self.globalnets.get(self.cluster()?.as_str()).copied();
        self.given.globalnet.or_else(observed)
    }

    pub(super) fn egress(&self) -> &[Ipv4Addr] {
        if self.given.egress.is_empty() { &self.egress } else { &self.given.egress }
    }

    /// The tunnels that name a gateway of ours.
    pub(super) fn tunnels_of(&self, gateway: &GatewayName) -> impl Iterator<Item = &Tunnel> {
        let keys = self.by_gateway.get(gateway).into_iter().flatten();
        keys.filter_map(|key| self.tunnels.get(key))
    }

    /// The tunnels whose text makes no sense; what they have stays.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &ObjectKey> {
        self.unreadable.iter()
    }

    fn leaving(&self) -> impl Iterator<Item = Scope> {
        self.leaving.iter().cloned().map(Scope::Tunnel)
    }

    /// Every gateway that is known by workload or pod.
    pub fn gateways(&self) -> BTreeSet<&GatewayName> {
        let running = self.pods.values().map(|pod| &pod.gateway);
        self.workloads().map(|workload| &workload.gateway).chain(running).collect()
    }

    /// The gateways' workloads of both kinds.
    pub(super) fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.stateful_sets.values().chain(self.deployments.values())
    }

    /// Takes an event in and says what it touches.
    pub fn apply(&mut self, event: Event) -> Touched {
        self.revision += 1;
        match event {
            Event::Tunnels(event) => self.apply_tunnels(event),
            Event::StatefulSets(event) => {
                let changed = change(&mut self.stateful_sets, event);
                self.around_gateways(both(changed).map(|workload| workload.gateway).collect())
            }
            Event::Deployments(event) => {
                let changed = change(&mut self.deployments, event);
                self.around_gateways(both(changed).map(|workload| workload.gateway).collect())
            }
            Event::Pods(event) => {
                let changed = change(&mut self.pods, event);
                self.around_gateways(both(changed).map(|pod: GatewayPod| pod.gateway).collect())
            }
            Event::VpcGateways(event) => {
                let changed = change(&mut self.vpc_gateways, event);
                self.around_gateways(changed.into_iter().filter_map(|(name, ..)| name.parse().ok()).collect())
            }
            Event::Subnets(event) => {
                // Few and seldom: every gateway's provider or VPC may come from any of them.
                let changed = !change(&mut self.subnets, event).is_empty();
                if changed { self.everything() } else { Touched::new() }
            }
            Event::Vpcs(event) => {
                let changed: BTreeSet<String> =
                    change(&mut self.vpcs, event).into_iter().map(|(name, ..)| name).collect();
                self.tunnels_in_vpcs(&changed)
            }
            Event::Nodes(event) => {
                let changed: BTreeSet<String> =
                    change(&mut self.nodes, event).into_iter().map(|(name, ..)| name).collect();
                let on = |pod: &&GatewayPod| pod.node.as_ref().is_some_and(|node| changed.contains(node));
                self.around_gateways(self.pods.values().filter(on).map(|pod| pod.gateway.clone()).collect())
            }
            Event::Records(event) => {
                let changed = change(&mut self.records, event);
                self.index_records(&changed);
                self.around_records(changed)
            }
            Event::Copies(event) => self.apply_copies(event),
            Event::Identity(cluster) => self.set(|state| &mut state.identity, cluster),
            Event::BrokerNamespace(name) => self.set(|state| &mut state.broker_namespace, name),
            Event::Uid(uid) => self.set(|state| &mut state.uid, Some(uid)),
            Event::Egress(addresses) => self.set(|state| &mut state.egress, addresses),
            Event::Globalnets(event) => {
                let changed = !change(&mut self.globalnets, event).is_empty();
                if changed { self.everything() } else { Touched::new() }
            }
            Event::Outcome(gateway, outcome) => self.apply_outcome(gateway, outcome),
        }
    }

    fn set<T: PartialEq>(&mut self, field: impl Fn(&mut Self) -> &mut T, value: T) -> Touched {
        let old = std::mem::replace(field(self), value);
        if old == *field(self) { Touched::new() } else { self.everything() }
    }

    /// Every scope there is: for facts that all of them rest on.
    pub fn everything(&self) -> Touched {
        let gateways = self.gateways().into_iter().chain(self.by_gateway.keys()).chain(self.outcomes.keys());
        let mut touched: Touched = gateways
            .flat_map(|gateway| [Scope::Gateway(gateway.clone()), Scope::Record(gateway.clone())])
            .chain(self.tunnels.keys().cloned().map(Scope::Tunnel))
            .collect();
        touched.extend(self.records.values().flat_map(|record| self.exchanged(record)));
        touched.extend(self.records.values().filter_map(|record| record.gateway.clone().map(Scope::Record)));
        touched.extend(self.copies.iter().flat_map(BTreeMap::values).flat_map(|copy| self.exchanged(copy)));
        touched
    }

    fn apply_tunnels(&mut self, event: Change<ObjectKey, Tunnel>) -> Touched {
        let mut touched = Touched::new();
        for (key, old, new) in change(&mut self.tunnels, event) {
            touched.insert(Scope::Tunnel(key.clone()));
            let asks = |tunnel: &Option<Tunnel>| {
                tunnel.as_ref().map(|t| (t.uid.clone(), t.spec.clone(), t.deleting, t.created))
            };
            if asks(&old) == asks(&new) {
                // A status or finalizer write, most often our own: nothing to build.
                continue;
            }
            self.asked.insert(key.clone(), self.revision);
            if let Some(tunnel) = &old {
                self.index(tunnel, false);
            }
            match &new {
                Some(tunnel) => self.index(tunnel, true),
                None => drop(self.asked.remove(&key)),
            }
            if [&old, &new].into_iter().flatten().any(|tunnel| tunnel.spec.is_err()) {
                // What it has may be anywhere.
                touched.extend(self.gateways().into_iter().cloned().map(Scope::Gateway));
            }
            for tunnel in [&old, &new].into_iter().flatten() {
                // A deletion waits for a look at each of them.
                touched.extend(compile::places(self, tunnel).into_iter().map(Scope::Gateway));
                // It may have stood in the way of a neighbour, or may now.
                let neighbours = gateway_of(tunnel).into_iter().flat_map(|gateway| self.tunnels_of(gateway));
                touched.extend(neighbours.map(|t| Scope::Tunnel(t.key.clone())));
            }
        }
        touched
    }

    fn index(&mut self, tunnel: &Tunnel, present: bool) {
        let mark = |set: &mut BTreeSet<ObjectKey>, is: bool| {
            if present && is { set.insert(tunnel.key.clone()) } else { set.remove(&tunnel.key) }
        };
        mark(&mut self.unreadable, tunnel.spec.is_err() && !tunnel.deleting);
        mark(&mut self.leaving, tunnel.deleting);
        let Ok(Ends::ByGateway { gateway, peer }) = tunnel.spec.as_ref().map(|spec| &spec.ends) else {
            return;
        };
        if present {
            self.by_gateway.entry(gateway.clone()).or_default().insert(tunnel.key.clone());
            self.by_peer.entry(peer.clone()).or_default().insert(tunnel.key.clone());
        } else {
            remove(&mut self.by_gateway, gateway, &tunnel.key);
            remove(&mut self.by_peer, peer, &tunnel.key);
        }
    }

    /// The gateways, their records, and every tunnel that is or was built on them.
    fn around_gateways(&self, gateways: BTreeSet<GatewayName>) -> Touched {
        let mut touched = Touched::new();
        for gateway in gateways {
            touched.extend(self.tunnels_of(&gateway).map(|t| Scope::Tunnel(t.key.clone())));
            touched.extend(self.leaving());
            touched.insert(Scope::Record(gateway.clone()));
            touched.insert(Scope::Gateway(gateway));
        }
        touched
    }

    fn index_records(&mut self, changed: &[(ObjectKey, Option<Record>, Option<Record>)]) {
        for (key, old, new) in changed {
            if let Some(peer) = old.as_ref().and_then(Record::peer) {
                remove(&mut self.peers, &peer, key);
            }
            if let Some(peer) = new.as_ref().and_then(Record::peer) {
                self.peers.entry(peer).or_default().insert(key.clone());
            }
        }
    }

    /// The records that stand for a peer; more than one only when namespaces differ.
    pub(super) fn records_of(&self, peer: &Peer) -> impl Iterator<Item = &Record> {
        let keys = self.peers.get(peer).into_iter().flatten();
        keys.filter_map(|key| self.records.get(key))
    }

    fn around_records(&self, changed: Vec<(ObjectKey, Option<Record>, Option<Record>)>) -> Touched {
        let mut touched = Touched::new();
        for (_, old, new) in changed {
            for record in [old, new].into_iter().flatten() {
                touched.extend(self.exchanged(&record));
                touched.extend(record.gateway.clone().map(Scope::Record));
                let Some(peer) = record.peer() else { continue };
                let users = self.by_peer.get(&peer).into_iter().flatten();
                let gateways = users.filter_map(|key| gateway_of(self.tunnels.get(key)?));
                for gateway in gateways {
                    touched.insert(Scope::Gateway(gateway.clone()));
                    touched.extend(self.tunnels_of(gateway).map(|t| Scope::Tunnel(t.key.clone())));
                }
            }
        }
        touched
    }

    fn apply_copies(&mut self, event: Change<String, Record>) -> Touched {
        let (first, contested) = (self.copies.is_none(), self.namesake().is_some());
        let changed = change(self.copies.get_or_insert_default(), event);
        if first || contested != self.namesake().is_some() {
            // Before the first list, and beside a namesake, nothing could be exported nor swept.
            return self.everything();
        }
        both(changed).flat_map(|copy| self.exchanged(&copy)).collect()
    }

    /// The scopes at the broker and here that a record may concern.
    fn exchanged(&self, record: &Record) -> Vec<Scope> {
        let export = record.copy_name().map(Scope::Export);
        let at_broker = [Scope::Export(record.key.name.clone())];
        let here = record.home().map(Scope::Import);
        let itself = [Scope::Import(record.key.clone())];
        at_broker.into_iter().chain(export).chain(here).chain(itself).collect()
    }

    fn tunnels_in_vpcs(&self, vpcs: &BTreeSet<String>) -> Touched {
        if vpcs.is_empty() {
            return Touched::new();
        }
        self.tunnels.keys().cloned().map(Scope::Tunnel).collect()
    }

    fn apply_outcome(&mut self, gateway: GatewayName, outcome: Outcome) -> Touched {
        let new = outcome.clone();
        let old = self.outcomes.insert(gateway.clone(), outcome);
        let differs = |key: &ObjectKey| old.as_ref().is_none_or(|old| old.of(key) != new.of(key));
        let here = self.tunnels_of(&gateway).map(|t| &t.key).filter(|key| differs(key));
        here.cloned().map(Scope::Tunnel).chain(self.leaving()).collect()
    }
}

/// The gateway of ours that a tunnel names.
pub(super) fn gateway_of(tunnel: &Tunnel) -> Option<&GatewayName> {
    match &tunnel.spec.as_ref().ok()?.ends {
        Ends::ByGateway { gateway, .. } => Some(gateway),
        Ends::ByVpc { .. } => None,
    }
}

fn both<K, V>(changed: Vec<(K, Option<V>, Option<V>)>) -> impl Iterator<Item = V> {
    changed.into_iter().flat_map(|(_, old, new)| [old, new]).flatten()
}

fn remove<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = index.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            index.remove(key);
        }
    }
}
