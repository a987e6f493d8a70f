//! The room `vpc` and its objects on a server in this process, in paused time.

mod support;

use std::time::Duration;

use causeway_api::vpc::{GatewayExIp, LooseTunnel, TunnelEnd, VpcNatTunnel};
use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::vpc;
use causeway_core::vpc::Given;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt};
use serde_json::{Value, json};
use support::vpc::{define, options, start};
use support::{client, server, until};
use tokio::time::Instant;

/// The definition of tunnels as somebody else might have it: anything goes.
fn anything_goes() -> CustomResourceDefinition {
    let mut crd = VpcNatTunnel::crd();
    for version in &mut crd.spec.versions {
        let open = JSONSchemaProps {
            type_: Some("object".into()),
            x_kubernetes_preserve_unknown_fields: Some(true),
            ..JSONSchemaProps::default()
        };
        version.schema.get_or_insert_default().open_api_v3_schema = Some(open);
    }
    crd
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_cannot_be_decoded_says_so_keeps_the_rest_of_its_status_and_can_be_deleted() {
    let server = server().await;
    define(&server, [anything_goes()]).await;
    let tunnels: Api<LooseTunnel> = Api::namespaced(client(&server, "somebody"), "default");
    let odd: DynamicObject = object(json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel", "metadata": { "name": "odd0" },
        "spec": { "interfaceAddr": 5, "type": ["carrier", "pigeon"], "natGwDp": "gw1" },
    }));
    let untyped = ApiResource::erase::<VpcNatTunnel>(&());
    let untyped = Api::namespaced_with(client(&server, "somebody"), "default", &untyped);
    untyped.create(&PostParams::default(), &odd).await.expect("accepted");
    let theirs = json!({ "type": "Audited", "status": "True", "reason": "Theirs", "message": "",
                         "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let before = json!({ "status": {
        "initialized": true, "localGw": "gw1", "globalEgressIP": "not a list", "conditions": [theirs, "odd"],
    }});
    let patch = Patch::Merge(&before);
    tunnels.patch_status("odd0", &PatchParams::default(), &patch).await.expect("accepted");

    let (_house, _parts) = start(&server, options());
    let ready = |tunnel: &LooseTunnel| {
        let status = tunnel.status();
        status.conditions.into_iter().find(|condition| condition.type_ == "Ready")
    };
    until("it says that it cannot be read", || async {
        let ready = ready(&tunnels.get("odd0").await.expect("the tunnel"));
        ready.is_some_and(|it| it.reason == "InvalidSpec" && it.message.contains("cannot be read"))
    })
    .await;
    let status = tunnels.get("odd0").await.expect("the tunnel").status();
    assert_eq!((status.initialized, status.local_gw.as_deref()), (Some(true), Some("gw1")));
    assert!(status.conditions.iter().any(|condition| condition.type_ == "Audited"), "{status:?}");

    tunnels.delete("odd0", &DeleteParams::default()).await.expect("accepted");
    until("it is gone", || async { tunnels.get_opt("odd0").await.expect("an answer").is_none() }).await;
}

fn tunnel(name: &str) -> VpcNatTunnel {
    object(json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel", "metadata": { "name": name },
        "spec": { "interfaceAddr": "10.100.0.1/24", "natGwDp": "gw9", "clusterId": "cluster2", "gatewayName": "gw1" },
    }))
}

