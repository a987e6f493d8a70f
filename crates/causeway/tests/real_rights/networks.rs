//! Networks on a server that enforces what ships: the definition's rules, the policy, and the rights.

use serde_json::json;

use super::{Audit, PATIENCE, Sandbox};

const RIGHTS: [(&str, &str); 1] = [("networks.yaml", include_str!("../../../../deploy/networks.yaml"))];
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/networks-policy.yaml");
const KIND: &str = "networks.samplecrd.k8s.io";

fn network(name: &str, cidr: &str, gateway: &str) -> String {
    json!({
        "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": name, "namespace": "default"},
        "spec": {"cidr": cidr, "gateway": gateway},
    })
    .to_string()
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn every_right_for_networks_is_used_and_the_policy_holds() {
    let audit = Audit::from_now();
    let sandbox = Sandbox::start(&["--bare", "--networks"]).await;
    let one = sandbox.cluster(1).await;
    for (cidr, gateway, why) in [
        ("10.77.0.1/24", "10.77.0.1", "cidr has bits after its prefix"),
        ("10.77.0.0/24", "fd00::1", "gateway is an address of another family than cidr"),
        ("10.77.0.0/24", "10.78.0.1", "gateway is outside of cidr"),
        ("10.77.0.0/24", "10.77.0.0", "gateway is the first address of cidr"),
        ("10.77.0.0/24", "10.77.0.255", "gateway is the broadcast address of cidr"),
    ] {
        one.apply(&network("odd", cidr, gateway)).await.refused(&[why]);
    }
    one.kubectl(&["apply", "-f", POLICY]).await.ok();
    one.apply(&network("example-network", "10.77.0.0/24", "10.77.0.1")).await.ok();
    let ready = ["wait", KIND, "example-network", "--for=condition=Ready", "--timeout=60s"];
    one.kubectl(&ready).await.ok();
    let other = r#"{"spec":{"cidr":"10.78.0.0/24","gateway":"10.78.0.1"}}"#;
    let change = ["patch", KIND, "example-network", "--type=merge", "-p", other];
    // A policy is in force some time after it was made.
    one.until("another range is refused", PATIENCE, async || {
        let said = one.kubectl(&[&change[..], &["--dry-run=server"]].concat()).await;
        if said.code == 0 { Err("it is accepted".to_owned()) } else { Ok(()) }
    })
    .await;
    one.kubectl(&change).await.refused(&["annotate the Network with causeway/allow-replace=true"]);
    one.kubectl(&["annotate", KIND, "example-network", "causeway/allow-replace=true"]).await.ok();
    one.kubectl(&change).await.ok();
    let replaced = "--for=jsonpath={.status.cidr}=10.78.0.0/24";
    one.kubectl(&["wait", KIND, "example-network", replaced, "--timeout=60s"]).await.ok();
    one.kubectl(&["delete", KIND, "example-network", "--timeout=60s"]).await.ok();
    one.kubectl(&["delete", "-f", POLICY]).await.ok();
    one.until("every right has been used", PATIENCE, async || {
        let mut unused = audit.unused(&RIGHTS, &["cluster1", "cluster2"]);
        // The same news twice in a row, as of drift.
        unused.retain(|right| (&*right.resource, &*right.verb) != ("events", "patch"));
        if unused.is_empty() { Ok(()) } else { Err(format!("granted and never used: {unused:#?}")) }
    })
    .await;
    let refused = audit.refused();
    assert!(refused.is_empty(), "asked for and not granted: {refused:#?}");
}
