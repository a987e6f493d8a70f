//! API servers that misbehave: what they do late, twice or not at all costs no tunnel its word.

mod support;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::tunnels::{join, vxlan};
use support::{Cluster, PATIENCE, Sandbox};

/// Where the members meet at the broker.
const MEETING: &str = "submariner-k8s-broker";
const OPERATOR: &str = "submariner-operator";

/// Switches faults of a cluster's API server on, in place of those that are.
async fn faults(cluster: &Cluster, faults: Value) {
    cluster.kubectl_with(&["replace", "--raw", "/faults", "-f", "-"], &faults.to_string()).await.ok();
}

fn discoveries(cluster: &Cluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", "ServiceDiscovery");
    let resource = ApiResource::from_gvk_with_plural(&kind, "servicediscoveries");
    Api::namespaced_with(cluster.client.clone(), OPERATOR, &resource)
}

/// Waits until cluster2's record says this address at the broker.
async fn published(broker: &Cluster, address: &str) {
    let copies = broker.records(MEETING);
    let copy = async || {
        let copy = copies.get_opt("gw1.cluster2").await.map_err(|error| error.to_string())?;
        let now = copy.map(|copy| json!(copy.spec)["externalip"].clone());
        if now == Some(json!(address)) { Ok(()) } else { Err(format!("{now:?}")) }
    };
    broker.until(&format!("gw1.cluster2 says {address}"), PATIENCE, copy).await;
}

/// Gives cluster2's gw1 another address on the underlay.
async fn move_to(two: &Cluster, address: &str) {
    let annotation = format!("ovn-vpc-external-network.kube-system.kubernetes.io/ip_address={address}");
    two.kubectl(&["annotate", "--overwrite", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0", &annotation])
        .await
        .ok();
}

async fn write_secret(cluster: &Cluster, token: &str) {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), OPERATOR);
    let secret = json!({ "metadata": { "name": "broker" }, "stringData": { "token": token } });
    let secret: Secret = serde_json::from_value(secret).expect("a Secret");
    let written = match secrets.get_opt("broker").await.expect("an answer") {
        Some(_) => secrets.patch("broker", &PatchParams::default(), &Patch::Merge(&secret)).await,
        None => secrets.create(&PostParams::default(), &secret).await,
    };
    written.expect("accepted");
}

#[tokio::test]
async fn a_brokers_secret_may_come_late_may_be_refused_once_and_may_be_rotated() {
    let sandbox = Sandbox::bare().await;
    let (two, broker) = (sandbox.cluster(2).await, sandbox.broker().await);
    published(&broker, "172.50.16.21").await;
    let found = discoveries(&two).get("service-discovery").await.expect("coordinates");
    let token = found.data["spec"]["brokerK8sApiServerToken"].as_str().expect("a token").to_owned();

    sandbox.hold(&two).await;
    let by_secret = json!({ "spec": { "brokerK8sSecret": "broker", "brokerK8sApiServerToken": null } });
    let patch = Patch::Merge(&by_secret);
    discoveries(&two).patch("service-discovery", &PatchParams::default(), &patch).await.expect("accepted");
    sandbox.release(&two).await;
    move_to(&two, "172.50.16.23").await;
    let waits = async || {
        let says = two.log().contains("the broker's coordinates cannot be used");
        if says { Ok(()) } else { Err("nothing is said of it".to_owned()) }
    };
    two.until("it says that the Secret is missing", PATIENCE, waits).await;
    let once = json!([{ "switch": { "refuse": { "code": 500 } }, "match": { "resources": ["secrets"], "userAgent": "causeway" }, "times": 2 }]);
    faults(&two, once).await;
    write_secret(&two, &token).await;
    published(&broker, "172.50.16.23").await;

    // Rotated: the old one is no good any more, and the new one is in the Secret only.
    let denied = json!([{ "switch": { "refuse": { "code": 403 } }, "match": { "user": "former" } },
                        { "switch": "closeWatches", "match": { "user": "former" } }]);
    write_secret(&two, &format!("former.{token}")).await;
    sandbox.restart(&two, nix::sys::signal::Signal::SIGKILL).await;
    move_to(&two, "172.50.16.24").await;
    published(&broker, "172.50.16.24").await;
    faults(&broker, denied).await;
    move_to(&two, "172.50.16.21").await;
    write_secret(&two, "no\ntoken").await;
    // As a file has it.
    write_secret(&two, &format!("{token}\n")).await;
    published(&broker, "172.50.16.21").await;
}

#[tokio::test]
async fn output_that_arrives_after_the_status_is_waited_for_with_either_protocol() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    for version in [json!([]), json!([{ "switch": "execV4" }])] {
        let mut all = version.as_array().expect("a list").clone();
        all.push(json!({ "switch": { "lateOutput": { "ms": 200 } } }));
        faults(&one, json!(all)).await;
        sandbox.restart(&one, nix::sys::signal::Signal::SIGKILL).await;
        let name = format!("late{}", all.len());
        one.create(&vxlan(&name, "gw2", "cluster2/gw2", "10.100.7.1/24")).await;
        one.built(&name).await;
        let alarms = one.events("ns1", &name).await.into_iter().filter(|reported| reported.warning);
        assert_eq!(alarms.collect::<Vec<_>>(), [], "nothing was said of a tunnel that works");
        one.delete(&name).await;
    }
    faults(&one, json!([])).await;
    join(&one, &two, "vx0", "gw1", 0).await;
}

#[tokio::test]
async fn a_server_that_denies_everything_while_it_starts_is_asked_again() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    sandbox.hold(&one).await;
    let denied =
        json!([{ "switch": { "refuse": { "code": 403 } }, "match": { "user": "admin" }, "forMs": 3000 }]);
    let broker = sandbox.broker().await;
    for cluster in [&one, &broker] {
        faults(cluster, denied.clone()).await;
    }
    sandbox.release(&one).await;
    join(&one, &two, "vx0", "gw1", 0).await;
    assert!(!one.log().contains("lets nobody claim an id"), "a passing denial is no missing right");
}

#[tokio::test]
async fn a_server_that_is_away_for_longer_than_a_lease_changes_no_status() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let status = async || {
        let tunnel = one.tunnel("vx0").await;
        let events = one.events("ns1", "vx0").await;
        (tunnel.metadata.resource_version, events)
    };
    let controller = one.controller().await;
    one.until("the monitor", PATIENCE, async || {
        // Both gateways of a cluster are watched.
        let opened = controller.execs("monitor").await;
        if opened < 2 { Err(opened.to_string()) } else { Ok(()) }
    })
    .await;
    let before = status().await;
    let away = json!([{ "switch": { "refuse": { "code": 503 } }, "match": { "userAgent": "causeway/" }, "forMs": 20000 },
                      { "switch": "closeWatches" }]);
    faults(&one, away).await;
    // The monitor's connection stays, and it reports a change: somebody has to look, and cannot.
    one.in_gateway("gw1", "ip address add 192.0.2.1/32 dev lo").await.ok();
    one.until("it leads again and has looked", PATIENCE, async || {
        let term = one.in_gateway("gw1", "ip link show dev lo").await.out;
        if term.contains("causeway-term:1") { Err(term) } else { Ok(()) }
    })
    .await;
    one.built("vx0").await;
    assert_eq!(status().await, before);
}
