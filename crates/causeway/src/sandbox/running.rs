//! The pods that really run: what the kubelet started, for `exec` and the proof to find.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::addresses::Role;
use super::echo::Echo;
use super::marks::{self, kill_marked};
use super::topology::PodNet;

/// One life of a pod. A replaced or rebooted pod is another one.
#[derive(Debug)]
pub(super) struct RunningPod {
    /// The object it runs for.
    pub(super) uid: String,
    /// Value of the annotation that asks for a reboot; another value is another life.
    pub(super) boot: Option<String>,
    /// When it started, as the API writes times.
    pub(super) started: String,
    /// Carried by all its processes.
    pub(super) mark: String,
    pub(super) net: PodNet,
    /// The server's service.
    pub(super) echo: Option<Echo>,
    /// Set when this life is over.
    pub(super) ended: CancellationToken,
}

impl RunningPod {
    /// Where things shared by the cluster's pods may be put.
    pub(super) fn folder(&self) -> &Path {
        self.net.folder.parent().unwrap_or(&self.net.folder)
    }

    /// Ends all that runs in it. The cables are the caller's business.
    pub(super) fn end(&self) {
        self.ended.cancel();
        kill_marked(marks::POD, &self.mark);
    }
}

type ByRole = BTreeMap<Role, Arc<RunningPod>>;

/// The running pods of one cluster: the kubelet writes, others read or wait.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningPods(Arc<watch::Sender<ByRole>>);

impl RunningPods {
    pub(super) fn get(&self, role: Role) -> Option<Arc<RunningPod>> {
        self.0.borrow().get(&role).cloned()
    }

    /// Waits until the pod runs.
    pub(super) async fn wait_for(&self, role: Role) -> Arc<RunningPod> {
        let mut pods = self.0.subscribe();
        loop {
            if let Some(pod) = pods.borrow_and_update().get(&role) {
                return pod.clone();
            }
            pods.changed().await.expect("the sender is this very value");
        }
    }

    /// Waits until this life of a pod is over, and says when that was seen.
    pub(super) async fn left(&self, role: Role, mark: &str) -> anyhow::Result<Instant> {
        let lives = |pods: &ByRole| pods.get(&role).is_some_and(|pod| pod.mark == mark);
        self.0.subscribe().wait_for(|pods| !lives(pods)).await?;
        Ok(Instant::now())
    }

    pub(super) fn find(&self, namespace: &str, pod: &str) -> Option<Arc<RunningPod>> {
        self.get(Role::of(namespace, pod)?)
    }

    pub(super) fn insert(&self, pod: RunningPod) {
        self.0.send_modify(|pods| drop(pods.insert(pod.net.role, Arc::new(pod))));
    }

    pub(super) fn remove(&self, role: Role) -> Option<Arc<RunningPod>> {
        let mut removed = None;
        self.0.send_modify(|pods| removed = pods.remove(&role));
        removed
    }
}
