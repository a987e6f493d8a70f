//! Events are news: an hour after it was last written one is dropped, or a server that runs for long
//! would hold nothing else. Looked at when events are written, so that time alone causes no work.

use std::time::Duration;

use super::delete;
use crate::cluster::{Cluster, Target};

const LIFETIME: Duration = Duration::from_secs(3600);

/// Notes that an event was written, and drops those whose time is over.
pub(super) fn note(cluster: &mut Cluster, target: &Target, version: u64) {
    let now = cluster.clock.now();
    cluster.expiring.push_back((now, target.key.clone(), version));
    let shelf = &target.resource.shelf;
    while let Some((written, key, version)) = cluster.expiring.front().cloned() {
        if now.duration_since(written).unsigned_abs() < LIFETIME {
            return;
        }
        cluster.expiring.pop_front();
        // Written again since then, it has an entry further back.
        if cluster.store.get(shelf, &key).is_some_and(|event| event.version == version) {
            delete::remove(cluster, shelf, &key);
        }
    }
}
