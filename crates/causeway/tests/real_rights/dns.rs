//! Forwards of names on a server that enforces what ships: the rights, and the policy that narrows them down.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Audit, PATIENCE, Sandbox};

const RIGHTS: [(&str, &str); 1] = [("dns.yaml", include_str!("../../../../deploy/dns.yaml"))];
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/dns-policy.yaml");
const DEPLOYMENT: [&str; 4] = ["deployment", "-n", "kube-system", "vpc-dns-test-dns1"];

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn every_right_for_forwards_is_used_and_the_policy_lets_routes_through_and_nothing_else() {
    let audit = Audit::from_now();
    let sandbox = Sandbox::start(&["--bare", "--dns"]).await;
    let one = sandbox.cluster(1).await;
    one.kubectl(&["apply", "-f", POLICY]).await.ok();
    let controller: Api<Deployment> = Api::namespaced(one.as_the_controller().await, "kube-system");
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "coredns", "image": "other:1"}]}}}});
    let try_it = PatchParams { dry_run: true, ..PatchParams::default() };
    // A policy is in force some time after it was made.
    one.until("another image is refused", PATIENCE, async || {
        match controller.patch(DEPLOYMENT[3], &try_it, &Patch::Strategic(&image)).await {
            Err(kube::Error::Api(why)) if why.message.contains("neither what a DNS server runs") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let forward = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcDnsForward", "spec": {"vpc": "test-vpc-1"},
        "metadata": {"name": "dns-1", "namespace": "ns1"},
    });
    one.apply(&forward.to_string()).await.ok();
    let ready = ["wait", "vdf", "-n", "ns1", "dns-1", "--for=condition=Ready", "--timeout=60s"];
    one.kubectl(&ready).await.ok();
    // What somebody takes away is put back, twice: the same news is one event, counted.
    let script = json!({"spec": {"template": {"spec": {"initContainers": [{"name": "init-route", "command": ["sh", "-c", ""]}]}}}});
    for _ in 0..2 {
        one.kubectl(&[&["patch"], &DEPLOYMENT[..], &["-p", &script.to_string()]].concat()).await.ok();
        one.until("the route is back", PATIENCE, async || {
            let path = "jsonpath={.spec.template.spec.initContainers[0].command[2]}";
            let script = one.kubectl(&[&["get"], &DEPLOYMENT[..], &["-o", path]].concat()).await.ok();
            if script.contains("10.96.0.10") { Ok(()) } else { Err(script) }
        })
        .await;
    }
    one.kubectl(&["delete", "vdf", "-n", "ns1", "dns-1", "--timeout=60s"]).await.ok();
    one.kubectl(&["delete", "-f", POLICY]).await.ok();
    one.until("every right has been used", PATIENCE, async || {
        let unused = audit.unused(&RIGHTS, &["cluster1", "cluster2"]);
        if unused.is_empty() { Ok(()) } else { Err(format!("granted and never used: {unused:#?}")) }
    })
    .await;
    let refused: Vec<_> = audit.refused().into_iter().filter(|it| it.resource != "deployments").collect();
    assert!(refused.is_empty(), "asked for and not granted: {refused:#?}");
}
