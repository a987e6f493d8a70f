//! A set that somebody asks for: what it is, who asks for it, what they were sent and what they answered.
//!
//! Whoever brings a cell up to date holds its lock while the set is compiled, so an older one never follows a newer one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use causeway_core::ObjectKey;
use causeway_core::rules::state::{Set, Standing, Target};
use causeway_core::rules::status::OURSELVES;
use causeway_core::rules::subscription::{Answer, Verdict};
use causeway_core::rules::words::plain;
use causeway_core::rules::{Failure, Share};

use super::lock;
use super::mailbox::Mailbox;
use super::message::{LARGEST, Shared};

/// The last that a subscription answered, to whatever it was sent.
#[derive(Debug, Clone)]
pub(super) struct LastAnswer {
    pub(super) version: i64,
    pub(super) at: jiff::Timestamp,
    pub(super) said: Said,
}

/// What that was.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Acked,
    Outdated,
    Failed { code: i32, message: Arc<str> },
}

impl From<&Verdict> for Said {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Applied => Self::Acked,
            Verdict::Outdated => Self::Outdated,
            Verdict::Failed { code, message } => {
                Self::Failed { code: *code, message: shortened(message).into() }
            }
        }
    }
}

/// The longest failure that is reported, in characters.
const LONGEST_MESSAGE: usize = 512;

/// A client's words, cut to a bounded length.
pub(super) fn shortened(message: &str) -> String {
    plain(message, LONGEST_MESSAGE)
}

struct Member {
    mailbox: Arc<Mailbox>,
    answer: Answer,
    /// Whether it was sent the present set: until then its answers are about another.
    has_current: bool,
    /// The version that it was sent last.
    version: Option<i64>,
    last: Option<LastAnswer>,
}

/// What is known of one subscription.
pub(super) struct Known {
    pub(super) stream: u64,
    pub(super) version: Option<i64>,
    pub(super) last: Option<LastAnswer>,
}

/// A set that somebody asks for.
pub(super) struct Cell {
    pub(super) target: Target,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    current: Current,
    /// By stream and subscription.
    members: BTreeMap<(u64, u64), Member>,
    /// How many of them run it, and how many refused it.
    acked: u32,
    refused: u32,
    failure: Option<Failure>,
    /// A set that nobody could take, in place of which the present one stays.
    oversized: Option<Oversized>,
    /// Somebody will count again.
    tallying: bool,
}

/// A set that nobody could take.
struct Oversized {
    size: usize,
    version: i64,
    rules: Vec<ObjectKey>,
    /// Since when, in seconds.
    since: i64,
}

/// What is to be sent.
#[derive(Clone, Default)]
pub(super) enum Current {
    /// The kind was not listed yet.
    #[default]
    Unknown,
    /// The kind's definition is missing.
    Missing,
    /// This.
    Set(Arc<Shared>),
}

impl Cell {
    /// That of a set, of which nothing is known.
    pub(super) fn new(target: Target) -> Self {
        Self { target, inner: Mutex::default() }
    }

    /// What is to be sent.
    pub(super) fn current(&self) -> Current {
        lock(&self.inner).current.clone()
    }

    /// The version of what is to be sent.
    pub(super) fn version(&self) -> Option<i64> {
        lock(&self.inner).version()
    }

    /// The size of a set that nobody could take.
    pub(super) fn oversize(&self) -> Option<usize> {
        lock(&self.inner).oversized.as_ref().map(|it| it.size)
    }

