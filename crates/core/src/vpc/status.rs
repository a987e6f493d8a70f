//! What a tunnel object says of itself, as values; writing it is somebody else's job.

mod failover;
mod ready;

use self::ready::reachable;
use super::compile;
use super::ends;
use super::gateways::Located;
use super::objects::Tunnel;
use super::outcome::Trouble;
use super::reach::Reach;
use super::state::State;
use super::want::{EgressRange, TunnelWant};
use crate::condition::{Condition, Conditions, Truth};
use crate::names::{GatewayName, ObjectKey};

/// The status of a tunnel: the contract's fields as text, and conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TunnelStatus {
    /// Whether the gateway once held everything.
    pub initialized: bool,
    /// Our end on the underlay.
    pub internal_ip: Option<String>,
    /// The peer's end.
    pub remote_ip: Option<String>,
    /// The address on the link.
    pub interface_addr: Option<String>,
    /// The encapsulation.
    pub kind: Option<String>,
    /// The gateway it is built on.
    pub gateway: Option<String>,
    /// By VPC: the gateways that hold it too and would take over.
    pub standbys: Vec<String>,
    /// Our range of global addresses.
    pub globalnet: Option<String>,
    /// The peer's.
    pub remote_globalnet: Option<String>,
    /// The VPC's router.
    pub ovn_gw_ip: Option<String>,
    /// The egress addresses in use.
    pub egress: Vec<String>,
    /// `cluster/gateway` of the other end, for people.
    pub peer: Option<String>,
    /// About how long the peer takes to answer, in milliseconds.
    pub round_trip: Option<u32>,
    /// Whether what lies behind the peer has ever answered, since it is that peer and that range.
    pub answered_behind: bool,
    /// The generation that all this is about.
    pub observed_generation: Option<i64>,
    /// The conditions, others' too.
    pub conditions: Conditions,
}

/// The condition that says whether a tunnel carries traffic: all of it is in place and the peer answers through it.
pub const READY: &str = "Ready";
/// Whether everything that the tunnel needs is in place on its gateway.
pub const PROGRAMMED: &str = "Programmed";
/// Whether the peer answers through the tunnel.
pub const REACHABLE: &str = "Reachable";
/// The reason of [`REACHABLE`] where what lies behind the peer answers too.
pub const ANSWERED: &str = "Answered";
/// Where only the peer does, because what lies behind it never has.
pub const PEER_ANSWERED: &str = "PeerAnswered";
/// Where only the peer does, and what lies behind it has before.
pub const SILENT_BEHIND: &str = "SilentBehindPeer";
/// The reason of [`READY`] where the gateway sends packets to the peer's range elsewhere, or those to a part of it.
pub const ROUTED_ELSEWHERE: &str = "RoutedElsewhere";
/// The reason of a tunnel that was built and whose peer has not answered yet.
const PROBING: &str = "Probing";
/// Whether the tunnel rests on what was last known of the peer or of us; only there when it does.
pub const LAST_KNOWN: &str = "LastKnown";
/// Whether the VPC leads traffic to the gateway.
pub const ROUTED: &str = "Routed";
/// Whether another gateway of the VPC would take the tunnel over; only on tunnels by VPC.
pub const FAILOVER: &str = "Failover";
/// What a switch on purpose left with the gateway that was the main one; only there when it left something.
pub const SWITCHED_PARTLY: &str = "SwitchedPartly";
/// Why a deleted tunnel is still there.
pub const CLEANUP_BLOCKED: &str = "CleanupBlocked";
/// Whether the gateway's own uplink works as a tunnel needs it.
pub const UNDERLAY: &str = "Underlay";

/// Whether TCP's segment size is fitted to the tunnel; only there when it is not.
pub const SEGMENT_SIZE: &str = "SegmentSize";

/// What should become of our finalizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finalizer {
    /// It is as it should be.
    Leave,
    /// Put it on, so that a deletion waits for the gateway.
    Add,
    /// Take it off: nothing is left to clean.
    Remove,
    /// It stays, because the gateway cannot be cleaned.
    Blocked(ObjectKey, Trouble),
}

/// All that should be written on a tunnel object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelTask {
    /// About the finalizer.
    pub finalizer: Finalizer,
    /// The status it should have; `None` while the first answer from its gateway is awaited.
    pub status: Option<TunnelStatus>,
}

/// Compiles the scope of a tunnel object.
pub fn tunnel(state: &State, key: &ObjectKey) -> Option<TunnelTask> {
    let tunnel = state.tunnel(key)?;
    let finalizer = finalizer(state, tunnel);
    let status = match &finalizer {
        Finalizer::Remove => None,
        Finalizer::Blocked(pod, trouble) => Some(blocked(tunnel, pod, trouble)),
        Finalizer::Leave | Finalizer::Add if tunnel.deleting => None,
        Finalizer::Leave | Finalizer::Add => alive(state, tunnel),
    };
    Some(TunnelTask { finalizer, status })
}

