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

/// The news in a status: each condition that has turned bad, or good again after that.
pub fn news(before: &RuleStatus, after: &RuleStatus) -> Vec<News> {
    let is_bad = |reason: &str| matches!(reason, REFUSED | NO_APP | FAILED);
    let turned = |name: &str| {
        let (before, after) = (before.conditions.get(name), after.conditions.get(name)?);
        let was_bad = before.is_some_and(|before| is_bad(&before.reason));
        let (warning, same) =
            (is_bad(&after.reason), before.is_some_and(|before| before.reason == after.reason));
        let is_news = !same && (warning || was_bad && after.is_true());
        is_news.then(|| News { warning, reason: after.reason.clone(), message: after.message.clone() })
    };
    [ACCEPTED, DISTRIBUTED].into_iter().filter_map(turned).collect()
}

/// The sum of what replicas say that are alive, and what follows from it.
pub(super) fn said(kept: &Kept, is_alive: impl Fn(&str) -> bool) -> Said {
    let mut status = kept.status.clone();
    let gone: Vec<String> = status.replicas.keys().filter(|replica| !is_alive(replica)).cloned().collect();
    status.replicas.retain(|replica, _| is_alive(replica));
    let shares = status.replicas.values().map(|share| share.about(kept.generation));
    status.total = shares.fold(Share::default(), |sum, share| sum.plus(&share));
    status.observed_generation = Some(kept.generation);
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
    let Share { acked, failed, pending, failure, .. } = total;
    let planes =
        |count: u32| if count == 1 { "1 data plane".to_owned() } else { format!("{count} data planes") };
    if kept.refusal.is_some() || !kept.is_sent() {
        return (Truth::False, "NotAccepted", "the rule as it is was sent to nobody".into());
    }
    if *failed > 0 {
        let why = failure.as_ref().map(|failure| format!(": {}: {}", failure.client, failure.message));
        return (Truth::False, FAILED, format!("{} refused it{}", planes(*failed), why.unwrap_or_default()));
    }
    if *pending > 0 {
        return (Truth::Unknown, "Pending", format!("{} did not answer yet", planes(*pending)));
    }
    if *acked > 0 {
        let run = if *acked == 1 { "runs" } else { "run" };
        return (Truth::True, "Acked", format!("{} {run} it", planes(*acked)));
    }
    (Truth::False, "NoSubscriber", "no data plane asks for it".into())
}
