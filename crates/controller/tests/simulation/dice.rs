//! All chance of a run, from its seed.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One line of chance for everything that happens in a run: it happens in one thread, so in one order.
pub(crate) struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    fn lock(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something happens that does so many times in a thousand.
    pub(crate) fn strikes(&self, per_mille: u32) -> bool {
        per_mille > 0 && self.lock().u32(0..1000) < per_mille
    }

    pub(crate) fn number(&self, range: Range<u64>) -> u64 {
        self.lock().u64(range)
    }

    pub(crate) fn index(&self, len: usize) -> usize {
        self.lock().usize(0..len)
    }

    /// One of some, if there are any.
    pub(crate) fn pick<T: Clone>(&self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { from.get(self.index(from.len())).cloned() }
    }

    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.number(range))
    }

    pub(crate) fn shuffle<T>(&self, list: &mut [T]) {
        self.lock().shuffle(list);
    }
}