fn finalizer(state: &State, tunnel: &Tunnel) -> Finalizer {
    match (tunnel.deleting, tunnel.is_held()) {
        (false, false) if tunnel.spec.is_ok() => Finalizer::Add,
        (false, _) | (true, false) => Finalizer::Leave,
        (true, true) if tunnel.abandon => Finalizer::Remove,
        (true, true) => match compile::leftovers(state, tunnel) {
            compile::Leftovers::None => Finalizer::Remove,
            compile::Leftovers::Unknown => Finalizer::Leave,
            compile::Leftovers::Stuck(pod, trouble) => Finalizer::Blocked(pod, trouble),
        },
    }
}

fn blocked(tunnel: &Tunnel, pod: &ObjectKey, trouble: &Trouble) -> TunnelStatus {
    let message = format!(
        "pod {pod} may still hold the tunnel and cannot be cleaned: {trouble}. To let the object go anyway: \
         kubectl annotate vpcnattunnel -n {} {} causeway/abandon=true",
        tunnel.key.namespace(),
        tunnel.key.name()
    );
    let mut status = TunnelStatus { observed_generation: Some(tunnel.generation), ..tunnel.status.clone() };
    set(&mut status, tunnel, CLEANUP_BLOCKED, true, trouble.reason(), message);
    set(&mut status, tunnel, READY, false, "Deleting", "the tunnel is being deleted".into());
    status
}

/// The status of a tunnel that should be up.
fn alive(state: &State, tunnel: &Tunnel) -> Option<TunnelStatus> {
    let verdict = compile::verdict(state, tunnel);
    let mut status = TunnelStatus { observed_generation: Some(tunnel.generation), ..tunnel.status.clone() };
    status.conditions.remove(CLEANUP_BLOCKED);
    // Of one that was up, this is the peer that all the rest is about.
    let is_up = matches!(verdict, compile::Verdict::Up { .. });
    if let Ok(spec) = &tunnel.spec
        && (is_up || !status.initialized)
    {
        status.peer = Some(spec.ends.far().to_string());
    }
    match verdict {
        compile::Verdict::Up { want, gateway, located, arp_off, hindered, reach, doubt, unclamped } => {
            if is_said(tunnel, &reach) {
                // How the ends are declared is known without anybody's answer.
                ends::set_condition(&mut status, state, tunnel);
                failover::set_condition(&mut status, state, tunnel);
                failover::set_what_stayed(&mut status, state, tunnel);
                return (status != tunnel.status).then_some(status);
            }
            fill(&mut status, state, want, gateway, located, doubt.is_some());
            let sentence = up_sentence(state, want, gateway);
            let in_place = format!("all that the tunnel needs is in place on gateway {gateway}");
            set(&mut status, tunnel, PROGRAMMED, true, "InPlace", in_place);
            // One that was up is, until its peer was asked often enough.
            let stays_up = matches!(reach, Reach::Awaited | Reach::Asked) && status.conditions.is_true(READY);
            let ready = (!stays_up).then(|| reachable(&mut status, tunnel, want, &reach, hindered));
            match ready.unwrap_or(Ok(())) {
                Ok(()) if stays_up => {}
                Ok(()) => set(&mut status, tunnel, READY, true, "Up", sentence),
                Err((truth, reason, message)) => set(&mut status, tunnel, READY, truth, reason, message),
            }
            last_known(&mut status, tunnel, doubt);
            failover::set_condition(&mut status, state, tunnel);
            routed(&mut status, state, tunnel, want, located);
            underlay(&mut status, tunnel, arp_off);
            segment_size(&mut status, tunnel, unclamped);
        }
        compile::Verdict::Down(trouble) => {
            // Nobody observes these while it is down.
            for kind in [ROUTED, UNDERLAY, SEGMENT_SIZE, REACHABLE, LAST_KNOWN, FAILOVER] {
                status.conditions.remove(kind);
            }
            status.round_trip = None;
            status.standbys.clear();
            for kind in [PROGRAMMED, READY] {
                set(&mut status, tunnel, kind, false, trouble.reason(), trouble.to_string());
            }
        }
        // A look that fails says nothing of the tunnel: what was down is, and what was up may be.
        compile::Verdict::Unseen(trouble) => {
            let ready = status.conditions.get(READY);
            // Whoever refuses says it in other words each time; the first will do.
            if ready.is_some_and(|ready| ready.status == Truth::Unknown && ready.reason == trouble.reason()) {
                return None;
            }
            let was_down = ready.is_none_or(|ready| ready.status == Truth::False || ready.reason == PROBING);
            let truth = if was_down { Truth::False } else { Truth::Unknown };
            if !was_down {
                set(&mut status, tunnel, REACHABLE, Truth::Unknown, trouble.reason(), trouble.to_string());
            }
            for kind in [PROGRAMMED, READY] {
                set(&mut status, tunnel, kind, truth, trouble.reason(), trouble.to_string());
            }
        }
        compile::Verdict::Awaited => return None,
    }
    ends::set_condition(&mut status, state, tunnel);
    failover::set_what_stayed(&mut status, state, tunnel);
    Some(status)
}

