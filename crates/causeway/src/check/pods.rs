//! Which two pods speak: those that were named, or the first that could.

use std::net::Ipv4Addr;

use causeway_core::ObjectKey;
use serde_json::Value;

/// Where Submariner writes the address that a pod has in all clusters.
const GLOBAL: &str = "submariner.io/globalIp";
/// Where kube-ovn writes a pod's VPC.
const VPC: &str = "ovn.kubernetes.io/logical_router";
/// The VPC that is not anybody's own.
const DEFAULT_VPC: &str = "ovn-cluster";
const GATEWAY: &str = "ovn.kubernetes.io/vpc-nat-gw";

/// A pod that could speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Speaker {
    pub(super) key: ObjectKey,
    /// Its address in all clusters.
    pub(super) global: Option<Ipv4Addr>,
    vpc: Option<String>,
}

impl Speaker {
    /// From a pod; nothing if it does not run, or is a gateway's.
    pub(super) fn read(pod: &Value) -> Option<Self> {
        let meta = &pod["metadata"];
        let annotation = |name: &str| meta["annotations"][name].as_str().filter(|text| !text.is_empty());
        let runs = pod["status"]["phase"] == "Running" && meta["deletionTimestamp"].is_null();
        if !runs || meta["labels"][GATEWAY] == "true" {
            return None;
        }
        Some(Self {
            key: ObjectKey::new(meta["namespace"].as_str()?, meta["name"].as_str()?).ok()?,
            global: annotation(GLOBAL).and_then(|text| text.parse().ok()),
            vpc: annotation(VPC).filter(|vpc| *vpc != DEFAULT_VPC).map(Into::into),
        })
    }
}

/// The pod that speaks first: the first of a VPC; one without a global address sooner, since its packets are translated.
pub(super) fn first_speaker(pods: &[Speaker]) -> Option<&Speaker> {
    pods.iter().filter(|pod| pod.vpc.is_some()).min_by_key(|pod| (pod.global.is_some(), pod.key.clone()))
}

/// The pod that is spoken to: the first that has a global address.
pub(super) fn first_listener(pods: &[Speaker]) -> Option<&Speaker> {
    pods.iter().filter(|pod| pod.global.is_some()).min_by_key(|pod| pod.key.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, annotations: Value) -> Value {
        json!({
            "metadata": { "namespace": "ns1", "name": name, "annotations": annotations, "labels": {} },
            "status": { "phase": "Running" },
        })
    }

    #[test]
    fn pods_of_a_vpc_speak_and_those_with_a_global_address_are_spoken_to() {
        let mut gateway = pod("a-gateway", json!({ VPC: "vpc1" }));
        gateway["metadata"]["labels"][GATEWAY] = json!("true");
        let mut pending = pod("a-pending", json!({ VPC: "vpc1", GLOBAL: "242.0.1.1" }));
        pending["status"]["phase"] = json!("Pending");
        let all = [
            gateway,
            pending,
            pod("b-elsewhere", json!({ VPC: DEFAULT_VPC })),
            pod("c-server", json!({ VPC: "vpc1", GLOBAL: "242.0.1.20" })),
            pod("d-client", json!({ VPC: "vpc1" })),
            json!({ "status": { "phase": "Running" } }),
        ];
        let pods: Vec<Speaker> = all.iter().filter_map(Speaker::read).collect();
        assert_eq!(first_speaker(&pods).map(|pod| pod.key.name()), Some("d-client"));
        assert_eq!(first_listener(&pods).map(|pod| pod.key.name()), Some("c-server"));
        assert_eq!(first_listener(&pods[..1]), None);
    }
}
