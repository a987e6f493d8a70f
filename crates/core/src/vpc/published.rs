//! The ends of tunnels at the broker: those that we publish and those that others publish for us.
//!
//! Ours are found by what distinguishes this cluster from all others, whatever id it went by when it published them;
//! so what is not wanted any more is swept, also after a change of the id. Theirs are those that lead here.

use std::collections::{BTreeMap, BTreeSet};

use super::ends::{self, End, Says};
use super::index::Groups;
use super::member::Standing;
use super::objects::{Far, Place, Tunnel};
use super::shares::Shares;
use super::state::State;
use crate::names::{ClusterId, ObjectKey};
use crate::room::Change;

/// Label: the cluster that an end is published for.
pub const PEER_CLUSTER: &str = "causeway/peer-cluster";
/// Label: the VPC that an end by VPC leads to.
pub const PEER_VPC: &str = "remoteVpc";
/// Label: the uid of the cluster that published an end.
pub const OWNER: &str = "causeway/owner";

/// What is known of ends at the broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Published {
    /// Absent until they were listed; a broker may not have the kind.
    ours: Option<BTreeMap<String, End>>,
    /// The same of others'.
    theirs: Option<BTreeMap<String, End>>,
    /// Those of others by our gateway and theirs, or by our VPC and theirs.
    between: Groups<Pair, String>,
    /// The same by their cluster.
    by_cluster: Groups<ClusterId, String>,
    /// How many of each cluster's are compared: as many as of its records are brought here.
    shares: Shares,
}

/// Two gateways or two VPCs, ours first.
pub(super) type Pair = (Place, Far);

impl Published {
    /// Nothing is known yet.
    pub(super) fn new(per_member: Option<usize>) -> Self {
        Self { shares: Shares::new(per_member), ..Self::default() }
    }

    /// Another broker, or the same one anew: what it has is not known yet.
    pub(super) fn forget(&mut self) -> Self {
        let new = Self { shares: self.shares.emptied(), ..Self::default() };
        std::mem::replace(self, new)
    }

    /// The same with all that follows from it worked out from nothing.
    pub(super) fn recomputed(&self) -> Self {
        let mut anew = Self { shares: self.shares.emptied(), ours: self.ours.clone(), ..Self::default() };
        if let Some(theirs) = &self.theirs {
            anew.take_theirs(Change::Reset(theirs.clone()));
        }
        anew
    }

    /// Ours by name, once listed.
    pub(super) fn ours(&self) -> Option<&BTreeMap<String, End>> {
        self.ours.as_ref()
    }

    /// The broker has none, and is known to.
    pub(super) fn know_none(&mut self) -> Self {
        let before = self.forget();
        self.theirs = Some(BTreeMap::new());
        before
    }

    /// More than how many ends a cluster has published, if it has published more than are compared.
    pub(super) fn exceeded(&self, cluster: &ClusterId) -> Option<usize> {
        self.shares.is_exceeded(cluster).then(|| self.shares.limit())
    }

    /// How many ends are not compared because their clusters have published more.
    pub(super) fn left(&self) -> usize {
        self.shares.exceeded().map(|(_, more)| more).sum()
    }

    /// Whether it is known what others have published for us.
    pub(super) fn is_listed(&self) -> bool {
        self.theirs.is_some()
    }

    /// The peer's ends of tunnels between two gateways or VPCs.
    pub(super) fn between(&self, here: &Place, peer: &Far) -> impl Iterator<Item = &End> {
        let names = self.between.of(&(here.clone(), peer.clone()));
        names.filter_map(|name| self.theirs.as_ref()?.get(name)).filter(|end| !end.deleting)
    }

    /// Whether a cluster publishes ends at all.
    pub(super) fn has_any_of(&self, cluster: &ClusterId) -> bool {
        self.by_cluster.of(cluster).next().is_some()
    }

    /// Takes in what was seen of ours; gives the names of what differs. Nothing counts before the first list.
    pub(super) fn take_ours(&mut self, event: Change<String, End>) -> Vec<String> {
        let ours = match (&mut self.ours, &event) {
            (Some(ours), _) => ours,
            (None, Change::Reset(_)) => self.ours.insert(BTreeMap::new()),
            (None, Change::Put(..) | Change::Gone(_)) => return Vec::new(),
        };
        event.carry_out(ours).into_iter().map(|(name, ..)| name).collect()
    }

