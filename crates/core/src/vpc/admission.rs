//! Which tunnels of a gateway may be built, kept up to date change by change.
//!
//! Tunnels of one gateway can want the same thing: a link name, a VNI, a range. Older ones come first; one
//! that is refused claims nothing. So an admission is decided in the order of age, and a change is followed
//! only along the claims it touches: who holds a claim is known at once, and only the younger claimants of a
//! claim that changed hands are looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::member::Contest;
use super::objects::{Far, Tunnel, TunnelSpec};
use super::outcome::{Claim, Trouble};
use super::want::{Established, Seat, TunnelKind, TunnelWant};
use crate::names::{GatewayName, Ipv4Cidr, LinkName, ObjectKey};

/// The order of precedence: by age, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    created: i64,
    key: ObjectKey,
}

/// Who wants one thing, and who of them has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Claimed {
    by: BTreeSet<Rank>,
    holder: Option<Rank>,
}

/// A tunnel as it was last worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    link: LinkName,
    created: i64,
    claims: Vec<Claim>,
    resolved: Result<TunnelWant, Trouble>,
    /// Why that is what was last known of it, and not what is known now.
    doubt: Option<Trouble>,
}

impl Candidate {
    /// A tunnel with what it needs, or why that is not known. Either way its link name and VNI are claimed.
    pub(super) fn new(
        tunnel: &Tunnel,
        spec: &TunnelSpec,
        (resolved, doubt): (Result<TunnelWant, Trouble>, Option<Trouble>),
    ) -> Self {
        let claims = claims(spec, resolved.as_ref().ok());
        Self { link: spec.link.clone(), created: tunnel.created, claims, resolved, doubt }
    }
}

fn claims(spec: &TunnelSpec, resolved: Option<&TunnelWant>) -> Vec<Claim> {
    let link = Claim::Link(spec.link.to_string());
    let vni = match spec.kind {
        TunnelKind::Vxlan { vni, port } => Some(Claim::Vni(vni, port)),
        TunnelKind::Gre => None,
    };
    let gre = resolved.filter(|want| want.kind == TunnelKind::Gre).map(|want| Claim::GreEnd(want.remote));
    let range = resolved.map(|want| Claim::Range(want.remote_range));
    [Some(link), vni, gre, range].into_iter().flatten().collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    candidate: Candidate,
    /// What an older one has of what it needs.
    refused: Option<Trouble>,
}

impl Entry {
    fn rank(&self, key: &ObjectKey) -> Rank {
        Rank { created: self.candidate.created, key: key.clone() }
    }

    fn verdict(&self) -> Result<&TunnelWant, &Trouble> {
        match &self.refused {
            Some(conflict) => Err(conflict),
            None => self.candidate.resolved.as_ref(),
        }
    }
}

/// The tunnels of one gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Admission {
    entries: BTreeMap<ObjectKey, Entry>,
    claims: BTreeMap<Claim, Claimed>,
}

impl Admission {
    /// What one tunnel needs, or why it cannot be.
    pub(super) fn of(&self, key: &ObjectKey) -> Option<Result<&TunnelWant, &Trouble>> {
        self.entries.get(key).map(Entry::verdict)
    }

    /// Why one tunnel is built from what was last known, if it is.
    pub(super) fn doubt(&self, key: &ObjectKey) -> Option<&Trouble> {
        self.entries.get(key)?.candidate.doubt.as_ref()
    }

