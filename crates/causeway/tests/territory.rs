//! Nobody takes another's packets: no peer by what it publishes, no tenant by an `interfaceAddr`, no gateway by an address
//! that it cannot have. Each claim is made while packets cross a tunnel that has nothing to do with it, and all are counted.
#![cfg(feature = "sandbox")]

mod support;

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::tunnels::{NS, condition, in_namespace, join, vxlan, with_vni};
use support::{Cluster, PATIENCE, Sandbox};

/// The servers of cluster2 and cluster3.
const FAR: &str = "242.1.1.20";
const THIRD: &str = "242.2.1.20";
/// Where the members meet at the broker.
const MEETING: &str = "submariner-k8s-broker";

/// Changes what a gateway of a member says of itself at the broker, as that member could: in both spellings.
async fn claim(broker: &Cluster, record: &str, mut spec: Value) {
    for (ours, theirs) in [("globalnetcidr", "globalNetCIDR"), ("externalip", "externalIp")] {
        if let Some(value) = spec.get(ours).cloned() {
            spec[theirs] = value;
        }
    }
    let patch = Patch::Merge(json!({ "spec": spec }));
    broker.records(MEETING).patch(record, &PatchParams::default(), &patch).await.expect("it is accepted");
}

/// Waits until a tunnel is refused for this reason, or goes on with what was known before it was, in a sentence that names
/// all of these.
async fn refused(cluster: &Cluster, namespace: &str, name: &str, reason: &str, words: &[&str]) {
    let what = format!("{namespace}/{name} is refused: {reason}, {words:?}");
    let tunnels = cluster.tunnels(namespace);
    cluster
        .until(&what, PATIENCE, async || {
            let tunnel = tunnels.get(name).await.map_err(|error| error.to_string())?;
            let says = |kind: &str, status: &str| {
                condition(&tunnel, kind).is_some_and(|it| {
                    let is_named = words.iter().all(|part| it.message.contains(part));
                    it.status == status && it.reason == reason && is_named
                })
            };
            let fits = says("Ready", "False") || says("LastKnown", "True");
            if fits { Ok(()) } else { Err(format!("{:?}", tunnel.status)) }
        })
        .await;
}

/// What cluster3 may claim of others, and what cluster1 says to that.
const CLAIMED: [(&str, &str, &str, &[&str]); 15] = [
    ("globalnetcidr", "242.1.1.0/24", "ClustersOverlap", &["cluster2: 242.1.0.0/16"]),
    ("globalnetcidr", "242.1.1.20/32", "ClustersOverlap", &["cluster2: 242.1.0.0/16"]),
    ("globalnetcidr", "172.50.16.21/32", "AddressConflict", &["the peer's address", "ns1/demo"]),
    ("globalnetcidr", "10.100.0.2/32", "AddressConflict", &["the net of interfaceAddr", "ns1/demo"]),
    ("globalnetcidr", "127.0.0.0/8", "AddressConflict", &["loopback"]),
    ("globalnetcidr", "172.50.16.0/24", "AddressConflict", &["the gateway's own address"]),
    ("globalnetcidr", "10.0.1.0/24", "RouteTaken", &["10.0.1.0/24 dev eth0"]),
    ("externalip", "0.0.0.0", "AddressConflict", &["nobody"]),
    ("externalip", "127.0.0.1", "AddressConflict", &["loopback"]),
    ("externalip", "224.0.0.1", "AddressConflict", &["multicast"]),
    ("externalip", "255.255.255.255", "AddressConflict", &["broadcast"]),
    ("externalip", "172.50.16.11", "PeerInvalid", &["this gateway"]),
    ("externalip", "10.0.1.10", "AddressConflict", &["eth0"]),
    ("externalip", "242.1.1.20", "AddressConflict", &["242.1.0.0/16 of tunnel ns1/demo"]),
    ("externalip", "10.100.0.2", "AddressConflict", &["the net of interfaceAddr", "ns1/demo"]),
];

