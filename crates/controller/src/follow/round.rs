//! One round of a follower: a list if one is due, then a watch until it ends.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{ObjectList, Request};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::compact::{self, Failure};
use super::protobuf::Reader;
use super::{Inbox, STALLED, Target};
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

pub(super) struct Follower {
    pub(super) target: Target,
    /// Whether the server may have compact lists.
    compact: bool,
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

impl Follower {
    pub(super) fn new(target: Target, compact: bool) -> Self {
        Self {
            target,
            compact,
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
        !self.target.spread.later.is_zero()
    }

    /// A list if one is due, then a watch until it ends.
    pub(super) async fn round(&mut self, inbox: &mut dyn Inbox, pace: &mut Pace) -> kube::Result<Round> {
        self.watches = false;
        if self.due
            && self.compact
            && let Some(cut) = self.try_compact(inbox).await?
        {
            return Ok(cut);
        }
        if self.due && !self.streaming {
            self.list(inbox).await?;
        }
        let streams = self.due;
        let limit = WATCH.mul_f64(pace.chance().mul_add(0.2, 0.8));
        let mut params = self.target.params.clone().timeout(u32::try_from(limit.as_secs()).unwrap_or(290));
        params.send_initial_events = streams;
        let from = self.version.clone().filter(|_| !streams).unwrap_or_default();
        let request = Request::new(&self.target.path).watch(&params, &from);
        let request = request.map_err(kube::Error::BuildRequest)?;
        match self.target.client.request_events(request).await {
            Ok(events) => {
                self.watches = !streams;
                let before = self.listed;
                let end = self.take_in(events, streams, limit, inbox).await;
                self.cut = if streams && self.listed == before { self.cut + 1 } else { 0 };
                if self.cut >= CUT_LISTS {
                    tracing::warn!(
                        kind = self.target.kind,
                        "streaming lists do not end here; listing in pages"
                    );
                    self.streaming = false;
                }
                end
            }
            Err(kube::Error::Api(status)) if streams && matches!(status.code, 400 | 422) => {
                tracing::debug!(kind = self.target.kind, "no streaming lists here; listing in pages");
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
        events: impl Stream<Item = kube::Result<WatchEvent<Value>>>,
        streams: bool,
        limit: Duration,
        inbox: &mut dyn Inbox,
    ) -> kube::Result<Round> {
        let mut events = std::pin::pin!(events);
        let opened = Instant::now();
        let mut lists = streams;
        if lists {
            inbox.begin();
        }
        let mut bookmarked = false;
        loop {
            let due = self.target.resync.zip(self.listed).map(|(every, listed)| listed + every);
            let resync = due.filter(|_| !lists);
            let ends = opened + limit + STALLED;
            let silent = match (lists, bookmarked) {
                (true, _) => Instant::now() + STALLED,
                (false, true) => ends.min(Instant::now() + BOOKMARKED),
                (false, false) => ends,
            };
            let anew = self.target.anew.clone().filter(|_| !lists);
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
                return Ok(if lists { Round::Cut("the list stalled") } else { Round::Ended });
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    let version = self.advance(&object, lists);
                    if lists { inbox.list(&object) } else { inbox.put(&object, version) }
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    let version = self.advance(&object, lists);
                    if lists { inbox.unlist(&object) } else { inbox.gone(&object, version) }
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    let version = mark.metadata.resource_version;
                    bookmarked |= !lists;
                    if lists && mark.metadata.annotations.contains_key(END_OF_LIST) {
                        lists = false;
                        self.has_listed(version, inbox);
                    } else if !lists {
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
                None if lists => return Ok(Round::Cut("the list ended in the middle")),
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
    async fn try_compact(&mut self, inbox: &mut dyn Inbox) -> kube::Result<Option<Round>> {
        let Target { client, path, kind, api_version, params, .. } = &self.target;
        let request = compact::request(path, params)?;
        inbox.begin();
        let mut objects = 0_usize;
        let mut take_in = |bytes: &[u8]| {
            objects += 1;
            inbox.list_compact(bytes)
        };
        let read = compact::read(client, request, Reader::new(api_version, kind), &mut take_in).await;
        let kind = kind.clone();
        match read {
            Ok(version) => {
                tracing::debug!(%kind, objects, version, "a compact list");
                self.cut = 0;
                self.has_listed(version, inbox);
            }
            Err(Failure::Absent(why)) => {
                tracing::debug!(%kind, why, "no compact lists here");
                self.compact = false;
            }
            Err(Failure::Unreadable(why)) => {
                tracing::warn!(%kind, %why, "a compact list makes no sense; listing without");
                self.compact = false;
            }
            Err(Failure::NotNow(why)) => tracing::debug!(%kind, why, "no compact list this time"),
            Err(Failure::Cut(why)) => {
                self.cut += 1;
                if self.cut >= CUT_LISTS {
                    tracing::warn!(%kind, "compact lists do not end here; listing without");
                    (self.compact, self.cut) = (false, 0);
                }
                return Ok(Some(Round::Cut(why)));
            }
            Err(Failure::Error(error)) => return Err(error),
        }
        Ok(None)
    }

    /// All there is was seen, and a watch can go on from there.
    fn has_listed(&mut self, version: String, inbox: &mut dyn Inbox) {
        (self.version, self.due) = (Some(version.clone()), false);
        self.listed = Some(Instant::now());
        inbox.end(version);
    }

    /// Goes on from an object's version, which is returned; in a list they come in no order.
    fn advance(&mut self, object: &Value, listing: bool) -> String {
        let version = object["metadata"]["resourceVersion"].as_str();
        if !listing && version.is_some() {
            self.version = version.map(Into::into);
        }
        version.unwrap_or_default().to_owned()
    }

    async fn list(&mut self, inbox: &mut dyn Inbox) -> kube::Result<()> {
        let WatchParams { label_selector, field_selector, .. } = self.target.params.clone();
        let mut params = ListParams {
            label_selector,
            field_selector,
            limit: Some(self.target.page),
            ..ListParams::default()
        };
        inbox.begin();
        loop {
            let request = Request::new(&self.target.path).list(&params).map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<Value> = self.target.client.request(request).await?;
            page.items.iter().for_each(|object| inbox.list(object));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                self.has_listed(page.metadata.resource_version.unwrap_or_default(), inbox);
                return Ok(());
            }
        }
    }
}
