//! Clusters that claim the same id or the same range.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::support::Sandbox;
use super::support::tunnels::{join, vxlan};
use super::{MEETING, SYSTEM, discoveries, says};

#[tokio::test]
async fn two_clusters_with_one_id_both_say_so_and_fight_over_nothing() {
    let sandbox = Sandbox::bare().await;
    let (one, two, broker) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.broker().await);
    says(&broker, MEETING, "gw1.cluster1", Some("172.50.16.11")).await;
    says(&one, SYSTEM, "gw1-cluster2", Some("172.50.16.21")).await;
    one.create(&vxlan("first0", "gw1", "cluster2/gw1", "10.100.9.1/24")).await;
    one.built("first0").await;
    let version =
        async || broker.records(MEETING).get("gw1.cluster1").await.expect("it stays").resource_version();
    let (before, built) = (version().await, one.marked("gw1").await);

    let goes_by = async |id: &str| {
        let spec = json!({ "spec": { "clusterID": id } });
        let patch = Patch::Merge(&spec);
        discoveries(&two)
            .patch("service-discovery", &PatchParams::default(), &patch)
            .await
            .expect("accepted");
    };
    goes_by("cluster1").await;
    two.create(&vxlan("second0", "gw1", "cluster3/gw1", "10.100.9.1/24")).await;
    let up_before = one.goes_on("first0", "ClusterIdTaken").await;
    for sentence in [up_before, two.down("second0", "ClusterIdTaken").await] {
        assert!(
            sentence.contains("the id cluster1") && sentence.contains("causeway.cluster1."),
            "{sentence}"
        );
    }
    assert_eq!(version().await, before, "the first one's copy was left alone");
    assert_eq!(one.marked("gw1").await, built, "what was built stays");

    goes_by("cluster2").await;
    one.built("first0").await;
    // What the second one had brought from the first was never its own.
    let brought = two.records(SYSTEM).get("gw1-cluster1").await.expect("it stays");
    assert_eq!(json!(brought.spec)["externalip"], "172.50.16.11");
    says(&broker, MEETING, "gw1.cluster2", Some("172.50.16.21")).await;
}

#[tokio::test]
async fn two_clusters_with_one_range_both_say_so() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let range = r#"{"spec":{"global_cidr":["242.0.0.0/16"]}}"#;
    let same = [
        "patch",
        "clusters.submariner.io",
        "cluster2",
        "-n",
        "submariner-operator",
        "--type=merge",
        "-p",
        range,
    ];
    two.kubectl(&same).await.ok();
    for (cluster, other) in [(&one, "cluster2"), (&two, "cluster1")] {
        let sentence = cluster.goes_on("vx0", "RangeOverlap").await;
        assert!(sentence.contains(other) && sentence.contains("242.0.0.0/16"), "{sentence}");
    }
}

#[tokio::test]
async fn a_claim_that_ran_out_is_nobodys_and_a_live_one_counts_until_it_is_gone() {
    let sandbox = Sandbox::bare().await;
    let (one, broker) = (sandbox.cluster(1).await, sandbox.broker().await);
    says(&one, SYSTEM, "gw1-cluster2", Some("172.50.16.21")).await;
    one.create(&vxlan("first0", "gw1", "cluster2/gw1", "10.100.9.1/24")).await;
    one.built("first0").await;
    let claim = async |name: &str, renewed: &str, lasts: i32| {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": name, "namespace": MEETING, "labels": { "submariner-io/clusterID": "cluster1" } },
            "spec": { "holderIdentity": "another", "leaseDurationSeconds": lasts, "renewTime": renewed },
        });
        broker.apply(&lease.to_string()).await.ok();
    };
    claim("ran-out", "2020-01-01T00:00:00.000000Z", 360).await;
    claim("for-ever", "2020-01-01T00:00:00.000000Z", i32::MAX).await;
    claim("lives", "2099-01-01T00:00:00.000000Z", 360).await;
    let sentence = one.goes_on("first0", "ClusterIdTaken").await;
    assert!(sentence.contains("Lease lives"), "{sentence}");
    broker.kubectl(&["delete", "lease", "-n", MEETING, "lives"]).await.ok();
    // Those that ran out are still there, one of which says that it lasts for ever.
    one.built("first0").await;
}
