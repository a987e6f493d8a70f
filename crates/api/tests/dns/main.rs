//! The room `dns`: its objects and kube-ovn's as values, what is written of them, and the policy that bounds that.

mod any_object;
mod parsing;
mod policy;

use causeway_api::dns::workload::Deployment;
use serde_json::{Value, json};

/// What kube-ovn 1.12 makes, as an API server gives it.
fn old_form(script: &str) -> Value {
    json!({
        "metadata": { "name": "vpc-dns-test-dns1", "namespace": "kube-system", "resourceVersion": "7" },
        "spec": { "template": {
            "metadata": { "annotations": {
                "k8s.v1.cni.cncf.io/networks": "default/ovn-nad",
                "ovn-nad.default.ovn.kubernetes.io/logical_switch": "ovn-default",
                "ovn.kubernetes.io/logical_switch": "vpc2-net1",
            }},
            "spec": {
                "containers": [{ "name": "coredns", "image": "c:1" }],
                "initContainers": [
                    { "name": "first", "command": ["sh", "-c", "true"] },
                    { "name": "init-route", "image": "r:1", "command": ["sh", "-c", script],
                      "securityContext": { "privileged": true } },
                ],
            },
        }},
    })
}

/// What kube-ovn 1.13 makes.
fn new_form(routes: &str) -> Value {
    let mut object = old_form("");
    let template = &mut object["spec"]["template"];
    template["spec"]["initContainers"] = json!([]);
    template["metadata"]["annotations"]["ovn-nad.default.ovn.kubernetes.io/routes"] = routes.into();
    object
}

fn deployment(object: Value) -> causeway_core::dns::Deployment {
    let object: Deployment = serde_json::from_value(object).expect("a Deployment");
    causeway_api::dns::parse::deployment(&object).expect("of a DNS server")
}
