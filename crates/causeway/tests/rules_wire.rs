//! The rules as a client gets them that is generated from the SDK's own files, from controllers that are processes.
#![cfg(feature = "sandbox")]

#[path = "rules_wire/client.rs"]
mod client;
#[path = "rules_wire/every_field.rs"]
mod every_field;
#[path = "rules_wire/failover.rs"]
mod failover;
#[path = "rules_wire/site.rs"]
mod site;

use causeway_core::rules::Kind;
use client::{Client, target};
use nix::sys::signal::Signal;
use serde_json::json;
use site::Site;

const LIMIT: Kind = Kind::RateLimitStrategy;

#[tokio::test]
async fn answers_are_counted_and_a_nack_without_a_status_harms_nobody() {
    let site = Site::set_up().await;
    let replica = site.replica_anywhere("a").await;
    site.limit("ten", 10).await;
    let mut client = Client::subscribed(&[replica.address()], LIMIT).await;
    client.limits_are(&[("ten", 10)]).await;
    site.says(LIMIT, "ten", [1, 0, 0]).await;

    // As the Java SDK refuses: with a code and words, and without saying what.
    client
        .will_answer(json!({ "responseAck": "NACK", "status": { "code": 4000, "message": "bad bytes" } }))
        .await;
    site.set_threshold("ten", 11).await;
    client.limits_are(&[("ten", 11)]).await;
    let status = site.says(LIMIT, "ten", [0, 1, 0]).await;
    assert_eq!(
        (&status["lastFailure"]["code"], &status["lastFailure"]["message"]),
        (&json!(4000), &json!("bad bytes"))
    );

    // As the Go SDK tells that its handler failed.
    client
        .will_answer(json!({ "responseAck": "ACK", "status": { "code": 4007, "message": "no handler" } }))
        .await;
    site.set_threshold("ten", 12).await;
    client.limits_are(&[("ten", 12)]).await;
    let message = async || site.says(LIMIT, "ten", [0, 1, 0]).await["lastFailure"]["message"].clone();
    site::until("the newer failure is told", async || match message().await {
        said if said == "no handler" => Ok(()),
        said => Err(said.to_string()),
    })
    .await;

    client.will_answer(json!({ "responseAck": "NACK" })).await;
    site.set_threshold("ten", 13).await;
    client.limits_are(&[("ten", 13)]).await;
    site.says(LIMIT, "ten", [0, 1, 0]).await;

    // Last, since a NACK that does not say to what would be the answer to what this leaves unanswered.
    client.will_answer(json!(null)).await;
    site.set_threshold("ten", 14).await;
    client.limits_are(&[("ten", 14)]).await;
    site.says(LIMIT, "ten", [0, 0, 1]).await;

    client.will_answer(json!({ "responseAck": "ACK", "status": { "code": 1 } })).await;
    site.set_threshold("ten", 15).await;
    client.limits_are(&[("ten", 15)]).await;
    let status = site.says(LIMIT, "ten", [1, 0, 0]).await;
    assert!(status.get("lastFailure").is_none(), "{status}");
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_what_was_unsubscribed_is_silent() {
    let site = Site::set_up().await;
    let mut replica = site.replica_anywhere("a").await;
    site.limit("ten", 10).await;
    let mut client = Client::subscribed(&[replica.address()], LIMIT).await;
    client.limits_are(&[("ten", 10)]).await;
    for (id, target) in [
        ("1", json!({ "app": "foo", "kinds": [LIMIT.full_name()] })),
        ("2", json!({ "namespace": "default", "kinds": [LIMIT.full_name()] })),
        ("3", json!({ "namespace": "default", "app": "foo" })),
    ] {
        client.order(json!({ "send": { "target": target, "requestId": id } })).await;
        let event = client.next().await;
        let response = &event["response"];
        assert_eq!(event["is"], "refused", "{event}");
        assert_eq!(response["response_id"], id);
        assert_eq!(response["status"], json!({ "code": 4002, "message": "Request is invalid" }));
    }
    let throttling = Kind::ThrottlingStrategy;
    client.order(json!({ "subscribe": target(&[throttling.full_name()]) })).await;
    client.holds(throttling, &json!([])).await;
    site.says(LIMIT, "ten", [1, 0, 0]).await;
    client.order(json!({ "unsubscribe": target(&[LIMIT.full_name()]) })).await;
    // Whoever is nobody's subscriber any more does not count.
    site.says(LIMIT, "ten", [0, 0, 0]).await;
    site.set_threshold("ten", 11).await;
    client.is_left_alone().await;
    let spec = json!({ "minIntervalOfRequests": "20ms", "queueTimeout": "1s" });
    site.create(throttling, "slowly", spec).await;
    let event = client.next().await;
    assert_eq!(event["response"]["kind"], throttling.full_name(), "{event}");
    replica.end(Signal::SIGKILL).await;
}

#[tokio::test]
async fn two_clients_without_identifiers_both_get_every_push_and_one_leaving_changes_nothing_for_the_other() {
    let site = Site::set_up().await;
    let replica = site.replica_anywhere("a").await;
    let servers = [replica.address()];
    let (mut one, mut two) =
        tokio::join!(Client::subscribed(&servers, LIMIT), Client::subscribed(&servers, LIMIT));
    for (at, name) in ["first", "second", "third"].into_iter().enumerate() {
        site.limit(name, 10).await;
        for client in [&mut one, &mut two] {
            let event = client.next().await;
            let rules = event["response"]["dataWithVersion"]["data"].as_array().map(Vec::len);
            assert_eq!((&event["is"], rules), (&json!("applied"), Some(at + 1)), "{event}");
        }
    }
    site.says(LIMIT, "third", [2, 0, 0]).await;
    one.end().await;
    site.says(LIMIT, "third", [1, 0, 0]).await;
    two.is_left_alone().await;
    site.set_threshold("third", 30).await;
    two.limits_are(&[("first", 10), ("second", 10), ("third", 30)]).await;
    site.says(LIMIT, "third", [1, 0, 0]).await;
}
