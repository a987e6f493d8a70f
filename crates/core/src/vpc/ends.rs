//! Whether both ends of a tunnel are declared alike.
//!
//! Each cluster publishes what it knows of its ends ([`super::published`]); here ours is compared with the peer's, so
//! that a mistyped number is said in plain words on both sides, before anybody looks for lost packets. A peer that
//! publishes no ends, as other operators do not, is not judged. What one end says is compared with all that may be its
//! peer's: anybody who can write at the broker can write one more, and must neither hide the true one nor speak for it unnamed.

use std::fmt;

use super::compile;
use super::objects::{Far, Place, Tunnel};
use super::pairing::{Mine, compare, pair};
use super::state::State;
use super::status::TunnelStatus;
use super::want::TunnelKind;
use crate::condition::Truth;
use crate::names::{HostAddr, ObjectKey};

/// The condition that says whether the peer's end is declared like ours.
pub const PEER_AGREES: &str = "PeerAgrees";
/// The reason where more than one end of the peer's may be the other one of a tunnel, and not all of them fit.
pub const SEVERAL_ENDS: &str = "SeveralEnds";
/// Between two gateways or VPCs with more ends than this none is compared.
const COMPARED: usize = 100;

/// What an end says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Says {
    /// The encapsulation.
    pub kind: TunnelKind,
    /// The largest packet that fits in, once known.
    pub mtu: Option<u32>,
    /// The address on the link.
    pub address: HostAddr,
}

/// An end that somebody has published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// What it is called at the broker.
    pub name: String,
    /// The version last seen.
    pub resource_version: String,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Whose gateway or VPC it is on, and which: its cluster is the one that published it.
    pub on: Far,
    /// Where the tunnel leads.
    pub to: Far,
    /// The tunnel at home.
    pub tunnel: ObjectKey,
    /// What it says of itself.
    pub says: Says,
}

/// How our end compares with the peer's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agreement {
    /// The broker has not been seen yet, as after a start while it is away.
    NotSeen,
    /// The peer has published no ends: it may be another operator.
    NotJudged,
    /// It has, but none of this tunnel.
    NotSaid,
    /// They fit together.
    Agreed,
    /// They do not, in these words.
    Mismatch(String),
    /// Several may be the peer's end, and only some of them fit.
    Several(String),
    /// There are so many that none is compared.
    TooMany(String),
}

/// What two ends do not agree on; nothing if they fit together.
pub fn mismatch(ours: &Says, peer: &Far, theirs: &Says) -> Option<String> {
    let mut words = Vec::new();
    match (ours.kind, theirs.kind) {
        (TunnelKind::Vxlan { vni, port }, TunnelKind::Vxlan { vni: other, port: elsewhere }) => {
            if vni != other {
                words.push(format!("this end is VXLAN {vni}, {peer} says {other}"));
            }
            if port != elsewhere {
                words.push(format!("this end uses UDP port {port}, {peer} says {elsewhere}"));
            }
        }
        (TunnelKind::Gre, TunnelKind::Gre) => {}
        (one, other) => words.push(format!("this end is {}, {peer} says {}", Called(one), Called(other))),
    }
    if let Some((mtu, other)) = ours.mtu.zip(theirs.mtu).filter(|(mtu, other)| mtu != other) {
        words.push(format!("this end's MTU is {mtu}, {peer} says {other}"));
    }
    if ours.address.address() == theirs.address.address() {
        words.push(format!("this end's inner address is {}, and {peer} says it has the same", ours.address));
    } else if ours.address.network() != theirs.address.network() {
        let (here, there) = (ours.address, theirs.address);
        words.push(format!(
            "this end's inner address is {here}, {peer} says {there}, which is of another net"
        ));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// An encapsulation as people call it.
struct Called(TunnelKind);

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TunnelKind::Vxlan { vni, .. } => write!(f, "VXLAN {vni}"),
            TunnelKind::Gre => f.write_str("GRE"),
        }
    }
}

/// How a tunnel of ours compares with what its peer has published.
pub(super) fn agreement(state: &State, tunnel: &Tunnel) -> Agreement {
    if !state.ends.is_listed() {
        return Agreement::NotSeen;
    }
    let Some((here, peer, ours)) = declared(state, tunnel) else { return Agreement::NotJudged };
    let cluster = peer.cluster();
    if !state.ends.has_any_of(cluster) {
        return Agreement::NotJudged;
    }
    // Whoever publishes so many may have put them in front of the one that counts.
    if let Some(limit) = state.ends.exceeded(cluster) {
        return Agreement::TooMany(format!("cluster {cluster} has published more than {limit} ends"));
    }
    let theirs: Vec<&End> = state.ends.between(&here, &peer).take(COMPARED + 1).collect();
    let siblings: Vec<Mine<'_>> = siblings(state, &here, &peer)
        .filter_map(|tunnel| Some((&tunnel.key, tunnel.spec.as_ref().ok()?.kind)))
        .take(COMPARED + 1)
        .collect();
    if theirs.len().max(siblings.len()) > COMPARED {
        return Agreement::TooMany(format!("there are more than {COMPARED} ends between {here} and {peer}"));
    }
    let (pairs, left) = pair(&siblings, &theirs);
    let mine = pairs.get(&tunnel.key).into_iter().flatten().chain(&left).copied();
    compare(&ours, &peer, mine)
}

