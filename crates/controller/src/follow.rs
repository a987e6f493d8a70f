//! Following the objects of one kind: a list, then what changes, for ever.
//!
//! Each list replaces what was known, so what happened while nobody watched is seen too. Objects are converted as
//! they arrive, from a streaming list where the server has them, else page by page: never is a whole list of
//! full objects held. A kind whose definition is missing, one that may not be read and one without objects are
//! three different things to see.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use causeway_core::room::Change;
use futures::{Stream, StreamExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::found::Found;
use crate::pace::Pace;

/// Objects of a page, where lists come in pages.
const PAGE: u32 = 500;
/// A watch is closed by the server after about this long; one that is silent for longer is dead.
const WATCH: Duration = Duration::from_secs(290);
/// A server that sends bookmarks does so about once a minute: a watch without one for so long is dead, though the
/// machine at its other end may acknowledge what it is sent.
const BOOKMARKED: Duration = Duration::from_secs(150);
/// A streaming list that says nothing for this long is given up.
const STALLED: Duration = Duration::from_secs(30);
/// After so many streaming lists in a row that were never complete pages are listed.
const CUT_LISTS: u32 = 2;
/// An API server that is starting forbids everything for a second or two.
const FORBIDDEN_FOR: Duration = Duration::from_secs(5);
/// Says in a bookmark that a streaming list is complete.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// What was seen of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<K, V> {
    /// Everything there is.
    All {
        /// The objects.
        objects: BTreeMap<K, V>,
        /// The resourceVersion of the list.
        version: String,
    },
    /// One object, added or changed, and the resourceVersion of that.
    Put(K, V, String),
    /// One object that is gone, and the resourceVersion of its end.
    Gone(K, String),
    /// The kind's definition is not installed.
    Missing,
    /// The kind may not be read, for some seconds now.
    Forbidden(String),
}

impl<K, V> Seen<K, V> {
    /// The change of a set and its version; none where the set cannot be seen, so that what is known stays.
    pub fn change(self) -> Option<(Change<K, V>, String)> {
        match self {
            Self::All { objects, version } => Some((Change::Reset(objects), version)),
            Self::Put(key, value, version) => Some((Change::Put(key, value), version)),
            Self::Gone(key, version) => Some((Change::Gone(key), version)),
            Self::Missing | Self::Forbidden(_) => None,
        }
    }
}

/// Which objects to follow.
pub struct Watch<K: Resource> {
    kind: K::DynamicType,
    api: Api<Found<K>>,
    params: WatchParams,
    page: u32,
    spread: Spread,
    resync: Option<Duration>,
    anew: Option<Arc<Notify>>,
}

/// Over which times those who watch the same spread, where there are many of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread {
    /// Their first lists.
    pub first: Duration,
    /// Their return after an interruption, which is the same one for all.
    pub later: Duration,
}

impl<K: Resource<DynamicType = ()>> Watch<K> {
    /// All that an API gives.
    pub fn new(api: Api<Found<K>>) -> Self {
        Self::of((), api)
    }
}

impl<K: Resource> Watch<K> {
    /// All that an API of a kind gives, where the type is that of many kinds.
    pub fn of(kind: K::DynamicType, api: Api<Found<K>>) -> Self {
        let (params, spread) = (WatchParams::default(), Spread::default());
        Self { kind, api, params, page: PAGE, spread, resync: None, anew: None }
    }

    /// Only those with a label.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.params = self.params.labels(selector);
        self
    }

    /// Only the one with this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.params = self.params.fields(&format!("metadata.name={name}"));
        self
    }

    /// Lists in pages of so many, where lists come in pages: those of a page are all held for a moment.
    #[must_use]
    pub fn pages_of(mut self, objects: u32) -> Self {
        self.page = objects;
        self
    }

    /// Comes at a moment of its own, so that many who start or return together do not arrive together.
    #[must_use]
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }

    /// Lists everything anew whenever it is asked to.
    #[must_use]
    pub fn anew(mut self, asked: Arc<Notify>) -> Self {
        self.anew = Some(asked);
        self
    }

    /// Lists everything anew every so often.
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }
}

/// What to make of an object.
pub trait Convert<K> {
    /// What it is known by.
    type Key: Ord;
    /// What is kept of it.
    type Value;

    /// Its key, and its value unless it counts as absent.
    fn convert(&self, object: &Found<K>) -> (Self::Key, Option<Self::Value>);
}

impl<K, Key: Ord, V, F: Fn(&Found<K>) -> (Key, Option<V>)> Convert<K> for F {
    type Key = Key;
    type Value = V;

    fn convert(&self, object: &Found<K>) -> (Key, Option<V>) {
        self(object)
    }
}