/// Whether there is nothing to say beside what is said, until more is heard of the peer.
fn is_said(tunnel: &Tunnel, reach: &Reach) -> bool {
    let conditions = &tunnel.status.conditions;
    let is_now = |it: &Condition| it.is_true() && it.observed_generation == Some(tunnel.generation);
    matches!(reach, Reach::Awaited | Reach::Asked) && conditions.get(PROGRAMMED).is_some_and(is_now)
}

fn fill(
    status: &mut TunnelStatus,
    state: &State,
    want: &TunnelWant,
    gateway: &GatewayName,
    located: &Located,
    in_doubt: bool,
) {
    let peer = (Some(want.remote.to_string()), Some(want.remote_range.to_string()));
    status.answered_behind &= peer == (status.remote_ip.clone(), status.remote_globalnet.clone());
    status.initialized = true;
    status.internal_ip = Some(want.local.to_string());
    status.remote_ip = Some(want.remote.to_string());
    status.interface_addr = Some(want.address.to_string());
    status.kind = Some(want.kind.as_str().into());
    status.gateway = Some(gateway.to_string());
    status.remote_globalnet = Some(want.remote_range.to_string());
    status.ovn_gw_ip = Some(located.router.to_string());
    // What is last known stays what it is while it is used.
    if !in_doubt {
        status.globalnet = Some(want.own.to_string());
        status.egress = state.own.egress().iter().map(ToString::to_string).collect();
    }
}

/// Whether the tunnel rests on what was last known.
fn last_known(status: &mut TunnelStatus, tunnel: &Tunnel, doubt: Option<&Trouble>) {
    let Some(doubt) = doubt else { return status.conditions.remove(LAST_KNOWN) };
    let message = format!("the tunnel goes on with what was last known: {doubt}");
    set(status, tunnel, LAST_KNOWN, true, doubt.reason(), message);
}

fn up_sentence(state: &State, want: &TunnelWant, gateway: &GatewayName) -> String {
    let EgressRange { first, last } = want.egress;
    let mut text = format!(
        "{} leads to {} through {} at {}; sources appear there as {first} to {last}",
        want.kind.as_str(),
        want.remote_range,
        gateway,
        want.remote
    );
    let given = state.own.egress().len();
    let used = want.egress.len() as usize;
    if used < given {
        text += &format!(" ({used} of {given} egress addresses: the others are not contiguous with them)");
    }
    text
}

/// Whether the VPC's router sends the far range to this gateway. We never add that route.
fn routed(status: &mut TunnelStatus, state: &State, tunnel: &Tunnel, want: &TunnelWant, located: &Located) {
    let range = want.remote_range;
    let known = located.vpc.as_deref().zip(located.lan);
    let known = known.and_then(|(vpc, lan)| Some((vpc, lan, state.leads(vpc, range, lan)?)));
    match known {
        None => status.conditions.remove(ROUTED),
        Some((vpc, lan, true)) => {
            set(status, tunnel, ROUTED, true, "StaticRoute", format!("Vpc {vpc} leads {range} to {lan}"));
        }
        Some((vpc, lan, false)) => {
            let message = format!(
                "no static route of Vpc {vpc} leads {range} to {lan}; add one, or workloads cannot reach the tunnel"
            );
            set(status, tunnel, ROUTED, false, "NoStaticRoute", message);
        }
    }
}

fn underlay(status: &mut TunnelStatus, tunnel: &Tunnel, arp_off: bool) {
    if arp_off {
        let message = "net1 of the gateway has ARP switched off, as kube-ovn 1.12 leaves it until the gateway's \
                       first EIP: give it an IptablesEIP, or the peer cannot be reached";
        set(status, tunnel, UNDERLAY, false, "ArpOff", message.into());
    } else {
        status.conditions.remove(UNDERLAY);
    }
}

fn segment_size(status: &mut TunnelStatus, tunnel: &Tunnel, unclamped: Option<&str>) {
    let Some(why) = unclamped else { return status.conditions.remove(SEGMENT_SIZE) };
    let message = format!(
        "TCP may use segments that are too large for the tunnel, and stalls where ICMP is filtered: {why}"
    );
    set(status, tunnel, SEGMENT_SIZE, false, "NotFitted", message);
}

fn set(
    status: &mut TunnelStatus,
    tunnel: &Tunnel,
    kind: &'static str,
    truth: impl Into<Truth>,
    reason: &str,
    message: String,
) {
    status.conditions.set(kind, truth, reason, message, tunnel.generation);
}
