//! `GatewayExIp`: where a gateway can be reached and what lies behind it. Written by Causeway.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]
#![allow(clippy::duplicated_attributes, reason = "columns differ in their names only")]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A gateway's address outside and its cluster's range of global addresses. Written by Causeway, never by people.
///
/// Both spellings in use are read: `externalip`/`globalnetcidr` and `externalIp`/`globalNetCIDR`.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubeovn.ustc.io",
    version = "v1",
    kind = "GatewayExIp",
    plural = "gatewayexips",
    singular = "gatewayexip",
    shortname = "gwx",
    category = "causeway",
    namespaced,
    derive = "PartialEq",
    doc = "A gateway's address outside and its cluster's range of global addresses",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".metadata.labels.localCluster"),
    printcolumn(name = "Gateway", type_ = "string", json_path = ".metadata.labels.localGateway"),
    printcolumn(name = "VPC", type_ = "string", json_path = ".metadata.labels.localVpc"),
    printcolumn(name = "ExternalIP", type_ = "string", json_path = ".spec.externalip"),
    printcolumn(name = "Globalnet", type_ = "string", json_path = ".spec.globalnetcidr"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct GatewayExIpSpec {
    /// The gateway's address outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub externalip: Option<String>,
    /// The cluster's range of global addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub globalnetcidr: Option<String>,
    /// The Go operator's spelling of `externalip`.
    #[serde(default, rename = "externalIp", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub external_ip: Option<String>,
    /// The Go operator's spelling of `globalnetcidr`.
    #[serde(default, rename = "globalNetCIDR", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub global_net_cidr: Option<String>,
}

impl GatewayExIpSpec {
    /// The address, in either spelling.
    pub fn address(&self) -> &str {
        self.externalip.as_deref().or(self.external_ip.as_deref()).unwrap_or_default()
    }

    /// The range, in either spelling.
    pub fn range(&self) -> &str {
        self.globalnetcidr.as_deref().or(self.global_net_cidr.as_deref()).unwrap_or_default()
    }
}
