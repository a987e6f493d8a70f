//! Who asks for which set, what they were sent and what they answered.
//!
//! A set has a cell while somebody asks for it. Whoever brings the cell up to date holds its lock while the set is
//! compiled, so an older one never follows a newer one. Streams have a mailbox each: it holds only which of its
//! subscriptions have news, so a stream that is slow misses what was overtaken and costs nobody anything.
//!
//! Locks are taken in this order: all cells, a cell, the state. Whoever holds the state asks nothing here: with a writer
//! waiting for the state, two readers that each hold what the other wants would wait for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_core::ObjectKey;
use causeway_core::rules::state::{ANY_APP, Set, Standing, Target};
use causeway_core::rules::subscription::Verdict;
use causeway_core::rules::words::plain;
use causeway_core::rules::{Failure, Kind, Share};
use futures::future::AbortHandle;
use futures::task::AtomicWaker;
use tokio::time::Instant;

use super::message::{LARGEST, Shared};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All cells and streams.
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
    /// Ends the stream.
    end: AbortHandle,
    pub(super) connection: Arc<Connection>,
    line: Mutex<Line>,
    waker: AtomicWaker,
}

/// What a stream's connection is.
pub(super) struct Connection {
    /// Ends it.
    pub(super) over: AbortHandle,
    /// How many streams it has.
    pub(super) streams: AtomicUsize,
}

#[derive(Default)]
struct Line {
    due: BTreeSet<u64>,
    /// Since when something waits in it without progress.
    waiting: Option<Instant>,
    identifier: String,
    /// Whether it has asked for anything so far.
    has_asked: bool,
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

    /// Whether the client has asked for anything so far.
    pub(super) fn has_asked(&self) -> bool {
        lock(&self.line).has_asked
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

    /// Ends the stream of a client that takes nothing. Where it has the connection to itself that ends too, since such a
    /// client would not even hear of it; others that share it go on.
    pub(super) fn cut(&self) {
        if self.connection.streams.load(Ordering::Relaxed) > 1 {
            self.end.abort();
        } else {
            self.connection.over.abort();
        }
    }

    /// The first identifier that a client gives counts.
    pub(super) fn call(&self, identifier: &str) {
        let mut line = lock(&self.line);
        if line.identifier.is_empty() {
            line.identifier = plain(identifier, LONGEST_IDENTIFIER);
        }
        line.has_asked = true;
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
    /// What is to be sent.
    pub(super) fn current(&self) -> Current {
        lock(&self.inner).current.clone()
    }

    /// The version of what is to be sent.
    fn version(&self) -> Option<i64> {
        let inner = lock(&self.inner);
        match (&inner.oversized, &inner.current) {
            (Some(oversized), _) => Some(oversized.version),
            (None, Current::Set(shared)) => Some(shared.version()),
            (None, Current::Unknown | Current::Missing) => None,
        }
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
        let version = match &inner.current {
            Current::Set(shared) if inner.oversized.is_none() => Some(shared.version()),
            _ => None,
        };
        let compiled = match compile(&self.target, version) {
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
                    if shared.rules == set.rules && inner.oversized.is_none() {
                        return Refreshed::Same;
                    }
                    // Rules of other names may say the same: nobody needs to be told.
                    inner.current = Current::Set(Arc::new(Shared::new(&self.target, set)));
                    inner.oversized = None;
                    return Refreshed::News(inner.left_of(before));
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
        if let Some(Oversized { size, rules, since, .. }) = &inner.oversized
            && rules.contains(rule)
        {
            let message = format!(
                "nobody was sent the set of app {}: it has {size} bytes, more than data planes take ({LARGEST}), and what \
                 they have stays",
                self.target.app
            );
            let failure = Failure { client: "causeway".into(), code: 0, message, at: *since };
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
    /// Whether a rule is in it, sent or not.
    fn has(&self, rule: &ObjectKey) -> bool {
        let sent = matches!(&self.current, Current::Set(shared) if shared.rules.binary_search(rule).is_ok());
        sent || self.is_too_large(rule)
    }

    fn is_too_large(&self, rule: &ObjectKey) -> bool {
        self.oversized.as_ref().is_some_and(|it| it.rules.contains(rule))
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
    /// Whoever asks for it has news. These rules are not in it any more.
    News(Vec<ObjectKey>),
    /// The set has so many bytes: nobody could take it, and the last good one stays.
    TooLarge {
        size: usize,
        /// The one before was not.
        is_new: bool,
    },
}

impl Hub {
    /// Streams are numbered from here: a late answer to a stream of another process must not fit.
    pub(super) fn new(first: u64) -> Self {
        Self { cells: Mutex::default(), streams: Mutex::default(), last: AtomicU64::new(first) }
    }

    /// A stream that begins.
    pub(super) fn open(
        &self,
        address: Option<SocketAddr>,
        since: jiff::Timestamp,
        end: AbortHandle,
        connection: Arc<Connection>,
    ) -> Arc<Mailbox> {
        let stream = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        connection.streams.fetch_add(1, Ordering::Relaxed);
        let (line, waker) = (Mutex::default(), AtomicWaker::new());
        let mailbox = Arc::new(Mailbox { stream, address, since, end, connection, line, waker });
        lock(&self.streams).insert(stream, mailbox.clone());
        mailbox
    }

    /// A stream that ended.
    pub(super) fn close(&self, stream: u64) {
        if let Some(mailbox) = lock(&self.streams).remove(&stream) {
            mailbox.connection.streams.fetch_sub(1, Ordering::Relaxed);
        }
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
        let (mailbox, answer) = (mailbox.clone(), Answer::Pending);
        let stream = mailbox.stream;
        let member = Member { mailbox, answer, has_current: false, version: None, last: None };
        lock(&cell.inner).members.insert((stream, subscription), member);
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
    ///
    /// A cell that is about to be brought up to date says nothing of the present rule yet: there everybody has still to
    /// answer. `is_current` says whether a set of a version is what it is by now.
    pub(super) fn share(
        &self,
        kind: Kind,
        rule: &ObjectKey,
        app: &Arc<str>,
        is_current: impl Fn(&Target, i64) -> bool,
    ) -> Share {
        let cells = self.concerned(kind, &rule.namespace().into(), app);
        let share = |cell: &Arc<Cell>| {
            let is_late = cell.version().is_some_and(|version| !is_current(&cell.target, version));
            let share = cell.share(rule)?;
            Some(if is_late { Share { pending: share.planes(), ..Share::default() } } else { share })
        };
        let shares = cells.iter().filter_map(share);
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
