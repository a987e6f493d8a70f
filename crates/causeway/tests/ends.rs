//! Both ends of a tunnel compare notes through the broker.

mod support;

use serde_json::{Value, json};
use support::tunnels::{NS, condition, join, vxlan, with_vni};
use support::vpcs::{TUNNEL, VPC, joined};
use support::{Cluster, PATIENCE, Sandbox};

const MEETING: &str = "submariner-k8s-broker";
const KIND: &str = "tunnelends.kubeovn.ustc.io";

/// Waits for what a tunnel says of its peer's end; gives the sentence.
async fn says(cluster: &Cluster, tunnel: &str, status: &str, reason: &str) -> String {
    let tunnel = cluster.says(NS, tunnel, "PeerAgrees", status, reason, PATIENCE).await;
    condition(&tunnel, "PeerAgrees").expect("it was there").message.clone()
}

/// Waits until a tunnel says nothing of its peer's end.
async fn says_nothing(cluster: &Cluster, tunnel: &str) {
    cluster
        .until(&format!("{tunnel} says nothing of its peer's end"), PATIENCE, async || {
            let now = cluster.tunnel(tunnel).await;
            match condition(&now, "PeerAgrees") {
                None => Ok(()),
                Some(condition) => Err(format!("{condition:?}")),
            }
        })
        .await;
}

/// The ends at the broker, by name.
async fn ends(broker: &Cluster) -> Vec<Value> {
    let list = broker.kubectl(&["get", KIND, "-n", MEETING, "-o", "json"]).await.ok();
    let list: Value = serde_json::from_str(&list).expect("JSON");
    list["items"].as_array().expect("a list").clone()
}

async fn vid(cluster: &Cluster, tunnel: &str, vni: u32) {
    let label = format!("vid={vni}");
    cluster.kubectl(&["label", "vnt", "-n", NS, tunnel, &label, "--overwrite"]).await.ok();
}

#[tokio::test]
async fn ends_that_differ_say_so_on_both_sides_until_they_are_put_right() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "pair0", "gw1", 1).await;
    for cluster in [&one, &two] {
        says(cluster, "pair0", "True", "Agreed").await;
    }
    let published = ends(&broker).await;
    let ours = published.iter().find(|end| end["metadata"]["name"] == "ns1.pair0.cluster1").expect("ours");
    assert_eq!(published.len(), 2, "{published:#?}");
    assert_eq!(ours["metadata"]["labels"]["submariner-io/clusterID"], "cluster1");
    assert_eq!(ours["metadata"]["labels"]["causeway/peer-cluster"], "cluster2");
    assert_eq!(
        ours["spec"],
        json!({
            "cluster": "cluster1", "gateway": "gw1", "peerCluster": "cluster2", "peerGateway": "gw1",
            "tunnel": "ns1/pair0", "type": "vxlan", "vni": 1001, "port": 4789, "mtu": 1450,
            "interfaceAddr": "10.100.1.1/24",
        })
    );

    vid(&two, "pair0", 1234).await;
    assert_eq!(
        says(&one, "pair0", "False", "PeerMismatch").await,
        "this end is VXLAN 1001, cluster2/gw1 says 1234 (TunnelEnd ns1.pair0.cluster2)"
    );
    assert_eq!(
        says(&two, "pair0", "False", "PeerMismatch").await,
        "this end is VXLAN 1234, cluster1/gw1 says 1001 (TunnelEnd ns1.pair0.cluster1)"
    );
    for (cluster, peer) in [(&one, "cluster2/gw1 says 1234"), (&two, "cluster1/gw1 says 1001")] {
        assert!(cluster.reports("pair0", "PeerMismatch", peer).await.warning);
    }
    vid(&one, "pair0", 1234).await;
    for (cluster, peer) in [(&one, "cluster2/gw1"), (&two, "cluster1/gw1")] {
        says(cluster, "pair0", "True", "Agreed").await;
        assert!(!cluster.reports("pair0", "Agreed", peer).await.warning);
    }

    // An address that both have, and one of another net.
    two.patch_spec("pair0", json!({"interfaceAddr": "10.100.1.1/24"})).await;
    assert!(says(&one, "pair0", "False", "PeerMismatch").await.contains("it has the same"));
    two.patch_spec("pair0", json!({"interfaceAddr": "10.100.2.2/24"})).await;
    one.until("the other net is told", PATIENCE, async || {
        let message = says(&one, "pair0", "False", "PeerMismatch").await;
        if message.contains("10.100.2.2/24, which is of another net") { Ok(()) } else { Err(message) }
    })
    .await;
    two.patch_spec("pair0", json!({"interfaceAddr": "10.100.1.2/24"})).await;
    for cluster in [&one, &two] {
        says(cluster, "pair0", "True", "Agreed").await;
    }
}

