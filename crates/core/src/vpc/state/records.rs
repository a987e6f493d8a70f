//! What an event of the exchange touches: records here, copies at the broker, and claims to ids.

use std::collections::{BTreeMap, BTreeSet};

use super::{State, Touched};
use crate::names::{ClusterId, GatewayName, Ipv4Cidr, ObjectKey};
use crate::room::Change;
use crate::vpc::event::Scope;
use crate::vpc::exchange::Record;
use crate::vpc::member::{Contest, Members};
use crate::vpc::objects::{Far, Peer};
use crate::vpc::own::Own;
use crate::vpc::ranges::{self, Claimed, Ranges};
use crate::vpc::records::exported_name;

impl State {
    pub(super) fn apply_records(&mut self, event: Change<ObjectKey, Record>) -> Touched {
        let mut touched = Touched::new();
        let (mut ours, mut peers, mut claimed) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let mut vpcs = BTreeSet::new();
        for (_, old, new) in self.records.take(event) {
            let claim = |record: &Option<Record>| record.as_ref().and_then(ranges::of_record);
            claimed.extend(self.ranges.take(claim(&old), claim(&new)));
            for record in [old, new].into_iter().flatten() {
                ours.extend(record.gateway.clone().filter(|_| record.origin.is_none()));
                touched.extend(self.around_record(&record));
                touched.extend(record.gateway.clone().map(Scope::Record));
                touched.extend(self.own.is_former(record.cluster.as_ref()).then_some(Scope::Membership));
                peers.extend(record.fars());
                vpcs.extend(self.own_vpc(&record));
            }
        }
        for name in ours {
            touched.extend(self.around_gateway(&name));
        }
        touched.extend(self.elect_each(vpcs));
        touched.extend(self.around_ranges(&claimed));
        touched.extend(self.around_peers(&peers));
        touched
    }

    /// Which cluster claims which addresses, from all that says so.
    pub(super) fn claimed_ranges(&self) -> Ranges {
        let of_cluster = |(name, range): (&String, &Ipv4Cidr)| {
            name.parse::<ClusterId>().ok().map(|cluster| (cluster, *range))
        };
        let records = self.records.here().values().filter_map(ranges::of_record);
        let mut ranges = Ranges::default();
        for claimed in records.chain(self.own.globalnets.iter().filter_map(of_cluster)) {
            ranges.take(None, Some(claimed));
        }
        ranges
    }

    /// After a change of what clusters claim: tunnels to those that claim any of it too are decided anew.
    pub(super) fn around_ranges(&mut self, changed: &[Claimed]) -> Touched {
        let clusters: BTreeSet<ClusterId> = changed
            .iter()
            .flat_map(|(cluster, range)| {
                let others =
                    self.ranges.around(*range).map(|(other, _)| other).filter(move |it| *it != cluster);
                others.cloned().collect::<Vec<_>>()
            })
            .collect();
        let keys: BTreeSet<ObjectKey> =
            clusters.iter().flat_map(|cluster| self.tunnels.to_cluster(cluster)).cloned().collect();
        self.readmit(keys)
    }

    pub(super) fn apply_copies(&mut self, event: Change<String, Record>) -> Touched {
        let first = self.records.copies().is_none();
        let (changed, moved) = self.records.take_copies(event);
        let mut touched = Touched::new();
        let mut peers = BTreeSet::new();
        for copy in changed.into_iter().flat_map(|(_, old, new)| [old, new]).flatten().chain(moved) {
            touched.extend(self.around_copy(&copy));
            touched.extend(self.own.is_former(copy.origin.as_ref()).then_some(Scope::Membership));
            peers.extend(copy.fars());
            let (cluster, gateway) = (copy.cluster, copy.gateway);
            let peer = cluster.zip(gateway).map(|(cluster, gateway)| Peer { cluster, gateway });
            peers.extend(peer.map(Far::Gateway));
        }
        // Why a peer is not known may be another reason now.
        touched.extend(self.around_peers(&peers));
        if first && self.records.copies().is_some() {
            // Before the first list nothing could be exported nor swept.
            touched.extend(self.everything());
        }
        touched
    }

    /// The tunnels to peers of which something else is known now, and their gateways.
    fn around_peers(&mut self, peers: &BTreeSet<Far>) -> Touched {
        let keys = peers.iter().flat_map(|peer| self.tunnels.to(peer)).cloned().collect();
        self.readmit(keys)
    }

