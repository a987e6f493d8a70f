//! What is said of a rule: this replica's share, and the leader's sum.

use std::sync::PoisonError;

use causeway_api::rules::{resource, status};
use causeway_core::ObjectKey;
use causeway_core::rules::status::{ACCEPTED, DISTRIBUTED};
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
use crate::write::{self, guarded, patching};

impl Rules {
    fn api(&self, kind: Kind, key: &ObjectKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.house.client.clone(), key.namespace(), &resource(kind))
    }

    /// Writes what the data planes of this replica say of a rule, at most once a second.
    pub(super) async fn write_share(&self, kind: Kind, key: &ObjectKey, term: &Term) -> Next {
        let replica = &self.house.identity;
        let (share, is_new) = {
            let state = self.desk.state();
            let Some(kept) = state.rule(kind, key) else {
                self.forget_share(kind, key);
                return Next::Done;
            };
            let share = kept.app.as_ref().map(|app| self.hub.share(kind, key, app)).unwrap_or_default();
            let said = kept.status.replicas.get(replica);
            // Who has nothing to say needs no entry.
            let is_new = said.map_or(share != Default::default(), |said| *said != share);
            (share, is_new)
        };
        if !is_new {
            return Next::Done;
        }
        if let Some(wait) = self.too_soon(kind, key) {
            return wait;
        }
        let patch = Patch::Merge(json!({ "status": status::share(replica, &share) }));
        let api = self.api(kind, key);
        let params = patching();
        match api.patch_status(key.name(), &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                // The object has gone, or its definition knows no status: then only events can say it.
                self.say_by_event(kind, key, &share, term);
                Next::Done
            }
            written => guarded(term, "share", std::future::ready(written)).await.err().unwrap_or(Next::Done),
        }
    }

    /// Says what a status would.
    fn say_by_event(&self, kind: Kind, key: &ObjectKey, share: &Share, term: &Term) {
        let state = self.desk.state();
        let Some(kept) = state.rule(kind, key) else { return };
        let (reason, note) = match (&kept.refusal, &share.failure) {
            (Some(refusal), _) => ("Refused", refusal.to_string()),
            (None, Some(failure)) => ("Failed", format!("{}: {}", failure.client, failure.message)),
            (None, None) => return,
        };
        let about = reference(kind, key, &kept.uid);
        self.house.announcer.announce(term, News { about, warning: true, reason: reason.into(), note });
    }

    fn too_soon(&self, kind: Kind, key: &ObjectKey) -> Option<Next> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earliest = written.get(&(kind, key.clone())).map(|last| *last + REPORTS_EVERY);
        if let Some(earliest) = earliest.filter(|earliest| *earliest > now) {
            return Some(Next::After(earliest - now));
        }
        written.insert((kind, key.clone()), now);
        None
    }

    fn forget_share(&self, kind: Kind, key: &ObjectKey) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(&(kind, key.clone()));
    }

    /// Writes the sum of all shares, and what follows from it.
    pub(super) async fn write_status(&self, kind: Kind, key: &ObjectKey, term: &Term) -> Next {
        let (before, said, version, uid) = {
            let state = self.desk.state();
            let (Some(kept), Some(said)) = (state.rule(kind, key), state.status(kind, key)) else {
                return Next::Done;
            };
            (kept.status.clone(), said, kept.resource_version.clone(), kept.uid.clone())
        };
        if said.status == before {
            return Next::Done;
        }
        let body = status::total(&said.status, &said.gone, self.house.clock.now());
        match write::status(term, &self.api(kind, key), key.name(), &version, body).await {
            Ok(_) => {
                self.announce_change(kind, key, &uid, &before, &said.status, term);
                Next::Done
            }
            Err(next) => next,
        }
    }

    /// One event when a condition turns bad or good again.
    fn announce_change(
        &self,
        kind: Kind,
        key: &ObjectKey,
        uid: &str,
        before: &RuleStatus,
        after: &RuleStatus,
        term: &Term,
    ) {
        for condition in [ACCEPTED, DISTRIBUTED] {
            let (before, after) = (before.conditions.get(condition), after.conditions.get(condition));
            let Some(after) = after else { continue };
            let is_bad = matches!(after.reason.as_str(), "Refused" | "NoApp" | "Failed");
            let was_bad =
                before.is_some_and(|before| matches!(before.reason.as_str(), "Refused" | "NoApp" | "Failed"));
            let same = before.is_some_and(|before| before.reason == after.reason);
            if same || !(is_bad || was_bad && after.is_true()) {
                continue;
            }
            let about = reference(kind, key, uid);
            let (reason, note) = (after.reason.clone(), after.message.clone());
            self.house.announcer.announce(term, News { about, warning: is_bad, reason, note });
        }
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
