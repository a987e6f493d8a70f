//! What the process counts. Labels are closed sets, so the number of series is bounded.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The kind of thing that was looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "the names of scopes")]
pub enum ScopeKind {
    Gateway,
    Tunnel,
    Record,
    Export,
    Import,
    Membership,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "words of their own")]
pub enum Result {
    Success,
    Failure,
}

/// Labels of the work counters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Work {
    /// What.
    pub scope: ScopeKind,
    /// How.
    pub result: Result,
}

/// Labels of the exec counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Exec {
    /// `observe`, `apply` or `monitor`.
    pub command: &'static str,
    /// How it went.
    pub result: Result,
}

/// Labels of the tunnel gauge.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Tunnels {
    /// `true` or `false`.
    pub ready: &'static str,
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    /// Keys handled.
    pub handled: Family<Work, Counter>,
    /// How long handling took.
    pub duration: Histogram,
    /// Commands run in gateways.
    pub execs: Family<Exec, Counter>,
    /// Steps planned for gateways.
    pub steps: Counter,
    /// Tunnels by readiness.
    pub tunnels: Family<Tunnels, Gauge>,
    /// Keys in line.
    pub queue: Gauge,
    /// 1 while this replica leads.
    pub leader: Gauge,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("causeway");
        let metrics = Self {
            handled: Family::default(),
            duration: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            execs: Family::default(),
            steps: Counter::default(),
            tunnels: Family::default(),
            queue: Gauge::default(),
            leader: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("handled", "Keys handled, by kind and result", metrics.handled.clone());
        let seconds = Unit::Seconds;
        registry.register_with_unit("handling", "Time to handle a key", seconds, metrics.duration.clone());
        registry.register("execs", "Commands run in gateways", metrics.execs.clone());
        registry.register("steps", "Steps planned for gateways", metrics.steps.clone());
        registry.register("tunnels", "Tunnels by readiness", metrics.tunnels.clone());
        registry.register("queue_length", "Keys in line", metrics.queue.clone());
        registry.register("leader", "1 while this replica leads", metrics.leader.clone());
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// The text that Prometheus scrapes.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String can not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
