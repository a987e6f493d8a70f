//! Changes: of an address, a gateway, a peer, and of the gateway's pod itself.

use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;

use super::FAR;
use super::reports::set_routes;
use super::support::gateway::ONE_TUNNEL;
use super::support::tunnels::{NS, condition, join, vxlan, with_vni};
use super::support::{Cluster, PATIENCE, Sandbox};

#[tokio::test]
async fn a_changed_address_replaces_the_old_one_and_no_packet_is_lost() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let stream = one.stream(FAR).await;
    // Within the network, out of it, and with another prefix.
    for address in ["10.100.0.9/24", "10.100.0.3/24", "10.101.0.1/24", "10.101.0.1/16"] {
        one.patch_spec("vx0", json!({ "interfaceAddr": address })).await;
        let tunnel = one.built("vx0").await;
        assert_eq!(tunnel.status.expect("a status").interface_addr.as_deref(), Some(address));
        assert_eq!(one.addresses("gw1", "vx0").await, [address]);
    }
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
}

#[tokio::test]
async fn a_changed_vni_and_port_make_a_new_link_at_both_ends_and_packets_cross_again() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    for cluster in [&one, &two] {
        let labels = ["label", "vnt", "-n", NS, "vx0", "vid=77", "vx-port=8472", "--overwrite"];
        cluster.kubectl(&labels).await.ok();
        cluster
            .until("the link has the new VNI and port", PATIENCE, async || {
                let link = cluster.link("gw1", "vx0").await.unwrap_or_default();
                let data = &link["linkinfo"]["info_data"];
                if data["id"] == 77 && data["port"] == 8472 { Ok(()) } else { Err(data.to_string()) }
            })
            .await;
    }
    one.comes_to_reach(FAR).await;
    one.reaches(FAR).await;
}

#[tokio::test]
async fn a_tunnel_that_moves_to_another_gateway_leaves_nothing_on_the_old_one() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;

    one.patch_spec("vx0", json!({"natGwDp": "gw2"})).await;
    let status = one.built("vx0").await.status.expect("a status");
    assert_eq!((status.nat_gw_dp.as_deref(), status.local_gw.as_deref()), (Some("gw2"), Some("gw2")));
    assert_eq!(status.internal_ip.as_deref(), Some("172.50.16.12"));
    assert_eq!(one.addresses("gw2", "vx0").await, ["10.100.0.1/24"]);
    one.is_clean("gw1").await;
    one.says(NS, "vx0", "Routed", "False", "NoStaticRoute", PATIENCE).await;

    two.patch_spec("vx0", json!({"gatewayName": "gw2"})).await;
    let status = two.built("vx0").await.status.expect("a status");
    assert_eq!(status.remote_ip.as_deref(), Some("172.50.16.12"));
    let link = two.link("gw1", "vx0").await.expect("the link");
    assert_eq!(link["linkinfo"]["info_data"]["remote"], "172.50.16.12");
    set_routes(&one, r#"[{"cidr":"242.1.0.0/16","nextHopIP":"10.0.1.253"}]"#).await;
    one.says(NS, "vx0", "Routed", "True", "StaticRoute", PATIENCE).await;
    one.comes_to_reach(FAR).await;
    one.delete("vx0").await;
    assert_eq!(one.marked("gw2").await, Vec::<String>::new());
}

