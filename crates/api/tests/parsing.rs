//! Objects as people and other operators write them become the values that decisions rest on.

use causeway_api::condition;
use causeway_api::vpc::foreign::kubernetes::{Pod, StatefulSet};
use causeway_api::vpc::foreign::submariner::ServiceDiscoverySpec;
use causeway_api::vpc::{GatewayExIp, TunnelEnd, VpcNatTunnel, VpcNatTunnelStatus, end, parse};
use causeway_core::vpc::TunnelKind;
use causeway_core::vpc::ends::Says;
use causeway_core::vpc::nodes::NodeReport;
use causeway_core::vpc::objects::{Ends, Far, Place};
use causeway_core::vpc::published::EndObject;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of that kind")
}

fn tunnel(labels: Value, spec: Value) -> VpcNatTunnel {
    let metadata = json!({ "name": "ovn-gre0", "namespace": "ns1", "labels": labels });
    object(
        json!({ "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel", "metadata": metadata, "spec": spec }),
    )
}

fn sample() -> Value {
    json!({ "clusterId": "cluster2", "gatewayName": "gw1", "interfaceAddr": "10.100.0.1/24", "natGwDp": "gw1" })
}

#[test]
fn the_sample_manifest_is_a_gre_tunnel_by_gateway() {
    let manifest: VpcNatTunnel =
        serde_saphyr::from_str(include_str!("../../../samples/tunnel.yaml")).expect("a tunnel");
    let spec = parse::tunnel(&manifest).expect("a key").spec.expect("valid");
    assert_eq!(spec.kind, TunnelKind::Gre);
    assert_eq!(spec.link.as_str(), "ovn-gre0");
    let Ends::ByGateway { gateway, peer } = spec.ends else { panic!("by gateway") };
    assert_eq!((gateway.as_str(), peer.to_string().as_str()), ("gw1", "cluster2/gw1"));
}

#[test]
fn vni_and_port_come_from_labels_and_have_bounds() {
    let mut spec = sample();
    spec["type"] = "vxlan".into();
    let kind =
        |labels| parse::tunnel(&tunnel(labels, spec.clone())).expect("a key").spec.map(|spec| spec.kind);
    assert_eq!(kind(json!({})), Ok(TunnelKind::Vxlan { vni: 100, port: 4789 }));
    assert_eq!(kind(json!({"vid": "7", "vx-port": "8472"})), Ok(TunnelKind::Vxlan { vni: 7, port: 8472 }));
    for bad in
        [json!({"vid": "0"}), json!({"vid": "16777216"}), json!({"vid": "x"}), json!({"vx-port": "65536"})]
    {
        let error = kind(bad.clone()).expect_err("out of bounds");
        assert!(error.contains("is not a number from"), "{bad}: {error}");
    }
}

#[test]
fn a_spec_that_makes_no_sense_is_a_sentence_not_a_failure() {
    let mut spec = sample();
    spec["interfaceAddr"] = "10.100.0.1".into();
    let error = parse::tunnel(&tunnel(json!({}), spec)).expect("a key").spec.expect_err("no prefix");
    assert!(error.contains("10.100.0.1/24"), "{error}");
    let mut both = sample();
    both["remoteCluster"] = "c3".into();
    assert!(parse::tunnel(&tunnel(json!({}), both)).expect("a key").spec.is_err());
}

#[test]
fn scratch_fields_of_older_operators_are_accepted_and_mean_nothing() {
    let mut spec = sample();
    for field in ["remoteIp", "internalIp", "localGw"] {
        spec[field] = "whatever".into();
    }
    let plain = parse::tunnel(&tunnel(json!({}), sample())).expect("a key").spec;
    assert_eq!(parse::tunnel(&tunnel(json!({}), spec)).expect("a key").spec, plain);
}

#[test]
fn every_condition_on_an_object_is_read_and_written_back() {
    let theirs = json!({
        "type": "Audited", "status": "Unknown", "reason": "Theirs", "message": "who knows",
        "lastTransitionTime": "2026-11-16T12:00:00Z",
    });
    let ours = json!({
        "type": "Ready", "status": "False", "reason": "Down", "message": "no",
        "lastTransitionTime": "2026-11-16T12:00:01Z", "observedGeneration": 2,
    });
    let mut object = tunnel(json!({}), sample());
    object.status = Some(object_status(json!({ "conditions": [theirs, ours] })));
    let mut conditions = parse::tunnel(&object).expect("a key").status.conditions;
    conditions.set("Ready", true, "Up", "yes".into(), 3);
    let now = "2026-11-16T13:00:00.7Z".parse().expect("a time");
    let written = serde_json::to_value(condition::written(&conditions, now)).expect("plain data");
    let up = json!({
        "type": "Ready", "status": "True", "reason": "Up", "message": "yes",
        "lastTransitionTime": "2026-11-16T13:00:00Z", "observedGeneration": 3,
    });
    assert_eq!(written, json!([theirs, up]));
}

