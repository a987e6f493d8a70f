//! Who asks for which set, what they were sent and what they answered.
//!
//! A set has a cell while somebody asks for it. Whoever brings the cell up to date holds its lock while the set is
//! compiled, so an older one never follows a newer one. Streams have a mailbox each: it holds only which of its
//! subscriptions have news, so a stream that is slow misses what was overtaken and costs nobody anything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_core::ObjectKey;
use causeway_core::rules::state::{ANY_APP, Set, Standing, Target};
use causeway_core::rules::subscription::Verdict;
use causeway_core::rules::{Failure, Kind, Share};
use futures::future::AbortHandle;
use futures::task::AtomicWaker;
use tokio::time::Instant;

use super::message::{LARGEST, Shared};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All cells and streams.
#[derive(Default)]
pub(super) struct Hub {
    cells: Mutex<BTreeMap<Target, Arc<Cell>>>,
    streams: Mutex<BTreeMap<u64, Arc<Mailbox>>>,
    last: AtomicU64,
}

/// What a stream has in line, and what others may know of it.
pub(super) struct Mailbox {
    pub(super) stream: u64,
    pub(super) address: Option<SocketAddr>,
    pub(super) since: jiff::Timestamp,
    /// Ends its connection, which is the only way to be rid of a client that does not read.
    pub(super) connection: AbortHandle,
    line: Mutex<Line>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Line {
    due: BTreeSet<u64>,
    /// Since when something waits in it without progress.
    waiting: Option<Instant>,
    identifier: String,
    closing: bool,
}

impl Mailbox {
    /// There is news for a subscription.
    pub(super) fn add(&self, subscription: u64) {
        {
            let mut line = lock(&self.line);
            line.due.insert(subscription);
            line.waiting.get_or_insert_with(Instant::now);
        }
        self.waker.wake();
    }

    /// Has the owner woken when there is news.
    pub(super) fn register(&self, context: &std::task::Context<'_>) {
        self.waker.register(context.waker());
    }

    /// The next subscription that has news. To ask is progress.
    pub(super) fn take(&self) -> Option<u64> {
        let mut line = lock(&self.line);
        let next = line.due.pop_first();
        line.waiting = (!line.due.is_empty()).then(Instant::now);
        next
    }

    /// Since when something waits that the client does not take.
    pub(super) fn waiting(&self) -> Option<Instant> {
        lock(&self.line).waiting
    }

    /// Asks the owner to end the stream.
    pub(super) fn close(&self) {
        lock(&self.line).closing = true;
        self.waker.wake();
    }

    pub(super) fn is_closing(&self) -> bool {
        lock(&self.line).closing
    }

    /// The first identifier that a client gives counts.
    pub(super) fn call(&self, identifier: &str) {
        let mut line = lock(&self.line);
        if line.identifier.is_empty() {
            line.identifier = identifier.chars().take(LONGEST_IDENTIFIER).collect();
        }
    }

    /// What the client calls itself; nothing if it does not.
    pub(super) fn identifier(&self) -> String {
        lock(&self.line).identifier.clone()
    }

    /// What a person would call the client.
    pub(super) fn client(&self) -> String {
        let address = self.address.map_or_else(|| "unknown address".into(), |address| address.to_string());
        match lock(&self.line).identifier.as_str() {
            "" => address,
            identifier => format!("{identifier} ({address})"),
        }
    }
}

const LONGEST_IDENTIFIER: usize = 128;

/// What a subscription answered to the present set, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Acked,
    Pending,
    Failed,
}

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
    message.chars().take(LONGEST_MESSAGE).collect()
}

struct Member {
    mailbox: Arc<Mailbox>,
    answer: Answer,
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
    /// A set that nobody could take, in place of which the present one stays: its size and its rules.
    oversized: Option<(usize, Vec<ObjectKey>)>,
    /// Somebody will count again.
    tallying: bool,
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
    /// What is to be sent.
    pub(super) fn current(&self) -> Current {
        lock(&self.inner).current.clone()
    }

