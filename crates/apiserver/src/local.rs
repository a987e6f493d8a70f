//! The API without a door: no socket, no TLS, no token, so that simulated time moves all of it.

use std::sync::{Arc, RwLock};
use std::time::SystemTime;

use axum::Router;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::counters::{Counters, RequestCount};
use crate::faults::{Faults, Switches};
use crate::http::{Shared, router};
use crate::store::Key;

/// Put into the extensions of a request: a list, or a watch that begins with one, shows the state at this version, as far
/// back as the history reaches. No server is asked like this over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf(pub u64);

/// A server that is called and not connected to. Dropping it stops it and ends its watches.
pub struct Local {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Local {
    /// A new cluster, all of whose chance comes from a seed and whose time begins at an epoch. So many changes are
    /// remembered for watches that begin in the past.
    pub fn new(history: usize, seed: u64, epoch: SystemTime) -> Local {
        Local::of(Cluster::new(history, Some(seed), Some(epoch)), seed)
    }

    fn of(cluster: Cluster, seed: u64) -> Local {
        let faults = Switches::none(Some(seed));
        let shared = Shared {
            cluster: RwLock::new(cluster),
            counters: Counters::default(),
            faults,
            audit: Audit::default(),
            exec: None,
            stopping: CancellationToken::new(),
            sessions: TaskTracker::new(),
        };
        Local { shared: Arc::new(shared) }
    }

    /// Another server with the same objects at the same version, as from a backup: what happens to either from now on does
    /// not happen to the other. It knows nothing of earlier changes.
    #[must_use]
    pub fn copy(&self, seed: u64, epoch: SystemTime) -> Local {
        let cluster = self.shared.read().copy();
        Local::of(cluster.continued(seed, epoch), seed)
    }

    /// The service itself. It cannot upgrade, so no exec.
    pub fn router(&self) -> Router {
        router(self.shared.clone())
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> Faults {
        Faults::of(&self.shared)
    }

    /// What was asked of this server so far.
    pub fn requests(&self) -> Vec<RequestCount> {
        self.shared.counters.all()
    }

    /// The version of the latest change.
    pub fn version(&self) -> u64 {
        self.shared.read().store.version()
    }

    /// One object, if it is there; the namespace is empty where objects have none.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let cluster = self.shared.read();
        Some(cluster.store.get(&Arc::from(resource), &Key::new(namespace, name))?.value.clone())
    }

    /// Shows each object of a resource, named like `pods.` or `leases.coordination.k8s.io`, in the order of their keys.
    pub fn each(&self, resource: &str, mut see: impl FnMut(&Value)) {
        let objects = self.shared.read().store.list(&Arc::from(resource), None);
        objects.iter().for_each(|object| see(&object.value));
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}