    /// Brings the cell up to date; whether that is news. `compile` is called with the cell locked, with the version
    /// that the cell has, and may say that it is still that.
    pub(super) fn refresh(
        &self,
        now: i64,
        compile: impl FnOnce(&Target, Option<i64>) -> Compiled,
    ) -> Refreshed {
        let mut inner = lock(&self.inner);
        let compiled = match compile(&self.target, inner.version()) {
            Compiled::Same => return Refreshed::Same,
            Compiled::Other(standing, set) => (standing, set),
        };
        let before = inner.rules();
        let next = match compiled {
            // What is known stays, for whoever has it; a definition may be gone for a moment.
            (Standing::Missing | Standing::Unknown, _) if matches!(inner.current, Current::Set(_)) => {
                return Refreshed::Same;
            }
            (Standing::Unknown, _) | (Standing::Listed, None) => return Refreshed::Same,
            (Standing::Missing, _) if matches!(inner.current, Current::Missing) => return Refreshed::Same,
            (Standing::Missing, _) => Current::Missing,
            (Standing::Listed, Some(set)) => {
                if let Current::Set(shared) = &inner.current
                    && shared.has_data_of(&set)
                {
                    shared.raise(set.version);
                    if shared.rules != set.rules {
                        // Rules of other names may say the same.
                        inner.current = Current::Set(Arc::new(Shared::new(&self.target, set)));
                    }
                    inner.oversized = None;
                    // Whoever has it needs not be told. Others may have been refused it meanwhile.
                    let others = inner.members.iter().filter(|(_, member)| !member.has_current);
                    let others: Vec<_> =
                        others.map(|((_, it), member)| (member.mailbox.clone(), *it)).collect();
                    let left = inner.left_of(before);
                    drop(inner);
                    others.iter().for_each(|(mailbox, subscription)| mailbox.add(*subscription));
                    return Refreshed::News(left);
                }
                if let Some(size) = Shared::oversize(&self.target, &set) {
                    let is_new = inner.oversized.is_none();
                    let since = inner.oversized.as_ref().map_or(now, |known| known.since);
                    let Set { version, rules, .. } = set;
                    inner.oversized = Some(Oversized { size, version, rules, since });
                    return Refreshed::TooLarge { size, is_new };
                }
                Current::Set(Arc::new(Shared::new(&self.target, set)))
            }
        };
        inner.current = next;
        (inner.failure, inner.oversized) = (None, None);
        (inner.acked, inner.refused) = (0, 0);
        let concerned = inner.members.iter_mut().map(|((_, subscription), member)| {
            (member.answer, member.has_current) = (Answer::Pending, false);
            (member.mailbox.clone(), *subscription)
        });
        let concerned: Vec<_> = concerned.collect();
        let left = inner.left_of(before);
        // Whoever wakes up looks at the cell at once, and should not have to wait until the last one is woken.
        drop(inner);
        concerned.iter().for_each(|(mailbox, subscription)| mailbox.add(*subscription));
        Refreshed::News(left)
    }

    /// One more asks for it.
    pub(super) fn join(&self, mailbox: &Arc<Mailbox>, subscription: u64) {
        let (mailbox, answer) = (mailbox.clone(), Answer::Pending);
        let stream = mailbox.stream;
        let member = Member { mailbox, answer, has_current: false, version: None, last: None };
        lock(&self.inner).members.insert((stream, subscription), member);
    }

    /// One less does.
    pub(super) fn leave(&self, stream: u64, subscription: u64) -> Left {
        let mut inner = lock(&self.inner);
        if let Some(member) = inner.members.remove(&(stream, subscription)) {
            inner.count(member.answer, false);
        }
        if inner.members.is_empty() {
            return Left::Last(inner.rules());
        }
        if std::mem::replace(&mut inner.tallying, true) { Left::Others } else { Left::Uncounted }
    }

    /// Takes note that a set was sent under a version.
    pub(super) fn sent(&self, stream: u64, subscription: u64, shared: &Arc<Shared>, version: i64) {
        let mut inner = lock(&self.inner);
        let is_current = matches!(&inner.current, Current::Set(current) if Arc::ptr_eq(current, shared));
        if let Some(member) = inner.members.get_mut(&(stream, subscription)) {
            (member.version, member.has_current) = (Some(version), is_current);
        }
    }

    /// Takes note of an answer that settles nothing.
    pub(super) fn noted(&self, stream: u64, subscription: u64, last: LastAnswer) {
        if let Some(member) = lock(&self.inner).members.get_mut(&(stream, subscription)) {
            member.last = Some(last);
        }
    }

    /// Takes an answer to the present set; whether somebody has to count now.
    pub(super) fn answered(
        &self,
        stream: u64,
        subscription: u64,
        answer: Answer,
        failure: Option<Failure>,
        last: LastAnswer,
    ) -> bool {
        let mut inner = lock(&self.inner);
        let Some(member) = inner.members.get_mut(&(stream, subscription)) else { return false };
        member.last = Some(last);
        if !member.has_current {
            return false;
        }
        let before = std::mem::replace(&mut member.answer, answer);
        inner.count(before, false);
        inner.count(answer, true);
        if failure.is_some() {
            inner.failure = failure;
        }
        !std::mem::replace(&mut inner.tallying, true)
    }

    /// Whoever asks for it. Copied at once, so that nobody waits for whoever reads it.
    pub(super) fn members(&self) -> Vec<Known> {
        let inner = lock(&self.inner);
        let known = |(&(stream, _), member): (&(u64, u64), &Member)| Known {
            stream,
            version: member.version,
            last: member.last.clone(),
        };
        inner.members.iter().map(known).collect()
    }

    /// The rules of the present set. From now on an answer has to be counted again.
    pub(super) fn tally(&self) -> Vec<ObjectKey> {
        let mut inner = lock(&self.inner);
        inner.tallying = false;
        inner.rules()
    }

