//! Whether a tunnel by VPC would survive the loss of its gateway.

use super::{FAILOVER, SWITCHED_PARTLY, TunnelStatus, set};
use crate::names::GatewayName;
use crate::vpc::objects::Tunnel;
use crate::vpc::outcome::Trouble;
use crate::vpc::state::State;

/// Says what a switch on purpose left with the gateway that was the main one.
pub(super) fn set_what_stayed(status: &mut TunnelStatus, state: &State, tunnel: &Tunnel) {
    let stayed = tunnel.local_vpc().and_then(|vpc| Some((vpc, state.stayed(vpc)?)));
    let Some((vpc, stayed)) = stayed else { return status.conditions.remove(SWITCHED_PARTLY) };
    set(status, tunnel, SWITCHED_PARTLY, true, stayed.reason(), stayed.sentence(vpc));
}

/// Says which gateway would take a tunnel over, or why none would.
pub(super) fn set_condition(status: &mut TunnelStatus, state: &State, tunnel: &Tunnel) {
    let known = tunnel.local_vpc().and_then(|vpc| Some((vpc, state.main(vpc)?)));
    status.standbys.clear();
    let Some((vpc, main)) = known else { return status.conditions.remove(FAILOVER) };
    let gateway = &main.gateway;
    // Who has not been looked at since somebody else leads, or cannot be, is what it was.
    let unseen = |name: &GatewayName| match state.outcome(name).map(|outcome| &outcome.result) {
        None => true,
        Some(result) => result.as_ref().is_err_and(Trouble::is_blindness),
    };
    let is_said = status.conditions.get(FAILOVER).is_some();
    if is_said && !main.standbys.is_empty() && main.standbys.iter().all(unseen) {
        return;
    }
    let (truth, reason, mut message) = if main.hands_off {
        let message = format!(
            "kube-ovn itself fails over between several pods of a gateway of VPC {vpc}, so its routes are left to kube-ovn; flows \
             that it sends to a pod without the tunnel are lost"
        );
        (false, "KubeOvnFailsOver", message)
    } else {
        let ready = main.standbys.iter().filter(|name| state.is_built(name, &tunnel.key) == Some(true));
        status.standbys = ready.map(ToString::to_string).collect();
        match (status.standbys.first(), main.standbys.first()) {
            (Some(standby), _) => (
                true,
                "StandbyReady",
                format!("gateway {standby} holds the tunnel too and takes over if {gateway} is lost"),
            ),
            (None, Some(standby)) => (
                false,
                "StandbyNotReady",
                format!(
                    "gateway {standby} would take over if {gateway} is lost, but does not hold the tunnel yet"
                ),
            ),
            (None, None) => (
                false,
                "NoStandby",
                format!("no other gateway of VPC {vpc} is ready to take over if {gateway} is lost"),
            ),
        }
    };
    if !main.fit {
        message = format!("gateway {gateway} is not ready and nobody could do better: {message}");
    }
    if let Some(why) = &main.waiting {
        message = format!("{message}; the switch that is asked for waits: {why}");
    }
    set(status, tunnel, FAILOVER, truth, reason, message);
}