    /// The same of each tunnel, with its link.
    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = (&ObjectKey, &LinkName, Result<&TunnelWant, &Trouble>)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.candidate.link, entry.verdict()))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.entries.keys()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tunnels that want a range within the one given.
    pub(super) fn within(&self, range: Ipv4Cidr) -> impl Iterator<Item = &ObjectKey> {
        let inside = self.claims.range(Claim::Range(range)..=Claim::Range(range.last()));
        let inside =
            inside.filter(move |(claim, _)| matches!(claim, Claim::Range(wanted) if range.covers(*wanted)));
        inside.flat_map(|(_, claimed)| claimed.by.iter().map(|rank| &rank.key))
    }

    /// Takes changes in, all at once; returns the tunnels of which something else is true now. What is not
    /// a candidate any more is `None`.
    pub(super) fn update(
        &mut self,
        changes: impl IntoIterator<Item = (ObjectKey, Option<Candidate>)>,
    ) -> BTreeSet<ObjectKey> {
        let (mut changed, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        for (key, candidate) in changes {
            if self.replace(&key, candidate, &mut doubtful) {
                changed.insert(key);
            }
        }
        // In the order of age: when one is decided, all older ones are.
        while let Some(rank) = doubtful.pop_first() {
            if self.decide(&rank, &mut doubtful) {
                changed.insert(rank.key);
            }
        }
        changed
    }

    /// Puts one candidate in place of another; whether what it needs differs.
    fn replace(&mut self, key: &ObjectKey, new: Option<Candidate>, doubtful: &mut BTreeSet<Rank>) -> bool {
        let old = self.entries.remove(key);
        let rank = |entry: &Entry| entry.rank(key);
        let new = new.map(|candidate| Entry { candidate, refused: None });
        let same_rank = old.as_ref().map(rank) == new.as_ref().map(rank);
        fn list(entry: Option<&Entry>) -> &[Claim] {
            entry.map_or(&[], |entry| &entry.candidate.claims)
        }
        let stays = |claim: &Claim, other: &Option<Entry>| same_rank && list(other.as_ref()).contains(claim);
        if let Some(old) = &old {
            let rank = old.rank(key);
            for claim in list(Some(old)).iter().filter(|claim| !stays(claim, &new)) {
                self.withdraw(&rank, claim, doubtful);
            }
        }
        let Some(mut entry) = new else { return old.is_some() };
        let rank = entry.rank(key);
        let mut joined = !same_rank;
        for claim in list(Some(&entry)).iter().filter(|claim| !stays(claim, &old)) {
            self.claims.entry(claim.clone()).or_default().by.insert(rank.clone());
            joined = true;
        }
        if joined || old.as_ref().is_some_and(|old| old.candidate.claims != entry.candidate.claims) {
            doubtful.insert(rank);
        }
        entry.refused = old.as_ref().and_then(|old| old.refused.clone());
        fn known(entry: &Entry) -> impl PartialEq + use<'_> {
            (&entry.candidate.resolved, &entry.candidate.doubt)
        }
        let differs = old.as_ref().is_none_or(|old| known(old) != known(&entry));
        self.entries.insert(key.clone(), entry);
        differs
    }

    fn withdraw(&mut self, rank: &Rank, claim: &Claim, doubtful: &mut BTreeSet<Rank>) {
        let Some(claimed) = self.claims.get_mut(claim) else { return };
        claimed.by.remove(rank);
        if claimed.holder.as_ref() == Some(rank) {
            claimed.holder = None;
            doubtful.extend(claimed.by.iter().cloned());
        }
        if claimed.by.is_empty() {
            self.claims.remove(claim);
        }
    }

    /// Decides one tunnel; whether that changed anything for it. Those to whom its claims matter follow.
    fn decide(&mut self, rank: &Rank, doubtful: &mut BTreeSet<Rank>) -> bool {
        let current = |entry: &&mut Entry| entry.candidate.created == rank.created;
        let Some(entry) = self.entries.get_mut(&rank.key).filter(current) else { return false };
        let claims = &entry.candidate.claims;
        let taken = claims.iter().find_map(|claim| {
            let holder = self.claims.get(claim)?.holder.as_ref().filter(|holder| *holder < rank)?;
            Some(Trouble::Conflict { claim: claim.clone(), by: holder.key.clone() })
        });
        for claim in claims {
            let Some(claimed) = self.claims.get_mut(claim) else { continue };
            let holder = match (&taken, &claimed.holder) {
                (None, _) => Some(rank.clone()),
                (Some(_), Some(holder)) if holder == rank => None,
                (Some(_), _) => continue,
            };
            if claimed.holder != holder {
                claimed.holder = holder;
                let younger = claimed.by.range((std::ops::Bound::Excluded(rank), std::ops::Bound::Unbounded));
                doubtful.extend(younger.cloned());
            }
        }
        let changed = entry.refused != taken;
        entry.refused = taken;
        changed
    }
}

