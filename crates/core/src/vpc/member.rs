//! Who goes by which id at the broker.
//!
//! Ids are self-declared. So each cluster keeps a claim there (a Lease that it renews): "I, known by the uid
//! of my kube-system, go by this id". A cluster exchanges nothing before it has seen its own claim listed, so
//! of two that come at once at least one sees the other's; then both report it, and neither writes at the
//! broker any more: they would undo each other's work for ever. A claim that is not renewed runs out.
//!
//! Clusters have clocks of their own. Whether a claim is renewed is therefore seen, not read: one whose time of
//! renewal changes is alive from the moment that we saw it change. Only when a claim is seen for the first time
//! there is nothing but its own clock, and that only counts against it: a time that is yet to come is as good as now.
//! However long a claim says that it lasts, it has to be renewed as often as anybody's ([`LONGEST`]).
//!
//! An id of another that two claim is nobody's to everybody else: neither of them corrects what is published under it, so
//! nothing new of that is believed until one of the claims is gone. A cluster without any claim, as other operators' are,
//! is contested by nobody. Who has just begun to watch cannot know whether a claim that looks old is renewed all the
//! while by a clock that is wrong, and the id's owner may: until that was watched for long enough, what is known of that
//! id is not exchanged for something else.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange;
use super::state::State;
use crate::names::ClusterId;
use crate::room::Change;

/// The longest that a claim counts without being renewed, in seconds: what each cluster makes its own last.
pub const LONGEST: i64 = 360;

/// Who claims which id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The id.
    pub cluster: ClusterId,
    /// What distinguishes the claimant from another.
    pub uid: String,
}

impl Member {
    /// The name of the claim.
    pub fn name(&self) -> String {
        format!("causeway.{}.{}", self.cluster, self.uid)
    }
}

/// A claim as read at the broker. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// Who claims what.
    pub member: Member,
    /// When it was last renewed, by the claimant's clock.
    pub renewed: i64,
    /// How long that lasts.
    pub lasts: i64,
    /// When it was read, by our clock.
    pub read: i64,
}

/// A claim as we know it.
#[derive(Debug, Clone)]
pub struct Known {
    member: Member,
    renewed: i64,
    /// Since when it has been renewed, by our clock.
    since: i64,
    /// When it was first read.
    first: i64,
    lapsed: bool,
    /// Whether it counts as lapsed by its own clock alone, and may be renewed yet.
    unwatched: bool,
}

/// What is decided from a claim; a renewal is no news.
impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        (&self.member, self.lapsed, self.unwatched) == (&other.member, other.lapsed, other.unwatched)
    }
}

impl Known {
    /// What a claim is after it was read again.
    fn after(before: Option<&Self>, now: Renewal) -> Self {
        let Renewal { member, renewed, lasts, read } = now;
        let since = match before {
            Some(before) if before.renewed == renewed => before.since,
            Some(_) => read,
            None => renewed,
        };
        // A moment that is yet to come, by another clock than ours or because ours was put back, counts as now.
        let since = since.min(read);
        let first = before.map_or(read, |before| before.first).min(read);
        let lapsed = read.saturating_sub(since) > lasts.min(LONGEST);
        let unwatched = lapsed && read.saturating_sub(first) <= LONGEST;
        Self { lapsed, unwatched, member, renewed, since, first }
    }
}

/// The claims at the broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Members {
    /// They have not been listed yet.
    #[default]
    Unknown,
    /// Nobody can claim anything there.
    Unkept,
    /// By name.
    Listed(BTreeMap<String, Known>),
}

impl Members {
    /// How a claim of ours stands among them.
    pub(super) fn standing(&self, us: Option<&Member>) -> Standing {
        let members = match self {
            Self::Unknown => return Standing::Unproven,
            Self::Unkept => return Standing::Ours,
            Self::Listed(members) => members,
        };
        let Some(us) = us else { return Standing::Unproven };
        let mut alive = members.iter().filter(|(_, known)| !known.lapsed);
        let is_other = |member: &Member| member.cluster == us.cluster && member.uid != us.uid;
        match alive.find(|(_, known)| is_other(&known.member)) {
            Some((name, _)) => Standing::Contested(name.clone()),
            None if members.get(&us.name()).is_some_and(|known| known.member == *us && !known.lapsed) => {
                Standing::Ours
            }
            None => Standing::Unproven,
        }
    }

