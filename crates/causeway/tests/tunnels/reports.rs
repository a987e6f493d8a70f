//! What people see of a tunnel: `kubectl get`, its status, `causeway status`, records and routes.

use causeway_api::vpc::GatewayExIp;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::support::tunnels::{NS, condition, join, vxlan};
use super::support::{Cluster, PATIENCE, Sandbox};

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn one_line_of_kubectl_shows_that_it_is_up_through_which_gateway_and_to_where() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    assert!(one.causeway(&["status"]).await.ok().contains("no tunnels"));
    join(&one, &two, "vx0", "gw1", 0).await;

    let table = one.kubectl(&["get", "vpcnattunnel", "-n", NS]).await.ok();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(words(lines[0]), ["NAME", "READY", "TYPE", "GATEWAY", "LOCAL", "REMOTE", "PEER", "AGE"]);
    let row = words(lines[1]);
    assert_eq!(row[..7], ["vx0", "True", "vxlan", "gw1", "172.50.16.11", "172.50.16.21", "cluster2/gw1"]);
    let wide = one.kubectl(&["get", "vnt", "-n", NS, "-o", "wide"]).await.ok();
    assert!(wide.lines().next().unwrap_or_default().contains("REASON"), "{wide}");
    assert!(wide.contains("Up") && wide.contains("sources appear there as 242.0.0.1 to 242.0.0.8"), "{wide}");

    let status = one.causeway(&["status"]).await;
    assert_eq!(status.code, 0, "everything is up: {status:?}");
    assert!(status.out.contains("ns1/vx0") && status.out.contains("yes"), "{}", status.out);
    one.create(&vxlan("lost", "gw2", "cluster2/no-such", "10.100.7.1/24")).await;
    one.down("lost", "PeerUnknown").await;
    let status = one.causeway(&["status"]).await;
    assert_eq!(status.code, 1, "one is down: {status:?}");
    let line = status.out.lines().find(|line| line.contains("ns1/lost")).expect("its line");
    assert!(line.contains("no") && line.contains("PeerUnknown"), "{line}");

    let refused =
        one.kubectl(&["patch", "vnt", "-n", NS, "vx0", "--type=merge", "-p", r#"{"spec":{"type":"gre"}}"#]);
    refused.await.refused(&["spec.type", "the type cannot change once the tunnel was up"]);
}

#[tokio::test]
async fn every_field_of_the_status_is_filled_and_the_spec_is_never_written() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let asked = vxlan("vx0", "gw1", "cluster2/gw1", "10.100.0.1/24");
    let created = one.create(&asked).await;
    two.create(&vxlan("vx0", "gw1", "cluster1/gw1", "10.100.0.2/24")).await;
    two.up("vx0").await;
    one.up("vx0").await;
    let tunnel = one.says(NS, "vx0", "PeerAgrees", "True", "Agreed", PATIENCE).await;

    assert_eq!(serde_json::to_value(&tunnel.spec).expect("JSON"), asked["spec"], "the spec is the user's");
    assert_eq!((tunnel.metadata.generation, &tunnel.spec), (Some(1), &created.spec));
    assert_eq!(tunnel.finalizers(), ["tunnel.finalizer.ustc.io"]);
    let mut status = serde_json::to_value(&tunnel.status).expect("JSON");
    let conditions = status["conditions"].take();
    assert!(status["answeredBehind"].take().is_boolean(), "{status}");
    assert!(status["roundTripMilliseconds"].take().as_u64().is_some_and(|time| time > 0), "{status}");
    assert_eq!(
        status,
        json!({
            "conditions": null, "roundTripMilliseconds": null, "answeredBehind": null, "initialized": true, "observedGeneration": 1, "type": "vxlan",
            "internalIp": "172.50.16.11", "remoteIp": "172.50.16.21", "interfaceAddr": "10.100.0.1/24",
            "localGw": "gw1", "natGwDp": "gw1", "peer": "cluster2/gw1", "ovnGwIP": "10.0.1.1",
            "globalnetCIDR": "242.0.0.0/16", "remoteGlobalnetCIDR": "242.1.0.0/16",
            "globalEgressIP": (1..=8).map(|n| format!("242.0.0.{n}")).collect::<Vec<_>>(),
        })
    );
    let kinds: Vec<&Value> = conditions.as_array().into_iter().flatten().map(|c| &c["type"]).collect();
    assert_eq!(kinds, ["Programmed", "Reachable", "Ready", "Routed", "PeerAgrees"]);
    assert_eq!(one.events(NS, "vx0").await, [], "coming up at first is no event beside the condition");
}

