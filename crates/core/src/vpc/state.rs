//! All that is known, and what each event touches.
//!
//! The loop feeds events to [`State::apply`] and queues the scopes it returns. Invariant: when `compile` of
//! a scope differs before and after an event, that scope is among those returned, so nothing else ever has
//! to be looked at. What is costly to work out (what is true of a gateway, which of its tunnels may be built)
//! is kept beside what was seen, and worked out anew where its inputs change: so `compile` only reads, and an
//! event costs what it touches.
//!
//! This file is what is known; `state/` is what an event touches, one file per thing that events are about.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::admission::Admission;
use super::compile;
use super::event::{Event, Scope};
use super::gateways::Gateways;
use super::mains::Main;
use super::member::{Member, Members};
use super::objects::{StaticRoute, Tunnel, Vpc};
use super::outcome::{Outcome, Trouble};
use super::own::Own;
use super::published::Published;
use super::ranges::Ranges;
use super::reach::{Reach, Reaches};
use super::records::Records;
use super::status::READY;
use super::stayed::Stayed;
use super::tunnels::Tunnels;
use super::visits::Visits;
use crate::names::{ClusterId, GatewayName, Ipv4Cidr, ObjectKey};

mod ends;
mod gateways;
mod mains;
mod records;
mod tunnels;

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
    pub(super) vpcs: BTreeMap<String, Vpc>,
    pub(super) records: Records,
    /// Which cluster claims which addresses; follows from the records and from what Submariner says.
    ranges: Ranges,
    pub(super) ends: Published,
    pub(super) visits: Visits,
    pub(super) reaches: Reaches,
    /// The gateways that are silent, to whom.
    silent: BTreeMap<GatewayName, BTreeSet<GatewayName>>,
    /// The gateways that listen to others.
    listening: BTreeSet<GatewayName>,
    /// Which gateway of a VPC is the main one; follows from all of the above.
    mains: BTreeMap<String, Main>,
    /// What a switch on purpose left where it was, by VPC; the same.
    pub(super) stayed: BTreeMap<String, Stayed>,
    /// Which tunnels of a gateway may be built; follows from all of the above.
    admissions: BTreeMap<GatewayName, Admission>,
}

type Touched = BTreeSet<Scope>;