fn frozen(verbs: &[&str], resource: &str) -> Fault {
    let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
    let user_agent = Some("controller".into());
    let what = Match { verbs, resources: vec![resource.into()], user_agent, ..Match::default() };
    Fault::new(Switch::Freeze).on(what)
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_known_before_the_watch_says_so_and_nothing_is_sent_twice() {
    let server = server().await;
    define(&server, [VpcNatTunnel::crd()]).await;
    let tunnels: Api<VpcNatTunnel> = Api::namespaced(client(&server, "somebody"), "default");
    tunnels.create(&PostParams::default(), &tunnel("vx0")).await.expect("accepted");
    // It does not lead before all is listed, and the watch of tunnels is silent when it does.
    server.faults().set(vec![frozen(&[], "leases")]).expect("a fault");
    let (house, _parts) = start(&server, options());
    until("all is listed", || async { house.readiness.answer().0 == 200 }).await;
    server.faults().set(vec![frozen(&["watch"], "vpcnattunnels")]).expect("a fault");

    until("its finalizer and then its status are written", || async {
        let tunnel = tunnels.get("vx0").await.expect("the tunnel");
        tunnel.metadata.finalizers.is_some()
            && tunnel.status.is_some_and(|status| !status.conditions.is_empty())
    })
    .await;
    // A second one would come with a retry, or with the drift that is looked for now and then.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let patches = |subresource: &str| {
        let all = server.requests().into_iter();
        let these = all.filter(|it| it.verb == "patch" && it.resource == "vpcnattunnels");
        let these = these.filter(|it| it.subresource == subresource);
        these.map(|it| (it.code, it.count)).collect::<Vec<_>>()
    };
    assert_eq!((patches(""), patches("status")), (vec![(200, 1)], vec![(200, 1)]));
    // The watch's news of them comes after both.
    server.faults().clear();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((patches(""), patches("status")), (vec![(200, 1)], vec![(200, 1)]));
}

/// A gateway with a pod that runs.
async fn gateway(server: &Server) {
    let labels = json!({ "app": "vpc-nat-gw-gw1", "ovn.kubernetes.io/vpc-nat-gw": "true" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "vpc-nat-gw", "image": "x" }] } });
    let sets: Api<StatefulSet> = Api::namespaced(client(server, "somebody"), "kube-system");
    let set = object(json!({
        "metadata": { "name": "vpc-nat-gw-gw1", "labels": labels },
        "spec": { "serviceName": "", "selector": { "matchLabels": labels }, "template": template },
    }));
    sets.create(&PostParams::default(), &set).await.expect("a set");
    let pods: Api<Pod> = Api::namespaced(client(server, "somebody"), "kube-system");
    let pod = object(json!({
        "metadata": { "name": "vpc-nat-gw-gw1-0", "labels": labels }, "spec": template["spec"],
    }));
    pods.create(&PostParams::default(), &pod).await.expect("a pod");
    let runs = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    pods.patch_status("vpc-nat-gw-gw1-0", &PatchParams::default(), &runs).await.expect("a status");
}

