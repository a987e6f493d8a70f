//! Follows the six kinds of rules, and the replicas' leases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_api::rules::LooseRule;
use causeway_core::ObjectKey;
use causeway_core::room::Change;
use causeway_core::rules::state::Event;
use causeway_core::rules::{Kind, RuleObject};
use kube::Api;
use tokio::sync::{Notify, watch as channel};
use tokio::time::timeout;

use super::{Rules, alive};
use crate::follow::{Interruption, Seen, Watch};
use crate::found::by_key;
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
    for kind in Kind::ALL {
        let room = room.clone();
        match room.options.on_demand {
            Some(linger) => sources.beside(kind.plural(), |feed| follow_on_demand(kind, room, feed, linger)),
            None => sources.task(kind.plural(), |feed| follow(kind, room, feed)),
        }
    }
    alive::start(room, sources);
}

/// Follows a kind from its first subscription to its last.
async fn follow_on_demand(kind: Kind, room: Arc<Rules>, feed: Feed<Rules>, linger: Duration) {
    let mut asked = room.kinds.with(kind, |followed| followed.asked.subscribe());
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
            () = follow(kind, room.clone(), feed.clone()) => {}
            () = idle => {}
        }
        feed.tell(Event::Unfollowed(kind));
    }
}

async fn follow(kind: Kind, room: Arc<Rules>, feed: Feed<Rules>) {
    let anew = room.kinds.with(kind, |followed| followed.anew.clone());
    let watch = Watch::of(kind, Api::all_with(room.house.client.clone(), &kind)).anew(anew);
    let tell = |seen: Result<Seen<ObjectKey, RuleObject>, Interruption>| {
        let standing = Standing::of(&seen);
        match seen {
            Ok(Seen::Missing) => feed.tell(Event::Missing(kind)),
            Ok(seen) => {
                if let Some((change, version)) = seen.change() {
                    let is_list = matches!(change, Change::Reset(_));
                    let version = version.parse().unwrap_or_default();
                    feed.tell(Event::Rules { kind, change, version });
                    if is_list {
                        room.kinds.with(kind, |followed| followed.lists += 1);
                    }
                }
            }
            Err(_) => {}
        }
        feed.note(standing);
    };
    let rule = by_key(move |rule: &LooseRule| rule.parsed(kind));
    match watch.follow(feed.pace(), rule, tell).await {}
}
