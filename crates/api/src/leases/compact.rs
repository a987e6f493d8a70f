//! Nodes in the protobuf form of Kubernetes: the same few fields, by their numbers.
//!
//! The numbers are those of `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1` (`generated.proto`); a server
//! writes every field, empty ones too, where JSON leaves them out. What is not named here is passed over unread.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use prost::{DecodeError, Message};

use super::node::{NodeCondition, NodeObject, NodeSpec, NodeStatus};

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Instant>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
}

/// Without a second it is no time at all. Nothing finer is ever written.
#[derive(Clone, PartialEq, Message)]
struct Instant {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Spec {
    #[prost(string, tag = "1")]
    pod_cidr: String,
    #[prost(string, repeated, tag = "7")]
    pod_cidrs: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(message, repeated, tag = "4")]
    conditions: Vec<Condition>,
}

#[derive(Clone, PartialEq, Message)]
struct Condition {
    #[prost(string, tag = "1")]
    r#type: String,
    #[prost(string, tag = "2")]
    status: String,
}

impl NodeObject {
    /// A node from its protobuf form: what its JSON would have given, as far as anybody reads it here.
    pub fn from_protobuf(bytes: &[u8]) -> Result<NodeObject, DecodeError> {
        let Node { metadata, spec, status } = Node::decode(bytes)?;
        let Spec { pod_cidr, pod_cidrs } = spec.unwrap_or_default();
        let conditions = status.unwrap_or_default().conditions.into_iter();
        Ok(NodeObject {
            metadata: metadata.unwrap_or_default().into(),
            spec: NodeSpec { pod_cidrs, pod_cidr: given(pod_cidr) },
            status: NodeStatus {
                conditions: conditions
                    .map(|Condition { r#type, status }| NodeCondition { r#type, status })
                    .collect(),
            },
        })
    }
}

impl From<Metadata> for ObjectMeta {
    fn from(metadata: Metadata) -> ObjectMeta {
        let Metadata { name, resource_version, creation_timestamp, annotations } = metadata;
        let seconds = creation_timestamp.and_then(|time| time.seconds);
        ObjectMeta {
            name: given(name),
            resource_version: given(resource_version),
            creation_timestamp: seconds.and_then(|at| Timestamp::from_second(at).ok()).map(Time),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        }
    }
}

fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use causeway_core::leases::Seen;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::leases::{DEFAULT_PREFIX, seen};

    /// What is made of a node by others, and by itself.
    fn made_of(object: &NodeObject) -> [Seen; 2] {
        [seen(DEFAULT_PREFIX, "n", object), seen(DEFAULT_PREFIX, "another", object)]
    }

    fn annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
        const NAMES: [&str; 6] =
            ["kube-subnet-manager", "backend-type", "backend-data", "public-ip", "public-ipv6", "x"];
        const VALUES: [&str; 8] = ["true", "host-gw", "vxlan", "null", "10.0.0.9", "fd00::9", "", "è"];
        let data = r#"{"VNI":1,"VtepMAC":"8e:de:ad:be:ef:01"}"#.to_owned();
        let value = prop_oneof![prop::sample::select(&VALUES[..]).prop_map(str::to_owned), Just(data)];
        let name = prop::sample::select(&NAMES[..]).prop_map(|name| format!("{DEFAULT_PREFIX}/{name}"));
        prop::collection::btree_map(name, value, 0..6)
    }

    fn ranges() -> impl Strategy<Value = Vec<String>> {
        let range = prop::sample::select(&["10.244.3.0/24", "fd00:10:244:3::/64", "10.244.3.1/24", ""][..]);
        prop::collection::vec(range.prop_map(str::to_owned), 0..3)
    }

    proptest! {
        #[test]
        fn a_node_is_the_same_in_both_forms(
            annotations in annotations(),
            pod_cidrs in ranges(),
            seconds in prop::option::of(-1_000_000_000_i64..4_000_000_000),
            status in prop::option::of("True|False|Unknown"),
        ) {
            let pod_cidr = pod_cidrs.first().cloned().unwrap_or_default();
            let time = seconds.map(|at| Timestamp::from_second(at).expect("a time").to_string());
            let conditions: Vec<_> =
                status.iter().map(|it| json!({ "type": "NetworkUnavailable", "status": it })).collect();
            let json = json!({
                "metadata": {
                    "name": "n", "resourceVersion": "7", "annotations": annotations, "creationTimestamp": time,
                },
                "spec": { "podCIDR": pod_cidr, "podCIDRs": pod_cidrs },
                "status": { "conditions": conditions },
            });
            let json: NodeObject = serde_json::from_value(json).expect("a node");
            let conditions = status.map(|status| Condition { r#type: "NetworkUnavailable".into(), status });
            let message = Node {
                metadata: Some(Metadata {
                    name: "n".into(),
                    resource_version: "7".into(),
                    creation_timestamp: Some(Instant { seconds }),
                    annotations,
                }),
                spec: Some(Spec { pod_cidr, pod_cidrs }),
                status: Some(Status { conditions: conditions.into_iter().collect() }),
            };
            let read = NodeObject::from_protobuf(&message.encode_to_vec()).expect("a node");
            prop_assert_eq!(made_of(&read), made_of(&json));
        }

        #[test]
        fn whatever_bytes_come_are_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = NodeObject::from_protobuf(&bytes).map(|object| made_of(&object));
        }
    }
}