    /// Whether it is known who claims what, or that nobody can.
    pub(super) fn are_known(&self) -> bool {
        *self != Self::Unknown
    }

    /// The ids of others that two claim, each with two such claims. A claim of ours to an id that we went by before counts too:
    /// we let it go at once, and who writes one in our name must not be believed for that.
    pub(super) fn contested(&self, us: Option<&Member>) -> BTreeMap<ClusterId, Contest> {
        let Self::Listed(members) = self else { return BTreeMap::new() };
        let is_others = |member: &Member| us.is_none_or(|us| member.cluster != us.cluster);
        let alive = members.iter().filter(|(_, known)| !known.lapsed && is_others(&known.member));
        let (mut first, mut contested) = (BTreeMap::new(), BTreeMap::new());
        for (name, Known { member, .. }) in alive {
            let (one, uid) = *first.entry(&member.cluster).or_insert((name, &member.uid));
            if *uid != member.uid {
                let contest = || Contest { one: one.clone(), other: name.clone() };
                contested.entry(member.cluster.clone()).or_insert_with(contest);
            }
        }
        contested
    }

    /// The ids of others with a claim beside another's that may be renewed or not.
    pub(super) fn unsettled(&self, us: Option<&Member>) -> BTreeSet<ClusterId> {
        let Self::Listed(members) = self else { return BTreeSet::new() };
        let is_others = |known: &&Known| us.is_none_or(|us| known.member.cluster != us.cluster);
        let may_be_alive =
            members.values().filter(|known| !known.lapsed || known.unwatched).filter(is_others);
        let mut claimants: BTreeMap<&ClusterId, BTreeSet<&str>> = BTreeMap::new();
        for Known { member, .. } in may_be_alive {
            claimants.entry(&member.cluster).or_default().insert(&member.uid);
        }
        let several = claimants.into_iter().filter(|(_, claimants)| claimants.len() > 1);
        several.map(|(id, _)| id.clone()).collect()
    }

    /// The ids that we went by before, and that nobody else goes by now.
    pub(super) fn former(&self, us: Option<&Member>) -> BTreeSet<ClusterId> {
        let (Self::Listed(members), Some(us)) = (self, us) else { return BTreeSet::new() };
        let others: BTreeSet<&ClusterId> = members
            .values()
            .filter(|known| known.member.uid != us.uid && !known.lapsed)
            .map(|known| &known.member.cluster)
            .collect();
        let ours = members.values().map(|known| &known.member).filter(|member| member.uid == us.uid);
        let former =
            ours.map(|member| &member.cluster).filter(|id| **id != us.cluster && !others.contains(id));
        former.cloned().collect()
    }

    /// The claims after a change; nothing before the first full list, when it comes late from another broker.
    pub(super) fn after(&self, event: Change<String, Renewal>) -> Option<Self> {
        let mut members = match (self, &event) {
            (Self::Listed(members), _) => members.clone(),
            (Self::Unknown | Self::Unkept, Change::Reset(_)) => BTreeMap::new(),
            (Self::Unknown | Self::Unkept, Change::Put(..) | Change::Gone(_)) => return None,
        };
        match event {
            Change::Put(name, now) => {
                let known = Known::after(members.get(&name), now);
                members.insert(name, known);
            }
            Change::Gone(name) => drop(members.remove(&name)),
            Change::Reset(all) => {
                let known = |(name, now): (String, Renewal)| {
                    let known = Known::after(members.get(&name), now);
                    (name, known)
                };
                members = all.into_iter().map(known).collect();
            }
        }
        Some(Self::Listed(members))
    }
}

/// Two claims to one id, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contest {
    pub(super) one: String,
    pub(super) other: String,
}

/// How our claim stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not been seen at the broker.
    #[default]
    Unproven,
    /// The id is ours.
    Ours,
    /// Another cluster claims it too: the name of its claim.
    Contested(String),
}

/// What to write about ourselves at the broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MembershipTask {
    /// The claim to make or renew.
    pub claim: Option<Member>,
    /// Claims of ours to ids that we no longer go by.
    pub stale: Vec<String>,
}

