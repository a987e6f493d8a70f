//! Who goes by which id at the broker.
//!
//! Ids are self-declared. So each cluster keeps a claim there (a Lease that it renews): "I, known by the uid
//! of my kube-system, go by this id". A cluster exchanges nothing before it has seen its own claim listed, so
//! of two that come at once at least one sees the other's; then both are told, and neither writes at the
//! broker any more: they would undo each other's work for ever. A claim that is not renewed runs out.

use std::collections::BTreeMap;

use super::state::State;
use crate::names::ClusterId;
use crate::room::Change;

/// A claim to an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The id.
    pub cluster: ClusterId,
    /// What tells the claimant from another.
    pub uid: String,
}

impl Member {
    /// The name of the claim.
    pub fn name(&self) -> String {
        format!("causeway.{}.{}", self.cluster, self.uid)
    }
}

/// The claims at the broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Members {
    /// They have not been listed yet.
    #[default]
    Unknown,
    /// Nobody can claim anything there.
    Unkept,
    /// By name.
    Listed(BTreeMap<String, Member>),
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
        let other = members.iter().find(|(_, member)| member.cluster == us.cluster && member.uid != us.uid);
        match other {
            Some((name, _)) => Standing::Contested(name.clone()),
            None if members.get(&us.name()) == Some(us) => Standing::Ours,
            None => Standing::Unproven,
        }
    }

    /// The claims after a change; nothing before the first full list, when it is a late word of another broker.
    pub(super) fn after(self, event: Change<String, Member>) -> Option<Self> {
        let mut members = match (self, &event) {
            (Self::Listed(members), _) => members,
            (Self::Unknown | Self::Unkept, Change::Reset(_)) => BTreeMap::new(),
            (Self::Unknown | Self::Unkept, Change::Put(..) | Change::Gone(_)) => return None,
        };
        event.carry_out(&mut members);
        Some(Self::Listed(members))
    }
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

/// Compiles our own claim: nothing before the others are listed.
pub fn membership(state: &State) -> MembershipTask {
    let (Members::Listed(members), Some(uid)) = (&state.own.members, &state.own.uid) else {
        return MembershipTask::default();
    };
    let claim = state.own.ourselves();
    let stale = members.iter().filter(|(_, member)| member.uid == *uid && Some(*member) != claim.as_ref());
    MembershipTask { stale: stale.map(|(name, _)| name.clone()).collect(), claim }
}
