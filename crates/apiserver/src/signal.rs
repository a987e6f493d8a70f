//! Says to many at once that something happened. Those who wait are woken in the order in which they came: what tokio has
//! for this wakes them in an order of its own chance, and a run could not be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// What happens.
#[derive(Debug, Default)]
pub(crate) struct Signal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicU64,
    waiting: Notify,
}

/// Somebody who wants to know.
#[derive(Debug)]
pub(crate) struct Listener {
    signal: Arc<Inner>,
    seen: u64,
}

impl Signal {
    /// Something happened.
    pub(crate) fn raise(&self) {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        self.0.waiting.notify_waiters();
    }

    /// All that happened so far is known to the listener.
    pub(crate) fn listen(&self) -> Listener {
        let mut listener = Listener { signal: self.0.clone(), seen: 0 };
        listener.mark_seen();
        listener
    }
}

impl Listener {
    /// All that happened so far is known.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.signal.count.load(Ordering::SeqCst);
    }

    /// Returns when something happened that is not known.
    pub(crate) async fn heard(&mut self) {
        loop {
            let mut next = std::pin::pin!(self.signal.waiting.notified());
            // What happens from here on is not missed.
            next.as_mut().enable();
            let count = self.signal.count.load(Ordering::SeqCst);
            if count != self.seen {
                self.seen = count;
                return;
            }
            next.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_the_order_in_which_they_came() {
        let (signal, order) = (Signal::default(), Arc::new(Mutex::new(Vec::new())));
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..50 {
            let (mut listener, order) = (signal.listen(), order.clone());
            waiting.spawn(async move {
                listener.heard().await;
                order.lock().expect("no panic").push(number);
            });
        }
        tokio::task::yield_now().await;
        signal.raise();
        waiting.join_all().await;
        assert_eq!(*order.lock().expect("no panic"), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_happened_before_somebody_waited_is_heard_once() {
        let signal = Signal::default();
        let mut listener = signal.listen();
        signal.raise();
        signal.raise();
        listener.heard().await;
        assert!(futures::FutureExt::now_or_never(listener.heard()).is_none());
        signal.raise();
        listener.mark_seen();
        assert!(futures::FutureExt::now_or_never(listener.heard()).is_none());
    }
}
