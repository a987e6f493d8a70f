//! Who leads by the Lease, as seen by a watch of the test's own, and who says of itself that it does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use tokio_util::task::AbortOnDropHandle;

use super::proof::Reign;
use super::support::{Cluster, Replica};

const NAME: &str = "causeway-controller";
/// How often replicas are asked whether they lead.
const POLL: Duration = Duration::from_millis(50);

/// Every change of hands, in order.
#[derive(Clone)]
pub(crate) struct Reigns {
    seen: Arc<Mutex<Vec<(Instant, Reign)>>>,
    _task: Arc<AbortOnDropHandle<()>>,
}

fn reign(lease: &Lease) -> Reign {
    let spec = lease.spec.clone().unwrap_or_default();
    Reign {
        version: lease.resource_version().and_then(|version| version.parse().ok()).expect("a version"),
        holder: spec.holder_identity.unwrap_or_default(),
        term: spec.lease_transitions.unwrap_or_default().try_into().expect("a term"),
    }
}

pub(crate) fn leases(cluster: &Cluster) -> Api<Lease> {
    Api::namespaced(cluster.client.clone(), "kube-system")
}

impl Reigns {
    /// Watches from now on.
    pub(crate) async fn watch(cluster: &Cluster) -> Reigns {
        let leases = leases(cluster);
        let now = leases.get(NAME).await.expect("the lease");
        let seen = Arc::new(Mutex::new(vec![(Instant::now(), reign(&now))]));
        let (log, mut version) = (seen.clone(), now.resource_version().expect("a version"));
        let task = tokio::spawn(async move {
            let only = WatchParams::default().fields(&format!("metadata.name={NAME}")).timeout(290);
            loop {
                let mut events = leases.watch(&only, &version).await.expect("a watch").boxed();
                while let Some(Ok(event)) = events.next().await {
                    let (WatchEvent::Added(lease) | WatchEvent::Modified(lease)) = event else { continue };
                    version = lease.resource_version().expect("a version");
                    let next = reign(&lease);
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    let last = &log.last().expect("there is a first").1;
                    if (&last.holder, last.term) != (&next.holder, next.term) {
                        log.push((Instant::now(), next));
                    }
                }
            }
        });
        Reigns { seen, _task: Arc::new(AbortOnDropHandle::new(task)) }
    }

    fn seen(&self) -> MutexGuard<'_, Vec<(Instant, Reign)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Reign> {
        self.seen().iter().map(|(_, reign)| reign.clone()).collect()
    }

    pub(crate) fn now(&self) -> Reign {
        self.seen().last().expect("there is a first").1.clone()
    }

    /// Who held it at a moment.
    fn at(&self, moment: Instant) -> String {
        let seen = self.seen();
        let last = seen.iter().rfind(|(since, _)| *since <= moment);
        last.map(|(_, reign)| reign.holder.clone()).unwrap_or_default()
    }
}

/// What replicas said of themselves, and when.
pub(crate) struct Words {
    said: Arc<Mutex<Vec<Word>>>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

#[derive(Debug, Clone)]
struct Word {
    at: Instant,
    of: &'static str,
    leads: Option<bool>,
}

impl Words {
    /// Asks from now on.
    pub(crate) fn listen(replicas: &[Arc<Replica>]) -> Words {
        let said = Arc::new(Mutex::new(Vec::new()));
        let ask = |replica: &Arc<Replica>| {
            let (replica, said) = (replica.clone(), said.clone());
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    let leads = replica.says_it_leads().await;
                    let word = Word { at: Instant::now(), of: replica.name, leads };
                    said.lock().unwrap_or_else(PoisonError::into_inner).push(word);
                    tokio::time::sleep(POLL).await;
                }
            }))
        };
        Words { _tasks: replicas.iter().map(ask).collect(), said }
    }

    /// The longest that a replica said without a pause that it leads, or that it does not, while the Lease said
    /// otherwise.
    pub(crate) fn longest_error(&self, reigns: &Reigns) -> (Duration, String) {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut names: Vec<&str> = said.iter().map(|word| word.of).collect();
        names.sort_unstable();
        names.dedup();
        let mut longest = (Duration::ZERO, "nobody".to_owned());
        for name in names {
            let mut wrong_since: Option<Instant> = None;
            for word in said.iter().filter(|word| word.of == name) {
                let wrong = word.leads.is_some_and(|leads| leads != (reigns.at(word.at) == name));
                wrong_since = if wrong { wrong_since.or(Some(word.at)) } else { None };
                let lasts = wrong_since.map_or(Duration::ZERO, |since| word.at - since);
                if lasts > longest.0 {
                    longest = (lasts, format!("{name} says leader={:?}", word.leads));
                }
            }
        }
        longest
    }
}
