//! The one queue: keys to look after, each at most once in line and never twice in flight.
//!
//! A key added while in flight runs again afterwards. A key that failed comes back with a growing delay;
//! adding it in the meantime runs it at once, because something changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The first delay after a failure; it doubles up to [`MAX_DELAY`].
const MIN_DELAY: Duration = Duration::from_millis(250);
/// The longest delay after failures: one failing tunnel must not make its gateway be looked at less often
/// than one where all is well.
const MAX_DELAY: Duration = Duration::from_secs(15);

/// A deduplicating queue with delays.
#[derive(Debug)]
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner<K> {
    ready: VecDeque<K>,
    waiting: BTreeSet<K>,
    in_flight: BTreeSet<K>,
    again: BTreeSet<K>,
    later: BTreeMap<K, Instant>,
    failures: BTreeMap<K, u32>,
}

/// What should become of a key that was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Done,
    /// Look again after a while, whatever happens.
    After(Duration),
    /// It failed: try again, later each time.
    Retry,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let inner = Inner {
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            again: BTreeSet::new(),
            later: BTreeMap::new(),
            failures: BTreeMap::new(),
        };
        Self { inner: Mutex::new(inner), changed: Notify::new() }
    }
}

impl<K: Ord + Clone> Queue<K> {
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Has a key looked after as soon as possible.
    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// How many keys are in line.
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// Whether no key is in line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next key; it is in flight until [`Queue::finish`] is called with it.
    pub async fn next(&self) -> K {
        loop {
            let due = {
                let mut inner = self.lock();
                inner.ripen(Instant::now());
                if let Some(key) = inner.take() {
                    if !inner.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                inner.later.values().min().copied()
            };
            let notified = self.changed.notified();
            match due {
                Some(due) => drop(tokio::time::timeout_at(due, notified).await),
                None => notified.await,
            }
        }
    }

    /// Ends the flight of a key.
    pub fn finish(&self, key: K, next: Next) {
        let mut inner = self.lock();
        inner.in_flight.remove(&key);
        let delay = match next {
            Next::Done => None,
            Next::After(delay) => Some(delay),
            Next::Retry => {
                let failures = inner.failures.entry(key.clone()).or_insert(0);
                *failures += 1;
                Some(MIN_DELAY.saturating_mul(1 << (*failures - 1).min(16)).min(MAX_DELAY))
            }
        };
        if next != Next::Retry {
            inner.failures.remove(&key);
        }
        if inner.again.remove(&key) {
            inner.add(key);
        } else if let Some(delay) = delay {
            inner.later.insert(key, Instant::now() + delay);
        }
        drop(inner);
        self.changed.notify_one();
    }
}

impl<K: Ord + Clone> Inner<K> {
    fn add(&mut self, key: K) {
        self.later.remove(&key);
        if self.in_flight.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.in_flight.insert(key.clone());
        Some(key)
    }

    fn ripen(&mut self, now: Instant) {
        let due: Vec<K> =
            self.later.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn has_next(queue: &Queue<&'static str>) -> bool {
        tokio::time::timeout(Duration::from_millis(1), queue.next()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_is_handled_once() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.finish("a", Next::Done);
        assert!(!has_next(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_in_flight_twice_and_runs_again_when_added_meanwhile() {
        let queue = Queue::default();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert!(!has_next(&queue).await);
        queue.finish("a", Next::Done);
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_back_later_each_time_and_a_change_at_once() {
        let queue = Queue::default();
        queue.add("a");
        let mut waits = Vec::new();
        for _ in 0..4 {
            let start = Instant::now();
            let key = queue.next().await;
            waits.push(start.elapsed());
            queue.finish(key, Next::Retry);
        }
        assert_eq!(waits, [0, 250, 500, 1000].map(Duration::from_millis));
        queue.add("a");
        assert!(has_next(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_look_comes_by_itself_and_success_forgets_failures() {
        let queue = Queue::default();
        queue.add("a");
        queue.finish(queue.next().await, Next::Retry);
        queue.finish(queue.next().await, Next::After(Duration::from_secs(15)));
        let start = Instant::now();
        let key = queue.next().await;
        assert_eq!(start.elapsed(), Duration::from_secs(15));
        queue.finish(key, Next::Retry);
        let start = Instant::now();
        queue.next().await;
        assert_eq!(start.elapsed(), MIN_DELAY);
    }
}
