//! kube-ovn: VPCs, subnets, gateways and DNS servers.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A VPC: a logical router with static routes.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "kubeovn.io", version = "v1", kind = "Vpc", plural = "vpcs", derive = "PartialEq")]
#[serde(rename_all = "camelCase", default)]
pub struct VpcSpec {
    /// The routes of its router.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub static_routes: Vec<StaticRoute>,
    /// The namespaces that it is for; all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

/// A static route of a VPC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticRoute {
    /// Where to.
    pub cidr: String,
    /// Through whom.
    #[serde(rename = "nextHopIP")]
    pub next_hop_ip: String,
    /// By destination (the default) or by source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// How kube-ovn chooses between several next hops of one range, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecmp_mode: Option<String>,
    /// What watches the next hop for kube-ovn, where something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd_id: Option<String>,
}

/// A subnet of a VPC, or an external network.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "kubeovn.io", version = "v1", kind = "Subnet", plural = "subnets", derive = "PartialEq")]
#[serde(rename_all = "camelCase", default)]
pub struct SubnetSpec {
    /// The VPC it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
    /// The network provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The address of its router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// A VPC's NAT gateway.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "VpcNatGateway",
    plural = "vpc-nat-gateways",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct VpcNatGatewaySpec {
    /// The VPC it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
    /// Its address in the VPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lan_ip: Option<String>,
    /// Its subnet in the VPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The subnets on its outside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_subnets: Vec<String>,
    /// Whether its pod gets no address there by itself.
    #[serde(rename = "noDefaultEIP", skip_serializing_if = "Option::is_none")]
    pub no_default_eip: Option<bool>,
    /// How many pods it has, where kube-ovn itself fails over between several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Whether kube-ovn watches its pods and fails over by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd: Option<Bfd>,
}

/// How kube-ovn watches the pods of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Bfd {
    /// Whether it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A floating address on a gateway's outside.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "IptablesEIP",
    plural = "iptables-eips",
    status = "IptablesEipStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct IptablesEipSpec {
    /// The gateway that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nat_gw_dp: Option<String>,
}

/// What kube-ovn says of a floating address.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IptablesEipStatus {
    /// The address, once it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
}

/// The DNS server of a VPC.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "VpcDns",
    plural = "vpc-dnses",
    status = "VpcDnsStatus",
    derive = "PartialEq"
)]
#[serde(default)]
pub struct VpcDnsSpec {
    /// The VPC it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
    /// Its subnet in the VPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The ConfigMap with its Corefile, from kube-ovn 1.16 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corefile: Option<String>,
}

/// What kube-ovn says of a DNS server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VpcDnsStatus {
    /// Whether it was set up without an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}
