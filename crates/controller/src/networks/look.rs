//! Looks at the cloud as a whole.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_core::networks::trouble::Next as After;
use causeway_core::networks::{Event, Look, Trouble};
use tokio::time::Instant;

use super::Networks;
use super::provider::NetworkProvider;
use crate::queue::Next;

/// What could not be seen for so long is not known any more.
const BLIND_AFTER: Duration = Duration::from_secs(120);

impl<P: NetworkProvider> Networks<P> {
    /// Lists all that is ours, and comes back.
    pub(super) async fn look(&self) -> Next {
        let (home, since) = {
            let state = self.desk.state();
            // It is asked for again when the cluster is known.
            let Some(home) = state.home().cloned() else { return Next::Done };
            (home, state.revision())
        };
        let looked = self.provider.look(&home, &Look::All).await;
        self.metrics.count_look(&looked);
        match looked {
            Ok(held) => {
                if self.outage.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
                    tracing::info!("the cloud answers again");
                }
                self.desk.tell(Event::Listed(since, held));
                self.desk.tell(Event::Blind(None));
                self.warn_of_namesakes(home.cluster());
                Next::After(self.options.resync)
            }
            Err(trouble) => self.missed(trouble),
        }
    }

    /// Nothing was seen: what was seen before counts for a while.
    fn missed(&self, trouble: Trouble) -> Next {
        let (since, is_news) = {
            let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
            let is_news = outage.as_ref().is_none_or(|(_, known)| known.reason() != trouble.reason());
            let since = outage.as_ref().map_or_else(Instant::now, |(since, _)| *since);
            *outage = Some((since, trouble.clone()));
            if is_news {
                tracing::warn!(reason = trouble.reason(), "the cloud cannot be listed: {trouble}");
            }
            (since, is_news)
        };
        if is_news {
            self.tell_all_of_outage();
        }
        if since.elapsed() >= BLIND_AFTER {
            self.desk.tell(Event::Blind(Some(trouble.clone())));
        }
        match trouble.next() {
            After::Soon(Some(after)) => Next::After(after),
            After::Soon(None) | After::Look | After::Seldom => Next::Retry,
        }
    }

    /// Before the first list nobody works on any network, and nobody else would say why.
    fn tell_all_of_outage(&self) {
        let networks: Vec<_> = {
            let state = self.desk.state();
            let is_unseen = state.cloud().is_none();
            state.networks().filter(|_| is_unseen).cloned().collect()
        };
        networks.iter().for_each(|network| self.tell_of_outage(network));
    }

    /// Says once that others go by our id: nothing of theirs is touched, but people may take one for the other.
    fn warn_of_namesakes(&self, cluster: &str) {
        let namesakes = self.desk.state().namesakes();
        if namesakes > 0 && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                cluster,
                networks = namesakes,
                "another cluster, or this one before it was set up anew, goes by this id: its networks are left alone"
            );
        }
    }
}