#[tokio::test]
async fn a_tunnel_that_the_vpc_does_not_lead_to_says_so_and_how_to_help() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    one.says(NS, "vx0", "Routed", "True", "StaticRoute", PATIENCE).await;
    let vpc = one.kubectl(&["get", "vpc", "test-vpc-1", "-o", "json"]).await.ok();
    let vpc: Value = serde_json::from_str(&vpc).expect("JSON");
    let routes = vpc["spec"]["staticRoutes"].to_string();
    set_routes(&one, "[]").await;
    let tunnel = one.says(NS, "vx0", "Routed", "False", "NoStaticRoute", PATIENCE).await;
    let sentence = &condition(&tunnel, "Routed").expect("it was there").message;
    assert!(sentence.contains("242.1.0.0/16") && sentence.contains("10.0.1.254"), "{sentence}");
    assert_eq!(
        condition(&tunnel, "Ready").map(|c| c.status.as_str()),
        Some("True"),
        "the tunnel itself is up"
    );
    set_routes(&one, &routes).await;
    one.says(NS, "vx0", "Routed", "True", "StaticRoute", PATIENCE).await;
    one.comes_to_reach(super::FAR).await;
}

/// Writes the VPC's static routes as its owner would.
pub(super) async fn set_routes(cluster: &Cluster, routes: &str) {
    let patch = format!(r#"{{"spec":{{"staticRoutes":{routes}}}}}"#);
    cluster.kubectl(&["patch", "vpc", "test-vpc-1", "--type=merge", "-p", &patch]).await.ok();
}

#[tokio::test]
async fn a_tunnel_by_vpc_says_which_vpc_has_no_gateway() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let manifest = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {"name": "byvpc", "namespace": NS},
        "spec": {
            "interfaceAddr": "10.100.0.1/24", "remoteCluster": "cluster2",
            "remoteVpc": "test-vpc-1", "localVpc": "no-such-vpc",
        },
    });
    one.apply(&manifest.to_string()).await.ok();
    let sentence = one.down("byvpc", "VpcWithoutGateway").await;
    assert!(sentence.contains("VPC no-such-vpc has no gateway that is ready"), "{sentence}");
    one.kubectl(&["delete", "vnt", "-n", NS, "byvpc", "--timeout=60s"]).await.ok();
}

/// Name, address, range and labels of a record.
type Facts<'a> = (String, Option<&'a str>, Option<&'a str>, Vec<(&'a str, &'a str)>);

fn facts(record: &GatewayExIp) -> Facts<'_> {
    let labels = record.labels().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    (record.name_any(), record.spec.externalip.as_deref(), record.spec.globalnetcidr.as_deref(), labels)
}

#[tokio::test]
async fn every_ready_gateway_has_a_record_at_home_at_the_broker_and_in_the_other_cluster() {
    let sandbox = Sandbox::bare().await;
    let broker = sandbox.broker().await;
    let copies = broker.records("submariner-k8s-broker").list(&ListParams::default()).await.expect("copies");
    assert_eq!(copies.items.len(), 6, "of each cluster two gateways and the VPC");
    for (home, away, octet) in [(1, 2, 0), (2, 1, 1)] {
        let (here, there) = (sandbox.cluster(home).await, sandbox.cluster(away).await);
        for (gateway, host) in [("gw1", 1), ("gw2", 2)] {
            let address = format!("172.50.16.{home}{host}");
            let range = format!("242.{octet}.0.0/16");
            let cluster = here.name.as_str();
            let own = vec![("localCluster", cluster), ("localGateway", gateway), ("localVpc", "test-vpc-1")];
            let origin = vec![
                ("submariner-io/clusterID", cluster),
                ("submariner-io/originatingNamespace", "kube-system"),
            ];
            let name = format!("{gateway}-{cluster}");
            let record = here.records("kube-system").get(&name).await.expect("the record at home");
            assert_eq!(facts(&record), (name.clone(), Some(&*address), Some(&*range), own.clone()));
            let dotted = format!("{gateway}.{cluster}");
            let copy = copies.iter().find(|copy| copy.name_any() == dotted).expect("the copy at the broker");
            let labels: Vec<_> = own.into_iter().chain(origin).collect();
            assert_eq!(facts(copy), (dotted, Some(&*address), Some(&*range), labels.clone()));
            assert_eq!(copy.spec.external_ip.as_deref(), Some(&*address), "the other spelling");
            assert_eq!(copy.spec.global_net_cidr.as_deref(), Some(&*range), "the other spelling");
            let import = there.records("kube-system").get(&name).await.expect("the import");
            assert_eq!(facts(&import), (name, Some(&*address), Some(&*range), labels));
        }
        let name = format!("test-vpc-1.{}", here.name);
        for cluster in [&here, &there] {
            let record = cluster.records("kube-system").get(&name).await.expect("the VPC's record");
            assert_eq!(record.spec.externalip, Some(format!("172.50.16.{home}1")), "its main gateway's");
            assert_eq!(record.labels().get("localGateway").map(String::as_str), Some("gw1"));
        }
    }
}
