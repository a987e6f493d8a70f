//! Objects come from people and from other software: whatever their fields say, parsing them ends with a value.

use causeway_api::leases::{self, NodeObject};
use causeway_api::vpc::foreign::kube_ovn;
use causeway_api::vpc::foreign::kubernetes::Pod;
use causeway_api::vpc::{GatewayExIp, TunnelEnd, VpcNatTunnel, end, parse};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// A field's text: nothing, nonsense, or something that could be meant.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["", "gw1", "cluster2", "10.100.0.1/24", "10.0.1.1,fd00::1", "242.1.0.0/16", "100", "-1"])
            .prop_map(str::to_owned),
        "[ -~]{0,12}",
        any::<String>(),
    ]
}

/// Some of these fields, each with some text.
fn fields(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    btree_map(select(names), text(), 0..names.len()).prop_map(|fields| json!(fields))
}

const TUNNEL: &[&str] = &[
    "interfaceAddr",
    "clusterId",
    "gatewayName",
    "natGwDp",
    "remoteCluster",
    "remoteVpc",
    "localVpc",
    "remoteIp",
];
const RECORD: &[&str] = &["externalip", "externalIp", "globalnetcidr", "globalNetCIDR"];
const LABELS: &[&str] = &[
    "vid",
    "vx-port",
    "app",
    "localVpc",
    "localGateway",
    "localCluster",
    "submariner-io/clusterID",
    "submariner-io/originatingNamespace",
    "causeway/peer-cluster",
];
const ANNOTATIONS: &[&str] = &[
    "ovn.kubernetes.io/ip_address",
    "ovn.kubernetes.io/gateway",
    "ovn.kubernetes.io/logical_router",
    "ovn.kubernetes.io/vpc_nat_gw",
    "a.b.kubernetes.io/ip_address",
    "causeway/abandon",
    ".kubernetes.io/ip_address",
];

/// An object with this metadata, if it can be decoded at all.
fn object<T: serde::de::DeserializeOwned>(
    mut value: Value,
    name: &str,
    labels: &Value,
    annotations: &Value,
) -> Option<T> {
    value["metadata"] =
        json!({ "name": name, "namespace": "ns1", "labels": labels, "annotations": annotations });
    serde_json::from_value(value).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn parsing_always_ends_with_a_value(
        name in text(), labels in fields(LABELS), annotations in fields(ANNOTATIONS), tunnel in fields(TUNNEL),
        record in fields(RECORD), kind in select(vec!["gre", "vxlan"]), other in text(),
    ) {
        let mut spec = tunnel;
        spec["type"] = kind.into();
        let typed = |kind: &str, group: &str, spec: Value| json!({ "apiVersion": group, "kind": kind, "spec": spec });
        let ours = "kubeovn.ustc.io/v1";
        if let Some(tunnel) = object::<VpcNatTunnel>(typed("VpcNatTunnel", ours, spec), &name, &labels, &annotations) {
            match parse::tunnel(&tunnel).map(|tunnel| tunnel.spec) {
                Some(Ok(spec)) => prop_assert_eq!(spec.link.as_str(), &name, "the link has the object's name"),
                Some(Err(why)) => prop_assert!(!why.is_empty()),
                None => prop_assert!(causeway_core::ObjectKey::new("ns1", &name).is_err()),
            }
        }
        if let Some(record) = object::<GatewayExIp>(typed("GatewayExIp", ours, record.clone()), &name, &labels, &annotations)
            && let Some(peer) = parse::record(&record).and_then(|record| record.peer())
        {
            let plain = |name: &str| name.replace("--", "-");
            prop_assert_eq!(plain(&format!("{}-{}", peer.gateway, peer.cluster)), plain(&name));
        }
        let mut end = json!({
            "cluster": &other, "gateway": &name, "peerCluster": "c1", "peerGateway": &other, "tunnel": &name,
            "type": kind, "interfaceAddr": &other, "vni": 7, "port": 8,
        });
        for (field, given) in record.as_object().into_iter().flatten().zip(["gateway", "peerGateway", "tunnel", "interfaceAddr"]) {
            end[given] = field.1.clone();
        }
        if let Some(end) = object::<TunnelEnd>(typed("TunnelEnd", ours, end), &name, &labels, &annotations)
            && let Some(parsed) = end::parse(&end)
        {
            prop_assert_eq!(Some(parsed.on.cluster().as_str()), labels["submariner-io/clusterID"].as_str());
        }
        if let Some(pod) = object::<Pod>(json!({}), &name, &labels, &annotations) {
            let pod = parse::gateway_pod(&pod, "vpc-nat-gw");
            prop_assert!(pod.is_none_or(|pod| !pod.external.contains_key("ovn")));
        }
        let route = json!({ "staticRoutes": [{ "cidr": &other, "nextHopIP": &name }] });
        if let Some(vpc) = object::<kube_ovn::Vpc>(typed("Vpc", "kubeovn.io/v1", route), "v", &labels, &annotations) {
            prop_assert!(parse::vpc(&vpc).routes.len() <= 1);
        }
        let mut eip = typed("IptablesEIP", "kubeovn.io/v1", json!({ "natGwDp": &name }));
        eip["status"] = json!({ "ip": &other });
        if let Some(eip) = object::<kube_ovn::IptablesEIP>(eip, "e", &labels, &annotations) {
            let _ = parse::eip(&eip);
        }
        let lease = json!({ "spec": { "holderIdentity": &other, "leaseDurationSeconds": i32::MAX, "renewTime": "9999-12-31T23:59:59.000000Z" } });
        if let Some(lease) = object::<Lease>(lease, &name, &labels, &annotations) {
            let _ = parse::member(&lease, i64::MAX);
        }
        let config = json!({ "data": { "natGwNamePrefix": &other } });
        if let Some(config) = object::<ConfigMap>(config, &name, &labels, &annotations) {
            prop_assert!(!parse::gateway_prefix(&config).is_empty());
        }
    }
}

