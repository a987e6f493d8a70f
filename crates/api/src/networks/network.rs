//! `Network`: a network of a cloud with one subnet.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]
#![allow(clippy::duplicated_attributes, reason = "columns differ in their names only")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::loose;

/// Whether the range of a spec can be understood: rules about a gateway ask that first, and say nothing where it cannot,
/// since the rules about the range do.
macro_rules! unless_both_are_read {
    ($rule:literal) => {
        concat!("!has(self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || ", $rule)
    };
}

/// The same, and both are of one family.
macro_rules! unless_of_one_family {
    ($rule:literal) => {
        concat!(
            "!has(self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || ",
            "ip(self.gateway).family() != cidr(self.cidr).ip().family() || ",
            $rule
        )
    };
}

/// A network of a cloud, with one subnet.
///
/// Whatever the cloud needs of it is here: the range of its addresses, and which of them its gateway has.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "samplecrd.k8s.io",
    version = "v1",
    kind = "Network",
    plural = "networks",
    singular = "network",
    shortname = "net",
    category = "causeway",
    namespaced,
    status = "NetworkStatus",
    derive = "PartialEq",
    doc = "A network of a cloud with one subnet",
    annotation("api-approved.kubernetes.io", "unapproved, the group is that of a well-known sample"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the cloud holds what is declared"
    ),
    printcolumn(
        name = "CIDR",
        type_ = "string",
        json_path = ".spec.cidr",
        description = "The range of its addresses"
    ),
    printcolumn(
        name = "Gateway",
        type_ = "string",
        json_path = ".status.gateway",
        description = "The address of its gateway"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".status.provider",
        description = "The kind of cloud it is in"
    ),
    printcolumn(
        name = "Network",
        type_ = "string",
        json_path = ".status.networkId",
        description = "The cloud's name for it"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1,
        description = "Why it is as it is"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = 1,
        description = "The same in a sentence"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(unless_both_are_read!("ip(self.gateway).family() == cidr(self.cidr).ip().family()"))
        .message("gateway is an address of another family than cidr")
        .field_path(".gateway"),
    validation = Rule::new(unless_of_one_family!("cidr(self.cidr).containsIP(ip(self.gateway))"))
        .message("gateway is outside of cidr")
        .field_path(".gateway"),
    // Not `!=` of the two: servers take the cost of comparing addresses for unbounded, and refuse the definition.
    validation = Rule::new(unless_of_one_family!(
        "!cidr(self.gateway + (ip(self.gateway).family() == 4 ? '/32' : '/128')).containsIP(cidr(self.cidr).masked().ip())"
    ))
        .message("gateway is the first address of cidr, which no host can have")
        .field_path(".gateway"),
    validation = Rule::new(unless_of_one_family!(
        "ip(self.gateway).family() == 6 || cidr(self.cidr).prefixLength() < 8 || cidr(self.cidr).prefixLength() > 30 || \
         (int(self.gateway.split('.')[0]) * 16777216 + int(self.gateway.split('.')[1]) * 65536 + \
         int(self.gateway.split('.')[2]) * 256 + int(self.gateway.split('.')[3]) + 1) % \
         [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, \
         1048576, 2097152, 4194304, 8388608, 16777216][30 - cidr(self.cidr).prefixLength()] != 0"
    ))
        .message("gateway is the broadcast address of cidr, which no host can have")
        .field_path(".gateway")
)]
pub struct NetworkSpec {
    /// The range of its addresses, like 192.168.0.0/16 or fd00:7::/64. Another one needs another subnet: see the
    /// annotation causeway/allow-replace.
    #[schemars(length(min = 1, max = 49))]
    #[x_kube(
        validation = Rule::new("isCIDR(self)")
            .message("cidr is not a range of addresses, like 192.168.0.0/16 or fd00:7::/64"),
        validation = Rule::new("!isCIDR(self) || cidr(self) == cidr(self).masked()")
            .message("cidr has bits after its prefix; use the range it lies in"),
        validation = Rule::new("!isCIDR(self) || (cidr(self).ip().family() == 4 ? cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 30 : cidr(self).prefixLength() >= 16 && cidr(self).prefixLength() <= 126)")
            .message("cidr has a prefix that leaves no room for hosts, or is half the world: use one from 8 to 30, for IPv6 from 16 to 126"),
        validation = Rule::new("!isCIDR(self) || !(cidr('0.0.0.0/8').containsIP(cidr(self).ip()) || cidr('127.0.0.0/8').containsIP(cidr(self).ip()) || cidr('169.254.0.0/16').containsIP(cidr(self).ip()) || cidr(self).containsIP('169.254.0.0') || cidr('224.0.0.0/3').containsIP(cidr(self).ip()) || cidr('::/16').containsIP(cidr(self).ip()) || cidr('fe80::/10').containsIP(cidr(self).ip()) || cidr('ff00::/8').containsIP(cidr(self).ip()))")
            .message("cidr is of nobody, loopback, link-local, multicast or reserved, which no network can have")
    )]
    pub cidr: String,
    /// The address of its gateway, one of the range's; without it the first that a host can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 45))]
    #[x_kube(
        validation = Rule::new("isIP(self)").message("gateway is not an address, like 192.168.0.1 or fd00:7::1")
    )]
    pub gateway: Option<String>,
}

/// How far a network got. Everything here is written by Causeway.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// The kind of cloud it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The cloud's name for the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    /// The cloud's name for its subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
    /// The range that the subnet has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// The address that its gateway has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// When the cloud was last made equal to the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Progressing, CleanupBlocked; those of others are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A network whose spec and status are taken as they are: an older or foreign definition of this well-known kind lets them
/// be anything, and what cannot be decoded must still be reported, deleted, and keep the rest of its status.
#[derive(kube::Resource, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "Network")]
pub struct LooseNetwork {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What should be a [`NetworkSpec`].
    #[serde(default)]
    pub spec: Value,
    /// What should be a [`NetworkStatus`].
    #[serde(default)]
    pub status: Value,
}

impl LooseNetwork {
    /// What can be understood of the status, field by field and condition by condition.
    pub fn status(&self) -> NetworkStatus {
        loose::status(&self.status)
    }
}