#[tokio::test(start_paused = true)]
async fn asked_to_stop_while_a_gateway_hangs_it_gives_the_lease_up_within_a_second() {
    let server = server().await;
    define(&server, [VpcNatTunnel::crd()]).await;
    gateway(&server).await;
    let exec = Match { resources: vec!["pods/exec".into()], ..Match::default() };
    server.faults().set(vec![Fault::new(Switch::Freeze).on(exec)]).expect("a fault");
    let (house, mut parts) = start(&server, options());
    let leases: Api<Lease> = Api::namespaced(client(&server, "somebody"), "default");
    let holder = async || {
        let lease = leases.get_opt("causeway-controller").await.expect("an answer")?;
        lease.spec?.holder_identity
    };
    until("it leads", || async { holder().await.as_deref() == Some("controller") }).await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let asked = Instant::now();
    house.stop.cancel();
    while let Some(ended) = parts.join_next().await {
        let (part, end) = ended.expect("no panic");
        assert!(end.is_ok(), "{part}: {end:?}");
    }
    let took = asked.elapsed();
    assert!(took >= Duration::from_millis(300), "a visit was under way: {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(holder().await.as_deref(), Some(""), "nobody has to wait for it");
}

/// Waits until a tunnel has a status, and says how long that took.
async fn is_reported(server: &Server, name: &str) -> Duration {
    let tunnels: Api<VpcNatTunnel> = Api::namespaced(client(server, "somebody"), "default");
    tunnels.create(&PostParams::default(), &tunnel(name)).await.expect("accepted");
    let asked = Instant::now();
    until("its status is written", || async {
        let tunnel = tunnels.get(name).await.expect("the tunnel");
        tunnel.status.is_some_and(|status| !status.conditions.is_empty())
    })
    .await;
    asked.elapsed()
}

#[tokio::test(start_paused = true)]
async fn visits_that_hang_hold_up_no_status() {
    let server = server().await;
    define(&server, [VpcNatTunnel::crd()]).await;
    gateway(&server).await;
    server.faults().set(vec![frozen(&[], "pods/exec")]).expect("a fault");
    let (house, _parts) = start(&server, options());
    until("all is listed", || async { house.readiness.answer().0 == 200 }).await;
    // The only one that visits has begun, and waits.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let took = is_reported(&server, "vx0").await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_holds_up_no_status() {
    let (home, broker) = (server().await, server().await);
    for server in [&home, &broker] {
        define(server, [VpcNatTunnel::crd(), GatewayExIp::crd()]).await;
    }
    // Left by an earlier life: all of them have to go, and none does.
    let copies: Api<GatewayExIp> = Api::namespaced(client(&broker, "somebody"), "default");
    for number in 0..50 {
        let gateway = format!("gone{number}");
        let copy = object(json!({
            "metadata": { "name": format!("{gateway}.cluster1"), "labels": {
                "localGateway": gateway, "localCluster": "cluster1", "submariner-io/clusterID": "cluster1",
                "submariner-io/originatingNamespace": "kube-system",
            }},
            "spec": { "externalip": "172.50.16.11", "globalnetcidr": "242.0.0.0/16" },
        }));
        copies.create(&PostParams::default(), &copy).await.expect("accepted");
    }
    broker.faults().set(vec![frozen(&["delete"], "gatewayexips")]).expect("a fault");
    let meeting = vpc::broker::Broker { client: client(&broker, "controller"), namespace: "default".into() };
    let given = Given { cluster: Some("cluster1".parse().expect("an id")), ..Given::default() };
    let (house, _parts) = start(&home, vpc::Options { given, broker: Some(meeting), ..options() });
    until("deletions hang, and more of them wait", || async {
        let metrics = house.metrics.encode();
        let lengths =
            metrics.lines().filter_map(|line| line.strip_prefix("causeway_queue_length")?.rsplit(' ').next());
        lengths.filter_map(|length| length.parse::<u64>().ok()).any(|length| length > 10)
    })
    .await;
    let took = is_reported(&home, "vx0").await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_broker_lost_before_we_saw_it_there_is_written_again() {
    let (home, broker) = (server().await, server().await);
    for server in [&home, &broker] {
        define(server, [VpcNatTunnel::crd(), GatewayExIp::crd(), TunnelEnd::crd()]).await;
    }
    let meeting = vpc::broker::Broker { client: client(&broker, "controller"), namespace: "default".into() };
    let given = Given { cluster: Some("cluster1".parse().expect("an id")), ..Given::default() };
    let options = vpc::Options { given, broker: Some(meeting), ..options() };
    let resync = options.resync_interval;
    let (house, _parts) = start(&home, options);
    until("all is listed", || async { house.readiness.answer().0 == 200 }).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // It writes, and does not hear of it.
    broker.faults().set(vec![frozen(&["watch"], "tunnelends")]).expect("a fault");
    is_reported(&home, "vx0").await;
    let ends: Api<TunnelEnd> = Api::namespaced(client(&broker, "somebody"), "default");
    let all = async || ends.list(&ListParams::default()).await.expect("a list").items;
    until("its end is there", || async { all().await.len() == 1 }).await;
    // The broker comes back without it, and no history says that it was there.
    ends.delete_collection(&DeleteParams::default(), &ListParams::default()).await.expect("deleted");
    broker
        .faults()
        .set(vec![Fault::new(Switch::CloseWatches), Fault::new(Switch::Compacted)])
        .expect("faults");
    tokio::time::sleep(Duration::from_secs(1)).await;
    broker.faults().clear();
    assert_eq!(all().await.len(), 0);
    tokio::time::sleep(2 * resync).await;
    assert_eq!(all().await.len(), 1, "its end is there again");
}
