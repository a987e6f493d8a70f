//! How much of what one member publishes counts here: the first so many of its records, and of its tunnels' ends, by name, so
//! that nobody fills another's cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::ClusterId;

/// How many records of one member are brought here unless something else is said.
pub const RECORDS_PER_MEMBER: usize = 1_000;

/// Each member's part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shares {
    limit: Option<usize>,
    members: BTreeMap<ClusterId, Share>,
}

/// One member's records by name. All that are taken come before all that wait, and none waits while there is room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Share {
    taken: BTreeSet<String>,
    waiting: BTreeSet<String>,
}

impl Shares {
    pub(super) fn new(limit: Option<usize>) -> Self {
        Self { limit, members: BTreeMap::new() }
    }

    /// How many of one member's are taken at most.
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(RECORDS_PER_MEMBER)
    }

    /// The same limit, and nothing published.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.limit)
    }

    pub(super) fn clear(&mut self) {
        self.members.clear();
    }

    /// Takes a record in; gives the one that has to wait from now on because of it.
    pub(super) fn insert(&mut self, member: &ClusterId, name: &str) -> Option<String> {
        let limit = self.limit();
        let Share { taken, waiting } = self.members.entry(member.clone()).or_default();
        taken.insert(name.into());
        let last = if taken.len() > limit { taken.pop_last() } else { None }?;
        waiting.insert(last.clone());
        Some(last)
    }

    /// Lets a record go; gives the one that waits no longer because of it.
    pub(super) fn remove(&mut self, member: &ClusterId, name: &str) -> Option<String> {
        let Share { taken, waiting } = self.members.get_mut(member)?;
        let next = if taken.remove(name) { waiting.pop_first() } else { None };
        waiting.remove(name);
        taken.extend(next.clone());
        if taken.is_empty() && waiting.is_empty() {
            self.members.remove(member);
        }
        next
    }

    /// Whether a record is brought here.
    pub(super) fn takes(&self, member: &ClusterId, name: &str) -> bool {
        self.members.get(member).is_some_and(|share| share.taken.contains(name))
    }

    /// Whether a member has published more.
    pub(super) fn is_exceeded(&self, member: &ClusterId) -> bool {
        self.members.get(member).is_some_and(|share| !share.waiting.is_empty())
    }

    /// The members that have published more, and how much more.
    pub(super) fn exceeded(&self) -> impl Iterator<Item = (&ClusterId, usize)> {
        let more = self.members.iter().map(|(member, share)| (member, share.waiting.len()));
        more.filter(|(_, more)| *more > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_by_name_are_taken_however_they_came(
            limit in 0..4_usize,
            happenings in vec((any::<bool>(), 0..8_u8, prop::bool::weighted(0.7)), 0..40),
        ) {
            let mut shares = Shares::new(Some(limit));
            let mut all: BTreeMap<ClusterId, BTreeSet<String>> = BTreeMap::new();
            for (one, number, comes) in happenings {
                let member: ClusterId = if one { "one" } else { "other" }.parse().expect("an id");
                let name = format!("gw{number}");
                let before = shares.clone();
                let names = all.entry(member.clone()).or_default();
                let moved = if comes {
                    names.insert(name.clone());
                    shares.insert(&member, &name)
                } else {
                    names.remove(&name);
                    shares.remove(&member, &name)
                };
                for (member, names) in &all {
                    for (rank, name) in names.iter().enumerate() {
                        prop_assert_eq!(shares.takes(member, name), rank < limit, "{}", name);
                    }
                    let more = shares.exceeded().find(|(exceeding, _)| *exceeding == member).map(|(_, more)| more);
                    prop_assert_eq!(more.unwrap_or(0), names.len().saturating_sub(limit));
                }
                // Nothing else changes sides unnoticed, and never another member's.
                for (member, other) in all.iter().flat_map(|(member, names)| names.iter().map(move |name| (member, name))) {
                    let noticed = *other == name || moved.as_ref() == Some(other);
                    prop_assert!(noticed || before.takes(member, other) == shares.takes(member, other));
                }
            }
        }
    }
}
