//! All that the room knows, and what each event touches.
//!
//! One task feeds events to [`State::apply`] and queues the scopes it returns. Invariant: when `compile` of
//! a scope differs before and after an event, that scope is among those returned, so nothing else ever has
//! to be looked at. What is costly to work out (what is true of a gateway, which of its tunnels may be
//! built) is kept beside what was seen, and worked out anew here, where its inputs change: so `compile` only
//! reads, and an event costs what it touches.

use std::collections::{BTreeMap, BTreeSet};

use super::admission::{Admission, Candidate, Grounds};
use super::compile;
use super::event::{Event, Scope};
use super::exchange::Record;
use super::gateways::{Gateway, Gateways, Preference};
use super::member::Members;
use super::objects::{Ends, StaticRoute, Tunnel};
use super::outcome::{Outcome, Trouble};
use super::own::Own;
use super::records::Records;
use super::tunnels::{Tunnels, gateway_of};
use super::visits::Visits;
use crate::names::{Cidr, ClusterId, GatewayName, ObjectKey};
use crate::room::Change;

pub use super::own::Given;

/// The room's memory: what each watch saw last, and what follows from it.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Counts events, so that "observed after" can be said without a clock.
    revision: u64,
    /// Counts how often what a tunnel needs was worked out.
    resolves: u64,
    pub(super) own: Own,
    pub(super) tunnels: Tunnels,
    pub(super) gateways: Gateways,
    pub(super) routes: BTreeMap<String, BTreeSet<StaticRoute>>,
    pub(super) records: Records,
    pub(super) visits: Visits,
    /// Which tunnels of a gateway may be built; follows from all of the above.
    admissions: BTreeMap<GatewayName, Admission>,
}

type Touched = BTreeSet<Scope>;

impl State {
    /// An empty memory.
    pub fn new(given: Given) -> Self {
        Self { own: Own::new(given), ..Self::default() }
    }

    /// The number of events so far.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How often what a tunnel needs was worked out so far: the cost of events, counted.
    pub fn resolves(&self) -> u64 {
        self.resolves
    }

    /// The tunnel as last seen.
    pub fn tunnel(&self, key: &ObjectKey) -> Option<&Tunnel> {
        self.tunnels.get(key)
    }

    /// All tunnels.
    pub fn tunnels(&self) -> impl Iterator<Item = &Tunnel> {
        self.tunnels.all().values()
    }

    /// What the last visit to a gateway found, if it was to the pod that serves it now.
    pub fn outcome(&self, gateway: &GatewayName) -> Option<&Outcome> {
        compile::current(self, gateway)
    }

    /// Our cluster's id, once known.
    pub fn cluster(&self) -> Option<&ClusterId> {
        self.own.cluster()
    }

    /// Which tunnels of a gateway may be built.
    pub(super) fn admission(&self, gateway: &GatewayName) -> Option<&Admission> {
        self.admissions.get(gateway)
    }

    /// The same knowledge, with all that follows from it worked out from nothing. It must not differ; tests
    /// hold the one against the other.
    pub fn recomputed(&self) -> Self {
        let mut state = Self { admissions: BTreeMap::new(), ..self.clone() };
        state.own.work_out();
        state.work_out_gateways();
        state.admit_all();
        state
    }

    /// Whether all that is kept beside what was seen is as if worked out from nothing.
    pub fn is_consistent(&self) -> bool {
        let anew = self.recomputed();
        let gateways = self.gateways.all_names();
        let same = |name: &GatewayName| self.gateways.get(name) == anew.gateways.get(name);
        self.admissions == anew.admissions && gateways.iter().all(same)
    }

