//! Submariner: clusters, their ranges of global addresses, and the broker's coordinates.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A member cluster.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "submariner.io",
    version = "v1",
    kind = "Cluster",
    plural = "clusters",
    namespaced,
    derive = "PartialEq"
)]
#[serde(default)]
pub struct ClusterSpec {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Its ranges of global addresses; the first counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_cidr: Option<Vec<String>>,
}

/// The addresses that a cluster's traffic appears to come from elsewhere.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "submariner.io",
    version = "v1",
    kind = "ClusterGlobalEgressIP",
    plural = "clusterglobalegressips",
    status = "EgressStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterGlobalEgressIPSpec {
    /// How many addresses are requested.
    #[serde(rename = "numberOfIPs", skip_serializing_if = "Option::is_none")]
    pub number_of_ips: Option<i64>,
}

/// The addresses given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EgressStatus {
    /// The addresses.
    #[serde(rename = "allocatedIPs", skip_serializing_if = "Vec::is_empty")]
    pub allocated_ips: Vec<String>,
}

/// Who this cluster is and where its broker lives.
#[derive(CustomResource, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "submariner.io",
    version = "v1alpha1",
    kind = "ServiceDiscovery",
    plural = "servicediscoveries",
    namespaced,
    derive = "PartialEq"
)]
#[serde(default)]
pub struct ServiceDiscoverySpec {
    /// This cluster's id.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// `host:port` of the broker's API server.
    #[serde(rename = "brokerK8sApiServer", skip_serializing_if = "Option::is_none")]
    pub broker_api_server: Option<String>,
    /// A token for it.
    #[serde(rename = "brokerK8sApiServerToken", skip_serializing_if = "Option::is_none")]
    pub broker_token: Option<String>,
    /// The namespace of the exchange.
    #[serde(rename = "brokerK8sRemoteNamespace", skip_serializing_if = "Option::is_none")]
    pub broker_namespace: Option<String>,
    /// Its certificate authority: base64 of PEM.
    #[serde(rename = "brokerK8sCA", skip_serializing_if = "Option::is_none")]
    pub broker_ca: Option<String>,
    /// Whether to go without one.
    #[serde(rename = "brokerK8sInsecure", skip_serializing_if = "Option::is_none")]
    pub broker_insecure: Option<bool>,
    /// A secret beside it with `token` and `ca.crt`, which wins.
    #[serde(rename = "brokerK8sSecret", skip_serializing_if = "Option::is_none")]
    pub broker_secret: Option<String>,
}

/// Without the token: specs end up in logs.
impl std::fmt::Debug for ServiceDiscoverySpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceDiscoverySpec")
            .field("cluster_id", &self.cluster_id)
            .field("broker_api_server", &self.broker_api_server)
            .field("broker_namespace", &self.broker_namespace)
            .finish_non_exhaustive()
    }
}
