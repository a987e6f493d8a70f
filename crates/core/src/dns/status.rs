//! What a forward says of itself, as values; writing it is somebody else's job.

use std::collections::BTreeSet;

use super::corefile;
use super::deployment;
use super::forward::{FINALIZER, Forward, ForwardStatus};
use super::state::{Scope, Sight, State, Trouble};
use super::vpc_dns::{COREFILE, VpcDns, deployment_of};
use crate::condition::Truth;
use crate::names::ObjectKey;

/// The condition that says whether the VPC's DNS server forwards.
pub const READY: &str = "Ready";
/// Why a deleted forward is still there.
pub const CLEANUP_BLOCKED: &str = "CleanupBlocked";
/// The reason of one that nothing was done for yet.
const PENDING: &str = "Pending";
/// The reason of one that goes.
const DELETING: &str = "Deleting";

/// What should become of our finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalizer {
    /// It is as it should be.
    Leave,
    /// Put it on, so that a deletion waits until all is undone.
    Add,
    /// Take it off: nothing is left to undo.
    Remove,
}

/// All that should be written on a forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// About the finalizer.
    pub finalizer: Finalizer,
    /// The status it should have; `None` where nothing is to be said yet.
    pub status: Option<ForwardStatus>,
}

/// Why it does not forward: a reason, and a sentence that says what to do.
struct Problem(&'static str, String);

/// What can be said of a forward that should be there.
enum Verdict<'a> {
    /// All is as it should be, with these DNS servers.
    Forwarding(Vec<(&'a str, &'a VpcDns)>),
    /// Something is in the way.
    Problem(Problem),
    /// Something is about to be written.
    Awaited,
}

/// Compiles the scope of a forward.
pub fn forward(state: &State, key: &ObjectKey) -> Option<Task> {
    let forward = state.forward(key)?;
    let leave = |status| Task { finalizer: Finalizer::Leave, status };
    Some(match (forward.deleting, forward.is_held()) {
        (true, false) => leave(None),
        (true, true) if forward.abandon || outstanding(state, forward).is_empty() => {
            Task { finalizer: Finalizer::Remove, status: None }
        }
        (true, true) => leave(blocked(state, forward)),
        (false, true) => leave(alive(state, forward)),
        // First a word, so that one which another operator left can be told by its having none.
        (false, false) if forward.status.observed_generation.is_none() => leave(Some(pending(forward))),
        (false, false) if forward.vpc.is_ok() => Task { finalizer: Finalizer::Add, status: None },
        (false, false) => leave(alive(state, forward)),
    })
}

/// Everybody's finalizers, with ours or without.
pub fn finalizers(forward: &Forward, ours: bool) -> Vec<&str> {
    let others = forward.finalizers.iter().map(String::as_str).filter(|name| *name != FINALIZER);
    others.chain(ours.then_some(FINALIZER)).collect()
}

/// What has to be undone before a forward may go.
fn outstanding(state: &State, forward: &Forward) -> Vec<Scope> {
    let is_about = |name: &String| state.vpc_of(name).is_none_or(|vpc| forward.vpcs().any(|own| own == vpc));
    let is_due = |name: &&String| {
        is_about(name)
            && state.deployment_want(name) == deployment::Want::Nothing
            && state.deployment_plan(name).is_some_and(|plan| plan.edit.is_some())
    };
    let deployments = state.deployments().filter(is_due).cloned().map(Scope::Deployment);
    let usual = COREFILE.to_owned();
    let corefiles: BTreeSet<&String> = forward.status.corefiles.iter().chain([&usual]).collect();
    let is_due = |name: &&String| {
        state.corefile_want(name) == corefile::Want::Nothing
            && match state.corefile(name) {
                Sight::Unseen | Sight::Forbidden(_) => *name != COREFILE,
                Sight::Seen(_) => state.corefile_plan(name).is_some_and(|plan| plan.text.is_some()),
            }
    };
    let corefiles = corefiles.into_iter().filter(is_due).cloned().map(Scope::Corefile);
    deployments.chain(corefiles).collect()
}

