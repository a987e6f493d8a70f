//! Requests through the router, in simulated time.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::{Shared, router};
use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::counters::Counters;
use crate::faults::Switches;

fn serve(history: usize) -> (Router, Arc<Shared>) {
    let shared = Arc::new(Shared {
        cluster: RwLock::new(Cluster::new(history, Some(1), None)),
        counters: Counters::default(),
        faults: Switches::new(Vec::new(), 1, Some(1)).unwrap(),
        audit: Audit::default(),
        exec: None,
        stopping: CancellationToken::new(),
        sessions: TaskTracker::new(),
    });
    (router(shared.clone()), shared)
}

async fn ask(router: &Router, method: &str, path: &str, body: Value) -> http::Response<Body> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let request =
        Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

async fn map(router: &Router, name: &str) {
    let response =
        ask(router, "POST", "/api/v1/namespaces/default/configmaps", json!({ "metadata": { "name": name } }))
            .await;
    assert_eq!(response.status(), 201);
}

/// The next line of a watch.
async fn line(body: &mut Body) -> Option<Value> {
    let frame =
        tokio::time::timeout(Duration::from_secs(7200), body.frame()).await.expect("within two hours")?;
    Some(serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap())
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn an_idle_watch_sends_bookmarks_and_ends_in_time() {
    let (router, _) = serve(100);
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=100");
    let mut watch = ask(&router, "GET", &path, Value::Null).await.into_body();
    let started = tokio::time::Instant::now();
    for after in [60, 98] {
        assert_eq!(line(&mut watch).await.unwrap()["type"], "BOOKMARK");
        assert_eq!(started.elapsed().as_secs(), after);
    }
    assert!(line(&mut watch).await.is_none());
    assert_eq!(started.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_gets_an_error_and_costs_nothing() {
    let (router, _) = serve(5);
    let mut watch = ask(&router, "GET", &format!("{MAPS}?watch=1"), Value::Null).await.into_body();
    map(&router, "first").await;
    assert_eq!(line(&mut watch).await.unwrap()["type"], "ADDED");
    for n in 0..20 {
        map(&router, &format!("m{n}")).await;
    }
    let end = line(&mut watch).await.unwrap();
    assert_eq!((&end["type"], &end["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(line(&mut watch).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn watchers_share_one_encoding() {
    let (router, _) = serve(100);
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(ask(&router, "GET", &format!("{MAPS}?watch=1"), Value::Null).await.into_body());
    }
    map(&router, "a").await;
    let mut places = Vec::new();
    for watch in &mut watches {
        places.push(watch.frame().await.unwrap().unwrap().into_data().unwrap().as_ptr());
    }
    assert!(places.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_watches() {
    let (router, shared) = serve(100);
    let mut watch = ask(&router, "GET", &format!("{MAPS}?watch=1"), Value::Null).await.into_body();
    shared.stopping.cancel();
    assert!(line(&mut watch).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_idle_minute_makes_no_request_and_strange_paths_are_counted_together() {
    let (router, shared) = serve(100);
    map(&router, "a").await;
    let strange = [
        "/nowhere",
        "/apis/none/v1/things",
        "/apis/other/v1/things/x",
        "/apis/none",
        "/apis/none/v1",
        "/openapi/v3/x",
    ];
    for path in strange {
        assert_eq!(ask(&router, "GET", path, Value::Null).await.status(), 404);
    }
    for method in ["BREW", "WHEN"] {
        assert_eq!(ask(&router, method, "/readyz/etcd", Value::Null).await.status(), 405);
    }
    let before = shared.counters.all();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(shared.counters.all(), before);
    assert_eq!(before.len(), 3);
    assert_eq!((before[0].verb.as_str(), before[0].resource.as_str()), ("create", "configmaps"));
    assert_eq!((before[1].resource.as_str(), before[1].count), ("", strange.len() as u64));
    assert_eq!(
        (before[2].verb.as_str(), before[2].resource.as_str(), before[2].count),
        ("other", "/readyz", 2)
    );
}

#[tokio::test(start_paused = true)]
async fn ages_follow_simulated_time() {
    let (router, _) = serve(100);
    map(&router, "a").await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let request = Request::builder()
        .uri(MAPS)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Body::empty())
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let table: Value =
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(table["rows"][0]["cells"], json!(["a", 0, "3m20s"]));
}

#[tokio::test]
async fn fifty_watchers_see_a_thousand_objects_come() {
    let (router, _) = serve(10_000);
    let mut watches = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut watch = ask(&router, "GET", &format!("{MAPS}?watch=1"), Value::Null).await.into_body();
        watches.spawn(async move {
            for _ in 0..1000 {
                watch.frame().await.unwrap().unwrap();
            }
        });
    }
    for n in 0..1000 {
        map(&router, &format!("m{n}")).await;
    }
    while let Some(done) = watches.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_vanished_client_stops_its_command_even_with_stuck_input() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::exec::{Exec, ExecEnd, ExecIo, ExecRequest};

    struct Stuck(Arc<AtomicBool>);
    struct Stopped(Arc<AtomicBool>);
    impl Drop for Stopped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    #[async_trait::async_trait]
    impl Exec for Stuck {
        async fn admit(&self, _: &ExecRequest) -> Result<(), (u16, String, String)> {
            Ok(())
        }
        async fn run(&self, _: ExecRequest, _io: ExecIo) -> ExecEnd {
            let _stopped = Stopped(self.0.clone());
            std::future::pending().await
        }
    }

    let stopped = Arc::new(AtomicBool::new(false));
    let (_, shared) = serve(100);
    let mut shared = Arc::into_inner(shared).expect("the router is gone");
    shared.exec = Some(Arc::new(Stuck(stopped.clone())));
    let router = router(Arc::new(shared));
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    assert_eq!(ask(&router, "POST", "/api/v1/namespaces/default/pods", pod).await.status(), 201);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = "GET /api/v1/namespaces/default/pods/p/exec?command=x&stdin=true&stdout=true HTTP/1.1\r\n\
                   Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n";
    client.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    client.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 101");
    // Masked binary frames of 60,000 bytes of input, more than anybody buffers.
    let mut frame = vec![0x82, 0x80 | 126, 0xea, 0x60, 0, 0, 0, 0];
    frame.resize(8 + 60_000, 0);
    for _ in 0..40 {
        if tokio::time::timeout(Duration::from_millis(200), client.write_all(&frame)).await.is_err() {
            break;
        }
    }
    drop(client);
    let noticed = async {
        while !stopped.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), noticed).await.expect("the command is stopped");
    server.abort();
}

#[tokio::test]
async fn a_pods_log_is_text_and_empty_where_nobody_keeps_one() {
    let (router, _) = serve(100);
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    assert_eq!(ask(&router, "POST", "/api/v1/namespaces/default/pods", pod).await.status(), 201);
    let log = async |path: &str| {
        ask(&router, "GET", &format!("/api/v1/namespaces/default/pods/{path}"), Value::Null).await
    };
    let answer = log("p/log?container=c&tailLines=5&follow=true").await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"text/plain".parse().unwrap())
    );
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    for (path, code) in
        [("q/log", 404), ("p/log?container=x", 400), ("p/log?tailLines=-1", 400), ("p/log?tailLines=x", 400)]
    {
        assert_eq!(log(path).await.status(), code, "{path}");
    }
    assert_eq!(ask(&router, "GET", "/api/v1/nodes/n/log", Value::Null).await.status(), 404);
}
