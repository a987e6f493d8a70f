//! What the room counts beside what every room has.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use causeway_core::vpc::Answer;
use causeway_core::vpc::reach::Reach;
use causeway_core::vpc::status::READY;
use causeway_core::{GatewayName, ObjectKey};
use causeway_datapath::vpc::Traffic;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::Vpc;
use crate::metrics::{OnDemand, Outcome, Reader, Reading};
use crate::room::Room;

/// Labels of the exec counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Exec {
    /// `observe`, `apply` or `monitor`.
    command: &'static str,
    result: Outcome,
}

/// The room's own counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    execs: Family<Exec, Counter>,
    steps: Counter,
    tunnels: Mutex<Tunnels>,
}

/// What is counted of each tunnel and is no part of any decision.
#[derive(Debug, Default)]
struct Tunnels {
    /// By link.
    traffic: BTreeMap<GatewayName, BTreeMap<String, Traffic>>,
    repairs: BTreeMap<ObjectKey, u64>,
}

impl Metrics {
    pub(super) fn register(&self, room: &Arc<Vpc>) {
        let tunnels = {
            let room = Arc::downgrade(room);
            OnDemand {
                name: "tunnels",
                help: "Tunnels by readiness",
                read: Reader(Box::new(move || count_tunnels(&room))),
            }
        };
        let left = {
            let room = Arc::downgrade(room);
            OnDemand {
                name: "records_left_at_broker",
                help: "Records that are not brought here because their cluster publishes more than the limit",
                read: Reader(Box::new(move || count_left(&room))),
            }
        };
        let ends_left = {
            let room = Arc::downgrade(room);
            OnDemand {
                name: "ends_left_at_broker",
                help: "Ends of tunnels that are not compared because their cluster publishes more than the limit",
                read: Reader(Box::new(move || count_ends_left(&room))),
            }
        };
        room.house.metrics.of_room(Vpc::NAME, |registry| {
            registry.register("execs", "Commands run in gateways", self.execs.clone());
            registry.register("steps", "Steps planned for gateways", self.steps.clone());
            registry.register_collector(Box::new(tunnels));
            registry.register_collector(Box::new(OfTunnels(Arc::downgrade(room))));
            registry.register_collector(Box::new(left));
            registry.register_collector(Box::new(ends_left));
        });
    }

    pub(super) fn count_exec<T, E>(&self, command: &'static str, result: &Result<T, E>) {
        self.execs.get_or_create(&Exec { command, result: Outcome::of(result) }).inc();
    }

    fn tunnels(&self) -> MutexGuard<'_, Tunnels> {
        self.tunnels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that links of a gateway have carried.
    pub(super) fn count_traffic(&self, gateway: &GatewayName, answers: &[(Answer, Traffic)]) {
        let mut tunnels = self.tunnels();
        let links = tunnels.traffic.entry(gateway.clone()).or_default();
        links.extend(answers.iter().map(|(answer, traffic)| (answer.link.clone(), *traffic)));
    }

    /// Something of a tunnel had gone missing and is back.
    pub(super) fn count_repair(&self, key: &ObjectKey) {
        *self.tunnels().repairs.entry(key.clone()).or_default() += 1;
    }

    /// A tunnel is gone: a later one of its name begins at nothing. Links are named after tunnels.
    pub(super) fn forget_tunnel(&self, key: &ObjectKey) {
        let mut tunnels = self.tunnels();
        tunnels.repairs.remove(key);
        tunnels.traffic.retain(|_, links| {
            links.remove(key.name());
            !links.is_empty()
        });
    }

    /// A gateway is gone, and with it all links that it had.
    pub(super) fn forget_gateway(&self, gateway: &GatewayName) {
        self.tunnels().traffic.remove(gateway);
    }

    /// Forgets what was counted: another replica does from now on.
    pub(super) fn forget_tunnels(&self) {
        *self.tunnels() = Tunnels::default();
    }

    pub(super) fn count_steps(&self, steps: usize) {
        self.steps.inc_by(steps as u64);
    }
}

fn count_tunnels(room: &Weak<Vpc>) -> Vec<Reading<1>> {
    let Some(room) = room.upgrade() else { return Vec::new() };
    let (mut ready, mut not_ready) = (0, 0);
    for tunnel in room.desk.state().tunnels() {
        let is_ready = tunnel.status.conditions.is_true(READY);
        *(if is_ready { &mut ready } else { &mut not_ready }) += 1;
    }
    vec![([("ready", "true")], ready), ([("ready", "false")], not_ready)]
}

