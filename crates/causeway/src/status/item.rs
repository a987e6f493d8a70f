//! What is said of every object alike, whatever it is.

use causeway_core::{Condition, Truth};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

/// The beginning of every entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Item {
    /// The context of its cluster; in a pod there is none.
    pub(super) cluster: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Whether all is well with it; nothing where nobody knows.
    pub(super) ready: Option<bool>,
    /// Why, in CamelCase, where there is a word for it.
    pub(super) reason: Option<String>,
    /// In a sentence.
    pub(super) message: Option<String>,
    /// Since when it is as ready as it is.
    pub(super) since: Option<Timestamp>,
}

/// What is said of an object that no controller has said anything of.
const UNSEEN: &str = "not looked at yet: is a controller running?";

impl Item {
    pub(super) fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace(), name: object.name_any(), ..Self::default() }
    }

    /// As its condition says. Of one that is being deleted, what holds it says more than that it is.
    pub(super) fn says(mut self, ready: Option<&Condition>, blocked: Option<&Condition>) -> Self {
        let Some(ready) = ready else {
            (self.ready, self.message) = (Some(false), Some(UNSEEN.into()));
            return self;
        };
        self.ready = known(ready);
        self.since = ready.since.and_then(|since| Timestamp::from_second(since).ok());
        self.why(blocked.filter(|blocked| blocked.is_true()).unwrap_or(ready))
    }

    /// With a condition's words.
    pub(super) fn why(mut self, condition: &Condition) -> Self {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        (self.reason, self.message) = (text(&condition.reason), text(&condition.message));
        self
    }

    /// Its name with its namespace.
    pub(super) fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// `yes`, `no`, or that nobody knows.
    pub(super) fn readiness(&self) -> &'static str {
        word(self.ready)
    }

    /// Reason and sentence.
    pub(super) fn reasons(&self) -> String {
        let parts = [&self.reason, &self.message];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(": ")
    }
}

/// Whether a condition holds, as far as that is known.
pub(super) fn known(condition: &Condition) -> Option<bool> {
    match condition.status {
        Truth::True => Some(true),
        Truth::False => Some(false),
        Truth::Unknown => None,
    }
}

pub(super) fn word(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}
