//! What is not as usual: sets that nobody could take, definitions without a status, kinds on demand, clients that ask for
//! too much or say what makes no sense.

use std::time::Duration;

use causeway_controller::rules::LATE;
use causeway_core::rules::Kind;
use causeway_core::rules::wire::transport::v1::{SubscribeRequest, SubscribeResponse};
use kube::api::PostParams;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::plane::{LIMIT, PATIENCE, Plane, rules, said, target};
use crate::{Site, support};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_larger_than_data_planes_take_is_not_sent_and_the_rule_says_so() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    let kind = Kind::FaultToleranceRule;
    let create = async |name: &str| {
        let targets: Vec<_> =
            (0..1000).map(|at| json!({ "targetResourceName": format!("{name}{at:0999}") })).collect();
        let spec =
            json!({ "targets": targets, "strategies": [{ "name": "ten", "kind": "RateLimitStrategy" }] });
        site.create(kind, name, json!({ "app": "foo" }), spec).await;
    };
    let mut plane = Plane::subscribed(replica.address, kind, "foo").await;
    plane.until_rules(0).await;
    for (at, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        create(name).await;
        plane.until_rules(at + 1).await;
    }
    create("e").await;
    support::until("the rule says so", async || {
        let status = site.status(kind, "e").await;
        status["lastFailure"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("more than data planes take"))
    })
    .await;
    plane.is_silent(Duration::from_millis(200)).await;
    site.delete(kind, "b").await;
    plane.until_rules(4).await;
    support::until("it is well", async || site.status(kind, "e").await["acked"] == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_definition_without_a_status_rules_are_sent_and_failures_are_events() {
    let site = Site::bare().await;
    for mut crd in causeway_api::rules::crds() {
        crd.spec.versions.iter_mut().for_each(|version| version.subresources = None);
        site.define(&crd).await;
    }
    let mut replica = site.replica("a").await;
    let mut said = replica.announced.take().expect("a line of events");
    site.limit("ten", "foo", 10).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let response = plane.next().await;
    plane.answer(&response, "NACK", 4000, "bad bytes");
    let mut next = async || {
        let said = tokio::time::timeout(PATIENCE, said.recv()).await;
        said.expect("in time").expect("an event").1
    };
    let news = next().await;
    assert_eq!((news.reason.as_str(), news.warning), ("Failed", true));
    assert!(news.note.contains("bad bytes"), "{}", news.note);

    // How many run it is no news, but that nobody refuses it any more is.
    let tried = || site.patches("ratelimitstrategies");
    let before = tried();
    let mut other = Plane::subscribed(replica.address, LIMIT, "foo").await;
    other.until_rules(1).await;
    support::until("the new count was tried to be written", async || tried() > before).await;
    drop(plane);
    let news = next().await;
    assert_eq!((news.reason.as_str(), news.warning), ("Acked", false), "{}", news.note);

    // Nobody asks for these two.
    site.limit("nobodys", "", 10).await;
    let news = next().await;
    assert_eq!((news.reason.as_str(), news.about.name.as_deref()), ("NoApp", Some("nobodys")));
    let breaker = Kind::CircuitBreakerStrategy;
    let spec = json!({ "strategy": "SlowRequestRatio", "triggerRatio": "60%", "statDuration": "30s",
                       "recoveryTimeout": "5s", "minRequestAmount": 5, "slowConditions": { "maxAllowedRt": "100d" } });
    site.create(breaker, "odd", json!({ "app": "bar" }), spec).await;
    let news = next().await;
    assert_eq!((news.reason.as_str(), news.about.name.as_deref()), ("Refused", Some("odd")));
    assert!(news.note.contains("spec.slowConditions.maxAllowedRt"), "{}", news.note);
    // Once each: another edit that mends nothing is no news, but mending is.
    site.patch(breaker, "odd", json!({ "metadata": { "annotations": { "a": "b" } } })).await;
    site.patch(breaker, "odd", json!({ "spec": { "slowConditions": { "maxAllowedRt": "100ms" } } })).await;
    let news = next().await;
    assert_eq!((news.reason.as_str(), news.warning), ("Converted", false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_a_crashed_replica_left_behind_goes_and_a_young_one_stays() {
    let site = Site::start().await;
    let now = jiff::Timestamp::now();
    for (name, age) in [("old", 7200), ("young", 600)] {
        let renewed = now - jiff::SignedDuration::from_secs(age);
        let lease = json!({
            "metadata": { "name": name, "labels": { "causeway/replica": "rules" } },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": 60, "renewTime": format!("{renewed:.6}") },
        });
        let lease = serde_json::from_value(lease).expect("a lease");
        site.leases().create(&PostParams::default(), &lease).await.expect("created");
    }
    let _replica = site.replica("a").await;
    let there = async |name| site.leases().get_opt(name).await.expect("an answer").is_some();
    support::until("the old one is gone", async || !there("old").await).await;
    assert!(there("young").await && there("causeway-rules-a").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_does_not_begin_is_let_go() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    let mut silent = TcpStream::connect(replica.address).await.expect("it listens");
    let mut halting = TcpStream::connect(replica.address).await.expect("it listens");
    halting.write_all(b"PRI * HTTP").await.expect("written");
    for socket in [&mut silent, &mut halting] {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        assert_eq!(ended.expect("it ends in time").unwrap_or_default(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_asks_for_nothing_is_ended_and_one_that_has_asked_stays() {
    let site = Site::start().await;
    let within = Duration::from_secs(1);
    let replica = site.replica_with("a", |options| options.asks_within = within).await;
    let mut asks = Plane::subscribed(replica.address, LIMIT, "foo").await;
    assert_eq!(said(&asks.next().await).0, 1);
    let mut silent = Plane::connect(replica.address).await;
    let end = silent.end().await.expect("an end with a word");
    assert_eq!((end.code(), end.message()), (tonic::Code::DeadlineExceeded, "nothing was asked for in time"));
    asks.is_silent(within).await;
    site.limit("ten", "foo", 10).await;
    asks.until_rules(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_what_there_may_be_are_closed_until_others_have_gone() {
    let site = Site::start().await;
    let replica = site.replica_with("a", |options| options.most_streams = 1).await;
    let connect = async || TcpStream::connect(replica.address).await.expect("it listens");
    let mut held = Vec::new();
    for _ in 0..=LATE {
        held.push(connect().await);
    }
    let is_closed = async |socket: &mut TcpStream| {
        let read = tokio::time::timeout(Duration::from_millis(300), socket.read(&mut [0; 1])).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    };
    support::until("the next is closed at once", async || is_closed(&mut connect().await).await).await;
    held.clear();
    support::until("there is room again", async || !is_closed(&mut connect().await).await).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    assert_eq!(said(&plane.next().await).0, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_demand_a_kind_is_followed_while_somebody_asks_for_it() {
    // Long enough that the status says that nobody asks.
    const LINGER: Duration = Duration::from_secs(2);
    let site = Site::start().await;
    let replica = site.replica_with("a", |options| options.on_demand = Some(LINGER)).await;
    site.limit("ten", "foo", 10).await;
    let watches = || site.watches("ratelimitstrategies");
    assert_eq!(watches(), 0, "nobody asks");
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    plane.until_rules(1).await;
    assert_eq!(site.watches("trafficrouters"), 0, "nobody asks for those");
    assert!(watches() > 0);
    drop(plane);
    support::until("the status says that nobody asks", async || {
        let status = site.status(LIMIT, "ten").await;
        status["conditions"].to_string().contains("NoSubscriber")
    })
    .await;
    let before = watches();
    support::until("it was let go, and is followed anew for the next", async || {
        // Whoever comes too early keeps it followed.
        tokio::time::sleep(LINGER + Duration::from_millis(300)).await;
        let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
        plane.until_rules(1).await;
        watches() > before
    })
    .await;
    // What changes while nobody asks is there when somebody does.
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 99 } })).await;
    let mut plane = Plane::subscribed(replica.address, LIMIT, "foo").await;
    let is_new = |response: SubscribeResponse| {
        let data = response.data_with_version.map(|data| data.data).unwrap_or_default();
        data.iter().any(|rule| rule.value.ends_with(&[0x20, 99, 0x28, 1, 0x30, 2]))
    };
    while !is_new(plane.next().await) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_any_text_and_thousands_of_subscriptions_get_answers_and_leave_nothing() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    let mut plane = Plane::connect(replica.address).await;
    for app in ["😀", "a/b", "../..", "\u{0}", " ", &"x".repeat(2000), "*x"] {
        plane.subscribe(target(LIMIT, "no such namespace", app));
        let response = plane.next().await;
        assert_eq!((said(&response).0, rules(&response), response.app.as_str()), (1, 0, app));
    }
    for at in 0..9000 {
        plane.subscribe(target(LIMIT, "default", &format!("app{at}")));
    }
    let (mut answered, mut refused) = (0, 0);
    while answered + refused < 9000 {
        let response = plane.next().await;
        match said(&response) {
            (1, "", _) => answered += 1,
            (4004, "NACK", _) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(answered >= 8000 && refused > 0, "{answered} answered, {refused} refused");
    drop(plane);
    support::until("the stream is gone", async || replica.metric("causeway_rules_streams") == 0).await;
}

/// As an SDK does that comes back: all that it wants, one by one, and then all answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_of_requests_and_of_answers_break_no_connection() {
    const APPS: usize = 3000;
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "app0", 10).await;
    let mut plane = Plane::connect(replica.address).await;
    for app in 0..APPS {
        plane.subscribe(target(LIMIT, "default", &format!("app{app}")));
    }
    let mut responses = Vec::new();
    for _ in 0..APPS {
        responses.push(plane.next().await);
    }
    responses.iter().for_each(|response| plane.ack(response));
    support::until("every answer counts", async || site.status(LIMIT, "ten").await["acked"] == 1).await;
    site.limit("eleven", "app2999", 11).await;
    plane.until_rules(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_too_many_kinds_or_of_endless_names_is_refused_as_a_whole() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    let mut plane = Plane::connect(replica.address).await;
    let mut many = target(LIMIT, &"n".repeat(4000), "foo");
    many.kinds = vec![String::new(); 16_000];
    plane.subscribe(many);
    plane.subscribe(target(LIMIT, &"n".repeat(32_000), "foo"));
    plane.subscribe(target(LIMIT, "default", "foo"));
    for _ in 0..2 {
        assert_eq!(said(&plane.next().await).0, 4002);
    }
    plane.until_rules(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_asks_for_so_many_bytes_of_names_and_no_more() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    let mut plane = Plane::connect(replica.address).await;
    let app = |at: usize| format!("{at:04000}");
    for at in 0..300 {
        plane.subscribe(target(LIMIT, "default", &app(at)));
    }
    let mut answered = 0;
    loop {
        let response = plane.next().await;
        match said(&response) {
            (1, "", _) => answered += 1,
            (4004, "NACK", _) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((200..300).contains(&answered), "{answered} of four kilobytes each");
    // Whoever lets one go may have another.
    (0..10).for_each(|at| plane.unsubscribe(target(LIMIT, "default", &app(at))));
    plane.subscribe(target(LIMIT, "default", "small"));
    loop {
        let response = plane.next().await;
        if response.app == "small" {
            assert_eq!(said(&response).0, 1);
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_calls_itself_or_says_moves_no_cursor() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut plane = Plane::connect(replica.address).await;
    plane.send(SubscribeRequest {
        identifier: "me\u{1b}[31m".into(),
        target: Some(target(LIMIT, "default", "foo")),
        ..SubscribeRequest::default()
    });
    let response = plane.next().await;
    plane.answer(&response, "NACK", 4000, "a\r\n\u{202e}b");
    support::until("it is told", async || site.status(LIMIT, "ten").await["failed"] == 1).await;
    let failure = site.status(LIMIT, "ten").await["lastFailure"].clone();
    assert!(failure["client"].as_str().is_some_and(|client| client.starts_with("me�[31m (")), "{failure}");
    assert_eq!(failure["message"], "a���b");
}

/// Whoever counts asks the state and the streams, and so does whoever pushes: neither may hold one while it waits for the
/// other. It takes three to wait in a ring.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn counting_pushing_joining_and_leaving_all_at_once_never_wait_in_a_ring() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 0).await;
    let address = replica.address;
    let coming_and_going = async |_| {
        for _ in 0..40 {
            let mut plane = Plane::subscribed(address, LIMIT, "foo").await;
            plane.subscribe(target(LIMIT, "default", "*"));
            let response = plane.next().await;
            plane.ack(&response);
        }
    };
    let editing = async {
        for threshold in 1..400 {
            site.patch(LIMIT, "ten", json!({ "spec": { "threshold": threshold } })).await;
        }
    };
    tokio::join!(futures::future::join_all((0..16).map(coming_and_going)), editing);
    let mut plane = Plane::subscribed(address, LIMIT, "foo").await;
    plane.until_rules(1).await;
    support::until("only this one counts", async || site.status(LIMIT, "ten").await["acked"] == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_bytes_oversized_requests_and_half_open_connections_hurt_nobody() {
    let site = Site::start().await;
    let replica = site.replica("a").await;
    site.limit("ten", "foo", 10).await;
    let mut healthy = Plane::subscribed(replica.address, LIMIT, "foo").await;
    healthy.until_rules(1).await;
    let mut half_open = Vec::new();
    let mut chance = fastrand::Rng::with_seed(7);
    for round in 0..50 {
        let mut socket = TcpStream::connect(replica.address).await.expect("it listens");
        if round % 2 == 0 {
            socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("written");
        }
        let bytes: Vec<u8> = (0..chance.usize(1..5000)).map(|_| chance.u8(..)).collect();
        let _ = socket.write_all(&bytes).await;
        if round % 5 == 0 {
            half_open.push(socket);
        } else {
            let mut rest = Vec::new();
            let _ = tokio::time::timeout(Duration::from_millis(20), socket.read_to_end(&mut rest)).await;
        }
    }
    let mut huge = Plane::connect(replica.address).await;
    let mut request = target(LIMIT, "default", "foo");
    request.kinds = vec!["x".repeat(100_000)];
    huge.subscribe(request);
    assert_eq!(huge.end().await.map(|status| status.code()), Some(tonic::Code::OutOfRange));
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 11 } })).await;
    assert_eq!(rules(&healthy.next().await), 1);
    drop(half_open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losing_and_winning_the_lease_drops_no_stream_and_sends_nothing_twice() {
    let site = Site::start().await;
    let (a, b) = (site.replica("a").await, site.replica("b").await);
    site.limit("ten", "foo", 10).await;
    let mut planes =
        [Plane::subscribed(a.address, LIMIT, "foo").await, Plane::subscribed(b.address, LIMIT, "foo").await];
    for plane in &mut planes {
        plane.until_rules(1).await;
    }
    let leads = |replica: &crate::Replica| {
        replica.house.metrics.encode().contains("causeway_leader{room=\"rules\"} 1")
    };
    support::until("one leads", async || leads(&a) || leads(&b)).await;
    let was_a = leads(&a);
    let user = if was_a { "a" } else { "b" };
    site.freeze_leases(user);
    support::until("the other leads", async || if was_a { leads(&b) } else { leads(&a) }).await;
    site.clear_faults();
    for plane in &mut planes {
        plane.is_silent(Duration::from_millis(500)).await;
    }
    site.patch(LIMIT, "ten", json!({ "spec": { "threshold": 11 } })).await;
    for plane in &mut planes {
        assert_eq!(rules(&plane.next().await), 1);
        plane.is_silent(Duration::from_millis(200)).await;
    }
}