    /// Decides some tunnels anew, each on its gateway.
    fn readmit(&mut self, keys: BTreeSet<ObjectKey>) -> Touched {
        let mut concerned: BTreeMap<GatewayName, BTreeSet<ObjectKey>> = BTreeMap::new();
        for key in keys {
            let Some(tunnel) = self.tunnels.get(&key) else { continue };
            for gateway in self.gateways_of(tunnel) {
                concerned.entry(gateway).or_default().insert(key.clone());
            }
        }
        let mut touched = Touched::new();
        for (gateway, keys) in concerned {
            let changed = self.admit(&gateway, keys);
            if !changed.is_empty() {
                touched.extend(self.gateways.vpc_of(&gateway).map(|vpc| Scope::Vpc(vpc.into())));
                touched.insert(Scope::Gateway(gateway));
                touched.extend(changed.into_iter().map(Scope::Tunnel));
            }
        }
        touched
    }

    /// What a record here concerns: itself, its copy at the broker, and what is said of the same gateway under another
    /// name.
    pub(super) fn around_record(&self, record: &Record) -> Touched {
        let peer = record.far();
        let export = peer.as_ref().filter(|_| record.origin.is_none()).map(exported_name).map(Scope::Export);
        let same = peer.iter().flat_map(|peer| self.records.about(peer)).filter_map(import_of);
        // It may be in the place of one of ours.
        let own =
            self.cluster().and_then(|own| record.key.name().strip_suffix(own.as_str())?.strip_suffix('-'));
        let own = own.and_then(|gateway| gateway.parse().ok()).map(Scope::Record);
        import_of(record).into_iter().chain(export).chain(own).chain(same).collect()
    }

    /// What a copy at the broker concerns: what is brought here because of it; and itself, if it is ours, or has the
    /// name of one that should be.
    pub(super) fn around_copy(&self, copy: &Record) -> Touched {
        let home = copy.home(self.records.own());
        let import = copy.origin.clone().zip(home).map(|(member, home)| Scope::Import(member, home));
        // Under an earlier name it may be waiting for this one.
        let peer = copy.cluster.clone().zip(copy.gateway.clone());
        let peer = peer.map(|(cluster, gateway)| Far::Gateway(Peer { cluster, gateway }));
        let peer = peer.into_iter().chain(copy.far());
        let peer: Vec<Far> = peer.collect();
        let same = peer.iter().flat_map(|peer| self.records.about(peer)).filter_map(import_of);
        let name = copy.key.name();
        let is_ours = copy.origin.as_ref() == self.cluster()
            || self.own.is_former(copy.origin.as_ref())
            || self.records.exported_as(name).next().is_some();
        let export = is_ours.then(|| Scope::Export(name.into()));
        import.into_iter().chain(export).chain(same).collect()
    }

    /// Whether our id is ours alone decides about everything; whether another's is, about what comes from there. A claim
    /// that was only renewed is no news, least of all our own.
    pub(super) fn apply_members(&mut self, members: Members) -> Touched {
        let stands = |own: &Own| (own.standing().clone(), own.former().clone(), own.members.are_known());
        let stood = stands(&self.own);
        let (contested, unsettled) = (self.own.contested().clone(), self.own.unsettled().clone());
        let before = std::mem::replace(&mut self.own.members, members);
        self.own.work_out();
        match (before == self.own.members, stood == stands(&self.own)) {
            (true, _) => Touched::new(),
            (false, true) => {
                let mut touched = self.around_contested(&contested, &unsettled);
                touched.insert(Scope::Membership);
                touched
            }
            (false, false) => self.around_us(),
        }
    }

    /// What comes from clusters whose ids are contested now and were not before, or the other way, or by others.
    fn around_contested(
        &mut self,
        before: &BTreeMap<ClusterId, Contest>,
        unsettled: &BTreeSet<ClusterId>,
    ) -> Touched {
        let now = self.own.contested();
        let ids = before.keys().chain(now.keys());
        let turned = ids.filter(|id| before.get(*id) != now.get(*id));
        let settled = unsettled.symmetric_difference(self.own.unsettled());
        let turned: BTreeSet<ClusterId> = turned.chain(settled).cloned().collect();
        if turned.is_empty() {
            return Touched::new();
        }
        let is_theirs =
            |record: &&Record| record.origin.as_ref().is_some_and(|origin| turned.contains(origin));
        let copies = self.records.copies().into_iter().flat_map(BTreeMap::values).filter(is_theirs);
        let mut touched: Touched = copies.flat_map(|copy| self.around_copy(copy)).collect();
        touched.extend(self.records.here().values().filter(is_theirs).filter_map(import_of));
        let keys = turned.iter().flat_map(|cluster| self.tunnels.to_cluster(cluster)).cloned().collect();
        touched.extend(self.readmit(keys));
        touched
    }
}

/// A record here, to be compared with the broker.
pub(super) fn import_of(record: &Record) -> Option<Scope> {
    Some(Scope::Import(record.member()?.clone(), record.key.clone()))
}
