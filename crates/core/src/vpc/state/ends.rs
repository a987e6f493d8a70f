//! What an event of tunnels' ends at the broker touches, and which ends an event of tunnels does.

use std::collections::{BTreeMap, BTreeSet};

use super::{State, Touched};
use crate::names::{ClusterId, ObjectKey};
use crate::room::Change;
use crate::vpc::ends::{Agreement, End, agreement, siblings};
use crate::vpc::event::Scope;
use crate::vpc::objects::Tunnel;
use crate::vpc::published::{Pair, name_of};

impl State {
    pub(super) fn apply_own_ends(&mut self, event: Change<String, End>) -> Touched {
        let first = self.ends.ours().is_none();
        let names = self.ends.take_ours(event);
        if first && self.ends.ours().is_some() {
            // Before the first list nothing could be published nor swept.
            return self.all_own_ends();
        }
        names.into_iter().map(Scope::End).collect()
    }

    pub(super) fn apply_peer_ends(&mut self, event: Change<String, End>) -> Touched {
        let first = !self.ends.is_listed();
        let (pairs, turned) = self.ends.take_theirs(event);
        if first {
            return self.all_tunnels().filter(|_| self.ends.is_listed()).collect();
        }
        let paired = pairs.iter().flat_map(|(here, peer)| siblings(self, here, peer));
        let paired: Touched = paired.map(|tunnel| Scope::Tunnel(tunnel.key.clone())).collect();
        paired.into_iter().chain(self.tunnels_to(&turned)).collect()
    }

    /// The broker has none, or no more: nobody is judged by what it had.
    pub(super) fn forget_ends(&mut self) -> Touched {
        let before = self.ends.know_none();
        if !before.is_listed() {
            return self.all_tunnels().collect();
        }
        self.tunnels_to(&before.clusters().cloned().collect())
    }

    fn all_tunnels(&self) -> impl Iterator<Item = Scope> {
        self.tunnels.all().keys().cloned().map(Scope::Tunnel)
    }

    /// All tunnels to some clusters: whether a cluster publishes ends at all seldom changes.
    fn tunnels_to(&self, clusters: &BTreeSet<ClusterId>) -> Touched {
        let leads_there =
            |tunnel: &&Tunnel| pair(tunnel).is_some_and(|(_, peer)| clusters.contains(peer.cluster()));
        let tunnels = self.tunnels.all().values().filter(|_| !clusters.is_empty());
        tunnels.filter(leads_there).map(|tunnel| Scope::Tunnel(tunnel.key.clone())).collect()
    }

    /// Every end that is ours, or should be.
    pub(super) fn all_own_ends(&self) -> Touched {
        let known = self.ends.ours().into_iter().flat_map(|ours| ours.keys().cloned()).map(Scope::End);
        let wanted = self.tunnels.all().keys().filter_map(|key| self.own_end(key));
        known.chain(wanted).collect()
    }

    /// The end of a tunnel of ours.
    pub(super) fn own_end(&self, tunnel: &ObjectKey) -> Option<Scope> {
        Some(Scope::End(name_of(tunnel, self.cluster()?)))
    }

    /// The pairs of gateways or VPCs between which ends are paired anew because of an event of tunnels.
    pub(super) fn pairs_around(&self, event: &Change<ObjectKey, Tunnel>) -> BTreeSet<Pair> {
        let known = |key: &ObjectKey| self.tunnels.get(key).and_then(pair);
        let pairs: BTreeSet<Pair> = match event {
            Change::Put(key, tunnel) => known(key).into_iter().chain(pair(tunnel)).collect(),
            Change::Gone(key) => known(key).into_iter().collect(),
            Change::Reset(_) => self.ends.pairs().cloned().collect(),
        };
        pairs.into_iter().filter(|pair| self.ends.knows(pair)).collect()
    }

    /// How the tunnels between pairs of gateways or VPCs compare with what their peers say.
    pub(super) fn compared(&self, pairs: &BTreeSet<Pair>) -> BTreeMap<ObjectKey, Agreement> {
        let tunnels = pairs.iter().flat_map(|(here, peer)| siblings(self, here, peer));
        tunnels.map(|tunnel| (tunnel.key.clone(), agreement(self, tunnel))).collect()
    }
}

fn pair(tunnel: &Tunnel) -> Option<Pair> {
    let ends = &tunnel.spec.as_ref().ok()?.ends;
    Some((ends.near(), ends.far()))
}
