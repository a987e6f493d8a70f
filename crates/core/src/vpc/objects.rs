//! What the watches saw, the few facts of each object that decisions rest on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::status::TunnelStatus;
use super::want::{EgressRange, Established, Seat, TunnelKind, TunnelWant};
use crate::names::{ClusterId, GatewayName, HostAddr, Ipv4Cidr, LinkName, ObjectKey};
use crate::room::is_later;

/// A `VpcNatTunnel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Tells it from a later object of the same name.
    pub uid: String,
    /// The version last seen: what a write is guarded by.
    pub resource_version: String,
    /// Grows with the spec.
    pub generation: i64,
    /// Seconds since 1970; of two that collide the older wins.
    pub created: i64,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// Everybody's finalizers on it.
    pub finalizers: Vec<String>,
    /// Whether its owner gave up on cleaning (`causeway/abandon: "true"`).
    pub abandon: bool,
    /// Its spec, or why that cannot be understood.
    pub spec: Result<TunnelSpec, String>,
    /// What it says of itself now.
    pub status: TunnelStatus,
}

impl Tunnel {
    /// Whether our finalizer is on it.
    pub fn is_held(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == TUNNEL_FINALIZER)
    }

    /// What its status says it was built with on a gateway, if it says that it was. One by VPC is the same on all gateways of
    /// the VPC, whichever it was that carried it.
    pub(super) fn established(&self, gateway: &GatewayName) -> Option<Established> {
        let status = &self.status;
        let is_any = self.local_vpc().is_some();
        let is_here = status.initialized && (is_any || status.gateway.as_deref() == Some(gateway.as_str()));
        is_here.then(|| Established {
            range: status.remote_globalnet.as_deref().and_then(|text| text.parse().ok()),
            peer: status.remote_ip.as_deref().and_then(|text| text.parse().ok()),
            address: status.interface_addr.as_deref().and_then(|text| text.parse().ok()),
        })
    }

    /// Whether it leads from VPC to VPC.
    pub fn is_by_vpc(&self) -> bool {
        self.local_vpc().is_some()
    }

    /// Whether it leads from a VPC of ours, through whichever gateway is the main one there.
    pub fn is_from_vpc(&self, vpc: &str) -> bool {
        self.local_vpc() == Some(vpc)
    }

    /// The VPC of ours that it leads from, if it is a tunnel by VPC.
    pub(super) fn local_vpc(&self) -> Option<&str> {
        match &self.spec.as_ref().ok()?.ends {
            Ends::ByVpc { local, .. } => Some(local),
            Ends::ByGateway { .. } => None,
        }
    }

    /// What its status says it was built with, to compare.
    pub(super) fn built_with(&self) -> impl PartialEq + use<'_> {
        let TunnelStatus {
            initialized,
            gateway,
            peer,
            remote_ip,
            remote_globalnet,
            interface_addr,
            globalnet,
            egress,
            ..
        } = &self.status;
        (initialized, gateway, peer, remote_ip, remote_globalnet, interface_addr, globalnet, egress)
    }

    /// What it needed when it was last up, on this gateway and to the same peer, as its status has it. With that it can be
    /// built while something cannot be known; what its spec says counts as it is now.
    pub(super) fn last_known(
        &self,
        gateway: &GatewayName,
        local: Ipv4Addr,
        seat: Seat,
    ) -> Option<TunnelWant> {
        let (spec, status) = (self.spec.as_ref().ok()?, &self.status);
        if status.peer != Some(spec.ends.far().to_string()) {
            return None;
        }
        let Established { range, peer, .. } = self.established(gateway)?;
        let egress: Vec<Ipv4Addr> = status.egress.iter().filter_map(|text| text.parse().ok()).collect();
        let (remote_range, own): (Ipv4Cidr, Ipv4Cidr) = (range?, status.globalnet.as_ref()?.parse().ok()?);
        // Our own address may have become the peer's.
        (!own.overlaps(remote_range) && peer != Some(local)).then_some(TunnelWant {
            owner: self.key.clone(),
            kind: spec.kind,
            local,
            remote: peer?,
            address: spec.address,
            remote_range,
            egress: EgressRange::longest_run(&egress)?,
            own,
            seat,
        })
    }

    /// Whether its status says that what lies behind its peer has answered, when it was built like that.
    pub(super) fn answered_behind(&self, built: &TunnelWant) -> bool {
        let TunnelStatus { remote_ip, remote_globalnet, answered_behind, .. } = &self.status;
        *answered_behind
            && *remote_ip == Some(built.remote.to_string())
            && *remote_globalnet == Some(built.remote_range.to_string())
    }

    /// Whether this is a later version of the object than another.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        is_later(&self.resource_version, &other.resource_version)
    }
}

