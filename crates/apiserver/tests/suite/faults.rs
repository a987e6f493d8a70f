//! The faults and the audit of our own server: what goes wrong goes wrong as it does in a cluster, for
//! those it was meant for, and is over when it was switched off.

use std::time::{Duration, Instant};

use causeway_apiserver::{Config, Fault, Match, Server, Switch};
use futures::StreamExt;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::AttachParams, config::Kubeconfig};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, time::timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    cluster::config_of,
    exec::{Session, V4, V5, exec_path, make_pod},
    harness::{DEADLINE, JSON_PATCH, MERGE, Read, Scene, assert_says, config_map, scene_with},
    ours,
    watch::Watch,
    workloads::pod,
};

/// How long nothing may happen before a test believes that nothing will.
const SILENCE: Duration = Duration::from_millis(300);

async fn client(kubeconfig: &str) -> Client {
    let mut config = config_of(Kubeconfig::from_yaml(kubeconfig).expect("it parses")).await;
    // The client would hide a 429, 503 or 504 by asking again.
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

/// A scene on a server of its own.
async fn own(body: impl AsyncFnOnce(&Scene, &Server)) {
    let server = ours::start(ours::HISTORY).await;
    let client = client(&server.kubeconfig()).await;
    scene_with(client, async |t: &Scene| {
        body(t, &server).await;
        server.faults().clear();
    })
    .await;
    server.shutdown().await;
}

fn matching(verbs: &[&str], resources: &[&str]) -> Match {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    Match { verbs: texts(verbs), resources: texts(resources), ..Match::default() }
}

fn refuse(code: u16, percent: u8) -> Switch {
    Switch::Refuse { code, percent, retry_after_seconds: 0 }
}

/// Channel and data of every message of an exec session, up to its end.
async fn frames(mut session: Session) -> Vec<(u8, String)> {
    let mut frames = Vec::new();
    let reading = async {
        while let Some(Ok(message)) = session.socket.next().await {
            if let Message::Binary(frame) = message
                && let Some((channel, data @ [_, ..])) = frame.split_first()
            {
                frames.push((*channel, String::from_utf8_lossy(data).into_owned()));
            }
        }
    };
    timeout(DEADLINE, reading).await.expect("the session ends");
    frames
}

#[tokio::test]
async fn output_may_follow_the_status_and_then_the_rust_client_loses_it() {
    own(async |t: &Scene, server: &Server| {
        make_pod(t, pod("p"), "Running").await;
        let late = Fault::new(Switch::LateOutput { ms: 50 }).on(matching(&[], &["pods/exec"]));
        server.faults().set(vec![late]).expect("it makes sense");
        for protocol in [V4, V5] {
            let seen = frames(Session::open(t, protocol, "stdout=true", &["echo", "late"]).await).await;
            let channels: Vec<u8> = seen.iter().map(|(channel, _)| *channel).collect();
            assert_eq!(channels, [3, 1], "{protocol}: {seen:?}");
            assert_eq!(seen[1].1, "late\n");
        }
        let pods = Api::<Pod>::namespaced(t.client.clone(), &t.ns);
        let mut attached = pods
            .exec("p", ["echo", "late"], &AttachParams::default().stderr(false))
            .await
            .expect("it starts");
        let mut text = String::new();
        attached.stdout().expect("asked for").read_to_string(&mut text).await.expect("readable");
        assert_eq!(text, "", "kube waits for its output by now: this fault has lost its purpose");
        server.faults().clear();
        let seen = frames(Session::open(t, V5, "stdout=true", &["echo", "in time"]).await).await;
        assert_eq!(seen[0], (1, "in time\n".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_server_without_v5_chooses_v4() {
    own(async |t: &Scene, server: &Server| {
        make_pod(t, pod("p"), "Running").await;
        server.faults().set(vec![Fault::new(Switch::ExecV4)]).expect("it makes sense");
        let both = format!("{V5}, {V4}");
        let seen = frames(Session::offering(t, &both, V4, "stdout=true", &["echo", "x"]).await).await;
        assert_eq!(seen[0], (1, "x\n".to_owned()));
        let call = t.get(&exec_path(t, "p", "stdout=true", &["id"]));
        let call = call.header("connection", "Upgrade").header("upgrade", "websocket");
        let call = call
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let status = call.header("sec-websocket-protocol", V5).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &[V4]);
    })
    .await;
}

#[tokio::test]
async fn a_frozen_client_gets_no_answer_until_it_is_thawed_and_others_do() {
    own(async |t: &Scene, server: &Server| {
        let frozen = Scene::borrowed(t, client(&server.kubeconfig_as("frozen")).await);
        let query = "configmaps?watch=true&allowWatchBookmarks=true";
        let mut watch = Watch::of(frozen.get(&t.core(query))).await;
        let mut other = Watch::of(t.get(&t.core(query))).await;
        let only = Match { user: Some("frozen".into()), ..Match::default() };
        server.faults().set(vec![Fault::new(Switch::Freeze).on(only)]).expect("it makes sense");
        let path = t.core("configmaps");
        let mut write = std::pin::pin!(frozen.post(&path, config_map("a", "1")).into_future());
        assert!(timeout(SILENCE, &mut write).await.is_err(), "it was answered");
        t.config_map("b", "1").await;
        assert_eq!(other.expect("ADDED").await.name(), "b");
        assert!(timeout(SILENCE, watch.next()).await.is_err(), "its watch spoke");
        t.get(&t.core("configmaps/a")).await.expect(404);
        server.faults().clear();
        timeout(DEADLINE, write).await.expect("an answer").expect(201);
        assert_eq!(watch.expect("ADDED").await.name(), "b");
        assert_eq!(watch.expect("ADDED").await.name(), "a");
    })
    .await;
}

#[tokio::test]
async fn a_frozen_server_can_still_be_stopped() {
    let server = ours::start(ours::HISTORY).await;
    let client = client(&server.kubeconfig()).await;
    server.faults().set(vec![Fault::new(Switch::Freeze)]).expect("it makes sense");
    let request = http::Request::get("/api/v1/pods").body(Vec::new()).expect("a legal request");
    let asked = tokio::spawn(async move { client.request_text(request).await });
    tokio::time::sleep(SILENCE).await;
    assert!(!asked.is_finished(), "it was answered");
    timeout(Duration::from_secs(5), server.shutdown()).await.expect("it stops");
    assert!(timeout(DEADLINE, asked).await.expect("its client hears of it").expect("no panic").is_err());
}

#[tokio::test]
async fn a_frozen_exec_session_falls_silent() {
    own(async |t: &Scene, server: &Server| {
        make_pod(t, pod("p"), "Running").await;
        let folder = tempfile::tempdir().expect("a folder");
        let go_on = folder.path().join("go-on");
        let script = format!("echo one; until [ -e {} ]; do sleep 0.05; done; echo two", go_on.display());
        let mut session = Session::open(t, V5, "stdout=true", &["sh", "-c", &script]).await;
        loop {
            if let Some(Ok(Message::Binary(frame))) = session.socket.next().await
                && frame.ends_with(b"one\n")
            {
                break;
            }
        }
        server.faults().set(vec![Fault::new(Switch::Freeze)]).expect("it makes sense");
        std::fs::write(&go_on, "").expect("written");
        assert!(timeout(SILENCE * 2, session.socket.next()).await.is_err(), "it spoke");
        server.faults().clear();
        let seen = frames(session).await;
        assert_eq!(seen[0], (1, "two\n".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn storms_of_conflicts_and_throttling_strike_writes_at_their_rate() {
    own(async |t: &Scene, server: &Server| {
        t.config_map("a", "1").await;
        let writes = || matching(&["patch", "update"], &["configmaps"]);
        server.faults().set(vec![Fault::new(refuse(409, 50)).on(writes())]).expect("it makes sense");
        let mut codes = Vec::new();
        for n in 0..60 {
            let change = json!({"data": {"key": n.to_string()}});
            codes.push(t.patch(&t.core("configmaps/a"), MERGE, change).await.code);
        }
        let conflicts = codes.iter().filter(|code| **code == 409).count();
        assert!((15..45).contains(&conflicts), "{codes:?}");
        assert!(codes.iter().all(|code| [200, 409].contains(code)), "{codes:?}");
        t.get(&t.core("configmaps/a")).await.expect(200);
        let throttle = Switch::Refuse { code: 429, percent: 100, retry_after_seconds: 7 };
        server.faults().set(vec![Fault::new(throttle).on(writes())]).expect("it makes sense");
        let answer = t.put(&t.core("configmaps/a"), config_map("a", "3")).await;
        assert_eq!(answer.headers["retry-after"], "7");
        let status = answer.refused(429, "TooManyRequests");
        assert_eq!(status["details"]["retryAfterSeconds"], 7);
        server.faults().set(vec![Fault::new(refuse(409, 100)).on(writes())]).expect("it makes sense");
        let status = t.put(&t.core("configmaps/a"), config_map("a", "3")).await.refused(409, "Conflict");
        assert_says(status.text("/message"), &["the object has been modified"]);
    })
    .await;
}

#[tokio::test]
async fn a_right_that_is_missing_at_the_start_comes_by_itself() {
    let only = matching(&["list"], &["configmaps"]);
    let forbidden = Fault { for_ms: Some(5000), ..Fault::new(refuse(403, 100)).on(only) };
    let server =
        Server::start(Config { faults: vec![forbidden], ..Config::default() }).await.expect("starts");
    let client = client(&server.kubeconfig_as("someone")).await;
    scene_with(client, async |t: &Scene| {
        let status = t.get(&t.core("configmaps")).await.refused(403, "Forbidden");
        assert_says(
            status.text("/message"),
            &[r#"configmaps is forbidden: User "someone" cannot list resource "configmaps" in API group """#],
        );
        t.get("/api/v1/pods").await.expect(200);
        t.until_code(&t.core("configmaps"), 200).await;
    })
    .await;
}

#[tokio::test]
async fn a_stale_list_shows_the_past_and_a_slow_one_takes_its_time() {
    own(async |t: &Scene, server: &Server| {
        t.config_map("a", "1").await;
        let past = t.get(&t.core("configmaps")).await.expect(200);
        let lists = || matching(&["list", "watch"], &["configmaps"]);
        let stale = Fault::new(Switch::StaleLists { resource_version: None }).on(lists());
        server.faults().set(vec![stale]).expect("it makes sense");
        t.config_map("b", "1").await;
        let list = t.get(&t.core("configmaps")).await.expect(200);
        assert_eq!((list.names(), list.version()), (vec!["a"], past.version()));
        // A single object is what it is.
        let b = t.get(&t.core("configmaps/b")).await.expect(200);
        // A server that is behind has not come to a newer version yet.
        t.get(&t.core(&format!("configmaps?resourceVersion={}", b.version()))).await.expect(504);
        let mut watch = Watch::of(t.get(&t.core("configmaps?watch=true"))).await;
        assert_eq!(watch.expect("ADDED").await.name(), "a");
        assert_eq!(watch.expect("ADDED").await.name(), "b");
        let slow = Fault { times: Some(1), ..Fault::new(Switch::Delay { ms: 400 }).on(lists()) };
        server.faults().set(vec![slow]).expect("it makes sense");
        let asked = Instant::now();
        assert_eq!(t.get(&t.core("configmaps")).await.expect(200).names(), ["a", "b"]);
        assert!(asked.elapsed() >= Duration::from_millis(400), "{:?}", asked.elapsed());
        assert!(server.faults().all().is_empty(), "it struck once");
    })
    .await;
}

#[tokio::test]
async fn watches_are_closed_and_a_compacted_history_expires_the_next_one() {
    own(async |t: &Scene, server: &Server| {
        let before = t.config_map("a", "1").await;
        t.config_map("b", "1").await;
        let mut watch = Watch::of(t.get(&t.core("configmaps?watch=true"))).await;
        for name in ["a", "b"] {
            assert_eq!(watch.expect("ADDED").await.name(), name);
        }
        let maps = || matching(&["watch"], &["configmaps"]);
        let (close, compact) = (Fault::new(Switch::CloseWatches), Fault::new(Switch::Compacted));
        server.faults().set(vec![close.on(maps()), compact.on(maps())]).expect("it makes sense");
        assert_eq!(watch.next().await, None);
        let old = t.core(&format!("configmaps?watch=true&resourceVersion={}", before.version()));
        let error = Watch::of(t.get(&old)).await.expect("ERROR").await;
        assert_eq!((&error["code"], &error["reason"]), (&json!(410), &json!("Expired")));
        let now = t.get(&t.core("configmaps")).await.expect(200);
        let from_now = t.core(&format!("configmaps?watch=true&resourceVersion={}", now.version()));
        let mut watch = Watch::of(t.get(&from_now)).await;
        t.config_map("c", "1").await;
        assert_eq!(watch.expect("ADDED").await.name(), "c");
    })
    .await;
}

#[tokio::test]
async fn faults_are_switched_from_another_process_and_nonsense_is_refused() {
    own(async |t: &Scene, _: &Server| {
        let freeze = json!({"switch": "freeze", "match": {"user": "nobody"}});
        assert_eq!(t.post("/faults", freeze.clone()).await.expect(200), json!([freeze]));
        let storm = json!({
            "switch": {"refuse": {"code": 503}}, "match": {"verbs": ["get"], "resources": ["nodes"]}, "times": 1,
        });
        t.post("/faults", json!([storm])).await.expect(200);
        t.get("/api/v1/nodes/none").await.refused(503, "ServiceUnavailable");
        t.get("/api/v1/nodes/none").await.refused(404, "NotFound");
        // What has struck as often as it should is off.
        assert_eq!(t.get("/faults").await.expect(200), json!([freeze]));
        for (nonsense, why) in [
            (json!({"switch": "melt"}), "melt"),
            (json!({"switch": "freeze", "match": {"verb": "get"}}), "verb"),
            (json!({"switch": "freeze", "match": {"verbs": ["post"]}}), "post"),
            (json!([{"switch": {"refuse": {"code": 418}}}]), "418"),
            (json!({"switch": {"refuse": {"code": 409, "percent": 101}}}), "101"),
        ] {
            let status = t.put("/faults", nonsense).await.refused(400, "BadRequest");
            assert_says(status.text("/message"), &["no fault was switched", why]);
        }
        // Not even a frozen server keeps anybody from thawing it.
        t.put("/faults", json!({"switch": "freeze"})).await.expect(200);
        assert_eq!(t.call(Method::DELETE, "/faults").await.expect(200), json!([]));
    })
    .await;
}

fn lines(file: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("the audit");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[tokio::test]
async fn the_audit_says_who_wrote_what_after_whom() {
    own(async |t: &Scene, server: &Server| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit");
        t.put("/audit", json!({"file": "/nowhere/audit"})).await.refused(400, "BadRequest");
        t.put("/audit", json!({"file": file})).await.expect(200);
        let second = Scene::borrowed(t, client(&server.kubeconfig_as("second")).await);
        make_pod(t, pod("p"), "Running").await;
        frames(Session::open(t, V5, "stdout=true", &["true"]).await).await;
        let mut named = config_map("", "1");
        named["metadata"] = json!({"generateName": "g-"});
        let made = t.post(&t.core("configmaps?fieldManager=me"), named).header("user-agent", "suite/1").await;
        let made = made.expect(201);
        let path = t.core(&format!("configmaps/{}", made.name()));
        let change = json!([{"op": "add", "path": "/data/x", "value": "y"}]);
        let changed = second.patch(&path, JSON_PATCH, change).await.expect(200);
        t.get(&path).await.expect(200);
        second.put(&t.core("configmaps/none"), config_map("none", "1")).await.expect(404);
        second.delete(&path).await.expect(200);
        t.call(Method::DELETE, "/audit").await.expect(200);
        t.config_map("after", "1").await;
        let seen: Vec<[String; 6]> = lines(&file)
            .iter()
            .map(|line| {
                ["user", "verb", "resource", "subresource", "name", "code"]
                    .map(|key| line[key].as_str().map_or_else(|| line[key].to_string(), str::to_owned))
            })
            .collect();
        let name = made.name();
        assert_eq!(
            seen,
            [
                ["admin", "create", "pods", "", "p", "201"],
                ["admin", "patch", "pods", "status", "p", "200"],
                ["admin", "get", "pods", "exec", "p", "101"],
                ["admin", "create", "configmaps", "", name, "201"],
                ["second", "patch", "configmaps", "", name, "200"],
                ["second", "update", "configmaps", "", "none", "404"],
                ["second", "delete", "configmaps", "", name, "200"],
            ]
            .map(|line| line.map(str::to_owned))
        );
        let written = &lines(&file)[3..5];
        assert_eq!(
            (&written[0]["userAgent"], &written[0]["fieldManager"]),
            (&json!("suite/1"), &json!("me"))
        );
        assert_eq!(written[0]["resourceVersion"], made["metadata"]["resourceVersion"]);
        assert_eq!(written[1]["resourceVersion"], changed["metadata"]["resourceVersion"]);
        assert!(written[0]["time"].as_str() < written[1]["time"].as_str(), "{written:?}");
        assert_eq!(written[0]["namespace"], json!(t.ns));
    })
    .await;
}
