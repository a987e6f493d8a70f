//! What is read of a rule's object.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rule::{Refusal, Rule};
use super::subscription::Answer;
use crate::{Conditions, ObjectKey};

/// The label that says whose rule it is.
pub const APP: &str = "app";

/// A rule's object.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleObject {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// What it says, or why that makes no sense.
    pub rule: Result<Rule, Refusal>,
    /// What was said of it.
    pub status: RuleStatus,
}

impl RuleObject {
    /// Whose rule it is; an empty label is none.
    pub fn app(&self) -> Option<&str> {
        self.labels.get(APP).map(String::as_str).filter(|app| !app.is_empty())
    }
}

/// How far a rule got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleStatus {
    /// What all replicas say together.
    pub total: Share,
    /// What each replica says, by its name.
    pub replicas: BTreeMap<String, Share>,
    /// The generation that this is about.
    pub observed_generation: Option<i64>,
    /// `Accepted`, `Distributed`, and those of others.
    pub conditions: Conditions,
    /// What is still sent of a rule that makes no sense any more: its last good form, for whoever comes later.
    pub last_sent: Option<Arc<[u8]>>,
}

/// How many data planes have taken a rule, as one replica knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// The generation of the rule that this is about; of a sum it says nothing.
    pub generation: i64,
    /// Those that run it.
    pub acked: u32,
    /// Those that refused it.
    pub failed: u32,
    /// Those that have not answered.
    pub pending: u32,
    /// The latest refusal.
    pub failure: Option<Failure>,
}

impl Share {
    /// Both together, with the later of two failures.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            generation: 0,
            acked: self.acked.saturating_add(other.acked),
            failed: self.failed.saturating_add(other.failed),
            pending: self.pending.saturating_add(other.pending),
            failure: match (self.failure, &other.failure) {
                (Some(known), Some(other)) if known.at >= other.at => Some(known),
                (known, other) => other.clone().or(known),
            },
        }
    }
}

impl Share {
    /// How many data planes it speaks of.
    pub fn planes(&self) -> u32 {
        self.acked.saturating_add(self.failed).saturating_add(self.pending)
    }

    /// The same with one less who answered that.
    #[must_use]
    pub fn without(mut self, answer: Answer) -> Self {
        let counter = match answer {
            Answer::Acked => &mut self.acked,
            Answer::Pending => &mut self.pending,
            Answer::Failed => &mut self.failed,
        };
        *counter = counter.saturating_sub(1);
        self
    }

    /// What it says of a generation: whoever answered to an older one has not answered to this.
    #[must_use]
    pub fn about(&self, generation: i64) -> Self {
        if self.generation >= generation {
            return self.clone();
        }
        Self { generation, pending: self.planes(), ..Self::default() }
    }
}

/// A data plane's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Who refused: its identifier if it has one, and its address.
    pub client: String,
    /// Its code.
    pub code: i32,
    /// Its words, cut to a bounded length.
    pub message: String,
    /// When, in seconds since 1970.
    pub at: i64,
}