/// The finalizer on tunnels.
pub const TUNNEL_FINALIZER: &str = "tunnel.finalizer.ustc.io";

/// The spec of a tunnel, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelSpec {
    /// The link, named after the object.
    pub link: LinkName,
    /// The encapsulation.
    pub kind: TunnelKind,
    /// The address on the link.
    pub address: HostAddr,
    /// From where to where.
    pub ends: Ends,
}

/// The two forms of addressing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// From one named gateway to another.
    ByGateway {
        /// Ours.
        gateway: GatewayName,
        /// The peer.
        peer: Peer,
    },
    /// From VPC to VPC, through whichever gateway is the main one on either side.
    ByVpc {
        /// Our VPC.
        local: String,
        /// The peer's cluster.
        cluster: ClusterId,
        /// The peer's VPC.
        remote: String,
    },
}

impl Ends {
    /// Where it begins.
    pub fn near(&self) -> Place {
        match self {
            Self::ByGateway { gateway, .. } => Place::Gateway(gateway.clone()),
            Self::ByVpc { local, .. } => Place::Vpc(local.clone()),
        }
    }

    /// What the tunnel leads to.
    pub fn far(&self) -> Far {
        match self {
            Self::ByGateway { peer, .. } => Far::Gateway(peer.clone()),
            Self::ByVpc { cluster, remote, .. } => Far::Vpc { cluster: cluster.clone(), vpc: remote.clone() },
        }
    }
}

/// Where an end of a tunnel is in its cluster: on one gateway, or on whichever is the main one of a VPC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// That gateway.
    Gateway(GatewayName),
    /// The main gateway of that VPC.
    Vpc(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gateway(gateway) => gateway.fmt(f),
            Self::Vpc(vpc) => vpc.fmt(f),
        }
    }
}

/// What a tunnel leads to: one gateway of another cluster, or whichever is the main one of a VPC there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Far {
    /// That gateway.
    Gateway(Peer),
    /// The main gateway of that VPC.
    Vpc {
        /// The cluster.
        cluster: ClusterId,
        /// The VPC there.
        vpc: String,
    },
}

impl Far {
    /// A place in a cluster.
    pub fn at(cluster: ClusterId, place: Place) -> Self {
        match place {
            Place::Gateway(gateway) => Self::Gateway(Peer { cluster, gateway }),
            Place::Vpc(vpc) => Self::Vpc { cluster, vpc },
        }
    }

    /// Where it is in its cluster.
    pub fn place(&self) -> Place {
        match self {
            Self::Gateway(peer) => Place::Gateway(peer.gateway.clone()),
            Self::Vpc { vpc, .. } => Place::Vpc(vpc.clone()),
        }
    }

    /// Its cluster.
    pub fn cluster(&self) -> &ClusterId {
        match self {
            Self::Gateway(peer) => &peer.cluster,
            Self::Vpc { cluster, .. } => cluster,
        }
    }

    /// Where it is and what it is called, with what it is.
    pub fn named(&self) -> String {
        let kind = match self {
            Self::Gateway(_) => "gateway",
            Self::Vpc { .. } => "VPC",
        };
        format!("{kind} {self}")
    }

    /// What it is called in its cluster, with what it is.
    pub fn called(&self) -> String {
        match self {
            Self::Gateway(peer) => format!("gateway {}", peer.gateway),
            Self::Vpc { vpc, .. } => format!("VPC {vpc}"),
        }
    }
}

impl std::fmt::Display for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gateway(peer) => peer.fmt(f),
            Self::Vpc { cluster, vpc } => write!(f, "{cluster}/{vpc}"),
        }
    }
}

