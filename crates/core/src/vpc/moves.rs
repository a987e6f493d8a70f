//! What is news of a peer that a tunnel already leads to: that it is somewhere else now.

use super::status::TunnelStatus;

/// The reason of the event.
pub const PEER_MOVED: &str = "PeerMoved";

/// What changed of the peer between two statuses, in a sentence; nothing if the tunnel was not built before, or leads
/// to another peer because somebody said so.
pub fn peer_moved(before: &TunnelStatus, after: &TunnelStatus) -> Option<String> {
    let peer = after.peer.as_ref().filter(|peer| before.peer.as_ref() == Some(peer))?;
    let change = |what: &str, before: &Option<String>, after: &Option<String>| {
        let (before, after) =
            before.as_ref().zip(after.as_ref()).filter(|(before, after)| before != after)?;
        Some(format!("{what} from {before} to {after}"))
    };
    let changes = [
        change("its address", &before.remote_ip, &after.remote_ip),
        change("its range", &before.remote_globalnet, &after.remote_globalnet),
    ];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    (!changes.is_empty()).then(|| format!("peer {peer} changed {}", changes.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(peer: &str, address: &str, range: &str) -> TunnelStatus {
        TunnelStatus {
            peer: Some(peer.into()),
            remote_ip: Some(address.into()),
            remote_globalnet: Some(range.into()),
            ..TunnelStatus::default()
        }
    }

    #[test]
    fn a_peer_that_is_elsewhere_is_news_and_another_peer_is_none() {
        let before = built("c2/gw1", "172.50.16.21", "242.1.0.0/16");
        for (after, news) in [
            (before.clone(), None),
            (
                built("c2/gw1", "172.50.16.31", "242.1.0.0/16"),
                Some("peer c2/gw1 changed its address from 172.50.16.21 to 172.50.16.31"),
            ),
            (
                built("c2/gw1", "172.50.16.31", "242.2.0.0/16"),
                Some(
                    "peer c2/gw1 changed its address from 172.50.16.21 to 172.50.16.31, \
                     its range from 242.1.0.0/16 to 242.2.0.0/16",
                ),
            ),
            (built("c3/gw1", "172.50.16.31", "242.2.0.0/16"), None),
        ] {
            assert_eq!(peer_moved(&before, &after).as_deref(), news);
        }
        assert_eq!(peer_moved(&TunnelStatus::default(), &before), None, "it comes up for the first time");
    }
}
