//! What the room says of its work: in the log, in events of the node, and in readiness.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use causeway_core::Family;
use causeway_core::leases::{Admitted, Refusal, Step};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::kernel::Looked;
use super::{Leases, lock};
use crate::election::Term;
use crate::events::News;

/// The reason of events that say what was put right.
pub(super) const REPAIRED: &str = "Repaired";
const KERNEL_REFUSED: &str = "KernelRefused";
const ROUTE_CONTESTED: &str = "RouteContested";
const WAITING: &str = "Waiting";
/// What readiness waits for after all is listed.
pub(super) const ANNOUNCEMENT: &str = "announcement";
/// Of one reason so many events may come at once, and after that one each time this has passed: a storm of repairs must not
/// become one of events.
const EVENTS_AT_ONCE: u32 = 5;
const EVENTS_EVERY: Duration = Duration::from_secs(10);
/// So many nodes are named in the log at once.
const MOST_LOGGED: usize = 20;
/// How many things a sentence names.
const NAMED: usize = 3;

/// What was last said.
#[derive(Default)]
pub(super) struct Said {
    events: Mutex<BTreeMap<&'static str, Told>>,
    waiting: Mutex<Option<String>>,
    refused: Mutex<BTreeMap<Family, BTreeMap<String, String>>>,
}

/// What was told for one reason.
struct Told {
    /// The last words, of each family and of neither: two families' troubles are no news to each other.
    last: BTreeMap<Option<Family>, String>,
    /// How many more may be told, and since when it is as many.
    left: u32,
    since: Instant,
}

impl Told {
    fn new() -> Self {
        Self { last: BTreeMap::new(), left: EVENTS_AT_ONCE, since: Instant::now() }
    }

    /// Whether one more may be told.
    fn take(&mut self) -> bool {
        let earned = self.since.elapsed().as_secs() / EVENTS_EVERY.as_secs();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(earned).min(EVENTS_AT_ONCE);
            self.since = Instant::now();
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// The first few, and how many more there are.
fn few(things: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = things.collect();
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

impl Leases {
    /// Says what was done to the kernel, and what could not be.
    pub(super) fn report(
        &self,
        family: Family,
        looked: &Looked,
        heard: Option<Instant>,
        is_repair: bool,
        term: &Term,
    ) {
        let Looked { done: steps, holding, .. } = looked;
        if !steps.is_empty() {
            let what = few(steps.iter().map(Step::to_string));
            if is_repair {
                self.metrics.count_repairs(family, steps, heard.map(|heard| heard.elapsed()));
                tracing::warn!(%family, steps = steps.len(), what, "what somebody changed was put right");
                self.tell(term, false, REPAIRED, format!("{family}: {what}"));
            } else {
                tracing::info!(%family, steps = steps.len(), routes = holding.routes, what, "changed");
            }
        }
        if !holding.failed.is_empty() {
            let why = few(holding.failed.iter().cloned());
            tracing::warn!(%family, why, "the kernel does not hold all that it should");
            self.tell(term, true, KERNEL_REFUSED, format!("{family}: {why}"));
        } else {
            self.forget(KERNEL_REFUSED, family);
        }
        if holding.contested.is_empty() {
            self.forget(ROUTE_CONTESTED, family);
        } else {
            let ranges = few(holding.contested.iter().map(ToString::to_string));
            let note = format!(
                "{family}: somebody else has routes to {ranges}; they stay, and packets go where they lead"
            );
            if self.tell(term, true, ROUTE_CONTESTED, note.clone()) {
                tracing::warn!(%family, note);
            }
        }
    }

    /// Says which nodes are not reached, whenever that is news.
    pub(super) fn say_refused(&self, family: Family, admitted: &Admitted<'_>) {
        let refused: BTreeMap<String, String> =
            admitted.refused.iter().map(|(node, why)| ((*node).to_owned(), why.to_string())).collect();
        let mut known = lock(&self.said.refused);
        let known = known.entry(family).or_default();
        let news: Vec<_> = refused.iter().filter(|(node, why)| known.get(*node) != Some(why)).collect();
        for (node, why) in news.iter().take(MOST_LOGGED) {
            tracing::warn!(%family, node, why, "a node is not reached");
        }
        if let Some(more) = news.len().checked_sub(MOST_LOGGED).filter(|more| *more > 0) {
            tracing::warn!(%family, more, "more nodes are not reached");
        }
        self.metrics.set_nodes(family, admitted.leases.len(), refused.len());
        // What all nodes see is no event on each of them; what is this one's is.
        let ours = |why: &Refusal| {
            matches!(why, Refusal::OurAddress(_) | Refusal::OurSubnet(..) | Refusal::SameEnd(_, None))
        };
        let claims = admitted.refused.iter().filter(|(_, why)| ours(why));
        let claims: Vec<String> = claims.map(|(node, why)| format!("node {node}: {why}")).collect();
        if !claims.is_empty() {
            self.tell(&Term::unelected(), true, "NodeRefused", few(claims.into_iter()));
        }
        *known = refused;
    }

    /// Says what is waited for, whenever that is news.
    pub(super) fn say_waiting(&self, why: &str, term: &Term) {
        self.house.readiness.waiting(ANNOUNCEMENT, why);
        if lock(&self.said.waiting).replace(why.to_owned()).as_deref() != Some(why) {
            tracing::warn!(why, "waiting");
            self.tell(term, true, WAITING, why.to_owned());
        }
    }

    /// Nothing is waited for.
    pub(super) fn say_ready(&self) {
        self.house.readiness.ready(ANNOUNCEMENT);
        if lock(&self.said.waiting).take().is_some() {
            tracing::info!("no longer waiting");
            self.forget_all(WAITING);
        }
    }

    /// What was told for a reason is over: the next time it is news.
    pub(super) fn forget_all(&self, reason: &'static str) {
        if let Some(told) = lock(&self.said.events).get_mut(reason) {
            told.last.clear();
        }
    }

    /// What was told for a reason of a family is over: the next time it is news.
    fn forget(&self, reason: &'static str, family: Family) {
        if let Some(told) = lock(&self.said.events).get_mut(reason) {
            told.last.remove(&Some(family));
        }
    }

    /// Publishes an event of this node, unless the same was said last or too many were. Every repair is one of its own.
    pub(super) fn tell(&self, term: &Term, warning: bool, reason: &'static str, note: String) -> bool {
        {
            let mut events = lock(&self.said.events);
            let told = events.entry(reason).or_insert_with(Told::new);
            let family = Family::ALL.into_iter().find(|family| note.starts_with(&family.to_string()));
            if told.last.get(&family) == Some(&note) && reason != REPAIRED || !told.take() {
                return false;
            }
            told.last.insert(family, note.clone());
        }
        let name = self.options.given.name.clone();
        // Kubelets' own events have the name for it, and `kubectl describe` looks for that.
        let uid = Some(name.clone());
        let (api_version, kind) = (Some("v1".into()), Some("Node".into()));
        let about =
            ObjectReference { api_version, kind, name: Some(name), uid, ..ObjectReference::default() };
        self.house.announcer.announce(term, News { about, warning, reason: reason.into(), note });
        true
    }
}
