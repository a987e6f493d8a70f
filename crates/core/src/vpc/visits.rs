//! What the last visit to each gateway found.

use std::collections::BTreeMap;

use super::index::Groups;
use super::objects::PodRef;
use super::outcome::Outcome;
use crate::names::{GatewayName, ObjectKey};

/// The outcomes, and where the things of an object were seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Visits {
    outcomes: BTreeMap<GatewayName, Outcome>,
    /// The gateways that hold something which names its owner.
    held: Groups<ObjectKey, GatewayName>,
    /// The gateways that hold a link which does not, by the link's name.
    unnamed: Groups<String, GatewayName>,
}

impl Visits {
    /// The last outcome of a gateway.
    pub(super) fn last(&self, gateway: &GatewayName) -> Option<&Outcome> {
        self.outcomes.get(gateway)
    }

    /// The last outcome, if it is about that pod.
    pub(super) fn of_pod(&self, gateway: &GatewayName, pod: &PodRef) -> Option<&Outcome> {
        self.last(gateway).filter(|outcome| outcome.pod_uid == pod.uid)
    }

    /// The gateways that were visited.
    pub(super) fn gateways(&self) -> impl Iterator<Item = &GatewayName> {
        self.outcomes.keys()
    }

    /// The gateways that were last seen holding something of an object.
    pub(super) fn holders(&self, key: &ObjectKey) -> impl Iterator<Item = &GatewayName> {
        self.held.of(key).chain(self.unnamed.of(&key.name))
    }

    /// Whether a gateway was last seen holding something of an object.
    pub(super) fn holds(&self, gateway: &GatewayName, key: &ObjectKey) -> bool {
        let visit = self.last(gateway).and_then(|outcome| outcome.result.as_ref().ok());
        visit.is_some_and(|visit| visit.holding.includes(key))
    }

    /// Takes an outcome in and gives the one before.
    pub(super) fn take(&mut self, gateway: &GatewayName, outcome: Outcome) -> Option<Outcome> {
        let old = self.outcomes.insert(gateway.clone(), outcome);
        self.index(gateway, old.as_ref());
        old
    }

    /// Follows the change from one outcome of a gateway to the present one.
    fn index(&mut self, gateway: &GatewayName, old: Option<&Outcome>) {
        let holding = |outcome: Option<&Outcome>| {
            let visit = outcome.and_then(|outcome| outcome.result.as_ref().ok());
            visit.map(|visit| visit.holding.clone()).unwrap_or_default()
        };
        let (old, new) = (holding(old), holding(self.outcomes.get(gateway)));
        old.owners.difference(&new.owners).for_each(|key| self.held.remove(key, gateway));
        new.owners.difference(&old.owners).for_each(|key| self.held.insert(key, gateway.clone()));
        old.unnamed.difference(&new.unnamed).for_each(|link| self.unnamed.remove(link, gateway));
        new.unnamed.difference(&old.unnamed).for_each(|link| self.unnamed.insert(link, gateway.clone()));
    }
}
