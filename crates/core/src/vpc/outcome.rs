//! How a visit to a gateway went, and why a tunnel is not up: each cause with the reason that
//! conditions show and a sentence a person can act on.

use std::collections::{BTreeMap, BTreeSet};

use super::UNDERLAY_LINK;
use super::action::{Action, Step};
use super::have::{Have, Holding};
use super::objects::Peer;
use super::plan::{Plan, Problem, plan};
use super::want::{TunnelWant, Want};
use crate::names::{Cidr, ClusterId, GatewayName, ObjectKey};

/// The result of observing, planning and applying on one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The pod it was.
    pub pod_uid: String,
    /// The state's revision that the work was compiled from.
    pub revision: u64,
    /// What is there now, or why nobody knows.
    pub result: Result<Visit, Trouble>,
}

/// A visit that got through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visit {
    /// Each tunnel that was wanted: as it was wanted, and what stands in its way.
    pub tunnels: BTreeMap<ObjectKey, (TunnelWant, Option<Trouble>)>,
    /// Whose things the gateway holds.
    pub holding: Holding,
    /// Whether ARP is off on the underlay link, as kube-ovn 1.12 leaves it until the first EIP.
    pub arp_off: bool,
    /// Tunnels whose segment size rule could not be made, and why: they work all the same.
    pub unclamped: BTreeMap<ObjectKey, String>,
}

/// Judges a visit: what was planned, which steps failed, and what the gateway holds now.
///
/// A tunnel is up when nothing foreign is in its way and planning again leaves nothing to do for it; what
/// a command printed only explains why it is not.
pub fn judge(want: &Want, planned: &Plan, failures: &BTreeMap<usize, Trouble>, now: &Have) -> Visit {
    let again = plan(want, now);
    let concerns = |step: &Step, owner: &ObjectKey| step.owner.as_ref().is_none_or(|whose| whose == owner);
    // What is left to do for a tunnel, of one kind or the other, and why.
    let undone = |owner: &ObjectKey, clamp: bool| {
        let counts = |step: &&Step| concerns(step, owner) && step.action.is_clamp() == clamp;
        let left: Vec<String> =
            again.steps.iter().filter(counts).map(|step| step.action.to_string()).collect();
        let failed = || {
            let failed =
                failures.iter().find(|(at, _)| planned.steps.get(**at).is_some_and(|step| counts(&step)));
            failed.map(|(_, trouble)| trouble.clone())
        };
        let because = || Trouble::CommandFailed(format!("it did not take: {}", left.join(", ")));
        (!left.is_empty()).then(|| failed().unwrap_or_else(because))
    };
    let verdict = |tunnel: &TunnelWant| {
        let problem = again.problems.get(&tunnel.owner).cloned().map(Trouble::InTheWay);
        let trouble = problem.or_else(|| undone(&tunnel.owner, false));
        (tunnel.owner.clone(), (tunnel.clone(), trouble))
    };
    let unclamped = want.tunnels.values().filter_map(|tunnel| {
        let why = undone(&tunnel.owner, true)?;
        Some((tunnel.owner.clone(), why.to_string()))
    });
    Visit {
        tunnels: want.tunnels.values().map(verdict).collect(),
        holding: now.holding(),
        arp_off: now.links.get(UNDERLAY_LINK).is_some_and(|link| link.arp_off),
        unclamped: unclamped.collect(),
    }
}

/// The tunnels that a visit could not make: what is tried of them is only the link.
pub fn doubted(before: Option<&Outcome>, pod_uid: &str) -> BTreeSet<ObjectKey> {
    let visit = before.filter(|before| before.pod_uid == pod_uid).map(|before| &before.result);
    let Some(Ok(visit)) = visit else { return BTreeSet::new() };
    let failed = visit.tunnels.iter().filter(|(_, (_, trouble))| trouble.is_some());
    failed.map(|(key, _)| key.clone()).collect()
}

/// The tunnels whose link could not be made just now.
pub fn linkless(planned: &Plan, failures: &BTreeMap<usize, Trouble>) -> BTreeSet<ObjectKey> {
    let failed = failures.keys().filter_map(|at| planned.steps.get(*at));
    let links = failed.filter(|step| matches!(step.action, Action::LinkAdd { .. }));
    links.filter_map(|step| step.owner.clone()).collect()
}

/// What a plan put back for tunnels that were up, as they are wanted, when last seen: drift, not news.
pub fn repairs(
    before: Option<&Outcome>,
    pod_uid: &str,
    want: &Want,
    planned: &Plan,
    now: &Visit,
) -> BTreeMap<ObjectKey, String> {
    let Some(Ok(visit)) = before.filter(|before| before.pod_uid == pod_uid).map(|before| &before.result)
    else {
        return BTreeMap::new();
    };
    let was_up = |tunnel: &&TunnelWant| visit.tunnels.get(&tunnel.owner) == Some(&((*tunnel).clone(), None));
    let put_back = |tunnel: &TunnelWant| {
        let concerns = |step: &&Step| {
            step.owner.as_ref().is_none_or(|owner| *owner == tunnel.owner)
                && !matches!(step.action, Action::ForgetAstray { .. })
                && !(step.action.is_clamp() && now.unclamped.contains_key(&tunnel.owner))
        };
        let steps: Vec<String> =
            planned.steps.iter().filter(concerns).map(|step| step.action.to_string()).collect();
        (!steps.is_empty()).then(|| (tunnel.owner.clone(), steps.join(", ")))
    };
    want.tunnels.values().filter(was_up).filter_map(put_back).collect()
}

