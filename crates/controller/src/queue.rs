//! The queue of a duty: keys to handle, each at most once in line and never twice in flight.
//!
//! Keys may wait in several lines ([`Queue::in_lanes`]), which take turns: how long one waits depends on how many others
//! there are, not on how long they are.
//!
//! A key added while in flight runs again afterwards. A key that failed comes back with a growing delay; adding
//! it in the meantime runs it sooner, because something changed, but never within [`MIN_DELAY`] of the failure:
//! what a failed try changed comes back as news, and two agents that undo each other's work would else do so at
//! full speed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The first delay after a failure; it doubles up to [`MAX_DELAY`], and is spread over half of itself.
const MIN_DELAY: Duration = Duration::from_millis(250);
/// The longest delay after failures: one failing tunnel must not make its gateway be observed less often than
/// one where all is well.
const MAX_DELAY: Duration = Duration::from_secs(15);

/// A deduplicating queue with delays. One dispatcher takes from it ([`crate::worker`]).
#[derive(Debug)]
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    changed: Notify,
}

/// The line that a key waits in.
pub type Lane<K> = fn(&K) -> &str;

#[derive(Debug)]
struct Inner<K> {
    ready: Lines<K>,
    keys: BTreeMap<K, Entry>,
    /// The keys with a time, soonest first.
    timers: BTreeSet<(Instant, K)>,
    /// Spreads what failed together.
    chance: fastrand::Rng,
}

/// Keys in line, in the order in which they came; several lines take turns.
#[derive(Debug)]
struct Lines<K> {
    lane: Lane<K>,
    /// None is empty.
    lines: BTreeMap<String, VecDeque<K>>,
    /// Whose turn it is, and whose next.
    turns: VecDeque<String>,
    len: usize,
}

impl<K> Lines<K> {
    fn new(lane: Lane<K>) -> Self {
        Self { lane, lines: BTreeMap::new(), turns: VecDeque::new(), len: 0 }
    }

    fn push(&mut self, key: K) {
        self.len += 1;
        let lane = (self.lane)(&key);
        if let Some(line) = self.lines.get_mut(lane) {
            line.push_back(key);
            return;
        }
        let lane = lane.to_owned();
        self.turns.push_back(lane.clone());
        self.lines.insert(lane, VecDeque::from([key]));
    }

    fn pop(&mut self) -> Option<K> {
        let lane = self.turns.pop_front()?;
        let line = self.lines.get_mut(&lane)?;
        let key = line.pop_front()?;
        self.len -= 1;
        if line.is_empty() {
            self.lines.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
        Some(key)
    }

    fn clear(&mut self) {
        *self = Self::new(self.lane);
    }
}

/// What is known of a key; one that waits for nothing and has not failed has no entry.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    in_line: bool,
    in_flight: bool,
    /// Added while in flight.
    again: bool,
    due: Option<Instant>,
    failures: u32,
    /// No sooner than this, after a failure.
    not_before: Option<Instant>,
}

/// What should become of a key that was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Done,
    /// Handle it again after a while, whatever happens.
    After(Duration),
    /// It failed: try again, later each time.
    Retry,
}

/// All in one line.
impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self::in_lanes(|_| "")
    }
}

impl<K> Queue<K> {
    /// With a line for each lane.
    pub fn in_lanes(lane: Lane<K>) -> Self {
        let (ready, keys, timers) = (Lines::new(lane), BTreeMap::new(), BTreeSet::new());
        let inner = Inner { ready, keys, timers, chance: fastrand::Rng::with_seed(0) };
        Self { inner: Mutex::new(inner), changed: Notify::new() }
    }
}

impl<K: Ord + Clone> Queue<K> {
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all chance from a seed.
    pub fn seed(&self, seed: u64) {
        self.lock().chance.seed(seed);
    }

    /// Has a key handled as soon as possible.
    pub fn add(&self, key: K) {
        self.lock().add(key, Instant::now());
        self.changed.notify_one();
    }

    /// How many keys are in line.
    pub fn len(&self) -> usize {
        self.lock().ready.len
    }

