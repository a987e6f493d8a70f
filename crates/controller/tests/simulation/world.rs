//! One run: its servers, its gateways, its weather, and what is watched over while it goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::bugs::Bug;
use crate::declared::{Declared, Gateway};
use crate::dice::Dice;
use crate::gateway::Pod;
use crate::site::{Reach, Site, epoch, servers};
use crate::trace::Trace;
use crate::weather::{Fault, Weather};

/// Where something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// One of the two, from 0.
    Cluster(usize),
    Broker,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster(at) => f.write_str(id(*at)),
            Self::Broker => f.write_str("broker"),
        }
    }
}

/// The id of a cluster.
pub(crate) fn id(cluster: usize) -> &'static str {
    ["east", "west"][cluster]
}

/// See the module.
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) bug: Option<Bug>,
    pub(crate) clusters: [Site; 2],
    pub(crate) broker: Site,
    /// Seconds that the clock of each server is ahead.
    ahead: [u64; 3],
    start: Instant,
    trace: Mutex<Trace>,
    weather: Mutex<Weather>,
    declared: Mutex<Declared>,
    /// The pods that run, by cluster and name.
    pods: Mutex<BTreeMap<(usize, String), Arc<Pod>>>,
    broken: Mutex<Option<String>>,
    /// Whether everything was as declared once.
    settled: AtomicBool,
    /// Nothing goes wrong any more.
    calm: CancellationToken,
    /// Writes that were no Lease's.
    pub(crate) writes: AtomicU64,
    /// Ends the run.
    pub(crate) over: CancellationToken,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, aloud: bool) -> Arc<Self> {
        let dice = Dice::new(seed);
        let weather = Weather::drawn(&dice);
        // Clocks are together, a little apart, or by more than an hour.
        let apart = dice.pick(&[1, 30, 5000]).unwrap_or(1);
        let ahead = [0; 3].map(|_| dice.number(0..apart));
        let (clusters, broker) = servers(seed, ahead);
        let declared = Declared::drawn(&dice);
        Arc::new(Self {
            dice,
            bug,
            clusters: clusters.map(Site::new),
            broker: Site::new(broker),
            ahead,
            start: Instant::now(),
            trace: Mutex::new(Trace::new(aloud)),
            weather: Mutex::new(weather),
            declared: Mutex::new(declared),
            pods: Mutex::default(),
            broken: Mutex::default(),
            settled: AtomicBool::new(false),
            calm: CancellationToken::new(),
            writes: AtomicU64::new(0),
            over: CancellationToken::new(),
        })
    }

    pub(crate) fn site(&self, place: Place) -> &Site {
        match place {
            Place::Cluster(at) => &self.clusters[at],
            Place::Broker => &self.broker,
        }
    }

    /// The time of day at a server now.
    pub(crate) fn time_at(&self, place: Place) -> SystemTime {
        let ahead = match place {
            Place::Cluster(at) => self.ahead[at],
            Place::Broker => self.ahead[2],
        };
        epoch() + Duration::from_secs(ahead) + self.elapsed()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn note(&self, line: impl AsRef<str>) {
        locked(&self.trace).note(self.elapsed(), line.as_ref());
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        locked(&self.trace)
    }

    pub(crate) fn declared(&self) -> MutexGuard<'_, Declared> {
        locked(&self.declared)
    }

    /// Whether a fault strikes now.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let rate = locked(&self.weather).rate(fault);
        let strikes = self.dice.strikes(rate);
        if strikes {
            self.note(format!("fault {fault:?}"));
        }
        strikes
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        *locked(&self.weather) = weather;
    }

    pub(crate) fn weather(&self) -> Weather {
        locked(&self.weather).clone()
    }

    /// From now on nothing goes wrong.
    pub(crate) fn calm_down(&self) {
        self.note("calm");
        self.calm.cancel();
        *locked(&self.weather) = Weather::default();
        for site in self.clusters.iter().chain([&self.broker]) {
            site.reach.set(|_| Reach::Open);
        }
    }

    /// Everything is as declared.
    pub(crate) fn has_settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// Waits, but not when all is calm.
    pub(crate) async fn wait_or_calm(&self, time: Duration) {
        self.calm.run_until_cancelled(sleep(time)).await;
    }

    /// Waits as long as a message takes.
    pub(crate) async fn travel(&self) {
        let slow = self.strikes(Fault::Slow);
        sleep(if slow { self.dice.millis(200..8000) } else { self.dice.millis(1..6) }).await;
    }

    /// Something holds that never may: the run is over.
    pub(crate) fn violate(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(format!("BROKEN: {what}"));
        locked(&self.broken).get_or_insert(what);
        self.over.cancel();
    }

    pub(crate) fn broken(&self) -> Option<String> {
        locked(&self.broken).clone()
    }

    /// The pod that goes by a name now.
    pub(crate) fn pod(&self, cluster: usize, name: &str) -> Option<Arc<Pod>> {
        locked(&self.pods).get(&(cluster, name.to_owned())).cloned()
    }

    pub(crate) fn pods(&self) -> Vec<Arc<Pod>> {
        locked(&self.pods).values().cloned().collect()
    }

    /// What runs on a node may count as gone.
    pub(crate) fn excuse(&self, cluster: usize, node: &str) {
        let gateways: Vec<String> = {
            let declared = self.declared();
            let there = declared.gateways.values().filter(|it| it.cluster == cluster && it.node == node);
            there.map(Gateway::pod).collect()
        };
        for pod in gateways.iter().filter_map(|name| self.pod(cluster, name)) {
            pod.excused.store(true, Ordering::Relaxed);
        }
    }

    /// Puts a pod in the place of whichever went by its name.
    pub(crate) fn run_pod(&self, pod: Pod) {
        let before = locked(&self.pods).insert((pod.cluster, pod.name.clone()), Arc::new(pod));
        before.iter().for_each(|before| before.end());
    }

    pub(crate) fn end_pod(&self, cluster: usize, name: &str) {
        let before = locked(&self.pods).remove(&(cluster, name.to_owned()));
        before.iter().for_each(|before| before.end());
    }
}
