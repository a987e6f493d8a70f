//! An id that two claim: what is published under it leads no tunnel elsewhere.

use kube::api::{Patch, PatchParams};
use nix::sys::signal::Signal;
use serde_json::json;

use super::support::tunnels::{NS, condition, join, vxlan, with_vni};
use super::support::{Cluster, PATIENCE, Sandbox};
use super::{FAR, MEETING, SYSTEM, says};

/// Where the thief would have cluster2's packets.
const ELSEWHERE: &str = "172.50.16.66";

async fn claim(broker: &Cluster, id: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": format!("causeway.{id}.a-thief"), "namespace": MEETING,
            "labels": { "submariner-io/clusterID": id },
        },
        "spec": {
            "holderIdentity": "a-thief", "leaseDurationSeconds": 360,
            "renewTime": "2099-01-01T00:00:00.000000Z",
        },
    });
    broker.apply(&lease.to_string()).await.ok();
}

async fn publish(broker: &Cluster, record: &str, address: &str, range: &str) {
    let patch = Patch::Merge(json!({"spec": {"externalip": address, "globalnetcidr": range}}));
    broker.records(MEETING).patch(record, &PatchParams::default(), &patch).await.expect("accepted");
}

/// Where a tunnel's link leads.
async fn remote(cluster: &Cluster, gateway: &str, tunnel: &str) -> serde_json::Value {
    cluster.link(gateway, tunnel).await.unwrap_or_default()["linkinfo"]["info_data"]["remote"].clone()
}

#[tokio::test]
async fn a_claim_to_anothers_id_and_its_record_edited_lead_no_packet_elsewhere() {
    let sandbox = Sandbox::bare().await;
    let (one, two, broker) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.broker().await);
    join(&one, &two, "demo", "gw1", 1).await;
    let pings = one.pings(FAR).await;

    claim(&broker, "cluster2").await;
    let sentence = one.goes_on("demo", "PeerIdContested").await;
    assert_eq!(sentence.matches("causeway.cluster2.").count(), 2, "{sentence}");
    assert!(sentence.contains("causeway.cluster2.a-thief"), "{sentence}");
    two.goes_on("demo", "ClusterIdTaken").await;

    // Its owner runs and no longer writes there, so nobody puts this right.
    publish(&broker, "gw1.cluster2", ELSEWHERE, "242.9.0.0/16").await;
    // What was published later under an id that is not contested is here: so this would be, too.
    let other = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {"name": "gw1.old", "namespace": MEETING, "labels": {
            "submariner-io/clusterID": "old", "localCluster": "old", "localGateway": "gw1",
        }},
        "spec": {"externalip": "172.50.16.99", "globalnetcidr": "242.19.0.0/16"},
    });
    broker.apply(&other.to_string()).await.ok();
    says(&one, SYSTEM, "gw1-old", Some("172.50.16.99")).await;
    says(&one, SYSTEM, "gw1-cluster2", Some("172.50.16.21")).await;
    one.create(&with_vni(vxlan("new0", "gw2", "cluster2/gw2", "10.100.8.1/24"), 8)).await;
    let refused = one.down("new0", "PeerIdContested").await;
    assert!(refused.contains("causeway.cluster2.a-thief"), "{refused}");
    assert_eq!(remote(&one, "gw1", "demo").await, "172.50.16.21");
    assert_eq!(remote(&one, "gw2", "new0").await, serde_json::Value::Null, "it is not begun");

    // A controller that starts knows the record before the claims.
    sandbox.restart(&one, Signal::SIGKILL).await;
    one.create(&with_vni(vxlan("later0", "gw1", "old/gw1", "10.100.7.1/24"), 7)).await;
    one.built("later0").await;
    one.goes_on("demo", "PeerIdContested").await;
    says(&one, SYSTEM, "gw1-cluster2", Some("172.50.16.21")).await;
    assert_eq!(remote(&one, "gw1", "demo").await, "172.50.16.21");
    let counted = pings.end().await;
    assert_eq!((counted.sent > 20, counted.lost()), (true, 0), "{counted:?}");

    // It is settled: what is published counts, and its owner has put it right.
    broker.kubectl(&["delete", "lease", "-n", MEETING, "causeway.cluster2.a-thief"]).await.ok();
    says(&broker, MEETING, "gw1.cluster2", Some("172.50.16.21")).await;
    one.until("nothing is in doubt", PATIENCE, async || {
        let tunnel = one.tunnel("demo").await;
        let is_known =
            condition(&tunnel, "LastKnown").is_none() && remote(&one, "gw1", "demo").await == "172.50.16.21";
        if is_known { Ok(()) } else { Err(format!("{:?}", tunnel.status)) }
    })
    .await;
    one.says(NS, "new0", "Programmed", "True", "InPlace", PATIENCE).await;
    one.comes_to_reach(FAR).await;
}

#[tokio::test]
async fn when_an_id_is_settled_its_record_counts_as_it_then_is() {
    let sandbox = Sandbox::bare().await;
    let (one, two, broker) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.broker().await);
    join(&one, &two, "demo", "gw1", 1).await;
    claim(&broker, "cluster2").await;
    one.goes_on("demo", "PeerIdContested").await;
    // Its owner is away, so what it finds there afterwards is what was written meanwhile.
    sandbox.hold(&two).await;
    publish(&broker, "gw1.cluster2", "172.50.16.29", "242.1.0.0/16").await;
    broker.kubectl(&["delete", "lease", "-n", MEETING, "causeway.cluster2.a-thief"]).await.ok();
    let moved = one.reports("demo", "PeerMoved", "peer cluster2/gw1 changed its address").await;
    assert!(moved.note.ends_with("from 172.50.16.21 to 172.50.16.29"), "{moved:?}");
    assert_eq!(remote(&one, "gw1", "demo").await, "172.50.16.29");
    sandbox.release(&two).await;
    one.comes_to_reach(FAR).await;
}
