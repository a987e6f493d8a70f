//! A gateway that restarts while something cannot be known is built from what was last known.

use serde_json::json;

use super::support::tunnels::{condition, join};
use super::support::{Cluster, PATIENCE, Sandbox};
use super::{FAR, MEETING};

/// Takes the gateway's pod away; its successor holds nothing of its own.
async fn restart_gateway(cluster: &Cluster) {
    let uid = async || {
        cluster
            .kubectl(&[
                "get",
                "pod",
                "-n",
                "kube-system",
                "vpc-nat-gw-gw1-0",
                "-o",
                "jsonpath={.metadata.uid}",
            ])
            .await
            .out
    };
    let before = uid().await;
    cluster.kubectl(&["delete", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0"]).await.ok();
    cluster
        .until("another pod of the gateway", PATIENCE, async || {
            let now = uid().await;
            if !now.is_empty() && now != before { Ok(()) } else { Err(now) }
        })
        .await;
}

/// Waits until nothing is in doubt any more.
async fn is_known_again(cluster: &Cluster) {
    cluster
        .until("the peer is known again", PATIENCE, async || {
            let tunnel = cluster.tunnel("demo").await;
            if condition(&tunnel, "LastKnown").is_none() {
                Ok(())
            } else {
                Err(format!("{:?}", tunnel.status))
            }
        })
        .await;
}

#[tokio::test]
async fn a_gateway_is_built_anew_while_its_peers_record_or_its_clusters_id_is_in_doubt() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "demo", "gw1", 0).await;
    one.reaches(FAR).await;

    sandbox.hold(&two).await;
    broker.kubectl(&["delete", "gwx", "-n", MEETING, "-l", "submariner-io/clusterID=cluster2"]).await.ok();
    one.goes_on("demo", "PeerUnknown").await;
    restart_gateway(&one).await;
    one.comes_to_reach(FAR).await;
    one.reaches(FAR).await;
    one.goes_on("demo", "PeerUnknown").await;
    one.up("demo").await;
    sandbox.release(&two).await;
    is_known_again(&one).await;

    // A record that claims what is another's.
    sandbox.hold(&two).await;
    for (claims, reason) in [
        (r#"{"spec": {"globalnetcidr": "127.0.0.0/8"}}"#, "AddressConflict"),
        (r#"{"spec": {"globalnetcidr": "10.0.1.0/24"}}"#, "RouteTaken"),
        (r#"{"spec": {"globalnetcidr": "242.1.0.0/16", "externalip": "10.0.1.10"}}"#, "AddressConflict"),
    ] {
        let patch = ["patch", "gwx", "-n", MEETING, "gw1.cluster2", "--type=merge", "-p", claims];
        broker.kubectl(&patch).await.ok();
        one.goes_on("demo", reason).await;
        restart_gateway(&one).await;
        one.comes_to_reach(FAR).await;
        one.reaches(FAR).await;
        one.goes_on("demo", reason).await;
        one.up("demo").await;
    }
    sandbox.release(&two).await;
    is_known_again(&one).await;

    let claim = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "causeway.cluster1.evil", "namespace": MEETING,
            "labels": { "submariner-io/clusterID": "cluster1" },
        },
        "spec": {
            "holderIdentity": "evil", "leaseDurationSeconds": i32::MAX,
            "renewTime": "2999-01-01T00:00:00.000000Z",
        },
    });
    broker.apply(&claim.to_string()).await.ok();
    one.goes_on("demo", "ClusterIdTaken").await;
    restart_gateway(&one).await;
    one.comes_to_reach(FAR).await;
    one.reaches(FAR).await;
    one.up("demo").await;
    broker.kubectl(&["delete", "lease", "-n", MEETING, "causeway.cluster1.evil"]).await.ok();
    is_known_again(&one).await;
    one.reaches(FAR).await;
}