/// What an interruption is about, for readiness and logs.
#[derive(Debug)]
pub struct Interruption(pub String);

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Follows for ever. `tell` gets what is seen, or why nothing is seen at the moment.
    pub async fn follow<C: Convert<K>>(
        self,
        mut pace: Pace,
        convert: C,
        mut tell: impl FnMut(Result<Seen<C::Key, C::Value>, Interruption>),
    ) -> Infallible {
        let mut follower =
            Follower { watch: self, convert, version: None, streaming: true, cut: 0, listed: None };
        let mut absence = Absence::default();
        let Spread { first, later } = follower.watch.spread;
        if !first.is_zero() {
            sleep(first.mul_f64(pace.chance())).await;
        }
        // The last thing that was reported, until all is well again.
        let mut reported = None;
        loop {
            let opened = Instant::now();
            let seen_before = follower.listed;
            let end = follower.round(&mut |seen| tell(Ok(seen)), &mut pace).await;
            if follower.listed != seen_before || opened.elapsed() > Pace::MAX {
                pace.reset();
                absence = Absence::default();
                reported = None;
            }
            let (verdict, why) = match end {
                Ok(Round::Again) => continue,
                Ok(Round::Ended) => {
                    sleep(pace.pause() + later.mul_f64(pace.chance())).await;
                    continue;
                }
                Ok(Round::Cut(why)) => (None, why.to_owned()),
                Err(error) => {
                    if matches!(&error, kube::Error::Api(status) if status.code == 404) {
                        // The kind's objects went with its definition: when that is back, they are listed anew.
                        follower.version = None;
                    }
                    (absence.judge(&error), describe(&error))
                }
            };
            let (kind, news) =
                (K::kind(&follower.watch.kind), verdict.is_some() || reported.as_ref() != Some(&why));
            match verdict {
                Some(Verdict::Missing) => tell(Ok(Seen::Missing)),
                Some(Verdict::Forbidden(why)) => tell(Ok(Seen::Forbidden(why))),
                None => {}
            }
            // The same every half minute would fill the log with what is known.
            if news {
                tracing::warn!(%kind, why, "a watch was interrupted");
            } else {
                tracing::debug!(%kind, why, "a watch was interrupted again");
            }
            reported = Some(why.clone());
            tell(Err(Interruption(why)));
            sleep(pace.pause() + later.mul_f64(pace.chance())).await;
        }
    }
}

/// An error in one line for a person: of a server's answer its message.
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server answered {}", status.code),
        other => {
            let mut text = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(inner) = cause {
                let inner_text = inner.to_string();
                if !text.contains(&inner_text) {
                    text = format!("{text}: {inner_text}");
                }
                cause = inner.source();
            }
            text
        }
    }
}

enum Verdict {
    Missing,
    Forbidden(String),
}

/// Whether a kind is missing or forbidden, said once until it was listed again.
#[derive(Default)]
struct Absence {
    missing: bool,
    forbidden_since: Option<Instant>,
    said: bool,
}

impl Absence {
    fn judge(&mut self, error: &kube::Error) -> Option<Verdict> {
        let kube::Error::Api(status) = error else { return None };
        match status.code {
            404 if !std::mem::replace(&mut self.missing, true) => Some(Verdict::Missing),
            403 => {
                let since = *self.forbidden_since.get_or_insert_with(Instant::now);
                let long = since.elapsed() >= FORBIDDEN_FOR;
                let news = long && !std::mem::replace(&mut self.said, true);
                news.then(|| Verdict::Forbidden(status.message.clone()))
            }
            _ => None,
        }
    }
}

/// How a round ended without an error.
enum Round {
    /// As it should: the next one follows at once.
    Again,
    /// The server closed it early.
    Ended,
    /// It was closed or fell silent before the list was complete.
    Cut(&'static str),
}

struct Follower<K: Resource, C> {
    watch: Watch<K>,
    convert: C,
    /// Where the next watch begins; none: a list comes first.
    version: Option<String>,
    /// Whether the server may have streaming lists.
    streaming: bool,
    /// How many streaming lists in a row were never complete.
    cut: u32,
    /// When everything was last listed.
    listed: Option<Instant>,
}

impl<K, C> Follower<K, C>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    C: Convert<K>,
{
    fn is_one_of_many(&self) -> bool {
        !self.watch.spread.later.is_zero()
    }

    /// A list if one is due, then a watch until it ends.
    async fn round(
        &mut self,
        tell: &mut impl FnMut(Seen<C::Key, C::Value>),
        pace: &mut Pace,
    ) -> kube::Result<Round> {
        if self.version.is_none() && !self.streaming {
            self.list(tell).await?;
        }
        let streams = self.version.is_none();
        let limit = WATCH.mul_f64(pace.chance().mul_add(0.2, 0.8));
        let mut params = self.watch.params.clone().timeout(u32::try_from(limit.as_secs()).unwrap_or(290));
        params.send_initial_events = streams;
        let from = self.version.clone().unwrap_or_default();
        match self.watch.api.watch(&params, &from).await {
            Ok(events) => {
                let before = self.listed;
                let end = self.take_in(events, streams, limit, tell).await;
                self.cut = if streams && self.listed == before { self.cut + 1 } else { 0 };
                if self.cut >= CUT_LISTS {
                    tracing::warn!(kind = %K::kind(&self.watch.kind), "streaming lists do not end here; listing in pages");
                    self.streaming = false;
                }
                end
            }
            Err(kube::Error::Api(status)) if streams && matches!(status.code, 400 | 422) => {
                tracing::debug!(kind = %K::kind(&self.watch.kind), "no streaming lists here; listing in pages");
                self.streaming = false;
                Ok(Round::Again)
            }
            Err(kube::Error::Api(status)) if status.code == 410 => {
                self.version = None;
                Ok(Round::Ended)
            }
            Err(error) => Err(error),
        }
    }

