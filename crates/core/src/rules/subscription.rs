//! What a data plane is sent under which version, what it answers, and to what.

use std::collections::BTreeMap;

/// The code of success.
pub const SUCCESS: i32 = 1;
/// The client holds a newer version.
pub const OUTDATED: i32 = 4010;

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The client runs what it was sent.
    Applied,
    /// It holds something newer.
    Outdated,
    /// It does not run it.
    Failed {
        /// Its code.
        code: i32,
        /// Its words.
        message: String,
    },
}

/// An answer's meaning. Clients say `ACK` also when their handler failed: one by a code, another by a message.
pub fn verdict(is_ack: bool, status: Option<(i32, &str)>) -> Verdict {
    match status {
        Some((SUCCESS, "")) if is_ack => Verdict::Applied,
        Some((OUTDATED, _)) => Verdict::Outdated,
        Some((code, message)) => Verdict::Failed { code, message: message.into() },
        None => Verdict::Failed { code: 0, message: "it gave no status".into() },
    }
}

/// What a subscriber answered to the present set, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It runs it.
    Acked,
    /// Nothing yet.
    Pending,
    /// It does not run it.
    Failed,
}

/// What one of a stream's pushes was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Push {
    /// To which of the stream's subscriptions.
    pub subscription: u64,
    /// With which version.
    pub version: i64,
}

/// The pushes of a stream that were not answered.
#[derive(Debug, Default)]
pub struct Unanswered {
    pushes: BTreeMap<u64, Push>,
    last: u64,
}

/// A client that never answers is remembered for so many pushes: two for each subscription that it may have.
const MOST: usize = 2 * 8192;

impl Unanswered {
    /// Takes note of a push, and gives its number.
    pub fn sent(&mut self, push: Push) -> u64 {
        self.last += 1;
        self.pushes.insert(self.last, push);
        if self.pushes.len() > MOST {
            self.pushes.pop_first();
        }
        self.last
    }

    /// Which push is answered: the one with this number, or without one the oldest. What went to the same
    /// subscription before is settled with it.
    pub fn answered(&mut self, number: Option<u64>) -> Option<Push> {
        let number = number.or_else(|| self.pushes.keys().next().copied())?;
        let push = self.pushes.remove(&number)?;
        self.pushes.retain(|other, it| *other > number || it.subscription != push.subscription);
        Some(push)
    }

    /// Forgets a subscription that ended.
    pub fn forget(&mut self, subscription: u64) {
        self.pushes.retain(|_, push| push.subscription != subscription);
    }
}

/// What is first added to come above what a client holds; each time in vain it is 16 times as much.
const FIRST_LIFT: i64 = 1 << 20;

/// The versions that one of a stream's subscriptions is sent. They never fall, and rise with each other set.
#[derive(Debug, Default)]
pub struct Versions {
    sent: Option<i64>,
    /// What a version is at least, for a client that holds a higher one than there is.
    least: i64,
    /// What was last added to come above that.
    lift: i64,
}

/// How a client that holds something newer is sent what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// Under the version of a later list, which is higher.
    AsListed,
    /// So much above what it was sent: the cluster counts from a lower number again.
    Lifted(i64),
    /// Not at all: there is no higher version.
    GivenUp,
}

impl Versions {
    /// The version that a set has on this stream; `again` where it is the one that was sent last.
    pub fn of(&self, version: i64, again: bool) -> i64 {
        let above = |sent: i64| if again { sent } else { sent.saturating_add(1) };
        version.max(self.least).max(self.sent.map_or(0, above))
    }

    /// Takes note that a version was sent.
    pub fn sent(&mut self, version: i64) {
        self.sent = Some(version);
    }

    /// What was last sent.
    pub fn last(&self) -> Option<i64> {
        self.sent
    }

    /// Whether the client held something newer before: then no list helps it.
    pub fn was_raised(&self) -> bool {
        self.least > 0
    }

