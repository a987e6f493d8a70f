//! A cloud that fails, is slow, or is away: nothing is made twice, nobody waits for another's trouble.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::json;

use crate::cloud::{PATIENCE, Rule};
use crate::controller::Controller;
use crate::site::{Site, text};

/// Names and ranges of some networks.
fn several(count: u8, second: u8) -> Vec<(String, String)> {
    (0..count).map(|number| (format!("n{number}"), format!("10.{second}.{number}.0/24"))).collect()
}

/// Waits until a controller knows that the cloud cannot be listed.
async fn is_noticed(site: &Site, controller: &Controller) {
    site.until("the outage is noticed", async || {
        let said = controller.said();
        if said.contains("the cloud cannot be listed") { Ok(()) } else { Err("not yet".into()) }
    })
    .await;
}

async fn converge_and_vanish(site: &Site, networks: &[(String, String)]) {
    for (name, cidr) in networks {
        site.create(name, cidr).await;
    }
    for (name, _) in networks {
        site.ready(name).await;
        site.has_exactly_one(name).await;
    }
    for (name, _) in networks {
        site.delete(name).await;
    }
    for (name, _) in networks {
        site.gone(name).await;
        site.has_none(name).await;
    }
    let left = (site.made("networks").await, site.made("subnets").await);
    assert!(left.0.is_empty() && left.1.is_empty(), "{left:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_at_random_end_in_what_was_declared() {
    let site = Site::new().await;
    let _controller = site.controller();
    let failure = json!({ "NeutronError": { "type": "HTTPInternalServerError", "message": "at random", "detail": "" } });
    site.proxy.tell(Rule::on_any("/v2.0/").at_random(20_261_117, 100).answer(500, failure.to_string()));
    site.proxy.tell(Rule::on_any("/v2.0/").at_random(7, 80).cut_after());
    site.proxy.tell(Rule::on_any("/v2.0/").at_random(11, 50).cut_before());
    converge_and_vanish(&site, &several(5, 50)).await;
    let answers: Vec<_> = site.proxy.requests().into_iter().map(|it| it.answer).collect();
    assert!(answers.contains(&Some(500)) && answers.contains(&None), "something failed: {answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_cut_off_make_nothing_twice() {
    let site = Site::new().await;
    let _controller = site.controller();
    for (method, path) in [
        (Method::POST, "/v2.0/networks"),
        (Method::PUT, "/v2.0/networks/"),
        (Method::POST, "/v2.0/subnets"),
        (Method::PUT, "/v2.0/subnets/"),
        (Method::DELETE, "/v2.0/networks/"),
    ] {
        site.proxy.tell(Rule::on(method, path).times(2).cut_after());
    }
    // And those that are late come all the same.
    site.proxy.tell(Rule::on(Method::POST, "/v2.0/").delay(Duration::from_millis(1500)));
    converge_and_vanish(&site, &several(3, 51)).await;
    let cut = site.proxy.requests().into_iter().filter(|it| it.server.is_some() && it.answer.is_none());
    assert!(cut.count() >= 10, "each was cut twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_is_away_is_told_of_new_networks_and_leaves_old_ones_alone() {
    let site = Site::new().await;
    let controller = site.controller();
    site.create("old", "10.52.0.0/24").await;
    site.ready("old").await;
    let old = site.get("old").await.expect("it is there");
    let held = site.made_for("old").await;

    site.proxy.set_gone(true);
    is_noticed(&site, &controller).await;
    site.create("new", "10.53.0.0/24").await;
    site.says("new", "Ready", "False", "CloudUnreachable").await;
    let now = site.get("old").await.expect("it is there");
    assert_eq!(
        now.metadata.resource_version, old.metadata.resource_version,
        "nothing is said of the old one"
    );

    site.proxy.set_gone(false);
    site.ready("new").await;
    site.has_exactly_one("new").await;
    let now = site.get("old").await.expect("it is there");
    assert_eq!(now.metadata.resource_version, old.metadata.resource_version);
    assert_eq!(site.made_for("old").await, held);
    let reasons: Vec<_> = site.events("old").await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["Synced"]);
    assert!(controller.said().contains("the cloud answers again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_forbidden_for_a_while_stop_nothing_for_good() {
    let site = Site::new().await;
    let controller = site.controller();
    site.create("old", "10.56.0.0/24").await;
    site.ready("old").await;
    let refusal =
        json!({ "NeutronError": { "type": "PolicyNotAuthorized", "message": "no lists", "detail": "" } });
    site.proxy.tell(Rule::on(Method::GET, "/v2.0/").answer(403, refusal.to_string()));
    is_noticed(&site, &controller).await;
    site.create("new", "10.57.0.0/24").await;
    site.says("new", "Ready", "False", "Forbidden").await;
    site.says("old", "Ready", "True", "Synced").await;
    site.proxy.pass();
    site.ready("new").await;
    site.has_exactly_one("new").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_whose_requests_hang_holds_up_no_other() {
    let site = Site::new().await;
    let _controller = site.controller();
    site.create("hangs", "10.54.0.0/24").await;
    let status = site.ready("hangs").await;
    let path = format!("/v2.0/networks/{}", text(&status, "networkId"));
    site.proxy.tell(Rule::on(Method::PUT, &path).delay(Duration::from_secs(3600)));
    site.proxy.forget();
    let mine = json!({ "network": { "name": "mine" } });
    site.cloud.put(path.trim_start_matches("/v2.0/"), mine).await.ok();
    site.until("its repair hangs", async || match site.proxy.count(&Method::PUT, &path) {
        0 => Err("nothing was asked".to_owned()),
        _ => Ok(()),
    })
    .await;
    let begun = Instant::now();
    for (name, cidr) in several(3, 55) {
        site.create(&name, &cidr).await;
        site.ready(&name).await;
    }
    // The limit of a write is a minute.
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    let hanging = site.proxy.requests().into_iter().find(|it| it.path == path).expect("it was asked");
    assert_eq!(hanging.answer, None);
}
