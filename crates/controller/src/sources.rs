//! What brings a room its events: watches, by name, and whatever else it follows.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use causeway_core::room::{Change, State};
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::follow::{Convert, Interruption, Seen, Watch};
use crate::health::Readiness;
use crate::pace::Pace;
use crate::room::{House, Parts, Room, add_part, prefix};

/// Where a room registers its sources.
pub struct Sources<'a, R: Room> {
    room: Arc<R>,
    house: &'a House,
    parts: &'a mut Parts,
}

/// A source's way to its room.
pub struct Feed<R> {
    room: Arc<R>,
    name: String,
    readiness: Readiness,
    pace: Pace,
}

/// What a watch says of readiness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// All there is has been seen; of a kind that is not installed that is nothing.
    Listed,
    /// Nothing can be seen, and why.
    Waiting(String),
    /// No news.
    Same,
}

impl Standing {
    /// From what was seen.
    pub fn of<K, V>(seen: &Result<Seen<K, V>, Interruption>) -> Self {
        match seen {
            Ok(Seen::All { .. } | Seen::Missing) => Self::Listed,
            Ok(Seen::Put(..) | Seen::Gone(..)) => Self::Same,
            Ok(Seen::Forbidden(why)) => Self::Waiting(format!("forbidden: {why}")),
            Err(Interruption(why)) => Self::Waiting(why.clone()),
        }
    }
}

impl<R> Clone for Feed<R> {
    fn clone(&self) -> Self {
        let Self { room, name, readiness, pace } = self;
        Self { room: room.clone(), name: name.clone(), readiness: readiness.clone(), pace: pace.clone() }
    }
}

impl<R: Room> Feed<R> {
    /// Brings an event.
    pub fn tell(&self, event: <R::State as State>::Event) {
        self.room.desk().tell(event);
    }

    /// Pauses of its own.
    pub fn pace(&self) -> Pace {
        self.pace.clone()
    }

    /// Takes note of how a watch stands.
    pub fn note(&self, standing: Standing) {
        match standing {
            Standing::Listed => self.readiness.ready(&self.name),
            Standing::Waiting(why) => self.readiness.waiting(&self.name, &why),
            Standing::Same => {}
        }
    }

    /// Follows objects for ever: each change becomes an event. With a change comes the resourceVersion of what was
    /// seen: of one object's change or end, or of the list.
    pub async fn follow<K, C>(
        self,
        watch: Watch<K>,
        convert: C,
        event: impl Fn(Change<C::Key, C::Value>, String) -> <R::State as State>::Event + Sync,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
        C: Convert<K>,
    {
        let tell = |seen: Result<Seen<C::Key, C::Value>, Interruption>| {
            let standing = Standing::of(&seen);
            if let Some((change, version)) = seen.ok().and_then(Seen::change) {
                self.tell(event(change, version));
            }
            self.note(standing);
        };
        match watch.follow(self.pace(), convert, tell).await {}
    }
}

impl<'a, R: Room> Sources<'a, R> {
    pub(crate) fn new(room: &Arc<R>, house: &'a House, parts: &'a mut Parts) -> Self {
        Self { room: room.clone(), house, parts }
    }

    /// A kind that must have been listed before the room decides anything: each change becomes an event, as in
    /// [`Feed::follow`].
    pub fn watch<K, C>(
        &mut self,
        name: &str,
        watch: Watch<K>,
        convert: C,
        event: impl Fn(Change<C::Key, C::Value>, String) -> <R::State as State>::Event + Send + Sync + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
        C: Convert<K> + Sync + 'static,
    {
        self.task(name, |feed| feed.follow(watch, convert, event));
    }

    /// Anything that the room must have heard from before it decides anything.
    pub fn task<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &str,
        task: impl FnOnce(Feed<R>) -> F,
    ) {
        let full = format!("{}{name}", prefix::<R>());
        self.house.readiness.expect(&full);
        self.beside(name, task);
    }

    /// Anything that readiness does not wait for.
    pub fn beside<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &str,
        task: impl FnOnce(Feed<R>) -> F,
    ) {
        let name = format!("{}{name}", prefix::<R>());
        let pace = self.house.pace(&name);
        let readiness = self.house.readiness.clone();
        let task = task(Feed { room: self.room.clone(), name: name.clone(), readiness, pace });
        add_part(self.parts, &self.house.stop, name, async move {
            task.await;
            anyhow::bail!("it ended by itself")
        });
    }
}
