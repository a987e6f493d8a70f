//! What kube-ovn says of a VPC's DNS server.

/// The Corefile that a VPC's DNS server has, where its `VpcDns` names no other.
pub const COREFILE: &str = "vpc-dns-corefile";
/// How the names of Deployments of DNS servers begin.
const DEPLOYMENT: &str = "vpc-dns-";

/// A `VpcDns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VpcDns {
    /// The VPC that it serves.
    pub vpc: String,
    /// Whether kube-ovn runs it.
    pub active: bool,
    /// The ConfigMap of its Corefile.
    pub corefile: String,
}

/// The Deployment of a `VpcDns`.
pub fn deployment_of(name: &str) -> String {
    format!("{DEPLOYMENT}{name}")
}

/// The `VpcDns` of a Deployment; nothing for the name of any other.
pub fn of_deployment(name: &str) -> Option<&str> {
    name.strip_prefix(DEPLOYMENT).filter(|name| !name.is_empty())
}
