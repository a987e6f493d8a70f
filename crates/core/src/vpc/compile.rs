//! From the state: what a gateway should hold, and what can be said of each tunnel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::admission::Admission;
use super::gateways::Located;
use super::have::Holding;
use super::objects::{PodRef, Tunnel};
use super::outcome::{Hindrance, Outcome, Trouble, Visit};
use super::reach::Reach;
use super::state::State;
use super::tunnels;
use super::want::{Inbound, TunnelKind, TunnelWant, Want};
use crate::names::{GatewayName, ObjectKey};

/// Where to go and what should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayTask {
    /// The pod.
    pub pod: PodRef,
    /// What it should hold.
    pub want: Want,
    /// Other pods of the gateway that may still hold something of ours, and should not: they served it before.
    pub sweep: Vec<PodRef>,
}

/// What can be said of a tunnel.
pub(super) enum Verdict<'a> {
    Up {
        want: &'a TunnelWant,
        gateway: &'a GatewayName,
        located: &'a Located,
        arp_off: bool,
        /// What keeps packets out of it, if anything is seen to.
        hindered: Option<&'a Hindrance>,
        /// Whether the peer answers.
        reach: Reach,
        /// Why it is built from what was last known, if it is.
        doubt: Option<&'a Trouble>,
        /// Why TCP's segment size is not fitted to it, if it is not.
        unclamped: Option<&'a str>,
    },
    Down(Trouble),
    /// Its gateway could not be looked at for long.
    Unseen(&'a Trouble),
    /// Its gateway has not answered yet.
    Awaited,
}

/// Compiles the scope of a gateway; nothing when there is no pod to go to, or when it is not known yet which
/// tunnels there are: what is not wanted is removed.
pub fn gateway(state: &State, name: &GatewayName) -> Option<GatewayTask> {
    let pod = state.gateways.pod(name).ok().filter(|_| state.tunnels.listed())?.clone();
    let mut want = Want { frozen: state.tunnels.unreadable().clone(), ..Want::default() };
    for (key, link, verdict) in state.admission(name).into_iter().flat_map(Admission::iter) {
        match verdict {
            Ok(tunnel) => {
                let object = state.tunnels.get(key);
                if let Some(established) = object.and_then(|object| object.established(name)) {
                    want.established.insert(key.clone(), established);
                }
                let last_known = object.and_then(|object| object.last_known(name, tunnel.local, tunnel.seat));
                if let Some(fallback) = last_known.filter(|it| it != tunnel) {
                    want.fallbacks.insert(key.clone(), fallback);
                }
                want.tunnels.insert(link.clone(), tunnel.clone());
            }
            Err(trouble) if trouble.freezes() => drop(want.frozen.insert(key.clone())),
            // An older tunnel may have come to want what this one has: a record was edited, and age proves nothing.
            Err(trouble) if trouble.is_of_peer() && is_established(state, name, key) => {
                want.frozen.insert(key.clone());
            }
            Err(_) => {}
        }
    }
    if !want.tunnels.is_empty() {
        let via = state.gateways.locate(name).ok().map(|located| located.router);
        let last_known = || want.tunnels.values().next().map(|tunnel| tunnel.own);
        let range = state.own.globalnet().or_else(last_known);
        want.inbound = range.zip(via).map(|(range, via)| Inbound { range, via });
    }
    let sweep = to_sweep(state, name, &want);
    Some(GatewayTask { pod, want, sweep })
}

/// Which gateways one of a VPC listens to, where tunnels follow the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchTask {
    /// The pod that listens.
    pub pod: PodRef,
    /// The VPC's router.
    pub router: Ipv4Addr,
    /// By name, where each is in the VPC and outside.
    pub others: BTreeMap<GatewayName, (Ipv4Addr, Ipv4Addr)>,
    /// Those of them that this one has called lost.
    pub lost: BTreeSet<GatewayName>,
}

/// Compiles a gateway's ear on others: whoever could take over listens to the main one, and everybody to those that fell silent,
/// so that somebody hears them again.
pub fn watch(state: &State, name: &GatewayName) -> Option<WatchTask> {
    let vpc = state.gateways.vpc_of(name)?;
    let main = state.main(vpc).filter(|main| !main.hands_off)?;
    state.tunnels.of_vpc(vpc).next()?;
    let gateway = state.gateways.get(name).filter(|gateway| gateway.fit)?;
    let is_heard = |other: &GatewayName| *other == main.gateway || state.is_silent_to_any(other);
    let others = state.gateways.in_vpc(vpc).filter(|(other, _)| *other != name && is_heard(other));
    let others: BTreeMap<GatewayName, (Ipv4Addr, Ipv4Addr)> = others
        .filter_map(|(other, located)| Some((other.clone(), (located.lan?, located.external))))
        .collect();
    let (pod, router) = (gateway.pod.clone().ok()?, gateway.located.as_ref().ok()?.router);
    let lost = others.keys().filter(|other| state.is_silent_to(other, name)).cloned().collect();
    (!others.is_empty()).then_some(WatchTask { pod, router, others, lost })
}

fn is_established(state: &State, gateway: &GatewayName, key: &ObjectKey) -> bool {
    state.tunnels.get(key).is_some_and(|object| object.established(gateway).is_some())
}

