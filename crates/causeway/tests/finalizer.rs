//! Deleting a tunnel waits for its gateway to be clean, and never for a gateway that is no more.

mod support;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use support::gateway::ONE_TUNNEL;
use support::tunnels::{NS, condition, vxlan, with_vni};
use support::{Cluster, PATIENCE, Sandbox};

/// What should be at once may take this long on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A tunnel of cluster1, up.
async fn up(one: &Cluster, name: &str, gateway: &str) {
    one.create(&vxlan(name, gateway, "cluster2/gw1", "10.100.0.1/24")).await;
    one.built(name).await;
}

/// Asks for a deletion without waiting for it.
async fn ask_to_delete(one: &Cluster, name: &str) {
    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, name, "--wait=false"]).await.ok();
}

async fn is_gone(one: &Cluster, name: &str) {
    one.until(&format!("{name} is gone"), PATIENCE, async || {
        match one.tunnels(NS).get_opt(name).await.expect("an answer") {
            None => Ok(()),
            Some(left) => Err(format!("{:?}", left.status)),
        }
    })
    .await;
}

/// Waits until a deleted tunnel says why it is still there; gives the sentence.
async fn is_blocked(one: &Cluster, name: &str, reason: &str) -> String {
    let tunnel = one.says(NS, name, "CleanupBlocked", "True", reason, PATIENCE).await;
    condition(&tunnel, "CleanupBlocked").expect("it was there").message.clone()
}

#[tokio::test]
async fn kubectl_delete_returns_at_once_when_the_gateway_is_scaled_to_zero() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    up(&one, "gone0", "gw1").await;
    one.kubectl(&["scale", "sts", "-n", "kube-system", "vpc-nat-gw-gw1", "--replicas=0"]).await.ok();
    one.kubectl(&["wait", "--for=delete", "pod/vpc-nat-gw-gw1-0", "-n", "kube-system"]).await.ok();
    let start = Instant::now();
    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, "gone0", "--timeout=60s"]).await.ok();
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_gateway_that_refuses_commands_holds_a_tunnel_back_until_somebody_abandons_it() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    up(&one, "held0", "gw1").await;
    one.fault("gw1", "refuse").await;
    ask_to_delete(&one, "held0").await;
    let sentence = is_blocked(&one, "held0", "ExecRefused").await;
    let advice = "kubectl annotate vpcnattunnel -n ns1 held0 causeway/abandon=true";
    assert!(sentence.contains("refuses exec") && sentence.contains(advice), "{sentence}");
    assert!(one.reports("held0", "ExecRefused", advice).await.warning);
    let ready = condition(&one.tunnel("held0").await, "Ready").cloned().expect("a condition");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Deleting"));
    // Another tunnel of the cluster comes and goes as ever.
    up(&one, "other0", "gw2").await;
    one.delete("other0").await;
    assert!(one.tunnels(NS).get_opt("held0").await.expect("an answer").is_some());

    let start = Instant::now();
    let words: Vec<&str> = advice.split(' ').skip(1).collect();
    one.kubectl(&words).await.ok();
    is_gone(&one, "held0").await;
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    // What was abandoned is swept as soon as the gateway lets anybody in.
    one.fault("gw1", "").await;
    one.is_clean("gw1").await;
}

#[tokio::test]
async fn a_tunnel_held_back_goes_by_itself_once_its_gateway_can_be_cleaned() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    up(&one, "held0", "gw1").await;
    one.fault("gw1", "refuse").await;
    ask_to_delete(&one, "held0").await;
    is_blocked(&one, "held0", "ExecRefused").await;
    one.fault("gw1", "").await;
    is_gone(&one, "held0").await;
    assert_eq!(one.marked("gw1").await, Vec::<String>::new());
}

/// Says when a node was last heard of: so many seconds ago.
async fn silence(one: &Cluster, seconds: i64) {
    let nodes: Api<Node> = Api::all(one.client.clone());
    let since = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    let ready = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.", "lastTransitionTime": format!("{since:.0}"),
    });
    let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
    nodes.patch_status("cluster1-node1", &PatchParams::default(), &patch).await.expect("accepted");
}