    async fn take_in(
        &mut self,
        events: impl Stream<Item = kube::Result<WatchEvent<Found<K>>>>,
        streams: bool,
        limit: Duration,
        tell: &mut impl FnMut(Seen<C::Key, C::Value>),
    ) -> kube::Result<Round> {
        let mut events = std::pin::pin!(events);
        let opened = Instant::now();
        let mut list = streams.then(BTreeMap::new);
        let mut bookmarked = false;
        loop {
            let due = self.watch.resync.zip(self.listed).map(|(every, listed)| listed + every);
            let resync = due.filter(|_| list.is_none());
            let ends = opened + limit + STALLED;
            let silent = match (&list, bookmarked) {
                (Some(_), _) => Instant::now() + STALLED,
                (None, true) => ends.min(Instant::now() + BOOKMARKED),
                (None, false) => ends,
            };
            let anew = self.watch.anew.clone().filter(|_| list.is_none());
            let asked = async {
                match anew {
                    Some(anew) => anew.notified().await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = timeout_at(resync.map_or(silent, |due| due.min(silent)), events.next()) => event,
                () = asked => {
                    self.version = None;
                    return Ok(Round::Again);
                }
            };
            let Ok(event) = event else {
                if resync.is_some_and(|due| Instant::now() >= due) {
                    self.version = None;
                    return Ok(Round::Again);
                }
                return Ok(if list.is_some() { Round::Cut("the list stalled") } else { Round::Ended });
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    let version = self.advance(&object, list.is_some());
                    match (self.convert.convert(&object), &mut list) {
                        ((key, Some(value)), Some(list)) => drop(list.insert(key, value)),
                        ((_, None), Some(_)) => {}
                        ((key, Some(value)), None) => tell(Seen::Put(key, value, version)),
                        ((key, None), None) => tell(Seen::Gone(key, version)),
                    }
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    let version = self.advance(&object, list.is_some());
                    let (key, _) = self.convert.convert(&object);
                    match &mut list {
                        Some(list) => drop(list.remove(&key)),
                        None => tell(Seen::Gone(key, version)),
                    }
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    let version = mark.metadata.resource_version;
                    bookmarked |= list.is_none();
                    if mark.metadata.annotations.contains_key(END_OF_LIST)
                        && let Some(objects) = list.take()
                    {
                        self.listed = Some(Instant::now());
                        tell(Seen::All { objects, version: version.clone() });
                    }
                    if list.is_none() {
                        self.version = Some(version);
                    }
                }
                Some(Ok(WatchEvent::Error(status))) => {
                    // The history from here on is gone, or so old that the server no longer has it.
                    if status.code == 410 {
                        self.version = None;
                        return Ok(Round::Ended);
                    }
                    return Err(kube::Error::Api(status));
                }
                Some(Err(error)) => return Err(error),
                None if list.is_some() => return Ok(Round::Cut("the list ended in the middle")),
                // Before its time a watch ends with all others: a server that goes ends them in good order.
                None if self.is_one_of_many() && opened.elapsed() < limit.mul_f64(0.9) => {
                    return Ok(Round::Ended);
                }
                None if opened.elapsed() > Pace::MIN * 5 => return Ok(Round::Again),
                None => return Ok(Round::Ended),
            }
        }
    }

    /// Goes on from an object's version, which is returned; in a list they come in no order.
    fn advance(&mut self, object: &Found<K>, listing: bool) -> String {
        let version = object.resource_version();
        if !listing && version.is_some() {
            self.version.clone_from(&version);
        }
        version.unwrap_or_default()
    }

    async fn list(&mut self, tell: &mut impl FnMut(Seen<C::Key, C::Value>)) -> kube::Result<()> {
        let WatchParams { label_selector, field_selector, .. } = self.watch.params.clone();
        let mut params = ListParams {
            label_selector,
            field_selector,
            limit: Some(self.watch.page),
            ..ListParams::default()
        };
        let mut objects = BTreeMap::new();
        loop {
            let page = self.watch.api.list(&params).await?;
            for object in &page.items {
                if let (key, Some(value)) = self.convert.convert(object) {
                    objects.insert(key, value);
                }
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                self.version = Some(version.clone());
                self.listed = Some(Instant::now());
                tell(Seen::All { objects, version });
                return Ok(());
            }
        }
    }
}
