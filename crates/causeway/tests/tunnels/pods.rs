//! Gateways of several pods, as a Deployment has them.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use nix::sys::signal::Signal;
use serde_json::json;

use super::support::gateway::ONE_TUNNEL;
use super::support::tunnels::{NS, condition, vxlan};
use super::support::{Cluster, PATIENCE, Sandbox};

const SYSTEM: &str = "kube-system";

/// A gateway `both` that the pods of gw1 and gw2 belong to.
async fn deploy(one: &Cluster) {
    let labels = json!({ "app": "vpc-nat-gw-both", "ovn.kubernetes.io/vpc-nat-gw": "true" });
    let container = json!({ "name": "vpc-nat-gw", "image": "x" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "vpc-nat-gw-both", "namespace": SYSTEM, "labels": labels },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    });
    one.apply(&deployment.to_string()).await.ok();
    for pod in ["vpc-nat-gw-gw1-0", "vpc-nat-gw-gw2-0"] {
        let both = "ovn.kubernetes.io/vpc_nat_gw=both";
        one.kubectl(&["annotate", "--overwrite", "pod", "-n", SYSTEM, pod, both]).await.ok();
    }
}

async fn report(one: &Cluster, pod: &str, ready: &str) {
    let pods: Api<Pod> = Api::namespaced(one.client.clone(), SYSTEM);
    let mut conditions =
        pods.get(pod).await.expect("the pod").status.and_then(|it| it.conditions).expect("some");
    for condition in conditions.iter_mut().filter(|condition| condition.type_ == "Ready") {
        condition.status = ready.into();
    }
    let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
    pods.patch_status(pod, &PatchParams::default(), &patch).await.expect("accepted");
}

/// Waits until a tunnel is up through the pod with this address outside.
async fn up_through(one: &Cluster, name: &str, address: &str) {
    one.until(&format!("{name} is up through {address}"), PATIENCE, async || {
        let status = one.built(name).await.status.expect("a status");
        if status.internal_ip.as_deref() == Some(address) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
}

#[tokio::test]
async fn when_another_pod_of_a_gateway_takes_over_the_former_one_is_swept_once_it_is_ready_again() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    deploy(&one).await;
    one.create(&vxlan("ha0", "both", "cluster2/gw1", "10.100.0.1/24")).await;
    let status = one.built("ha0").await.status.expect("a status");
    let first = status.internal_ip.expect("an address");
    let (serving, spare, second) = match first.as_str() {
        "172.50.16.11" => ("gw1", "gw2", "172.50.16.12"),
        "172.50.16.12" => ("gw2", "gw1", "172.50.16.11"),
        other => panic!("nobody has {other}"),
    };
    assert_eq!(one.marked(serving).await.len(), ONE_TUNNEL);
    assert_eq!(one.marked(spare).await, Vec::<String>::new());

    let pod = format!("vpc-nat-gw-{serving}-0");
    report(&one, &pod, "False").await;
    up_through(&one, "ha0", second).await;
    assert_eq!(one.marked(spare).await.len(), ONE_TUNNEL);

    report(&one, &pod, "True").await;
    one.is_clean(serving).await;
    up_through(&one, "ha0", second).await;
    assert_eq!(one.marked(spare).await.len(), ONE_TUNNEL, "it is not given back");

    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, "ha0", "--timeout=60s"]).await.ok();
    for gateway in [serving, spare] {
        assert_eq!(one.marked(gateway).await, Vec::<String>::new(), "{gateway}");
    }
}

#[tokio::test]
async fn a_spare_pod_that_does_not_answer_blocks_a_deletion_and_is_named() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    deploy(&one).await;
    one.create(&vxlan("ha0", "both", "cluster2/gw1", "10.100.0.1/24")).await;
    let status = one.built("ha0").await.status.expect("a status");
    let spare = if status.internal_ip.as_deref() == Some("172.50.16.11") { "gw2" } else { "gw1" };
    one.fault(spare, "refuse").await;
    // Its former observation is forgotten with the term.
    sandbox.restart(&one, Signal::SIGKILL).await;
    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, "ha0", "--wait=false"]).await.ok();
    let blocked = one.says(NS, "ha0", "CleanupBlocked", "True", "ExecRefused", 2 * PATIENCE).await;
    let why = condition(&blocked, "CleanupBlocked").expect("it was there").message.clone();
    assert!(why.contains(&format!("vpc-nat-gw-{spare}-0")), "{why}");
    one.fault(spare, "").await;
    one.kubectl(&["wait", "--for=delete", "vpcnattunnel", "-n", NS, "ha0", "--timeout=60s"]).await.ok();
}