/// One series for each tunnel that this replica keeps: how it is, how far its peer is, what went through it.
#[derive(Debug)]
struct OfTunnels(Weak<Vpc>);

/// What is said of one tunnel.
struct Series {
    key: ObjectKey,
    up: bool,
    reachable: Option<bool>,
    round_trip: Option<f64>,
    traffic: Option<Traffic>,
    repairs: u64,
}

impl OfTunnels {
    /// Only a leader visits gateways, so only a leader knows.
    fn read(&self) -> Vec<Series> {
        let Some(room) = self.0.upgrade() else { return Vec::new() };
        let (counted, state) = (room.metrics.tunnels(), room.desk.state());
        let of = |tunnel: &causeway_core::vpc::objects::Tunnel| {
            let gateway: GatewayName = tunnel.status.gateway.as_deref()?.parse().ok()?;
            state.outcome(&gateway)?;
            let link = tunnel.spec.as_ref().ok()?.link.as_str();
            Some(Series {
                up: tunnel.status.conditions.is_true(READY),
                reachable: match state.reach(&gateway, &tunnel.key) {
                    Reach::Awaited | Reach::Asked | Reach::NotAsked | Reach::Unheard => None,
                    Reach::Answers { .. } => Some(true),
                    Reach::Silent | Reach::SilentBehind | Reach::Astray(_) => Some(false),
                },
                round_trip: state.round_trip(&gateway, &tunnel.key).map(|micros| f64::from(micros) / 1e6),
                traffic: counted.traffic.get(&gateway).and_then(|links| links.get(link)).copied(),
                repairs: counted.repairs.get(&tunnel.key).copied().unwrap_or(0),
                key: tunnel.key.clone(),
            })
        };
        state.tunnels().filter_map(of).collect()
    }
}

impl Collector for OfTunnels {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.read();
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: fn(&Series) -> Option<f64>| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for series in &all {
                if let Some(value) = value(series) {
                    ConstGauge::new(value).encode(family.encode_family(&labels(&series.key))?)?;
                }
            }
            Ok::<(), fmt::Error>(())
        };
        gauge("tunnel_up", "1 while a tunnel is ready", None, |it| Some(f64::from(u8::from(it.up))))?;
        gauge("tunnel_reachable", "1 while the peer of a tunnel answers through it", None, |it| {
            it.reachable.map(|reachable| f64::from(u8::from(reachable)))
        })?;
        let help = "How long the peer of a tunnel takes to answer, at most";
        gauge("tunnel_round_trip", help, Some(&Unit::Seconds), |it| it.round_trip)?;
        let mut counter = |name: &str, help: &str, unit: Option<&Unit>, value: fn(&Series) -> Option<u64>| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for series in &all {
                if let Some(value) = value(series) {
                    ConstCounter::new(value).encode(family.encode_family(&labels(&series.key))?)?;
                }
            }
            Ok::<(), fmt::Error>(())
        };
        let bytes = Some(&Unit::Bytes);
        counter("tunnel_received", "What came out of a tunnel", bytes, |it| {
            it.traffic.map(|it| it.received)
        })?;
        counter("tunnel_sent", "What went into a tunnel", bytes, |it| it.traffic.map(|it| it.sent))?;
        counter("tunnel_repairs", "What had gone missing of a tunnel and was put back", None, |it| {
            Some(it.repairs)
        })
    }
}

fn labels(key: &ObjectKey) -> [(&'static str, &str); 2] {
    [("namespace", key.namespace()), ("tunnel", key.name())]
}

/// Of all members together: a label for each would let any of them fill what collects metrics.
fn count_left(room: &Weak<Vpc>) -> Vec<Reading<0>> {
    let Some(room) = room.upgrade() else { return Vec::new() };
    let left: usize = room.desk.state().exceeding_members().map(|(_, left)| left).sum();
    vec![([], i64::try_from(left).unwrap_or(i64::MAX))]
}

fn count_ends_left(room: &Weak<Vpc>) -> Vec<Reading<0>> {
    let Some(room) = room.upgrade() else { return Vec::new() };
    vec![([], i64::try_from(room.desk.state().ends_left()).unwrap_or(i64::MAX))]
}
