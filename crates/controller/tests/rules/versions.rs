//! Versions: across restarts and replicas, and for clients that hold a higher one than there is.

use std::time::Duration;

use causeway_core::rules::wire::transport::v1::SubscribeResponse;
use serde_json::json;

use crate::Site;
use crate::plane::{LIMIT, PATIENCE, Plane, rules, said, version};

/// A client that drops what is older than what it holds, as the SDKs do.
struct Holding {
    plane: Plane,
    version: i64,
}

impl Holding {
    /// The next response; whether it was taken.
    async fn next(&mut self) -> (SubscribeResponse, bool) {
        let response = self.plane.next().await;
        let taken = version(&response) >= self.version;
        if taken {
            self.version = version(&response);
            self.plane.ack(&response);
        } else {
            self.plane.answer(&response, "ACK", 4010, "older than what is held");
        }
        (response, taken)
    }

    async fn until_taken(&mut self) -> SubscribeResponse {
        let taken = async {
            loop {
                if let (response, true) = self.next().await {
                    return response;
                }
            }
        };
        tokio::time::timeout(2 * PATIENCE, taken).await.expect("something newer in time")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_rise_across_restarts_and_what_was_deleted_meanwhile_is_gone() {
    let site = Site::start().await;
    site.limit("ten", "foo", 10).await;
    let first = site.replica("a").await;
    let plane = Plane::subscribed(first.address, LIMIT, "foo").await;
    let mut client = Holding { plane, version: 0 };
    assert_eq!(rules(&client.until_taken().await), 1);
    first.stop().await;
    site.delete(LIMIT, "ten").await;
    let second = site.replica("b").await;
    client.plane = Plane::subscribed(second.address, LIMIT, "foo").await;
    assert_eq!(rules(&client.until_taken().await), 0, "an empty set with a risen version");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_comes_from_a_replica_that_listed_later_is_told_the_version_of_a_list_made_now() {
    let site = Site::start().await;
    site.limit("ten", "foo", 10).await;
    let early = site.replica("early").await;
    let mut resident = Plane::subscribed(early.address, LIMIT, "foo").await;
    resident.until_rules(1).await;
    // Something else moves the cluster's number on.
    for _ in 0..5 {
        site.move_on("ten").await;
    }
    let late = site.replica("late").await;
    let plane = Plane::subscribed(late.address, LIMIT, "foo").await;
    let mut client = Holding { plane, version: 0 };
    client.until_taken().await;
    let held = client.version;
    client.plane = Plane::subscribed(early.address, LIMIT, "foo").await;
    let (response, taken) = client.next().await;
    assert!(!taken && version(&response) < held, "the same rules, from an earlier list");
    let response = client.until_taken().await;
    assert!(version(&response) < held + 1000, "no lift was needed: {} after {held}", version(&response));
    // A real change has a version of its own again, on either replica.
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 11 } })).await;
    let (response, taken) = client.next().await;
    assert!(taken && said(&response).0 == 200);
    assert!(version(&response) < held + 1000, "{} after {held}", version(&response));
    let response = resident.next().await;
    assert_eq!(said(&response).0, 200, "whoever stayed was told of the change, and of nothing else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_cluster_that_was_restored_is_sent_versions_above_what_it_holds() {
    let site = Site::start().await;
    site.limit("ten", "foo", 10).await;
    let replica = site.replica("a").await;
    let plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    // It remembers a number that this cluster is far from, though something moves it on all the time.
    let mut client = Holding { plane, version: 5_000_000_000 };
    let moving_on = async {
        loop {
            site.move_on("ten").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let response = tokio::select! {
        response = client.until_taken() => response,
        () = moving_on => unreachable!("it has no end"),
    };
    assert_eq!(rules(&response), 1);
    let newest = client.version;
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 11 } })).await;
    client.until_taken().await;
    assert!(client.version > newest, "what follows comes above it too");
}
