//! The gateway records that are known: those in this cluster and the copies at the broker.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::exchange::{RECORD_NAMESPACE, Record, own_key};
use super::index::Groups;
use super::objects::Peer;
use super::outcome::Trouble;
use crate::names::{ClusterId, GatewayName, Ipv4Cidr, ObjectKey};
use crate::room::Change;

/// Records and copies, and where to find them.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    /// Where the broker keeps the copies; what lies there is never exported again.
    pub(super) broker_namespace: String,
    here: BTreeMap<ObjectKey, Record>,
    /// Absent until the broker's first full list.
    copies: Option<BTreeMap<String, Record>>,
    /// Where the record of a peer is.
    peers: Groups<Peer, ObjectKey>,
    /// Those that nobody brought here, by the gateway that they are about.
    written_here: Groups<GatewayName, ObjectKey>,
    /// The copies by where they belong here.
    homes: Groups<ObjectKey, String>,
}

type Changed<K> = Vec<(K, Option<Record>, Option<Record>)>;

impl Records {
    /// The records in this cluster.
    pub(super) fn here(&self) -> &BTreeMap<ObjectKey, Record> {
        &self.here
    }

    /// The copies at the broker, once listed.
    pub(super) fn copies(&self) -> Option<&BTreeMap<String, Record>> {
        self.copies.as_ref()
    }

    /// The copies that belong under a key here.
    pub(super) fn copies_for(&self, home: &ObjectKey) -> impl Iterator<Item = &Record> {
        self.homes.of(home).filter_map(|name| self.copies.as_ref()?.get(name))
    }

    pub(super) fn take(&mut self, event: Change<ObjectKey, Record>) -> Changed<ObjectKey> {
        let changed = event.carry_out(&mut self.here);
        for (key, old, new) in &changed {
            if let Some((record, peer)) = old.as_ref().and_then(|record| Some((record, record.peer()?))) {
                self.peers.remove(&peer, key);
                if record.origin.is_none() {
                    self.written_here.remove(&peer.gateway, key);
                }
            }
            if let Some((record, peer)) = new.as_ref().and_then(|record| Some((record, record.peer()?))) {
                self.peers.insert(&peer, key.clone());
                if record.origin.is_none() {
                    self.written_here.insert(&peer.gateway, key.clone());
                }
            }
        }
        changed
    }

    /// The records about a gateway that nobody brought here: ours, whatever cluster they name.
    pub(super) fn written_here(&self, gateway: &GatewayName) -> impl Iterator<Item = &ObjectKey> {
        self.written_here.of(gateway)
    }

    /// Takes in what was seen at the broker. Before its first full list that is nothing: what comes then comes late
    /// from another one.
    pub(super) fn take_copies(&mut self, event: Change<String, Record>) -> Changed<String> {
        let copies = match (&mut self.copies, &event) {
            (Some(copies), _) => copies,
            (None, Change::Reset(_)) => self.copies.insert(BTreeMap::new()),
            (None, Change::Put(..) | Change::Gone(_)) => return Vec::new(),
        };
        let changed = event.carry_out(copies);
        for (name, old, new) in &changed {
            if let Some(home) = old.as_ref().and_then(Record::home) {
                self.homes.remove(&home, name);
            }
            if let Some(home) = new.as_ref().and_then(Record::home) {
                self.homes.insert(&home, name.clone());
            }
        }
        changed
    }

    /// Another broker, or the same one anew: its copies are not known yet.
    pub(super) fn join(&mut self, namespace: String) {
        self.broker_namespace = namespace;
        self.copies = None;
        self.homes = Groups::default();
    }

    /// The address that our record of a gateway gives to others.
    pub(super) fn published(&self, cluster: &ClusterId, gateway: &GatewayName) -> Option<Ipv4Addr> {
        let record = self.here.get(&own_key(cluster, gateway)).filter(|record| record.origin.is_none())?;
        record.external_ip.parse().ok()
    }

    /// Where a peer can be reached and what lies behind it. Only a record in the namespace of records counts: who
    /// may write elsewhere must not speak for a gateway.
    pub(super) fn find(&self, peer: &Peer) -> Result<(Ipv4Addr, Ipv4Cidr), Trouble> {
        let invalid = |why: String| Trouble::PeerInvalid { peer: peer.clone(), why };
        let records =
            || self.peers.of(peer).filter_map(|key| self.here.get(key)).filter(|record| !record.deleting);
        let Some(record) = records().find(|record| record.key.namespace() == RECORD_NAMESPACE) else {
            return Err(match records().next() {
                Some(Record { key, .. }) => {
                    invalid(format!("it is {key}, and only records in namespace {RECORD_NAMESPACE} count"))
                }
                None => Trouble::PeerUnknown(peer.clone()),
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
}
