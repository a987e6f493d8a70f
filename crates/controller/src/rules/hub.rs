//! Who asks for which set. A set has a [`Cell`] while somebody asks for it, and a stream has a [`Mailbox`].
//!
//! Locks are taken in this order: all cells, a cell, the state. Whoever holds the state asks nothing here: with a writer
//! waiting for the state, two readers that each hold what the other wants would wait for ever.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use causeway_core::ObjectKey;
use causeway_core::rules::state::{ANY_APP, Target};
use causeway_core::rules::subscription::Answer;
use causeway_core::rules::{Kind, Share};
use futures::future::AbortHandle;

use super::cell::{Cell, Left};
use super::lock;
use super::mailbox::{Connection, Mailbox};

/// All cells and streams.
pub(super) struct Hub {
    cells: Mutex<BTreeMap<Target, Arc<Cell>>>,
    streams: Mutex<BTreeMap<u64, Arc<Mailbox>>>,
    last: AtomicU64,
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
        let mailbox = Arc::new(Mailbox::new(stream, address, since, end, connection));
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
        let cell = cells.entry(target.clone()).or_insert_with(|| Arc::new(Cell::new(target.clone())));
        cell.join(mailbox, subscription);
        cell.clone()
    }

    /// Leaves them. A set that nobody asks for is forgotten.
    pub(super) fn leave(&self, cell: &Cell, stream: u64, subscription: u64) -> Left {
        let mut cells = lock(&self.cells);
        let left = cell.leave(stream, subscription);
        if matches!(left, Left::Last(_)) {
            cells.remove(&cell.target);
        }
        left
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
        let is_late = |cell: &Cell| cell.version().is_some_and(|version| !is_current(&cell.target, version));
        let cells: Vec<_> = cells.into_iter().map(|cell| (is_late(&cell), cell)).collect();
        let share = |(is_late, cell): &(bool, Arc<Cell>)| {
            let share = cell.share(rule)?;
            Some(if *is_late { Share { pending: share.planes(), ..Share::default() } } else { share })
        };
        let shares = cells.iter().filter_map(share);
        let mut sum = shares.fold(Share::default(), |sum, share| sum.plus(&share));
        let (all, one): (Vec<_>, Vec<_>) = cells.iter().partition(|(_, cell)| &*cell.target.app == ANY_APP);
        if one.is_empty() {
            return sum;
        }
        let by_now = |is_late: bool, answer| if is_late { Answer::Pending } else { answer };
        // Those who ask for all are few.
        for (all_late, cell) in all {
            for (stream, answer) in cell.answers(rule) {
                let other = one.iter().find_map(|(late, cell)| Some((*late, cell.answer(stream, rule)?)));
                if let Some((late, other)) = other {
                    sum = sum.without(by_now(*all_late, answer).min(by_now(late, other)));
                }
            }
        }
        sum
    }
}