    /// Takes an event in and says what it touches.
    pub fn apply(&mut self, event: Event) -> Touched {
        self.revision += 1;
        match event {
            Event::Tunnels(event) => self.apply_tunnels(event),
            Event::StatefulSets(event) => {
                let names = self.gateways.take_stateful_sets(event);
                self.around_gateways(names)
            }
            Event::Deployments(event) => {
                let names = self.gateways.take_deployments(event);
                self.around_gateways(names)
            }
            Event::Pods(event) => {
                let names = self.gateways.take_pods(event);
                self.around_gateways(names)
            }
            Event::VpcGateways(event) => {
                let names = self.gateways.take_declared(event);
                self.around_gateways(names)
            }
            Event::Eips(event) => {
                let names = self.gateways.take_eips(event);
                self.around_gateways(names)
            }
            Event::Subnets(event) => {
                let names = self.gateways.take_subnets(event);
                self.around_gateways(names)
            }
            Event::Nodes(event) => {
                let names = self.gateways.take_nodes(event);
                self.around_gateways(names)
            }
            Event::Vpcs(event) => self.apply_routes(event),
            Event::Records(event) => self.apply_records(event),
            Event::Copies(event) => self.apply_copies(event),
            Event::Members(event) => match self.own.members.after(event) {
                Some(members) => self.apply_members(members),
                None => Touched::new(),
            },
            Event::NoMembers => self.apply_members(Members::Unkept),
            Event::Identity(cluster) => self.set(|own| &mut own.identity, cluster),
            Event::Joining(namespace) => {
                self.records.join(namespace);
                self.own.members = Members::Unknown;
                self.around_us()
            }
            Event::Uid(uid) => self.set(|own| &mut own.uid, Some(uid)),
            Event::Egress(addresses) => self.set(|own| &mut own.egress, addresses),
            Event::Globalnets(event) => {
                let before = self.own.globalnet();
                event.carry_out(&mut self.own.globalnets);
                if before == self.own.globalnet() { Touched::new() } else { self.around_us() }
            }
            Event::Outcome(gateway, outcome) => self.apply_outcome(gateway, outcome),
        }
    }

    fn set<T: PartialEq>(&mut self, field: impl Fn(&mut Own) -> &mut T, value: T) -> Touched {
        let old = std::mem::replace(field(&mut self.own), value);
        if old == *field(&mut self.own) { Touched::new() } else { self.around_us() }
    }

    /// After a change of what every tunnel rests on.
    fn around_us(&mut self) -> Touched {
        self.own.work_out();
        self.work_out_gateways();
        self.admit_all();
        self.everything()
    }

    /// Every scope there is: for facts that all of them rest on.
    pub fn everything(&self) -> Touched {
        let gateways = self.gateways.names().chain(self.tunnels.gateways()).chain(self.visits.gateways());
        let mut touched: Touched = gateways
            .flat_map(|gateway| [Scope::Gateway(gateway.clone()), Scope::Record(gateway.clone())])
            .chain(self.tunnels.all().keys().cloned().map(Scope::Tunnel))
            .chain([Scope::Membership])
            .collect();
        let records = self.records.here().values();
        touched.extend(records.clone().flat_map(exchanged));
        touched.extend(records.filter_map(|record| record.gateway.clone().map(Scope::Record)));
        touched.extend(self.records.copies().into_iter().flat_map(BTreeMap::values).flat_map(exchanged));
        touched
    }

    fn apply_tunnels(&mut self, event: Change<ObjectKey, Tunnel>) -> Touched {
        let mut touched = Touched::new();
        let mut concerned: BTreeMap<GatewayName, BTreeSet<ObjectKey>> = BTreeMap::new();
        // Until they are listed nothing is done to any gateway.
        let mut anywhere = !self.tunnels.listed() && matches!(event, Change::Reset(_));
        for difference in self.tunnels.take(event, self.revision) {
            if difference.asks {
                for tunnel in [&difference.old, &difference.new].into_iter().flatten() {
                    anywhere |= tunnel.spec.is_err();
                    // A deletion waits for a look at each of them.
                    touched.extend(compile::places(self, tunnel).into_iter().map(Scope::Gateway));
                    if let Some(gateway) = gateway_of(tunnel) {
                        concerned.entry(gateway.clone()).or_default().insert(difference.key.clone());
                    }
                }
            }
            touched.insert(Scope::Tunnel(difference.key));
        }
        if anywhere {
            // What an object has that cannot be understood stays, wherever it is.
            touched.extend(self.gateways.names().cloned().map(Scope::Gateway));
        }
        for (gateway, keys) in concerned {
            touched.extend(self.admit(&gateway, keys).into_iter().map(Scope::Tunnel));
        }
        touched
    }

    /// Decides some tunnels of a gateway anew; gives those of which something else is true now.
    fn admit(
        &mut self,
        gateway: &GatewayName,
        keys: impl IntoIterator<Item = ObjectKey>,
    ) -> BTreeSet<ObjectKey> {
        let located = self.gateways.locate(gateway);
        let local = located.as_ref().map(|located| located.external);
        let grounds = Grounds { local, own: &self.own, records: &self.records };
        let mut candidate = |key: &ObjectKey| {
            let tunnel = self.tunnels.get(key).filter(|tunnel| !tunnel.deleting)?;
            let spec = tunnel.spec.as_ref().ok()?;
            match &spec.ends {
                Ends::ByGateway { gateway: on, peer } if on == gateway => {
                    self.resolves += 1;
                    Some(Candidate::new(tunnel, spec, grounds.resolve(tunnel, spec, peer)))
                }
                Ends::ByGateway { .. } | Ends::ByVpc { .. } => None,
            }
        };
        let changes = keys.into_iter().map(|key| {
            let candidate = candidate(&key);
            (key, candidate)
        });
        let admission = self.admissions.entry(gateway.clone()).or_default();
        let changed = admission.update(changes);
        if admission.is_empty() {
            self.admissions.remove(gateway);
        }
        changed
    }

