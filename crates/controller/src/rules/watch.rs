//! Follows the six kinds of rules, and the replicas' leases.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_api::meta;
use causeway_api::rules::{
    CircuitBreakerStrategy, ConcurrencyLimitStrategy, FaultToleranceRule, LooseRule, RateLimitStrategy,
    RuleKind, ThrottlingStrategy, TrafficRouter, parse,
};
use causeway_core::ObjectKey;
use causeway_core::room::Change;
use causeway_core::rules::state::Event;
use causeway_core::rules::{Kind, RuleObject};
use kube::core::DeserializeGuard;
use kube::{Api, Resource};
use serde_json::Value;
use tokio::sync::{Notify, watch as channel};
use tokio::time::timeout;

use super::{Rules, alive};
use crate::follow::{Interruption, Seen, Watch};
use crate::sources::{Feed, Sources, Standing};

/// How each kind is followed.
#[derive(Default)]
pub(super) struct Kinds(Mutex<BTreeMap<Kind, Followed>>);

#[derive(Clone, Default)]
struct Followed {
    /// How often it was listed.
    lists: u64,
    anew: Arc<Notify>,
    /// How many subscriptions ask for it.
    asked: channel::Sender<usize>,
}

impl Kinds {
    fn with<T>(&self, kind: Kind, look: impl FnOnce(&mut Followed) -> T) -> T {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(kinds.entry(kind).or_default())
    }

    /// One more asks for a kind.
    pub(super) fn asked(&self, kind: Kind) {
        self.with(kind, |followed| followed.asked.send_modify(|count| *count += 1));
    }

    /// One less does.
    pub(super) fn left(&self, kind: Kind) {
        self.with(kind, |followed| followed.asked.send_modify(|count| *count = count.saturating_sub(1)));
    }
}

impl Rules {
    /// How often a kind was listed.
    pub(super) fn lists(&self, kind: Kind) -> u64 {
        self.kinds.with(kind, |followed| followed.lists)
    }

    /// Has a kind listed anew.
    pub(super) fn list_anew(&self, kind: Kind) {
        self.kinds.with(kind, |followed| followed.anew.notify_one());
    }
}

/// Starts all watches of the room.
pub(super) fn start(room: &Arc<Rules>, sources: &mut Sources<'_, Rules>) {
    start_kind::<FaultToleranceRule>(room, sources);
    start_kind::<RateLimitStrategy>(room, sources);
    start_kind::<ThrottlingStrategy>(room, sources);
    start_kind::<ConcurrencyLimitStrategy>(room, sources);
    start_kind::<CircuitBreakerStrategy>(room, sources);
    start_kind::<TrafficRouter>(room, sources);
    alive::start(room, sources);
}

fn start_kind<K>(room: &Arc<Rules>, sources: &mut Sources<'_, Rules>)
where
    K: RuleKind + Clone + Debug + Send + Sync + 'static,
{
    let room = room.clone();
    match room.options.on_demand {
        Some(linger) => sources.beside(K::KIND.plural(), |feed| follow_on_demand::<K>(room, feed, linger)),
        None => sources.task(K::KIND.plural(), |feed| follow::<K>(room, feed)),
    }
}

/// Follows a kind from its first subscription to its last.
async fn follow_on_demand<K>(room: Arc<Rules>, feed: Feed<Rules>, linger: Duration)
where
    K: RuleKind + Clone + Debug + Send + Sync + 'static,
{
    let mut asked = room.kinds.with(K::KIND, |followed| followed.asked.subscribe());
    while asked.wait_for(|count| *count > 0).await.is_ok() {
        let idle = async {
            loop {
                if asked.wait_for(|count| *count == 0).await.is_err() {
                    return;
                }
                // Statuses say by then that nobody asks any more; and whoever left may come back.
                if timeout(linger, asked.wait_for(|count| *count > 0)).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = follow::<K>(room.clone(), feed.clone()) => {}
            () = idle => {}
        }
        feed.tell(Event::Unfollowed(K::KIND));
    }
}

async fn follow<K>(room: Arc<Rules>, feed: Feed<Rules>)
where
    K: RuleKind + Clone + Debug + Send + Sync + 'static,
{
    let anew = room.kinds.with(K::KIND, |followed| followed.anew.clone());
    let watch = Watch::new(Api::<DeserializeGuard<LooseRule<K>>>::all(room.house.client.clone())).anew(anew);
    let tell = |seen: Result<Seen<ObjectKey, RuleObject>, Interruption>| {
        let standing = Standing::of(&seen);
        match seen {
            Ok(Seen::Missing) => feed.tell(Event::Missing(K::KIND)),
            Ok(seen) => {
                if let Some((change, version)) = seen.change() {
                    let is_list = matches!(change, Change::Reset(_));
                    let version = version.parse().unwrap_or_default();
                    feed.tell(Event::Rules { kind: K::KIND, change, version });
                    if is_list {
                        room.kinds.with(K::KIND, |followed| followed.lists += 1);
                    }
                }
            }
            Err(_) => {}
        }
        feed.note(standing);
    };
    match watch.follow(feed.pace(), rule::<K>, tell).await {}
}

/// A rule by its key; what cannot be decoded at all is a rule that cannot be sent.
fn rule<K: RuleKind>(object: &DeserializeGuard<LooseRule<K>>) -> (ObjectKey, Option<RuleObject>) {
    let parsed = match &object.0 {
        Ok(object) => object.parsed(),
        Err(invalid) => parse::rule(K::KIND, &invalid.metadata, &Value::Null, &Value::Null),
    };
    match meta::key(object.meta()) {
        Some(key) => (key, parsed),
        // No namespace has a dot: this is nobody's.
        None => (ObjectKey::new("no.namespace", "none").expect("two names"), None),
    }
}
