//! The gateway records that are known: those in this cluster and the copies at the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::exchange::{RECORD_NAMESPACE, Record, own_key};
use super::index::Groups;
use super::naming::{copy_name, vpc_name};
use super::objects::Far;
use super::outcome::Trouble;
use super::shares::Shares;
use super::trouble::Absence;
use crate::names::{ClusterId, GatewayName, Ipv4Cidr, ObjectKey};
use crate::room::{Change, is_later};

/// Records and copies, and where to find them.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    /// Where the broker keeps the copies; what lies there is never exported again.
    pub(super) broker_namespace: String,
    /// Our cluster's id, once known: what is brought here is named apart from what is our own.
    own: Option<ClusterId>,
    here: BTreeMap<ObjectKey, Record>,
    /// Absent until the broker's first full list.
    copies: Option<BTreeMap<String, Record>>,
    /// Where the records of a peer are.
    peers: Groups<Far, ObjectKey>,
    /// Those that nobody brought here, by the gateway that they are about.
    written_here: Groups<GatewayName, ObjectKey>,
    /// The same by what their copies at the broker would be called.
    exported: Groups<String, ObjectKey>,
    /// The copies by where they belong here.
    homes: Groups<ObjectKey, String>,
    /// How many of each member's copies are brought here.
    shares: Shares,
    /// The peers that were known when the broker was last seen to lose all it had.
    emptied: BTreeSet<Far>,
}

type Changed<K> = Vec<(K, Option<Record>, Option<Record>)>;

impl Records {
    pub(super) fn new(per_member: Option<usize>) -> Self {
        Self { shares: Shares::new(per_member), ..Self::default() }
    }

    /// Follows our cluster's id.
    pub(super) fn know_own(&mut self, own: Option<&ClusterId>) {
        if self.own.as_ref() == own {
            return;
        }
        self.own = own.cloned();
        self.homes = Groups::default();
        for copy in self.copies.iter().flat_map(BTreeMap::values) {
            if let Some(home) = copy.home(own) {
                self.homes.insert(&home, copy.key.name().into());
            }
        }
    }

    /// Our cluster's id, once known.
    pub(super) fn own(&self) -> Option<&ClusterId> {
        self.own.as_ref()
    }

    /// The members that have published more than is brought here, and how much more.
    pub(super) fn exceeded(&self) -> impl Iterator<Item = (&ClusterId, usize)> {
        self.shares.exceeded().filter(|(member, _)| Some(*member) != self.own.as_ref())
    }

    /// The records in this cluster.
    pub(super) fn here(&self) -> &BTreeMap<ObjectKey, Record> {
        &self.here
    }

    /// The copies at the broker, once listed.
    pub(super) fn copies(&self) -> Option<&BTreeMap<String, Record>> {
        self.copies.as_ref()
    }

    /// The copies that belong under a key here, of each member only so many as are brought.
    pub(super) fn copies_for(&self, home: &ObjectKey) -> impl Iterator<Item = &Record> {
        let copies = self.homes.of(home).filter_map(|name| self.copies.as_ref()?.get(name));
        copies.filter(|copy| self.is_taken(copy))
    }

    fn is_taken(&self, copy: &Record) -> bool {
        copy.origin.as_ref().is_some_and(|member| self.shares.takes(member, copy.key.name()))
    }

    /// The records about a peer.
    pub(super) fn about(&self, peer: &Far) -> impl Iterator<Item = &Record> {
        self.peers.of(peer).filter_map(|key| self.here.get(key))
    }

    /// The records that nobody brought here and whose copy at the broker would have this name.
    pub(super) fn exported_as(&self, copy: &str) -> impl Iterator<Item = &Record> {
        self.exported.of(copy).filter_map(|key| self.here.get(key))
    }

    pub(super) fn take(&mut self, event: Change<ObjectKey, Record>) -> Changed<ObjectKey> {
        let is_of_vpc = |record: &Record| matches!(record.far(), Some(Far::Vpc { .. }));
        if let Change::Put(key, late) = &event
            && let Some(known) = self.here.get(key).filter(|known| is_of_vpc(known))
            && is_later(&known.resource_version, &late.resource_version)
        {
            // The answer to a write of ours came before the watch's news of what it replaced.
            return Vec::new();
        }
        let changed = event.carry_out(&mut self.here);
        for (key, old, new) in &changed {
            for far in old.iter().flat_map(Record::fars) {
                self.peers.remove(&far, key);
            }
            if let Some(far) = old.as_ref().filter(|record| record.origin.is_none()).and_then(Record::far) {
                self.exported.remove(&exported_name(&far), key);
                if let Far::Gateway(peer) = far {
                    self.written_here.remove(&peer.gateway, key);
                }
            }
            for far in new.iter().flat_map(Record::fars) {
                self.peers.insert(&far, key.clone());
                self.emptied.remove(&far);
            }
            if let Some(far) = new.as_ref().filter(|record| record.origin.is_none()).and_then(Record::far) {
                self.exported.insert(&exported_name(&far), key.clone());
                if let Far::Gateway(peer) = far {
                    self.written_here.insert(&peer.gateway, key.clone());
                }
            }
        }
        changed
    }