#[test]
fn what_can_be_understood_of_an_object_that_cannot_be_decoded_is_kept() {
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Up", "message": "",
            "lastTransitionTime": "2026-11-16T12:00:00Z",
        })
    };
    let loose = |spec: Value, status: Value| {
        let metadata = json!({ "name": "t", "namespace": "ns1", "finalizers": ["tunnel.finalizer.ustc.io"] });
        parse::loose_tunnel(&object(json!({
            "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel", "metadata": metadata, "spec": spec,
            "status": status,
        })))
        .expect("a key")
    };
    let whole = loose(sample(), json!({ "initialized": true, "conditions": [condition("Ready")] }));
    assert!(whole.spec.is_ok() && whole.status.initialized && whole.status.conditions.is_true("Ready"));
    let status = json!({
        "initialized": true, "localGw": "gw1", "internalIp": 7, "conditions": [condition("Ready"), { "type": "Odd" }],
    });
    let broken = loose(json!({ "interfaceAddr": 7 }), status);
    assert!(broken.is_held());
    let why = broken.spec.expect_err("not a text");
    assert!(why.contains("cannot be read"), "{why}");
    assert!(broken.status.initialized && broken.status.conditions.is_true("Ready"));
    assert_eq!((broken.status.gateway.as_deref(), broken.status.internal_ip), (Some("gw1"), None));
    assert!(loose(json!(null), json!(null)).spec.is_err());
}

#[test]
fn a_record_that_cannot_be_decoded_or_says_no_origin_that_could_be_one_is_there_and_not_ours() {
    let meta = object(json!({
        "name": "gw1-c2", "namespace": "kube-system", "resourceVersion": "7",
        "labels": { "localGateway": "gw1", "localCluster": "c2", "submariner-io/clusterID": "c2" },
    }));
    let unreadable = parse::unreadable_record(&meta, "spec: invalid type").expect("a key");
    assert_eq!(unreadable.peer().expect("by its labels").to_string(), "c2/gw1");
    assert!(unreadable.unreadable.expect("why").contains("invalid type"));
    let odd = parse::record(&record("gw1-c2", json!({ "submariner-io/clusterID": "Not_An_Id" }), json!({})))
        .expect("a key");
    assert!(odd.unreadable.expect("why").contains("Not_An_Id"));
}

#[test]
fn a_cluster_that_is_called_what_no_id_can_be_says_so() {
    let identity = |id: Value| parse::identity(&object::<ServiceDiscoverySpec>(json!({ "clusterID": id })));
    assert!(matches!(identity(json!("c1")), Some(Ok(id)) if id.as_str() == "c1"));
    assert!(matches!(identity(json!("a".repeat(64))), Some(Err(_))));
    assert_eq!(identity(json!("")), None);
}

fn object_status(status: Value) -> VpcNatTunnelStatus {
    object(status)
}

fn record(name: &str, labels: Value, spec: Value) -> GatewayExIp {
    let metadata = json!({ "name": name, "namespace": "kube-system", "labels": labels });
    object(
        json!({ "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp", "metadata": metadata, "spec": spec }),
    )
}

#[test]
fn records_are_read_in_both_spellings() {
    let ours = record("gw1-c2", json!({}), json!({"externalip": "1.2.3.4", "globalnetcidr": "242.1.0.0/16"}));
    let theirs =
        record("gw1-c2", json!({}), json!({"externalIp": "1.2.3.4", "globalNetCIDR": "242.1.0.0/16"}));
    for record in [parse::record(&ours), parse::record(&theirs)].map(|record| record.expect("a key")) {
        assert_eq!((record.external_ip.as_str(), record.globalnet.as_str()), ("1.2.3.4", "242.1.0.0/16"));
    }
}

#[test]
fn a_record_without_labels_is_understood_by_its_name() {
    let at_broker = parse::record(&record("gw.c-2.x", json!({}), json!({}))).expect("a key");
    assert_eq!(at_broker.gateway.expect("before the dot").as_str(), "gw");
    assert_eq!(at_broker.cluster.expect("behind the first dot").as_str(), "c-2.x");
    let nameless = parse::record(&record("nodots", json!({}), json!({}))).expect("a key");
    assert_eq!((nameless.gateway, nameless.cluster), (None, None));
}

#[test]
fn labels_distinguish_two_gateways_that_could_share_a_name() {
    let labels = |gateway: &str, cluster: &str| json!({ "localGateway": gateway, "localCluster": cluster });
    let one = parse::record(&record("a-b-c", labels("a-b", "c"), json!({}))).expect("a key");
    let other = parse::record(&record("a-b-c", labels("a", "b-c"), json!({}))).expect("a key");
    assert_ne!(one.peer(), other.peer());
    let lying = parse::record(&record("a-b-c", labels("x", "y"), json!({}))).expect("a key");
    assert_eq!(lying.peer(), None);
}

