//! One round of a follower: a list if one is due, then a watch until it ends.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::compact::{self, Failure};
use super::protobuf::Reader;
use super::{Convert, Decode, STALLED, Seen, Watch};
use crate::found::Found;
use crate::pace::Pace;

/// A watch is closed by the server after about this long; one that is silent for longer is dead.
const WATCH: Duration = Duration::from_secs(290);
/// A server that sends bookmarks does so about once a minute: a watch without one for so long is dead, though the
/// machine at its other end may acknowledge what it is sent.
const BOOKMARKED: Duration = Duration::from_secs(150);
/// After so many lists of a form in a row that were never complete another form is asked for.
const CUT_LISTS: u32 = 2;
/// Says in a bookmark that a streaming list is complete.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// How a round ended without an error.
pub(super) enum Round {
    /// As it should: the next one follows at once.
    Again,
    /// The server closed it early.
    Ended,
    /// It was closed or fell silent before the list was complete.
    Cut(&'static str),
}

pub(super) struct Follower<K: Resource, C> {
    pub(super) watch: Watch<K>,
    convert: C,
    /// The newest that was seen: where the next watch begins.
    version: Option<String>,
    /// Whether a list comes first.
    due: bool,
    /// Whether the server may have streaming lists.
    streaming: bool,
    /// How many lists of one form in a row were never complete.
    cut: u32,
    /// When everything was last listed.
    pub(super) listed: Option<Instant>,
    /// Whether the present round has come as far as a watch.
    pub(super) watches: bool,
}

impl<K, C> Follower<K, C>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    C: Convert<K>,
{
    pub(super) fn new(watch: Watch<K>, convert: C) -> Self {
        Self {
            watch,
            convert,
            version: None,
            due: true,
            streaming: true,
            cut: 0,
            listed: None,
            watches: false,
        }
    }

    /// What was seen has gone with its kind: versions may begin anew.
    pub(super) fn forget(&mut self) {
        (self.version, self.due) = (None, true);
    }

    fn is_one_of_many(&self) -> bool {
        !self.watch.spread.later.is_zero()
    }

    /// A list if one is due, then a watch until it ends.
    pub(super) async fn round(
        &mut self,
        tell: &mut impl FnMut(Seen<C::Key, C::Value>),
        pace: &mut Pace,
    ) -> kube::Result<Round> {
        self.watches = false;
        if self.due
            && let Some(decode) = self.watch.compact
            && let Some(cut) = self.try_compact(decode, tell).await?
        {
            return Ok(cut);
        }
        if self.due && !self.streaming {
            self.list(tell).await?;
        }
        let streams = self.due;
        let limit = WATCH.mul_f64(pace.chance().mul_add(0.2, 0.8));
        let mut params = self.watch.params.clone().timeout(u32::try_from(limit.as_secs()).unwrap_or(290));
        params.send_initial_events = streams;
        let from = self.version.clone().filter(|_| !streams).unwrap_or_default();
        match self.watch.api.watch(&params, &from).await {
            Ok(events) => {
                self.watches = !streams;
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
                self.due = true;
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
                    self.due = true;
                    return Ok(Round::Again);
                }
            };
            let Ok(event) = event else {
                if resync.is_some_and(|due| Instant::now() >= due) {
                    self.due = true;
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
                        self.has_listed(objects, version, tell);
                    } else if list.is_none() {
                        self.version = Some(version);
                    }
                }
                Some(Ok(WatchEvent::Error(status))) => {
                    // The history from here on is gone, or so old that the server no longer has it.
                    if status.code == 410 {
                        self.due = true;
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

    /// A compact list, if the server has one; else another one is still due. Returns how the round ends, if it does.
    async fn try_compact(
        &mut self,
        decode: Decode<K>,
        tell: &mut impl FnMut(Seen<C::Key, C::Value>),
    ) -> kube::Result<Option<Round>> {
        let of = &self.watch.kind;
        let (kind, api_version) = (K::kind(of).into_owned(), K::api_version(of).into_owned());
        let request = compact::request(self.watch.api.resource_url(), &self.watch.params)?;
        let client = self.watch.api.clone().into_client();
        let (mut objects, convert) = (BTreeMap::new(), &self.convert);
        let mut take_in = |bytes: &[u8]| {
            if let (key, Some(value)) = convert.convert(&Found(Ok(decode(bytes)?))) {
                objects.insert(key, value);
            }
            Ok(())
        };
        let read = compact::read(&client, request, Reader::new(&api_version, &kind), &mut take_in).await;
        match read {
            Ok(version) => {
                tracing::debug!(%kind, objects = objects.len(), version, "a compact list");
                self.cut = 0;
                self.has_listed(objects, version, tell);
            }
            Err(Failure::Absent(why)) => {
                tracing::debug!(%kind, why, "no compact lists here");
                self.watch.compact = None;
            }
            Err(Failure::Unreadable(why)) => {
                tracing::warn!(%kind, %why, "a compact list makes no sense; listing without");
                self.watch.compact = None;
            }
            Err(Failure::NotNow(why)) => tracing::debug!(%kind, why, "no compact list this time"),
            Err(Failure::Cut(why)) => {
                self.cut += 1;
                if self.cut >= CUT_LISTS {
                    tracing::warn!(%kind, "compact lists do not end here; listing without");
                    (self.watch.compact, self.cut) = (None, 0);
                }
                return Ok(Some(Round::Cut(why)));
            }
            Err(Failure::Error(error)) => return Err(error),
        }
        Ok(None)
    }

    /// All there is was seen, and a watch can go on from there.
    fn has_listed(
        &mut self,
        objects: BTreeMap<C::Key, C::Value>,
        version: String,
        tell: &mut impl FnMut(Seen<C::Key, C::Value>),
    ) {
        (self.version, self.due) = (Some(version.clone()), false);
        self.listed = Some(Instant::now());
        tell(Seen::All { objects, version });
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
                self.has_listed(objects, version, tell);
                return Ok(());
            }
        }
    }
}