/// What an outcome says of one tunnel.
#[derive(Debug, PartialEq, Eq)]
pub struct Word<'a> {
    pod_uid: &'a str,
    tunnel: Result<Option<&'a (TunnelWant, Option<Trouble>)>, &'a Trouble>,
    held: bool,
    arp_off: bool,
    unclamped: Option<&'a String>,
}

impl Outcome {
    /// What it says of one tunnel: the part whose change concerns that tunnel.
    pub fn of(&self, key: &ObjectKey) -> Word<'_> {
        let visit = self.result.as_ref();
        Word {
            pod_uid: &self.pod_uid,
            tunnel: visit.map(|visit| visit.tunnels.get(key)),
            held: visit.is_ok_and(|visit| visit.holding.includes(key)),
            arp_off: visit.is_ok_and(|visit| visit.arp_off),
            unclamped: visit.ok().and_then(|visit| visit.unclamped.get(key)),
        }
    }
}

/// What two tunnels of one gateway can not both have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The name of the link.
    Link(String),
    /// VXLAN network identifier and port.
    Vni(u32, u16),
    /// Both ends of a keyless GRE tunnel; ours is the gateway's.
    GreEnd(std::net::Ipv4Addr),
    /// The range behind the peer.
    Range(Cidr),
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

/// Why a tunnel is not up, or can not be cleaned away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The object can not be understood.
    #[error("{0}")]
    Invalid(String),
    /// A form that is still to come.
    #[error(
        "tunnels by VPC (remoteCluster, remoteVpc, localVpc) are not supported yet; use clusterId, gatewayName and natGwDp"
    )]
    NotYetSupported,
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
    /// No record of the peer has arrived.
    #[error("cluster {} has published no gateway {}: is the name right, is the gateway ready there, and is that cluster joined to the broker?", .0.cluster, .0.gateway)]
    PeerUnknown(Peer),
    /// The peer's record makes no sense.
    #[error("the record of gateway {peer} can not be used: {why}")]
    PeerInvalid {
        /// The peer.
        peer: Peer,
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
        theirs: Cidr,
        /// Our range.
        ours: Cidr,
    },
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
        "the gateway's kernel can not make {0} links (its module is missing); load it on the node, or use another type"
    )]
    KernelLacksTunnelType(String),
    /// The gateway's image lacks a tool.
    #[error(
        "the gateway's container has no `{0}`; use the kube-ovn vpc-nat-gateway image or one that has it"
    )]
    ToolMissing(String),
    /// The API server or the kubelet refused to run a command.
    #[error("commands can not be run in the gateway: {0}")]
    ExecRefused(String),
    /// A command did not come back.
    #[error("a command in the gateway did not finish within {0} s")]
    ExecTimedOut(u64),
    /// A command failed.
    #[error("the gateway refused: {0}")]
    CommandFailed(String),
}

fn in_the_way(problem: &Problem) -> String {
    match problem {
        Problem::NameTaken { link } => {
            format!(
                "link {link} of the gateway is not ours and stands in the way; remove it, or name the tunnel otherwise"
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
            Self::NotYetSupported => "NotYetSupported",
            Self::ClusterIncomplete(_) => "ClusterIncomplete",
            Self::ClusterIdTaken { .. } => "ClusterIdTaken",
            Self::GatewayNotFound(_) => "GatewayNotFound",
            Self::GatewayNotRunning { .. } => "GatewayNotRunning",
            Self::GatewayLost { .. } => "GatewayLost",
            Self::GatewayIncomplete(_) => "GatewayIncomplete",
            Self::PeerUnknown(_) => "PeerUnknown",
            Self::PeerInvalid { .. } => "PeerInvalid",
            Self::RangeOverlap { .. } => "RangeOverlap",
            Self::Conflict { claim: Claim::Link(_), .. } => "LinkNameConflict",
            Self::Conflict { claim: Claim::Vni(..), .. } => "VniConflict",
            Self::Conflict { claim: Claim::GreEnd(_), .. } => "EndpointConflict",
            Self::Conflict { claim: Claim::Range(_), .. } => "RemoteRangeConflict",
            Self::InTheWay(Problem::NameTaken { .. }) => "NameTaken",
            Self::InTheWay(Problem::RouteTaken { .. }) => "RouteTaken",
            Self::KernelLacksTunnelType(_) => "KernelLacksTunnelType",
            Self::ToolMissing(_) => "ToolMissing",
            Self::ExecRefused(_) => "ExecRefused",
            Self::ExecTimedOut(_) => "ExecTimedOut",
            Self::CommandFailed(_) => "CommandFailed",
        }
    }

    /// Whether what the tunnel already has should stay: a fact is out of sight, nothing speaks against it.
    pub(super) fn freezes(&self) -> bool {
        match self {
            Self::Invalid(_)
            | Self::ClusterIncomplete(_)
            | Self::ClusterIdTaken { .. }
            | Self::GatewayIncomplete(_)
            | Self::PeerUnknown(_)
            | Self::PeerInvalid { .. } => true,
            Self::NotYetSupported
            | Self::GatewayNotFound(_)
            | Self::GatewayNotRunning { .. }
            | Self::GatewayLost { .. }
            | Self::RangeOverlap { .. }
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
