//! Where the facts of a cluster and its gateways come from: Submariner, kube-ovn, flags.

use std::path::Path;
use std::process::Stdio;

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use super::support::tunnels::{NS, vxlan};
use super::support::{Cluster, Sandbox};
use super::{MEETING, SYSTEM, discoveries, says};

/// A controller of the test's own; it ends with the test.
fn controller(cluster: &Cluster, log: &Path, flags: &[&str]) -> tokio::process::Child {
    let log = std::fs::File::create(log).expect("a log");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_causeway"));
    command
        .args(["controller", "--enable", "vpc", "--kubeconfig"])
        .arg(cluster.controller_kubeconfig())
        .args(flags);
    command.args(["--identity", "test", "--no-leader-election", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log).kill_on_drop(true);
    command.spawn().expect("it starts")
}

/// A first cluster without a controller and without anything of Submariner's, and the broker.
async fn without_submariner(sandbox: &Sandbox) -> (Cluster, Cluster) {
    let (one, broker) = (sandbox.cluster(1).await, sandbox.broker().await);
    one.controller().await;
    sandbox.hold(&one).await;
    discoveries(&one).delete("service-discovery", &DeleteParams::default()).await.expect("accepted");
    for kind in ["clusters.submariner.io", "clusterglobalegressips.submariner.io"] {
        one.kubectl(&["delete", kind, "--all", "-n", "submariner-operator"]).await.ok();
    }
    one.kubectl(&["delete", "gatewayexips", "--all", "-n", SYSTEM]).await.ok();
    (one, broker)
}

#[tokio::test]
async fn all_of_it_can_be_said_by_one_file_and_a_flag_wins_over_that() {
    let sandbox = Sandbox::bare().await;
    let (one, broker) = without_submariner(&sandbox).await;
    let config = sandbox.folder().join("logs").join("controller.yaml");
    let text = format!(
        "# Who we are, and where the others are.\nkubeconfig: {}\nbrokerKubeconfig: {}\nclusterId: cluster1\n\
         globalnetCidr: 242.0.0.0/16\negressIps:\n  - 242.0.0.1\n  - 242.0.0.2\nenable: [vpc]\n\
         noLeaderElection: true\nidentity: test\nlisten: 127.0.0.1:0\nprobeInterval: 2s\n",
        one.controller_kubeconfig().display(),
        broker.kubeconfig.display(),
    );
    std::fs::write(&config, text).expect("written");
    let log = std::fs::File::create(sandbox.folder().join("logs").join("own-controller.log")).expect("a log");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.arg("controller").arg("--config").arg(&config).args(["--egress-ips", "242.0.0.5,242.0.0.6"]);
    command.env_remove("KUBECONFIG").stdin(Stdio::null()).stdout(log.try_clone().expect("the log"));
    let mut child = command.stderr(log).kill_on_drop(true).spawn().expect("it starts");
    says(&one, SYSTEM, "gw1-cluster1", Some("172.50.16.11")).await;
    one.create(&vxlan("file0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    let status = one.built("file0").await.status.expect("a status");
    assert_eq!(status.globalnet_cidr.as_deref(), Some("242.0.0.0/16"));
    assert_eq!(status.global_egress_ip, ["242.0.0.5", "242.0.0.6"]);
    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, "file0"]).await.ok();
    child.kill().await.expect("it runs");
}

#[tokio::test]
async fn everything_that_submariner_says_can_be_given_by_flag() {
    let sandbox = Sandbox::bare().await;
    let (one, broker) = without_submariner(&sandbox).await;
    let log = sandbox.folder().join("logs").join("own-controller.log");
    let file = broker.kubeconfig.display().to_string();
    let mut child = controller(
        &one,
        &log,
        &[
            "--broker-kubeconfig",
            &file,
            "--cluster-id",
            "cluster1",
            "--globalnet-cidr",
            "242.0.0.0/16",
            "--egress-ips",
            "242.0.0.5,242.0.0.6",
        ],
    );
    says(&one, SYSTEM, "gw1-cluster1", Some("172.50.16.11")).await;
    says(&one, SYSTEM, "gw1-cluster2", Some("172.50.16.21")).await;
    one.create(&vxlan("flags0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    let status = one.built("flags0").await.status.expect("a status");
    assert_eq!(status.globalnet_cidr.as_deref(), Some("242.0.0.0/16"));
    assert_eq!(status.global_egress_ip, ["242.0.0.5", "242.0.0.6"]);
    let rules = one.postrouting("gw1").await;
    assert!(rules[0].contains("--to-source 242.0.0.5-242.0.0.6"), "{rules:?}");
    let copy = broker.records(MEETING).get("gw1.cluster1").await.expect("our copy");
    assert_eq!(copy.labels()["submariner-io/clusterID"], "cluster1");
    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, "flags0"]).await.ok();
    child.kill().await.expect("it runs");
}

#[tokio::test]
async fn a_gateway_without_a_default_address_publishes_its_floating_one() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    says(&one, SYSTEM, "gw2-cluster1", Some("172.50.16.12")).await;
    let none =
        ["patch", "vpc-nat-gateways", "gw2", "--type=merge", "-p", r#"{"spec":{"noDefaultEIP":true}}"#];
    one.kubectl(&none).await.ok();
    one.create(&vxlan("float0", "gw2", "cluster2/gw2", "10.100.9.1/24")).await;
    let sentence = one.down("float0", "GatewayIncomplete").await;
    assert!(sentence.contains("IptablesEIP"), "{sentence}");
    let eip = json!({
        "apiVersion": "kubeovn.io/v1", "kind": "IptablesEIP", "metadata": { "name": "eip2" },
        "spec": { "natGwDp": "gw2" },
    });
    one.apply(&eip.to_string()).await.ok();
    let status = r#"{"status":{"ip":"172.50.16.77","ready":true}}"#;
    one.kubectl(&["patch", "iptables-eips", "eip2", "--subresource=status", "--type=merge", "-p", status])
        .await
        .ok();
    says(&one, SYSTEM, "gw2-cluster1", Some("172.50.16.77")).await;
    assert_eq!(
        one.built("float0").await.status.expect("a status").internal_ip.as_deref(),
        Some("172.50.16.77")
    );
}

#[tokio::test]
async fn gateways_are_found_under_the_prefix_that_kube_ovn_is_configured_with() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let labels = json!({ "app": "edge-gw9", "ovn.kubernetes.io/vpc-nat-gw": "true" });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "edge-gw9", "namespace": SYSTEM, "labels": labels },
        "spec": {
            "replicas": 0, "serviceName": "", "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "vpc-nat-gw", "image": "x" }] } },
        },
    });
    one.apply(&set.to_string()).await.ok();
    one.create(&vxlan("edge0", "gw9", "cluster2/gw1", "10.100.9.1/24")).await;
    one.create(&vxlan("known0", "gw1", "cluster2/gw1", "10.100.8.1/24")).await;
    one.down("edge0", "GatewayNotFound").await;
    one.built("known0").await;
    let config =
        ["create", "configmap", "ovn-vpc-nat-config", "-n", SYSTEM, "--from-literal=natGwNamePrefix=edge"];
    one.kubectl(&config).await.ok();
    one.down("edge0", "GatewayNotRunning").await;
    // The sandbox's own gateways carry kube-ovn's annotation, so a prefix does not hide them.
    one.built("known0").await;
}