#[tokio::test]
async fn an_end_goes_with_its_tunnel_and_with_its_clusters_id() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "first0", "gw1", 1).await;
    join(&one, &two, "second0", "gw2", 2).await;
    for tunnel in ["first0", "second0"] {
        says(&one, tunnel, "True", "Agreed").await;
    }
    // Deleted while its controller was away: it is swept afterwards.
    sandbox.hold(&two).await;
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    two.kubectl(&["patch", "vnt", "-n", NS, "first0", "--type=merge", "-p", patch]).await.ok();
    two.kubectl(&["delete", "vnt", "-n", NS, "first0"]).await.ok();
    sandbox.release(&two).await;
    let told = says(&one, "first0", "Unknown", "NotSaid").await;
    assert!(told.contains("cluster2/gw1"), "{told}");
    says(&one, "second0", "True", "Agreed").await;
    assert_eq!(ends(&broker).await.len(), 3);

    let id = |id: &str| json!({"spec": {"clusterID": id}}).to_string();
    let discovery = ["patch", "servicediscovery", "service-discovery", "-n", "submariner-operator"];
    two.kubectl(&[&discovery[..], &["--type=merge", "-p", &id("renamed")]].concat()).await.ok();
    broker
        .until("its ends are those of the new id", PATIENCE, async || {
            let names: Vec<Value> =
                ends(&broker).await.iter().map(|end| end["metadata"]["name"].clone()).collect();
            let expected = ["ns1.first0.cluster1", "ns1.second0.cluster1", "ns1.second0.renamed"];
            if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .await;
    // Nobody that publishes ends leads here any more under the id that these tunnels name.
    says_nothing(&one, "second0").await;
}

#[tokio::test]
async fn a_peer_that_publishes_no_ends_is_not_complained_of_nor_a_broker_that_has_none() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    let record = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {"name": "gw1.old", "namespace": MEETING, "labels": {"submariner-io/clusterID": "old"}},
        "spec": {"externalIp": "172.50.16.99", "globalNetCIDR": "242.9.0.0/16"},
    });
    broker.apply(&record.to_string()).await.ok();
    join(&one, &two, "pair0", "gw1", 1).await;
    one.create(&with_vni(vxlan("other0", "gw1", "old/gw1", "10.100.9.1/24"), 9)).await;
    says(&one, "pair0", "True", "Agreed").await;
    one.until("the other tunnel is built", PATIENCE, async || {
        let link = one.link("gw1", "other0").await.unwrap_or_default();
        if link["linkinfo"]["info_data"]["id"] == 9 { Ok(()) } else { Err(format!("{link}")) }
    })
    .await;
    says_nothing(&one, "other0").await;

    let definition = broker.kubectl(&["get", "crd", KIND, "-o", "json"]).await.ok();
    broker.kubectl(&["delete", "crd", KIND]).await.ok();
    for cluster in [&one, &two] {
        says_nothing(cluster, "pair0").await;
        cluster.up("pair0").await;
        cluster
            .until("it is said once that the broker has none", PATIENCE, async || {
                match cluster.log().matches("the broker keeps no ends of tunnels").count() {
                    1 => Ok(()),
                    times => Err(format!("{times} times")),
                }
            })
            .await;
    }
    let mut definition: Value = serde_json::from_str(&definition).expect("JSON");
    definition["metadata"] = json!({"name": KIND});
    broker.apply(&definition.to_string()).await.ok();
    for cluster in [&one, &two] {
        says(cluster, "pair0", "True", "Agreed").await;
    }
}

/// An end in the name of cluster2, as anybody at the broker may write it.
async fn forge(broker: &Cluster, name: &str, tunnel: &str, vni: u32) {
    let end = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "TunnelEnd",
        "metadata": {"name": name, "namespace": MEETING, "labels": {
            "submariner-io/clusterID": "cluster2", "causeway/peer-cluster": "cluster1", "causeway/owner": "a-thief",
        }},
        "spec": {
            "cluster": "cluster2", "gateway": "gw1", "peerCluster": "cluster1", "peerGateway": "gw1",
            "tunnel": tunnel, "type": "vxlan", "vni": vni, "port": 4789, "interfaceAddr": "10.100.1.2/24",
        },
    });
    broker.apply(&end.to_string()).await.ok();
}

