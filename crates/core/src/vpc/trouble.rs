//! Why a tunnel is not up: each cause with the reason that conditions show and a sentence a person can act on.

use super::objects::Far;
use super::plan::Problem;
use crate::names::{ClusterId, GatewayName, Ipv4Cidr, ObjectKey};

/// What two tunnels of one gateway cannot both have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The name of the link.
    Link(String),
    /// VXLAN network identifier and port.
    Vni(u32, u16),
    /// Both ends of a keyless GRE tunnel; ours is the gateway's.
    GreEnd(std::net::Ipv4Addr),
    /// The range behind the peer.
    Range(Ipv4Cidr),
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Link(link) => write!(f, "the link name {link}"),
            Self::Vni(vni, port) => write!(f, "VNI {vni} on port {port}"),
            Self::GreEnd(remote) => write!(f, "a GRE tunnel to {remote}"),
            Self::Range(range) => write!(f, "the remote range {range}"),
        }
    }
}

/// Why a tunnel is not up, or cannot be cleaned away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The object cannot be understood.
    #[error("{0}")]
    Invalid(String),
    /// A VPC of ours has no gateway that could carry a tunnel.
    #[error(
        "VPC {0} has no gateway that is ready: no VpcNatGateway with that spec.vpc has a pod that is; the tunnel is built on the first that is"
    )]
    VpcWithoutGateway(String),
    /// A fact about our own cluster is missing.
    #[error("{0}")]
    ClusterIncomplete(String),
    /// Another cluster goes by our id.
    #[error(
        "another cluster claims the id {cluster} too, by Lease {by} at the broker; give one of them another id; the claim of a cluster that is no more runs out within minutes"
    )]
    ClusterIdTaken {
        /// The id.
        cluster: ClusterId,
        /// Its claim.
        by: String,
    },
    /// Two clusters go by the peer's id.
    #[error(
        "two clusters claim the id {cluster} at the broker, by Leases {one} and {other}, and nobody can tell which of them is right, so no address or range that is published under it is taken; give one of them another id; the claim of a cluster that is no more runs out within minutes"
    )]
    PeerIdContested {
        /// The id.
        cluster: ClusterId,
        /// A claim to it.
        one: String,
        /// Another.
        other: String,
    },
    /// It is not known who goes by the peer's id.
    #[error(
        "the record of {peer} is another than the tunnel was built with, and whether only one cluster claims the id {} at the broker is not known yet; it counts when that is, within minutes of the broker's answer",
        peer.cluster()
    )]
    ClaimsUnknown {
        /// The peer.
        peer: Far,
    },
    /// There is no such gateway.
    #[error(
        "there is no gateway {0} in this cluster: no workload labelled ovn.kubernetes.io/vpc-nat-gw=true runs it"
    )]
    GatewayNotFound(GatewayName),
    /// The gateway has no running pod.
    #[error("gateway {gateway} is not running: {why}")]
    GatewayNotRunning {
        /// The gateway.
        gateway: GatewayName,
        /// What its pod is doing instead.
        why: String,
    },
    /// The gateway's node has been silent for long.
    #[error("gateway {gateway} is lost: its node {node} does not report")]
    GatewayLost {
        /// The gateway.
        gateway: GatewayName,
        /// The node.
        node: String,
    },
    /// The gateway lacks an annotation or the like.
    #[error("{0}")]
    GatewayIncomplete(String),
    /// No record of the peer is here.
    #[error("{}", absent(.0, *.1))]
    PeerUnknown(Far, Absence),
    /// The peer's record makes no sense.
    #[error("the record of {} cannot be used: {why}", peer.named())]
    PeerInvalid {
        /// The peer.
        peer: Far,
        /// What is wrong with it.
        why: String,
    },
    /// The peer claims addresses that are ours.
    #[error(
        "cluster {cluster} claims {theirs}, which overlaps this cluster's own {ours}; one of them must change its globalnet"
    )]
    RangeOverlap {
        /// The peer's cluster.
        cluster: ClusterId,
        /// Its range.
        theirs: Ipv4Cidr,
        /// Our range.
        ours: Ipv4Cidr,
    },
    /// Two other clusters claim the same addresses.
    #[error(
        "clusters {cluster} and {other} both claim addresses of {theirs} ({other}: {others}), and nobody can tell which of them is right; one of them must change its globalnet"
    )]
    ClustersOverlap {
        /// The peer's cluster.
        cluster: ClusterId,
        /// Its range.
        theirs: Ipv4Cidr,
        /// The other one.
        other: ClusterId,
        /// What that claims.
        others: Ipv4Cidr,
    },
    /// The tunnel is in a namespace that its gateway's VPC is not for.
    #[error("{0}")]
    NamespaceNotAllowed(String),
    /// An older tunnel has what this one needs.
    #[error("{claim} is already taken on this gateway by the older tunnel {by}")]
    Conflict {
        /// What both want.
        claim: Claim,
        /// Who has it.
        by: ObjectKey,
    },
    /// Something foreign stands in the gateway where ours must go.
    #[error("{}", in_the_way(.0))]
    InTheWay(Problem),
    /// The gateway's kernel does not know the encapsulation.
    #[error(
        "the gateway's kernel cannot make {0} links (its module is missing); load it on the node, or use another type"
    )]
    KernelLacksTunnelType(String),
    /// The gateway's image lacks a tool.
    #[error(
        "the gateway's container has no `{0}`; use the kube-ovn vpc-nat-gateway image or one that has it"
    )]
    ToolMissing(String),
    /// The API server or the kubelet refused to run a command.
    #[error("commands cannot be run in the gateway: {0}")]
    ExecRefused(String),
    /// A command did not come back.
    #[error("a command in the gateway did not finish within {0} s")]
    ExecTimedOut(u64),
    /// A command failed.
    #[error("the gateway refused: {0}")]
    CommandFailed(String),
}

