//! The fields we read of kube-ovn's, Submariner's and Kubernetes' own objects. Everything is optional: their versions
//! differ, and a field that is not there is a fact, not an error.

pub mod kube_ovn;
pub mod kubernetes;
pub mod submariner;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::CustomResourceExt;

/// Definitions of the foreign kinds for places that lack the real ones, like the sandbox. They accept
/// anything, as we know only what we read.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let read = [
        kube_ovn::Vpc::crd(),
        kube_ovn::Subnet::crd(),
        kube_ovn::VpcNatGateway::crd(),
        kube_ovn::IptablesEIP::crd(),
        kube_ovn::VpcDns::crd(),
        submariner::Cluster::crd(),
        submariner::ClusterGlobalEgressIP::crd(),
        submariner::ServiceDiscovery::crd(),
    ];
    read.into_iter().map(accept_anything).collect()
}

fn accept_anything(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let open = JSONSchemaProps {
        type_: Some("object".into()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    };
    for version in &mut crd.spec.versions {
        version.schema.get_or_insert_default().open_api_v3_schema = Some(open.clone());
    }
    crd
}
