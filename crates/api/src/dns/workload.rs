//! What is read of a DNS server's Deployment and of a Service: a reader of their whole form is a lot of code.

use causeway_core::dns::deployment::{Field, Script};
use k8s_openapi::api::{apps, core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// A Deployment.
#[derive(kube::Resource, Debug, Clone, Default, Serialize, Deserialize)]
#[resource(inherit = "apps::v1::Deployment")]
pub struct Deployment {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What it runs.
    #[serde(default)]
    pub spec: DeploymentSpec,
}

/// What a Deployment runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DeploymentSpec {
    /// Its pods.
    #[serde(default)]
    pub template: Template,
}

/// The pods of a Deployment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Template {
    /// Their metadata.
    #[serde(default)]
    pub metadata: Option<ObjectMeta>,
    /// What runs in them.
    #[serde(default)]
    pub spec: Option<PodSpec>,
}

/// What runs in a pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// What runs first.
    #[serde(default)]
    pub init_containers: Option<Vec<Container>>,
}

/// A container.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Container {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// What is started.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// With which words.
    #[serde(default)]
    pub args: Option<Vec<String>>,
}

/// A Service.
#[derive(kube::Resource, Debug, Clone, Default, Serialize, Deserialize)]
#[resource(inherit = "core::v1::Service")]
pub struct Service {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// Where it is.
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// Where a Service is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Its address, or `None`.
    #[serde(default, rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// Its addresses, where it has one of each family.
    #[serde(default, rename = "clusterIPs")]
    pub cluster_ips: Option<Vec<String>>,
}

impl Container {
    /// The script of a shell: the word after `-c`, wherever that is.
    pub fn script(&self) -> Option<Script> {
        let find = |field, words: &Option<Vec<String>>| {
            let words = words.clone()?;
            let at = words.iter().position(|word| is_flag(word))? + 1;
            (at < words.len()).then_some(Script { field, words, at })
        };
        find(Field::Command, &self.command).or_else(|| find(Field::Args, &self.args))
    }
}

/// `-c`, or that among other letters, as in `-ec`.
fn is_flag(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.chars().all(|c| c.is_ascii_alphabetic())
}
