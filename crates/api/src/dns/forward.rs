//! `VpcDnsForward`: a VPC whose DNS server resolves names of other clusters.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]
#![allow(clippy::duplicated_attributes, reason = "columns differ in their names only")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::loose;

/// Lets the DNS server of a VPC resolve names of other clusters, by asking kube-dns for them.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "kubeovn.ustc.io",
    version = "v1",
    kind = "VpcDnsForward",
    plural = "vpcdnsforwards",
    singular = "vpcdnsforward",
    shortname = "vdf",
    category = "causeway",
    namespaced,
    status = "VpcDnsForwardStatus",
    derive = "PartialEq",
    doc = "A VPC whose DNS server resolves names of other clusters",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the VPC's DNS server forwards"
    ),
    printcolumn(name = "VPC", type_ = "string", json_path = ".spec.vpc", description = "The VPC"),
    printcolumn(
        name = "VpcDns",
        type_ = "string",
        json_path = ".status.vpcDns",
        description = "Its DNS server"
    ),
    printcolumn(
        name = "Server",
        type_ = "string",
        json_path = ".status.kubeDns",
        description = "Where names of other clusters are asked for"
    ),
    printcolumn(
        name = "Through",
        type_ = "string",
        json_path = ".status.gateway",
        description = "The gateway on the way there"
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
pub struct VpcDnsForwardSpec {
    /// The VPC; kube-ovn must run a DNS server in it, which a VpcDns declares.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub vpc: String,
}

/// How far a forward got. Everything here is written by Causeway.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcDnsForwardStatus {
    /// The VPC that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
    /// The VpcDns that is active there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_dns: Option<String>,
    /// The address of kube-dns, which is asked for names of other clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_dns: Option<String>,
    /// The gateway of the default subnet, on the way there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The ConfigMaps in kube-system whose Corefile may have a block because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corefiles: Vec<String>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, CleanupBlocked; those of others are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A forward whose spec and status are taken as they are: an older definition lets them be anything, and what cannot be
/// decoded must still be reported, deleted, and keep the rest of its status.
#[derive(kube::Resource, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "VpcDnsForward")]
pub struct LooseForward {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What should be a [`VpcDnsForwardSpec`].
    #[serde(default)]
    pub spec: Value,
    /// What should be a [`VpcDnsForwardStatus`].
    #[serde(default)]
    pub status: Value,
}

impl LooseForward {
    /// What can be understood of the status, field by field and condition by condition.
    pub fn status(&self) -> VpcDnsForwardStatus {
        loose::status(&self.status)
    }
}
