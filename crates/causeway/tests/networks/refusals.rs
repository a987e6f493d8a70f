//! What a cloud refuses, and what is done about it.

use std::time::Duration;

use hyper::Method;
use serde_json::json;

use crate::cloud::{Neutron, Request, Rule, Settings};
use crate::site::{Site, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_is_told_and_work_goes_on_when_there_is_room() {
    let mut neutron = Neutron::start(Settings { networks: Some(2), ..Settings::default() }).await;
    let site = Site::at(&neutron.url(), neutron.api()).await;
    let _controller = site.controller();
    for (name, cidr) in [("first", "10.40.0.0/24"), ("second", "10.41.0.0/24")] {
        site.create(name, cidr).await;
        site.ready(name).await;
    }
    site.create("third", "10.42.0.0/24").await;
    let why = site.says("third", "Ready", "False", "QuotaExceeded").await;
    assert!(why.contains("Quota exceeded for resources: ['network']"), "{why}");
    site.event("third", "QuotaExceeded", "the cloud's quota is used up").await;
    site.says("third", "Progressing", "True", "QuotaExceeded").await;

    // It is tried again every two minutes, and at once when the object changes.
    site.delete("first").await;
    site.gone("first").await;
    site.patch("third", json!({ "spec": { "gateway": "10.42.0.9" } })).await;
    site.ready("third").await;
    site.has_exactly_one("third").await;

    // The server is killed and comes back with what it had.
    let before = [site.made_for("second").await, site.made_for("third").await];
    neutron.stop();
    site.delete("second").await;
    site.says("second", "CleanupBlocked", "True", "CloudUnreachable").await;
    site.says("third", "Ready", "True", "Synced").await;
    neutron.start_again().await;
    site.gone("second").await;
    site.ready("third").await;
    assert_eq!(site.made_for("third").await, before[1]);
    site.has_none("second").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_use_is_not_deleted_until_it_is_free_or_abandoned() {
    let site = Site::new().await;
    let _controller = site.controller();
    site.create("freed", "10.43.0.0/24").await;
    site.create("abandoned", "10.44.0.0/24").await;
    let mut ports = Vec::new();
    for name in ["freed", "abandoned"] {
        let status = site.ready(name).await;
        ports.push(site.cloud.occupy(&text(&status, "networkId")).await);
    }
    let kept = site.made_for("abandoned").await;
    for name in ["freed", "abandoned"] {
        site.delete(name).await;
        let why = site.says(name, "CleanupBlocked", "True", "InUse").await;
        assert!(why.contains("ports still in use") && why.contains("causeway/abandon=true"), "{why}");
        site.says(name, "Ready", "False", "Deleting").await;
        site.event(name, "InUse", "it is in use").await;
    }
    assert!(site.made_for("freed").await.0.len() == 1, "it stays as long as the object does");

    site.cloud.delete(&format!("ports/{}", ports[0])).await.ok();
    // It is tried again every two minutes, and at once when something of the object changes.
    site.annotate("freed", "causeway/allow-replace", "true").await;
    site.gone("freed").await;
    site.has_none("freed").await;

    site.annotate("abandoned", "causeway/abandon", "true").await;
    site.gone("abandoned").await;
    let network =
        site.cloud.get(&format!("networks/{}", text(&kept.0[0], "id"))).await.ok()["network"].clone();
    let subnet = site.cloud.get(&format!("subnets/{}", text(&kept.1[0], "id"))).await.ok()["subnet"].clone();
    for left in [&network, &subnet] {
        assert_eq!(
            (&left["tags"], &left["description"]),
            (&json!([]), &json!("")),
            "nothing says that it is ours"
        );
        assert_eq!(left["name"], "default/abandoned", "others find it under its name");
    }
    assert_eq!(network["subnets"], json!([subnet["id"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_to_be_left_alone_for_a_while_is() {
    let site = Site::new().await;
    let _controller = site.controller();
    site.create("before", "10.45.0.0/24").await;
    site.ready("before").await;
    let wish = Duration::from_secs(4);
    let slow_down = |rule: Rule| rule.times(1).answer(429, "slow down").header("retry-after", "4");
    site.proxy.forget();
    site.proxy.tell(slow_down(Rule::on(Method::POST, "/v2.0/networks")));
    site.create("patient", "10.46.0.0/24").await;
    let why = site.says("patient", "Ready", "False", "CloudUnreachable").await;
    assert!(why.contains("429 slow down"), "{why}");
    // Others' looks go on meanwhile.
    site.ready("patient").await;
    let posts = |it: &Request| it.method == Method::POST && it.path == "/v2.0/networks";
    let times: Vec<_> = site.proxy.requests().into_iter().filter(posts).map(|it| it.at).collect();
    assert_eq!(times.len(), 2);
    assert!(times[1] - times[0] >= wish, "asked again after {:?}", times[1] - times[0]);

    // The same of the list that everything begins with.
    site.proxy.forget();
    site.proxy.tell(slow_down(Rule::on(Method::GET, "/v2.0/networks?")));
    site.until("the list is refused", async || {
        match site.proxy.requests().iter().any(|it| it.answer == Some(429)) {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        }
    })
    .await;
    site.create("meanwhile", "10.47.0.0/24").await;
    let asked = site
        .until("the list is asked for again", async || {
            let requests = site.proxy.requests();
            let is_list = |it: &&Request| it.path.starts_with("/v2.0/networks?") && it.path.contains("limit");
            let refused = requests.iter().find(|it| it.answer == Some(429)).ok_or("not refused yet")?;
            let next = requests.iter().filter(is_list).find(|it| it.at > refused.at + Duration::from_secs(1));
            next.map(|next| next.at - refused.at).ok_or_else(|| "not asked yet".to_owned())
        })
        .await;
    assert!(asked >= wish, "asked again after {asked:?}");
    // What came meanwhile is not forgotten.
    site.ready("meanwhile").await;
}
