//! What is said of a rule: this replica's share, and the leader's sum.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_api::rules::{resource, status};
use causeway_core::ObjectKey;
use causeway_core::rules::state::{Standing, Target};
use causeway_core::rules::status::{News as Said, news};
use causeway_core::rules::{Kind, RuleStatus, Share};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::{DynamicObject, Patch};
use serde_json::json;
use tokio::time::Instant;

use super::{REPORTS_EVERY, Rules};
use crate::election::Term;
use crate::events::News;
use crate::queue::Next;
use crate::write::{guarded, patching};

impl Rules {
    fn api(&self, kind: Kind, key: &ObjectKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.house.client.clone(), key.namespace(), &resource(kind))
    }

    /// Writes what the data planes of this replica say of a rule, at most once a second.
    pub(super) async fn write_share(&self, kind: Kind, key: &ObjectKey, term: &Term) -> Next {
        let replica = &self.house.identity;
        let (app, generation, said) = {
            let state = self.desk.state();
            let Some(kept) = state.rule(kind, key) else {
                self.shares_written.forget(kind, key);
                return Next::Done;
            };
            // What it says would be struck out at once; it is asked again when it counts. And what is not followed cannot
            // be written over.
            if !state.is_alive(replica) || state.standing(kind) == Standing::Unknown {
                return Next::Done;
            }
            (kept.app.clone(), kept.generation, kept.status.replicas.get(replica).cloned())
        };
        let is_current = |target: &Target, version| self.desk.state().is_current(target, version);
        let share = app.map(|app| self.hub.share(kind, key, &app, is_current)).unwrap_or_default();
        let share = Share { generation, ..share };
        // Who has nothing to say needs no entry.
        if said.map_or(share.planes() == 0, |said| said == share) {
            return Next::Done;
        }
        if let Some(wait) = self.shares_written.too_soon(kind, key) {
            return wait;
        }
        let patch = Patch::Merge(json!({ "status": status::share(replica, &share) }));
        let (api, params) = (self.api(kind, key), patching());
        match guarded(term, "share", unless_missing(api.patch_status(key.name(), &params, &patch))).await {
            Ok(Some(_)) => Next::Done,
            Ok(None) => {
                self.say_failure(kind, key, &share, term);
                Next::Done
            }
            Err(next) => next,
        }
    }

    /// Says by an event what a status would.
    fn say_failure(&self, kind: Kind, key: &ObjectKey, share: &Share, term: &Term) {
        let uid = self.desk.state().rule(kind, key).map(|kept| kept.uid.clone());
        if let (Some(uid), Some(failure)) = (uid, &share.failure) {
            let message = format!("{}: {}", failure.client, failure.message);
            self.announce(kind, key, &uid, Said { warning: true, reason: "Failed".into(), message }, term);
        }
    }

    /// Writes the sum of all shares, and what follows from it.
    pub(super) async fn write_status(&self, kind: Kind, key: &ObjectKey, term: &Term) -> Next {
        let (before, said, version, uid) = {
            let state = self.desk.state();
            let (Some(kept), Some(said)) = (state.rule(kind, key), state.status(kind, key)) else {
                self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(&(kind, key.clone()));
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
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "status": body }));
        let (api, params) = (self.api(kind, key), patching());
        let before = match guarded(
            term,
            "status",
            unless_missing(api.patch_status(key.name(), &params, &patch)),
        )
        .await
        {
            Ok(Some(_)) => before,
            Ok(None) => self.told_before(kind, key, &said.status),
            Err(next) => return next,
        };
        for news in news(&before, &said.status) {
            self.announce(kind, key, &uid, news, term);
        }
        Next::Done
    }

    /// What was said of a rule by events alone, before this.
    fn told_before(&self, kind: Kind, key: &ObjectKey, now: &RuleStatus) -> RuleStatus {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert((kind, key.clone()), now.clone()).unwrap_or_default()
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}

/// A write of a status. There is none if the object has gone, or if its definition knows no status: then only events
/// can say it.
async fn unless_missing<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<Option<T>> {
    match request.await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        other => other.map(Some),
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
