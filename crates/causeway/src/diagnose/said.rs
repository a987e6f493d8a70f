//! What the ends say of themselves, where no hop shows why.
//!
//! A walk goes one way, from one end. Its controllers ask from both, again and again: where one of them has no answer, packets
//! end somewhere, though this walk came back.

use causeway_core::vpc::status::READY;

use super::facts::{End, Facts, Leader};
use super::finding::{Finding, Hop};
use super::walk::seen_far;

/// The ends that do not call themselves ready, the far one first: from there nobody has walked yet.
pub(super) fn otherwise(facts: &Facts) -> impl Iterator<Item = Finding> {
    let (near, far) = (&facts.near, seen_far(facts));
    let peer = far.map_or_else(|| facts.peer_cluster(), |far| far.cluster.clone());
    let from_there =
        |cluster: &str| format!("walk from the other end: give the kubeconfig or context of {cluster} first");
    let there = far.and_then(|far| unready(far, &from_there(&far.cluster), facts.now));
    let here = match facts.target {
        // One address may answer while what the controller asks does not come back.
        Some(_) => "walk without --to, which asks as the controller does".to_owned(),
        None => from_there(&peer),
    };
    there.into_iter().chain(unready(near, &here, facts.now))
}

/// What an end says of itself if that is not that it is ready, and how to find out why. One that says nothing has no controller
/// that ever saw it, and is judged by its hops alone.
fn unready(end: &End, how: &str, now: i64) -> Option<Finding> {
    let ready = end.tunnel.status.conditions.get(READY).filter(|ready| !ready.is_true())?;
    let expected = format!("{} calls itself ready", end.tunnel.key);
    let since = ready.since.map(|since| format!(" for {}", lasted(now - since))).unwrap_or_default();
    let old = match &end.leader {
        Leader::Nobody(_) => "; no controller is there to say otherwise by now",
        Leader::Leads | Leader::Unknown => "",
    };
    let found = format!("Ready={}{since}: {}: {}{old}", ready.status, ready.reason, ready.message);
    let remedy = format!(
        "no hop on this way shows why: {how}; what was mended a moment ago is said until the controller has asked again"
    );
    Some(Finding::ok(Hop::Far, &end.cluster, expected, "").broken(found, remedy))
}

/// How long something has been so, roughly. Two clocks may differ.
fn lasted(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{} s", seconds.max(0)),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