/// Why there is no record of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Its cluster has published none, as far as is known.
    NotPublished,
    /// The broker lost it, with everything else that it had.
    BrokerEmptied,
    /// Its cluster has published more than this many, and only so many are brought here.
    TooMany(usize),
}

fn absent(peer: &Far, absence: Absence) -> String {
    let (cluster, it) = (peer.cluster(), peer.called());
    let what = match peer {
        Far::Gateway(_) => "is the gateway ready there",
        Far::Vpc { .. } => "has it a gateway that is ready there",
    };
    match absence {
        Absence::NotPublished => format!(
            "cluster {cluster} has published no {it}: is the name right, {what}, and is that cluster joined to the broker? What the tunnel had stays as it is"
        ),
        Absence::BrokerEmptied => format!(
            "the broker lost the record of {} and all others at once, as when its namespace is deleted; what the tunnel had stays as it is, and cluster {cluster} publishes anew as soon as it can write there",
            peer.named()
        ),
        Absence::TooMany(limit) => format!(
            "cluster {cluster} has published {it}, but more than {limit} records, and only the first {limit} by name are brought here (--records-per-member); what the tunnel had stays as it is"
        ),
    }
}

fn in_the_way(problem: &Problem) -> String {
    match problem {
        Problem::NameTaken { link } => {
            format!(
                "link {link} of the gateway is not ours and stands in the way; remove it, or name the tunnel otherwise"
            )
        }
        Problem::Overlap { what, with } => {
            format!(
                "{what} shares addresses with {with}; nothing is built on it, and what there was stays as it is"
            )
        }
        Problem::RouteTaken { range, route } => {
            format!(
                "the gateway has a route to {range} that is not ours ({route}); remove it to let the tunnel have it"
            )
        }
    }
}

