//! Which replicas count: each holds a Lease of its own.

/// How long a replica that has fallen silent counts, in seconds, where its Lease does not say.
pub const LASTS: i64 = 60;
/// A Lease that nobody renewed for so many seconds was left behind by one that crashed.
const ABANDONED: i64 = 3600;

/// What a Lease says, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// When it was last renewed, if ever.
    pub renewed: Option<i64>,
    /// For how long that counts.
    pub lasts: Option<i32>,
}

impl Renewal {
    /// Whether its holder counts.
    pub fn is_alive(&self, now: i64) -> bool {
        let lasts = self.lasts.map_or(LASTS, i64::from);
        self.renewed.is_some_and(|renewed| now.saturating_sub(renewed) <= lasts)
    }

    /// Whether nobody will come back for it.
    pub fn is_abandoned(&self, now: i64) -> bool {
        !self.is_alive(now) && self.renewed.is_some_and(|renewed| now.saturating_sub(renewed) > ABANDONED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_counts_while_its_lease_lasts_and_is_given_up_much_later() {
        let at = |renewed, now| {
            let renewal = Renewal { renewed, lasts: Some(60) };
            (renewal.is_alive(now), renewal.is_abandoned(now))
        };
        assert_eq!(at(Some(100), 160), (true, false));
        assert_eq!(at(Some(100), 161), (false, false), "it may only be slow");
        assert_eq!(at(Some(100), 3_701), (false, true));
        assert_eq!(at(None, 9_999), (false, false), "somebody is about to write it");
        assert_eq!(at(Some(i64::MAX), i64::MIN), (true, false), "a clock that is wrong");
        let long = Renewal { renewed: Some(0), lasts: Some(7200) };
        assert!(long.is_alive(7_000) && !long.is_abandoned(7_000));
    }
}