/// The pods of a gateway that do not serve it and were not yet seen without anything of ours.
fn to_sweep(state: &State, name: &GatewayName, want: &Want) -> Vec<PodRef> {
    let spares = state.gateways.get(name).into_iter().flat_map(|gateway| &gateway.spares);
    let clean =
        |pod: &PodRef| state.visits.of_pod(name, &pod.uid).is_some_and(|it| is_clean(it, &want.frozen));
    spares.filter(|pod| !clean(pod)).cloned().collect()
}

/// Whether a pod was seen without anything of ours but what stays.
pub(super) fn is_clean(outcome: &Outcome, frozen: &BTreeSet<ObjectKey>) -> bool {
    let Ok(Visit { holding: Holding { owners, unnamed, anything }, .. }) = &outcome.result else {
        return false;
    };
    !anything || unnamed.is_empty() && !owners.is_empty() && owners.is_subset(frozen)
}

pub(super) fn verdict<'a>(state: &'a State, tunnel: &'a Tunnel) -> Verdict<'a> {
    let gateway = match (&tunnel.spec, state.gateway_of(tunnel)) {
        (Err(why), _) => return Verdict::Down(Trouble::Invalid(why.clone())),
        (Ok(_), None) => {
            let vpc = tunnel.local_vpc().unwrap_or_default();
            return Verdict::Down(Trouble::VpcWithoutGateway(vpc.into()));
        }
        (Ok(_), Some(gateway)) => gateway,
    };
    let admission = state.admission(gateway);
    let want = match admission.and_then(|admission| admission.of(&tunnel.key)) {
        Some(Ok(want)) => want,
        Some(Err(trouble)) => return Verdict::Down(trouble.clone()),
        None => return Verdict::Awaited,
    };
    let Ok(located) = state.gateways.locate(gateway) else { return Verdict::Awaited };
    let Some(outcome) = current(state, gateway) else { return Verdict::Awaited };
    match &outcome.result {
        Err(trouble) if trouble.is_blindness() => Verdict::Unseen(trouble),
        Err(trouble) => Verdict::Down(trouble.clone()),
        Ok(visit) => match visit.tunnels.get(&tunnel.key) {
            Some((built, problem)) if visit.is_about(&tunnel.key, want) => match problem {
                Some(trouble) => Verdict::Down(trouble.clone()),
                None => Verdict::Up {
                    want: built,
                    gateway,
                    located,
                    arp_off: visit.arp_off,
                    hindered: visit.hindered.get(&tunnel.key),
                    reach: believed(state.reaches.of(gateway, &tunnel.key), visit, built),
                    doubt: admission
                        .and_then(|admission| admission.doubt(&tunnel.key))
                        .or(visit.fallen.get(&tunnel.key).map(|(_, trouble)| trouble)),
                    unclamped: visit.unclamped.get(&tunnel.key).map(String::as_str),
                },
            },
            _ => Verdict::Awaited,
        },
    }
}

/// What can be believed of what was heard of a peer: no echo comes through the gateway's own filter.
fn believed(reach: Reach, visit: &Visit, built: &TunnelWant) -> Reach {
    match reach {
        reach if !visit.deaf.contains(&built.owner) => reach,
        Reach::SilentBehind => Reach::Answers { micros: None, behind: false },
        Reach::Silent if built.kind == TunnelKind::Gre => Reach::NotAsked,
        reach => reach,
    }
}

/// The last outcome of a gateway, if it is about the pod that runs now.
pub(super) fn current<'a>(state: &'a State, gateway: &GatewayName) -> Option<&'a Outcome> {
    state.visits.of_pod(gateway, &state.gateways.pod(gateway).ok()?.uid)
}

/// What a deleted tunnel may have left behind.
pub(super) enum Leftovers {
    None,
    /// A gateway has not been looked at since.
    Unknown,
    /// A running gateway cannot be cleaned.
    Stuck(ObjectKey, Trouble),
}

/// Where a tunnel should be, where it says it is, and where it was seen.
pub(super) fn places(state: &State, tunnel: &Tunnel) -> BTreeSet<GatewayName> {
    let seats = state.gateways_of(tunnel).into_iter();
    tunnels::places(tunnel).chain(seats).chain(state.visits.holders(&tunnel.key).cloned()).collect()
}

/// Looks at all places of a tunnel. A gateway that is gone has nothing; one that runs must have been seen
/// without it, after its deletion was seen.
pub(super) fn leftovers(state: &State, tunnel: &Tunnel) -> Leftovers {
    let changed = state.tunnels.changed_at(&tunnel.key);
    let mut unknown = false;
    for place in &places(state, tunnel) {
        let Some(gateway) = state.gateways.get(place) else { continue };
        let serving = gateway.pod.iter().map(|pod| (pod, changed));
        // Nothing is put into the others any more.
        let pods = serving.chain(gateway.spares.iter().map(|pod| (pod, 0)));
        for (pod, since) in pods {
            let outcome = state.visits.of_pod(place, &pod.uid).filter(|outcome| outcome.revision >= since);
            match outcome.map(|outcome| &outcome.result) {
                None => unknown = true,
                Some(Err(trouble)) => return Leftovers::Stuck(pod.key.clone(), trouble.clone()),
                Some(Ok(visit)) => unknown |= visit.holding.includes(&tunnel.key),
            }
        }
    }
    if unknown { Leftovers::Unknown } else { Leftovers::None }
}