    /// The records about a gateway that nobody brought here: ours, whatever cluster they name.
    pub(super) fn written_here(&self, gateway: &GatewayName) -> impl Iterator<Item = &Record> {
        self.written_here.of(gateway).filter_map(|key| self.here.get(key))
    }

    /// Takes in what was seen at the broker. Before its first full list that is nothing: what comes then comes late
    /// from another one. Beside what differs it gives the copies that are brought here, or no longer, because of it.
    pub(super) fn take_copies(&mut self, event: Change<String, Record>) -> (Changed<String>, Vec<Record>) {
        let copies = match (&mut self.copies, &event) {
            (Some(copies), _) => copies,
            (None, Change::Reset(_)) => self.copies.insert(BTreeMap::new()),
            (None, Change::Put(..) | Change::Gone(_)) => return Default::default(),
        };
        let had_any = !copies.is_empty();
        let changed = event.carry_out(copies);
        if had_any && copies.is_empty() {
            let brought = self.here.values().filter(|record| record.origin.is_some());
            self.emptied.extend(brought.flat_map(Record::fars));
        }
        let mut moved = BTreeSet::new();
        for (name, old, new) in &changed {
            let own = self.own.as_ref();
            let place = |copy: &Record| Some((copy.home(own)?, copy.origin.clone()?));
            let (old, new) = (old.as_ref().and_then(place), new.as_ref().and_then(place));
            if old == new {
                continue;
            }
            if let Some((home, member)) = old {
                self.homes.remove(&home, name);
                moved.extend(self.shares.remove(&member, name));
            }
            if let Some((home, member)) = new {
                self.homes.insert(&home, name.clone());
                moved.extend(self.shares.insert(&member, name));
            }
        }
        let copies = self.copies.as_ref();
        let moved = moved.iter().filter_map(|name| copies?.get(name).cloned()).collect();
        (changed, moved)
    }

    /// Another broker, or the same one anew: its copies are not known yet.
    pub(super) fn join(&mut self, namespace: String) {
        self.broker_namespace = namespace;
        self.copies = None;
        self.homes = Groups::default();
        self.shares.clear();
        self.emptied.clear();
    }

    /// The address that our record of a gateway gives to others.
    pub(super) fn published(&self, cluster: &ClusterId, gateway: &GatewayName) -> Option<Ipv4Addr> {
        let record = self.here.get(&own_key(cluster, gateway)).filter(|record| record.origin.is_none())?;
        record.external_ip.parse().ok()
    }

    /// The record that speaks for a peer. Only one in the namespace of records counts: who may write elsewhere must not speak
    /// for a gateway.
    fn best(&self, peer: &Far) -> Option<&Record> {
        let here = self.about(peer).filter(|it| !it.deleting && it.key.namespace() == RECORD_NAMESPACE);
        // One that people wrote comes before one that was brought; of those the one that says what it is about, and the longer
        // name is the clearer one.
        here.max_by_key(|record| {
            (record.origin.is_none(), record.far().as_ref() == Some(peer), record.key.name().len())
        })
    }

    /// Whether people here have written themselves where a peer is: then what is said at the broker is no matter.
    pub(super) fn is_given(&self, peer: &Far) -> bool {
        self.best(peer).is_some_and(|record| record.origin.is_none())
    }

    /// Where a peer can be reached and what lies behind it.
    pub(super) fn find(&self, peer: &Far) -> Result<(Ipv4Addr, Ipv4Cidr), Trouble> {
        let invalid = |why: String| Trouble::PeerInvalid { peer: peer.clone(), why };
        let Some(record) = self.best(peer) else {
            return Err(match self.about(peer).find(|record| !record.deleting) {
                Some(Record { key, .. }) => {
                    invalid(format!("it is {key}, and only records in namespace {RECORD_NAMESPACE} count"))
                }
                None => Trouble::PeerUnknown(peer.clone(), self.absence(peer)),
            });
        };
        if let Some(why) = &record.unreadable {
            return Err(invalid(why.clone()));
        }
        let address = record
            .external_ip
            .parse()
            .map_err(|_| invalid(format!("externalip `{}`", record.external_ip)))?;
        let range =
            record.globalnet.parse().map_err(|_| invalid(format!("globalnetcidr `{}`", record.globalnet)))?;
        Ok((address, range))
    }

    /// Why there is no record of a peer.
    fn absence(&self, peer: &Far) -> Absence {
        let copy = self.copies.as_ref().and_then(|copies| copies.get(&exported_name(peer)));
        let is_theirs = |copy: &&Record| copy.origin.as_ref() == Some(peer.cluster());
        match copy.filter(is_theirs) {
            Some(copy) if copy.home(self.own.as_ref()).is_some() && !self.is_taken(copy) => {
                Absence::TooMany(self.shares.limit())
            }
            Some(_) => Absence::NotPublished,
            None if self.emptied.contains(peer) => Absence::BrokerEmptied,
            None => Absence::NotPublished,
        }
    }
}

/// What the copy of a record at the broker is called.
pub(super) fn exported_name(far: &Far) -> String {
    match far {
        Far::Gateway(peer) => copy_name(peer),
        Far::Vpc { cluster, vpc } => vpc_name(vpc, cluster),
    }
}
