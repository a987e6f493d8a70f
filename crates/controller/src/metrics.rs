//! What the process counts. Labels are closed sets, so the number of series is bounded.
//!
//! What every room has is counted here with the room's name as a label; a room registers what is its own under
//! its name ([`Metrics::of_room`]).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// How something went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(missing_docs, reason = "words of their own")]
pub enum Outcome {
    Success,
    Failure,
}

impl Outcome {
    /// Of a result.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Success } else { Self::Failure }
    }
}

/// Labels of the work counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Work {
    /// Whose.
    pub room: &'static str,
    /// What.
    pub scope: &'static str,
    /// How.
    pub result: Outcome,
}

/// The label of what a room has once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfRoom {
    /// Whose.
    pub room: &'static str,
}

/// Labels of what is measured by duty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfDuty {
    /// Whose.
    pub room: &'static str,
    /// Which of its duties.
    pub duty: &'static str,
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    /// Scopes handled.
    pub handled: Family<Work, Counter>,
    /// How long handling took.
    pub duration: Family<OfDuty, Histogram>,
    /// 1 while this replica leads.
    pub leader: Family<OfRoom, Gauge>,
    queues: Arc<Mutex<Vec<Reader<2>>>>,
    registry: Mutex<Registry>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("causeway");
        let handled = Family::default();
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 14));
        let duration = Family::new_with_constructor(histogram);
        let leader = Family::default();
        registry.register("handled", "Scopes handled, by room, kind and result", handled.clone());
        registry.register_with_unit(
            "handling",
            "Time to handle a scope, by room and duty",
            Unit::Seconds,
            duration.clone(),
        );
        registry.register("leader", "1 while this replica leads", leader.clone());
        let queues: Arc<Mutex<Vec<Reader<2>>>> = Arc::default();
        registry.register_collector(Box::new(OnDemand {
            name: "queue_length",
            help: "Scopes in line, by room and duty",
            read: {
                let queues = queues.clone();
                Reader(Box::new(move || {
                    let queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
                    queues.iter().flat_map(|queue| (queue.0)()).collect()
                }))
            },
        }));
        Self { handled, duration, leader, queues, registry: Mutex::new(registry) }
    }
}

impl Metrics {
    /// Lets a room register what is its own, under its name.
    pub fn of_room(&self, room: &'static str, register: impl FnOnce(&mut Registry)) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        register(registry.sub_registry_with_prefix(room));
    }

    /// Adds queues to the gauge of their lengths; labelled by room and duty.
    pub fn count_queues(&self, read: impl Fn() -> Vec<Reading<2>> + Send + Sync + 'static) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).push(Reader(Box::new(read)));
    }

    /// The text that Prometheus scrapes.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

/// One gauge: its labels and its value.
pub type Reading<const N: usize> = ([(&'static str, &'static str); N], i64);

/// Counts when somebody asks.
pub struct Reader<const N: usize>(pub Box<dyn Fn() -> Vec<Reading<N>> + Send + Sync>);

impl<const N: usize> fmt::Debug for Reader<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reader")
    }
}

/// Gauges whose values are counted when somebody asks, with `N` labels each.
#[derive(Debug)]
pub struct OnDemand<const N: usize> {
    /// Their name.
    pub name: &'static str,
    /// What they say.
    pub help: &'static str,
    /// Counts.
    pub read: Reader<N>,
}

impl<const N: usize> Collector for OnDemand<N> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (labels, value) in (self.read.0)() {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
