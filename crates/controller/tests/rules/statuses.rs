//! What a rule's object says.

use std::time::Duration;

use causeway_core::rules::Kind;
use causeway_core::rules::wire::transport::v1::SubscribeRequest;
use serde_json::{Value, json};

use crate::plane::{LIMIT, Plane, target};
use crate::{Site, support};

fn counts(status: &Value) -> [i64; 3] {
    ["acked", "failed", "pending"].map(|name| status[name].as_i64().unwrap_or_default())
}

fn condition<'a>(status: &'a Value, name: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let conditions = status["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == name)?;
    Some((condition["status"].as_str()?, condition["reason"].as_str()?, condition["message"].as_str()?))
}

async fn until_counts(site: &Site, name: &str, wanted: [i64; 3]) -> Value {
    let status = async || site.status(LIMIT, name).await;
    support::until(&format!("{name} says {wanted:?}"), async || counts(&status().await) == wanted).await;
    status().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_says_how_many_run_it_and_who_refused_and_why() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    support::until("nobody asks for it", async || {
        condition(&site.status(LIMIT, "ten").await, "Distributed")
            .is_some_and(|(_, reason, _)| reason == "NoSubscriber")
    })
    .await;
    let mut good = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let mut bad = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let mut silent = Plane::subscribed(replica.address, LIMIT, "foo").await;
    good.until_rules(1).await;
    let refused = bad.next().await;
    bad.answer(&refused, "ACK", 4007, "handler broke");
    silent.next().await;
    let status = until_counts(&site, "ten", [1, 1, 1]).await;
    assert_eq!(status["lastFailure"]["message"], "handler broke");
    assert_eq!(status["lastFailure"]["code"], 4007);
    assert_eq!(status["replicas"]["a"]["acked"], 1);
    support::until("it says so in words", async || {
        let status = site.status(LIMIT, "ten").await;
        condition(&status, "Distributed").is_some_and(|(truth, reason, message)| {
            truth == "False" && reason == "Failed" && message.contains("handler broke")
        })
    })
    .await;
    let status = site.status(LIMIT, "ten").await;
    assert_eq!(condition(&status, "Accepted").map(|it| (it.0, it.1)), Some(("True", "Converted")));

    // Who leaves counts no more; who is sent something new has not answered that.
    drop(silent);
    until_counts(&site, "ten", [1, 1, 0]).await;
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 11 } })).await;
    good.until_rules(1).await;
    let again = bad.next().await;
    bad.ack(&again);
    let status = until_counts(&site, "ten", [2, 0, 0]).await;
    assert_eq!(status["lastFailure"], Value::Null);
    support::until("all run it", async || {
        let status = site.status(LIMIT, "ten").await;
        condition(&status, "Distributed").is_some_and(|it| it.0 == "True")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_plane_that_asks_for_its_app_and_for_all_counts_once_by_what_it_says_worse() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut both = Plane::subscribed(replica.address, LIMIT, "foo").await;
    both.subscribe(target(LIMIT, "default", "*"));
    let mut other = Plane::subscribed(replica.address, LIMIT, "*").await;
    other.until_rules(1).await;
    let first = both.next().await;
    both.ack(&first);
    until_counts(&site, "ten", [1, 0, 1]).await;
    let second = both.next().await;
    both.ack(&second);
    until_counts(&site, "ten", [2, 0, 0]).await;
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 11 } })).await;
    other.until_rules(1).await;
    let first = both.next().await;
    both.answer(&first, "NACK", 4000, "bad bytes");
    let second = both.next().await;
    both.ack(&second);
    until_counts(&site, "ten", [1, 1, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_nobody_has_answered_is_never_said_to_run() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    plane.until_rules(1).await;
    until_counts(&site, "ten", [1, 0, 0]).await;
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 11 } })).await;
    let start = tokio::time::Instant::now();
    let mut seen = Vec::new();
    while start.elapsed() < std::time::Duration::from_secs(3) {
        let status = site.status(LIMIT, "ten").await;
        if status["observedGeneration"] == 2 {
            seen.push(condition(&status, "Distributed").map(|it| it.1.to_owned()));
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    seen.dedup();
    assert_eq!(seen, [Some("Pending".to_owned())]);
    plane.until_rules(1).await;
    until_counts(&site, "ten", [1, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_is_edited_and_edited_back_or_made_again_at_once_still_says_who_runs_it() {
    let site = Site::start().await;
    let replica = site.replica_with("a", |options| options.window = Duration::from_secs(1)).await;
    site.limit("ten", "foo", 10).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    plane.until_rules(1).await;
    until_counts(&site, "ten", [1, 0, 0]).await;
    for threshold in [11, 10] {
        site.patch(LIMIT, "ten", json!({ "spec": { "threshold": threshold } })).await;
    }
    let is_run = async |generation: i64| {
        let status = site.status(LIMIT, "ten").await;
        status["observedGeneration"] == generation
            && condition(&status, "Distributed").is_some_and(|it| it.1 == "Acked")
    };
    support::until("its third generation is run", async || is_run(3).await).await;
    site.delete(LIMIT, "ten").await;
    site.limit("ten", "foo", 10).await;
    support::until("so is the new one", async || is_run(1).await).await;
    plane.is_silent(Duration::from_millis(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_leaves_a_set_by_its_labels_is_run_by_nobody_of_it() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    site.patch(LIMIT, "ten", json!({ "metadata": { "labels": { "v": "1" } } })).await;
    let mut plane = Plane::connect(replica.address).await;
    plane.subscribe_labelled(target(LIMIT, "default", "foo"), &[("v", "1")]);
    plane.until_rules(1).await;
    until_counts(&site, "ten", [1, 0, 0]).await;
    site.patch(LIMIT, "ten", json!({ "metadata": { "labels": { "v": "2" } } })).await;
    plane.until_rules(0).await;
    until_counts(&site, "ten", [0, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nack_without_a_number_or_a_status_is_the_oldest_pushes() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    plane.next().await;
    plane.send(SubscribeRequest { response_ack: "NACK".into(), ..SubscribeRequest::default() });
    until_counts(&site, "ten", [0, 1, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_cannot_be_sent_says_which_field_and_one_without_an_app_says_that() {
    let site = Site::start().await;
    let _replica = site.replica("a").await;
    let spec = json!({ "strategy": "SlowRequestRatio", "triggerRatio": "60%", "statDuration": "30s",
                       "recoveryTimeout": "5s", "minRequestAmount": 5, "slowConditions": { "maxAllowedRt": "100d" } });
    site.create(Kind::CircuitBreakerStrategy, "slow", json!({ "app": "foo" }), spec).await;
    let spec = json!({ "metricType": "RequestAmount", "limitMode": "Local", "threshold": 1, "statDurationSeconds": 1 });
    site.create(LIMIT, "nobodys", json!({}), spec).await;
    support::until("both say so", async || {
        let slow = site.status(Kind::CircuitBreakerStrategy, "slow").await;
        let nobodys = site.status(LIMIT, "nobodys").await;
        condition(&slow, "Accepted")
            .is_some_and(|it| it.1 == "Refused" && it.2.contains("spec.slowConditions.maxAllowedRt"))
            && condition(&nobodys, "Accepted").is_some_and(|it| it.1 == "NoApp")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_good_form_of_a_rule_outlives_whoever_knew_it() {
    let site = Site::start().await;
    let breaker = Kind::CircuitBreakerStrategy;
    let spec = json!({ "strategy": "SlowRequestRatio", "triggerRatio": "60%", "statDuration": "30s",
                       "recoveryTimeout": "5s", "minRequestAmount": 5, "slowConditions": { "maxAllowedRt": "100ms" } });
    for name in ["one", "two"] {
        site.create(breaker, name, json!({ "app": "foo" }), spec.clone()).await;
    }
    let first = site.replica("a").await;
    let mut plane = Plane::subscribed(first.address, breaker, "foo").await;
    let good = plane.until_rules(2).await.data_with_version.expect("rules").data;
    site.patch(breaker, "one", json!({ "spec": { "slowConditions": { "maxAllowedRt": "100d" } } })).await;
    let says = async |name: &str| {
        let status = site.status(breaker, "one").await;
        condition(&status, "Accepted").is_some_and(|it| it.1 == name)
            && status["lastSent"].is_string() == (name == "Refused")
    };
    support::until("it is refused, and what was sent is kept", async || says("Refused").await).await;
    first.stop().await;
    let second = site.replica("b").await;
    let mut plane = Plane::subscribed(second.address, breaker, "foo").await;
    let sent = plane.next().await.data_with_version.expect("rules").data;
    assert_eq!(sent, good);
    site.patch(breaker, "one", json!({ "spec": { "slowConditions": { "maxAllowedRt": "100ms" } } })).await;
    support::until("it is mended, and nothing is kept", async || says("Converted").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_count_for_themselves_and_what_one_said_goes_with_it() {
    let site = Site::start().await;
    let (a, b) = (site.replica("a").await, site.replica("b").await);
    site.limit("ten", "foo", 10).await;
    let mut planes = [
        Plane::subscribed(a.address, LIMIT, "foo").await,
        Plane::subscribed(b.address, LIMIT, "foo").await,
        Plane::subscribed(b.address, LIMIT, "foo").await,
    ];
    for plane in &mut planes {
        plane.until_rules(1).await;
    }
    let status = until_counts(&site, "ten", [3, 0, 0]).await;
    assert_eq!(
        (status["replicas"]["a"]["acked"].as_i64(), status["replicas"]["b"]["acked"].as_i64()),
        (Some(1), Some(2))
    );
    b.stop().await;
    let status = until_counts(&site, "ten", [1, 0, 0]).await;
    assert_eq!(status["replicas"]["b"], Value::Null);
    planes[0].is_silent(std::time::Duration::from_millis(100)).await;
}