/// A deletion that does not get on says why.
fn blocked(state: &State, forward: &Forward) -> Option<ForwardStatus> {
    let why = |scope: &Scope| match (state.trouble(scope), scope) {
        (Some(trouble), _) => Some(Problem(trouble.reason(), format!("{scope}: {trouble}"))),
        (None, Scope::Corefile(name)) => match state.corefile(name) {
            Sight::Forbidden(why) => Some(unreadable(name, why)),
            Sight::Unseen | Sight::Seen(_) => None,
        },
        (None, _) => None,
    };
    let Problem(reason, why) = outstanding(state, forward).iter().find_map(why)?;
    let message = format!(
        "what was written for it is still there: {why}; to leave it there and let the object go: kubectl annotate \
         vpcdnsforwards -n {} {} causeway/abandon=true",
        forward.key.namespace(),
        forward.key.name()
    );
    let mut status = observed(forward);
    let generation = forward.generation;
    status.conditions.set(CLEANUP_BLOCKED, true, reason, message, generation);
    status.conditions.set(READY, false, DELETING, "the forward is being deleted".into(), generation);
    Some(status)
}

fn observed(forward: &Forward) -> ForwardStatus {
    ForwardStatus { observed_generation: Some(forward.generation), ..forward.status.clone() }
}

fn pending(forward: &Forward) -> ForwardStatus {
    let mut status = observed(forward);
    let (ready, reason, message) = match &forward.vpc {
        Ok(_) => (Truth::Unknown, PENDING, "nothing was done for it yet".to_owned()),
        Err(why) => (Truth::False, "InvalidSpec", why.clone()),
    };
    status.conditions.set(READY, ready, reason, message, forward.generation);
    status
}

/// The status of a forward that should be there.
fn alive(state: &State, forward: &Forward) -> Option<ForwardStatus> {
    let verdict = match &forward.vpc {
        Ok(vpc) => verdict(state, vpc),
        Err(why) => Verdict::Problem(Problem("InvalidSpec", why.clone())),
    };
    if let Verdict::Awaited = verdict {
        let mut status = forward.status.clone();
        status.corefiles = corefiles(state, forward);
        return Some(status);
    }
    let mut status = observed(forward);
    status.corefiles = corefiles(state, forward);
    status.conditions.remove(CLEANUP_BLOCKED);
    if let Ok(vpc) = &forward.vpc {
        status.vpc = Some(vpc.clone());
    }
    let mut say = |ready: bool, reason: &str, message: String| {
        status.conditions.set(READY, ready, reason, message, forward.generation);
    };
    match verdict {
        Verdict::Awaited => {}
        Verdict::Problem(Problem(reason, message)) => say(false, reason, message),
        Verdict::Forwarding(dnses) => {
            let (to, via) = (state.kube_dns().as_ref().ok()?, state.gateway().as_ref().ok()?);
            let servers: Vec<String> = dnses.iter().map(|(name, _)| deployment_of(name)).collect();
            let servers = servers.join(", ");
            let message = format!(
                "names below {} go to kube-dns, {to}, and {servers} has a route there through {via}",
                corefile::ZONE
            );
            say(true, "Forwarding", message);
            status.vpc_dns = dnses.first().map(|(name, _)| (*name).to_owned());
            status.kube_dns = Some(to.to_string());
            status.gateway = Some(via.to_string());
        }
    }
    Some(status)
}

/// The ConfigMaps that may hold a block because of a forward: those that will, and those that did until seen otherwise.
fn corefiles(state: &State, forward: &Forward) -> BTreeSet<String> {
    let dnses = forward.wants().and_then(|vpc| state.dnses_of(vpc)).unwrap_or_default();
    let wanted = dnses.into_iter().filter(|(_, dns)| dns.active).map(|(_, dns)| dns.corefile.clone());
    let left = forward.status.corefiles.iter().filter(|name| state.may_hold_block(name)).cloned();
    wanted.chain(left).collect()
}

