//! The definitions that people install: equal to the types, and refusing what they should.

use causeway_api::vpc::VpcNatTunnel;
use causeway_api::{crds_yaml, dns, networks, rules, vpc};
use kube::CustomResourceExt;
use serde_json::{Value, json};

const VPC: &str = include_str!("../../../deploy/crds.yaml");
const DNS: &str = include_str!("../../../deploy/dns-crds.yaml");
const RULES: &str = include_str!("../../../deploy/rules-crds.yaml");
const NETWORKS: &str = include_str!("../../../deploy/networks-crds.yaml");

#[test]
fn the_committed_definitions_are_those_of_the_types() {
    assert!(VPC == crds_yaml(vpc::crds()), "deploy/crds.yaml is stale: run `make manifests`");
    assert!(DNS == crds_yaml(dns::crds()), "deploy/dns-crds.yaml is stale: run `make manifests`");
    assert!(RULES == crds_yaml(rules::crds()), "deploy/rules-crds.yaml is stale: run `make manifests`");
    assert!(
        NETWORKS == crds_yaml(networks::crds()),
        "deploy/networks-crds.yaml is stale: run `make manifests`"
    );
}

#[test]
fn the_definitions_read_back_as_they_were_written() {
    let all = [(VPC, vpc::crds()), (DNS, dns::crds()), (RULES, rules::crds()), (NETWORKS, networks::crds())];
    for (committed, crds) in all {
        let documents: Vec<Value> = serde_saphyr::from_multiple(committed).expect("YAML");
        let expected: Vec<Value> =
            crds.iter().map(|crd| serde_json::to_value(crd).expect("plain data")).collect();
        assert_eq!(documents, expected);
    }
}

/// The errors of creating, or with `old` of updating, a tunnel under its own schema.
fn errors(object: &Value, old: Option<&Value>) -> Vec<String> {
    let crd = serde_json::to_value(VpcNatTunnel::crd()).expect("plain data");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let object = kube_cel::apply_defaults(schema, object);
    let old = old.map(|old| kube_cel::apply_defaults(schema, old));
    let found = kube_cel::Validator::new().validate(schema, &object, old.as_ref());
    found.err().into_iter().flatten().map(|error| error.message.clone()).collect()
}

fn tunnel(name: &str, spec: Value) -> Value {
    let metadata = json!({ "name": name, "namespace": "ns1" });
    json!({ "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel", "metadata": metadata, "spec": spec })
}

fn by_gateway() -> Value {
    json!({ "interfaceAddr": "10.100.0.1/24", "clusterId": "cluster2", "gatewayName": "gw1", "natGwDp": "gw1" })
}

#[test]
fn both_forms_are_accepted() {
    assert_eq!(errors(&tunnel("ovn-gre0", by_gateway()), None), Vec::<String>::new());
    let by_vpc =
        json!({ "interfaceAddr": "10.100.0.1/24", "remoteCluster": "c2", "remoteVpc": "b", "localVpc": "a" });
    assert_eq!(errors(&tunnel("ovn-gre0", by_vpc), None), Vec::<String>::new());
}

#[test]
fn both_forms_at_once_neither_and_halves_are_refused() {
    let mut both = by_gateway();
    both["remoteCluster"] = "c2".into();
    both["remoteVpc"] = "b".into();
    both["localVpc"] = "a".into();
    let neither = json!({ "interfaceAddr": "10.100.0.1/24" });
    let mut half = by_gateway();
    half.as_object_mut().expect("an object").remove("natGwDp");
    for spec in [both, neither, half] {
        assert_ne!(errors(&tunnel("t", spec.clone()), None), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn names_that_cannot_be_links_are_refused() {
    for name in ["sixteen-letters-", "a-name-that-is-too-long", "lo", "net1", "gre0", "tunl0"] {
        assert_ne!(errors(&tunnel(name, by_gateway()), None), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_type_may_change_until_the_tunnel_was_up_and_not_after() {
    let mut gre = tunnel("t", by_gateway());
    let mut vxlan = gre.clone();
    vxlan["spec"]["type"] = "vxlan".into();
    assert_eq!(errors(&vxlan, Some(&gre)), Vec::<String>::new());
    gre["status"] = json!({ "initialized": false });
    assert_eq!(errors(&vxlan, Some(&gre)), Vec::<String>::new());
    gre["status"] = json!({ "initialized": true });
    let refused = errors(&vxlan, Some(&gre));
    assert_eq!(
        refused,
        ["the type cannot change once the tunnel was up; delete the tunnel and create it anew"]
    );
    assert_eq!(errors(&gre, Some(&gre)), Vec::<String>::new());
}