    fn admit_whole(&mut self, gateway: &GatewayName) {
        let admitted = self.admissions.get(gateway).into_iter().flat_map(Admission::keys);
        let keys: BTreeSet<ObjectKey> = self.tunnels.on(gateway).chain(admitted).cloned().collect();
        self.admit(gateway, keys);
    }

    fn admit_all(&mut self) {
        let gateways: BTreeSet<GatewayName> =
            self.tunnels.gateways().chain(self.admissions.keys()).cloned().collect();
        gateways.iter().for_each(|gateway| self.admit_whole(gateway));
    }

    /// The gateways and their records; where something is true of one that was not, every tunnel that is or
    /// was built on it.
    fn around_gateways(&mut self, names: BTreeSet<GatewayName>) -> Touched {
        let mut touched = Touched::new();
        for name in names {
            // Before what was seen there is forgotten.
            touched.extend(self.leaving(&name));
            self.visits.keep(&name, &self.gateways.pod_uids(&name));
            touched.extend(self.around_gateway(&name));
            touched.insert(Scope::Record(name.clone()));
            touched.insert(Scope::Gateway(name));
        }
        touched
    }

    /// What is to be looked at because something is true of a gateway that was not.
    fn around_gateway(&mut self, name: &GatewayName) -> Touched {
        let Some((old, new)) = self.gateways.work_out(name, &self.preference(name)) else {
            return Touched::new();
        };
        fn local(gateway: &Option<Gateway>) -> Option<Result<std::net::Ipv4Addr, &Trouble>> {
            gateway.as_ref().map(|gateway| gateway.located.as_ref().map(|located| located.external))
        }
        if local(&old) != local(&new) {
            self.admit_whole(name);
        }
        let mut touched = Touched::from([Scope::Record(name.clone()), Scope::Gateway(name.clone())]);
        let build =
            |gateway: &Option<Gateway>| gateway.as_ref().map(|it| (it.pod.clone(), it.located.clone()));
        if build(&old) != build(&new) {
            touched.extend(self.tunnels.on(name).cloned().map(Scope::Tunnel));
        }
        touched.extend(self.leaving(name));
        touched
    }

    /// What speaks for one of several pods of a gateway.
    fn preference(&self, name: &GatewayName) -> Preference {
        let published = self.cluster().and_then(|cluster| self.records.published(cluster, name));
        Preference { serving: self.visits.serving(name).map(Into::into), published }
    }

    fn work_out_gateways(&mut self) {
        for name in self.gateways.all_names() {
            self.gateways.work_out(&name, &self.preference(&name));
        }
    }

    /// The tunnels being deleted that may have something on a gateway.
    fn leaving(&self, gateway: &GatewayName) -> Touched {
        let held = self.tunnels.leaving().iter().filter(|key| self.visits.holds(gateway, key));
        self.tunnels.leaving_from(gateway).chain(held).cloned().map(Scope::Tunnel).collect()
    }

    /// A route matters to the tunnels of the VPC's gateways whose far range it covers.
    fn apply_routes(&mut self, event: Change<String, BTreeSet<StaticRoute>>) -> Touched {
        let mut touched = Touched::new();
        for (vpc, old, new) in event.carry_out(&mut self.routes) {
            let appeared = old.is_none() || new.is_none();
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            let changed: Vec<&StaticRoute> = old.symmetric_difference(&new).collect();
            for (name, located) in self.gateways.in_vpc(&vpc) {
                let Some(admission) = self.admissions.get(name) else { continue };
                if appeared {
                    touched.extend(admission.keys().cloned().map(Scope::Tunnel));
                }
                for route in changed.iter().filter(|route| Some(route.next_hop) == located.lan) {
                    touched.extend(admission.within(route.range).cloned().map(Scope::Tunnel));
                }
            }
        }
        touched
    }

