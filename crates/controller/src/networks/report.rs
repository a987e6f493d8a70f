//! Writing a network object: its finalizer, its status, and events about it.

use causeway_api::networks::{LooseNetwork, parse, reference};
use causeway_core::ObjectKey;
use causeway_core::networks::status::{self, Finalizer, NetworkNews};
use causeway_core::networks::{Event, Network, State};
use causeway_core::room::Change;
use kube::Api;

use super::Networks;
use super::provider::NetworkProvider;
use crate::election::Term;
use crate::events::News;
use crate::queue::Next;
use crate::write;

impl<P: NetworkProvider> Networks<P> {
    pub(super) async fn write_status(&self, key: &ObjectKey, term: &Term) -> Next {
        let (network, task) = {
            let state = self.desk.state();
            let Some(task) = status::network(&state, key) else { return Next::Done };
            let Some(network) = state.network(key).cloned() else { return Next::Done };
            (network, task)
        };
        let api: Api<LooseNetwork> = Api::namespaced(self.house.client.clone(), key.namespace());
        let (name, version) = (key.name(), &network.resource_version);
        let written = match task.finalizer {
            Finalizer::Add => {
                write::finalizers(term, &api, name, version, &status::finalizers(&network, true)).await
            }
            Finalizer::Remove => {
                tracing::info!(object = %key, "nothing is left of it: letting it go");
                write::finalizers(term, &api, name, version, &status::finalizers(&network, false)).await
            }
            Finalizer::Leave => {
                let Some(wanted) = task.status.filter(|wanted| *wanted != network.status) else {
                    return Next::Done;
                };
                let body = parse::body(&wanted, self.house.clock.now());
                let written = write::status(term, &api, name, version, body).await;
                if written.is_ok() {
                    for news in status::news(&network.status, &wanted) {
                        self.announce(term, &network, news);
                    }
                }
                written
            }
        };
        match written {
            Ok(object) => {
                self.take_in(&network, &object);
                Next::Done
            }
            Err(next) => next,
        }
    }

    /// What was just written is known at once. The watch may have been faster, and may know of later writes: then it is
    /// right.
    fn take_in(&self, before: &Network, written: &LooseNetwork) {
        let Some(after) = parse::network(written) else { return };
        if after.deleting && after.finalizers.is_empty() {
            return;
        }
        let unchanged = |state: &State| {
            let known = state.network(&before.key);
            known.is_some_and(|known| known.resource_version == before.resource_version)
        };
        self.desk.tell_if(unchanged, Event::Networks(Change::Put(before.key.clone(), after)));
    }

    /// Publishes an event on a network.
    pub(super) fn announce(&self, term: &Term, network: &Network, news: NetworkNews) {
        let about = reference(&network.key, &network.uid);
        let NetworkNews { warning, reason, note } = news;
        if warning {
            tracing::warn!(object = %network.key, reason, "{note}");
        } else {
            tracing::info!(object = %network.key, reason, "{note}");
        }
        self.house.announcer.announce(term, News { about, warning, reason, note });
    }
}