#[tokio::test]
async fn a_node_silent_for_a_minute_lets_its_gateways_tunnels_go_and_not_before() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    up(&one, "lost0", "gw1").await;
    one.fault("gw1", "refuse").await;
    ask_to_delete(&one, "lost0").await;
    is_blocked(&one, "lost0", "ExecRefused").await;

    silence(&one, 0).await;
    // A tunnel that comes after the node's news is looked at after it.
    up(&one, "later0", "gw2").await;
    is_blocked(&one, "lost0", "ExecRefused").await;

    let start = Instant::now();
    silence(&one, 120).await;
    is_gone(&one, "lost0").await;
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    let sentence = one.down("later0", "GatewayLost").await;
    assert!(sentence.contains("cluster1-node1"), "{sentence}");
    assert_eq!(one.marked("gw2").await.len(), ONE_TUNNEL, "nothing is torn down on a node that is lost");
    ask_to_delete(&one, "later0").await;
    is_gone(&one, "later0").await;
}

#[tokio::test]
async fn a_node_that_falls_silent_is_given_its_minute() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    up(&one, "lost0", "gw1").await;
    one.fault("gw1", "refuse").await;
    let start = Instant::now();
    silence(&one, 50).await;
    ask_to_delete(&one, "lost0").await;
    is_gone(&one, "lost0").await;
    // Fifty of sixty seconds had passed; times are in whole seconds.
    assert!(start.elapsed() > Duration::from_secs(8), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_replaced_pod_is_no_obstacle() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let pods: Api<Pod> = Api::namespaced(one.client.clone(), "kube-system");
    let before = pods.get("vpc-nat-gw-gw1-0").await.expect("the pod").uid();
    up(&one, "moved0", "gw1").await;
    one.fault("gw1", "refuse").await;
    ask_to_delete(&one, "moved0").await;
    is_blocked(&one, "moved0", "ExecRefused").await;

    one.kubectl(&["delete", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0"]).await.ok();
    is_gone(&one, "moved0").await;
    one.until("a new pod runs", PATIENCE, async || {
        let pod = pods.get("vpc-nat-gw-gw1-0").await.map_err(|error| error.to_string())?;
        let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if runs && pod.uid() != before { Ok(()) } else { Err(format!("{:?}", pod.metadata)) }
    })
    .await;
    one.is_clean("gw1").await;
}

#[tokio::test]
async fn an_object_that_became_invalid_keeps_its_link_and_is_deleted_as_any_other() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    up(&one, "odd0", "gw1").await;
    let held = one.marked("gw1").await;
    one.kubectl(&["label", "vpcnattunnel", "-n", NS, "odd0", "vid=not-a-number"]).await.ok();
    one.down("odd0", "InvalidSpec").await;
    assert_eq!(one.marked("gw1").await, held, "its last good effect stays");
    let start = Instant::now();
    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, "odd0", "--timeout=60s"]).await.ok();
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(one.marked("gw1").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_object_that_never_made_sense_is_deleted_at_once() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let mut odd = with_vni(vxlan("odd0", "gw1", "cluster2/gw1", "10.100.0.1/24"), 7);
    odd["metadata"]["labels"]["vx-port"] = json!("none");
    one.create(&odd).await;
    one.down("odd0", "InvalidSpec").await;
    one.create(&vxlan("nowhere0", "gw9", "cluster2/gw1", "10.100.0.1/24")).await;
    one.down("nowhere0", "GatewayNotFound").await;
    for name in ["odd0", "nowhere0"] {
        let start = Instant::now();
        one.kubectl(&["delete", "vpcnattunnel", "-n", NS, name, "--timeout=60s"]).await.ok();
        assert!(start.elapsed() < AT_ONCE, "{name}: {:?}", start.elapsed());
    }
}