/// Our tunnels between two gateways or VPCs, but for those that are being deleted.
pub(super) fn siblings<'a>(
    state: &'a State,
    here: &'a Place,
    peer: &Far,
) -> impl Iterator<Item = &'a Tunnel> {
    let tunnels = state.tunnels.to(peer).filter_map(|key| state.tunnels.get(key));
    tunnels.filter(move |tunnel| {
        !tunnel.deleting && tunnel.spec.as_ref().is_ok_and(|spec| spec.ends.near() == *here)
    })
}

/// What can be said of our end of a tunnel, and between whom it is.
pub(super) fn declared(state: &State, tunnel: &Tunnel) -> Option<(Place, Far, Says)> {
    let spec = tunnel.spec.as_ref().ok()?;
    // Of one by VPC the link is the same on all gateways but for its MTU, and packets go through the main one.
    let gateway = state.gateway_of(tunnel);
    let outcome = gateway.and_then(|gateway| compile::current(state, gateway));
    let visit = outcome.and_then(|outcome| outcome.result.as_ref().ok());
    let mtu = visit.and_then(|visit| visit.mtus.get(&tunnel.key)).copied();
    Some((spec.ends.near(), spec.ends.far(), Says { kind: spec.kind, mtu, address: spec.address }))
}

/// Says on a tunnel's status how its ends compare.
pub(super) fn set_condition(status: &mut TunnelStatus, state: &State, tunnel: &Tunnel) {
    let peer = status.peer.clone().unwrap_or_default();
    let (truth, reason, message) = match agreement(state, tunnel) {
        // What was said before stands.
        Agreement::NotSeen => return,
        Agreement::NotJudged => return status.conditions.remove(PEER_AGREES),
        Agreement::Agreed => (Truth::True, "Agreed", format!("{peer} has declared its end like this one")),
        Agreement::Mismatch(words) => (Truth::False, "PeerMismatch", words),
        Agreement::Several(words) => {
            let message = format!(
                "more than one end at the broker may be the other one of this tunnel, so either a tunnel is missing here, or \
                 somebody writes there in the name of {peer}: {words}"
            );
            (Truth::Unknown, SEVERAL_ENDS, message)
        }
        Agreement::TooMany(what) => {
            (Truth::Unknown, SEVERAL_ENDS, format!("{what}, so they are not compared"))
        }
        Agreement::NotSaid => {
            let message =
                format!("{peer} has published no end of this tunnel; its cluster does publish others");
            (Truth::Unknown, "NotSaid", message)
        }
    };
    status.conditions.set(PEER_AGREES, truth, reason, message, tunnel.generation);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Far {
        let (cluster, gateway) = text.split_once('/').expect("cluster/gateway");
        Far::at(cluster.parse().expect("an id"), Place::Gateway(gateway.parse().expect("a name")))
    }

    fn vxlan(vni: u32, port: u16, mtu: u32, address: &str) -> Says {
        let kind = TunnelKind::Vxlan { vni, port };
        Says { kind, mtu: Some(mtu), address: address.parse().expect("an address") }
    }

    fn gre(address: &str) -> Says {
        Says { kind: TunnelKind::Gre, mtu: None, address: address.parse().expect("an address") }
    }

    #[test]
    fn what_does_not_fit_together_is_said_in_plain_words() {
        let ours = vxlan(101, 4789, 1450, "10.100.0.1/24");
        for (theirs, words) in [
            (vxlan(101, 4789, 1450, "10.100.0.2/24"), None),
            (Says { mtu: None, ..vxlan(101, 4789, 0, "10.100.0.2/24") }, None),
            (vxlan(100, 4789, 1450, "10.100.0.2/24"), Some("this end is VXLAN 101, c2/gw1 says 100")),
            (vxlan(101, 8472, 1450, "10.100.0.2/24"), Some("this end uses UDP port 4789, c2/gw1 says 8472")),
            (gre("10.100.0.2/24"), Some("this end is VXLAN 101, c2/gw1 says GRE")),
            (vxlan(101, 4789, 1400, "10.100.0.2/24"), Some("this end's MTU is 1450, c2/gw1 says 1400")),
            (
                vxlan(101, 4789, 1450, "10.100.0.1/24"),
                Some("this end's inner address is 10.100.0.1/24, and c2/gw1 says it has the same"),
            ),
            (
                vxlan(101, 4789, 1450, "10.101.0.2/24"),
                Some(
                    "this end's inner address is 10.100.0.1/24, c2/gw1 says 10.101.0.2/24, which is of another net",
                ),
            ),
            (
                vxlan(101, 4789, 1450, "10.100.0.2/30"),
                Some(
                    "this end's inner address is 10.100.0.1/24, c2/gw1 says 10.100.0.2/30, which is of another net",
                ),
            ),
            (
                vxlan(100, 8472, 1450, "10.100.0.2/24"),
                Some("this end is VXLAN 101, c2/gw1 says 100; this end uses UDP port 4789, c2/gw1 says 8472"),
            ),
        ] {
            assert_eq!(mismatch(&ours, &peer("c2/gw1"), &theirs).as_deref(), words);
        }
        assert_eq!(mismatch(&gre("10.100.0.1/30"), &peer("c2/gw1"), &gre("10.100.0.2/30")), None);
    }
}
