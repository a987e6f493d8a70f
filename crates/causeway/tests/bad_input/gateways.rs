//! Gateways that are not there, do not run, or cannot be commanded.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::tunnels::{NS, join, vxlan, with_vni};
use super::support::{Cluster, PATIENCE, Sandbox};
use super::{FAR, mentioned, reported, stays_calm, undisturbed};

#[tokio::test]
async fn a_gateway_that_is_missing_or_not_running_is_named_and_harms_no_other() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    one.create(&vxlan("nowhere", "gw7", "cluster2/gw2", "10.107.0.1/24")).await;
    reported(&one, "nowhere", "GatewayNotFound", &["there is no gateway gw7"]).await;

    let scale = |replicas: &'static str| ["scale", "sts", "-n", "kube-system", "vpc-nat-gw-gw2", replicas];
    one.kubectl(&scale("--replicas=0")).await.ok();
    let gone = ["wait", "--for=delete", "pod/vpc-nat-gw-gw2-0", "-n", "kube-system", "--timeout=60s"];
    one.kubectl(&gone).await.ok();
    one.create(&vxlan("asleep", "gw2", "cluster2/gw2", "10.108.0.1/24")).await;
    mentioned(&one, "asleep", "GatewayNotRunning", &["gateway gw2 is not running"]).await;
    undisturbed(&one, "vx0").await;
    stays_calm(&one).await;
    one.kubectl(&["delete", "vnt", "-n", NS, "nowhere", "asleep", "--timeout=60s"]).await.ok();

    one.create(&vxlan("asleep", "gw2", "cluster2/gw2", "10.108.0.1/24")).await;
    one.down("asleep", "GatewayNotRunning").await;
    one.kubectl(&scale("--replicas=1")).await.ok();
    one.built("asleep").await;
    one.patch_spec("asleep", json!({"natGwDp": "gw7"})).await;
    one.down("asleep", "GatewayNotFound").await;
    one.is_clean("gw2").await;
    one.delete("asleep").await;
    undisturbed(&one, "vx0").await;
}

/// Changes a healthy tunnel and asserts that the change is carried out as if nothing else were wrong.
async fn is_served(cluster: &Cluster, address: &str) {
    let start = Instant::now();
    cluster.patch_spec("vx0", json!({"interfaceAddr": address})).await;
    cluster.built("vx0").await;
    assert_eq!(cluster.addresses("gw1", "vx0").await, [address]);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(8), "it waited for another gateway: {took:?}");
}

#[tokio::test]
async fn a_gateway_that_refuses_commands_is_reported_not_hammered_and_harms_no_other() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let stream = one.stream(FAR).await;
    one.fault("gw2", "refuse").await;
    one.create(&with_vni(vxlan("mute", "gw2", "cluster2/gw2", "10.107.0.1/24"), 7)).await;
    reported(&one, "mute", "ExecRefused", &["commands cannot be run in the gateway"]).await;
    undisturbed(&one, "vx0").await;
    stays_calm(&one).await;
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
    is_served(&one, "10.100.0.9/24").await;
    one.fault("gw2", "").await;
    one.built("mute").await;
    one.delete("mute").await;
}

#[tokio::test]
async fn a_gateway_that_hangs_is_given_up_after_a_while_and_holds_nobody_up() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    one.fault("gw2", "hang").await;
    one.create(&with_vni(vxlan("mute", "gw2", "cluster2/gw2", "10.107.0.1/24"), 7)).await;
    is_served(&one, "10.100.0.9/24").await;
    let patience = 2 * PATIENCE;
    one.says(NS, "mute", "Ready", "False", "ExecTimedOut", patience).await;
    reported(&one, "mute", "ExecTimedOut", &["did not finish within 10 s"]).await;
    is_served(&one, "10.100.0.10/24").await;
    one.reaches(FAR).await;
    one.fault("gw2", "").await;
    one.says(NS, "mute", "Programmed", "True", "InPlace", patience).await;
    one.delete("mute").await;
}

#[tokio::test]
async fn a_gateway_that_claims_a_term_which_nobody_had_is_reported_and_harms_no_other() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    one.in_gateway("gw2", "ip link set dev lo alias causeway-term:2147483647").await.ok();
    one.create(&vxlan("liar", "gw2", "cluster2/gw2", "10.109.0.1/24")).await;
    reported(&one, "liar", "CommandFailed", &["claims term 2147483647", "ip link set dev lo alias ''"]).await;
    undisturbed(&one, "vx0").await;
    stays_calm(&one).await;
    one.in_gateway("gw2", "ip link set dev lo alias ''").await.ok();
    one.built("liar").await;
}

#[tokio::test]
async fn a_gateway_ends_a_term_once_and_is_not_believed_again_so_soon() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    // As if the Lease had been deleted: our next term is newer.
    one.in_gateway("gw2", "ip link set dev lo alias causeway-term:1000").await.ok();
    one.create(&vxlan("liar", "gw2", "cluster2/gw2", "10.109.0.1/24")).await;
    one.built("liar").await;
    one.in_gateway("gw2", "ip link set dev lo alias causeway-term:2000").await.ok();
    one.patch_spec("liar", json!({"interfaceAddr": "10.109.0.2/24"})).await;
    reported(&one, "liar", "CommandFailed", &["claims term 2000"]).await;
    undisturbed(&one, "vx0").await;
    stays_calm(&one).await;
    one.in_gateway("gw2", "ip link set dev lo alias ''").await.ok();
    one.built("liar").await;
}

#[tokio::test]
async fn a_gateway_without_a_tool_is_reported_with_its_name_and_harms_no_other() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    for tool in ["iptables", "ip", "bash"] {
        one.fault("gw2", &format!("without:{tool}")).await;
        one.create(&with_vni(vxlan("bare", "gw2", "cluster2/gw2", "10.107.0.1/24"), 7)).await;
        reported(&one, "bare", "ToolMissing", &[&format!("has no `{tool}`")]).await;
        one.fault("gw2", "").await;
        one.built("bare").await;
        one.delete("bare").await;
    }
    one.fault("gw2", "without:iptables").await;
    one.create(&with_vni(vxlan("bare", "gw2", "cluster2/gw2", "10.107.0.1/24"), 7)).await;
    one.down("bare", "ToolMissing").await;
    stays_calm(&one).await;
    undisturbed(&one, "vx0").await;
}

#[tokio::test]
async fn a_kernel_without_the_tunnel_type_is_reported_not_hammered_and_harms_no_other() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    if one.in_client("ip link add name probe type gre local 10.0.1.10 remote 10.0.1.20").await.code == 0 {
        return eprintln!("skipped: this kernel makes GRE links");
    }
    join(&one, &two, "vx0", "gw1", 0).await;
    let mut tunnel = vxlan("gre9", "gw2", "cluster2/gw2", "10.107.0.1/24");
    tunnel["spec"]["type"] = json!("gre");
    one.create(&tunnel).await;
    reported(&one, "gre9", "KernelLacksTunnelType", &["cannot make gre links"]).await;
    assert_eq!(one.marked("gw2").await, Vec::<String>::new(), "nothing lies about half-built");
    stays_calm(&one).await;
    undisturbed(&one, "vx0").await;
    one.reaches(FAR).await;
    one.delete("gre9").await;
}
