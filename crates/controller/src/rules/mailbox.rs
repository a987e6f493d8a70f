//! What a stream has in line: only which of its subscriptions have news, so a stream that is slow misses what was overtaken
//! and costs nobody anything.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use causeway_core::rules::words::plain;
use futures::future::AbortHandle;
use futures::task::AtomicWaker;
use tokio::time::Instant;

use super::lock;

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
    /// Since when it asks for nothing, until it has asked for something.
    silent: Option<Instant>,
    closing: Option<Farewell>,
}

/// Why a stream is ended, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// The process stops.
    Stopping,
    /// The client asked for nothing.
    Silent,
}

impl Mailbox {
    /// That of a stream that begins.
    pub(super) fn new(
        stream: u64,
        address: Option<SocketAddr>,
        since: jiff::Timestamp,
        end: AbortHandle,
        connection: Arc<Connection>,
    ) -> Self {
        let line = Mutex::new(Line { silent: Some(Instant::now()), ..Line::default() });
        Self { stream, address, since, end, connection, line, waker: AtomicWaker::new() }
    }

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

    /// Since when the client asks for nothing, if it never has.
    pub(super) fn silent(&self) -> Option<Instant> {
        lock(&self.line).silent
    }

    /// Since when something waits that the client does not take.
    pub(super) fn waiting(&self) -> Option<Instant> {
        lock(&self.line).waiting
    }

    /// Asks the owner to end the stream with a word.
    pub(super) fn close(&self, farewell: Farewell) {
        lock(&self.line).closing.get_or_insert(farewell);
        self.waker.wake();
    }

    /// Why it should end, if it should.
    pub(super) fn farewell(&self) -> Option<Farewell> {
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
        line.silent = None;
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