fn verdict<'a>(state: &'a State, vpc: &str) -> Verdict<'a> {
    let active = match servers(state, vpc) {
        Ok(active) => active,
        Err(problem) => return Verdict::Problem(problem),
    };
    if let Err(why) = state.kube_dns() {
        return Verdict::Problem(Problem("KubeDnsMissing", format!("{why}; what was written before stays")));
    }
    if let Err(why) = state.gateway() {
        return Verdict::Problem(Problem(
            "SubnetGatewayMissing",
            format!("{why}; what was written before stays"),
        ));
    }
    let mut is_awaited = false;
    for (name, dns) in &active {
        for part in [corefile_part(state, &dns.corefile), deployment_part(state, &deployment_of(name))] {
            match part {
                Part::Fine => {}
                Part::Awaited => is_awaited = true,
                Part::Problem(problem) => return Verdict::Problem(problem),
            }
        }
    }
    if is_awaited { Verdict::Awaited } else { Verdict::Forwarding(active) }
}

/// The DNS servers of a VPC that run.
fn servers<'a>(state: &'a State, vpc: &str) -> Result<Vec<(&'a str, &'a VpcDns)>, Problem> {
    let Some(dnses) = state.dnses_of(vpc) else {
        let message =
            "VpcDnses are not known here: kube-ovn's definition vpc-dnses.kubeovn.io is not installed";
        return Err(Problem("VpcDnsMissing", message.into()));
    };
    let Some((first, _)) = dnses.first() else {
        return Err(Problem("VpcDnsMissing", format!("no VpcDns has spec.vpc: {vpc}; create one")));
    };
    let message = format!("VpcDns {first} of VPC {vpc} is not active; kube-ovn-controller's log says why");
    let active: Vec<_> = dnses.iter().copied().filter(|(_, dns)| dns.active).collect();
    if active.is_empty() { Err(Problem("NotActive", message)) } else { Ok(active) }
}

/// How one of the two texts is.
enum Part {
    Fine,
    Awaited,
    Problem(Problem),
}

impl Part {
    /// Of a text that is still to be written, or is as it should be. What somebody changes back again and again is not well
    /// in the moments between.
    fn of(state: &State, scope: &Scope, is_due: bool) -> Self {
        match state.trouble(scope) {
            Some(trouble) if is_due || *trouble == Trouble::Undone => {
                Self::Problem(Problem(trouble.reason(), format!("{scope}: {trouble}")))
            }
            Some(_) | None if is_due => Self::Awaited,
            Some(_) | None => Self::Fine,
        }
    }
}

fn unreadable(name: &str, why: &str) -> Problem {
    let message = format!(
        "ConfigMap kube-system/{name} may not be read; add its name to resourceNames in deploy/dns.yaml: {why}"
    );
    Problem("CorefileForbidden", message)
}

fn corefile_part(state: &State, name: &str) -> Part {
    let scope = Scope::Corefile(name.to_owned());
    let have = match state.corefile(name) {
        Sight::Unseen => return Part::Awaited,
        Sight::Forbidden(why) => return Part::Problem(unreadable(name, why)),
        Sight::Seen(have) => have.as_ref().filter(|have| have.text.is_some() && !have.deleting),
    };
    let (Some(_), Some(plan)) = (have, state.corefile_plan(name)) else {
        let message = format!("ConfigMap kube-system/{name} with a key Corefile is not there; create it");
        return Part::Problem(Problem("CorefileMissing", message));
    };
    match plan.obstacle {
        Some(corefile::Obstacle::Foreign(servers)) => {
            let to = if servers.is_empty() { "nobody".into() } else { servers.join(", ") };
            let message = format!(
                "{scope} has a block for {} that is not Causeway's and forwards to {to}: it is left as it is; without it \
                 there would be one",
                corefile::ZONE
            );
            return Part::Problem(Problem("ForeignBlock", message));
        }
        Some(corefile::Obstacle::Unreadable(why)) => {
            let message = format!("there is no place for a block in the Corefile of {scope}: {why}");
            return Part::Problem(Problem("ShapeUnknown", message));
        }
        None => {}
    }
    let is_due = plan.text.is_some() || state.corefile_want(name) == corefile::Want::AsItIs;
    Part::of(state, &scope, is_due)
}