/// What resolving a tunnel rests on beside its own text.
pub(super) struct Grounds<'a> {
    /// The gateway's address outside.
    pub(super) local: Result<Ipv4Addr, &'a Trouble>,
    /// The gateway.
    pub(super) gateway: &'a GatewayName,
    /// What all tunnels of the cluster share.
    pub(super) own: &'a super::own::Own,
    /// Who can be reached.
    pub(super) records: &'a super::records::Records,
    /// Which cluster claims which addresses.
    pub(super) ranges: &'a super::ranges::Ranges,
    /// The gateway's VPC by name, and as far as it is known.
    pub(super) vpc: Option<(&'a str, Option<&'a super::objects::Vpc>)>,
}

impl Grounds<'_> {
    /// What a tunnel needs of its gateway, looked at alone; where that cannot be known now, what it was last known to be, and
    /// why.
    pub(super) fn resolve(
        &self,
        tunnel: &Tunnel,
        spec: &TunnelSpec,
        seat: Seat,
    ) -> (Result<TunnelWant, Trouble>, Option<Trouble>) {
        let local = match self.local {
            Ok(local) => local,
            Err(trouble) => return (Err(trouble.clone()), None),
        };
        let known = self.known(tunnel, spec, local).map(|want| TunnelWant { seat, ..want });
        match known {
            Err(trouble) if trouble.is_doubt() => match tunnel.last_known(self.gateway, local, seat) {
                Some(want) => (Ok(want), Some(trouble)),
                None => (Err(trouble), None),
            },
            known => (known, None),
        }
    }

    /// Whether a tunnel is in a namespace that may use the gateway.
    fn allows(&self, tunnel: &Tunnel) -> Result<(), Trouble> {
        let namespace = tunnel.key.namespace();
        let refusal = |why: String| Trouble::NamespaceNotAllowed(why);
        if !self.own.given.restrict_namespaces {
            return Ok(());
        }
        match self.vpc {
            Some((name, Some(vpc))) if !vpc.namespaces.is_empty() && !vpc.namespaces.contains(namespace) => {
                Err(refusal(format!(
                    "gateway {} serves Vpc {name}, which is not for namespace {namespace}; add it to the Vpc's spec.namespaces, or \
                     put the tunnel into one of them",
                    self.gateway
                )))
            }
            Some((name, None)) => Err(Trouble::GatewayIncomplete(format!(
                "Vpc {name} of gateway {} is not known, so neither is whether it is for namespace {namespace}",
                self.gateway
            ))),
            None => Err(Trouble::GatewayIncomplete(format!(
                "which Vpc gateway {} serves is not known, so neither is whether that is for namespace {namespace}",
                self.gateway
            ))),
            Some((_, Some(_))) => Ok(()),
        }
    }

    fn known(&self, tunnel: &Tunnel, spec: &TunnelSpec, local: Ipv4Addr) -> Result<TunnelWant, Trouble> {
        self.allows(tunnel)?;
        let ours = self.own.range()?;
        let peer = &spec.ends.far();
        let cluster = peer.cluster();
        if self.own.cluster() == Some(cluster) {
            let (field, what) = match peer {
                Far::Gateway(_) => ("clusterId", "a gateway"),
                Far::Vpc { .. } => ("remoteCluster", "a VPC"),
            };
            return Err(Trouble::Invalid(format!(
                "{field} {cluster} is this cluster itself; a tunnel leads to {what} of another one"
            )));
        }
        if let Some(Contest { one, other }) = self.own.contested().get(cluster)
            && !self.records.is_given(peer)
        {
            let (cluster, one, other) = (cluster.clone(), one.clone(), other.clone());
            return Err(Trouble::PeerIdContested { cluster, one, other });
        }
        let (remote, remote_range) = self.records.find(peer)?;
        let is_other = |it: Established| (it.peer, it.range) != (Some(remote), Some(remote_range));
        if !self.own.takes_changes(cluster)
            && !self.records.is_given(peer)
            && tunnel.established(self.gateway).is_some_and(is_other)
        {
            return Err(Trouble::ClaimsUnknown { peer: peer.clone() });
        }
        if remote == local {
            let why = format!("externalip {remote} is the address of this gateway too");
            return Err(Trouble::PeerInvalid { peer: peer.clone(), why });
        }
        if ours.overlaps(remote_range) {
            return Err(Trouble::RangeOverlap { cluster: cluster.clone(), theirs: remote_range, ours });
        }
        if let Some(within) = self.own.given.within.filter(|within| !within.covers(remote_range)) {
            let why = format!("globalnetcidr {remote_range} is not within {within} (--globalnet-within)");
            return Err(Trouble::PeerInvalid { peer: peer.clone(), why });
        }
        // The one in use stands: who claims it beside is the one to be asked.
        let is_used = tunnel.established(self.gateway).is_some_and(|it| it.range == Some(remote_range));
        // A claim that nobody may make, as to everything, is nobody's rival.
        let counts = |range: Ipv4Cidr| {
            self.own.given.within.is_none_or(|within| within.covers(range)) && !super::plan::is_nobodys(range)
        };
        let rival = self.ranges.rival(remote_range, cluster, self.own.cluster(), counts);
        if let Some((other, others)) = rival
            && !is_used
        {
            let (cluster, other) = (cluster.clone(), other.clone());
            return Err(Trouble::ClustersOverlap { cluster, theirs: remote_range, other, others });
        }
        Ok(TunnelWant {
            owner: tunnel.key.clone(),
            kind: spec.kind,
            local,
            remote,
            address: spec.address,
            remote_range,
            egress: self.own.egress_range()?,
            own: ours,
            seat: Seat::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    fn any_change() -> impl Strategy<Value = (ObjectKey, Option<Candidate>)> {
        let claim = (0..5u32).prop_map(|vni| Claim::Vni(vni, 1));
        let candidate =
            (0..3i64, btree_set(claim, 0..4), 0..2u8).prop_map(|(created, claims, why)| Candidate {
                link: "t".parse().expect("a link name"),
                created,
                claims: claims.into_iter().collect(),
                resolved: Err(Trouble::Invalid(why.to_string())),
                doubt: None,
            });
        (0..8u8, prop::option::weighted(0.8, candidate))
            .prop_map(|(n, candidate)| (format!("ns/t{n}").parse().expect("a key"), candidate))
    }

    /// The rule itself: in the order of age, each gets what it claims unless an older one has it.
    fn by_the_rule(candidates: &BTreeMap<ObjectKey, Candidate>) -> BTreeMap<ObjectKey, Trouble> {
        let mut order: Vec<_> = candidates.iter().collect();
        order.sort_by_key(|(key, candidate)| (candidate.created, *key));
        let mut taken: BTreeMap<&Claim, &ObjectKey> = BTreeMap::new();
        let mut verdicts = BTreeMap::new();
        for (key, candidate) in order {
            let clash = candidate.claims.iter().find_map(|claim| Some((claim, *taken.get(claim)?)));
            let trouble = match clash {
                Some((claim, by)) => Trouble::Conflict { claim: claim.clone(), by: by.clone() },
                None => {
                    taken.extend(candidate.claims.iter().map(|claim| (claim, key)));
                    candidate.resolved.clone().expect_err("a reason in place of a want")
                }
            };
            verdicts.insert(key.clone(), trouble);
        }
        verdicts
    }

    fn verdicts(admission: &Admission) -> BTreeMap<ObjectKey, Trouble> {
        let trouble = |verdict: Result<&TunnelWant, &Trouble>| verdict.expect_err("a reason").clone();
        admission.iter().map(|(key, _, verdict)| (key.clone(), trouble(verdict))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn followed_change_by_change_it_is_what_the_rule_says(rounds in vec(vec(any_change(), 1..5), 1..20)) {
            let (mut admission, mut candidates) = (Admission::default(), BTreeMap::new());
            for round in rounds {
                let before = verdicts(&admission);
                for (key, candidate) in round.clone() {
                    match candidate {
                        Some(candidate) => drop(candidates.insert(key, candidate)),
                        None => drop(candidates.remove(&key)),
                    }
                }
                let changed = admission.update(round.clone());
                let after = verdicts(&admission);
                prop_assert_eq!(&after, &by_the_rule(&candidates));
                let own: BTreeSet<&ObjectKey> = round.iter().map(|(key, _)| key).collect();
                for key in before.keys().chain(after.keys()) {
                    let news = before.get(key) != after.get(key);
                    prop_assert!(!news || changed.contains(key), "{} changed unnoticed", key);
                    prop_assert!(news || own.contains(key) || !changed.contains(key), "{} is no news", key);
                }
            }
        }
    }
}