    /// Raises what is sent next for a client that holds something newer than it was sent, where a list made since has
    /// this version. Another replica may have listed later, with the same rules: then that version is enough. If it is
    /// not, the cluster counts from a lower number again, as one that was restored does. There later lists have higher
    /// versions too, without end, so that only the first one counts.
    pub fn raise(&mut self, listed: i64) -> Resent {
        let sent = self.sent.unwrap_or_default();
        if sent == i64::MAX {
            return Resent::GivenUp;
        }
        if listed > sent && !self.was_raised() {
            self.least = listed;
            return Resent::AsListed;
        }
        self.lift = self.lift.saturating_mul(16).max(FIRST_LIFT);
        self.least = sent.max(listed).saturating_add(self.lift);
        Resent::Lifted(self.lift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_never_fall_and_rise_with_each_other_set() {
        let mut versions = Versions::default();
        assert_eq!(versions.of(7, false), 7);
        versions.sent(7);
        assert_eq!((versions.of(7, true), versions.of(3, true)), (7, 7), "the same set again");
        assert_eq!((versions.of(3, false), versions.of(7, false), versions.of(9, false)), (8, 8, 9));
    }

    #[test]
    fn who_holds_something_newer_is_sent_a_later_lists_version_and_then_ever_higher_ones() {
        let mut versions = Versions::default();
        versions.sent(100);
        assert!(!versions.was_raised());
        assert_eq!(versions.raise(120), Resent::AsListed);
        assert_eq!((versions.of(100, true), versions.was_raised()), (120, true));
        versions.sent(120);
        assert_eq!(versions.raise(130), Resent::Lifted(1 << 20), "the cluster's number rises all the time");
        assert_eq!(versions.of(131, true), 130 + (1 << 20));
        versions.sent(130 + (1 << 20));
        assert_eq!(versions.raise(140), Resent::Lifted(1 << 24), "in vain so far");
        versions.sent(i64::MAX);
        assert_eq!(versions.raise(0), Resent::GivenUp);
        assert_eq!(versions.of(1, false), i64::MAX, "and no further");
    }

    #[test]
    fn applied_is_an_ack_with_code_one_and_no_words() {
        let failed = |code, message: &str| Verdict::Failed { code, message: message.into() };
        assert_eq!(verdict(true, Some((1, ""))), Verdict::Applied);
        assert_eq!(verdict(true, Some((4007, "boom"))), failed(4007, "boom"), "the Go SDK's failing handler");
        assert_eq!(verdict(true, Some((1, "boom"))), failed(1, "boom"), "the Java SDK's failing handler");
        assert_eq!(verdict(false, Some((4000, "bad bytes"))), failed(4000, "bad bytes"));
        assert_eq!(verdict(false, Some((1, ""))), failed(1, ""));
        assert_eq!(verdict(true, Some((4010, "old"))), Verdict::Outdated);
        assert_eq!(verdict(false, None), failed(0, "it gave no status"));
    }

    #[test]
    fn an_answer_without_a_number_is_the_oldest_pushes() {
        let mut unanswered = Unanswered::default();
        let push = |subscription, version| Push { subscription, version };
        let first = unanswered.sent(push(1, 10));
        let second = unanswered.sent(push(2, 10));
        let third = unanswered.sent(push(1, 11));
        assert_eq!(unanswered.answered(None), Some(push(1, 10)));
        assert_eq!(unanswered.answered(Some(first)), None, "it was answered");
        assert_eq!(unanswered.answered(Some(third)), Some(push(1, 11)));
        assert_eq!(unanswered.answered(Some(second)), Some(push(2, 10)));
        assert_eq!(unanswered.answered(None), None);
        unanswered.sent(push(1, 12));
        unanswered.sent(push(1, 13));
        assert_eq!(unanswered.answered(Some(5)), Some(push(1, 13)));
        assert_eq!(unanswered.answered(None), None, "what went before is settled with it");
    }

    #[test]
    fn who_never_answers_costs_bounded_memory() {
        let mut unanswered = Unanswered::default();
        for version in 0..100_000 {
            unanswered.sent(Push { subscription: 1, version });
        }
        assert_eq!(unanswered.pushes.len(), MOST);
        unanswered.forget(1);
        assert!(unanswered.pushes.is_empty());
    }
}
