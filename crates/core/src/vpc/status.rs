//! What a tunnel object says of itself, as values; writing it is somebody else's job.

use super::compile;
use super::ends;
use super::gateways::Located;
use super::objects::{Ends, Tunnel};
use super::outcome::Trouble;
use super::state::State;
use super::want::{EgressRange, TunnelWant};
use crate::condition::Conditions;
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
    /// The generation that all this is about.
    pub observed_generation: Option<i64>,
    /// The conditions, others' too.
    pub conditions: Conditions,
}

/// The condition that says whether a tunnel carries traffic.
pub const READY: &str = "Ready";
/// Whether the VPC leads traffic to the gateway.
pub const ROUTED: &str = "Routed";
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
        (false, false) if compile::is_buildable(tunnel) => Finalizer::Add,
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
    if let Ok(spec) = &tunnel.spec {
        status.peer = Some(match &spec.ends {
            Ends::ByGateway { peer, .. } => peer.to_string(),
            Ends::ByVpc { cluster, remote, .. } => format!("{cluster}/{remote}"),
        });
    }
    match verdict {
        compile::Verdict::Up { want, gateway, located, arp_off, unclamped } => {
            fill(&mut status, state, want, gateway, located);
            set(&mut status, tunnel, READY, true, "Up", up_sentence(state, want, gateway));
            routed(&mut status, state, tunnel, want, located);
            underlay(&mut status, tunnel, arp_off);
            segment_size(&mut status, tunnel, unclamped);
        }
        compile::Verdict::Down(trouble) => {
            // Nobody observes these while it is down.
            for kind in [ROUTED, UNDERLAY, SEGMENT_SIZE] {
                status.conditions.remove(kind);
            }
            set(&mut status, tunnel, READY, false, trouble.reason(), trouble.to_string());
        }
        compile::Verdict::Awaited => return None,
    }
    ends::set_condition(&mut status, state, tunnel);
    Some(status)
}

fn fill(
    status: &mut TunnelStatus,
    state: &State,
    want: &TunnelWant,
    gateway: &GatewayName,
    located: &Located,
) {
    status.initialized = true;
    status.internal_ip = Some(want.local.to_string());
    status.remote_ip = Some(want.remote.to_string());
    status.interface_addr = Some(want.address.to_string());
    status.kind = Some(want.kind.as_str().into());
    status.gateway = Some(gateway.to_string());
    status.globalnet = state.own.globalnet().map(|range| range.to_string());
    status.remote_globalnet = Some(want.remote_range.to_string());
    status.ovn_gw_ip = Some(located.router.to_string());
    status.egress = state.own.egress().iter().map(ToString::to_string).collect();
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

/// Whether the VPC's router sends the far range to this gateway. We never add that route in this form.
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
    truth: bool,
    reason: &str,
    message: String,
) {
    status.conditions.set(kind, truth, reason, message, tunnel.generation);
}