#[tokio::test]
async fn an_end_in_anothers_name_hides_no_mismatch_and_is_named() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "pair0", "gw1", 1).await;
    says(&one, "pair0", "True", "Agreed").await;

    // One that claims to be the same end, under another name than its owner would give it, counts for nothing.
    forge(&broker, "aaa", "ns1/pair0", 55).await;
    vid(&two, "pair0", 1234).await;
    let words = says(&one, "pair0", "False", "PeerMismatch").await;
    assert_eq!(words, "this end is VXLAN 1001, cluster2/gw1 says 1234 (TunnelEnd ns1.pair0.cluster2)");
    // One that fits stands beside the one that does not, and both are named.
    forge(&broker, "ns0.a.cluster2", "ns0/a", 1001).await;
    let words = says(&one, "pair0", "Unknown", "SeveralEnds").await;
    for named in ["ns0.a.cluster2 fits", "cluster2/gw1 says 1234 (TunnelEnd ns1.pair0.cluster2)"] {
        assert!(words.contains(named), "{words}");
    }
    let said = one.causeway(&["status"]).await.out;
    assert!(said.contains("SeveralEnds: ") && said.contains("ns0.a.cluster2"), "{said}");
    // Nor does one that does not fit speak for one that does.
    vid(&two, "pair0", 1001).await;
    says(&one, "pair0", "True", "Agreed").await;
    forge(&broker, "ns0.a.cluster2", "ns0/a", 55).await;
    let words = says(&one, "pair0", "Unknown", "SeveralEnds").await;
    assert!(
        words.contains("ns1.pair0.cluster2 fits") && words.contains("(TunnelEnd ns0.a.cluster2)"),
        "{words}"
    );
    broker.kubectl(&["delete", KIND, "-n", MEETING, "ns0.a.cluster2"]).await.ok();
    says(&one, "pair0", "True", "Agreed").await;
}

#[tokio::test]
async fn ends_by_vpc_are_compared_too_and_follow_a_tunnel_that_changes_its_form() {
    let (sandbox, one, two) = joined().await;
    let broker = sandbox.broker().await;
    for cluster in [&one, &two] {
        says(cluster, TUNNEL, "True", "Agreed").await;
    }
    let ours = async |what: &str, fits: &dyn Fn(&Value) -> bool| {
        let look = async || {
            let all = ends(&broker).await;
            let ours = all.into_iter().find(|end| end["metadata"]["name"] == "ns1.demo.cluster1");
            let ours = ours.unwrap_or_default();
            if fits(&ours) { Ok(()) } else { Err(ours.to_string()) }
        };
        broker.until(what, PATIENCE, look).await;
    };
    ours("an end between VPCs", &|end| {
        let labels = &end["metadata"]["labels"];
        (&labels["localVpc"], &labels["remoteVpc"]) == (&json!(VPC), &json!(VPC))
            && (&end["spec"]["gateway"], &end["spec"]["peerGateway"]) == (&json!(""), &json!(""))
            && end["spec"]["mtu"] == 1450
    })
    .await;
    vid(&two, TUNNEL, 1234).await;
    assert_eq!(
        says(&one, TUNNEL, "False", "PeerMismatch").await,
        "this end is VXLAN 100, cluster2/test-vpc-1 says 1234 (TunnelEnd ns1.demo.cluster2)"
    );
    vid(&one, TUNNEL, 1234).await;
    for cluster in [&one, &two] {
        says(cluster, TUNNEL, "True", "Agreed").await;
    }
    // It is between gateways now, and the other end is not.
    let by_gateway = json!({
        "remoteCluster": null, "remoteVpc": null, "localVpc": null,
        "clusterId": "cluster2", "gatewayName": "gw1", "natGwDp": "gw1",
    });
    one.patch_spec(TUNNEL, by_gateway).await;
    says(&one, TUNNEL, "Unknown", "NotSaid").await;
    ours("an end between gateways", &|end| {
        end["spec"]["gateway"] == "gw1" && end["metadata"]["labels"]["localVpc"].is_null()
    })
    .await;
}
