//! What is seen, and what a worker is sent to reconcile because of it.

use std::net::Ipv4Addr;

use super::ends::End;
use super::exchange::Record;
use super::member::Renewal;
use super::objects::{Eip, GatewayPod, NodeHealth, Subnet, Tunnel, Vpc, VpcGateway, Workload};
use super::outcome::Outcome;
use super::reach::Probed;
use crate::names::{ClusterId, GatewayName, Invalid, Ipv4Cidr, ObjectKey};
use crate::room::Change;

/// What a worker is sent to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A gateway's network namespace.
    Gateway(GatewayName),
    /// A tunnel object's status and finalizer.
    Tunnel(ObjectKey),
    /// The record of a gateway of ours.
    Record(GatewayName),
    /// A VPC of ours: its record, which names its main gateway, and the routes that follow that.
    Vpc(String),
    /// A gateway's ear on others of its VPC.
    Watch(GatewayName),
    /// A copy at the broker, by its name there.
    Export(String),
    /// A record of another cluster, here; with the member that it is about, so that each waits in a line of its own.
    Import(ClusterId, ObjectKey),
    /// An end of a tunnel of ours at the broker, by its name there.
    End(String),
    /// Our claim to our id, at the broker.
    Membership,
}

/// Something that was seen.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "an event lives only from a watch to the state")]
pub enum Event {
    /// Tunnels.
    Tunnels(Change<ObjectKey, Tunnel>),
    /// Gateway workloads that are StatefulSets.
    StatefulSets(Change<String, Workload>),
    /// Gateway workloads that are Deployments.
    Deployments(Change<String, Workload>),
    /// Gateway pods.
    Pods(Change<ObjectKey, GatewayPod>),
    /// kube-ovn's gateways.
    VpcGateways(Change<String, VpcGateway>),
    /// The gateways' floating addresses.
    Eips(Change<String, Eip>),
    /// kube-ovn's subnets.
    Subnets(Change<String, Subnet>),
    /// VPCs.
    Vpcs(Change<String, Vpc>),
    /// Nodes.
    Nodes(Change<String, NodeHealth>),
    /// Gateway records in this cluster: our own and imported ones.
    Records(Change<ObjectKey, Record>),
    /// Gateway records at the broker by name.
    Copies(Change<String, Record>),
    /// The ends of tunnels that we have published at the broker, by name.
    OwnEnds(Change<String, End>),
    /// Those that others have published for us.
    PeerEnds(Change<String, End>),
    /// The broker has no ends of tunnels, or not for us.
    NoEnds,
    /// Who goes by which id at the broker, by the name of the claim.
    Members(Change<String, Renewal>),
    /// The broker keeps no claims, or we cannot make one.
    NoMembers,
    /// Who we are, where something says so; or why that cannot be an id.
    Identity(Option<Result<ClusterId, Invalid>>),
    /// What distinguishes us from another cluster that claims our id.
    Uid(String),
    /// A broker is about to be listed; the exchange has this namespace there.
    Joining(String),
    /// Clusters' ranges of global addresses.
    Globalnets(Change<String, Ipv4Cidr>),
    /// The addresses that our traffic appears to come from elsewhere.
    Egress(Vec<Ipv4Addr>),
    /// How a visit to a gateway went.
    Outcome(GatewayName, Outcome),
    /// What a gateway's tunnels answered.
    Probed(GatewayName, Probed),
    /// A pod of a gateway has not said for long whether anything answers.
    Unheard(GatewayName, String),
    /// One gateway of a VPC does not hear another any more, or hears it again.
    Silence {
        /// The one that is listened to.
        of: GatewayName,
        /// The one that listens.
        by: GatewayName,
        /// Whether it hears nothing.
        silent: bool,
    },
    /// A gateway listens to others, or no longer does: only who listens can say that another is heard.
    Listening(GatewayName, bool),
    /// Others may change the gateways from now on: what visits found no longer counts.
    TermEnded,
}
