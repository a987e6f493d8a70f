//! A value that many wait for to change. Those who wait are woken in the order in which they came: what tokio has for this
//! wakes them in an order of its own chance, and a run could not be repeated.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// See the module. Clones are the same lever.
#[derive(Debug, Default)]
pub(crate) struct Lever<T>(Arc<(Mutex<(T, u64)>, Notify)>);

impl<T> Clone for Lever<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// How far somebody has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl<T: Copy> Lever<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new((Mutex::new((value, 0)), Notify::new())))
    }

    pub(crate) fn get(&self) -> T {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn set(&self, change: impl FnOnce(T) -> T) {
        let mut inner = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *inner = (change(inner.0), inner.1 + 1);
        self.0.1.notify_waiters();
    }

    /// All so far is known.
    pub(crate) fn seen(&self) -> Seen {
        Seen(self.0.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Returns the value when it was set since.
    pub(crate) async fn changed(&self, since: &mut Seen) -> T {
        loop {
            let mut next = std::pin::pin!(self.0.1.notified());
            next.as_mut().enable();
            let now = self.seen();
            if now != *since {
                *since = now;
                return self.get();
            }
            next.await;
        }
    }
}