    /// Takes in what was seen of others'; gives the pairs of gateways that it is about, and the clusters that begin to
    /// publish ends, or more of them than are compared, or no longer do.
    pub(super) fn take_theirs(
        &mut self,
        event: Change<String, End>,
    ) -> (BTreeSet<Pair>, BTreeSet<ClusterId>) {
        let theirs = match (&mut self.theirs, &event) {
            (Some(theirs), _) => theirs,
            (None, Change::Reset(_)) => self.theirs.insert(BTreeMap::new()),
            (None, Change::Put(..) | Change::Gone(_)) => return Default::default(),
        };
        let changed = event.carry_out(theirs);
        let ends = || changed.iter().flat_map(|(_, old, new)| [old, new]).flatten().filter(|end| is_own(end));
        let clusters: BTreeSet<ClusterId> = ends().map(|end| end.on.cluster().clone()).collect();
        let known = |this: &Self, of: &ClusterId| (this.has_any_of(of), this.shares.is_exceeded(of));
        let before: BTreeMap<&ClusterId, _> = clusters.iter().map(|it| (it, known(self, it))).collect();
        let mut pairs: BTreeSet<Pair> = BTreeSet::new();
        let mut waits_or_not = BTreeSet::new();
        for (name, old, new) in &changed {
            for end in old.iter().filter(|end| is_own(end)) {
                pairs.extend(self.index(end, false));
                waits_or_not.extend(self.shares.remove(end.on.cluster(), name));
            }
            for end in new.iter().filter(|end| is_own(end)) {
                waits_or_not.extend(self.shares.insert(end.on.cluster(), name));
                pairs.extend(self.index(end, true));
            }
            // Another one has to make room, or gets it.
            for name in std::mem::take(&mut waits_or_not) {
                let Some(end) = self.theirs.as_ref().and_then(|theirs| theirs.get(&name)).cloned() else {
                    continue;
                };
                pairs.extend(self.index(&end, self.shares.takes(end.on.cluster(), &name)));
            }
        }
        let turned = clusters.iter().filter(|it| before.get(it) != Some(&known(self, it))).cloned().collect();
        (pairs, turned)
    }

    /// Puts an end where it is looked for, if it is compared, or takes it from there; gives the pair of gateways where that
    /// is news.
    fn index(&mut self, end: &End, present: bool) -> Option<Pair> {
        let (name, pair) = (&end.name, pair_of(end));
        let was = self.by_cluster.of(end.on.cluster()).any(|known| known == name);
        if present && self.shares.takes(end.on.cluster(), name) {
            self.between.insert(&pair, name.clone());
            self.by_cluster.insert(end.on.cluster(), name.clone());
            return Some(pair);
        }
        self.between.remove(&pair, name);
        self.by_cluster.remove(end.on.cluster(), name);
        was.then_some(pair)
    }

    /// The pairs of gateways that others' ends are about.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.between.keys()
    }

    /// Whether others' ends are about a pair of gateways.
    pub(super) fn knows(&self, pair: &Pair) -> bool {
        self.between.of(pair).next().is_some()
    }

    /// The clusters that publish ends for us.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.by_cluster.keys()
    }
}

/// Whether an end has the name that its cluster would give it: no two of one tunnel do.
fn is_own(end: &End) -> bool {
    end.name == name_of(&end.tunnel, end.on.cluster())
}

/// Between whom an end of another cluster is, as we see it.
pub(super) fn pair_of(end: &End) -> Pair {
    (end.to.place(), end.on.clone())
}

/// An end as it should be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndObject {
    /// Its name at the broker.
    pub name: String,
    /// The uid of our cluster.
    pub owner: String,
    /// Our cluster and gateway, or VPC.
    pub on: Far,
    /// The peer.
    pub to: Far,
    /// The tunnel here.
    pub tunnel: ObjectKey,
    /// What it says of itself.
    pub says: Says,
}

/// What to do about one end of ours at the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndTask {
    /// It is as it should be.
    Nothing,
    /// Make it: there is none.
    Create(EndObject),
    /// Write it over the version given.
    Update(EndObject, String),
    /// Remove the version given.
    Delete(String, String),
}

