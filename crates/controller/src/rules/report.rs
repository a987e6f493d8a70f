//! What is said of a rule: this replica's share, and the leader's sum.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use causeway_api::rules::{resource, status};
use causeway_core::ObjectKey;
use causeway_core::rules::state::{Standing, Target};
use causeway_core::rules::status::{News as Said, Told};
use causeway_core::rules::{Kind, Share};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::DynamicObject;
use tokio::time::Instant;

use super::{REPORTS_EVERY, Rules, lock};
use crate::election::Term;
use crate::events::News;
use crate::queue::Next;
use crate::write::status_if_any;

impl Rules {
    fn api(&self, kind: Kind, key: &ObjectKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.house.client.clone(), key.namespace(), &resource(kind))
    }

    /// Writes what the data planes of this replica say of a rule, at most once a second.
    pub(super) async fn write_share(&self, kind: Kind, key: &ObjectKey, term: &Term) -> Next {
        let replica = &self.house.identity;
        let (app, generation, uid, said) = {
            let state = self.desk.state();
            let Some(kept) = state.rule(kind, key) else {
                self.shares_written.forget(kind, key);
                lock(&self.unwritten).remove(&(kind, key.clone()));
                return Next::Done;
            };
            // What it says would be struck out at once; it is asked again when it counts. And what is not followed cannot
            // be written over.
            if !state.is_alive(replica) || state.standing(kind) == Standing::Unknown {
                return Next::Done;
            }
            (kept.app.clone(), kept.generation, kept.uid.clone(), kept.status.replicas.get(replica).cloned())
        };
        let is_current = |target: &Target, version| self.desk.state().is_current(target, version);
        let share = app.map(|app| self.hub.share(kind, key, &app, is_current)).unwrap_or_default();
        let share = Share { generation, ..share };
        let unwritten = || lock(&self.unwritten).get(&(kind, key.clone())).map(|(share, _)| share.clone());
        let said = said.or_else(unwritten);
        // Who has nothing to say needs no entry.
        if said.map_or(share.planes() == 0, |said| said == share) {
            return Next::Done;
        }
        if let Some(wait) = self.shares_written.too_soon(kind, key) {
            return wait;
        }
        let body = status::share(replica, &share);
        // Nobody else writes this part, so that it needs no version.
        match status_if_any(term, &self.api(kind, key), key.name(), None, body).await {
            Ok(Some(_)) => {
                lock(&self.unwritten).remove(&(kind, key.clone()));
                Next::Done
            }
            Ok(None) => {
                let news = {
                    let mut unwritten = lock(&self.unwritten);
                    let (last, told) = unwritten.entry((kind, key.clone())).or_default();
                    *last = share;
                    told.news_of_share(last)
                };
                news.into_iter().for_each(|news| self.announce(kind, key, &uid, news, term));
                Next::Done
            }
            Err(next) => next,
        }
    }

    /// Writes the sum of all shares, and what follows from it.
    pub(super) async fn write_status(&self, kind: Kind, key: &ObjectKey, term: &Term) -> Next {
        let (before, said, version, uid) = {
            let state = self.desk.state();
            let (Some(kept), Some(said)) = (state.rule(kind, key), state.status(kind, key)) else {
                lock(&self.told).remove(&(kind, key.clone()));
                self.statuses_written.forget(kind, key);
                return Next::Done;
            };
            if state.standing(kind) == Standing::Unknown {
                return Next::Done;
            }
            (kept.status.clone(), said, kept.resource_version.clone(), kept.uid.clone())
        };
        if said.status == before {
            return Next::Done;
        }
        if let Some(wait) = self.statuses_written.too_soon(kind, key) {
            return wait;
        }
        let body = status::total(&said.status, &said.gone, self.house.clock.now());
        // Where the definition has no status, events are all that is said.
        if let Err(next) = status_if_any(term, &self.api(kind, key), key.name(), Some(&version), body).await {
            return next;
        }
        let news = {
            let mut told = lock(&self.told);
            told.entry((kind, key.clone())).or_insert_with(|| Told::of(&before)).news(&said.status)
        };
        news.into_iter().for_each(|news| self.announce(kind, key, &uid, news, term));
        Next::Done
    }

    fn announce(&self, kind: Kind, key: &ObjectKey, uid: &str, said: Said, term: &Term) {
        let Said { warning, reason, message: note } = said;
        let about = reference(kind, key, uid);
        self.house.announcer.announce(term, News { about, warning, reason, note });
    }
}

/// When something was last written of each rule.
#[derive(Default)]
pub(super) struct Written(Mutex<BTreeMap<(Kind, ObjectKey), Instant>>);

impl Written {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Kind, ObjectKey), Instant>> {
        lock(&self.0)
    }

    /// When to come back; `None` when it may be written, which counts as done.
    fn too_soon(&self, kind: Kind, key: &ObjectKey) -> Option<Next> {
        let (mut written, now) = (self.lock(), Instant::now());
        let earliest = written.get(&(kind, key.clone())).map(|last| *last + REPORTS_EVERY);
        if let Some(earliest) = earliest.filter(|earliest| *earliest > now) {
            return Some(Next::After(earliest - now));
        }
        written.insert((kind, key.clone()), now);
        None
    }

    fn forget(&self, kind: Kind, key: &ObjectKey) {
        self.lock().remove(&(kind, key.clone()));
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}

fn reference(kind: Kind, key: &ObjectKey, uid: &str) -> ObjectReference {
    let resource = resource(kind);
    ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        namespace: Some(key.namespace().into()),
        name: Some(key.name().into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    }
}