    /// Whether no key is in line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything, also what is in flight: its work has been stopped.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.ready.clear();
        inner.keys.clear();
        inner.timers.clear();
    }

    /// The next key; it is in flight until [`Queue::finish`] is called with it. For one caller at a time.
    pub async fn next(&self) -> K {
        loop {
            let due = {
                let mut inner = self.lock();
                inner.ripen(Instant::now());
                if let Some(key) = inner.take() {
                    return key;
                }
                inner.timers.first().map(|(due, _)| *due)
            };
            match due {
                Some(due) => drop(tokio::time::timeout_at(due, self.changed.notified()).await),
                None => self.changed.notified().await,
            }
        }
    }

    /// Ends the flight of a key.
    pub fn finish(&self, key: K, next: Next) {
        self.lock().finish(key, next, Instant::now());
        self.changed.notify_one();
    }
}

impl<K: Ord + Clone> Inner<K> {
    fn add(&mut self, key: K, now: Instant) {
        let entry = self.keys.entry(key.clone()).or_default();
        if entry.in_flight {
            entry.again = true;
            return;
        }
        if entry.in_line {
            return;
        }
        match entry.not_before.filter(|earliest| *earliest > now) {
            Some(earliest) => self.schedule(key, earliest),
            None => self.enqueue(key),
        }
    }

    fn enqueue(&mut self, key: K) {
        let entry = self.keys.entry(key.clone()).or_default();
        entry.in_line = true;
        if let Some(due) = entry.due.take() {
            self.timers.remove(&(due, key.clone()));
        }
        self.ready.push(key);
    }

    fn schedule(&mut self, key: K, at: Instant) {
        let entry = self.keys.entry(key.clone()).or_default();
        if entry.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = entry.due.replace(at) {
            self.timers.remove(&(due, key.clone()));
        }
        self.timers.insert((at, key));
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop()?;
        let entry = self.keys.entry(key.clone()).or_default();
        (entry.in_line, entry.in_flight) = (false, true);
        Some(key)
    }

    fn ripen(&mut self, now: Instant) {
        while let Some((due, key)) = self.timers.first().cloned() {
            if due > now {
                return;
            }
            self.enqueue(key);
        }
    }

