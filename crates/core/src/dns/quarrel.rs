//! Patience with whoever undoes our work: put back at once, and then later each time.
//!
//! Each change of a Deployment restarts a VPC's DNS servers. Two who undo each other's would restart them for ever.

use std::time::Duration;

/// How long after the second time in a row it is tried again; twice as long after each further one.
const FIRST: Duration = Duration::from_secs(1);
/// The longest that is waited.
const LONGEST: Duration = Duration::from_secs(300);
/// After so long without a word it is over.
pub const QUIET: Duration = Duration::from_secs(600);
/// How often the same thing is undone before that is told.
const TOLD_AFTER: u32 = 3;

/// What was written to one place, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarrel {
    what: String,
    /// How often it was written again, though nothing else was wanted meanwhile.
    again: u32,
    /// When, by a clock that somebody else has.
    at: Duration,
}

impl Quarrel {
    /// The first write of something.
    pub fn begin(what: String, now: Duration) -> Self {
        Self { what, again: 0, at: now }
    }

    /// Another write.
    pub fn wrote(&mut self, what: String, now: Duration) {
        let is_same = self.what == what && !self.is_over(now);
        let again = if is_same { self.again.saturating_add(1) } else { 0 };
        *self = Self { what, again, at: now };
    }

    /// How long to wait before the same thing is written again.
    pub fn pause(&self, what: &str, now: Duration) -> Option<Duration> {
        let doublings = self.again.checked_sub(1)?;
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST);
        let left = (self.at + pause).checked_sub(now).filter(|left| !left.is_zero())?;
        (self.what == what).then_some(left)
    }

    /// Whether somebody undoes it again and again.
    pub fn is_worth_telling(&self, now: Duration) -> bool {
        self.again >= TOLD_AFTER && !self.is_over(now)
    }

    /// Whether nothing has happened for long.
    pub fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undone_once_is_put_back_at_once_and_then_later_each_time() {
        let second = Duration::from_secs(1);
        let mut now = Duration::ZERO;
        let mut quarrel = Quarrel::begin("a".into(), now);
        assert_eq!(quarrel.pause("a", now), None);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            quarrel.wrote("a".into(), now);
            let pause = quarrel.pause("a", now).expect("some");
            assert_eq!(quarrel.pause("b", now), None, "something else is wanted");
            pauses.push(pause.as_secs());
            now += pause;
            assert_eq!(quarrel.pause("a", now), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(quarrel.is_worth_telling(now));
        quarrel.wrote("b".into(), now);
        assert!(!quarrel.is_worth_telling(now));
        quarrel.wrote("b".into(), now + QUIET);
        assert_eq!(quarrel, Quarrel::begin("b".into(), now + QUIET), "long ago is another time");
        assert!(quarrel.pause("b", now + QUIET + second).is_none());
    }
}
