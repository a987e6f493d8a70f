//! What somebody changes in the cloud is put right; what is somebody else's is not touched.

use serde_json::{Value, json};

use crate::cloud::Api;
use crate::site::{Site, text};

/// Networks and subnets of somebody else, and how they were.
struct Foreign {
    api: Api,
    were: Vec<(String, Value)>,
}

impl Foreign {
    /// With the name and the range of a network of ours, and tags that look like ours without being that.
    async fn like(api: &Api, name: &str, cidr: &str) -> Self {
        let mut were = Vec::new();
        for tags in
            [json!([]), json!(["causeway"]), json!(["causeway-cluster=another", "causeway-home=another"])]
        {
            let network = api.create("network", json!({ "name": name })).await;
            let attributes =
                json!({ "network_id": network["id"], "ip_version": 4, "cidr": cidr, "name": name });
            let subnet = api.create("subnet", attributes).await;
            for path in
                [format!("networks/{}", text(&network, "id")), format!("subnets/{}", text(&subnet, "id"))]
            {
                api.put(&format!("{path}/tags"), json!({ "tags": tags })).await.ok();
                let is_now = api.get(&path).await.ok();
                were.push((path, is_now));
            }
        }
        Self { api: api.clone(), were }
    }

    async fn are_untouched(&self) {
        for (path, was) in &self.were {
            let is_now = self.api.get(path).await.ok();
            assert_eq!(is_now.to_string(), was.to_string(), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_put_right_and_told_and_others_things_are_left_alone() {
    let site = Site::new().await;
    let _controller = site.controller();
    let foreign = Foreign::like(&site.cloud, "default/drifts", "10.30.0.0/24").await;
    site.create("drifts", "10.30.0.0/24").await;
    let status = site.ready("drifts").await;
    let network = format!("networks/{}", text(&status, "networkId"));
    let subnet = format!("subnets/{}", text(&status, "subnetId"));
    let is = async |path: &str, field: &str, value: Value| {
        let what = format!("{field} of {path} is {value}");
        let kind = path.split("s/").next().unwrap_or_default().to_owned();
        let look = async || match &site.cloud.get(path).await.ok()[&kind][field] {
            seen if *seen == value => Ok(()),
            seen => Err(seen.to_string()),
        };
        site.until(what, look).await;
    };

    site.cloud.put(&network, json!({ "network": { "name": "mine" } })).await.ok();
    is(&network, "name", json!("default/drifts")).await;
    site.event("drifts", "DriftRepaired", "name network").await;

    site.cloud.put(&subnet, json!({ "subnet": { "gateway_ip": null } })).await.ok();
    is(&subnet, "gateway_ip", json!("10.30.0.1")).await;
    site.event("drifts", "DriftRepaired", "set the gateway of subnet").await;

    let tags = site.cloud.get(&network).await.ok()["network"]["tags"].clone();
    // Somebody's own tag stays.
    site.cloud.put(&format!("{network}/tags"), json!({ "tags": ["theirs"] })).await.ok();
    let mut with_theirs: Vec<Value> = tags.as_array().cloned().unwrap_or_default();
    with_theirs.push(json!("theirs"));
    is(&network, "tags", json!(with_theirs)).await;
    site.event("drifts", "DriftRepaired", "tag network").await;
    site.cloud.put(&format!("{subnet}/tags"), json!({ "tags": [] })).await.ok();
    is(&subnet, "tags", tags.clone()).await;
    site.event("drifts", "DriftRepaired", "tag subnet").await;
    foreign.are_untouched().await;

    site.cloud.delete(&subnet).await.ok();
    site.event("drifts", "DriftRepaired", "create subnet 10.30.0.0/24").await;
    let after = site.ready("drifts").await;
    assert_eq!(after["networkId"], status["networkId"]);
    assert_ne!(after["subnetId"], status["subnetId"]);

    site.cloud.delete(&network).await.ok();
    site.event("drifts", "DriftRepaired", "create network default/drifts").await;
    site.until("another network is said", async || match &site.status("drifts").await["networkId"] {
        now if *now != after["networkId"] => Ok(()),
        now => Err(now.to_string()),
    })
    .await;
    site.ready("drifts").await;
    site.has_exactly_one("drifts").await;

    site.delete("drifts").await;
    site.gone("drifts").await;
    foreign.are_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_nobody_knew_of_is_looked_at_again_and_not_written_over() {
    use crate::cloud::{Request, Rule};
    use hyper::Method;
    use std::time::Duration;

    let site = Site::new().await;
    let _controller = site.controller();
    site.create("stale", "10.31.0.0/24").await;
    let status = site.ready("stale").await;
    let network = format!("networks/{}", text(&status, "networkId"));
    // A list is on its way to the controller while somebody changes what is in it.
    site.proxy.tell(Rule::on(Method::GET, "/v2.0/networks?").delay(Duration::from_millis(800)));
    let is_stale = |it: &Request| it.method == Method::PUT && it.server == Some(412);
    let mut is_refused = false;
    // A list that was on its way before has the first change put right now and then: then it is done once more.
    for _ in 0..8 {
        site.cloud.put(&network, json!({ "network": { "name": "first" } })).await.ok();
        site.proxy.forget();
        site.until("a list that knows the first change is on its way", async || {
            let requests = site.proxy.requests();
            let on_its_way = |it: &&Request| {
                let is_list =
                    it.path.starts_with("/v2.0/networks?") && it.path.contains("tags=causeway-home");
                is_list && it.server.is_some() && it.answer.is_none()
            };
            requests.iter().find(on_its_way).map(|_| ()).ok_or_else(|| format!("{} requests", requests.len()))
        })
        .await;
        let second = json!({ "network": { "name": "second", "description": "theirs" } });
        site.cloud.put(&network, second).await.ok();
        site.until("the name is put right", async || {
            let name = site.cloud.get(&network).await.ok()["network"]["name"].clone();
            if name == "default/stale" { Ok(()) } else { Err(name.to_string()) }
        })
        .await;
        is_refused = site.proxy.requests().iter().any(is_stale);
        if is_refused {
            break;
        }
    }
    assert!(is_refused, "Neutron never refused a stale change");
    site.proxy.pass();
    let seen = site.cloud.get(&network).await.ok();
    assert_eq!(seen["network"]["description"], "theirs", "what is no business of ours is kept");
    site.ready("stale").await;
}
