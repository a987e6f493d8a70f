//! What an event of the exchange touches: records here, copies at the broker, and claims to ids.

use std::collections::{BTreeMap, BTreeSet};

use super::{State, Touched};
use crate::names::{ClusterId, GatewayName, ObjectKey};
use crate::room::Change;
use crate::vpc::event::Scope;
use crate::vpc::exchange::Record;
use crate::vpc::member::Members;
use crate::vpc::own::Own;
use crate::vpc::ranges::{self, Claimed};
use crate::vpc::tunnels::gateway_of;

impl State {
    pub(super) fn apply_records(&mut self, event: Change<ObjectKey, Record>) -> Touched {
        let mut touched = Touched::new();
        let mut concerned: BTreeMap<GatewayName, BTreeSet<ObjectKey>> = BTreeMap::new();
        let (mut ours, mut claimed) = (BTreeSet::new(), Vec::new());
        for (_, old, new) in self.records.take(event) {
            let claim = |record: &Option<Record>| record.as_ref().and_then(ranges::of_record);
            claimed.extend(self.ranges.take(claim(&old), claim(&new)));
            for record in [old, new].into_iter().flatten() {
                ours.extend(record.gateway.clone().filter(|_| record.origin.is_none()));
                touched.extend(exchanged(&record));
                touched.extend(record.gateway.clone().map(Scope::Record));
                touched.extend(self.own.is_former(record.cluster.as_ref()).then_some(Scope::Membership));
                let Some(peer) = record.peer() else { continue };
                for key in self.tunnels.to(&peer) {
                    let Some(gateway) = self.tunnels.get(key).and_then(gateway_of) else { continue };
                    concerned.entry(gateway.clone()).or_default().insert(key.clone());
                }
            }
        }
        for name in ours {
            touched.extend(self.around_gateway(&name));
        }
        touched.extend(self.around_ranges(&claimed));
        touched.extend(self.readmit(concerned));
        touched
    }

    /// After a change of what clusters claim: tunnels to those that claim any of it too are decided anew.
    pub(super) fn around_ranges(&mut self, changed: &[Claimed]) -> Touched {
        let clusters: BTreeSet<ClusterId> = changed
            .iter()
            .flat_map(|(cluster, range)| {
                let others = self.ranges.around(*range).map(|(other, _)| other).filter(move |it| *it != cluster);
                others.cloned().collect::<Vec<_>>()
            })
            .collect();
        let mut concerned: BTreeMap<GatewayName, BTreeSet<ObjectKey>> = BTreeMap::new();
        for key in clusters.iter().flat_map(|cluster| self.tunnels.to_cluster(cluster)) {
            if let Some(gateway) = self.tunnels.get(key).and_then(gateway_of) {
                concerned.entry(gateway.clone()).or_default().insert(key.clone());
            }
        }
        self.readmit(concerned)
    }

    /// Decides some tunnels anew.
    fn readmit(&mut self, concerned: BTreeMap<GatewayName, BTreeSet<ObjectKey>>) -> Touched {
        let mut touched = Touched::new();
        for (gateway, keys) in concerned {
            let changed = self.admit(&gateway, keys);
            if !changed.is_empty() {
                touched.insert(Scope::Gateway(gateway));
                touched.extend(changed.into_iter().map(Scope::Tunnel));
            }
        }
        touched
    }

    pub(super) fn apply_copies(&mut self, event: Change<String, Record>) -> Touched {
        let first = self.records.copies().is_none();
        let changed = self.records.take_copies(event);
        if first && self.records.copies().is_some() {
            // Before the first list nothing could be exported nor swept.
            return self.everything();
        }
        let both = changed.into_iter().flat_map(|(_, old, new)| [old, new]).flatten();
        let mut touched = Touched::new();
        for copy in both {
            touched.extend(exchanged(&copy));
            touched.extend(self.own.is_former(copy.origin.as_ref()).then_some(Scope::Membership));
        }
        touched
    }

    /// Whether our id is ours alone decides about everything; whose the others are, about nothing here. A claim
    /// that was only renewed is no news, least of all our own.
    pub(super) fn apply_members(&mut self, members: Members) -> Touched {
        let stands = |own: &Own| (own.standing().clone(), own.former().clone());
        let stood = stands(&self.own);
        let before = std::mem::replace(&mut self.own.members, members);
        self.own.work_out();
        match (before == self.own.members, stood == stands(&self.own)) {
            (true, _) => Touched::new(),
            (false, true) => [Scope::Membership].into(),
            (false, false) => self.around_us(),
        }
    }
}

/// The scopes at the broker and here that a record may concern.
pub(super) fn exchanged(record: &Record) -> Vec<Scope> {
    let export = record.copy_name().map(Scope::Export);
    let at_broker = [Scope::Export(record.key.name().into())];
    let here = record.home().map(Scope::Import);
    let itself = [Scope::Import(record.key.clone())];
    at_broker.into_iter().chain(export).chain(here).chain(itself).collect()
}
