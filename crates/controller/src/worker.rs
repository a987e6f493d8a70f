//! The dispatcher of a duty: takes keys from its queue and handles so many at once.

use std::any::Any;
use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::queue::{Next, Queue};

/// What is in flight when the process is asked to stop may take so long to finish. What takes longer is
/// dropped: a command under way in a gateway goes on there, and the gateway itself keeps its order.
const DRAIN: Duration = Duration::from_millis(300);

/// When the work ends.
#[derive(Debug, Clone)]
pub struct Until {
    /// The process stops: what is in flight may finish, within [`DRAIN`].
    pub stop: CancellationToken,
    /// The right to work is lost: everything in flight is dropped at once.
    pub over: CancellationToken,
}

/// Handles keys until asked to end, and returns when nothing is in flight any more. A panic while handling a key
/// is that key's failure and nobody else's. `landed` gets what became of each key, and how long that took.
pub async fn run<K, F, Fut, L>(queue: Arc<Queue<K>>, workers: usize, until: Until, handle: F, landed: L)
where
    K: Ord + Clone + Debug + Send + Sync + 'static,
    F: Fn(K) -> Fut,
    Fut: Future<Output = Next> + Send + 'static,
    L: Fn(&K, Next, Duration) + Clone + Send + 'static,
{
    let mut flights = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = until.over.cancelled() => break,
            () = until.stop.cancelled() => break,
            Some(_) = flights.join_next() => {}
            key = queue.next(), if flights.len() < workers => {
                flights.spawn(fly(queue.clone(), key.clone(), handle(key), landed.clone()));
            }
        }
    }
    let all_landed = async { while flights.join_next().await.is_some() {} };
    tokio::select! {
        biased;
        () = until.over.cancelled() => {}
        _ = timeout(DRAIN, all_landed) => {}
    }
    flights.shutdown().await;
}

async fn fly<K: Ord + Clone + Debug>(
    queue: Arc<Queue<K>>,
    key: K,
    work: impl Future<Output = Next>,
    landed: impl Fn(&K, Next, Duration),
) {
    let started = Instant::now();
    let next = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let panic = message_of(&*panic);
        tracing::error!(?key, panic, "handling this key panicked; it will be tried again");
        Next::Retry
    });
    landed(&key, next, started.elapsed());
    queue.finish(key, next);
}

/// What a panic says.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    fn forever() -> Until {
        Until { stop: CancellationToken::new(), over: CancellationToken::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_one_keys_failure_and_the_others_go_on() {
        let queue = Arc::new(Queue::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let until = forever();
        queue.add("bad");
        queue.add("good");
        let handle = {
            let seen = seen.clone();
            move |key: &'static str| {
                let seen = seen.clone();
                async move {
                    let first = {
                        let mut seen = seen.lock().expect("no panic holds it");
                        seen.push(key);
                        seen.len() == 1
                    };
                    assert!(!first, "the first one fails");
                    Next::Done
                }
            }
        };
        let workers = tokio::spawn(run(queue, 1, until.clone(), handle, |_, _, _| {}));
        sleep(Duration::from_secs(1)).await;
        until.stop.cancel();
        workers.await.expect("the loop survives");
        assert_eq!(*seen.lock().expect("no panic holds it"), ["bad", "good", "bad"]);
    }

    /// How many of two keys, one that takes 100 ms and one that hangs, finish, and how long the end takes.
    async fn end(by: impl FnOnce(&Until)) -> (usize, Duration) {
        let queue = Arc::new(Queue::default());
        let finished = Arc::new(AtomicUsize::new(0));
        let until = forever();
        queue.add(100);
        queue.add(1_000_000);
        let handle = {
            let finished = finished.clone();
            move |milliseconds: u64| {
                let finished = finished.clone();
                async move {
                    sleep(Duration::from_millis(milliseconds)).await;
                    finished.fetch_add(1, Ordering::Relaxed);
                    Next::Done
                }
            }
        };
        let workers = tokio::spawn(run(queue, 8, until.clone(), handle, |_, _, _| {}));
        sleep(Duration::from_millis(10)).await;
        let start = Instant::now();
        by(&until);
        workers.await.expect("it ends");
        (finished.load(Ordering::Relaxed), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_lets_what_is_in_flight_finish_but_waits_for_nothing_that_hangs() {
        assert_eq!(end(|until| until.stop.cancel()).await, (1, DRAIN));
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_right_to_work_is_lost_nothing_finishes() {
        assert_eq!(end(|until| until.over.cancel()).await, (0, Duration::ZERO));
    }
}
