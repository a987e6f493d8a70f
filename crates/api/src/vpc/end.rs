//! `TunnelEnd`: what one end of a tunnel is declared to be, published at the broker for the peer's cluster.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]
#![allow(clippy::duplicated_attributes, reason = "columns differ in their names only")]

use causeway_core::GatewayName;
use causeway_core::vpc::ends::{End, Says};
use causeway_core::vpc::exchange::{LOCAL_VPC, ORIGIN};
use causeway_core::vpc::objects::{Far, Peer, Place};
use causeway_core::vpc::published::{EndObject, OWNER, PEER_CLUSTER, PEER_VPC};
use causeway_core::vpc::want::TunnelKind;
use kube::{CustomResource, KubeSchema, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tunnel::TunnelType;

/// One end of a tunnel as its cluster has declared it. Written by Causeway at the broker, never by people, so that the
/// cluster of the other end can compare it with its own.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubeovn.ustc.io",
    version = "v1",
    kind = "TunnelEnd",
    plural = "tunnelends",
    singular = "tunnelend",
    category = "causeway",
    namespaced,
    derive = "PartialEq",
    doc = "One end of a tunnel as its cluster has declared it, for the cluster of the other end to compare",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster"),
    printcolumn(name = "Gateway", type_ = "string", json_path = ".spec.gateway"),
    printcolumn(name = "PeerCluster", type_ = "string", json_path = ".spec.peerCluster"),
    printcolumn(name = "PeerGateway", type_ = "string", json_path = ".spec.peerGateway"),
    printcolumn(name = "VPC", type_ = "string", json_path = ".metadata.labels.localVpc"),
    printcolumn(name = "PeerVPC", type_ = "string", json_path = ".metadata.labels.remoteVpc"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "VNI", type_ = "integer", json_path = ".spec.vni"),
    printcolumn(name = "MTU", type_ = "integer", json_path = ".spec.mtu"),
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.interfaceAddr"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TunnelEndSpec {
    /// The cluster that the end is in.
    #[schemars(length(max = 63))]
    pub cluster: String,
    /// Its gateway; empty where the tunnel is by VPC, which the label `localVpc` names then. Older readers pass such ends over.
    #[schemars(length(max = 63))]
    pub gateway: String,
    /// The cluster of the other end.
    #[schemars(length(max = 63))]
    pub peer_cluster: String,
    /// The gateway of the other end; empty where the tunnel is by VPC, which the label `remoteVpc` names then.
    #[schemars(length(max = 63))]
    pub peer_gateway: String,
    /// The `VpcNatTunnel` that declares it: namespace and name.
    #[schemars(length(max = 128))]
    pub tunnel: String,
    /// The encapsulation.
    #[serde(rename = "type")]
    pub kind: TunnelType,
    /// VXLAN only: the network identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<i32>,
    /// VXLAN only: the UDP port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
    /// The largest packet that fits in, once the link is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub mtu: Option<i32>,
    /// The address with prefix on the tunnel's link.
    #[schemars(length(max = 18))]
    pub interface_addr: String,
}

/// An end, from its object; nothing for one that makes no sense, or that speaks for another cluster than its labels.
pub fn parse(object: &TunnelEnd) -> Option<End> {
    let spec = &object.spec;
    let label = |name: &str| object.labels().get(name).map(String::as_str);
    let speaks_for_itself =
        label(ORIGIN) == Some(&spec.cluster) && label(PEER_CLUSTER) == Some(&spec.peer_cluster);
    let kind = match (spec.kind, spec.vni, spec.port) {
        (TunnelType::Gre, ..) => TunnelKind::Gre,
        (TunnelType::Vxlan, Some(vni), Some(port)) => {
            TunnelKind::Vxlan { vni: vni.try_into().ok()?, port: port.try_into().ok()? }
        }
        (TunnelType::Vxlan, ..) => return None,
    };
    let named = |vpc: &str| label(vpc).filter(|vpc| vpc.parse::<GatewayName>().is_ok());
    let far = |cluster: &str, gateway: &str, vpc: &str| {
        let cluster = cluster.parse().ok()?;
        Some(match named(vpc).filter(|_| gateway.is_empty()) {
            Some(vpc) => Far::Vpc { cluster, vpc: vpc.into() },
            None => Far::Gateway(Peer { cluster, gateway: gateway.parse().ok()? }),
        })
    };
    Some(End {
        name: object.name_any(),
        resource_version: object.resource_version().unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        on: far(&spec.cluster, &spec.gateway, LOCAL_VPC)?,
        to: far(&spec.peer_cluster, &spec.peer_gateway, PEER_VPC)?,
        tunnel: spec.tunnel.parse().ok()?,
        says: Says {
            kind,
            mtu: spec.mtu.and_then(|mtu| mtu.try_into().ok()),
            address: spec.interface_addr.parse().ok()?,
        },
    })
    .filter(|_| speaks_for_itself)
}

/// The object of an end; over the version given, if there is one. What is not said is null, so that a patch unsets it.
pub fn body(end: &EndObject, namespace: &str, version: Option<&str>) -> Value {
    let EndObject { name, owner, on, to, tunnel, says } = end;
    let (cluster, peer_cluster) = (on.cluster().as_str(), to.cluster().as_str());
    let (near, far) = (on.place(), to.place());
    let (vni, port) = match says.kind {
        TunnelKind::Vxlan { vni, port } => (Some(vni), Some(port)),
        TunnelKind::Gre => (None, None),
    };
    let mut labels = json!({ ORIGIN: cluster, PEER_CLUSTER: peer_cluster, OWNER: owner });
    for (label, place) in [(LOCAL_VPC, &near), (PEER_VPC, &far)] {
        match place {
            Place::Vpc(vpc) => labels[label] = json!(vpc),
            // One that is there already may have been by VPC before.
            Place::Gateway(_) if version.is_some() => labels[label] = Value::Null,
            Place::Gateway(_) => {}
        }
    }
    let gateway = |place: &Place| match place {
        Place::Gateway(gateway) => gateway.to_string(),
        Place::Vpc(_) => String::new(),
    };
    json!({
        "apiVersion": "kubeovn.ustc.io/v1",
        "kind": "TunnelEnd",
        "metadata": { "name": name, "namespace": namespace, "labels": labels, "resourceVersion": version },
        "spec": {
            "cluster": cluster,
            "gateway": gateway(&near),
            "peerCluster": peer_cluster,
            "peerGateway": gateway(&far),
            "tunnel": tunnel.to_string(),
            "type": says.kind.as_str(),
            "vni": vni,
            "port": port,
            "mtu": says.mtu,
            "interfaceAddr": says.address.to_string(),
        },
    })
}
