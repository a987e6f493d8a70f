//! Why an end cannot be built, in the controller's words: which hop each reason is about, and what to do.

use causeway_core::vpc::objects::Ends;
use causeway_core::vpc::status::READY;

use super::facts::End;
use super::finding::{Finding, Hop};

/// Which hop a reason of the controller's is about, and what to do about it.
fn about(reason: &str, by_vpc: bool) -> (Hop, &'static str) {
    match reason {
        "ClusterIncomplete" => {
            (Hop::Object, "mend Submariner's objects of this cluster, or give the controller the flags named")
        }
        "PeerUnknown" if by_vpc => (
            Hop::Record,
            "check remoteCluster and remoteVpc; has that VPC a gateway that is ready, is its cluster joined to the broker?",
        ),
        "PeerUnknown" => (
            Hop::Record,
            "check clusterId and gatewayName; is that gateway ready, is its cluster joined to the broker?",
        ),
        "PeerInvalid" => {
            (Hop::Record, "correct it in the peer's cluster: records are written by its controller")
        }
        "ClusterIdTaken" => (Hop::Object, "give one of the two clusters another id"),
        "PeerIdContested" => (
            Hop::Record,
            "give one of the two clusters another id; a Lease that is neither's can be deleted at the broker (docs/trust.md)",
        ),
        "RangeOverlap" | "ClustersOverlap" => {
            (Hop::Record, "change the globalnet of one of the two clusters")
        }
        "GatewayNotFound" => {
            (Hop::Gateway, "check natGwDp; gateways have the label ovn.kubernetes.io/vpc-nat-gw=true")
        }
        "GatewayNotRunning" => (Hop::Gateway, "look at the gateway's StatefulSet and its pod's events"),
        "GatewayLost" => (Hop::Gateway, "look at that node"),
        "GatewayIncomplete" => (Hop::Gateway, "look at kube-ovn's log: it gives gateways their addresses"),
        "LinkNameConflict" | "VniConflict" | "EndpointConflict" | "RemoteRangeConflict" => {
            (Hop::Object, "change or delete one of the two tunnels")
        }
        "NamespaceNotAllowed" => (Hop::Object, "add the namespace to the Vpc, or move the tunnel"),
        "VpcWithoutGateway" => (
            Hop::Gateway,
            "see why no gateway of the VPC is ready: kubectl get vpc-nat-gw, kubectl get pods -n kube-system -l ovn.kubernetes.io/vpc-nat-gw=true",
        ),
        _ => (Hop::Object, "correct the object as the message says"),
    }
}

/// What only the controller knows, by the claims at the broker or by its flags: nothing else here can show it.
const KNOWN_TO_IT_ALONE: [&str; 3] = ["ClusterIdTaken", "PeerIdContested", "NamespaceNotAllowed"];

/// Why the end cannot be built, if that is about this hop: as the object says it, or as it is seen from here.
pub(super) fn trouble(end: &End, finding: &Finding) -> Option<Finding> {
    let ready = end.tunnel.status.conditions.get(READY).filter(|ready| !ready.is_true());
    let said = ready.filter(|ready| KNOWN_TO_IT_ALONE.contains(&ready.reason.as_str()));
    let said = said.map(|ready| (ready.reason.as_str(), ready.message.as_str()));
    let seen = end.trouble.as_ref().map(|trouble| (trouble.reason.as_str(), trouble.message.as_str()));
    let (reason, message) = said.or(seen)?;
    let by_vpc = end.tunnel.spec.as_ref().is_ok_and(|spec| matches!(spec.ends, Ends::ByVpc { .. }));
    let (hop, remedy) = about(reason, by_vpc);
    (hop == finding.hop).then(|| finding.clone().broken(format!("{reason}: {message}"), remedy))
}
