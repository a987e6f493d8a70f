//! Following the objects of one kind: a list, then what changes, for ever.
//!
//! Each list replaces what was known, so what happened while nobody watched is seen too. Objects are converted as
//! they arrive, from a [`compact`] list where that is asked for, else from a streaming list, else page by page, as the
//! server has them: never is a whole list of full objects held. A kind whose definition is missing, one that may not be
//! read and one without objects are three different things to see.

mod compact;
mod protobuf;
mod round;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use causeway_core::room::Change;
use kube::api::WatchParams;
use kube::{Api, Client, Resource};
use prost::DecodeError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::found::Found;
use crate::pace::Pace;
use crate::words::describe;

pub use compact::Decode;
use round::{Follower, Round};

/// Objects of a page, where lists come in pages.
const PAGE: u32 = 500;
/// A list that says nothing for this long while it arrives is given up.
const STALLED: Duration = Duration::from_secs(30);
/// An API server that is starting forbids everything for a second or two.
const FORBIDDEN_FOR: Duration = Duration::from_secs(5);

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
pub struct Watch<K> {
    target: Target,
    compact: Option<Decode<K>>,
}

/// The same, whatever their kind is.
struct Target {
    client: Client,
    /// Where they are.
    path: String,
    kind: String,
    api_version: String,
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
        let target = Target {
            path: api.resource_url().to_owned(),
            kind: K::kind(&kind).into_owned(),
            api_version: K::api_version(&kind).into_owned(),
            client: api.into_client(),
            params: WatchParams::default(),
            page: PAGE,
            spread: Spread::default(),
            resync: None,
            anew: None,
        };
        Self { target, compact: None }
    }

    /// Only those with a label.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.target.params = self.target.params.labels(selector);
        self
    }

    /// Only the one with this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.target.params = self.target.params.fields(&format!("metadata.name={name}"));
        self
    }

    /// Lists in pages of so many, where lists come in pages: those of a page are all held for a moment.
    #[must_use]
    pub fn pages_of(mut self, objects: u32) -> Self {
        self.target.page = objects;
        self
    }

    /// Lists in the protobuf form, where the server has it. Such a list may be behind what the server's store holds, never
    /// behind what was seen here before; the watch after it brings the rest.
    #[must_use]
    pub fn compact(mut self, decode: Decode<K>) -> Self {
        self.compact = Some(decode);
        self
    }

    /// Comes at a moment of its own, so that many who start or return together do not arrive together.
    #[must_use]
    pub fn spread(mut self, spread: Spread) -> Self {
        self.target.spread = spread;
        self
    }

    /// Lists everything anew whenever it is asked to.
    #[must_use]
    pub fn anew(mut self, asked: Arc<Notify>) -> Self {
        self.target.anew = Some(asked);
        self
    }

    /// Lists everything anew every so often.
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        self.target.resync = Some(every);
        self
    }
}

/// What to make of an object.
pub trait Convert<K>: Send {
    /// What it is known by.
    type Key: Ord + Send;
    /// What is kept of it.
    type Value: Send;

    /// Its key, and its value unless it counts as absent.
    fn convert(&self, object: &Found<K>) -> (Self::Key, Option<Self::Value>);
}

impl<K, Key: Ord + Send, V: Send, F: Fn(&Found<K>) -> (Key, Option<V>) + Send> Convert<K> for F {
    type Key = Key;
    type Value = V;

    fn convert(&self, object: &Found<K>) -> (Key, Option<V>) {
        self(object)
    }
}

/// What an interruption is about, for readiness and logs.
#[derive(Debug)]
pub struct Interruption(pub String);

impl<K: DeserializeOwned + Resource> Watch<K> {
    /// Follows for ever. `tell` gets what is seen, or why nothing is seen at the moment.
    pub async fn follow<C: Convert<K>>(
        self,
        pace: Pace,
        convert: C,
        tell: impl FnMut(Result<Seen<C::Key, C::Value>, Interruption>) + Send,
    ) -> Infallible {
        let mut inbox = Typed { convert, tell, list: BTreeMap::new(), compact: self.compact };
        follow(self.target, pace, &mut inbox).await
    }
}

