//! Changing what is kube-ovn's: just the text that is ours, over the version that was seen, and with patience where somebody
//! changes it back.

use std::sync::PoisonError;

use causeway_api::dns::{parse, patch, workload};
use causeway_core::dns::quarrel::{QUIET, Quarrel};
use causeway_core::dns::state::Trouble;
use causeway_core::dns::status::{self, ForwardNews};
use causeway_core::dns::{Event, Forward, Scope, Sight, State};
use causeway_core::room::Change;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::Patch;
use serde_json::Value;

use super::{Dns, KUBE_SYSTEM};
use crate::election::Term;
use crate::queue::Next;
use crate::words::describe;
use crate::write::patching;

/// A change that was decided.
struct Decided {
    /// In words that are the same while the same is wanted.
    what: String,
    /// The version that it was decided on.
    version: String,
    body: Value,
    /// Whom to tell that it was put back.
    news: Vec<(Forward, ForwardNews)>,
}

impl Dns {
    /// Brings a Corefile in line.
    pub(super) async fn write_corefile(&self, name: &str, term: &Term) -> Next {
        let scope = Scope::Corefile(name.to_owned());
        let decided = {
            let state = self.desk.state();
            let (Sight::Seen(Some(have)), Some(plan)) = (state.corefile(name), state.corefile_plan(name))
            else {
                return Next::Done;
            };
            let version = have.resource_version.clone();
            plan.text.map(|text| Decided {
                what: format!("{:?}", state.corefile_want(name)),
                body: patch::corefile(&text, &version),
                news: status::repaired(&state, &scope),
                version,
            })
        };
        let Some(decided) = decided else { return self.rest(&scope) };
        let api: Api<ConfigMap> = Api::namespaced(self.house.client.clone(), KUBE_SYSTEM);
        let (params, patch) = (patching(), Patch::Merge(&decided.body));
        let request = api.patch(name, &params, &patch);
        match self.change(&scope, &decided, term, request).await {
            Ok((written, next)) => {
                let unchanged = |state: &State| matches!(state.corefile(name), Sight::Seen(Some(have)) if have.resource_version == decided.version);
                let event = Event::Corefile(name.to_owned(), Sight::Seen(parse::corefile(&written)));
                self.desk.tell_if(unchanged, event);
                next
            }
            Err(next) => next,
        }
    }

    /// Brings a Deployment in line.
    pub(super) async fn write_deployment(&self, name: &str, term: &Term) -> Next {
        let scope = Scope::Deployment(name.to_owned());
        let decided = {
            let state = self.desk.state();
            let (Some(have), Some(plan)) = (state.deployment(name), state.deployment_plan(name)) else {
                return Next::Done;
            };
            plan.edit.map(|edit| Decided {
                what: format!("{:?}", state.deployment_want(name)),
                version: have.resource_version.clone(),
                body: patch::deployment(&edit, have),
                news: status::repaired(&state, &scope),
            })
        };
        let Some(decided) = decided else { return self.rest(&scope) };
        let api: Api<workload::Deployment> = Api::namespaced(self.house.client.clone(), KUBE_SYSTEM);
        let (params, patch) = (patching(), Patch::Strategic(&decided.body));
        let request = api.patch(name, &params, &patch);
        match self.change(&scope, &decided, term, request).await {
            Ok((written, next)) => {
                let unchanged = |state: &State| {
                    state.deployment(name).is_some_and(|have| have.resource_version == decided.version)
                };
                if let Some(written) = parse::deployment(&written) {
                    let event = Event::Deployments(Change::Put(name.to_owned(), written));
                    self.desk.tell_if(unchanged, event);
                }
                next
            }
            Err(next) => next,
        }
    }

    /// Sends a change, unless the same was undone just now. On `Err` it says what should become of the scope.
    async fn change<T>(
        &self,
        scope: &Scope,
        decided: &Decided,
        term: &Term,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<(T, Next), Next> {
        if let Some(pause) = self.quarrel(scope, |quarrel, now| quarrel?.pause(&decided.what, now)) {
            self.tell_of_quarrel(scope);
            return Err(Next::After(pause));
        }
        if !term.is_held() {
            // Whoever leads now decides anew.
            return Err(Next::Done);
        }
        let trouble = match request.await {
            Ok(written) => {
                tracing::info!("{scope} was changed");
                self.note(scope, &decided.what);
                for (forward, news) in &decided.news {
                    self.announce(term, forward, news.clone());
                }
                let is_told = self.tell_of_quarrel(scope);
                return Ok((written, if is_told { Next::After(QUIET) } else { Next::Done }));
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                tracing::debug!(%scope, "written by somebody else meanwhile");
                return Err(Next::Retry);
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(Next::Done),
            Err(error @ kube::Error::Api(_)) if is_forbidden(&error) => Trouble::Forbidden(describe(&error)),
            Err(error) => Trouble::Refused(describe(&error)),
        };
        tracing::warn!("{scope}: {trouble}");
        self.desk.tell(Event::Tried(scope.clone(), Some(trouble)));
        Err(Next::Retry)
    }

    /// Nothing is to be done: what was in the way is over, unless somebody changed it back again and again.
    fn rest(&self, scope: &Scope) -> Next {
        if self.tell_of_quarrel(scope) { Next::After(QUIET) } else { Next::Done }
    }

    /// Tells whether somebody changes something back again and again, and returns it.
    fn tell_of_quarrel(&self, scope: &Scope) -> bool {
        let is_one = self.quarrel(scope, |quarrel, now| Some(quarrel?.is_worth_telling(now)));
        let trouble = is_one.filter(|is_one| *is_one).map(|_| Trouble::Undone);
        let is_told = trouble.is_some();
        self.desk.tell(Event::Tried(scope.clone(), trouble));
        is_told
    }

    fn quarrel<T>(
        &self,
        scope: &Scope,
        ask: impl FnOnce(Option<&Quarrel>, std::time::Duration) -> Option<T>,
    ) -> Option<T> {
        let quarrels = self.quarrels.lock().unwrap_or_else(PoisonError::into_inner);
        ask(quarrels.get(scope), self.began.elapsed())
    }

    /// Remembers that something was written.
    fn note(&self, scope: &Scope, what: &str) {
        let now = self.began.elapsed();
        let mut quarrels = self.quarrels.lock().unwrap_or_else(PoisonError::into_inner);
        // Others' are forgotten when they are over, so that this does not grow.
        quarrels.retain(|_, quarrel| !quarrel.is_over(now));
        match quarrels.get_mut(scope) {
            Some(quarrel) => quarrel.wrote(what.to_owned(), now),
            None => drop(quarrels.insert(scope.clone(), Quarrel::begin(what.to_owned(), now))),
        }
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
