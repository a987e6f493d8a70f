//! From the state: what a gateway should hold, and what can be said of each tunnel.

use std::collections::BTreeSet;

use super::admission::Admission;
use super::gateways::Located;
use super::objects::{PodRef, Tunnel};
use super::outcome::{Outcome, Trouble};
use super::state::State;
use super::tunnels::{self, gateway_of};
use super::want::{Inbound, TunnelWant, Want};
use crate::names::GatewayName;

/// Where to go and what should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayTask {
    /// The pod.
    pub pod: PodRef,
    /// What it should hold.
    pub want: Want,
}

/// What can be said of a tunnel.
pub(super) enum Verdict<'a> {
    Up {
        want: &'a TunnelWant,
        gateway: &'a GatewayName,
        located: &'a Located,
        arp_off: bool,
        /// Why TCP's segment size is not fitted to it, if it is not.
        unclamped: Option<&'a str>,
    },
    Down(Trouble),
    /// Its gateway has not answered yet.
    Awaited,
}

/// Compiles the scope of a gateway; nothing when there is no pod to go to.
pub fn gateway(state: &State, name: &GatewayName) -> Option<GatewayTask> {
    let pod = state.gateways.pod(name).ok()?.clone();
    let mut want = Want { frozen: state.tunnels.unreadable().clone(), ..Want::default() };
    for (key, link, verdict) in state.admission(name).into_iter().flat_map(Admission::iter) {
        match verdict {
            Ok(tunnel) => drop(want.tunnels.insert(link.clone(), tunnel.clone())),
            Err(trouble) if trouble.freezes() => drop(want.frozen.insert(key.clone())),
            Err(_) => {}
        }
    }
    if !want.tunnels.is_empty() {
        let via = state.gateways.locate(name).ok().map(|located| located.router);
        want.inbound = state.own.globalnet().zip(via).map(|(range, via)| Inbound { range, via });
    }
    Some(GatewayTask { pod, want })
}

/// Whether a tunnel is of the kind that puts things into a gateway.
pub(super) fn is_buildable(tunnel: &Tunnel) -> bool {
    gateway_of(tunnel).is_some()
}

pub(super) fn verdict<'a>(state: &'a State, tunnel: &'a Tunnel) -> Verdict<'a> {
    let gateway = match (&tunnel.spec, gateway_of(tunnel)) {
        (Err(why), _) => return Verdict::Down(Trouble::Invalid(why.clone())),
        (Ok(_), None) => return Verdict::Down(Trouble::NotYetSupported),
        (Ok(_), Some(gateway)) => gateway,
    };
    let want = match state.admission(gateway).and_then(|admission| admission.of(&tunnel.key)) {
        Some(Ok(want)) => want,
        Some(Err(trouble)) => return Verdict::Down(trouble.clone()),
        None => return Verdict::Awaited,
    };
    let Ok(located) = state.gateways.locate(gateway) else { return Verdict::Awaited };
    let Some(outcome) = current(state, gateway) else { return Verdict::Awaited };
    match &outcome.result {
        Err(trouble) => Verdict::Down(trouble.clone()),
        Ok(visit) => match visit.tunnels.get(&tunnel.key) {
            Some((built, problem)) if built == want => match problem {
                Some(trouble) => Verdict::Down(trouble.clone()),
                None => {
                    let unclamped = visit.unclamped.get(&tunnel.key).map(String::as_str);
                    Verdict::Up { want, gateway, located, arp_off: visit.arp_off, unclamped }
                }
            },
            _ => Verdict::Awaited,
        },
    }
}

/// The last outcome of a gateway, if it is about the pod that runs now.
fn current<'a>(state: &'a State, gateway: &GatewayName) -> Option<&'a Outcome> {
    state.visits.of_pod(gateway, state.gateways.pod(gateway).ok()?)
}

/// What a deleted tunnel may have left behind.
pub(super) enum Leftovers {
    None,
    /// A gateway has not been looked at since.
    Unknown,
    /// A running gateway cannot be cleaned.
    Stuck(Trouble),
}

/// Where a tunnel should be, where it says it is, and where it was seen.
pub(super) fn places(state: &State, tunnel: &Tunnel) -> BTreeSet<GatewayName> {
    tunnels::places(tunnel).chain(state.visits.holders(&tunnel.key).cloned()).collect()
}

/// Looks at all places of a tunnel. A gateway that is gone has nothing; one that runs must have been seen
/// without it, after the deletion was.
pub(super) fn leftovers(state: &State, tunnel: &Tunnel) -> Leftovers {
    let asked = state.tunnels.asked(&tunnel.key);
    let mut unknown = false;
    for place in &places(state, tunnel) {
        if state.gateways.pod(place).is_err() {
            continue;
        }
        match current(state, place).filter(|outcome| outcome.revision >= asked) {
            None => unknown = true,
            Some(Outcome { result: Err(trouble), .. }) => return Leftovers::Stuck(trouble.clone()),
            Some(Outcome { result: Ok(visit), .. }) if visit.holding.includes(&tunnel.key) => unknown = true,
            Some(_) => {}
        }
    }
    if unknown { Leftovers::Unknown } else { Leftovers::None }
}
