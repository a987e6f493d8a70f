//! What is kept of a rule: its message, or why it has none, and to whom a change of it is news.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message as _;

use super::Kind;
use super::convert::{message, type_url_of};
use super::object::{RuleObject, RuleStatus};
use super::rule::Refusal;
use super::wire::transport::v1::DataWithVersion;
use crate::ObjectKey;

/// What is kept of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The object's uid.
    pub uid: String,
    /// The object's version.
    pub resource_version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Whose rule it is.
    pub app: Option<Arc<str>>,
    /// Why it cannot be sent as it is.
    pub refusal: Option<Refusal>,
    /// What was said of it.
    pub status: RuleStatus,
    /// What is sent of it: its message, or the last good one while there is a refusal.
    pub(super) message: Option<Arc<[u8]>>,
}

impl Kept {
    pub(super) fn new(kind: Kind, object: RuleObject, before: Option<&Self>) -> Self {
        // Of an object that is gone nothing stays, though another one has its name.
        let before = before.filter(|before| before.uid == object.uid);
        let app = object.app().map(Arc::from);
        let converted =
            object.rule.and_then(|rule| message(object.key.namespace(), object.key.name(), &rule));
        let (message, refusal) = match converted {
            Ok(any) => {
                let data = DataWithVersion { data: vec![any], version: 0 };
                (Some(data.encode_to_vec().into()), None)
            }
            Err(refusal) => {
                let known = before.and_then(|before| before.message.clone());
                (known.or_else(|| last_sent(kind, &object.status)), Some(refusal))
            }
        };
        Self {
            uid: object.uid,
            resource_version: object.resource_version,
            generation: object.generation,
            labels: object.labels,
            app,
            refusal,
            status: object.status,
            message,
        }
    }

    /// What is still sent of it though it makes no sense.
    pub(super) fn last_good(&self) -> Option<Arc<[u8]>> {
        self.message.clone().filter(|_| self.refusal.is_some())
    }

    /// Whether data planes get it, in its present or its last good form.
    pub fn is_sent(&self) -> bool {
        self.message.is_some() && self.app.is_some()
    }

    /// What it is in the sets of its app, if it is sent. A last good form is another part than the same while it makes
    /// sense: other replicas may not have it.
    pub(super) fn part(&self) -> Option<Part<'_>> {
        let (app, message) = (self.app.as_ref()?, self.message.as_ref()?);
        Some(Part { app, labels: &self.labels, message, is_old: self.refusal.is_some() })
    }
}

/// The last good form of a rule, where somebody who knew it has written it down.
fn last_sent(kind: Kind, status: &RuleStatus) -> Option<Arc<[u8]>> {
    // A status can be written by others: only one rule of this kind is one.
    let data = DataWithVersion::decode(&**status.last_sent.as_ref()?).ok()?;
    let [any] = &data.data[..] else { return None };
    let is_one = any.type_url == type_url_of(kind) && data.version == 0;
    is_one.then(|| data.encode_to_vec().into())
}

/// A rule's part in sets.
#[derive(PartialEq)]
pub(super) struct Part<'a> {
    pub(super) app: &'a Arc<str>,
    labels: &'a BTreeMap<String, String>,
    message: &'a [u8],
    is_old: bool,
}

/// A rule before and after an event.
pub(super) type Difference = (ObjectKey, Option<Arc<Kept>>, Option<Arc<Kept>>);

/// Whether an event makes sets other ones.
pub(super) fn is_news_to_data_planes((_, old, new): &Difference) -> bool {
    old.as_ref().and_then(|old| old.part()) != new.as_ref().and_then(|new| new.part())
}

/// Whether a replica may have another share of a rule to report, or none any more.
pub(super) fn is_news_to_replicas((_, old, new): &Difference) -> bool {
    match (old, new) {
        (_, None) => true,
        (None, Some(new)) => !new.status.replicas.is_empty(),
        (Some(old), Some(new)) => {
            (&old.app, old.generation, &old.status.replicas)
                != (&new.app, new.generation, &new.status.replicas)
        }
    }
}
