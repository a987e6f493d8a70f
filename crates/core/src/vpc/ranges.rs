//! Which cluster claims which addresses: by its gateways' records, and by Submariner's `Cluster` objects.

use std::collections::BTreeMap;

use super::exchange::{RECORD_NAMESPACE, Record};
use crate::names::{ClusterId, Ipv4Cidr};

/// The ranges that clusters claim, with how many objects say so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<Ipv4Cidr, BTreeMap<ClusterId, usize>>);

impl Ranges {
    /// Another object says that a cluster has a range; whether the first one does.
    fn insert(&mut self, cluster: &ClusterId, range: Ipv4Cidr) -> bool {
        let count = self.0.entry(range).or_default().entry(cluster.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// One object fewer says so; whether none does any more.
    fn remove(&mut self, cluster: &ClusterId, range: Ipv4Cidr) -> bool {
        let Some(clusters) = self.0.get_mut(&range) else { return false };
        let Some(count) = clusters.get_mut(cluster) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        clusters.remove(cluster);
        if clusters.is_empty() {
            self.0.remove(&range);
        }
        true
    }

    /// Takes in how what one object says has changed. Gives what nobody had said before or nobody says now.
    pub(super) fn take(&mut self, old: Option<Claimed>, new: Option<Claimed>) -> Vec<Claimed> {
        if old == new {
            return Vec::new();
        }
        let gone = old.filter(|(cluster, range)| self.remove(cluster, *range));
        let come = new.filter(|(cluster, range)| self.insert(cluster, *range));
        gone.into_iter().chain(come).collect()
    }

    /// The clusters that claim addresses of a range, each with what it claims.
    pub(super) fn around(&self, range: Ipv4Cidr) -> impl Iterator<Item = (&ClusterId, Ipv4Cidr)> {
        let wider = range.covering().skip(1).filter_map(|wider| self.0.get_key_value(&wider));
        let within = self.0.range(range..=range.last()).filter(move |(within, _)| range.covers(**within));
        wider.chain(within).flat_map(|(range, clusters)| clusters.keys().map(|cluster| (cluster, *range)))
    }

    /// Another cluster than these two that claims addresses of a range, and which.
    pub(super) fn rival(
        &self,
        range: Ipv4Cidr,
        theirs: &ClusterId,
        ours: Option<&ClusterId>,
        counts: impl Fn(Ipv4Cidr) -> bool,
    ) -> Option<(&ClusterId, Ipv4Cidr)> {
        let is_rival = |cluster: &ClusterId| cluster != theirs && Some(cluster) != ours;
        self.around(range).find(|(cluster, range)| is_rival(cluster) && counts(*range))
    }
}

/// A cluster and the range that it claims.
pub(super) type Claimed = (ClusterId, Ipv4Cidr);

/// What a record claims for its cluster, if it counts.
pub(super) fn of_record(record: &Record) -> Option<Claimed> {
    let counts =
        record.key.namespace() == RECORD_NAMESPACE && !record.deleting && record.unreadable.is_none();
    let range = record.globalnet.parse().ok().filter(|_| counts)?;
    Some((record.cluster.clone()?, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(cluster: &str, range: &str) -> Claimed {
        (cluster.parse().expect("an id"), range.parse().expect("a range"))
    }

    #[test]
    fn whoever_claims_addresses_of_a_range_is_found_above_and_below_it() {
        let mut ranges = Ranges::default();
        let [wide, narrow, other] =
            [("a", "242.0.0.0/8"), ("b", "242.1.1.0/24"), ("c", "10.0.0.0/8")].map(|(c, r)| claimed(c, r));
        for claim in [&wide, &narrow, &other] {
            assert_eq!(ranges.take(None, Some(claim.clone())), std::slice::from_ref(claim));
        }
        assert!(ranges.take(None, Some(narrow.clone())).is_empty(), "said before");
        let (cluster, range) = claimed("d", "242.1.0.0/16");
        let found: Vec<_> = ranges.around(range).map(|(cluster, _)| cluster.as_str()).collect();
        assert_eq!(found, ["a", "b"]);
        assert_eq!(ranges.rival(range, &wide.0, Some(&narrow.0), |_| true), None);
        let rival =
            |ranges: &Ranges| ranges.rival(range, &cluster, Some(&wide.0), |_| true).map(|(_, range)| range);
        assert_eq!(rival(&ranges), Some(narrow.1));
        assert_eq!(ranges.rival(range, &cluster, Some(&wide.0), |_| false), None);
        assert!(ranges.take(Some(narrow.clone()), None).is_empty(), "another object still says so");
        assert_eq!(ranges.take(Some(narrow.clone()), None), [narrow]);
        assert_eq!(rival(&ranges), None);
    }
}
