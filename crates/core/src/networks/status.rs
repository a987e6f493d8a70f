//! What a network says of itself, as values; writing it is somebody else's job.

use super::cloud::{Held, HeldSubnet};
use super::mark::Owner;
use super::object::{FINALIZER, Network, NetworkStatus};
use super::plan::{self, Stuck, Todo};
use super::state::{InTheWay, State};
use super::trouble::Trouble;
use crate::condition::Truth;
use crate::names::ObjectKey;

/// The condition that says whether the cloud holds what was declared.
pub const READY: &str = "Ready";
/// Whether something is being done about it.
pub const PROGRESSING: &str = "Progressing";
/// Why a deleted network is still there.
pub const CLEANUP_BLOCKED: &str = "CleanupBlocked";

/// What should become of our finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalizer {
    /// It is as it should be.
    Leave,
    /// Put it on, so that a deletion waits for the cloud.
    Add,
    /// Take it off: nothing is left to clean.
    Remove,
}

/// All that should be written on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// About the finalizer.
    pub finalizer: Finalizer,
    /// The status it should have; `None` where nothing is to be said yet.
    pub status: Option<NetworkStatus>,
}

/// What can be said of a network that should be there.
enum Verdict<'a> {
    /// The cloud holds it.
    Synced(&'a Held, &'a str, &'a HeldSubnet),
    /// It may hold it: it has not been seen for a while.
    Unseen(&'a Trouble),
    /// Its spec makes no sense.
    Invalid(&'a str),
    /// An older one has its addresses.
    Overlap(&'a Network),
    /// Something is in the way.
    Failed(&'a Trouble),
    /// Somebody has to decide.
    Stuck(Stuck),
    /// This comes next.
    Next(String),
    /// Nothing is known yet.
    Awaited,
}

/// Compiles the scope of a network's status.
pub fn network(state: &State, key: &ObjectKey) -> Option<Task> {
    let network = state.network(key)?;
    let finalizer = finalizer(state, network);
    let status = match (finalizer, network.deleting) {
        (Finalizer::Remove | Finalizer::Add, _) => None,
        (Finalizer::Leave, true) => blocked(state, network),
        (Finalizer::Leave, false) => alive(state, network),
    };
    Some(Task { finalizer, status })
}

fn finalizer(state: &State, network: &Network) -> Finalizer {
    match (network.deleting, network.is_held()) {
        (false, false) if network.spec.is_ok() || state.owns_any(network) => Finalizer::Add,
        (false, _) | (true, false) => Finalizer::Leave,
        (true, true) if state.is_let_go(network) => Finalizer::Remove,
        (true, true) => Finalizer::Leave,
    }
}

/// Everybody's finalizers, with ours or without.
pub fn finalizers(network: &Network, ours: bool) -> Vec<&str> {
    let others = network.finalizers.iter().map(String::as_str).filter(|name| *name != FINALIZER);
    others.chain(ours.then_some(FINALIZER)).collect()
}

/// A deletion that does not get on says why.
fn blocked(state: &State, network: &Network) -> Option<NetworkStatus> {
    let (reason, why) = match &state.report(network)?.trouble {
        Some(InTheWay::Trouble(trouble) | InTheWay::Outage(trouble)) => {
            (trouble.reason(), trouble.to_string())
        }
        Some(InTheWay::Stuck(stuck)) => (stuck.reason(), stuck.to_string()),
        None => return None,
    };
    let way_out = if let Some(InTheWay::Stuck(Stuck::Elsewhere { .. } | Stuck::NotSeen(_))) =
        &state.report(network)?.trouble
    {
        format!("to leave it there and let the object go, take the finalizer {FINALIZER} off")
    } else if network.abandon {
        format!(
            "it is to be left there, and cannot be marked so; to let the object go anyway, take the finalizer {FINALIZER} off"
        )
    } else {
        format!(
            "to leave it there and let the object go: kubectl annotate networks.samplecrd.k8s.io -n {} {} causeway/abandon=true",
            network.key.namespace(),
            network.key.name()
        )
    };
    let message = format!("what was made for it is still in the cloud: {why}; {way_out}");
    let mut status = observed(network);
    let generation = network.generation;
    status.conditions.set(CLEANUP_BLOCKED, true, reason, message, generation);
    status.conditions.set(READY, false, "Deleting", "the network is being deleted".into(), generation);
    status.conditions.remove(PROGRESSING);
    Some(status)
}

fn observed(network: &Network) -> NetworkStatus {
    NetworkStatus { observed_generation: Some(network.generation), ..network.status.clone() }
}

fn verdict<'a>(state: &'a State, network: &'a Network) -> Verdict<'a> {
    let spec = match &network.spec {
        Ok(spec) => spec,
        Err(why) => return Verdict::Invalid(why),
    };
    if let Some(older) = state.overlapped(network) {
        return Verdict::Overlap(older);
    }
    let report = state.report(network).and_then(|report| report.trouble.as_ref());
    let Some(todo) = state.todo(network, None) else {
        return match (state.blind(), report) {
            (Some(trouble), _) => Verdict::Unseen(trouble),
            // What was as declared is taken to be so for a while.
            (None, Some(InTheWay::Outage(trouble))) if !says_synced(network) => Verdict::Failed(trouble),
            (None, _) => Verdict::Awaited,
        };
    };
    match (todo, report) {
        (Todo::Nothing, _) => match (state.blind(), synced(state, network, spec.cidr)) {
            (Some(trouble), _) => Verdict::Unseen(trouble),
            (None, Some((held, id, subnet))) => Verdict::Synced(held, id, subnet),
            (None, None) => Verdict::Awaited,
        },
        (Todo::Stuck(stuck), _) => Verdict::Stuck(stuck),
        (_, Some(InTheWay::Stuck(stuck))) => Verdict::Stuck(stuck.clone()),
        (_, Some(InTheWay::Trouble(trouble) | InTheWay::Outage(trouble))) => Verdict::Failed(trouble),
        (Todo::Step(step), None) => Verdict::Next(step.to_string()),
        (Todo::Look, None) => Verdict::Next("look for it in the cloud".into()),
    }
}

/// The network and the subnet that are an object's.
fn synced<'a>(
    state: &'a State,
    network: &Network,
    cidr: crate::Cidr,
) -> Option<(&'a Held, &'a str, &'a HeldSubnet)> {
    let home = state.home()?;
    let want = state.want(network);
    state.have(network).into_iter().filter(|held| plan::is_its(home, &want, held)).find_map(|held| {
        let is_ours =
            |subnet: &HeldSubnet| matches!(subnet.owner(home), Owner::Object(uid) if uid == network.uid);
        let (id, subnet) = held.subnets.iter().find(|(_, it)| it.cidr == cidr && is_ours(it))?;
        Some((held, id.as_str(), subnet))
    })
}

/// The status of a network that should be there.
fn alive(state: &State, network: &Network) -> Option<NetworkStatus> {
    let mut status = observed(network);
    status.conditions.remove(CLEANUP_BLOCKED);
    // From its first moment on: whoever comes next has to know where it is.
    if let Some(held) = state.its(network) {
        status.provider = Some(state.provider().to_owned());
        status.network_id = Some(held.id.clone());
    }
    let mut say = |ready: Truth, progressing: bool, reason: &str, message: String| {
        let generation = network.generation;
        status.conditions.set(READY, ready, reason, message.clone(), generation);
        let (why, sentence) = if progressing {
            (reason, message)
        } else {
            ("AtRest", "nothing is left to do, or nothing can be done".into())
        };
        status.conditions.set(PROGRESSING, progressing, why, sentence, generation);
    };
    match verdict(state, network) {
        Verdict::Awaited => return None,
        Verdict::Invalid(why) => say(Truth::False, false, "Invalid", why.to_owned()),
        Verdict::Overlap(older) => {
            let range = older.spec.as_ref().map(|spec| spec.cidr.to_string()).unwrap_or_default();
            let message =
                format!("its range shares addresses with {range} of Network {}, which is older", older.key);
            say(Truth::False, false, "Overlap", message);
        }
        Verdict::Unseen(trouble) => {
            say(
                Truth::Unknown,
                true,
                trouble.reason(),
                format!("{trouble}; what it holds is as it was last seen"),
            );
        }
        Verdict::Failed(trouble) => {
            let retries = !matches!(trouble, Trouble::Forbidden(_) | Trouble::Refused(_));
            say(Truth::False, retries, trouble.reason(), trouble.to_string());
            if state.is_gone(network) {
                let NetworkStatus { synced, observed_generation, conditions, .. } = status;
                status =
                    NetworkStatus { synced, observed_generation, conditions, ..NetworkStatus::default() };
            }
        }
        Verdict::Stuck(stuck) => say(Truth::False, false, stuck.reason(), stuck.to_string()),
        Verdict::Next(step) => say(Truth::False, true, "Syncing", format!("next: {step}")),
        Verdict::Synced(held, id, subnet) => {
            let message = format!("network {} with subnet {id} is as declared", held.id);
            say(Truth::True, false, "Synced", message);
            status.subnet_id = Some(id.to_owned());
            status.cidr = Some(subnet.cidr.to_string());
            status.gateway = subnet.gateway.map(|it| it.to_string());
            let synced = state.report(network).and_then(|report| report.synced);
            status.synced = synced.max(status.synced);
        }
    }
    Some(status)
}

/// One event about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkNews {
    /// Whether somebody should worry.
    pub warning: bool,
    /// Why, in CamelCase.
    pub reason: String,
    /// One sentence.
    pub note: String,
}

/// What is worth an event when a status is written over another: readiness that changed, or its reason. What the cloud's
/// silence says of every network is no event of each.
pub fn news(before: &NetworkStatus, after: &NetworkStatus) -> Vec<NetworkNews> {
    let mut news = Vec::new();
    for kind in [READY, CLEANUP_BLOCKED] {
        let Some(now) = after.conditions.get(kind) else { continue };
        let was = before.conditions.get(kind);
        let is_same = was.is_some_and(|was| was.status == now.status && was.reason == now.reason);
        let is_passing = ["Syncing", "Deleting", "CloudUnreachable"].contains(&now.reason.as_str())
            || now.status == Truth::Unknown;
        let is_back = was.is_some_and(|was| was.status == Truth::Unknown) && now.is_true() && kind == READY;
        if !is_same && !is_passing && !is_back {
            let warning = now.is_true() != (kind == READY);
            news.push(NetworkNews { warning, reason: now.reason.clone(), note: now.message.clone() });
        }
    }
    news
}

/// Whether an object says that the cloud is equal to its present generation.
pub(super) fn says_synced(network: &Network) -> bool {
    let ready = network.status.conditions.get(READY);
    ready.is_some_and(|ready| ready.is_true() && ready.observed_generation == Some(network.generation))
}

/// What is worth an event when steps were carried out for a network that was as declared before: something had changed there.
pub fn repaired(network: &Network, was_reached: bool, done: &[String]) -> Option<NetworkNews> {
    let is_drift = was_reached && !network.deleting && !done.is_empty();
    is_drift.then(|| NetworkNews {
        warning: true,
        reason: "DriftRepaired".into(),
        note: format!("it was not as declared any more; done: {}", done.join(", ")),
    })
}