async fn pod_uid(cluster: &Cluster) -> String {
    let uid = ["get", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0", "-o", "jsonpath={.metadata.uid}"];
    cluster.kubectl(&uid).await.out
}

#[tokio::test]
async fn a_gateway_that_was_scaled_down_or_lost_its_pod_gets_its_tunnel_back() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;

    let scale = |replicas: &'static str| ["scale", "sts", "-n", "kube-system", "vpc-nat-gw-gw1", replicas];
    one.kubectl(&scale("--replicas=0")).await.ok();
    let sentence = one.down("vx0", "GatewayNotRunning").await;
    assert!(sentence.contains("scaled to 0"), "{sentence}");
    one.reports("vx0", "GatewayNotRunning", "gw1").await;
    let there = two.tunnel("vx0").await;
    assert_eq!(
        condition(&there, "Ready").map(|c| c.status.as_str()),
        Some("True"),
        "a restart is no news to the peer"
    );
    one.kubectl(&scale("--replicas=1")).await.ok();
    one.built("vx0").await;
    two.built("vx0").await;
    one.reaches(FAR).await;

    let before = pod_uid(&one).await;
    one.kubectl(&["delete", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0"]).await.ok();
    one.until("the new pod has the tunnel", PATIENCE, async || {
        let now = pod_uid(&one).await;
        if now.is_empty() || now == before {
            return Err(format!("the pod's uid is {now:?}, it was {before:?}"));
        }
        let marked = one.marked_if_running("gw1").await;
        if marked.len() == ONE_TUNNEL { Ok(()) } else { Err(format!("{marked:?}")) }
    })
    .await;
    let tunnel = one.built("vx0").await;
    assert_eq!(tunnel.finalizers(), ["tunnel.finalizer.ustc.io"]);
    two.built("vx0").await;
    one.comes_to_reach(FAR).await;
    one.reaches(FAR).await;
}

#[tokio::test]
async fn egress_addresses_with_gaps_give_their_longest_run_and_the_rest_is_reported() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let gaps = r#"{"status":{"allocatedIPs":["242.0.0.1","242.0.0.5","242.0.0.6","242.0.0.7","242.0.0.9"]}}"#;
    let egress = ["clusterglobalegressip", "cluster-egress.submariner.io"];
    let patch = ["patch", egress[0], egress[1], "--type=merge", "--subresource=status", "-p", gaps];
    one.kubectl(&patch).await.ok();
    let run = "242.0.0.5-242.0.0.7";
    one.until("the rule has the longest run", PATIENCE, async || {
        let rules = one.postrouting("gw1").await;
        let ours: Vec<_> = rules.iter().filter(|rule| rule.contains("causeway:")).collect();
        if ours.len() == 1 && ours[0].ends_with(run) { Ok(()) } else { Err(format!("{rules:?}")) }
    })
    .await;
    one.until("the condition says so", PATIENCE, async || {
        let tunnel = one.tunnel("vx0").await;
        let sentence = condition(&tunnel, "Ready").expect("a condition").message.clone();
        if sentence.contains("3 of 5 egress addresses") { Ok(()) } else { Err(sentence) }
    })
    .await;
    one.reaches(FAR).await;
}

#[tokio::test]
async fn a_tunnel_replaced_by_force_or_turned_into_the_other_form_leaves_nothing_of_the_old_one() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let other = with_vni(vxlan("vx0", "gw1", "cluster2/gw1", "10.100.5.1/24"), 55);
    one.kubectl_with(&["replace", "--force", "-f", "-"], &other.to_string()).await.ok();
    one.built("vx0").await;
    assert_eq!(one.addresses("gw1", "vx0").await, ["10.100.5.1/24"]);
    let link = one.link("gw1", "vx0").await.expect("the link");
    assert_eq!(link["linkinfo"]["info_data"]["id"], 55);

    let by_vpc = json!({
        "clusterId": null, "gatewayName": null, "natGwDp": null,
        "remoteCluster": "cluster2", "remoteVpc": "test-vpc-1", "localVpc": "test-vpc-1",
    });
    one.patch_spec("vx0", by_vpc).await;
    one.until("it stands by on the other gateway", PATIENCE, async || {
        let marked = one.marked("gw2").await;
        if marked.contains(&"link \"vx0\"".into()) { Ok(()) } else { Err(format!("{marked:?}")) }
    })
    .await;
    one.built("vx0").await;
    one.delete("vx0").await;
    one.is_clean("gw1").await;
    one.is_clean("gw2").await;
}

#[tokio::test]
async fn a_change_on_a_gateway_that_is_known_is_one_command() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let controller = one.controller().await;
    one.create(&vxlan("vx0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.built("vx0").await;
    let commands = async || (controller.execs("observe").await, controller.execs("apply").await);
    // What was built echoes in the monitor, and the echo is looked into.
    one.until("it is at rest", PATIENCE, async || {
        let before = commands().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        if commands().await == before { Ok(()) } else { Err(format!("{before:?}")) }
    })
    .await;
    let (observed, applied) = commands().await;
    one.patch_spec("vx0", json!({ "interfaceAddr": "10.100.0.9/24" })).await;
    one.until("its new address is there", PATIENCE, async || {
        let addresses = one.addresses("gw1", "vx0").await;
        if addresses == ["10.100.0.9/24"] { Ok(()) } else { Err(format!("{addresses:?}")) }
    })
    .await;
    one.built("vx0").await;
    assert_eq!(commands().await, (observed, applied + 1));
}