    /// Whether a VPC leads a range to an address; unknown where the VPC is.
    pub(super) fn leads(&self, vpc: &str, range: Cidr, next_hop: std::net::Ipv4Addr) -> Option<bool> {
        let routes = self.routes.get(vpc)?;
        Some(range.covering().any(|range| routes.contains(&StaticRoute { next_hop, range })))
    }

    fn apply_records(&mut self, event: Change<ObjectKey, Record>) -> Touched {
        let mut touched = Touched::new();
        let mut concerned: BTreeMap<GatewayName, BTreeSet<ObjectKey>> = BTreeMap::new();
        let mut ours = BTreeSet::new();
        for (_, old, new) in self.records.take(event) {
            for record in [old, new].into_iter().flatten() {
                ours.extend(record.gateway.clone().filter(|_| record.origin.is_none()));
                touched.extend(exchanged(&record));
                touched.extend(record.gateway.clone().map(Scope::Record));
                touched.extend(self.own.is_former(record.cluster.as_ref()).then_some(Scope::Membership));
                let Some(peer) = record.peer() else { continue };
                for key in self.tunnels.to(&peer) {
                    let Some(gateway) = self.tunnels.get(key).and_then(gateway_of) else { continue };
                    concerned.entry(gateway.clone()).or_default().insert(key.clone());
                }
            }
        }
        for name in ours {
            touched.extend(self.around_gateway(&name));
        }
        for (gateway, keys) in concerned {
            let changed = self.admit(&gateway, keys);
            if !changed.is_empty() {
                touched.insert(Scope::Gateway(gateway));
                touched.extend(changed.into_iter().map(Scope::Tunnel));
            }
        }
        touched
    }

    fn apply_copies(&mut self, event: Change<String, Record>) -> Touched {
        let first = self.records.copies().is_none();
        let changed = self.records.take_copies(event);
        if first && self.records.copies().is_some() {
            // Before the first list nothing could be exported nor swept.
            return self.everything();
        }
        let both = changed.into_iter().flat_map(|(_, old, new)| [old, new]).flatten();
        let mut touched = Touched::new();
        for copy in both {
            touched.extend(exchanged(&copy));
            touched.extend(self.own.is_former(copy.origin.as_ref()).then_some(Scope::Membership));
        }
        touched
    }

    /// Whether our id is ours alone decides about everything; whose the others are, about nothing here. A claim
    /// that was only renewed is no news, least of all our own.
    fn apply_members(&mut self, members: Members) -> Touched {
        let stands = |own: &Own| (own.standing().clone(), own.former().clone());
        let stood = stands(&self.own);
        let before = std::mem::replace(&mut self.own.members, members);
        self.own.work_out();
        match (before == self.own.members, stood == stands(&self.own)) {
            (true, _) => Touched::new(),
            (false, true) => [Scope::Membership].into(),
            (false, false) => self.around_us(),
        }
    }

    /// An outcome matters to the tunnels of which it says something else than the one before.
    fn apply_outcome(&mut self, gateway: GatewayName, outcome: Outcome) -> Touched {
        if !self.gateways.pod_uids(&gateway).contains(outcome.pod_uid.as_str()) {
            // The pod is gone, and what was found there with it.
            return Touched::new();
        }
        let mut touched = self.leaving(&gateway);
        let uid = outcome.pod_uid.clone();
        let serves = self.gateways.pod(&gateway).is_ok_and(|pod| pod.uid == uid);
        let old = self.visits.take(&gateway, outcome, serves);
        let new = self.visits.of_pod(&gateway, &uid);
        let differs = |key: &&ObjectKey| {
            old.as_ref().map(|outcome| outcome.of(key)) != new.map(|outcome| outcome.of(key))
        };
        touched.extend(self.tunnels.on(&gateway).filter(differs).cloned().map(Scope::Tunnel));
        touched.extend(self.leaving(&gateway));
        let clean = |outcome: &Outcome| compile::is_clean(outcome, self.tunnels.unreadable());
        if !serves && old.as_ref().is_some_and(clean) && !new.is_some_and(clean) {
            // A visit that was under way when another pod took over.
            touched.insert(Scope::Gateway(gateway));
        }
        touched
    }
}

/// The scopes at the broker and here that a record may concern.
fn exchanged(record: &Record) -> Vec<Scope> {
    let export = record.copy_name().map(Scope::Export);
    let at_broker = [Scope::Export(record.key.name().into())];
    let here = record.home().map(Scope::Import);
    let itself = [Scope::Import(record.key.clone())];
    at_broker.into_iter().chain(export).chain(here).chain(itself).collect()
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
