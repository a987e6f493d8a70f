//! `VpcNatTunnel`: a tunnel from a gateway of this cluster to one of another.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::loose;

/// The encapsulation of a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TunnelType {
    /// IP in IP by Generic Routing Encapsulation.
    #[default]
    Gre,
    /// Ethernet over UDP. VNI and port come from the labels `vid` (100) and `vx-port` (4789).
    Vxlan,
}

/// Joins this cluster's VPC with one of another cluster through a tunnel between their gateways.
///
/// By gateway: `clusterId`, `gatewayName` and `natGwDp`. Or by VPC: `remoteCluster`, `remoteVpc` and `localVpc`.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubeovn.ustc.io",
    version = "v1",
    kind = "VpcNatTunnel",
    plural = "vpcnattunnels",
    singular = "vpcnattunnel",
    shortname = "vnt",
    category = "causeway",
    namespaced,
    status = "VpcNatTunnelStatus",
    derive = "PartialEq",
    doc = "A tunnel from a VPC gateway of this cluster to one of another cluster",
    validation = Rule::new("self.metadata.name.size() <= 15")
        .message("the name becomes a network link's: at most 15 characters"),
    validation = Rule::new("!(self.metadata.name in ['lo','all','default','eth0','net1','gre0','gretap0','erspan0','tunl0'])")
        .message("the name is one that gateways use themselves; choose another"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.initialized) || !oldSelf.status.initialized || self.spec.type == oldSelf.spec.type")
        .message("the type cannot change once the tunnel was up; delete the tunnel and create it anew")
        .field_path(".spec.type"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#, description = "Whether the tunnel carries traffic"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type", description = "gre or vxlan"),
    printcolumn(name = "Gateway", type_ = "string", json_path = ".status.localGw", description = "The gateway of this cluster that carries it"),
    printcolumn(name = "Local", type_ = "string", json_path = ".status.internalIp", description = "Its address outside"),
    printcolumn(name = "Remote", type_ = "string", json_path = ".status.remoteIp", description = "The peer's address outside"),
    printcolumn(name = "Peer", type_ = "string", json_path = ".status.peer", description = "The peer's cluster and gateway"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#, priority = 1, description = "Why it is as it is"),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#, priority = 1, description = "The same in a sentence")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.clusterId) || has(self.gatewayName) || has(self.natGwDp)) != (has(self.remoteCluster) || has(self.remoteVpc) || has(self.localVpc))")
        .message("use exactly one form: clusterId, gatewayName and natGwDp; or remoteCluster, remoteVpc and localVpc"),
    validation = Rule::new("has(self.clusterId) == has(self.gatewayName) && has(self.clusterId) == has(self.natGwDp)")
        .message("clusterId, gatewayName and natGwDp go together"),
    validation = Rule::new("has(self.remoteCluster) == has(self.remoteVpc) && has(self.remoteCluster) == has(self.localVpc)")
        .message("remoteCluster, remoteVpc and localVpc go together")
)]
pub struct VpcNatTunnelSpec {
    /// The address with prefix on the tunnel's link, like 10.100.0.1/24; a host must be able to have it.
    #[schemars(
        length(max = 18),
        regex(
            pattern = r"^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])/(3[0-2]|[12][0-9]|[89])$"
        )
    )]
    pub interface_addr: String,
    /// The encapsulation; fixed once the tunnel was up. Labels `vid` (100) and `vx-port` (4789) are a vxlan's VNI and port.
    #[serde(default, rename = "type")]
    pub kind: TunnelType,
    /// The peer's cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub cluster_id: Option<String>,
    /// The peer's gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub gateway_name: Option<String>,
    /// The gateway of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub nat_gw_dp: Option<String>,
    /// By VPC: the peer's cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub remote_cluster: Option<String>,
    /// By VPC: the peer's VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub remote_vpc: Option<String>,
    /// By VPC: the VPC of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub local_vpc: Option<String>,
    /// Ignored; older operators wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ip: Option<String>,
    /// Ignored; older operators wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_ip: Option<String>,
    /// Ignored; older operators wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_gw: Option<String>,
}

/// How far a tunnel got. Everything here is written by Causeway.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcNatTunnelStatus {
    /// Whether the gateway once held everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialized: Option<bool>,
    /// The gateway's address outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_ip: Option<String>,
    /// The peer's address outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ip: Option<String>,
    /// The address on the tunnel's link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_addr: Option<String>,
    /// The encapsulation.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The gateway that the tunnel is built on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_gw: Option<String>,
    /// By VPC: the gateways that hold the tunnel too and would take over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standbys: Vec<String>,
    /// The same as `localGw`, in the form by gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_gw_dp: Option<String>,
    /// The peer's cluster and gateway, or VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// This cluster's range of global addresses.
    #[serde(default, rename = "globalnetCIDR", skip_serializing_if = "Option::is_none")]
    pub globalnet_cidr: Option<String>,
    /// The peer cluster's range of global addresses.
    #[serde(default, rename = "remoteGlobalnetCIDR", skip_serializing_if = "Option::is_none")]
    pub remote_globalnet_cidr: Option<String>,
    /// The VPC's router as the gateway sees it.
    #[serde(default, rename = "ovnGwIP", skip_serializing_if = "Option::is_none")]
    pub ovn_gw_ip: Option<String>,
    /// The addresses that this cluster's traffic appears to come from.
    #[serde(default, rename = "globalEgressIP", skip_serializing_if = "Vec::is_empty")]
    pub global_egress_ip: Vec<String>,
    /// About how long the peer takes to answer through the tunnel; it changes with the size of that only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_milliseconds: Option<u32>,
    /// Whether what lies behind the peer has answered through the tunnel, so that its silence means something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_behind: Option<bool>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Programmed, Reachable, PeerAgrees, LastKnown, Routed, Failover, SwitchedPartly, Underlay, MTU, SegmentSize, CleanupBlocked;
    /// those of others are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A tunnel whose spec and status are taken as they are: an older or foreign definition lets them be anything, and
/// what cannot be decoded must still be reported, deleted, and keep the rest of its status.
#[derive(kube::Resource, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "VpcNatTunnel")]
pub struct LooseTunnel {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What should be a [`VpcNatTunnelSpec`].
    #[serde(default)]
    pub spec: Value,
    /// What should be a [`VpcNatTunnelStatus`].
    #[serde(default)]
    pub status: Value,
}

impl LooseTunnel {
    /// What can be understood of the status, field by field and condition by condition.
    pub fn status(&self) -> VpcNatTunnelStatus {
        loose::status(&self.status)
    }
}