fn deployment_part(state: &State, name: &str) -> Part {
    let scope = Scope::Deployment(name.to_owned());
    let plan = state.deployment_plan(name);
    let Some(plan) = plan.filter(|_| state.deployment(name).is_some_and(|have| !have.deleting)) else {
        return Part::Problem(Problem(
            "DeploymentMissing",
            format!("{scope} is not there; kube-ovn makes it"),
        ));
    };
    match plan.obstacle {
        Some(deployment::Obstacle::Shape(why)) => {
            Part::Problem(Problem("ShapeUnknown", format!("{scope}: {why}")))
        }
        Some(deployment::Obstacle::Taken(why)) => {
            Part::Problem(Problem("RouteTaken", format!("{scope}: {why}; it is left as it is")))
        }
        None => Part::of(state, &scope, plan.edit.is_some()),
    }
}

/// One event about a forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardNews {
    /// Whether somebody should worry.
    pub warning: bool,
    /// Why, in CamelCase.
    pub reason: String,
    /// One sentence.
    pub note: String,
}

/// What is worth an event when a status is written over another: readiness that changed, or its reason.
pub fn news(before: &ForwardStatus, after: &ForwardStatus) -> Vec<ForwardNews> {
    let mut news = Vec::new();
    for kind in [READY, CLEANUP_BLOCKED] {
        let Some(now) = after.conditions.get(kind) else { continue };
        let was = before.conditions.get(kind);
        let is_same = was.is_some_and(|was| was.status == now.status && was.reason == now.reason);
        if !is_same && ![PENDING, DELETING].contains(&now.reason.as_str()) {
            let warning = now.is_true() != (kind == READY);
            news.push(ForwardNews { warning, reason: now.reason.clone(), note: now.message.clone() });
        }
    }
    news
}

/// The forwards that were as they should be before something was put back for them.
pub fn repaired(state: &State, scope: &Scope) -> Vec<(Forward, ForwardNews)> {
    let (Ok(to), Ok(via)) = (state.kube_dns(), state.gateway()) else { return Vec::new() };
    let what = match scope {
        Scope::Deployment(_) => format!("the route to {to} was put back into {scope}"),
        Scope::Corefile(_) => format!("the block for {} was put back into {scope}", corefile::ZONE),
        Scope::Forward(_) | Scope::Follow => return Vec::new(),
    };
    let is_its = |forward: &&Forward| {
        let Some(vpc) = forward.wants() else { return false };
        let status = &forward.status;
        let was_ready = status
            .conditions
            .get(READY)
            .is_some_and(|ready| ready.is_true() && ready.observed_generation == Some(forward.generation));
        let is_same = status.kube_dns.as_deref() == Some(&to.to_string())
            && status.gateway.as_deref() == Some(&via.to_string());
        let dnses = state.dnses_of(vpc).unwrap_or_default();
        let uses = dnses.into_iter().filter(|(name, _)| status.vpc_dns.as_deref() == Some(name)).any(
            |(name, dns)| match scope {
                Scope::Deployment(its) => deployment_of(name) == *its,
                Scope::Corefile(its) => dns.corefile == *its && status.corefiles.contains(its),
                Scope::Forward(_) | Scope::Follow => false,
            },
        );
        was_ready && is_same && uses
    };
    let news = ForwardNews { warning: true, reason: "DriftRepaired".into(), note: what };
    state.forwards().filter(is_its).map(|forward| (forward.clone(), news.clone())).collect()
}