#[test]
fn a_gateway_pod_has_its_addresses_on_dual_stack_too() {
    let pod: Pod = object(json!({
        "metadata": {
            "name": "vpc-nat-gw-gw1-0", "namespace": "kube-system", "uid": "u",
            "labels": { "app": "vpc-nat-gw-gw1" },
            "annotations": {
                "ovn.kubernetes.io/ip_address": "10.0.1.254,fd00::254",
                "ovn.kubernetes.io/gateway": "10.0.1.1,fd00::1",
                "ovn.kubernetes.io/logical_router": "test-vpc-1",
                "ovn-vpc-external-network.kube-system.kubernetes.io/ip_address": "172.50.16.11",
            },
        },
        "spec": { "nodeName": "n1", "containers": [] },
        "status": { "phase": "Running" },
    }));
    let pod = parse::gateway_pod(&pod, "vpc-nat-gw").expect("a gateway's");
    assert_eq!(pod.gateway.as_str(), "gw1");
    assert_eq!(pod.lan.map(|a| a.to_string()).as_deref(), Some("10.0.1.254"));
    assert_eq!(pod.router.map(|a| a.to_string()).as_deref(), Some("10.0.1.1"));
    let external: Vec<_> = pod.external.iter().map(|(provider, a)| format!("{provider}={a}")).collect();
    assert_eq!(external, ["ovn-vpc-external-network.kube-system=172.50.16.11"]);
}

#[test]
fn a_pod_says_whether_it_is_ready_and_whether_it_stays() {
    let pod = |metadata: Value, conditions: Value| {
        let mut pod =
            json!({ "metadata": metadata, "status": { "phase": "Running", "conditions": conditions } });
        pod["metadata"]["name"] = "p".into();
        pod["metadata"]["namespace"] = "kube-system".into();
        pod["metadata"]["annotations"] = json!({ "ovn.kubernetes.io/vpc_nat_gw": "gw1" });
        let pod = parse::gateway_pod(&object(pod), "vpc-nat-gw").expect("a gateway's");
        (pod.ready, pod.deleting, pod.created)
    };
    let ready = |status: &str| json!([{ "type": "Initialized", "status": "True" }, { "type": "Ready", "status": status }]);
    let born = json!({ "creationTimestamp": "1970-01-01T00:01:00Z" });
    assert_eq!(pod(born, ready("True")), (true, false, 60));
    assert_eq!(pod(json!({ "deletionTimestamp": "2026-11-16T12:00:00Z" }), ready("False")), (false, true, 0));
    assert_eq!(pod(json!({}), json!([])), (true, false, 0), "nothing is said of it");
}

#[test]
fn a_silent_node_says_since_when_and_a_new_one_is_not_silent() {
    let node = |conditions: Value| {
        parse::node(&object::<Node>(json!({ "metadata": {}, "status": { "conditions": conditions } })))
    };
    let ready = |status: &str| json!([{ "type": "Ready", "status": status, "lastTransitionTime": "1970-01-01T00:01:00Z" }]);
    assert_eq!(node(ready("True")), NodeReport::Ready);
    assert_eq!(node(ready("False")), NodeReport::NotReady, "it reports");
    assert_eq!(node(ready("Unknown")), NodeReport::Silent { since: Some(60) });
    assert_eq!(node(json!([{ "type": "Ready", "status": "Unknown" }])), NodeReport::Silent { since: None });
    assert_eq!(node(json!([])), NodeReport::Ready);
}

#[test]
fn a_gateway_is_known_by_its_annotation_or_by_the_prefix_that_kube_ovn_is_configured_with() {
    let config = |data: Value| object::<ConfigMap>(json!({ "metadata": {}, "data": data }));
    assert_eq!(parse::gateway_prefix(&config(json!({ "natGwNamePrefix": "edge" }))), "edge");
    assert_eq!(parse::gateway_prefix(&config(json!({ "natGwNamePrefix": "" }))), "vpc-nat-gw");
    assert_eq!(parse::gateway_prefix(&config(json!({ "image": "x" }))), "vpc-nat-gw");
    let workload = |name: &str, annotations: Value| {
        let set: StatefulSet = object(json!({
            "metadata": { "name": name }, "spec": { "template": { "metadata": { "annotations": annotations } } },
            "status": { "availableReplicas": 1 },
        }));
        let workload = parse::workload(&set.metadata, &set.spec, &set.status, "edge");
        workload.map(|workload| workload.gateway.to_string())
    };
    assert_eq!(workload("edge-gw1", json!({})).as_deref(), Some("gw1"));
    assert_eq!(workload("edgegw1", json!({})), None);
    assert_eq!(workload("vpc-nat-gw-gw1", json!({})), None);
    let named = json!({ "ovn.kubernetes.io/vpc_nat_gw": "gw2" });
    assert_eq!(workload("vpc-nat-gw-gw1", named).as_deref(), Some("gw2"));
}