const NODE: &[&str] = &[
    "flannel.alpha.coreos.com/kube-subnet-manager",
    "flannel.alpha.coreos.com/backend-type",
    "flannel.alpha.coreos.com/backend-data",
    "flannel.alpha.coreos.com/backend-v6-data",
    "flannel.alpha.coreos.com/public-ip",
    "flannel.alpha.coreos.com/public-ipv6",
    "flannel.alpha.coreos.com/public-ip-overwrite",
];

/// What a node may say of itself: nonsense, or something that could be meant.
fn said() -> impl Strategy<Value = String> {
    let meant = [
        "true",
        "vxlan",
        "host-gw",
        "null",
        r#"{"VNI":1,"VtepMAC":"8e:de:ad:be:ef:01"}"#,
        r#"{"VNI":1,"VtepMAC":"00:00:00:00:00:00"}"#,
        "10.0.0.9",
        "fd00::9",
        "0.0.0.0",
    ];
    prop_oneof![4 => select(meant.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #[test]
    fn whatever_a_node_says_of_itself_is_taken_in(
        annotations in btree_map(select(NODE), said(), 0..NODE.len()),
        cidrs in prop::collection::vec(prop_oneof![Just("10.244.3.0/24".to_owned()), Just("fd00::/64".to_owned()), any::<String>()], 0..3),
    ) {
        let object = json!({ "metadata": { "name": "n", "annotations": annotations }, "spec": { "podCIDRs": cidrs } });
        let object: NodeObject = serde_json::from_value(object).expect("a node");
        let seen = leases::seen(leases::DEFAULT_PREFIX, "n", &object);
        let reached = seen.node.iter().flat_map(|node| node.leases.iter().flatten());
        for lease in reached {
            prop_assert_eq!(causeway_core::Family::of(lease.public), lease.subnet.family());
            if let causeway_core::leases::Backend::Vxlan { mac, .. } = lease.backend {
                prop_assert!(mac.is_of_one());
            }
        }
    }

    #[test]
    fn whatever_the_networks_file_says_is_an_answer(text in any::<String>(), network in said(), kind in said(), vni in any::<u64>()) {
        let _ = leases::config(&text);
        let _ = leases::config(&json!({ "Network": network, "Backend": { "Type": kind, "VNI": vni } }).to_string());
    }
}