/// Where objects go. All that depends on their kind is behind this, so that what leads there, which is long, is the same code
/// for every kind.
trait Inbox: Send {
    /// A list begins; one that was not complete is forgotten.
    fn begin(&mut self);
    /// An object of a list.
    fn list(&mut self, object: &Value);
    /// One that is gone before the list was complete.
    fn unlist(&mut self, object: &Value);
    /// The list is complete.
    fn end(&mut self, version: String);
    /// An object, added or changed.
    fn put(&mut self, object: &Value, version: String);
    /// One that is gone.
    fn gone(&mut self, object: &Value, version: String);
    /// Whether objects can be read from a compact list.
    fn has_compact(&self) -> bool;
    /// An object of a compact list.
    fn list_compact(&mut self, object: &[u8]) -> Result<(), DecodeError>;
    /// The kind cannot be seen.
    fn absent(&mut self, verdict: Verdict);
    /// Nothing is seen at the moment.
    fn interrupted(&mut self, why: String);
}

struct Typed<K, C: Convert<K>, T> {
    convert: C,
    tell: T,
    /// A list that is not complete.
    list: BTreeMap<C::Key, C::Value>,
    compact: Option<Decode<K>>,
}

impl<K, C, T> Typed<K, C, T>
where
    K: DeserializeOwned + Resource,
    C: Convert<K>,
{
    fn add(&mut self, object: &Found<K>) {
        if let (key, Some(value)) = self.convert.convert(object) {
            self.list.insert(key, value);
        }
    }

    fn read(object: &Value) -> Option<Found<K>> {
        Found::read(object).inspect_err(|why| tracing::warn!(why, "what came is no object")).ok()
    }
}

impl<K, C, T> Inbox for Typed<K, C, T>
where
    K: DeserializeOwned + Resource,
    C: Convert<K>,
    T: FnMut(Result<Seen<C::Key, C::Value>, Interruption>) + Send,
{
    fn begin(&mut self) {
        self.list.clear();
    }

    fn list(&mut self, object: &Value) {
        Self::read(object).iter().for_each(|object| self.add(object));
    }

    fn unlist(&mut self, object: &Value) {
        if let Some(object) = Self::read(object) {
            self.list.remove(&self.convert.convert(&object).0);
        }
    }

    fn end(&mut self, version: String) {
        let objects = std::mem::take(&mut self.list);
        (self.tell)(Ok(Seen::All { objects, version }));
    }

    fn put(&mut self, object: &Value, version: String) {
        let Some(object) = Self::read(object) else { return };
        (self.tell)(Ok(match self.convert.convert(&object) {
            (key, Some(value)) => Seen::Put(key, value, version),
            (key, None) => Seen::Gone(key, version),
        }));
    }

    fn gone(&mut self, object: &Value, version: String) {
        let Some(object) = Self::read(object) else { return };
        (self.tell)(Ok(Seen::Gone(self.convert.convert(&object).0, version)));
    }

    fn has_compact(&self) -> bool {
        self.compact.is_some()
    }

    fn list_compact(&mut self, object: &[u8]) -> Result<(), DecodeError> {
        if let Some(decode) = self.compact {
            self.add(&Found(Ok(decode(object)?)));
        }
        Ok(())
    }

    fn absent(&mut self, verdict: Verdict) {
        (self.tell)(Ok(match verdict {
            Verdict::Missing => Seen::Missing,
            Verdict::Forbidden(why) => Seen::Forbidden(why),
        }));
    }

    fn interrupted(&mut self, why: String) {
        (self.tell)(Err(Interruption(why)));
    }
}

async fn follow(target: Target, mut pace: Pace, inbox: &mut dyn Inbox) -> Infallible {
    let mut follower = Follower::new(target, inbox.has_compact());
    let mut absence = Absence::default();
    let Spread { first, later } = follower.target.spread;
    if !first.is_zero() {
        sleep(first.mul_f64(pace.chance())).await;
    }
    // The last thing that was reported, until all is well again.
    let mut reported = None;
    loop {
        let opened = Instant::now();
        let seen_before = follower.listed;
        let end = follower.round(inbox, &mut pace).await;
        // A list that takes long and fails is as good a reason for a pause as one that fails at once.
        if follower.listed != seen_before || follower.watches && opened.elapsed() > Pace::MAX {
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
                    follower.forget();
                }
                (absence.judge(&error), describe(&error))
            }
        };
        let (kind, news) = (&follower.target.kind, verdict.is_some() || reported.as_ref() != Some(&why));
        if let Some(verdict) = verdict {
            inbox.absent(verdict);
        }
        // The same every half minute would fill the log with what is known.
        if news {
            tracing::warn!(%kind, why, "a watch was interrupted");
        } else {
            tracing::debug!(%kind, why, "a watch was interrupted again");
        }
        reported = Some(why.clone());
        inbox.interrupted(why);
        sleep(pace.pause() + later.mul_f64(pace.chance())).await;
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
