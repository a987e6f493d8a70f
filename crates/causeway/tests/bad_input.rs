//! Objects that cannot be: refused at the door where that is possible, else reported with the reason, without harm to others.
#![cfg(feature = "sandbox")]

#[path = "bad_input/conflicts.rs"]
mod conflicts;
#[path = "bad_input/gateways.rs"]
mod gateways;
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::tunnels::{NS, Reported, condition, join, vxlan};
use support::{Cluster, Sandbox};

const FAR: &str = "242.1.1.20";

/// A tunnel is down for this reason, in a sentence with these words, and a warning says so too.
async fn reported(cluster: &Cluster, name: &str, reason: &str, words: &[&str]) {
    assert!(told(cluster, name, reason, words).await.warning, "{reason} is worth a warning");
}

/// The same where that happens on an ordinary day.
async fn mentioned(cluster: &Cluster, name: &str, reason: &str, words: &[&str]) {
    assert!(!told(cluster, name, reason, words).await.warning, "{reason} alarms nobody");
}

async fn told(cluster: &Cluster, name: &str, reason: &str, words: &[&str]) -> Reported {
    let sentence = cluster.down(name, reason).await;
    for part in words {
        assert!(sentence.contains(part), "expected {part:?} in: {sentence}");
    }
    cluster.reports(name, reason, words.first().unwrap_or(&"")).await
}

/// A tunnel is up and has been since it came up.
async fn undisturbed(cluster: &Cluster, name: &str) {
    let tunnel = cluster.tunnel(name).await;
    let ready = condition(&tunnel, "Ready").expect("a condition");
    assert_eq!(ready.status, "True", "{ready:?}");
    assert_eq!(cluster.events(NS, name).await, [], "nothing happened to it");
}

/// How long requests are counted.
const COUNTED: Duration = Duration::from_secs(8);
/// What may be asked of an API server in that time: a back-off from 250 ms lets six visits of two commands
/// happen, beside Lease renewals and looks at healthy gateways. A hot loop makes hundreds.
const AT_MOST: u64 = 40;

/// Asserts that what cannot be is not tried over and over.
async fn stays_calm(cluster: &Cluster) {
    let before = cluster.requests().await;
    tokio::time::sleep(COUNTED).await;
    let after = cluster.requests().await;
    let grown = after.iter().map(|(what, count)| (what, count - before.get(what).unwrap_or(&0)));
    let grown: Vec<_> = grown.filter(|(_, count)| *count > 0).collect();
    let total: u64 = grown.iter().map(|(_, count)| count).sum();
    assert!(total <= AT_MOST, "{total} requests within {COUNTED:?}: {grown:?}");
}

fn good() -> Value {
    vxlan("vx0", "gw1", "cluster2/gw1", "10.100.0.1/24")
}

fn named(name: &str) -> Value {
    let mut tunnel = good();
    tunnel["metadata"]["name"] = json!(name);
    tunnel
}

fn with_spec(changes: Value) -> Value {
    let mut tunnel = good();
    for (key, value) in changes.as_object().expect("fields") {
        match value {
            Value::Null => drop(tunnel["spec"].as_object_mut().expect("a spec").remove(key)),
            value => tunnel["spec"][key] = value.clone(),
        }
    }
    tunnel
}

