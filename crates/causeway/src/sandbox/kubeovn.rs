//! kube-ovn's objects, as its users and its controller would have written them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::addresses::{self, Cluster, EXTERNAL_SUBNET, Gateway, ROUTER, Role, SUBNET, SYSTEM, VPC};
use super::workloads::SetView;

/// Names the external attachment in pod annotations.
fn provider() -> String {
    format!("{EXTERNAL_SUBNET}.{SYSTEM}")
}

/// The VPC, its networks and its gateways. The VPC's owner, here the sandbox, leads the range of
/// every other cluster to the gateway in `ways`.
pub(super) fn objects(cluster: Cluster, ways: &[(Cluster, Gateway)]) -> Vec<Value> {
    let mut objects = vec![
        json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Vpc",
            "metadata": {"name": VPC},
            "spec": {"namespaces": [addresses::WORKLOADS], "staticRoutes": static_routes(ways)},
        }),
        subnet(
            SUBNET,
            addresses::lan().to_string(),
            ROUTER.to_string(),
            json!({"vpc": VPC, "provider": "ovn"}),
        ),
        subnet(
            EXTERNAL_SUBNET,
            addresses::underlay().to_string(),
            addresses::UNDERLAY_GATEWAY.to_string(),
            json!({"provider": provider()}),
        ),
    ];
    for gateway in Gateway::ALL {
        objects.push(json!({
            "apiVersion": "kubeovn.io/v1", "kind": "VpcNatGateway",
            "metadata": {"name": gateway.name()},
            "spec": {
                "vpc": VPC, "subnet": SUBNET, "lanIp": gateway.lan(),
                "externalSubnets": [EXTERNAL_SUBNET],
                "selector": [format!("kubernetes.io/hostname: {}", cluster.node())],
            },
        }));
        objects.push(stateful_set(gateway));
    }
    objects
}

fn static_routes(ways: &[(Cluster, Gateway)]) -> Vec<Value> {
    let route = |(other, gateway): &(Cluster, Gateway)| json!({"cidr": other.globalnet(), "nextHopIP": gateway.lan(), "policy": "policyDst"});
    ways.iter().map(route).collect()
}

fn subnet(name: &str, cidr: String, gateway: String, more: Value) -> Value {
    let mut spec = json!({
        "protocol": "IPv4", "cidrBlock": cidr, "gateway": gateway, "excludeIps": [gateway],
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    json!({
        "apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": {"name": name}, "spec": spec,
    })
}

fn labels(gateway: Gateway) -> Value {
    json!({"app": gateway.workload(), "ovn.kubernetes.io/vpc-nat-gw": "true"})
}

fn stateful_set(gateway: Gateway) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": gateway.workload(), "namespace": SYSTEM, "labels": labels(gateway)},
        "spec": {
            "replicas": 1, "serviceName": "",
            "selector": {"matchLabels": labels(gateway)},
            "template": {
                "metadata": {
                    "labels": labels(gateway),
                    "annotations": {
                        "ovn.kubernetes.io/vpc_nat_gw": gateway.name(),
                        "ovn.kubernetes.io/logical_switch": SUBNET,
                        "ovn.kubernetes.io/ip_address": gateway.lan(),
                        "k8s.v1.cni.cncf.io/networks": format!("{SYSTEM}/{EXTERNAL_SUBNET}"),
                    },
                },
                "spec": {"containers": [container(Role::Gateway(gateway))]},
            },
        },
    })
}

fn container(role: Role) -> Value {
    match role {
        Role::Gateway(_) => json!({
            "name": role.container(), "image": "docker.io/kubeovn/vpc-nat-gateway:v1.12.22",
            "command": ["bash"], "args": ["-c", "while true; do sleep 10000; done"],
            "securityContext": {"privileged": true},
        }),
        Role::Client | Role::Server => json!({"name": role.container(), "image": "causeway/sandbox"}),
    }
}

/// A pod as it stands once the scheduler and kube-ovn's controller have seen it.
pub(super) fn pod(cluster: Cluster, role: Role, set: Option<&SetView>) -> Value {
    let mut labels: BTreeMap<String, String> = set.map(|set| set.labels.clone()).unwrap_or_default();
    let mut annotations = set.map(|set| set.annotations.clone()).unwrap_or_default();
    annotations.extend(own_annotations(cluster, role));
    let mut metadata = json!({"name": role.pod(), "namespace": role.namespace()});
    match (role, set) {
        (Role::Gateway(gateway), Some(set)) => {
            labels.insert("statefulset.kubernetes.io/pod-name".into(), role.pod());
            metadata["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": gateway.workload(),
                "uid": set.uid, "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        _ => drop(labels.insert("app".into(), role.short().into())),
    }
    metadata["labels"] = json!(labels);
    metadata["annotations"] = json!(annotations);
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"nodeName": cluster.node(), "restartPolicy": "Always", "containers": [container(role)]},
    })
}

/// What kube-ovn writes on a pod once it has given it its addresses.
pub(super) fn own_annotations(cluster: Cluster, role: Role) -> BTreeMap<String, String> {
    let mut all = vec![
        ("ovn.kubernetes.io/allocated".to_owned(), "true".to_owned()),
        ("ovn.kubernetes.io/routed".into(), "true".into()),
        ("ovn.kubernetes.io/ip_address".into(), role.lan().to_string()),
        ("ovn.kubernetes.io/cidr".into(), addresses::lan().to_string()),
        ("ovn.kubernetes.io/gateway".into(), ROUTER.to_string()),
        ("ovn.kubernetes.io/logical_router".into(), VPC.into()),
        ("ovn.kubernetes.io/logical_switch".into(), SUBNET.into()),
    ];
    match role {
        Role::Gateway(gateway) => {
            let external = cluster.external(gateway).to_string();
            all.push((format!("{}.kubernetes.io/ip_address", provider()), external));
            all.push((format!("{}.kubernetes.io/logical_switch", provider()), EXTERNAL_SUBNET.into()));
        }
        Role::Server => {
            all.push(("submariner.io/globalIp".into(), cluster.server_global().to_string()));
        }
        Role::Client => {}
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_pod_carries_what_the_controller_reads() {
        let cluster = Cluster::first(1)[0];
        let set = SetView { uid: "u".into(), ..SetView::default() };
        let pod = pod(cluster, Role::Gateway(Gateway::Gw1), Some(&set));
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(annotations["ovn.kubernetes.io/gateway"], "10.0.1.1");
        assert_eq!(annotations["ovn.kubernetes.io/logical_router"], "test-vpc-1");
        let external = "ovn-vpc-external-network.kube-system.kubernetes.io/ip_address";
        assert_eq!(annotations[external], "172.50.16.11");
        assert_eq!(pod["spec"]["containers"][0]["name"], "vpc-nat-gw");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn the_vpc_leads_every_other_clusters_range_to_a_gateway() {
        let clusters = Cluster::first(3);
        let ways = [(clusters[1], Gateway::Gw2), (clusters[2], Gateway::Gw1)];
        let objects = objects(clusters[0], &ways);
        let routes = &objects[0]["spec"]["staticRoutes"];
        assert_eq!(routes[0]["cidr"], "242.1.0.0/16");
        assert_eq!(routes[0]["nextHopIP"], "10.0.1.253");
        assert_eq!(routes[1]["cidr"], "242.2.0.0/16");
        assert_eq!(routes[1]["nextHopIP"], "10.0.1.254");
    }
}