impl Trouble {
    /// The reason that conditions and events show.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "InvalidSpec",
            Self::VpcWithoutGateway(_) => "VpcWithoutGateway",
            Self::ClusterIncomplete(_) => "ClusterIncomplete",
            Self::ClusterIdTaken { .. } => "ClusterIdTaken",
            Self::PeerIdContested { .. } => "PeerIdContested",
            Self::ClaimsUnknown { .. } => "ClaimsUnknown",
            Self::GatewayNotFound(_) => "GatewayNotFound",
            Self::GatewayNotRunning { .. } => "GatewayNotRunning",
            Self::GatewayLost { .. } => "GatewayLost",
            Self::GatewayIncomplete(_) => "GatewayIncomplete",
            Self::PeerUnknown(..) => "PeerUnknown",
            Self::PeerInvalid { .. } => "PeerInvalid",
            Self::RangeOverlap { .. } => "RangeOverlap",
            Self::ClustersOverlap { .. } => "ClustersOverlap",
            Self::NamespaceNotAllowed(_) => "NamespaceNotAllowed",
            Self::Conflict { claim: Claim::Link(_), .. } => "LinkNameConflict",
            Self::Conflict { claim: Claim::Vni(..), .. } => "VniConflict",
            Self::Conflict { claim: Claim::GreEnd(_), .. } => "EndpointConflict",
            Self::Conflict { claim: Claim::Range(_), .. } => "RemoteRangeConflict",
            Self::InTheWay(Problem::NameTaken { .. }) => "NameTaken",
            Self::InTheWay(Problem::RouteTaken { .. }) => "RouteTaken",
            Self::InTheWay(Problem::Overlap { .. }) => "AddressConflict",
            Self::KernelLacksTunnelType(_) => "KernelLacksTunnelType",
            Self::ToolMissing(_) => "ToolMissing",
            Self::ExecRefused(_) => "ExecRefused",
            Self::ExecTimedOut(_) => "ExecTimedOut",
            Self::CommandFailed(_) => "CommandFailed",
        }
    }

    /// Whether a reason to be down is a stage of an ordinary day and no alarm: a peer that has never been known is still
    /// awaited, and a gateway's pod may be replaced at any time. Their sentence is said either way.
    pub fn is_routine(reason: &str, was_up_before: bool) -> bool {
        match reason {
            "PeerUnknown" => !was_up_before,
            "GatewayNotRunning" => true,
            _ => false,
        }
    }

    /// Whether it is about what peers say of themselves, and another's peer says too.
    pub(super) fn is_of_peer(&self) -> bool {
        matches!(self, Self::Conflict { claim: Claim::Range(_) | Claim::GreEnd(_), .. })
    }

    /// Whether it says that something is not known, or not to be believed, while a tunnel that was up with what was known
    /// before may go on with that.
    pub(super) fn is_doubt(&self) -> bool {
        matches!(
            self,
            Self::ClusterIncomplete(_)
                | Self::ClusterIdTaken { .. }
                | Self::PeerIdContested { .. }
                | Self::ClaimsUnknown { .. }
                | Self::PeerUnknown(..)
                | Self::PeerInvalid { .. }
                | Self::RangeOverlap { .. }
                | Self::ClustersOverlap { .. }
        )
    }

    /// Whether it says that a gateway could not be looked at, which says nothing of its tunnels.
    pub fn is_blindness(&self) -> bool {
        matches!(self, Self::ExecRefused(_) | Self::ExecTimedOut(_) | Self::CommandFailed(_))
    }

    /// Whether what the tunnel already has should stay: a fact is missing, nothing speaks against it.
    pub(super) fn freezes(&self) -> bool {
        match self {
            Self::Invalid(_)
            | Self::ClusterIncomplete(_)
            | Self::ClusterIdTaken { .. }
            | Self::PeerIdContested { .. }
            | Self::ClaimsUnknown { .. }
            | Self::GatewayIncomplete(_)
            | Self::VpcWithoutGateway(_)
            | Self::PeerUnknown(..)
            | Self::PeerInvalid { .. } => true,
            Self::GatewayNotFound(_)
            | Self::GatewayNotRunning { .. }
            | Self::GatewayLost { .. }
            | Self::RangeOverlap { .. }
            | Self::ClustersOverlap { .. }
            | Self::NamespaceNotAllowed(_)
            | Self::Conflict { .. }
            | Self::InTheWay(_)
            | Self::KernelLacksTunnelType(_)
            | Self::ToolMissing(_)
            | Self::ExecRefused(_)
            | Self::ExecTimedOut(_)
            | Self::CommandFailed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_on_an_ordinary_day_is_no_alarm() {
        let gateway: GatewayName = "gw1".parse().expect("a name");
        let peer =
            super::super::objects::Peer { cluster: "c2".parse().expect("an id"), gateway: gateway.clone() };
        let awaited = Trouble::PeerUnknown(Far::Gateway(peer), Absence::NotPublished);
        let replaced = Trouble::GatewayNotRunning { gateway: gateway.clone(), why: "it has no pod".into() };
        let lost = Trouble::GatewayLost { gateway, node: "node1".into() };
        let refused = Trouble::ExecRefused("forbidden".into());
        for (trouble, new, was_up) in
            [(awaited, true, false), (replaced, true, true), (lost, false, false), (refused, false, false)]
        {
            let reason = trouble.reason();
            assert_eq!(Trouble::is_routine(reason, false), new, "{reason} of a new tunnel");
            assert_eq!(Trouble::is_routine(reason, true), was_up, "{reason} of one that was up");
        }
    }
}