    /// Brings the cell up to date; whether that is news. `compile` is called with the cell locked.
    pub(super) fn refresh(&self, compile: impl FnOnce(&Target) -> (Standing, Option<Set>)) -> Refreshed {
        let mut inner = lock(&self.inner);
        let next = match compile(&self.target) {
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
                    if shared.rules == set.rules && inner.oversized.is_none() {
                        return Refreshed::Same;
                    }
                    // Rules of other names may say the same: nobody needs to be told.
                    inner.current = Current::Set(Arc::new(Shared::new(&self.target, set)));
                    inner.oversized = None;
                    return Refreshed::News;
                }
                if let Some(size) = Shared::oversize(&self.target, &set) {
                    let before = inner.oversized.replace((size, set.rules));
                    let is_known = before.is_some_and(|(before, _)| before == size);
                    return if is_known { Refreshed::Same } else { Refreshed::TooLarge(size) };
                }
                Current::Set(Arc::new(Shared::new(&self.target, set)))
            }
        };
        inner.current = next;
        (inner.failure, inner.oversized) = (None, None);
        (inner.acked, inner.refused) = (0, 0);
        let concerned = inner.members.iter_mut().map(|((_, subscription), member)| {
            member.answer = Answer::Pending;
            (member.mailbox.clone(), *subscription)
        });
        let concerned: Vec<_> = concerned.collect();
        // Whoever wakes up looks at the cell at once, and should not have to wait until the last one is woken.
        drop(inner);
        concerned.iter().for_each(|(mailbox, subscription)| mailbox.add(*subscription));
        Refreshed::News
    }

    /// Takes note that a version was sent.
    pub(super) fn sent(&self, stream: u64, subscription: u64, version: i64) {
        if let Some(member) = lock(&self.inner).members.get_mut(&(stream, subscription)) {
            member.version = Some(version);
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
        let before = std::mem::replace(&mut member.answer, answer);
        member.last = Some(last);
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
    fn answers(&self, rule: &ObjectKey) -> Vec<(u64, Answer)> {
        let inner = lock(&self.inner);
        let members = inner.members.iter().filter(|_| inner.has(rule));
        members.map(|((stream, _), member)| (*stream, inner.answer_of(member, rule))).collect()
    }

    /// What a stream says of a rule, if it asks for this and it is in it.
    fn answer(&self, stream: u64, rule: &ObjectKey) -> Option<Answer> {
        let inner = lock(&self.inner);
        let (_, member) = inner.members.range((stream, 0)..=(stream, u64::MAX)).next()?;
        inner.has(rule).then(|| inner.answer_of(member, rule))
    }

    /// What its subscribers say of a rule that is in it; none where it is not.
    fn share(&self, rule: &ObjectKey) -> Option<Share> {
        let inner = lock(&self.inner);
        let members = u32::try_from(inner.members.len()).unwrap_or(u32::MAX);
        if let Some((size, rules)) = &inner.oversized
            && rules.contains(rule)
        {
            let message = format!(
                "the set of app {} has {size} bytes, more than data planes take ({LARGEST}): what they have stays",
                self.target.app
            );
            let failure = Failure { client: "causeway".into(), code: 0, message, at: 0 };
            return Some(Share { failed: members, failure: Some(failure), ..Share::default() });
        }
        let Current::Set(shared) = &inner.current else { return None };
        shared.rules.binary_search(rule).ok()?;
        let (acked, failed) = (inner.acked, inner.refused);
        let pending = members.saturating_sub(acked).saturating_sub(failed);
        Some(Share { acked, failed, pending, failure: inner.failure.clone().filter(|_| failed > 0) })
    }
}

impl Inner {
    /// Whether a rule is in it, sent or not.
    fn has(&self, rule: &ObjectKey) -> bool {
        let sent = matches!(&self.current, Current::Set(shared) if shared.rules.binary_search(rule).is_ok());
        sent || self.is_too_large(rule)
    }

    fn is_too_large(&self, rule: &ObjectKey) -> bool {
        self.oversized.as_ref().is_some_and(|(_, rules)| rules.contains(rule))
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
        rules.extend(self.oversized.iter().flat_map(|(_, rules)| rules.clone()));
        rules
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

/// What came of bringing a cell up to date.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refreshed {
    /// It was.
    Same,
    /// Whoever asks for it has news.
    News,
    /// The set has so many bytes: nobody could take it, and the last good one stays.
    TooLarge(usize),
}

impl Hub {
    /// A stream that begins.
    pub(super) fn open(
        &self,
        address: Option<SocketAddr>,
        since: jiff::Timestamp,
        connection: AbortHandle,
    ) -> Arc<Mailbox> {
        let stream = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (line, waker) = (Mutex::default(), AtomicWaker::new());
        let mailbox = Arc::new(Mailbox { stream, address, since, connection, line, waker });
        lock(&self.streams).insert(stream, mailbox.clone());
        mailbox
    }

    /// A stream that ended.
    pub(super) fn close(&self, stream: u64) {
        lock(&self.streams).remove(&stream);
    }

    /// All streams.
    pub(super) fn streams(&self) -> Vec<Arc<Mailbox>> {
        lock(&self.streams).values().cloned().collect()
    }

    /// How many streams there are.
    pub(super) fn len(&self) -> usize {
        lock(&self.streams).len()
    }

    /// Joins those who ask for a set.
    pub(super) fn join(&self, target: &Target, mailbox: &Arc<Mailbox>, subscription: u64) -> Arc<Cell> {
        let mut cells = lock(&self.cells);
        let cell = cells
            .entry(target.clone())
            .or_insert_with(|| Arc::new(Cell { target: target.clone(), inner: Mutex::default() }));
        let member = Member { mailbox: mailbox.clone(), answer: Answer::Pending, version: None, last: None };
        lock(&cell.inner).members.insert((mailbox.stream, subscription), member);
        cell.clone()
    }

    /// Leaves them. A set that nobody asks for is forgotten.
    pub(super) fn leave(&self, cell: &Cell, stream: u64, subscription: u64) -> Left {
        let mut cells = lock(&self.cells);
        let mut inner = lock(&cell.inner);
        if let Some(member) = inner.members.remove(&(stream, subscription)) {
            inner.count(member.answer, false);
        }
        if inner.members.is_empty() {
            cells.remove(&cell.target);
            return Left::Last(inner.rules());
        }
        if std::mem::replace(&mut inner.tallying, true) { Left::Others } else { Left::Uncounted }
    }

    /// The cells that an app's rules may be in.
    pub(super) fn concerned(&self, kind: Kind, namespace: &Arc<str>, app: &Arc<str>) -> Vec<Arc<Cell>> {
        let cells = lock(&self.cells);
        let of = |app: Arc<str>| {
            let labels = Arc::default();
            let first = Target { kind, namespace: namespace.clone(), app: app.clone(), labels };
            let is_his = move |target: &Target| {
                target.kind == kind && target.namespace == *namespace && target.app == app
            };
            cells.range(first..).take_while(move |(target, _)| is_his(target)).map(|(_, cell)| cell.clone())
        };
        of(ANY_APP.into()).chain(of(app.clone())).collect()
    }

    /// The cells of a kind.
    pub(super) fn of_kind(&self, kind: Kind) -> Vec<Arc<Cell>> {
        lock(&self.cells).values().filter(|cell| cell.target.kind == kind).cloned().collect()
    }

    /// All cells.
    pub(super) fn cells(&self) -> Vec<Arc<Cell>> {
        lock(&self.cells).values().cloned().collect()
    }

    /// The cell of a set.
    pub(super) fn cell(&self, target: &Target) -> Option<Arc<Cell>> {
        lock(&self.cells).get(target).cloned()
    }

    /// What all data planes here say of a rule. One that asks for its app and for all of them counts once, by what it
    /// says worse.
    pub(super) fn share(&self, kind: Kind, rule: &ObjectKey, app: &Arc<str>) -> Share {
        let cells = self.concerned(kind, &rule.namespace().into(), app);
        let shares = cells.iter().filter_map(|cell| cell.share(rule));
        let mut sum = shares.fold(Share::default(), |sum, share| sum.plus(&share));
        let (all, one): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| &*cell.target.app == ANY_APP);
        // Those who ask for all are few.
        for (stream, answer) in all.iter().flat_map(|cell| cell.answers(rule)) {
            if let Some(other) = one.iter().find_map(|cell| cell.answer(stream, rule)) {
                let counter = match answer.min(other) {
                    Answer::Acked => &mut sum.acked,
                    Answer::Pending => &mut sum.pending,
                    Answer::Failed => &mut sum.failed,
                };
                *counter = counter.saturating_sub(1);
            }
        }
        sum
    }
}
