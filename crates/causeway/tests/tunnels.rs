//! The life of a tunnel, from `kubectl apply` to `kubectl delete`.
#![cfg(feature = "sandbox")]

#[path = "tunnels/changes.rs"]
mod changes;
#[path = "tunnels/pods.rs"]
mod pods;
#[path = "tunnels/reports.rs"]
mod reports;
#[path = "tunnels/several.rs"]
mod several;
mod support;

use std::net::Ipv4Addr;

use serde_json::json;
use support::tunnels::{NS, condition, join};
use support::{Cluster, Sandbox};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/tunnel.yaml");

/// The server of cluster2 as the others reach it.
const FAR: &str = "242.1.1.20";

/// The sample's mirror image for the other cluster, as VXLAN.
fn mirrored(sample: &str) -> String {
    let there = sample.replace("\"cluster2\"", "\"cluster1\"").replace("10.100.0.1/24", "10.100.0.2/24");
    there + "  type: vxlan\n"
}

async fn makes_gre(cluster: &Cluster) -> bool {
    let probe =
        "ip link add name probe type gre local 10.0.1.10 remote 10.0.1.20 ttl 255 && ip link del probe";
    cluster.in_client(probe).await.code == 0
}

#[tokio::test]
async fn the_sample_says_why_it_is_not_up_without_gre_and_comes_up_as_vxlan() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let sample = std::fs::read_to_string(SAMPLE).expect("the sample");
    one.kubectl(&["apply", "-f", SAMPLE]).await.ok();
    if makes_gre(&one).await {
        eprintln!("this kernel makes GRE links: the sample comes up as it is");
        one.built("ovn-gre0").await;
        one.delete("ovn-gre0").await;
    } else {
        let sentence = one.down("ovn-gre0", "KernelLacksTunnelType").await;
        assert!(sentence.contains("gre links"), "{sentence}");
        let reported = one.reports("ovn-gre0", "KernelLacksTunnelType", "gre").await;
        assert!(reported.warning);
        let fields = one.tunnel("ovn-gre0").await.status.expect("a status");
        assert_eq!(fields.initialized, Some(false), "the gateway never held it");
    }
    one.apply(&(sample.clone() + "  type: vxlan\n")).await.ok();
    two.apply(&mirrored(&sample)).await.ok();
    for cluster in [&one, &two] {
        let wait = ["wait", "--for=condition=Ready", "vpcnattunnel/ovn-gre0", "-n", NS, "--timeout=60s"];
        cluster.kubectl(&wait).await.ok();
    }
    one.reaches(FAR).await;
}

#[tokio::test]
async fn a_gateway_holds_link_address_routes_and_snat_and_packets_cross() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;

    let link = one.link("gw1", "vx0").await.expect("the link");
    let data = &link["linkinfo"]["info_data"];
    assert_eq!(link["linkinfo"]["info_kind"], "vxlan");
    assert_eq!((&data["id"], &data["port"], &data["link"]), (&json!(1000), &json!(4789), &json!("net1")));
    assert_eq!((&data["local"], &data["remote"]), (&json!("172.50.16.11"), &json!("172.50.16.21")));
    assert_eq!(link["mtu"], 1450);
    assert!(link["flags"].as_array().expect("flags").contains(&json!("UP")));
    assert_eq!(link["ifalias"], "causeway:ns1/vx0");
    assert_eq!(one.addresses("gw1", "vx0").await, ["10.100.0.1/24"]);
    let routes = one.routes("gw1").await;
    assert!(routes.contains(&"242.0.0.0/16 via 10.0.1.1 dev eth0 proto 157".into()), "{routes:?}");
    assert!(routes.contains(&"242.1.0.0/16 dev vx0 proto 157".into()), "{routes:?}");
    let snat = "-A POSTROUTING ! -s 242.0.0.0/16 -d 242.1.0.0/16 -o vx0 -m comment --comment \"causeway:ns1/vx0\" -j SNAT --to-source 242.0.0.1-242.0.0.8";
    assert_eq!(one.postrouting("gw1").await, [snat, "-A POSTROUTING -j SNAT_FILTER"]);
    assert_eq!(one.sysctl("gw1", "ip_forward").await, "1");

    one.reaches(FAR).await;
    let ping = one.kubectl(&["exec", "-n", NS, "client", "--", "ping", "-c", "2", "-i", "0.2", FAR]).await;
    assert!(ping.ok().contains(" 2 received"));
    assert_eq!(one.echo(FAR, "hello").await.ok(), "hello\n");
    let _server = two.serve_http(FAR).await;
    let (answer, source) = one.http(FAR).await;
    assert_eq!(answer, "HTTP/1.0 200 OK");
    let source: Ipv4Addr = source.parse().expect("the address that the far end saw");
    let egress = Ipv4Addr::new(242, 0, 0, 1)..=Ipv4Addr::new(242, 0, 0, 8);
    assert!(egress.contains(&source), "{source} is not an egress address");
    two.reaches("242.0.1.20").await;

    let fits = one.in_client(&format!("ping -n -c 1 -W 5 -M do -s 1422 {FAR}")).await;
    assert_eq!(fits.code, 0, "1450 bytes fit: {fits:?}");
    let too_big = one.in_client(&format!("ping -n -c 1 -W 5 -M do -s 1423 {FAR}")).await;
    assert!(too_big.out.contains("mtu = 1450") || too_big.err.contains("mtu=1450"), "{too_big:?}");
}

#[tokio::test]
async fn kubectl_delete_returns_when_the_gateway_holds_nothing_of_it() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let before = one.routes("gw1").await;
    join(&one, &two, "vx0", "gw1", 0).await;
    one.kubectl(&["delete", "vpcnattunnel", "-n", NS, "vx0", "--timeout=60s"]).await.ok();
    assert_eq!(one.marked("gw1").await, Vec::<String>::new());
    assert_eq!(one.link("gw1", "vx0").await, None);
    assert_eq!(one.routes("gw1").await, before);
    assert_eq!(one.postrouting("gw1").await, ["-A POSTROUTING -j SNAT_FILTER"]);
    let there = two.tunnel("vx0").await;
    assert_eq!(
        condition(&there, "Ready").map(|ready| ready.status.as_str()),
        Some("True"),
        "the other end is its owner's"
    );
}
