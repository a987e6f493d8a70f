//! All that the room knows, and what each event touches.
//!
//! One task feeds events to [`State::apply`] and queues the scopes it returns. Invariant: when
//! `compile` of a scope differs before and after an event, that scope is among those returned, so
//! nothing else ever has to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::compile;
use super::event::{Event, Scope};
use super::exchange::Record;
use super::member::{self, Members};
use super::objects::{
    Eip, Ends, GatewayPod, NodeHealth, Peer, StaticRoute, Subnet, Tunnel, VpcGateway, Workload,
};
use super::outcome::Outcome;
use crate::names::{Cidr, ClusterId, GatewayName, ObjectKey};
use crate::room::Change;

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
    pub(super) eips: BTreeMap<String, Eip>,
    pub(super) subnets: BTreeMap<String, Subnet>,
    pub(super) vpcs: BTreeMap<String, Vec<StaticRoute>>,
    pub(super) nodes: BTreeMap<String, NodeHealth>,
    pub(super) records: BTreeMap<ObjectKey, Record>,
    /// Absent until the broker's first full list.
    pub(super) copies: Option<BTreeMap<String, Record>>,
    pub(super) members: Members,
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
                let changed = event.carry_out(&mut self.stateful_sets);
                self.around_gateways(both(changed).map(|workload| workload.gateway).collect())
            }
            Event::Deployments(event) => {
                let changed = event.carry_out(&mut self.deployments);
                self.around_gateways(both(changed).map(|workload| workload.gateway).collect())
            }
            Event::Pods(event) => {
                let changed = event.carry_out(&mut self.pods);
                self.around_gateways(both(changed).map(|pod: GatewayPod| pod.gateway).collect())
            }
            Event::VpcGateways(event) => {
                let changed = event.carry_out(&mut self.vpc_gateways);
                self.around_gateways(changed.into_iter().filter_map(|(name, ..)| name.parse().ok()).collect())
            }
            Event::Eips(event) => {
                let changed = event.carry_out(&mut self.eips);
                self.around_gateways(both(changed).map(|eip| eip.gateway).collect())
            }
            Event::Subnets(event) => {
                // Few and seldom: every gateway's provider or VPC may come from any of them.
                let changed = !event.carry_out(&mut self.subnets).is_empty();
                if changed { self.everything() } else { Touched::new() }
            }
            Event::Vpcs(event) => {
                let changed: BTreeSet<String> =
                    event.carry_out(&mut self.vpcs).into_iter().map(|(name, ..)| name).collect();
                self.tunnels_in_vpcs(&changed)
            }
            Event::Nodes(event) => {
                let changed: BTreeSet<String> =
                    event.carry_out(&mut self.nodes).into_iter().map(|(name, ..)| name).collect();
                let on = |pod: &&GatewayPod| pod.node.as_ref().is_some_and(|node| changed.contains(node));
                self.around_gateways(self.pods.values().filter(on).map(|pod| pod.gateway.clone()).collect())
            }
            Event::Records(event) => {
                let changed = event.carry_out(&mut self.records);
                self.index_records(&changed);
                self.around_records(changed)
            }
            Event::Copies(event) => self.apply_copies(event),
            Event::Members(event) => {
                let mut members = self.members.clone().known();
                event.carry_out(&mut members);
                self.apply_members(Members::Listed(members))
            }
            Event::NoMembers => self.apply_members(Members::Unkept),
            Event::Identity(cluster) => self.set(|state| &mut state.identity, cluster),
            Event::Joining(namespace) => {
                self.broker_namespace = namespace;
                (self.copies, self.members) = (None, Members::Unknown);
                self.everything()
            }
            Event::Uid(uid) => self.set(|state| &mut state.uid, Some(uid)),
            Event::Egress(addresses) => self.set(|state| &mut state.egress, addresses),
            Event::Globalnets(event) => {
                let changed = !event.carry_out(&mut self.globalnets).is_empty();
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
            .chain([Scope::Membership])
            .collect();
        touched.extend(self.records.values().flat_map(|record| self.exchanged(record)));
        touched.extend(self.records.values().filter_map(|record| record.gateway.clone().map(Scope::Record)));
        touched.extend(self.copies.iter().flat_map(BTreeMap::values).flat_map(|copy| self.exchanged(copy)));
        touched
    }

    fn apply_tunnels(&mut self, event: Change<ObjectKey, Tunnel>) -> Touched {
        let mut touched = Touched::new();
        for (key, old, new) in event.carry_out(&mut self.tunnels) {
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
        let first = self.copies.is_none();
        let changed = event.carry_out(self.copies.get_or_insert_default());
        if first {
            // Before the first list nothing could be exported nor swept.
            return self.everything();
        }
        both(changed).flat_map(|copy| self.exchanged(&copy)).collect()
    }

    /// Whether our id is ours alone decides about everything; whose the others are, about nothing here. A claim
    /// that was only renewed is no news, least of all our own.
    fn apply_members(&mut self, members: Members) -> Touched {
        let standing = member::standing(self);
        let before = std::mem::replace(&mut self.members, members);
        match (before == self.members, standing == member::standing(self)) {
            (true, _) => Touched::new(),
            (false, true) => [Scope::Membership].into(),
            (false, false) => self.everything(),
        }
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

impl crate::room::State for State {
    type Event = Event;
    type Scope = Scope;

    fn apply(&mut self, event: Event) -> Touched {
        State::apply(self, event)
    }

    fn everything(&self) -> Touched {
        State::everything(self)
    }
}
