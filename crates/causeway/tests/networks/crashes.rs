//! A controller that is killed between two requests: the next one goes on where it stopped.

use std::time::Duration;

use hyper::Method;

use crate::cloud::{Request, Rule};
use crate::controller::Controller;
use crate::site::Site;

/// The writes that make a network, in their order: nothing else is asked with this method at such a path.
fn writes() -> [(Method, &'static str); 4] {
    [
        (Method::POST, "/v2.0/networks"),
        (Method::PUT, "/v2.0/networks/"),
        (Method::POST, "/v2.0/subnets"),
        (Method::PUT, "/v2.0/subnets/"),
    ]
}

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// Neutron carries the request out, and whoever asked never hears of it.
fn unheard(method: Method, path: &str) -> Rule {
    Rule::on(method, path).delay(FOR_EVER)
}

/// Neutron never sees the request, and whoever asked is told to wait.
fn unseen(method: Method, path: &str) -> Rule {
    Rule::on(method, path).answer(503, "not now").header("retry-after", "300")
}

/// Waits until requests of a kind got as far as a rule lets them, then kills the controller.
async fn kill_at(site: &Site, controller: &mut Controller, met: impl Fn(&Request) -> bool, count: usize) {
    site.until("the requests arrive", async || {
        let requests = site.proxy.requests();
        let arrived = requests.iter().filter(|it| met(it)).count();
        if arrived >= count { Ok(()) } else { Err(format!("{arrived} of {count}")) }
    })
    .await;
    controller.kill();
    site.proxy.pass();
}

/// Two networks are made, and the controller is killed at one write of both; one of them is deleted before the next
/// controller starts.
async fn crash_while_making(heard: impl Fn(Method, &str) -> Rule, is_carried_out: bool) {
    let site = Site::new().await;
    let mut controller = site.controller();
    for (step, (method, path)) in writes().into_iter().enumerate() {
        let [stays, goes] = ["stays", "goes"].map(|name| format!("{name}-{step}"));
        site.proxy.forget();
        site.proxy.tell(heard(method.clone(), path));
        site.create(&stays, &format!("10.{step}.1.0/24")).await;
        site.create(&goes, &format!("10.{step}.2.0/24")).await;
        let met = |it: &Request| {
            it.method == method && it.path.starts_with(path) && (it.server.is_some() || !is_carried_out)
        };
        kill_at(&site, &mut controller, met, 2).await;
        site.delete(&goes).await;
        controller.start_again();
        site.ready(&stays).await;
        site.gone(&goes).await;
        site.has_exactly_one(&stays).await;
        site.has_none(&goes).await;
    }
    let all = (site.made("networks").await.len(), site.made("subnets").await.len());
    assert_eq!(all, (4, 4), "whatever it is called");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_right_after_any_write_it_leaves_nothing_twice_and_nothing_behind() {
    crash_while_making(unheard, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_right_before_any_write_it_leaves_nothing_twice_and_nothing_behind() {
    crash_while_making(unseen, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_it_deletes_or_replaces_it_goes_on() {
    let site = Site::new().await;
    let mut controller = site.controller();
    site.create("goes", "10.20.0.0/24").await;
    site.create("moves", "10.21.0.0/24").await;
    site.ready("goes").await;
    site.ready("moves").await;
    // Else the deletion is refused first: what was seen of the network is older than its subnet.
    site.looked_at().await;

    site.proxy.forget();
    site.proxy.tell(unheard(Method::DELETE, "/v2.0/networks/"));
    site.delete("goes").await;
    kill_at(&site, &mut controller, |it| it.method == Method::DELETE && it.server == Some(204), 1).await;
    assert!(site.get("goes").await.is_some(), "nobody heard that it was done");
    controller.start_again();
    site.gone("goes").await;
    site.has_none("goes").await;

    // Between the new subnet and the end of the old one, and before the new one has its tags.
    for (cidr, method, path) in [
        ("10.22.0.0/24", Method::POST, "/v2.0/subnets"),
        ("10.23.0.0/24", Method::PUT, "/v2.0/subnets/"),
        ("10.24.0.0/24", Method::DELETE, "/v2.0/subnets/"),
    ] {
        site.proxy.forget();
        site.proxy.tell(unheard(method.clone(), path));
        let patch = serde_json::json!({
            "metadata": { "annotations": { "causeway/allow-replace": "true" } }, "spec": { "cidr": cidr },
        });
        site.patch("moves", patch).await;
        let met = |it: &Request| it.method == method && it.path.starts_with(path) && it.server.is_some();
        kill_at(&site, &mut controller, met, 1).await;
        controller.start_again();
        let status = site.ready("moves").await;
        assert_eq!(status["cidr"], cidr);
        site.has_exactly_one("moves").await;
    }
}