/// Compiles our own claim: nothing before the others are listed. A claim to a former id goes last: it proves that
/// what was published under that id is ours to remove.
pub fn membership(state: &State) -> MembershipTask {
    let (Members::Listed(members), Some(uid)) = (&state.own.members, &state.own.uid) else {
        return MembershipTask::default();
    };
    let claim = state.own.ourselves();
    let ours = members.iter().filter(|(_, known)| known.member.uid == *uid);
    let stale = ours.filter(|(_, known)| Some(&known.member) != claim.as_ref());
    let stale = stale.filter(|(_, known)| !is_needed(state, &known.member.cluster));
    MembershipTask { stale: stale.map(|(name, _)| name.clone()).collect(), claim }
}

/// Whether something published under a former id of ours is still there, or may be.
fn is_needed(state: &State, id: &ClusterId) -> bool {
    let Some(copies) = state.records.copies().filter(|_| state.own.is_former(Some(id))) else {
        return state.own.is_former(Some(id));
    };
    let at_broker = copies.values().any(|copy| copy.origin.as_ref() == Some(id));
    let of_it = |record: &exchange::Record| record.cluster.as_ref() == Some(id);
    let mut here = state.records.here().values().filter(|record| of_it(record));
    at_broker || here.any(|record| exchange::is_former(state, record))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(renewed: i64, lasts: i64, read: i64) -> Change<String, Renewal> {
        let member = Member { cluster: "c1".parse().expect("an id"), uid: "theirs".into() };
        Change::Reset([(member.name(), Renewal { member, renewed, lasts, read })].into())
    }

    fn contested_for(lasts: i64, readings: &[(i64, i64)]) -> bool {
        let us = Member { cluster: "c1".parse().expect("an id"), uid: "ours".into() };
        let known = readings.iter().fold(Members::Unknown, |known, (renewed, at)| {
            known.after(read(*renewed, lasts, *at)).expect("a list")
        });
        matches!(known.standing(Some(&us)), Standing::Contested(_))
    }

    fn contested(readings: &[(i64, i64)]) -> bool {
        contested_for(360, readings)
    }

    #[test]
    fn a_claim_runs_out_when_it_is_not_renewed() {
        assert!(contested(&[(1000, 1000), (1000, 1360)]));
        assert!(!contested(&[(1000, 1000), (1000, 1361)]));
        assert!(!contested(&[(1000, 2000)]), "seen for the first time, it has only its own clock");
    }

    #[test]
    fn a_claimant_whose_clock_is_wrong_is_noticed_when_it_renews() {
        assert!(contested(&[(100, 2000), (220, 2120)]), "its clock is half an hour behind");
        assert!(!contested(&[(100, 2000), (220, 2120), (220, 2481)]), "and then it is gone");
        assert!(!contested(&[(9000, 2000), (9000, 2361)]), "its clock is ahead, and it is gone");
        assert!(contested(&[(i64::MAX, i64::MIN)]), "no clock breaks it");
    }

    #[test]
    fn no_claim_lasts_longer_than_anybodys_whatever_it_says() {
        let forever = i64::from(i32::MAX);
        for (lasts, readings, counts) in [
            (forever, &[(1000, 1000), (1000, 1360)][..], true),
            (forever, &[(1000, 1000), (1000, 1361)], false),
            (forever, &[(1000, 2000)], false),
            (forever, &[(32_472_144_000, 2000), (32_472_144_000, 2361)], false),
            // It may be shorter, and our own clock may be put back.
            (10, &[(1000, 1000), (1000, 1011)], false),
            (360, &[(9000, 9000), (9000, 1000), (9000, 1361)], false),
            (0, &[(1000, 1000), (1000, 1001)], false),
            (-1, &[(1000, 1000)], false),
        ] {
            assert_eq!(contested_for(lasts, readings), counts, "{lasts} {readings:?}");
        }
    }

    proptest! {
        #[test]
        fn one_that_is_not_renewed_ends_in_time_and_no_clock_breaks_it(
            renewed in any::<i64>(), lasts in any::<i64>(), first in 0..i64::MAX / 2, later in 0..2 * LONGEST,
        ) {
            let counts = contested_for(lasts, &[(renewed, first), (renewed, first + later)]);
            prop_assert!(!counts || later <= LONGEST && later <= lasts);
            prop_assert!(!counts || renewed.saturating_add(LONGEST) >= first + later, "its own time is over");
            // One that is renewed all the while counts, however wrong its clock is.
            let other = renewed.wrapping_add(1);
            let renewed = contested_for(lasts, &[(renewed, first), (other, first + later)]);
            prop_assert_eq!(renewed, lasts >= 0);
        }
    }
}