#[tokio::test]
async fn kubectl_shows_at_once_what_is_wrong_with_a_name_an_address_or_a_form() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let too_long = "at most 15 characters";
    let reserved = "the name is one that gateways use themselves";
    one.apply(&named("sixteen-letters-").to_string()).await.refused(&[]);
    one.apply(&named("sixteen-letters0").to_string()).await.refused(&[too_long]);
    for name in ["lo", "all", "default", "eth0", "net1", "gre0", "gretap0", "erspan0", "tunl0"] {
        one.apply(&named(name).to_string()).await.refused(&[reserved]);
    }
    for address in
        ["10.100.0.1", "10.100.0.1/33", "10.100.0.256/24", "10.100.0.1/24;reboot", "fd00::1/64", ""]
    {
        let tunnel = with_spec(json!({"interfaceAddr": address}));
        one.apply(&tunnel.to_string()).await.refused(&["spec.interfaceAddr"]);
    }
    let one_form = "use exactly one form";
    let by_gateway = json!({"clusterId": null, "gatewayName": null, "natGwDp": null});
    let by_vpc = json!({"remoteCluster": "cluster2", "remoteVpc": "test-vpc-1", "localVpc": "test-vpc-1"});
    let cases = [
        (with_spec(by_gateway), one_form),
        (with_spec(by_vpc), one_form),
        (with_spec(json!({"natGwDp": null})), "clusterId, gatewayName and natGwDp go together"),
        (with_spec(json!({"type": "ipip"})), "spec.type"),
        (with_spec(json!({"interfaceAddr": null})), "spec.interfaceAddr"),
        (with_spec(json!({"natGwDp": "gw1; reboot"})), "spec.natGwDp"),
    ];
    for (tunnel, words) in cases {
        one.apply(&tunnel.to_string()).await.refused(&[words]);
    }
    assert_eq!(one.kubectl(&["get", "vnt", "-A", "-o", "name"]).await.ok(), "", "none got in");
    one.apply(&good().to_string()).await.ok();
    one.built("vx0").await;
}

async fn set_label(cluster: &Cluster, name: &str, label: &str) {
    cluster.kubectl(&["label", "vnt", "-n", NS, name, label, "--overwrite"]).await.ok();
}

#[tokio::test]
async fn labels_that_are_no_vni_or_port_are_reported_and_what_worked_stays() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    for (number, (label, value)) in
        [("vid", "many"), ("vid", "0"), ("vid", "16777216"), ("vx-port", "65536"), ("vx-port", "-")]
            .into_iter()
            .enumerate()
    {
        let name = format!("bad{number}");
        let mut tunnel = vxlan(&name, "gw2", "cluster2/gw2", "10.100.9.1/24");
        tunnel["metadata"]["labels"] = json!({ label: value.replace('-', "x") });
        one.apply(&tunnel.to_string()).await.ok();
        reported(&one, &name, "InvalidSpec", &[&format!("label {label}"), "is not a number from 1 to"]).await;
        one.kubectl(&["delete", "vnt", "-n", NS, &name, "--timeout=60s"]).await.ok();
    }
    join(&one, &two, "vx0", "gw1", 0).await;
    let stream = one.stream(FAR).await;
    set_label(&one, "vx0", "vid=nonsense").await;
    one.down("vx0", "InvalidSpec").await;
    one.reaches(FAR).await;
    stays_calm(&one).await;
    set_label(&one, "vx0", "vid=1000").await;
    one.built("vx0").await;
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "a slip of the pen cuts no traffic: {count:?}");
    set_label(&one, "vx0", "vid=nonsense").await;
    one.down("vx0", "InvalidSpec").await;
    one.kubectl(&["delete", "vnt", "-n", NS, "vx0", "--timeout=60s"]).await.ok();
    one.is_clean("gw1").await;
}

#[tokio::test]
async fn a_tunnel_to_an_unknown_peer_waits_and_comes_up_when_the_peer_is_published() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    one.create(&vxlan("far", "gw1", "cluster9/gw9", "10.109.0.1/24")).await;
    mentioned(&one, "far", "PeerUnknown", &["cluster cluster9 has published no gateway gw9"]).await;
    assert_eq!(one.link("gw1", "far").await, None);
    stays_calm(&one).await;
    let copy = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {
            "name": "gw9.cluster9", "namespace": "submariner-k8s-broker",
            "labels": {
                "localCluster": "cluster9", "localGateway": "gw9", "localVpc": "test-vpc-1",
                "submariner-io/clusterID": "cluster9", "submariner-io/originatingNamespace": "kube-system",
            },
        },
        "spec": {"externalip": "172.50.16.91", "globalnetcidr": "242.8.0.0/16"},
    });
    sandbox.broker().await.apply(&copy.to_string()).await.ok();
    let status = one.built("far").await.status.expect("a status");
    assert_eq!(status.remote_ip.as_deref(), Some("172.50.16.91"));
    assert_eq!(status.remote_globalnet_cidr.as_deref(), Some("242.8.0.0/16"));
    undisturbed(&one, "vx0").await;
    one.reaches(FAR).await;
    one.delete("far").await;
    assert!(one.marked("gw1").await.iter().all(|thing| !thing.contains("far")));
}
