//! What can be said of a rule.

use super::object::{RuleStatus, Share};
use super::state::Kept;
use crate::Truth;

/// It was understood and is sent.
pub const ACCEPTED: &str = "Accepted";
/// Every data plane that asks for it runs it.
pub const DISTRIBUTED: &str = "Distributed";

/// It makes no sense.
const REFUSED: &str = "Refused";
/// Nobody can ask for it.
const NO_APP: &str = "NoApp";
/// Some data plane does not run it.
const FAILED: &str = "Failed";
/// Some have not answered.
const PENDING: &str = "Pending";

/// Who says it where nobody was asked.
pub const OURSELVES: &str = "causeway";

/// What the leader should say of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The status as it should be.
    pub status: RuleStatus,
    /// Replicas that are gone, whose word goes with them.
    pub gone: Vec<String>,
}

/// What people should hear of although nobody looks at the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Whether somebody should do something.
    pub warning: bool,
    /// Why, in CamelCase.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// What was last said of a rule for sure: why each condition was what it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    accepted: String,
    distributed: String,
}

impl Told {
    /// What a status says.
    pub fn of(status: &RuleStatus) -> Self {
        let mut told = Self::default();
        told.news(status);
        told
    }

    /// The news in a status: each condition that has turned bad, or is no longer so. While data planes have still to answer
    /// nothing is sure.
    pub fn news(&mut self, status: &RuleStatus) -> Vec<News> {
        let places = [(ACCEPTED, &mut self.accepted), (DISTRIBUTED, &mut self.distributed)];
        let turned = |(name, told): (&str, &mut String)| {
            let condition = status.conditions.get(name)?;
            turned(told, &condition.reason, &condition.message)
        };
        places.into_iter().filter_map(turned).collect()
    }

    /// The news in what a replica's data planes say, where no status can hold it.
    pub fn news_of_share(&mut self, share: &Share) -> Option<News> {
        let (_, reason, message) = counted(share);
        turned(&mut self.distributed, reason, &message)
    }
}

/// A reason that is bad, or follows one that was.
fn turned(told: &mut String, reason: &str, message: &str) -> Option<News> {
    let is_bad = |reason: &str| matches!(reason, REFUSED | NO_APP | FAILED);
    if reason == PENDING || *told == reason {
        return None;
    }
    let before = std::mem::replace(told, reason.into());
    let is_news = is_bad(reason) || is_bad(&before);
    is_news.then(|| News { warning: is_bad(reason), reason: reason.into(), message: message.into() })
}

/// The sum of what replicas say that are alive, and what follows from it.
pub(super) fn said(kept: &Kept, is_alive: impl Fn(&str) -> bool) -> Said {
    let mut status = kept.status.clone();
    let gone: Vec<String> = status.replicas.keys().filter(|replica| !is_alive(replica)).cloned().collect();
    status.replicas.retain(|replica, _| is_alive(replica));
    let shares = status.replicas.values().map(|share| share.about(kept.generation));
    status.total = shares.fold(Share::default(), |sum, share| sum.plus(&share));
    if kept.refusal.is_some() {
        // What data planes run is its last good form.
        status.total = Share { pending: status.total.planes(), ..Share::default() };
    }
    status.observed_generation = Some(kept.generation);
    status.last_sent = kept.last_good();
    let (truth, reason, message) = accepted(kept);
    status.conditions.set(ACCEPTED, truth, reason, message, kept.generation);
    let (truth, reason, message) = distributed(kept, &status.total);
    status.conditions.set(DISTRIBUTED, truth, reason, message, kept.generation);
    Said { status, gone }
}

fn accepted(kept: &Kept) -> (Truth, &'static str, String) {
    match (&kept.refusal, &kept.app) {
        (Some(refusal), _) if kept.is_sent() => {
            (Truth::False, REFUSED, format!("{refusal}; what was sent before stays"))
        }
        (Some(refusal), _) => (Truth::False, REFUSED, refusal.to_string()),
        (None, None) => (Truth::False, NO_APP, "the label `app` is missing: nobody gets this rule".into()),
        (None, Some(_)) => (Truth::True, "Converted", "data planes that ask for it get it".into()),
    }
}

fn distributed(kept: &Kept, total: &Share) -> (Truth, &'static str, String) {
    if kept.refusal.is_some() || !kept.is_sent() {
        return (Truth::False, "NotAccepted", "the rule as it is was sent to nobody".into());
    }
    counted(total)
}

fn counted(total: &Share) -> (Truth, &'static str, String) {
    let Share { acked, failed, pending, failure, .. } = total;
    let planes =
        |count: u32| if count == 1 { "1 data plane".to_owned() } else { format!("{count} data planes") };
    if let Some(failure) = failure.as_ref().filter(|failure| *failed > 0 && failure.client == OURSELVES) {
        return (Truth::False, FAILED, failure.message.clone());
    }
    if *failed > 0 {
        let why = failure.as_ref().map(|failure| format!(": {}: {}", failure.client, failure.message));
        return (Truth::False, FAILED, format!("{} refused it{}", planes(*failed), why.unwrap_or_default()));
    }
    if *pending > 0 {
        return (Truth::Unknown, PENDING, format!("{} did not answer yet", planes(*pending)));
    }
    if *acked > 0 {
        let run = if *acked == 1 { "runs" } else { "run" };
        return (Truth::True, "Acked", format!("{} {run} it", planes(*acked)));
    }
    (Truth::False, "NoSubscriber", "no data plane asks for it".into())
}