    fn finish(&mut self, key: K, next: Next, now: Instant) {
        // Cleared meanwhile: nobody waits for it.
        let Some(entry) = self.keys.get_mut(&key) else { return };
        entry.in_flight = false;
        let again = std::mem::take(&mut entry.again);
        let delay = match next {
            Next::Retry => {
                entry.failures += 1;
                entry.not_before = Some(now + MIN_DELAY);
                let longest = MIN_DELAY.saturating_mul(1 << (entry.failures - 1).min(16)).min(MAX_DELAY);
                let spread = longest.mul_f64(self.chance.f64().mul_add(0.5, 0.5));
                Some(spread.max(MIN_DELAY))
            }
            Next::Done | Next::After(_) => {
                (entry.failures, entry.not_before) = (0, None);
                if let Next::After(delay) = next { Some(delay) } else { None }
            }
        };
        match delay {
            _ if again => self.add(key, now),
            Some(delay) => self.schedule(key, now + delay),
            None => drop(self.keys.remove(&key)),
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

    /// The line of a key like `a1` is `a`.
    fn lettered() -> Queue<String> {
        Queue::in_lanes(|key| &key[..1])
    }

    async fn drained(queue: &Queue<String>) -> Vec<String> {
        let mut keys = Vec::new();
        while !queue.is_empty() {
            let key = queue.next().await;
            queue.finish(key.clone(), Next::Done);
            keys.push(key);
        }
        keys
    }

    #[tokio::test]
    async fn a_long_line_holds_up_no_other() {
        let queue = lettered();
        (0..10_000).for_each(|n| queue.add(format!("a{n}")));
        assert_eq!(queue.next().await, "a0");
        for key in ["b0", "c0", "b1"] {
            queue.add(key.to_owned());
        }
        assert_eq!(queue.len(), 9_999 + 3);
        let order = drained(&queue).await;
        assert_eq!(order[..7], ["a1", "b0", "c0", "a2", "b1", "a3", "a4"], "they take turns");
        assert_eq!(order.len(), 10_002, "and nobody is forgotten");
        queue.add("b2".to_owned());
        assert_eq!(drained(&queue).await, ["b2"], "a line that was empty begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_waits_in_its_own_line_too() {
        let queue = lettered();
        (0..100).for_each(|n| queue.add(format!("a{n}")));
        for _ in 0..100 {
            queue.finish(queue.next().await, Next::Retry);
        }
        tokio::time::sleep(MAX_DELAY).await;
        queue.add("b0".to_owned());
        let first_two = [queue.next().await, queue.next().await];
        assert!(first_two.contains(&"b0".to_owned()), "{first_two:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_back_later_each_time() {
        let queue = Queue::default();
        queue.add("a");
        let mut waits = Vec::new();
        for _ in 0..4 {
            let start = Instant::now();
            let key = queue.next().await;
            waits.push(start.elapsed());
            queue.finish(key, Next::Retry);
        }
        let longest = [0, 250, 500, 1000].map(Duration::from_millis);
        assert!(
            waits.iter().zip(longest).all(|(wait, longest)| (longest / 2..=longest).contains(wait)),
            "{waits:?}"
        );
        assert!(waits.is_sorted(), "{waits:?}");
    }

    /// When each of a hundred keys that fail together for the sixth time is handled again.
    async fn moments(seed: u64) -> Vec<Duration> {
        let queue = Queue::default();
        queue.seed(seed);
        (0..100).for_each(|key| queue.add(key));
        for _ in 0..6 {
            let mut failed = Vec::new();
            while failed.len() < 100 {
                failed.push(queue.next().await);
            }
            failed.into_iter().for_each(|key| queue.finish(key, Next::Retry));
        }
        let start = Instant::now();
        let mut moments = Vec::new();
        while moments.len() < 100 {
            queue.next().await;
            moments.push(start.elapsed());
        }
        moments
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_together_comes_back_spread_by_a_seed() {
        let moments_of_one = moments(1).await;
        let (first, last) = (moments_of_one[0], moments_of_one[99]);
        assert!(first >= Duration::from_secs(4) && last <= Duration::from_secs(8), "{first:?} {last:?}");
        assert!(last - first > Duration::from_secs(3), "{first:?} {last:?}");
        assert_eq!(moments(1).await, moments_of_one);
        assert_ne!(moments(2).await, moments_of_one);
    }

    /// The delay until `a` is handled again after the third failure, with `add` called as given.
    async fn delay_when(add: impl AsyncFnOnce(&Queue<&'static str>)) -> Duration {
        let queue = Queue::default();
        queue.add("a");
        for _ in 0..2 {
            queue.finish(queue.next().await, Next::Retry);
        }
        queue.next().await;
        let failed = Instant::now();
        add(&queue).await;
        queue.next().await;
        failed.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_runs_a_failed_key_sooner_but_not_within_a_quarter_of_a_second() {
        let in_flight = delay_when(async |queue| {
            queue.add("a");
            queue.finish("a", Next::Retry);
        });
        assert_eq!(in_flight.await, MIN_DELAY);
        let right_after = delay_when(async |queue| {
            queue.finish("a", Next::Retry);
            queue.add("a");
        });
        assert_eq!(right_after.await, MIN_DELAY);
        let later = delay_when(async |queue| {
            queue.finish("a", Next::Retry);
            tokio::time::sleep(Duration::from_millis(600)).await;
            queue.add("a");
        });
        assert_eq!(later.await, Duration::from_millis(600));
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

    #[tokio::test(start_paused = true)]
    async fn what_was_in_flight_when_the_queue_was_cleared_leaves_no_trace() {
        let queue = Queue::default();
        queue.add("a");
        queue.next().await;
        queue.add("a");
        queue.clear();
        queue.finish("a", Next::Retry);
        tokio::time::sleep(MAX_DELAY).await;
        assert!(!has_next(&queue).await);
        queue.add("a");
        assert!(has_next(&queue).await);
    }
}