#[test]
fn a_floating_address_counts_once_it_is_there_and_a_claim_says_how_long_it_lasts() {
    let eip = |spec: Value, status: Value| {
        parse::eip(&object(
            json!({ "apiVersion": "kubeovn.io/v1", "kind": "IptablesEIP", "metadata": { "name": "e" }, "spec": spec, "status": status }),
        ))
    };
    let known =
        eip(json!({ "natGwDp": "gw1" }), json!({ "ip": "172.50.16.77", "ready": true })).expect("an address");
    assert_eq!((known.gateway.as_str(), known.address), ("gw1", [172, 50, 16, 77].into()));
    assert_eq!(eip(json!({ "natGwDp": "gw1" }), json!({ "ip": "" })), None);
    assert_eq!(eip(json!({}), json!({ "ip": "172.50.16.77" })), None);

    let lease: Lease = object(json!({
        "metadata": { "name": "l", "labels": { "submariner-io/clusterID": "c1" } },
        "spec": { "holderIdentity": "u1", "leaseDurationSeconds": 360, "renewTime": "1970-01-01T00:01:00.000000Z" },
    }));
    let renewal = parse::member(&lease, 421).expect("a claim");
    assert_eq!((renewal.member.cluster.as_str(), renewal.member.uid.as_str()), ("c1", "u1"));
    assert_eq!((renewal.renewed, renewal.lasts, renewal.read), (60, 360, 421));
    assert_eq!(parse::member(&Lease::default(), 0), None);
}

#[test]
fn an_end_reads_back_as_it_was_written_and_speaks_only_for_its_own_cluster() {
    let gateway = |name: &str| Place::Gateway(name.parse().expect("a name"));
    let by_gateway = (gateway("gw1"), gateway("gw2"));
    let by_vpc = (Place::Vpc("blue".into()), Place::Vpc("green".into()));
    let vxlan = TunnelKind::Vxlan { vni: 100, port: 4789 };
    for (kind, (near, far)) in [(vxlan, by_gateway.clone()), (TunnelKind::Gre, by_gateway), (vxlan, by_vpc)] {
        let says = Says { kind, mtu: Some(1450), address: "10.100.0.1/24".parse().expect("an address") };
        let end = EndObject {
            name: "ns1.demo.c1".into(),
            owner: "uid".into(),
            on: Far::at("c1".parse().expect("an id"), near),
            to: Far::at("c2".parse().expect("an id"), far),
            tunnel: "ns1/demo".parse().expect("a key"),
            says,
        };
        let mut body = end::body(&end, "broker", Some("7"));
        let labels = body["metadata"]["labels"].as_object_mut().expect("labels");
        // As a server has it: null takes away what another form of the tunnel had.
        labels.retain(|_, value| !value.is_null());
        let read =
            |body: &Value| end::parse(&serde_json::from_value::<TunnelEnd>(body.clone()).expect("an end"));
        let parsed = read(&body).expect("it makes sense");
        assert_eq!((&parsed.on, &parsed.to, &parsed.tunnel), (&end.on, &end.to, &end.tunnel));
        assert_eq!((parsed.says, parsed.resource_version.as_str()), (says, "7"));
        body["metadata"]["labels"]["submariner-io/clusterID"] = json!("c3");
        assert_eq!(read(&body), None, "it is published by another");
        let new = end::body(&end, "broker", None);
        assert!(serde_json::from_value::<TunnelEnd>(new).is_ok(), "nothing is null in one that is made");
    }
}

#[test]
fn an_end_by_vpc_is_nothing_to_readers_that_know_gateways_only() {
    let end = EndObject {
        name: "ns1.demo.c1".into(),
        owner: "uid".into(),
        on: Far::at("c1".parse().expect("an id"), Place::Vpc("blue".into())),
        to: Far::at("c2".parse().expect("an id"), Place::Vpc("green".into())),
        tunnel: "ns1/demo".parse().expect("a key"),
        says: Says {
            kind: TunnelKind::Gre,
            mtu: None,
            address: "10.100.0.1/24".parse().expect("an address"),
        },
    };
    let body = end::body(&end, "broker", None);
    for field in ["gateway", "peerGateway"] {
        let given = body["spec"][field].as_str().expect("it is required");
        assert!(given.parse::<causeway_core::GatewayName>().is_err(), "{field} names no gateway");
    }
}
