//! Writing a forward: its finalizer, its status, and events about it.

use causeway_api::dns::{LooseForward, parse, patch, reference};
use causeway_core::ObjectKey;
use causeway_core::dns::status::{self, Finalizer, ForwardNews};
use causeway_core::dns::{Event, Forward, State};
use causeway_core::room::Change;
use kube::Api;

use super::Dns;
use crate::election::Term;
use crate::events::News;
use crate::queue::Next;
use crate::write;

impl Dns {
    pub(super) async fn write_forward(&self, key: &ObjectKey, term: &Term) -> Next {
        let (forward, task) = {
            let state = self.desk.state();
            let Some(task) = status::forward(&state, key) else { return Next::Done };
            let Some(forward) = state.forward(key).cloned() else { return Next::Done };
            (forward, task)
        };
        let api: Api<LooseForward> = Api::namespaced(self.house.client.clone(), key.namespace());
        let (name, version) = (key.name(), &forward.resource_version);
        let written = match task.finalizer {
            Finalizer::Add => {
                write::finalizers(term, &api, name, version, &status::finalizers(&forward, true)).await
            }
            Finalizer::Remove => {
                tracing::info!(object = %key, "nothing is left of it: letting it go");
                write::finalizers(term, &api, name, version, &status::finalizers(&forward, false)).await
            }
            Finalizer::Leave => {
                let Some(wanted) = task.status.filter(|wanted| *wanted != forward.status) else {
                    return Next::Done;
                };
                let body = patch::status(&wanted, self.house.clock.now());
                let written = write::status(term, &api, name, version, body).await;
                if written.is_ok() {
                    for news in status::news(&forward.status, &wanted) {
                        self.announce(term, &forward, news);
                    }
                }
                written
            }
        };
        match written {
            Ok(object) => {
                self.take_in(&forward, &object);
                Next::Done
            }
            Err(next) => next,
        }
    }

    /// What was just written is known at once. The watch may have been faster, and may know of later writes: then it is
    /// right.
    fn take_in(&self, before: &Forward, written: &LooseForward) {
        let Some(after) = parse::forward(written) else { return };
        if after.deleting && after.finalizers.is_empty() {
            return;
        }
        let unchanged = |state: &State| {
            let known = state.forward(&before.key);
            known.is_some_and(|known| known.resource_version == before.resource_version)
        };
        self.desk.tell_if(unchanged, Event::Forwards(Change::Put(before.key.clone(), after)));
    }

    /// Publishes an event on a forward.
    pub(super) fn announce(&self, term: &Term, forward: &Forward, news: ForwardNews) {
        let about = reference(&forward.key, &forward.uid);
        let ForwardNews { warning, reason, note } = news;
        if warning {
            tracing::warn!(object = %forward.key, reason, "{note}");
        } else {
            tracing::info!(object = %forward.key, reason, "{note}");
        }
        self.house.announcer.announce(term, News { about, warning, reason, note });
    }
}