    /// What each stream says of a rule, where it is in it.
    pub(super) fn answers(&self, rule: &ObjectKey) -> Vec<(u64, Answer)> {
        let inner = lock(&self.inner);
        if !inner.has(rule) {
            return Vec::new();
        }
        let members = inner.members.iter();
        members.map(|((stream, _), member)| (*stream, inner.answer_of(member, rule))).collect()
    }

    /// What a stream says of a rule, if it asks for this and it is in it.
    pub(super) fn answer(&self, stream: u64, rule: &ObjectKey) -> Option<Answer> {
        let inner = lock(&self.inner);
        let (_, member) = inner.members.range((stream, 0)..=(stream, u64::MAX)).next()?;
        inner.has(rule).then(|| inner.answer_of(member, rule))
    }

    /// What its subscribers say of a rule that is in it; none where it is not.
    pub(super) fn share(&self, rule: &ObjectKey) -> Option<Share> {
        let inner = lock(&self.inner);
        let members = u32::try_from(inner.members.len()).unwrap_or(u32::MAX);
        if let Some(Oversized { size, since, .. }) = &inner.oversized
            && inner.is_too_large(rule)
        {
            let message = format!(
                "nobody was sent the set of app {}: it has {size} bytes, more than data planes take ({LARGEST}), and what \
                 they have stays",
                self.target.app
            );
            let failure = Failure { client: OURSELVES.into(), code: 0, message, at: *since };
            return Some(Share { failed: members, failure: Some(failure), ..Share::default() });
        }
        let Current::Set(shared) = &inner.current else { return None };
        shared.rules.binary_search(rule).ok()?;
        let (acked, failed) = (inner.acked, inner.refused);
        let pending = members.saturating_sub(acked).saturating_sub(failed);
        Some(Share {
            generation: 0,
            acked,
            failed,
            pending,
            failure: inner.failure.clone().filter(|_| failed > 0),
        })
    }
}

impl Inner {
    fn version(&self) -> Option<i64> {
        match (&self.oversized, &self.current) {
            (Some(oversized), _) => Some(oversized.version),
            (None, Current::Set(shared)) => Some(shared.version()),
            (None, Current::Unknown | Current::Missing) => None,
        }
    }

    /// Whether a rule is in it, sent or not.
    fn has(&self, rule: &ObjectKey) -> bool {
        let sent = matches!(&self.current, Current::Set(shared) if shared.rules.binary_search(rule).is_ok());
        sent || self.is_too_large(rule)
    }

    fn is_too_large(&self, rule: &ObjectKey) -> bool {
        self.oversized.as_ref().is_some_and(|it| it.rules.binary_search(rule).is_ok())
    }

    /// What a subscriber says of a rule; of one that could not be sent everybody says the same.
    fn answer_of(&self, member: &Member, rule: &ObjectKey) -> Answer {
        if self.is_too_large(rule) { Answer::Failed } else { member.answer }
    }

    fn count(&mut self, answer: Answer, more: bool) {
        let counter = match answer {
            Answer::Pending => return,
            Answer::Acked => &mut self.acked,
            Answer::Failed => &mut self.refused,
        };
        *counter = if more { *counter + 1 } else { *counter - 1 };
    }

    /// Its rules, and those of the set that is too large.
    fn rules(&self) -> Vec<ObjectKey> {
        let mut rules = self.current.rules();
        rules.extend(self.oversized.iter().flat_map(|it| it.rules.clone()));
        rules
    }

    /// Those of these rules that are not in it any more.
    fn left_of(&self, before: Vec<ObjectKey>) -> Vec<ObjectKey> {
        before.into_iter().filter(|rule| !self.has(rule)).collect()
    }
}

/// What a subscription leaves behind.
pub(super) enum Left {
    /// Others, and somebody will count them.
    Others,
    /// Others, who have to be counted.
    Uncounted,
    /// Nobody. These were the rules.
    Last(Vec<ObjectKey>),
}

impl Current {
    fn rules(&self) -> Vec<ObjectKey> {
        if let Self::Set(shared) = self { shared.rules.clone() } else { Vec::new() }
    }
}

/// What a set is by now.
pub(super) enum Compiled {
    /// What it was.
    Same,
    /// This, if anything is known of its kind.
    Other(Standing, Option<Set>),
}

/// What came of bringing a cell up to date.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refreshed {
    /// It was.
    Same,
    /// Whoever has not what it is gets that, and all have to be counted. These rules are not in it any more.
    News(Vec<ObjectKey>),
    /// The set has so many bytes: nobody could take it, and the last good one stays.
    TooLarge {
        size: usize,
        /// The one before was not.
        is_new: bool,
    },
}
