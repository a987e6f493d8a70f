//! Several controllers on one cloud: of two clusters, or of one.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::cloud::Rule;
use crate::controller::{Controller, Start};
use crate::site::{Site, text};

/// Two clusters, each with a network of one name and range; each does all it can with its own.
async fn live_side_by_side(
    start: impl Fn() -> Start,
    tag: impl Fn(&Site) -> String,
) -> [(Site, Controller); 2] {
    let [east, west] = [Site::new().await, Site::new().await];
    let controllers = [east.start(start()), west.start(start())];
    let mut ids = Vec::new();
    for site in [&east, &west] {
        site.create("same", "10.70.0.0/24").await;
        ids.push(site.ready("same").await["networkId"].clone());
        let found = site.cloud.list(&format!("networks?tags=causeway-home={}", site.uid)).await;
        assert_eq!(found.len(), 1);
        assert!(
            found[0]["tags"].as_array().is_some_and(|tags| tags.contains(&json!(tag(site)))),
            "{found:?}"
        );
    }
    assert_ne!(ids[0], ids[1]);
    let path = format!("networks/{}", ids[1].as_str().expect("an id"));
    let theirs = east.cloud.get(&path).await.ok();

    // The one is deleted, an orphan of it is swept, and the other does not notice.
    east.create("forced", "10.71.0.0/24").await;
    east.ready("forced").await;
    east.patch("forced", json!({ "metadata": { "finalizers": [] } })).await;
    east.delete("forced").await;
    east.delete("same").await;
    east.gone("same").await;
    east.until("nothing of its is left", async || {
        match &east.cloud.list(&format!("networks?tags=causeway-home={}", east.uid)).await[..] {
            [] => Ok(()),
            left => Err(format!("{left:?}")),
        }
    })
    .await;
    assert_eq!(east.cloud.get(&path).await.ok(), theirs);
    assert_eq!(west.ready("same").await["networkId"], ids[1]);
    let [first, second] = controllers;
    [(east, first), (west, second)]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_do_not_touch_each_others_networks() {
    live_side_by_side(Start::alone, |site| format!("causeway-cluster={}", site.uid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_of_one_id_do_not_touch_each_others_networks_and_say_so() {
    // Of its own kind: other tests' networks must not have it.
    let id = format!("twin-{}", std::process::id());
    let start = || Start::alone().with(&["--cluster-id", &id]);
    let clusters = live_side_by_side(start, |_| format!("causeway-cluster={id}")).await;
    let (site, controller) = &clusters[0];
    site.until("it is said", async || match controller.said().matches("goes by this id").count() {
        1 => Ok(()),
        times => Err(format!("{times} times")),
    })
    .await;
    assert_eq!(controller.metric("causeway_networks_held{owner=\"namesake\"}").await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_another_replica_goes_on_and_makes_nothing_twice() {
    let site = Site::new().await;
    let mut replicas = [site.start(Start::replica("one")), site.start(Start::replica("two"))];
    let leader = site
        .until("one leads", async || {
            for (number, replica) in replicas.iter().enumerate() {
                if replica.metric("causeway_leader{room=\"networks\"}").await == Some(1.0) {
                    return Ok(number);
                }
            }
            Err("nobody leads".to_owned())
        })
        .await;
    site.create("before", "10.72.0.0/24").await;
    site.ready("before").await;
    // Its network is made, and it does not hear of that.
    site.proxy.tell(Rule::on(Method::POST, "/v2.0/networks").times(1).delay(Duration::from_secs(3600)));
    site.proxy.forget();
    site.create("during", "10.73.0.0/24").await;
    site.until("its network is made", async || {
        let made = |it: &crate::cloud::Request| it.method == Method::POST && it.server == Some(201);
        if site.proxy.requests().iter().any(made) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    replicas[leader].kill();
    site.ready("during").await;
    for name in ["before", "during"] {
        site.has_exactly_one(name).await;
    }
    assert_eq!(replicas[1 - leader].metric("causeway_leader{room=\"networks\"}").await, Some(1.0));
}

/// A network of somebody's with a subnet.
async fn theirs(site: &Site, cidr: &str) -> (Value, Value) {
    let network = site.cloud.create("network", json!({ "name": "theirs" })).await;
    let attributes = json!({ "network_id": network["id"], "ip_version": 4, "cidr": cidr, "name": "theirs" });
    let subnet = site.cloud.create("subnet", attributes).await;
    (network, subnet)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_taken_over_where_that_is_asked_for_and_nobody_has_it() {
    let site = Site::new().await;
    let _controller = site.controller();
    let (network, subnet) = theirs(&site, "10.74.0.0/24").await;
    site.create_with("adopts", "10.74.0.0/24", "causeway/adopt", &text(&network, "id")).await;
    let status = site.ready("adopts").await;
    assert_eq!((&status["networkId"], &status["subnetId"]), (&network["id"], &subnet["id"]));
    site.has_exactly_one("adopts").await;
    let reasons: Vec<_> = site.events("adopts").await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["Synced"], "our own changes are no trouble");

    // What another has is refused, what is not there is told.
    site.create_with("late", "10.75.0.0/24", "causeway/adopt", &text(&network, "id")).await;
    let why = site.says("late", "Ready", "False", "AdoptionRefused").await;
    assert!(why.contains(&text(&network, "id")), "{why}");
    let nothing = "00000000-0000-4000-8000-000000000000";
    site.create_with("lost", "10.76.0.0/24", "causeway/adopt", nothing).await;
    let why = site.says("lost", "Ready", "False", "AdoptionTargetMissing").await;
    assert!(why.contains(nothing), "{why}");
    site.event("lost", "AdoptionTargetMissing", nothing).await;
    // Without the annotation it gets one of its own.
    site.patch("lost", json!({ "metadata": { "annotations": { "causeway/adopt": null } } })).await;
    site.ready("lost").await;
    site.has_exactly_one("lost").await;

    // With somebody's subnet in it, it is not deleted.
    let attributes = json!({ "network_id": network["id"], "ip_version": 4, "cidr": "10.99.0.0/24" });
    let other = site.cloud.create("subnet", attributes).await;
    site.delete("adopts").await;
    let why = site.says("adopts", "CleanupBlocked", "True", "ForeignSubnet").await;
    assert!(why.contains(&text(&other, "id")), "{why}");
    site.cloud.delete(&format!("subnets/{}", text(&other, "id"))).await.ok();
    site.gone("adopts").await;
    let left = site.cloud.get(&format!("networks/{}", text(&network, "id"))).await;
    assert_eq!(left.status, 404, "what was taken over goes with the object");
}
