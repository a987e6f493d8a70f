//! Kubernetes' own workloads, as far as they are read: a reader of a pod's whole form is 0.3 MB of code.

use k8s_openapi::api::{apps, core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// A pod.
#[derive(kube::Resource, Debug, Clone, Default, Serialize, Deserialize)]
#[resource(inherit = "core::v1::Pod")]
pub struct Pod {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// Where it runs.
    #[serde(default)]
    pub spec: PodSpec,
    /// How it is.
    #[serde(default)]
    pub status: PodStatus,
}

/// Where a pod runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The node.
    #[serde(default)]
    pub node_name: Option<String>,
}

/// How a pod is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PodStatus {
    /// `Running`, `Pending`, …
    #[serde(default)]
    pub phase: Option<String>,
    /// What else is said of it.
    #[serde(default)]
    pub conditions: Option<Vec<PodCondition>>,
}

/// One thing that is said of a pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PodCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
}

impl Pod {
    /// Whether it says that it is ready; nothing where it says nothing of it.
    pub fn is_ready(&self) -> Option<bool> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|condition| condition.kind == "Ready").map(|condition| condition.status == "True")
    }
}

/// A stateful set.
#[derive(kube::Resource, Debug, Clone, Default, Serialize, Deserialize)]
#[resource(inherit = "apps::v1::StatefulSet")]
pub struct StatefulSet {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What it runs.
    #[serde(default)]
    pub spec: WorkloadSpec,
    /// How far it got.
    #[serde(default)]
    pub status: WorkloadStatus,
}

/// A deployment.
#[derive(kube::Resource, Debug, Clone, Default, Serialize, Deserialize)]
#[resource(inherit = "apps::v1::Deployment")]
pub struct Deployment {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What it runs.
    #[serde(default)]
    pub spec: WorkloadSpec,
    /// How far it got.
    #[serde(default)]
    pub status: WorkloadStatus,
}

/// What a workload runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// How many pods it should have.
    #[serde(default)]
    pub replicas: Option<i32>,
    /// Its pods.
    #[serde(default)]
    pub template: PodTemplate,
}

/// The pods of a workload.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PodTemplate {
    /// Their metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

/// How far a workload got.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// How many pods serve.
    #[serde(default)]
    pub available_replicas: Option<i32>,
}
