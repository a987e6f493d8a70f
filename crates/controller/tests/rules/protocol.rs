//! What clients see.

use std::time::Duration;

use causeway_core::rules::Kind;
use causeway_core::rules::wire::fault_tolerance::v1::RateLimitStrategy;
use causeway_core::rules::wire::transport::v1::{SubscribeRequest, SubscribeResponse};
use futures::future::join_all;
use prost::Message;
use serde_json::json;

use crate::plane::{LIMIT, PATIENCE, Plane, rules, said, target, version};
use crate::{Site, support};

fn thresholds(response: &SubscribeResponse) -> Vec<(String, i64)> {
    let data = &response.data_with_version.as_ref().expect("rules").data;
    let decoded = data.iter().map(|any| RateLimitStrategy::decode(&any.value[..]).expect("a strategy"));
    decoded.map(|strategy| (strategy.name, strategy.threshold)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_gets_its_rules_and_every_change_and_an_empty_set_at_the_end() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    site.limit("other", "bar", 1).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let first = plane.until_rules(1).await;
    assert_eq!(said(&first).1, "", "an answer with an ack is dropped with its data");
    assert_eq!(said(&first).2, "Get and send rule success");
    assert_eq!(
        (first.namespace.as_str(), first.app.as_str(), first.kind.as_str()),
        ("default", "foo", LIMIT.full_name())
    );
    assert_eq!(first.control_plane.as_ref().map(|it| it.identifier.as_str()), Some("osg-test"));
    assert!(!first.response_id.is_empty());
    assert_eq!(thresholds(&first), [("ten".to_owned(), 10)]);

    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 20 } })).await;
    let second = plane.next().await;
    assert_eq!(said(&second), (200, "", "Get and send rule success"));
    assert_eq!(thresholds(&second), [("ten".to_owned(), 20)]);
    assert!(version(&second) > version(&first) && second.response_id != first.response_id);

    site.delete(LIMIT, "ten").await;
    let last = plane.next().await;
    assert_eq!(rules(&last), 0, "a deleted last rule is an empty set");
    assert!(version(&last) > version(&second));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_without_identifiers_both_get_every_push_and_one_leaving_changes_nothing() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    let mut one = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let mut two = Plane::subscribed(replica.address, LIMIT, "foo").await;
    for plane in [&mut one, &mut two] {
        assert_eq!(
            said(&plane.next().await),
            (1, "", "Get and send rule success"),
            "who has no rule learns that"
        );
    }
    site.limit("ten", "foo", 10).await;
    assert_eq!((rules(&one.next().await), rules(&two.next().await)), (1, 1));
    drop(one);
    site.limit("twenty", "foo", 20).await;
    assert_eq!(rules(&two.next().await), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_and_the_stream_goes_on() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut plane = Plane::connect(replica.address).await;
    for (namespace, app, kinds) in [("", "foo", 1), ("default", "", 1), ("default", "foo", 0)] {
        let mut target = target(LIMIT, namespace, app);
        target.kinds.truncate(kinds);
        plane.send(SubscribeRequest {
            target: Some(target),
            request_id: "7".into(),
            ..SubscribeRequest::default()
        });
        let refused = plane.next().await;
        assert_eq!(said(&refused), (4002, "NACK", "Request is invalid"));
        assert_eq!(refused.response_id, "7");
    }
    plane.send(SubscribeRequest::default());
    assert_eq!(said(&plane.next().await).0, 4002);
    // A NACK without a status, of nothing that was sent: it killed the original.
    plane.send(SubscribeRequest { response_ack: "NACK".into(), ..SubscribeRequest::default() });
    let mut many = target(LIMIT, "default", "foo");
    many.kinds.insert(0, "fault-tolerance.opensergo.io/v1alpha1/Nothing".into());
    plane.subscribe(many);
    let refused = plane.next().await;
    assert_eq!(said(&refused).1, "NACK");
    assert!((4000..4100).contains(&said(&refused).0));
    assert_eq!(refused.kind, "fault-tolerance.opensergo.io/v1alpha1/Nothing");
    assert_eq!(rules(&plane.next().await), 1, "the other kinds are answered as usual");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsubscribing_works_and_a_relabelled_rule_moves() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut foo = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let mut bar = Plane::subscribed(replica.address, LIMIT, "bar").await;
    let mut all = Plane::subscribed(replica.address, LIMIT, "*").await;
    let mut green = Plane::connect(replica.address).await;
    green.subscribe_labelled(target(LIMIT, "default", "*"), &[("colour", "green")]);
    foo.until_rules(1).await;
    bar.until_rules(0).await;
    all.until_rules(1).await;
    green.until_rules(0).await;
    site.patch(LIMIT, "ten", json!({ "metadata": { "labels": { "app": "bar" } } })).await;
    assert_eq!((rules(&foo.next().await), rules(&bar.next().await)), (0, 1));
    site.patch(LIMIT, "ten", json!({ "metadata": { "labels": { "colour": "green" } } })).await;
    assert_eq!(rules(&green.next().await), 1);
    site.delete(LIMIT, "ten").await;
    assert_eq!((rules(&bar.next().await), rules(&all.next().await), rules(&green.next().await)), (0, 0, 0));
    bar.unsubscribe(target(LIMIT, "default", "bar"));
    // An answer to another subscription shows that this one was taken.
    bar.subscribe(target(LIMIT, "default", "baz"));
    bar.until_rules(0).await;
    site.limit("eleven", "bar", 11).await;
    assert_eq!(rules(&all.next().await), 1);
    bar.is_silent(Duration::from_millis(300)).await;
    foo.is_silent(Duration::from_millis(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_installed_later_is_answered_then_and_refused_until_then() {
    let site = Site::bare().await;
    let replica = site.replica("a").await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let refused = plane.next().await;
    assert_eq!((said(&refused).0, said(&refused).1), (4003, "NACK"));
    assert_eq!(refused.kind, LIMIT.full_name());
    for crd in causeway_api::rules::crds() {
        site.define(&crd).await;
    }
    site.limit("ten", "foo", 10).await;
    plane.until_rules(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_while_a_definition_is_replaced_is_answered_when_it_is_back() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut resident = Plane::subscribed(replica.address, LIMIT, "foo").await;
    resident.until_rules(1).await;
    let crd =
        causeway_api::rules::crds().into_iter().find(|crd| crd.spec.names.kind == LIMIT.name()).expect("it");
    site.undefine(&crd).await;
    let refused = tokio::time::timeout(PATIENCE, async {
        loop {
            let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
            if said(&plane.next().await).0 == 4003 {
                return plane;
            }
        }
    });
    let mut refused = refused.await.expect("it is noticed in time");
    resident.until_rules(0).await;
    site.define(&crd).await;
    refused.until_rules(0).await;
    resident.is_silent(Duration::from_millis(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_edits_ends_on_the_last_state_with_far_fewer_messages() {
    const RULES: i64 = 20;
    const EDITS: i64 = 1000;
    let site = Site::start().await;
    let replica = site.replica("a").await;
    for rule in 0..RULES {
        site.limit(&format!("storm{rule:02}"), "foo", 0).await;
    }
    let mut planes = Vec::new();
    for _ in 0..5 {
        let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
        plane.until_rules(20).await;
        planes.push(plane);
    }
    let (site, start) = (&site, std::time::Instant::now());
    let edits = (0..RULES).map(|rule| async move {
        for threshold in 1..=EDITS / RULES {
            site.patch(LIMIT, &format!("storm{rule:02}"), json!({ "spec": { "threshold": threshold } }))
                .await;
        }
    });
    let last: Vec<_> = (0..RULES).map(|rule| (format!("storm{rule:02}"), EDITS / RULES)).collect();
    let readers = planes.iter_mut().map(async |plane| {
        let (mut messages, mut newest) = (0, 0);
        loop {
            let response = plane.next().await;
            assert!(version(&response) > newest, "never an older one after a newer one");
            (messages, newest) = (messages + 1, version(&response));
            let thresholds = thresholds(&response);
            assert_eq!(thresholds.len(), last.len(), "never a part of a set");
            if thresholds == last {
                return messages;
            }
        }
    });
    let (_, messages) = tokio::join!(join_all(edits), join_all(readers));
    let windows = i64::try_from(start.elapsed().as_millis() / 20).expect("a number") + 1;
    let most = windows.min(EDITS / 2);
    assert!(messages.iter().all(|messages| *messages <= most), "{messages:?} messages in {windows} windows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_write_pushes_nothing() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    plane.until_rules(1).await;
    support::until("the status says so", async || site.status(LIMIT, "ten").await["acked"] == 1).await;
    plane.is_silent(Duration::from_millis(300)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_streams_with_a_word_and_not_all_at_once() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    let mut planes = Vec::new();
    for _ in 0..20 {
        let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
        plane.until_rules(0).await;
        planes.push(plane);
    }
    let start = std::time::Instant::now();
    let ends = async {
        let mut ends = Vec::new();
        for plane in &mut planes {
            let status = plane.end().await.expect("a word");
            assert_eq!(status.code(), tonic::Code::Unavailable);
            ends.push(start.elapsed());
        }
        ends
    };
    let (ends, ()) = tokio::join!(ends, replica.stop());
    assert!(ends.last().expect("twenty") > &Duration::from_millis(300), "spread over the drain: {ends:?}");
    assert!(start.elapsed() < PATIENCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_disconnected_and_others_do_not_notice() {
    let site = Site::start().await;
    let replica = site.replica_with("a", |options| options.stuck_after = Duration::from_secs(1)).await;
    // Sets that fill every buffer on the way after a few pushes.
    let resources: Vec<_> =
        (0..200).map(|at| json!({ "targetResourceName": format!("{at:01000}") })).collect();
    let spec = |first: &str| {
        let mut resources = resources.clone();
        resources[0] = json!({ "targetResourceName": first });
        json!({ "targets": resources, "strategies": [{ "name": "ten", "kind": "RateLimitStrategy" }] })
    };
    let kind = Kind::FaultToleranceRule;
    site.create(kind, "big", json!({ "app": "foo" }), spec("0")).await;
    let mut healthy = Plane::subscribed(replica.address, kind, "foo").await;
    let mut stuck = Plane::subscribed(replica.address, kind, "foo").await;
    // Two of an app share a connection with one that is not read: only that one ends.
    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://{}", replica.address)).expect("an address");
    let channel = endpoint.initial_connection_window_size(1 << 30).connect().await.expect("it listens");
    let mut unread = Plane::on(channel.clone()).await.expect("a stream");
    unread.subscribe(target(kind, "default", "foo"));
    let mut beside = Plane::on(channel).await.expect("a stream");
    beside.subscribe(target(LIMIT, "default", "foo"));
    beside.until_rules(0).await;
    healthy.until_rules(1).await;
    stuck.until_rules(1).await;
    unread.until_rules(1).await;
    for at in 1..60 {
        site.patch(kind, "big", json!({ "spec": spec(&at.to_string()) })).await;
        let response = healthy.next().await;
        healthy.ack(&response);
    }
    support::until("those that are stuck are found", async || {
        replica.metric("causeway_rules_stuck_streams_total") == 2
    })
    .await;
    site.patch(kind, "big", json!({ "spec": spec("last") })).await;
    healthy.next().await;
    support::until("two are left", async || replica.metric("causeway_rules_streams") == 2).await;
    assert_eq!(replica.metric("causeway_rules_stuck_streams_total"), 2);
    site.limit("ten", "foo", 10).await;
    beside.until_rules(1).await;
    drop((stuck, unread));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_than_there_may_be_are_refused_in_words() {
    let site = Site::start().await;
    let replica = site.replica_with("a", |options| options.most_streams = 2).await;
    let mut planes = Vec::new();
    for _ in 0..2 {
        let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
        plane.until_rules(0).await;
        planes.push(plane);
    }
    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://{}", replica.address)).expect("an address");
    let channel = endpoint.connect().await.expect("it listens");
    let refused = Plane::on(channel.clone()).await.err().expect("there are enough");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    planes.pop();
    support::until("there is room again", async || Plane::on(channel.clone()).await.is_ok()).await;
}
