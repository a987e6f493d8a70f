//! The one worker loop: takes keys from the queue and hands them to the rooms.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::queue::{Next, Queue};

/// Runs `workers` loops until told to stop; keys in flight are finished first. A panic while handling a
/// key is that key's failure and nobody else's.
pub async fn run<K, F, Fut>(queue: Arc<Queue<K>>, workers: usize, stop: CancellationToken, handle: F)
where
    K: Ord + Clone + std::fmt::Debug + Send + Sync + 'static,
    F: Fn(K) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Next> + Send,
{
    let mut loops = JoinSet::new();
    for _ in 0..workers {
        let (queue, stop, handle) = (queue.clone(), stop.clone(), handle.clone());
        loops.spawn(async move {
            while let Some(key) = stop.run_until_cancelled(queue.next()).await {
                let next = AssertUnwindSafe(handle(key.clone())).catch_unwind().await;
                let next = next.unwrap_or_else(|_| {
                    tracing::error!(?key, "handling this key panicked; it will be tried again");
                    Next::Retry
                });
                queue.finish(key, next);
            }
        });
    }
    while loops.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_one_keys_failure_and_the_others_go_on() {
        let queue = Arc::new(Queue::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stop = CancellationToken::new();
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
        let workers = tokio::spawn(run(queue, 1, stop.clone(), handle));
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
        workers.await.expect("the loop survives");
        assert_eq!(*seen.lock().expect("no panic holds it"), ["bad", "good", "bad"]);
    }
}