/// Compiles an end of ours at the broker, by its name there. It is as the tunnel declares it, whether or not that is
/// built, and goes with the tunnel; of a tunnel that cannot be understood it stays.
pub fn publish(state: &State, name: &str) -> EndTask {
    let (Some(ours), Some(us)) = (state.ends.ours(), state.own.ourselves()) else { return EndTask::Nothing };
    if *state.own.standing() != Standing::Ours {
        return EndTask::Nothing;
    }
    let have = ours.get(name);
    let tunnel = tunnel_of(state, &us.cluster, name);
    if tunnel.is_some_and(|tunnel| tunnel.spec.is_err()) {
        return EndTask::Nothing;
    }
    let want = tunnel.and_then(|tunnel| {
        let (here, to, mut says) = ends::declared(state, tunnel)?;
        // Not known since somebody else leads: what was said before stands.
        says.mtu = says.mtu.or_else(|| have?.says.mtu);
        Some(EndObject {
            name: name.into(),
            owner: us.uid.clone(),
            on: Far::at(us.cluster.clone(), here),
            to,
            tunnel: tunnel.key.clone(),
            says,
        })
    });
    match (want, have) {
        (Some(want), Some(have)) if says(have, &want) => EndTask::Nothing,
        (Some(want), Some(have)) => EndTask::Update(want, have.resource_version.clone()),
        (Some(want), None) => EndTask::Create(want),
        (None, Some(have)) if !have.deleting => {
            EndTask::Delete(have.name.clone(), have.resource_version.clone())
        }
        (None, Some(_) | None) => EndTask::Nothing,
    }
}

fn says(have: &End, want: &EndObject) -> bool {
    (&have.on, &have.to, &have.tunnel, &have.says) == (&want.on, &want.to, &want.tunnel, &want.says)
}

/// Our tunnel whose end is called so.
fn tunnel_of<'a>(state: &'a State, cluster: &ClusterId, name: &str) -> Option<&'a Tunnel> {
    let (namespace, tunnel) = name.strip_suffix(cluster.as_str())?.strip_suffix('.')?.split_once('.')?;
    let key = ObjectKey::new(namespace, &spelt_back(tunnel)).ok()?;
    state.tunnels.get(&key).filter(|tunnel| !tunnel.deleting)
}

/// What the end of a tunnel is called at the broker: the first dot ends the namespace and the second the tunnel's
/// name. That may hold dots too, which are spelt out, and its dashes are doubled to distinguish the two.
pub(super) fn name_of(tunnel: &ObjectKey, cluster: &ClusterId) -> String {
    let name = tunnel.name().replace('-', "--").replace('.', "-dot-");
    format!("{}.{name}.{cluster}", tunnel.namespace())
}

fn spelt_back(mut rest: &str) -> String {
    let mut name = String::new();
    while let Some(at) = rest.find('-') {
        let (plain, spelt) = rest.split_at(at);
        let (character, length) = if spelt.starts_with("-dot-") { ('.', 5) } else { ('-', 2) };
        name.push_str(plain);
        name.push(character);
        rest = spelt.get(length..).unwrap_or_default();
    }
    name + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_end() -> impl Strategy<Value = (ObjectKey, ClusterId)> {
        let name = "[ab]([-.ab]{0,5}[ab])?|a(-|--|\\.)dot(-|--|\\.)b";
        ("[ab]", name, "[ab]([-.ab]{0,4}[ab])?").prop_map(|(namespace, name, cluster)| {
            (ObjectKey::new(&namespace, &name).expect("a key"), cluster.parse().expect("an id"))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

        #[test]
        fn no_two_ends_share_a_name_and_each_leads_back_to_its_tunnel(one in any_end(), other in any_end()) {
            let name = name_of(&one.0, &one.1);
            prop_assert_eq!(name == name_of(&other.0, &other.1), one == other);
            let (_, rest) = name.split_once('.').expect("a namespace");
            let (spelt, _) = rest.split_once('.').expect("a name");
            prop_assert_eq!(spelt_back(spelt), one.0.name());
        }

        #[test]
        fn whatever_an_end_is_called_it_breaks_nothing(name in "[a.-]{0,12}|.{0,20}") {
            spelt_back(&name);
        }
    }
}
