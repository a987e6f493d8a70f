//! The tunnel objects that are known, and how to find those that an event concerns.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Groups;
use super::objects::{Ends, Far, Tunnel};
use crate::names::{ClusterId, GatewayName, ObjectKey};
use crate::room::Change;

/// The tunnels and their indexes.
#[derive(Debug, Clone, Default)]
pub(super) struct Tunnels {
    /// Whether they were listed once: until then it is not known what a gateway should not hold.
    listed: bool,
    all: BTreeMap<ObjectKey, Tunnel>,
    /// The revision at which a tunnel's spec, or its deletion, was last seen to change.
    changed: BTreeMap<ObjectKey, u64>,
    by_gateway: Groups<GatewayName, ObjectKey>,
    /// Those by VPC, by ours.
    by_vpc: Groups<String, ObjectKey>,
    by_peer: Groups<Far, ObjectKey>,
    /// Those that cannot be understood and are not being deleted.
    unreadable: BTreeSet<ObjectKey>,
    /// Those that are being deleted.
    leaving: BTreeSet<ObjectKey>,
    /// Those that are being deleted, by the gateway they say they are on.
    leaving_from: Groups<GatewayName, ObjectKey>,
}

/// How a tunnel changed.
pub(super) struct Difference {
    pub(super) key: ObjectKey,
    pub(super) old: Option<Tunnel>,
    pub(super) new: Option<Tunnel>,
    /// Whether its spec or its deletion does; a status or finalizer write, most often our own, is no such change.
    pub(super) in_spec: bool,
}

impl Tunnels {
    /// Whether they were listed once.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    pub(super) fn all(&self) -> &BTreeMap<ObjectKey, Tunnel> {
        &self.all
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Tunnel> {
        self.all.get(key)
    }

    /// The revision at which a tunnel's spec, or its deletion, was last seen to change.
    pub(super) fn changed_at(&self, key: &ObjectKey) -> u64 {
        self.changed.get(key).copied().unwrap_or(0)
    }

    /// The gateways that tunnels name.
    pub(super) fn gateways(&self) -> impl Iterator<Item = &GatewayName> {
        self.by_gateway.keys()
    }

    /// The tunnels that name a gateway of ours.
    pub(super) fn naming(&self, gateway: &GatewayName) -> impl Iterator<Item = &ObjectKey> {
        self.by_gateway.of(gateway)
    }

    /// The tunnels from a VPC of ours.
    pub(super) fn of_vpc(&self, vpc: &str) -> impl Iterator<Item = &ObjectKey> {
        self.by_vpc.of(vpc)
    }

    /// The VPCs of ours that tunnels lead from.
    pub(super) fn vpcs(&self) -> impl Iterator<Item = &String> {
        self.by_vpc.keys()
    }

    /// The tunnels to a peer.
    pub(super) fn to<'a>(&'a self, peer: &Far) -> impl Iterator<Item = &'a ObjectKey> + use<'a> {
        self.by_peer.of(peer)
    }

    /// The tunnels to gateways of a cluster.
    pub(super) fn to_cluster(&self, cluster: &ClusterId) -> impl Iterator<Item = &ObjectKey> {
        let peers = self.by_peer.keys().filter(move |peer| peer.cluster() == cluster);
        peers.flat_map(|peer| self.by_peer.of(peer))
    }

    /// The tunnels whose spec makes no sense; what they have stays.
    pub(super) fn unreadable(&self) -> &BTreeSet<ObjectKey> {
        &self.unreadable
    }

    /// The tunnels that are being deleted.
    pub(super) fn leaving(&self) -> &BTreeSet<ObjectKey> {
        &self.leaving
    }

    /// The tunnels that are being deleted and name a gateway, in spec or status.
    pub(super) fn leaving_from(&self, gateway: &GatewayName) -> impl Iterator<Item = &ObjectKey> {
        self.leaving_from.of(gateway)
    }

    pub(super) fn take(&mut self, event: Change<ObjectKey, Tunnel>, revision: u64) -> Vec<Difference> {
        self.listed |= matches!(event, Change::Reset(_));
        if let Change::Put(key, late) = &event
            && self.all.get(key).is_some_and(|known| known.is_newer_than(late))
        {
            // The answer to a write of ours came before the watch's news of the write before it.
            return Vec::new();
        }
        let changed = event.carry_out(&mut self.all);
        let mut differences = Vec::with_capacity(changed.len());
        for (key, old, new) in changed {
            if let Some(tunnel) = &old {
                self.index(tunnel, false);
            }
            if let Some(tunnel) = &new {
                self.index(tunnel, true);
            }
            let in_spec = old.as_ref().map(intent) != new.as_ref().map(intent);
            match &new {
                Some(_) if in_spec => drop(self.changed.insert(key.clone(), revision)),
                Some(_) => {}
                None => drop(self.changed.remove(&key)),
            }
            differences.push(Difference { key, old, new, in_spec });
        }
        differences
    }

    fn index(&mut self, tunnel: &Tunnel, present: bool) {
        let key = &tunnel.key;
        let mark = |set: &mut BTreeSet<ObjectKey>, is: bool| {
            if present && is { set.insert(key.clone()) } else { set.remove(key) }
        };
        mark(&mut self.unreadable, tunnel.spec.is_err() && !tunnel.deleting);
        mark(&mut self.leaving, tunnel.deleting);
        for gateway in places(tunnel).filter(|_| tunnel.deleting) {
            put(&mut self.leaving_from, &gateway, key, present);
        }
        let Ok(spec) = &tunnel.spec else { return };
        match &spec.ends {
            Ends::ByGateway { gateway, .. } => put(&mut self.by_gateway, gateway, key, present),
            Ends::ByVpc { local, .. } => put(&mut self.by_vpc, local, key, present),
        }
        put(&mut self.by_peer, &spec.ends.far(), key, present);
    }
}

fn put<K: Ord + Clone>(index: &mut Groups<K, ObjectKey>, under: &K, key: &ObjectKey, present: bool) {
    if present { index.insert(under, key.clone()) } else { index.remove(under, key) }
}

/// What people decide of a tunnel: which object it is, its spec, and whether it should go.
fn intent(tunnel: &Tunnel) -> impl PartialEq + use<'_> {
    (&tunnel.uid, &tunnel.spec, tunnel.deleting, tunnel.created)
}

/// The gateway of ours that a tunnel names.
fn named(tunnel: &Tunnel) -> Option<&GatewayName> {
    match &tunnel.spec.as_ref().ok()?.ends {
        Ends::ByGateway { gateway, .. } => Some(gateway),
        Ends::ByVpc { .. } => None,
    }
}

/// The gateway that a tunnel names, and where it says it is.
pub(super) fn places(tunnel: &Tunnel) -> impl Iterator<Item = GatewayName> {
    let said = tunnel.status.gateway.as_deref().and_then(|name| name.parse().ok());
    named(tunnel).cloned().into_iter().chain(said)
}
