//! What is printed: tables of a few columns, wide ones, and documents for programs.

use serde_json::{Value, json};

use super::site::{SINCE, Site, condition, down, tunnel};

#[tokio::test]
async fn a_table_has_few_columns_and_says_nothing_twice() {
    let site = Site::with_tunnels("one").await;
    site.put("ns1", tunnel("demo")).await;
    let said = site.status(&[]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.row("TUNNEL"), ["TUNNEL", "UP", "TYPE", "THROUGH", "TO", "SINCE", "WHY"]);
    let row = said.row("ns1/demo");
    assert_eq!((&row[..5], row[6]), (&["ns1/demo", "yes", "vxlan", "gw1", "cluster2/gw9"][..], "-"));
    assert!(row[5].ends_with('d') || row[5].contains('y'), "an age: {row:?}");
    let said = site.status(&["-o", "wide"]).await;
    let row = said.row("ns1/demo");
    let more = ["172.50.16.11", "172.50.16.21", "242.1.0.0/16", "10.100.0.1/24", "242.0.0.1 to 242.0.0.2"];
    assert_eq!((&row[5..10], row[11]), (&more[..], "-"), "{said:?}");

    // What should be known of a tunnel that is up.
    let ready = condition("Ready", "True", "Up", "it is up");
    let routed = condition("Routed", "False", "NoStaticRoute", "add one");
    site.says("ns1", &tunnel("demo"), json!({ "conditions": [ready, routed] })).await;
    let said = site.status(&[]).await;
    assert_eq!((said.code, said.row("ns1/demo")[6]), (Some(0), "NoStaticRoute: add one"));
    site.put("ns1", down("lost")).await;
    let said = site.status(&[]).await;
    assert_eq!(said.code, Some(1));
    let row = said.row("ns1/lost");
    assert_eq!((row[1], row[4]), ("no", "cluster2/gw9"));
    assert!(row[6].starts_with("PeerUnknown: no record of cluster2/gw9 has arrived"), "{row:?}");
    assert_eq!(said.out.lines().count(), 3, "in a pipe nothing is wrapped: {said:?}");
}

#[tokio::test]
async fn a_tunnel_by_vpc_shows_its_main_gateway_and_who_would_take_over() {
    let site = Site::with_tunnels("one").await;
    let mut by_vpc = tunnel("demo");
    let spec = json!({ "type": "vxlan", "interfaceAddr": "10.100.0.1/24", "remoteCluster": "cluster2",
                       "remoteVpc": "green", "localVpc": "blue" });
    (by_vpc["spec"], by_vpc["status"]["standbys"]) = (spec, json!(["gw2", "gw3"]));
    site.put("ns1", by_vpc.clone()).await;
    let said = site.status(&[]).await;
    let row = said.row("ns1/demo");
    assert_eq!((row[3], row[4], row[6]), ("gw1 (else gw2, gw3)", "cluster2/green", "-"), "{said:?}");
    let document = site.status(&["-o", "json"]).await.document();
    let entry = &document["tunnels"][0];
    assert_eq!((&entry["vpc"], &entry["standbys"]), (&json!("blue"), &json!(["gw2", "gw3"])), "{entry}");
    // Who would be left alone should know, and it is no fault.
    let ready = condition("Ready", "True", "Up", "it is up");
    let alone = condition("Failover", "False", "NoStandby", "no other gateway is ready");
    let partly = condition("SwitchedPartly", "True", "RoutesStayed", "0.0.0.0/0 stayed");
    site.says("ns1", &by_vpc, json!({ "standbys": null, "conditions": [ready, alone, partly] })).await;
    let said = site.status(&[]).await;
    let row = said.row("ns1/demo");
    let why = "NoStandby: no other gateway is ready; RoutesStayed: 0.0.0.0/0 stayed";
    assert_eq!((said.code, row[3], row[6]), (Some(0), "gw1", why), "{said:?}");
}

#[tokio::test]
async fn an_object_that_an_older_definition_let_in_hides_no_other() {
    let mut crds = causeway_api::vpc::crds();
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        let anything =
            json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        version.schema = Some(serde_json::from_value(anything).expect("a schema"));
    }
    let site = Site::named("one", crds).await;
    site.put("ns1", tunnel("demo")).await;
    let mut odd = tunnel("odd");
    odd["spec"] = json!({ "type": 7, "natGwDp": ["gw1"], "clusterId": "x\u{1b}[2Jy" });
    odd["status"] = json!({ "conditions": "none", "internalIp": 7 });
    site.put("ns1", odd).await;
    let said = site.status(&[]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(said.row("ns1/demo")[1], "yes");
    let row = said.row("ns1/odd");
    assert_eq!((row[1], row[3], row[6]), ("no", "-", "not looked at yet: is a controller running?"));
    assert!(!said.out.contains('\u{1b}'), "{said:?}");
    assert_eq!(site.status(&["-o", "json"]).await.document()["tunnels"][1]["ready"], false);
}

