//! Which replicas count: each holds a Lease of its own.
//!
//! A Lease counts from when it was seen to change, by the clock of whoever looks: clocks of replicas may differ by more
//! than a Lease lasts, and whoever is taken for dead by one and for alive by another is struck out and written again
//! without end.

use std::collections::BTreeMap;

/// How long a replica that has fallen silent counts, in seconds, where its Lease does not say.
pub const LASTS: i64 = 60;
/// The longest that a Lease counts.
const LONGEST: i64 = 5 * LASTS;
/// A Lease that nobody renewed for so many seconds was left behind by one that crashed.
const ABANDONED: i64 = 3600;

/// What was seen of Leases.
#[derive(Debug, Default)]
pub struct Sightings(BTreeMap<String, Sighting>);

#[derive(Debug)]
struct Sighting {
    /// What it said.
    renewed: Option<String>,
    /// Since when it has said that, as far as we know.
    since: i64,
    /// When it was last looked at.
    looked: i64,
}

impl Sightings {
    /// Sees a replica's Lease: when it was last renewed in its own words, for how many seconds that counts. Whether the
    /// replica counts. What `now` is counted from does not matter.
    pub fn see(&mut self, replica: &str, renewed: Option<String>, lasts: Option<i32>, now: i64) -> bool {
        // Nobody writes more, but whoever edits it.
        let lasts = lasts.map_or(LASTS, i64::from).min(LONGEST);
        let known = self.0.get(replica).filter(|known| known.renewed == renewed);
        let since = known.map_or(now, |known| known.since);
        let is_alive = renewed.is_some() && now.saturating_sub(since) <= lasts;
        self.0.insert(replica.into(), Sighting { renewed, since, looked: now });
        // One that is there is looked at with every list.
        self.0.retain(|_, seen| now.saturating_sub(seen.looked) <= ABANDONED);
        is_alive
    }
}

/// Whether nobody will come back for a Lease that was last renewed then, in seconds of everybody's clock.
pub fn is_abandoned(renewed: Option<i64>, now: i64) -> bool {
    renewed.is_some_and(|renewed| now.saturating_sub(renewed) > ABANDONED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_counts_while_its_lease_is_seen_to_change_whatever_its_clock_says() {
        let mut seen = Sightings::default();
        let mut at = |renewed: &str, now| seen.see("a", Some(renewed.into()), Some(60), now);
        assert!(at("1970-01-01", 1_000), "seen for the first time");
        assert!(at("1970-01-01", 1_060));
        assert!(!at("1970-01-01", 1_061), "it has not changed for long");
        assert!(at("2999-01-01", 1_062) && at("1970-01-01", 1_063), "it has");
        assert!(!seen.see("b", None, None, 0), "somebody is about to write it");
    }

    #[test]
    fn a_replica_that_is_gone_is_forgotten() {
        let mut seen = Sightings::default();
        for name in 0..1_000 {
            seen.see(&name.to_string(), Some("x".into()), None, name * 100);
        }
        assert!(seen.0.len() < 50, "{}", seen.0.len());
    }

    #[test]
    fn a_lease_is_given_up_much_later_than_its_holder() {
        assert!(!is_abandoned(Some(100), 3_700) && is_abandoned(Some(100), 3_701));
        assert!(!is_abandoned(None, 9_999) && !is_abandoned(Some(i64::MAX), i64::MIN));
    }
}