impl State {
    /// An empty memory.
    pub fn new(given: Given) -> Self {
        let mut records = Records::new(given.records_per_member);
        let ends = Published::new(given.records_per_member);
        let own = Own::new(given);
        records.know_own(own.cluster());
        Self { own, records, ends, ..Self::default() }
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

    /// Whether any tunnel on a gateway says that it is ready.
    pub fn is_any_ready(&self, gateway: &GatewayName) -> bool {
        let mut tunnels = self.on(gateway).filter_map(|key| self.tunnels.get(key));
        tunnels.any(|tunnel| tunnel.status.conditions.is_true(READY))
    }

    /// Why a tunnel of a gateway rests on what was last known, if it does.
    pub fn doubt(&self, gateway: &GatewayName, key: &ObjectKey) -> Option<&Trouble> {
        self.admission(gateway)?.doubt(key)
    }

    /// What is known of the peer of a tunnel on a gateway.
    pub fn reach(&self, gateway: &GatewayName, key: &ObjectKey) -> Reach {
        self.reaches.of(gateway, key)
    }

    /// How long the peer of a tunnel takes to answer, in microseconds.
    pub fn round_trip(&self, gateway: &GatewayName, key: &ObjectKey) -> Option<u32> {
        self.reaches.micros(gateway, key)
    }

    /// Our cluster's id, once known.
    pub fn cluster(&self) -> Option<&ClusterId> {
        self.own.cluster()
    }

    /// Our claim to our id, once both are known.
    pub fn ourselves(&self) -> Option<Member> {
        self.own.ourselves()
    }

    /// The members that have published more records than are brought here, and how many more.
    pub fn exceeding_members(&self) -> impl Iterator<Item = (&ClusterId, usize)> {
        self.records.exceeded()
    }

    /// How many ends of tunnels are not compared because their clusters have published more than are.
    pub fn ends_left(&self) -> usize {
        self.ends.left()
    }

    /// Which tunnels of a gateway may be built.
    pub(super) fn admission(&self, gateway: &GatewayName) -> Option<&Admission> {
        self.admissions.get(gateway)
    }

    /// Whether a VPC leads a range to an address; unknown where the VPC is.
    pub(super) fn leads(&self, vpc: &str, range: Ipv4Cidr, next_hop: Ipv4Addr) -> Option<bool> {
        let routes = &self.vpcs.get(vpc)?.routes;
        Some(range.covering().any(|range| routes.contains(&StaticRoute { next_hop, range })))
    }

    /// Whether the VPC of a gateway leads a range to it: the VPC, the gateway's address there, and the answer. Nothing where
    /// any of that is not known.
    pub fn routed(&self, gateway: &GatewayName, range: Ipv4Cidr) -> Option<(&str, Ipv4Addr, bool)> {
        let located = self.gateways.locate(gateway).ok()?;
        let (vpc, lan) = (located.vpc.as_deref()?, located.lan?);
        Some((vpc, lan, self.leads(vpc, range, lan)?))
    }

    /// The same knowledge, with all that follows from it worked out from nothing. It must not differ; tests
    /// hold the one against the other.
    pub fn recomputed(&self) -> Self {
        let (admissions, mains, ends) = (BTreeMap::new(), BTreeMap::new(), self.ends.recomputed());
        let (ranges, stayed) = (self.claimed_ranges(), BTreeMap::new());
        let mut state = Self { admissions, mains, stayed, ends, ranges, ..self.clone() };
        state.own.work_out();
        state.work_out_gateways();
        state.elect_all();
        state.admit_all();
        state.take_stock_of_all();
        state
    }

    /// Whether all that is kept beside what was seen is as if worked out from nothing.
    pub fn is_consistent(&self) -> bool {
        let anew = self.recomputed();
        let gateways = self.gateways.all_names();
        let same = |name: &GatewayName| self.gateways.get(name) == anew.gateways.get(name);
        let same_ranges = self.ranges == anew.ranges;
        same_ranges
            && self.ends == anew.ends
            && self.mains == anew.mains
            && self.stayed == anew.stayed
            && self.admissions == anew.admissions
            && gateways.iter().all(same)
    }

    /// Takes an event in and says what it touches.
    pub fn apply(&mut self, event: Event) -> Touched {
        self.revision += 1;
        let touched = self.take(event);
        self.with_what_stayed(touched)
    }

    fn take(&mut self, event: Event) -> Touched {
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
                // Each may be what a switch leaves behind.
                let vpcs: Vec<String> =
                    names.iter().filter_map(|name| self.gateways.vpc_of(name)).map(Into::into).collect();
                self.around_gateways(names).into_iter().chain(vpcs.into_iter().map(Scope::Vpc)).collect()
            }
            Event::Subnets(event) => {
                let names = self.gateways.take_subnets(event);
                self.around_gateways(names)
            }
            Event::Nodes(event) => {
                let names = self.gateways.take_nodes(event);
                self.around_gateways(names)
            }
            Event::Vpcs(event) => self.apply_vpcs(event),
            Event::Records(event) => self.apply_records(event),
            Event::Copies(event) => self.apply_copies(event),
            Event::OwnEnds(event) => self.apply_own_ends(event),
            Event::PeerEnds(event) => self.apply_peer_ends(event),
            Event::NoEnds => self.forget_ends(),
            Event::Members(event) => match self.own.members.after(event) {
                Some(members) => self.apply_members(members),
                None => Touched::new(),
            },
            // Whoever goes by another's id does not go away with our right to see it.
            Event::NoMembers if self.own.is_any_contested() => Touched::new(),
            Event::NoMembers => self.apply_members(Members::Unkept),
            Event::Identity(cluster) => self.set(|own| &mut own.identity, cluster),
            Event::Joining(namespace) => {
                self.records.join(namespace);
                self.ends.forget();
                self.own.members = Members::Unknown;
                self.around_us()
            }
            Event::Uid(uid) => self.set(|own| &mut own.uid, Some(uid)),
            Event::Egress(addresses) => self.set(|own| &mut own.egress, addresses),
            Event::Globalnets(event) => {
                let before = self.own.globalnet();
                let mut changed = Vec::new();
                for (name, old, new) in event.carry_out(&mut self.own.globalnets) {
                    let Ok(cluster) = name.parse::<ClusterId>() else { continue };
                    let claim = |range: Option<Ipv4Cidr>| range.map(|range| (cluster.clone(), range));
                    changed.extend(self.ranges.take(claim(old), claim(new)));
                }
                let touched = self.around_ranges(&changed);
                if before == self.own.globalnet() { touched } else { self.around_us() }
            }
            Event::Outcome(gateway, outcome) => self.apply_outcome(gateway, outcome),
            Event::Probed(gateway, probed) => {
                self.reaches.take(&gateway, &probed).into_iter().map(Scope::Tunnel).collect()
            }
            Event::Unheard(gateway, pod_uid) => {
                self.reaches.unheard(&gateway, &pod_uid).into_iter().map(Scope::Tunnel).collect()
            }
            Event::Silence { of, by, silent } => self.apply_silence(&of, by, silent),
            Event::Listening(gateway, listening) => self.apply_listening(gateway, listening),
            Event::TermEnded => {
                self.visits.forget_outcomes();
                self.reaches.clear();
                self.silent.clear();
                self.listening.clear();
                self.elect_all();
                self.admit_all();
                self.take_stock_of_all();
                Touched::new()
            }
        }
    }

    fn set<T: PartialEq>(&mut self, field: impl Fn(&mut Own) -> &mut T, value: T) -> Touched {
        let old = std::mem::replace(field(&mut self.own), value);
        if old == *field(&mut self.own) { Touched::new() } else { self.around_us() }
    }

    /// After a change of what every tunnel rests on.
    fn around_us(&mut self) -> Touched {
        self.own.work_out();
        self.records.know_own(self.own.cluster());
        self.work_out_gateways();
        self.elect_all();
        self.admit_all();
        self.take_stock_of_all();
        self.everything()
    }

    /// Every scope there is: for facts that all of them rest on.
    pub fn everything(&self) -> Touched {
        let gateways = self.gateways.names().chain(self.tunnels.gateways()).chain(self.visits.gateways());
        let mut touched: Touched = gateways
            .flat_map(|gateway| {
                [Scope::Gateway, Scope::Record, Scope::Watch].map(|scope| scope(gateway.clone()))
            })
            .chain(self.tunnels.all().keys().cloned().map(Scope::Tunnel))
            .chain(self.all_vpcs().into_iter().map(Scope::Vpc))
            .chain([Scope::Membership])
            .collect();
        let records = self.records.here().values();
        touched.extend(records.clone().flat_map(|record| self.around_record(record)));
        touched.extend(records.filter_map(|record| record.gateway.clone().map(Scope::Record)));
        let copies = self.records.copies().into_iter().flat_map(BTreeMap::values);
        touched.extend(copies.flat_map(|copy| self.around_copy(copy)));
        touched.extend(self.all_own_ends());
        touched
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
