//! Whether packets cross a tunnel that has all it needs, in words.

use super::super::objects::Tunnel;
use super::super::outcome::Hindrance;
use super::super::reach::{Reach, steady};
use super::super::want::{TunnelKind, TunnelWant};
use super::{
    ANSWERED, PEER_ANSWERED, PROBING, REACHABLE, ROUTED_ELSEWHERE, SILENT_BEHIND, TunnelStatus, set,
};
use crate::condition::Truth;

/// Whether the peer answers; if a tunnel that has all it needs is not ready, why.
pub(super) fn reachable(
    status: &mut TunnelStatus,
    tunnel: &Tunnel,
    want: &TunnelWant,
    reach: &Reach,
    hindered: Option<&Hindrance>,
) -> Result<(), (Truth, &'static str, String)> {
    let peer = status.peer.clone().unwrap_or_default();
    let answered = match reach {
        Reach::Answers { micros, .. } => micros.map(|micros| micros.div_ceil(1000)),
        _ => None,
    };
    status.answered_behind |= matches!(reach, Reach::Answers { behind: true, .. });
    // What stands there is no news while it is of that size: a controller that starts anew would write it otherwise.
    status.round_trip = answered.and(steady(status.round_trip, answered));
    let time = status.round_trip.map(|time| format!(" within about {time} ms")).unwrap_or_default();
    let (remote, range) = (want.remote, want.remote_range);
    let mut say = |truth: Truth, reason: &str, message: &str| {
        set(status, tunnel, REACHABLE, truth, reason, message.into());
    };
    let mut not_so = |truth: Truth, reason: &'static str, message: String| {
        say(truth, reason, &message);
        Err((truth, reason, message))
    };
    match reach {
        Reach::Answers { behind, .. } => {
            let (reason, what) = if *behind {
                (ANSWERED, "and so does what lies behind it")
            } else {
                (
                    PEER_ANSWERED,
                    "what lies behind it does not answer such questions, so the way there is not proven",
                )
            };
            say(Truth::True, reason, &format!("{peer} answers through the tunnel{time}; {what}"));
        }
        Reach::Awaited | Reach::Asked => {
            let message = format!("all is in place here, and {peer} has not answered yet");
            return not_so(Truth::Unknown, PROBING, message);
        }
        Reach::Unheard => {
            let message = "nobody on the gateway has said for a minute whether the peer answers".to_owned();
            let unheard = not_so(Truth::Unknown, "Unheard", message);
            // What is plainly in the way is so whoever answers.
            return hindered.map_or(unheard, |hindrance| Err(told(hindrance)));
        }
        Reach::NotAsked => say(
            Truth::Unknown,
            "NotAsked",
            "the peer cannot be asked through the tunnel from this gateway: its image may lack `ping`, or an `ip` that can",
        ),
        Reach::Silent => {
            let way = match want.kind {
                TunnelKind::Vxlan { vni, port } => {
                    format!(
                        "that UDP port {port} passes both ways, and that the other end has VNI {vni} on it too"
                    )
                }
                TunnelKind::Gre => "that GRE (IP protocol 47) passes both ways".into(),
            };
            return not_so(
                Truth::False,
                "PeerSilent",
                format!(
                    "all is in place here, and {peer} at {remote} does not answer through the tunnel: see that the other end is \
                     up, {way}"
                ),
            );
        }
        Reach::SilentBehind => {
            return not_so(
                Truth::False,
                SILENT_BEHIND,
                format!(
                    "{peer} answers, and what lies behind it no longer does: see that its gateway passes packets on (FORWARD), and \
                     that its VPC leads {} back to it",
                    want.own
                ),
            );
        }
        Reach::Astray(by) => {
            let whither =
                if by.is_empty() { "nowhere".into() } else { format!("by {by} and not into the tunnel") };
            let message = match hindered {
                Some(hindrance @ Hindrance::Led(_)) => told(hindrance).2,
                _ => format!("the gateway sends packets to {range} {whither}: `ip rule` there shows why"),
            };
            return not_so(Truth::False, ROUTED_ELSEWHERE, message);
        }
    }
    hindered.map_or(Ok(()), |hindrance| Err(told(hindrance)))
}

/// What keeps packets out, as a condition says it.
fn told(hindrance: &Hindrance) -> (Truth, &'static str, String) {
    let (reason, message) = match hindrance {
        Hindrance::Led(route) => (
            ROUTED_ELSEWHERE,
            format!(
                "the gateway has a route that is not ours ({route}), and packets there do not go where the tunnel needs them to; \
                 remove it, or let the net that it belongs to share no addresses with the clusters' ranges"
            ),
        ),
        Hindrance::Stopped { from, to, by } => (
            "ForwardDropped",
            format!("this gateway passes no packet on from {from} to {to}: `{by}` drops them all"),
        ),
    };
    (Truth::False, reason, message)
}
