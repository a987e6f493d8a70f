//! Streams of objects that never end.
//!
//! Each starts with a full list, which replaces what was known; so what happened while nobody looked is seen
//! too. A foreign kind that does not exist here is an empty list. A kind of our own is waited for: an API
//! server that is just starting denies it too, and no tunnel may be lost to that.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use causeway_api::parse;
use causeway_core::ObjectKey;
use causeway_core::vpc::Change;
use futures::{Stream, StreamExt};
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch as channel;

/// Whose kind it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    Foreign,
}

/// What a stream of objects says.
pub(super) enum Seen<K> {
    All(Vec<K>),
    One(K),
    Gone(K),
}

impl Kind {
    /// How soon a kind that does not exist here is asked for again: ours is about to be installed.
    fn patience(self) -> Duration {
        match self {
            Self::Own => Duration::from_secs(2),
            Self::Foreign => Duration::from_secs(30),
        }
    }
}

/// A watch that never ends: errors are waited out, lists arrive whole. Objects that can not be decoded
/// come as such.
pub(super) fn follow<K>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    kind: Kind,
) -> impl Stream<Item = Seen<DeserializeGuard<K>>> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let rounds = futures::stream::iter(0u64..).then(move |round| async move {
        if round > 0 {
            tokio::time::sleep(kind.patience()).await;
        }
    });
    rounds.flat_map(move |()| until_missing(watcher(api.clone(), config.clone()).default_backoff(), kind))
}

/// One round of a watch: it ends when the kind turns out not to exist.
fn until_missing<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<DeserializeGuard<K>>>>,
    kind: Kind,
) -> impl Stream<Item = Seen<DeserializeGuard<K>>>
where
    K: Resource<DynamicType = ()>,
{
    let mut listing = Vec::new();
    let steps = events.scan(false, move |ended, event| {
        if std::mem::replace(ended, matches!(&event, Err(error) if is_missing(error))) {
            return std::future::ready(None);
        }
        let seen = match event {
            Ok(watcher::Event::Init) => {
                listing.clear();
                None
            }
            Ok(watcher::Event::InitApply(object)) => {
                listing.push(object);
                None
            }
            Ok(watcher::Event::InitDone) => Some(Seen::All(std::mem::take(&mut listing))),
            Ok(watcher::Event::Apply(object)) => Some(Seen::One(object)),
            Ok(watcher::Event::Delete(object)) => Some(Seen::Gone(object)),
            Err(_) if *ended && kind == Kind::Foreign => {
                tracing::debug!(kind = %K::kind(&()), "this kind does not exist here");
                Some(Seen::All(Vec::new()))
            }
            Err(_) if *ended => {
                tracing::warn!(kind = %K::kind(&()), "its definition is not installed; `causeway crds` prints it");
                None
            }
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "a watch was interrupted");
                None
            }
        };
        std::future::ready(Some(seen))
    });
    steps.filter_map(std::future::ready)
}

fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// Turns what was seen into a change of a map; what has no value there counts as gone.
pub(super) fn change<K, Key: Ord, V>(
    seen: Seen<K>,
    key: impl Fn(&K) -> Key,
    value: impl Fn(&K) -> Option<V>,
) -> Change<Key, V> {
    match seen {
        Seen::All(objects) => Change::Reset(
            objects.iter().filter_map(|o| Some((key(o), value(o)?))).collect::<BTreeMap<_, _>>(),
        ),
        Seen::One(object) => match value(&object) {
            Some(value) => Change::Put(key(&object), value),
            None => Change::Gone(key(&object)),
        },
        Seen::Gone(object) => Change::Gone(key(&object)),
    }
}

/// The only object of a watch on one name.
pub(super) fn the_one<K>(seen: Seen<DeserializeGuard<K>>) -> Option<K> {
    match seen {
        Seen::All(objects) => objects.into_iter().next().and_then(|object| object.0.ok()),
        Seen::One(object) => object.0.ok(),
        Seen::Gone(_) => None,
    }
}

pub(super) fn object_key<K: Resource>(object: &DeserializeGuard<K>) -> ObjectKey
where
    DeserializeGuard<K>: Resource,
{
    parse::key(object.meta())
}

/// Starts a stream over every so often; each start lists everything anew.
pub(super) fn resynced<S: Stream + Send + 'static>(
    every: Duration,
    start: impl Fn() -> S + Send + 'static,
) -> impl Stream<Item = S::Item> + Send {
    let rounds = futures::stream::repeat_with(move || start().take_until(tokio::time::sleep(every)));
    rounds.flatten()
}

/// A stream that starts over, with a list, whenever a value changes; it waits for the first one.
pub(super) fn per_value<T, S>(
    values: channel::Receiver<Option<T>>,
    start: impl Fn(T) -> S + Send + 'static,
) -> impl Stream<Item = S::Item> + Send
where
    T: Clone + Send + Sync + 'static,
    S: Stream + Send + 'static,
{
    let rounds = futures::stream::unfold(values, async |mut values| {
        let value = values.wait_for(Option::is_some).await.ok()?.clone()?;
        let mut next = values.clone();
        let until = async move { drop(next.changed().await) };
        Some(((value, until), values))
    });
    rounds.map(move |(value, until)| start(value).take_until(until)).flatten()
}
