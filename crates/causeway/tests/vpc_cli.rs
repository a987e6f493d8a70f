//! `causeway vpc`: who is the main gateway, and a switch to another on purpose, under traffic.
#![cfg(feature = "sandbox")]

mod support;

use causeway_api::vpc::foreign::kube_ovn::Vpc;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::vpcs::{SERVER, TUNNEL, VPC, by_vpc, joined};
use support::{Cluster, PATIENCE, Said, Sandbox};

fn document(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

impl Cluster {
    async fn add_default_route(&self, hop: &str) {
        let vpcs: Api<Vpc> = Api::all(self.client.clone());
        let route = json!({ "cidr": "0.0.0.0/0", "nextHopIP": hop, "policy": "policyDst" });
        let patch = json!([{ "op": "add", "path": "/spec/staticRoutes/-", "value": route }]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).expect("a patch"));
        vpcs.patch(VPC, &PatchParams::default(), &patch).await.expect("it is accepted");
    }
}

/// A kind of kube-ovn's that the sandbox has no need of.
fn definition(kind: &str, plural: &str) -> Value {
    let singular = kind.to_lowercase();
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.kubeovn.io") },
        "spec": {
            "group": "kubeovn.io", "scope": "Cluster",
            "names": { "kind": kind, "plural": plural, "singular": singular },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

impl Cluster {
    /// Gives gw1 an EIP with a floating IP and an SNAT on it.
    async fn tie_to_gw1(&self) {
        let object = |kind: &str, name: &str, spec: Value| {
            json!({
                "apiVersion": "kubeovn.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec,
            })
        };
        for (kind, plural) in
            [("IptablesFIPRule", "iptables-fip-rules"), ("IptablesSnatRule", "iptables-snat-rules")]
        {
            self.apply(&definition(kind, plural).to_string()).await.ok();
        }
        for object in [
            object("IptablesEIP", "eip-1", json!({ "natGwDp": "gw1" })),
            object("IptablesFIPRule", "web", json!({ "eip": "eip-1", "internalIp": "10.0.1.20" })),
            object("IptablesSnatRule", "out", json!({ "eip": "eip-1", "internalCIDR": "10.0.1.0/24" })),
        ] {
            self.apply(&object.to_string()).await.ok();
        }
        let status = r#"{"status":{"ip":"172.50.16.101","ready":true}}"#;
        let patch = ["patch", "iptables-eips", "eip-1", "--subresource=status", "--type=merge", "-p", status];
        self.kubectl(&patch).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_moves_the_tunnels_routes_without_a_lost_packet_and_says_what_stays() {
    let (_sandbox, one, two) = joined().await;
    one.add_default_route("10.0.1.254").await;
    one.tie_to_gw1().await;
    let status = one.causeway(&["vpc", "status"]).await;
    let row: Vec<&str> = status.out.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!((status.code, row), (0, vec![VPC, "gw1", "gw2", "1", "-"]), "{status:?}");

    let streams = (one.stream(SERVER).await, two.stream("242.0.1.20").await);
    let said = one.causeway(&["vpc", "switch", VPC, "gw2", "-o", "json"]).await;
    let counts = (streams.0.end().await, streams.1.end().await);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!((counts.0.lost(), counts.1.lost()), (0, 0), "{counts:?}");
    let told = document(&said);
    assert_eq!((&told["switched"], &told["from"]), (&json!(true), &json!("gw1")), "{told}");
    let moved = json!([{ "cidr": "242.1.0.0/16", "from": "10.0.1.254", "to": "10.0.1.253" }]);
    assert_eq!(told["moved"], moved, "{told}");
    assert_eq!(told["stayed"]["routes"], json!(["0.0.0.0/0"]), "{told}");
    let tied = told["stayed"]["objects"].as_array().expect("a list");
    let kinds: Vec<&str> = tied.iter().filter_map(|it| it["kind"].as_str()).collect();
    assert_eq!(kinds, ["EIP", "floating IP", "SNAT"], "{told}");
    assert_eq!(one.next_hops().await, ["10.0.1.253", "10.0.1.254"]);
    // The same is said where people look who did not ask for it.
    let stays = one.says("ns1", TUNNEL, "SwitchedPartly", "True", "RoutesStayed", PATIENCE).await;
    let stays = support::tunnels::condition(&stays, "SwitchedPartly").expect("it is there").message.clone();
    assert!(stays.contains("0.0.0.0/0") && stays.contains("eip-1 172.50.16.101"), "{stays}");

    let again = one.causeway(&["vpc", "switch", VPC, "gw2"]).await;
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.starts_with("gw2 is the main gateway of VPC test-vpc-1 already"), "{again:?}");
    assert!(again.out.contains("0.0.0.0/0") && again.out.contains("--all"), "{again:?}");

    let all = one.causeway(&["vpc", "switch", VPC, "gw2", "--all"]).await;
    assert_eq!(all.code, 0, "{all:?}");
    assert!(all.out.contains("moved from gw1 (10.0.1.254) to gw2 (10.0.1.253)"), "{all:?}");
    assert!(all.out.contains("no route leads to them any more"), "{all:?}");
    assert_eq!(one.next_hops().await, ["10.0.1.253", "10.0.1.253"]);
    one.says("ns1", TUNNEL, "SwitchedPartly", "True", "AddressesStayed", PATIENCE).await;
    one.reaches(SERVER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_cannot_be_is_refused_before_anything_is_asked_for() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let refused = async |args: &[&str], words: &str| {
        let said = one.causeway(&[&["vpc"], args].concat()).await;
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        assert!(said.err.starts_with("error: ") && said.err.contains(words), "{words}: {said:?}");
    };
    refused(&["switch", VPC, "gw2"], "no tunnel by VPC leads from VPC test-vpc-1").await;
    one.create(&by_vpc(&two, 1)).await;
    one.built(TUNNEL).await;
    refused(&["switch", "elsewhere", "gw2"], "there is no Vpc elsewhere; there is: test-vpc-1").await;
    refused(&["switch", VPC, "gw9"], "there is no gateway gw9; VPC test-vpc-1 has: gw1, gw2").await;
    refused(&["status", "elsewhere"], "no gateway is of VPC elsewhere").await;
    refused(&["switch", VPC, "gw2", "--kubeconfig", "/nonexistent"], "there is no such file").await;
    let pod = &["-n", "kube-system", "vpc-nat-gw-gw2-0"];
    one.kubectl(&[&["annotate", "pod"], &pod[..], &["ovn.kubernetes.io/gateway-"]].concat()).await.ok();
    refused(&["switch", VPC, "gw2"], "has no usable annotation ovn.kubernetes.io/gateway").await;
    let status = one.causeway(&["vpc", "status", VPC, "-o", "json"]).await;
    let vpc = document(&status)["vpcs"][0].clone();
    assert_eq!((&vpc["main"], &vpc["standbys"]), (&json!("gw1"), &json!([])), "{vpc}");
    let mended = ["ovn.kubernetes.io/gateway=10.0.1.1"];
    one.kubectl(&[&["annotate", "pod"], &pod[..], &mended].concat()).await.ok();
    let vpcs: Api<Vpc> = Api::all(one.client.clone());
    let vpc = vpcs.get(VPC).await.expect("the VPC");
    let asked = vpc.metadata.annotations.unwrap_or_default();
    assert!(!asked.contains_key("causeway/switch-to"), "nothing was asked for: {asked:?}");
    one.stands_by("gw2").await;
    let done = one.causeway(&["vpc", "switch", VPC, "gw2"]).await;
    assert_eq!(done.code, 0, "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_is_not_granted_in_time_says_why_and_how_to_take_it_back() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    // Something stands in the way, so the standby cannot hold what the main gateway does.
    one.in_gateway("gw2", &format!("ip link add {TUNNEL} type veth peer name other")).await.ok();
    one.create(&by_vpc(&two, 1)).await;
    two.create(&by_vpc(&one, 2)).await;
    one.up(TUNNEL).await;
    let said = one.causeway(&["vpc", "switch", VPC, "gw2", "--timeout", "4s"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("it waits: gateway gw2 does not hold tunnel ns1/demo yet"), "{said:?}");
    assert!(said.out.contains("kubectl annotate vpc test-vpc-1 causeway/switch-to-"), "{said:?}");
    assert_eq!(one.next_hops().await, ["10.0.1.254"]);
    let status = one.causeway(&["vpc", "status"]).await;
    assert!(status.out.contains("the switch that is asked for waits"), "{status:?}");
    one.in_gateway("gw2", &format!("ip link del {TUNNEL}")).await.ok();
    one.led_to("gw2", "10.0.1.253").await;
}