#[tokio::test]
async fn what_a_peer_claims_of_others_is_refused_by_name_and_takes_no_packet() {
    let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
    let (one, two, three) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.cluster(3).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "demo", "gw1", 0).await;
    join(&one, &three, "third", "gw1", 1).await;
    // Its controller would put its record right.
    sandbox.hold(&three).await;
    let others = one.stream(FAR).await;

    let own = one.stream(THIRD).await;
    let right = json!({"globalnetcidr": "242.2.0.0/16", "externalip": "172.50.16.31"});
    for (field, claimed, reason, words) in CLAIMED {
        let mut spec = right.clone();
        spec[field] = json!(claimed);
        claim(&broker, "gw1.cluster3", spec).await;
        let words: Vec<&str> = words.iter().copied().chain([claimed]).collect();
        refused(&one, NS, "third", reason, &words).await;
    }
    claim(&broker, "gw1.cluster3", right.clone()).await;
    for claimed in ["0.0.0.0/0", "128.0.0.0/1", "242.0.0.0/8"] {
        claim(&broker, "gw1.cluster3", json!({ "globalnetcidr": claimed })).await;
        refused(&one, NS, "third", "RangeOverlap", &[claimed, "242.0.0.0/16"]).await;
    }
    let count = own.end().await;
    assert_eq!(count.lost(), 0, "what was built stays as it was: {count:?}");

    // Nobody's that is known here: cluster3 may have it.
    claim(&broker, "gw1.cluster3", json!({ "globalnetcidr": "8.8.8.0/24" })).await;
    one.until("cluster3 has what it claims", PATIENCE, async || {
        let status = one.tunnel("third").await.status.expect("a status");
        let is_so = status.remote_globalnet_cidr.as_deref() == Some("8.8.8.0/24");
        if is_so { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;

    claim(&broker, "gw1.cluster3", right).await;
    one.comes_to_reach(THIRD).await;
    let count = others.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
}

/// How long the claim stands; far longer than a look at the gateway takes.
const A_WHILE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_claim_that_was_withdrawn_leaves_nothing_behind() {
    let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
    let (one, two, three) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.cluster(3).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "demo", "gw1", 0).await;
    sandbox.hold(&three).await;
    let stream = one.stream(FAR).await;
    let before = one.marked("gw1").await;

    // Nothing of cluster3's is in use here yet, so nothing but the claim itself speaks against it.
    claim(&broker, "gw1.cluster3", json!({ "globalnetcidr": "172.50.16.21/32" })).await;
    one.create(&with_vni(vxlan("third", "gw1", "cluster3/gw1", "10.100.1.1/24"), 1001)).await;
    refused(&one, NS, "third", "AddressConflict", &["172.50.16.21/32", "ns1/demo"]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(one.marked("gw1").await, before, "nothing is built on it");
    claim(&broker, "gw1.cluster3", json!({ "globalnetcidr": "242.2.0.0/16" })).await;
    one.built("third").await;

    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
}

/// What becomes of an `interfaceAddr` that somebody else's namespace asks for.
enum Fate {
    /// The API server does not take it.
    Door,
    /// It is refused for this reason.
    Refused(&'static str, &'static str),
    /// Two links may have addresses of one net: it concerns nobody else.
    Harmless,
}

#[tokio::test]
async fn no_tenants_interface_address_takes_a_packet_of_anothers() {
    use Fate::{Door, Harmless, Refused};
    let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "demo", "gw1", 0).await;
    one.kubectl(&["create", "namespace", "tenant"]).await.ok();
    let stream = one.stream(FAR).await;
    let taken = |with: &'static str| Refused("AddressConflict", with);
    for (address, fate) in [
        ("172.50.16.21/32", taken("link net1")),
        ("172.50.16.20/30", Refused("InvalidSpec", "no host's address")),
        ("172.50.16.22/30", taken("link net1")),
        ("10.0.1.10/32", taken("link eth0")),
        ("10.0.1.1/28", taken("link eth0")),
        ("172.50.16.1/32", taken("link net1")),
        ("172.50.16.11/32", taken("the gateway's own address")),
        ("10.0.1.1/32", taken("link eth0")),
        ("242.1.1.20/32", taken("242.1.0.0/16 of tunnel ns1/demo")),
        ("242.0.0.1/32", taken("this cluster's own range")),
        ("127.0.0.1/8", taken("loopback")),
        ("224.0.0.1/24", taken("multicast")),
        ("255.255.255.255/32", taken("broadcast")),
        ("1.2.3.4/0", Door),
        ("128.0.0.1/1", Door),
        ("0.0.0.1/0", Door),
        ("10.110.0.0/24", Refused("InvalidSpec", "no host's address")),
        ("10.110.0.255/24", Refused("InvalidSpec", "no host's address")),
        ("10.100.0.2/32", Harmless),
    ] {
        let tunnel = with_vni(vxlan("other", "gw1", "cluster3/gw1", address), 7);
        let said = one.apply(&in_namespace(tunnel, "tenant").to_string()).await;
        match fate {
            Door => {
                said.refused(&["spec.interfaceAddr"]);
                continue;
            }
            Refused(reason, with) => {
                said.ok();
                refused(&one, "tenant", "other", reason, &[with]).await;
            }
            Harmless => {
                said.ok();
                one.says("tenant", "other", "Programmed", "True", "InPlace", PATIENCE).await;
                one.reaches(FAR).await;
            }
        }
        one.delete_in("tenant", "other").await;
    }
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
    assert_eq!(one.events(NS, "demo").await, [], "nothing happened to it");
}

#[tokio::test]
async fn an_address_that_a_gateway_cannot_have_is_not_built_on_nor_published() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "demo", "gw1", 0).await;
    let stream = one.stream(FAR).await;
    let annotate = async |address: &str| {
        let annotation = format!("ovn-vpc-external-network.kube-system.kubernetes.io/ip_address={address}");
        let pod = ["annotate", "--overwrite", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0", &annotation];
        one.kubectl(&pod).await.ok();
    };
    for address in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"] {
        annotate(address).await;
        refused(&one, NS, "demo", "GatewayIncomplete", &["no usable annotation"]).await;
        let record = broker.records(MEETING).get("gw1.cluster1").await.expect("its record");
        assert_eq!(record.spec.externalip.as_deref(), Some("172.50.16.11"), "{address} is not published");
        annotate("172.50.16.11").await;
        one.built("demo").await;
    }
    annotate("172.50.16.21").await;
    refused(&one, NS, "demo", "PeerInvalid", &["172.50.16.21", "this gateway"]).await;
    annotate("172.50.16.11").await;
    one.built("demo").await;
    two.built("demo").await;
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
}
