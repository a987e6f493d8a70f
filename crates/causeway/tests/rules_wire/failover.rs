//! A client goes from replica to replica and waits for those that come back; what it holds in the end is what there is.

use causeway_core::rules::Kind;
use nix::sys::signal::Signal;
use serde_json::json;

use super::client::{Client, rules};
use super::site::{Replica, Site};

const LIMIT: Kind = Kind::RateLimitStrategy;

/// Two replicas, and a client that knows both and is connected to the first.
async fn set_up() -> (Site, [Replica; 2], Client) {
    let site = Site::set_up().await;
    let (one, two) = tokio::join!(site.replica_anywhere("one"), site.replica_anywhere("two"));
    site.limit("kept", 1).await;
    site.limit("lost", 1).await;
    let mut client = Client::subscribed(&[one.address(), two.address()], LIMIT).await;
    client.limits_are(&[("kept", 1), ("lost", 1)]).await;
    assert_eq!(client.server(), Some(&*one.address()));
    (site, [one, two], client)
}

#[tokio::test]
async fn a_killed_replica_and_one_that_is_stopped_are_left_for_the_other() {
    let (site, [mut one, mut two], mut client) = set_up().await;
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        one.signal(signal);
        client.moves().await;
        assert_eq!(client.server(), Some(&*two.address()), "{signal}");
        one.ended().await;
        // Nothing has changed, so it holds what it held; and what changes now, it gets.
        client.limits_are(&[("kept", 1), ("lost", 1)]).await;
        site.set_threshold("kept", 2).await;
        client.limits_are(&[("kept", 2), ("lost", 1)]).await;

        one.start().await;
        two.signal(signal);
        // While nobody has it yet.
        site.set_threshold("kept", 1).await;
        client.moves().await;
        assert_eq!(client.server(), Some(&*one.address()), "{signal}");
        client.limits_are(&[("kept", 1), ("lost", 1)]).await;
        two.ended().await;
        two.start().await;
    }
    site.delete(LIMIT, "lost").await;
    client.limits_are(&[("kept", 1)]).await;
}

#[tokio::test]
async fn what_happened_while_no_replica_was_there_arrives_with_the_next_one() {
    let (site, [mut one, mut two], mut client) = set_up().await;
    for (round, signal) in (1..).zip([Signal::SIGTERM, Signal::SIGKILL]) {
        let before = client.version(LIMIT);
        tokio::join!(one.end(signal), two.end(signal));
        site.delete(LIMIT, "lost").await;
        site.set_threshold("kept", 10 + round).await;
        one.start().await;
        client.limits_are(&[("kept", 10 + round)]).await;
        assert!(client.version(LIMIT) > before, "versions rise across restarts");
        site.limit("lost", 1).await;
        client.limits_are(&[("kept", 10 + round), ("lost", 1)]).await;
        two.start().await;
    }
    tokio::join!(one.end(Signal::SIGKILL), two.end(Signal::SIGTERM));
    site.delete(LIMIT, "lost").await;
    site.delete(LIMIT, "kept").await;
    two.start().await;
    client.limits_are(&[]).await;
    assert_eq!(client.server(), Some(&*two.address()));
    site.limit("new", 5).await;
    client.limits_are(&[("new", 5)]).await;
    site.says(LIMIT, "new", [1, 0, 0]).await;
}

#[tokio::test]
async fn a_lower_version_of_a_replica_that_listed_earlier_is_dropped_and_nothing_is_lost_by_it() {
    let (site, [one, mut two], mut client) = set_up().await;
    // Whoever lists from now on gets a higher version of the same rules.
    site.says(LIMIT, "kept", [1, 0, 0]).await;
    site.raise_versions("once").await;
    two.end(Signal::SIGKILL).await;
    two.start().await;
    let before = client.version(LIMIT);
    client.order(json!({ "leave": true })).await;
    client.until("the later list", |event| event["is"] == "applied").await;
    assert_eq!(client.server(), Some(&*two.address()));
    assert!(client.version(LIMIT) > before);

    client.order(json!({ "leave": true })).await;
    let dropped = client.until("the earlier list", |event| event["is"] == "outdated").await;
    assert_eq!(client.server(), Some(&*one.address()));
    assert_eq!(rules(&dropped["response"]).as_array().map(Vec::len), Some(2), "the same rules");
    site.set_threshold("kept", 2).await;
    client.limits_are(&[("kept", 2), ("lost", 1)]).await;
    site.says(LIMIT, "kept", [1, 0, 0]).await;

    // Without a change it is sent a version that it takes, a while later.
    site.raise_versions("twice").await;
    two.end(Signal::SIGKILL).await;
    two.start().await;
    for is in ["applied", "outdated"] {
        client.order(json!({ "leave": true })).await;
        client.until(is, |event| event["is"] == is).await;
    }
    client.until("the version of a list made now", |event| event["is"] == "applied").await;
    assert_eq!(client.server(), Some(&*one.address()), "it was not asked to leave");
    client.limits_are(&[("kept", 2), ("lost", 1)]).await;
    site.says(LIMIT, "kept", [1, 0, 0]).await;
}