async fn with_everything() -> Site {
    let mut crds = causeway_api::vpc::crds();
    crds.extend(causeway_api::dns::crds());
    crds.extend(causeway_api::rules::crds());
    crds.extend(causeway_api::networks::crds());
    let site = Site::named("one", crds).await;
    site.put("ns1", tunnel("demo")).await;
    let forward = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcDnsForward", "metadata": { "name": "dns-1" },
        "spec": { "vpc": "test-vpc-1" },
        "status": { "vpc": "test-vpc-1", "vpcDns": "test-dns1", "kubeDns": "10.96.0.10", "gateway": "10.244.0.1",
                    "corefiles": ["vpc-dns-corefile"],
                    "conditions": [condition("Ready", "True", "Forwarding", "it forwards")] },
    });
    site.put("ns1", forward).await;
    let rule = json!({
        "apiVersion": "fault-tolerance.opensergo.io/v1alpha1", "kind": "RateLimitStrategy",
        "metadata": { "name": "limit", "labels": { "app": "foo" } },
        "spec": { "metricType": "RequestAmount", "limitMode": "Local", "threshold": 10, "statDurationSeconds": 1 },
        "status": { "acked": 2, "failed": 0, "pending": 1, "observedGeneration": 1, "conditions": [
            condition("Accepted", "True", "Converted", "it is sent"),
            condition("Distributed", "False", "Pending", "1 of 3 has not answered"),
        ] },
    });
    site.put("default", rule).await;
    let network = json!({
        "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": { "name": "net" },
        "spec": { "cidr": "10.8.0.0/24" },
        "status": { "provider": "neutron", "networkId": "7a1c", "subnetId": "9b", "gateway": "10.8.0.1",
                    "conditions": [condition("Ready", "Unknown", "CloudUnreachable", "no answer")] },
    });
    site.put("default", network).await;
    let annotation = |name: &str| format!("flannel.alpha.coreos.com/{name}");
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "worker1", "annotations": {
            annotation("kube-subnet-manager"): "true", annotation("public-ip"): "192.168.7.1",
            annotation("backend-type"): "vxlan",
            annotation("backend-data"): r#"{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}"#,
        } },
        "spec": { "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"] },
        "status": { "conditions": [condition("NetworkUnavailable", "False", "FlannelIsUp", "it runs")] },
    });
    site.put("", node).await;
    site
}

#[tokio::test]
async fn a_document_has_every_object_with_the_same_names() {
    let site = with_everything().await;
    let said = site.status(&["-o", "json"]).await;
    assert_eq!(
        (said.code, said.err.as_str()),
        (Some(1), ""),
        "the network is not known to be ready: {said:?}"
    );
    let expected: Value = json!({
        "ready": false,
        "tunnels": [{
            "cluster": "one", "namespace": "ns1", "name": "demo", "ready": true, "reason": "Up",
            "message": "vxlan leads to 242.1.0.0/16 through gw1", "since": SINCE,
            "type": "vxlan",
            "vpc": null, "gateway": { "name": "gw1", "address": "172.50.16.11" }, "standbys": [],
            "peer": { "cluster": "cluster2", "name": "gw9", "address": "172.50.16.21", "range": "242.1.0.0/16" },
            "interfaceAddress": "10.100.0.1/24", "range": "242.0.0.0/16",
            "sources": ["242.0.0.1", "242.0.0.2"], "warnings": [],
        }],
        "forwards": [{
            "cluster": "one", "namespace": "ns1", "name": "dns-1", "ready": true, "reason": "Forwarding",
            "message": "it forwards", "since": SINCE,
            "vpc": "test-vpc-1", "vpcDns": "test-dns1", "server": "10.96.0.10", "gateway": "10.244.0.1",
            "corefiles": ["vpc-dns-corefile"],
        }],
        "rules": [{
            "cluster": "one", "namespace": "default", "name": "limit", "ready": true, "reason": "Pending",
            "message": "1 of 3 has not answered", "since": SINCE,
            "kind": "RateLimitStrategy", "app": "foo", "acked": 2, "failed": 0, "pending": 1,
            "accepted": true, "distributed": false,
        }],
        "networks": [{
            "cluster": "one", "namespace": "default", "name": "net", "ready": null, "reason": "CloudUnreachable",
            "message": "no answer", "since": SINCE,
            "cidr": "10.8.0.0/24", "gateway": "10.8.0.1", "provider": "neutron", "networkId": "7a1c",
            "subnetId": "9b",
        }],
        "nodes": [{
            "cluster": "one", "namespace": null, "name": "worker1", "ready": true, "reason": "FlannelIsUp",
            "message": "it runs", "since": SINCE,
            "subnets": ["10.244.1.0/24"], "addresses": ["192.168.7.1"],
            "backends": [{ "type": "vxlan", "vni": 1 }],
        }],
        "errors": [],
    });
    assert_eq!(said.document(), expected);
}

#[tokio::test]
async fn everything_has_a_table_and_a_wide_one() {
    let site = with_everything().await;
    let said = site.status(&[]).await;
    assert_eq!(
        said.row("RULE"),
        ["RULE", "KIND", "APP", "READY", "ACKED", "FAILED", "PENDING", "SINCE", "WHY"]
    );
    let row = said.row("default/limit");
    assert_eq!(row[..7], ["default/limit", "RateLimitStrategy", "foo", "yes", "2", "0", "1"]);
    assert_eq!(row[8], "Pending: 1 of 3 has not answered");
    assert_eq!(said.row("NETWORK"), ["NETWORK", "READY", "CIDR", "GATEWAY", "SINCE", "WHY"]);
    let row = said.row("default/net");
    assert_eq!((row[1], row[5]), ("unknown", "CloudUnreachable: no answer"));
    assert_eq!(said.row("NODE"), ["NODE", "READY", "SUBNETS", "PUBLIC", "BACKEND", "SINCE", "WHY"]);
    assert_eq!(said.row("worker1")[..5], ["worker1", "yes", "10.244.1.0/24", "192.168.7.1", "vxlan (VNI 1)"]);
    assert_eq!(said.row("ns1/dns-1")[..4], ["ns1/dns-1", "yes", "test-vpc-1", "10.96.0.10"]);
    assert_eq!(said.out.matches("\n\n").count(), 4, "tables stand apart: {said:?}");
    let wide = site.status(&["-o", "wide"]).await;
    assert_eq!(wide.row("default/limit")[7..9], ["yes", "no"]);
    assert_eq!(wide.row("default/net")[4..7], ["neutron", "7a1c", "9b"]);
}