/// A gateway of another cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its name there.
    pub gateway: GatewayName,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.cluster, self.gateway)
    }
}

/// A gateway's workload: a StatefulSet, or from kube-ovn 1.17 a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The gateway it runs.
    pub gateway: GatewayName,
    /// Whether a replica is available.
    pub ready: bool,
    /// The subnet on its inside.
    pub subnet: Option<String>,
    /// Whether it has several pods, between which kube-ovn itself fails over.
    pub replicated: bool,
}

/// A gateway's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayPod {
    /// Which one to exec in.
    pub pod: PodRef,
    /// The gateway it is.
    pub gateway: GatewayName,
    /// Seconds since 1970; of several pods that could serve, the oldest does.
    pub created: i64,
    /// `Running`, `Pending`, …
    pub phase: String,
    /// Whether its containers are ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The node it runs on.
    pub node: Option<String>,
    /// Its address in the VPC.
    pub lan: Option<Ipv4Addr>,
    /// Its outside addresses by network provider.
    pub external: BTreeMap<String, Ipv4Addr>,
    /// The VPC's router as the pod's annotation has it.
    pub router: Option<Ipv4Addr>,
    /// The VPC it is in.
    pub vpc: Option<String>,
}

/// Enough to find a pod and to know it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Another uid is another pod, with nothing of ours in it.
    pub uid: String,
}

/// A `VpcNatGateway` of kube-ovn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VpcGateway {
    /// The VPC it serves.
    pub vpc: Option<String>,
    /// Its address in the VPC.
    pub lan: Option<Ipv4Addr>,
    /// The subnets on its outside.
    pub external_subnets: Vec<String>,
    /// Whether its pod has no address of its own there.
    pub no_default_eip: bool,
    /// Whether kube-ovn itself fails over between several pods of it.
    pub replicated: bool,
}

/// An `IptablesEIP` of kube-ovn that has its address: one more on a gateway's outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eip {
    /// The gateway that has it.
    pub gateway: GatewayName,
    /// The address.
    pub address: Ipv4Addr,
    /// Seconds since 1970; the oldest is the one that stays.
    pub created: i64,
}

/// A `Subnet` of kube-ovn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// The network provider.
    pub provider: Option<String>,
    /// The VPC it belongs to.
    pub vpc: Option<String>,
}

/// A `Vpc` of kube-ovn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vpc {
    /// The static routes of its router that lead by destination.
    pub routes: BTreeSet<StaticRoute>,
    /// All of its static routes in the order that it lists them.
    pub listed: Vec<ListedRoute>,
    /// The namespaces that it is for; all if there are none.
    pub namespaces: BTreeSet<String>,
    /// The version last seen: what a write is guarded by.
    pub resource_version: String,
    /// Whether it has any annotation.
    pub annotated: bool,
    /// The gateway that its owner wants to be the main one.
    pub switch: Option<Switch>,
}

/// A static route as a `Vpc` lists it, as far as moving it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedRoute {
    /// Where to, or where from; nothing where that makes no sense.
    pub range: Option<Ipv4Cidr>,
    /// Through whom; nothing where that makes no sense.
    pub next_hop: Option<Ipv4Addr>,
    /// Whether kube-ovn chooses between several next hops itself.
    pub shared: bool,
}

/// A wish for another main gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// The wish as it was written. It is carried out once; written anew in other words it is another one.
    pub text: String,
    /// The gateway.
    pub to: GatewayName,
    /// Whether all routes follow, or those of tunnels only.
    pub all: bool,
}

impl Switch {
    /// Reads a wish: the gateway's name, `all` where all routes should follow, and whatever distinguishes it from an earlier
    /// wish of the same.
    pub fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let to = words.next()?.parse().ok()?;
        Some(Self { text: text.into(), to, all: words.any(|word| word == "all") })
    }
}

/// A static route of a `Vpc`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticRoute {
    /// Through whom.
    pub next_hop: Ipv4Addr,
    /// Where to.
    pub range: Ipv4Cidr,
}

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeHealth {
    /// It reports.
    Ready,
    /// It is silent, but may come back.
    NotReady,
    /// It has been silent for so long that what ran there counts as gone.
    Lost,
}
