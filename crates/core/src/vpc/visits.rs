//! What the last visit to each pod of a gateway found.

use std::collections::{BTreeMap, BTreeSet};

use super::have::Holding;
use super::index::Groups;
use super::outcome::Outcome;
use crate::names::{GatewayName, ObjectKey};

/// The outcomes, and where the things of an object were seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Visits {
    gateways: BTreeMap<GatewayName, Visited>,
    /// The gateways that hold something which names its owner.
    held: Groups<ObjectKey, GatewayName>,
    /// The gateways that hold a link which does not, by the link's name.
    unnamed: Groups<String, GatewayName>,
}

/// What is known of one gateway's pods.
#[derive(Debug, Clone, Default)]
struct Visited {
    /// By the pod's uid.
    outcomes: BTreeMap<String, Outcome>,
    /// The pod that was visited last as the one that serves the gateway.
    serving: Option<String>,
}

impl Visited {
    fn holding(&self) -> impl Iterator<Item = &Holding> {
        let visits = self.outcomes.values().filter_map(|outcome| outcome.result.as_ref().ok());
        visits.map(|visit| &visit.holding)
    }
}

impl Visits {
    /// The last outcome of a gateway's pod.
    pub(super) fn of_pod(&self, gateway: &GatewayName, uid: &str) -> Option<&Outcome> {
        self.gateways.get(gateway)?.outcomes.get(uid)
    }

    /// The pod that was visited last as the one that serves the gateway.
    pub(super) fn serving(&self, gateway: &GatewayName) -> Option<&str> {
        self.gateways.get(gateway)?.serving.as_deref()
    }

    /// The gateways that were visited.
    pub(super) fn gateways(&self) -> impl Iterator<Item = &GatewayName> {
        self.gateways.keys()
    }

    /// The gateways that were last seen holding something of an object.
    pub(super) fn holders(&self, key: &ObjectKey) -> impl Iterator<Item = &GatewayName> {
        self.held.of(key).chain(self.unnamed.of(key.name()))
    }

    /// Whether a gateway was last seen holding something of an object.
    pub(super) fn holds(&self, gateway: &GatewayName, key: &ObjectKey) -> bool {
        self.gateways
            .get(gateway)
            .is_some_and(|visited| visited.holding().any(|holding| holding.includes(key)))
    }

    /// Takes an outcome in, of the pod that serves the gateway or of another; gives the one before.
    pub(super) fn take(&mut self, gateway: &GatewayName, outcome: Outcome, serves: bool) -> Option<Outcome> {
        let uid = outcome.pod_uid.clone();
        self.change(gateway, |visited| {
            if serves {
                visited.serving = Some(uid.clone());
            }
            visited.outcomes.insert(uid, outcome)
        })
    }

    /// Forgets what was found, and not which pods served.
    pub(super) fn forget_outcomes(&mut self) {
        self.gateways.values_mut().for_each(|visited| visited.outcomes.clear());
        (self.held, self.unnamed) = (Groups::default(), Groups::default());
    }

    /// Forgets the pods of a gateway that are not among these.
    pub(super) fn keep(&mut self, gateway: &GatewayName, uids: &BTreeSet<&str>) {
        let all = |visited: &Visited| {
            let mut pods = visited.outcomes.keys().chain(&visited.serving);
            !uids.is_empty() && pods.all(|uid| uids.contains(uid.as_str()))
        };
        if self.gateways.get(gateway).is_none_or(all) {
            return;
        }
        self.change(gateway, |visited| {
            visited.outcomes.retain(|uid, _| uids.contains(uid.as_str()));
            visited.serving.take_if(|uid| !uids.contains(uid.as_str()));
        });
        if uids.is_empty() {
            self.gateways.remove(gateway);
        }
    }

    /// Changes what is known of a gateway, and the indexes with it.
    fn change<T>(&mut self, gateway: &GatewayName, change: impl FnOnce(&mut Visited) -> T) -> T {
        let visited = self.gateways.entry(gateway.clone()).or_default();
        let (owners, unnamed) = union(visited);
        let result = change(visited);
        let (owners_now, unnamed_now) = union(visited);
        follow(&mut self.held, gateway, &owners, &owners_now);
        follow(&mut self.unnamed, gateway, &unnamed, &unnamed_now);
        result
    }
}

/// What all pods of a gateway hold together: by owner, and links without one.
fn union(visited: &Visited) -> (BTreeSet<ObjectKey>, BTreeSet<String>) {
    let owners = visited.holding().flat_map(|holding| &holding.owners).cloned();
    (owners.collect(), visited.holding().flat_map(|holding| &holding.unnamed).cloned().collect())
}

fn follow<K: Ord + Clone>(
    index: &mut Groups<K, GatewayName>,
    gateway: &GatewayName,
    before: &BTreeSet<K>,
    after: &BTreeSet<K>,
) {
    before.difference(after).for_each(|key| index.remove(key, gateway));
    after.difference(before).for_each(|key| index.insert(key, gateway.clone()));
}
