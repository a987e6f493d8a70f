//! Watches on the wire: where they start, what they deliver and in which order, bookmarks, selectors,
//! their end.

use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, config_of},
    harness::{Call, DEADLINE, MERGE, Read, Scene, config_map, eventually, scene, scene_with},
    ours,
    widget::anything,
};

/// An open watch.
pub(crate) struct Watch {
    body: Body,
    unread: Vec<u8>,
}

impl Watch {
    /// Opens a watch, which must be accepted.
    pub(crate) async fn of(call: Call<'_>) -> Watch {
        let (head, body) = call.response().await.into_parts();
        if head.status != 200 {
            let text = body.collect().await.expect("a body").to_bytes();
            panic!("watch refused: {} {}", head.status, String::from_utf8_lossy(&text));
        }
        Watch { body, unread: Vec::new() }
    }

    /// The next event, or none when the server has ended the watch.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("each line is one event"));
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await;
            match frame.expect("an event within the deadline") {
                Some(frame) => {
                    self.unread.extend(frame.expect("a whole frame").into_data().unwrap_or_default());
                }
                None => return None,
            }
        }
    }

    /// The object of the next event, which must be of this type.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        let event = self.next().await.unwrap_or_else(|| panic!("the watch ended before {kind}"));
        assert_eq!(event["type"], kind, "{event}");
        event["object"].clone()
    }
}

fn number(object: &Value) -> u64 {
    object.version().parse().expect("a numeric version")
}

/// Only what the tests make, none of a controller's own.
const MINE: &str = "configmaps?watch=true&fieldSelector=metadata.name!%3Dkube-root-ca.crt";

#[tokio::test]
async fn a_watch_from_a_list_delivers_every_later_change_in_order() {
    scene(async |t: &Scene| {
        t.config_map("before", "1").await;
        let list = t.get(&t.core("configmaps")).await.expect(200);
        let path = t.core(&format!("{MINE}&resourceVersion={}", list.version()));
        let mut watch = Watch::of(t.get(&path)).await;
        let made = t.config_map("a", "1").await;
        let changed =
            t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"key": "2"}})).await.expect(200);
        t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"key": "2"}})).await.expect(200);
        t.delete(&t.core("configmaps/a")).await.expect(200);
        let events =
            [watch.expect("ADDED").await, watch.expect("MODIFIED").await, watch.expect("DELETED").await];
        assert_eq!(
            (&events[0], &events[1]),
            (&made, &changed),
            "and the write that changed nothing is not seen"
        );
        assert_eq!(events[2]["data"]["key"], "2", "a deleted object is shown as it last was");
        assert!(number(&events[1]) < number(&events[2]), "and has the version of its deletion");
        let path = t.core(&format!("{MINE}&resourceVersion={}", made.version()));
        let mut late = Watch::of(t.get(&path)).await;
        assert_eq!(late.expect("MODIFIED").await, changed, "history is kept for those who come later");
        late.expect("DELETED").await;
    })
    .await;
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_exists() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        t.config_map("b", "1").await;
        for version in ["", "&resourceVersion=", "&resourceVersion=0"] {
            let mut watch = Watch::of(t.get(&t.core(&format!("{MINE}{version}")))).await;
            let mut names =
                [watch.expect("ADDED").await, watch.expect("ADDED").await].map(|o| o.name().to_owned());
            names.sort();
            assert_eq!(names, ["a", "b"]);
            t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"key": format!("new{version}")}}))
                .await
                .expect(200);
            assert_eq!(watch.expect("MODIFIED").await.name(), "a");
        }
    })
    .await;
}

#[tokio::test]
async fn a_watch_crosses_namespaces_and_leaves_out_other_ones() {
    scene(async |t: &Scene| {
        let other = format!("{}-2", t.ns);
        t.make_namespace(&other).await;
        let widgets = t.widgets(anything()).await;
        let all = format!("/apis/{}/v1/widgets?watch=true", widgets.group);
        let mut everywhere = Watch::of(t.get(&all)).await;
        let mut here = Watch::of(t.get(&format!("{}?watch=true", widgets.path))).await;
        let there = widgets.path.replace(&t.ns, &other);
        t.post(&there, widgets.widget("there", json!({}))).await.expect(201);
        t.widget(&widgets, "here", json!({})).await;
        assert_eq!(everywhere.expect("ADDED").await.name(), "there");
        assert_eq!(everywhere.expect("ADDED").await.name(), "here");
        assert_eq!(here.expect("ADDED").await.name(), "here");
    })
    .await;
}

#[tokio::test]
async fn a_status_write_is_a_modification() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let made = t.widget(&widgets, "a", json!({})).await;
        let path = format!("{}?watch=true&resourceVersion={}", widgets.path, made.version());
        let mut watch = Watch::of(t.get(&path)).await;
        t.patch(&widgets.status("a"), MERGE, json!({"status": {"n": 1}})).await.expect(200);
        assert_eq!(watch.expect("MODIFIED").await["status"]["n"], 1);
    })
    .await;
}

#[tokio::test]
async fn a_finalized_deletion_is_a_modification_and_then_a_deletion() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let mut body = widgets.widget("a", json!({}));
        body["metadata"]["finalizers"] = json!(["example.com/x"]);
        let made = t.post(&widgets.path, body).await.expect(201);
        let path = format!("{}?watch=true&resourceVersion={}", widgets.path, made.version());
        let mut watch = Watch::of(t.get(&path)).await;
        t.delete(&widgets.at("a")).await.expect(200);
        t.patch(&widgets.at("a"), MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
        assert_ne!(watch.expect("MODIFIED").await.text("/metadata/deletionTimestamp"), "");
        watch.expect("DELETED").await;
    })
    .await;
}

#[tokio::test]
async fn an_object_that_leaves_the_selector_is_deleted_for_the_watcher() {
    scene(async |t: &Scene| {
        let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
        let start = t.config_map("a", "1").await;
        let path = t.core(&format!(
            "configmaps?watch=true&labelSelector=app%3Dx&resourceVersion={}",
            start.version()
        ));
        let mut watch = Watch::of(t.get(&path)).await;
        let at = t.core("configmaps/a");
        t.patch(&at, MERGE, label("x")).await.expect(200);
        assert_eq!(watch.expect("ADDED").await["metadata"]["labels"]["app"], "x");
        t.patch(&at, MERGE, json!({"data": {"key": "2"}})).await.expect(200);
        watch.expect("MODIFIED").await;
        let left = t.patch(&at, MERGE, label("y")).await.expect(200);
        let seen = watch.expect("DELETED").await;
        assert_eq!(seen["metadata"]["labels"]["app"], "x", "it is shown as it last matched");
        assert_eq!(seen.version(), left.version(), "with the version at which it left");
        t.patch(&at, MERGE, json!({"data": {"key": "3"}})).await.expect(200);
        t.patch(&at, MERGE, label("x")).await.expect(200);
        assert_eq!(watch.expect("ADDED").await["data"]["key"], "3");
        t.delete(&at).await.expect(200);
        watch.expect("DELETED").await;
    })
    .await;
}

#[tokio::test]
async fn a_field_selector_narrows_a_watch_to_one_object() {
    scene(async |t: &Scene| {
        let path = t.core("configmaps?watch=true&fieldSelector=metadata.name%3Db");
        let mut watch = Watch::of(t.get(&path)).await;
        t.config_map("a", "1").await;
        t.config_map("b", "1").await;
        assert_eq!(watch.expect("ADDED").await.name(), "b");
    })
    .await;
}

#[tokio::test]
async fn a_watch_ends_cleanly_when_its_time_is_up_after_a_bookmark() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let made = t.widget(&widgets, "a", json!({})).await;
        let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=4";
        let path = format!("{}?{query}&resourceVersion={}", widgets.path, made.version());
        let mut watch = Watch::of(t.get(&path)).await;
        let mark = watch.expect("BOOKMARK").await;
        assert!(number(&mark) >= number(&made));
        assert_eq!((&mark["kind"], mark.name()), (&json!("Widget"), ""));
        while let Some(event) = watch.next().await {
            assert_eq!(event["type"], "BOOKMARK");
        }
    })
    .await;
}

#[tokio::test]
async fn initial_events_are_streamed_up_to_a_marked_bookmark() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({})).await;
        let last = t.widget(&widgets, "b", json!({})).await;
        let query =
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        for version in ["", "&resourceVersion=0", &format!("&resourceVersion={}", last.version())] {
            let mut watch = Watch::of(t.get(&format!("{}?{query}{version}", widgets.path))).await;
            let mut seen = Vec::new();
            let mark = loop {
                let event = watch.next().await.expect("the watch goes on");
                if event["type"] == "BOOKMARK" {
                    break event["object"].clone();
                }
                assert_eq!(event["type"], "ADDED");
                seen.push(event["object"].name().to_owned());
            };
            seen.sort();
            assert_eq!(seen, ["a", "b"]);
            assert_eq!(mark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
            assert!(number(&mark) >= number(&last), "{mark}");
            t.patch(&widgets.at("a"), MERGE, json!({"spec": {"v": version}})).await.expect(200);
            assert_eq!(watch.expect("MODIFIED").await["spec"]["v"], version);
        }
    })
    .await;
}

#[tokio::test]
async fn without_initial_events_a_watch_starts_with_the_next_change() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({})).await;
        let query = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
        let mut watch = Watch::of(t.get(&format!("{}?{query}", widgets.path))).await;
        t.widget(&widgets, "b", json!({})).await;
        assert_eq!(watch.expect("ADDED").await.name(), "b");
    })
    .await;
}

#[tokio::test]
async fn initial_events_must_say_how_to_match_the_version() {
    scene(async |t: &Scene| {
        let path = t.core("configmaps?watch=true&sendInitialEvents=true");
        t.get(&path).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn a_version_that_is_too_old_has_expired() {
    let body = async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        let first = t.widget(&widgets, "a", json!({"n": 0})).await;
        // A real server's history of a kind begins with its definition, so version 1 is always too
        // old there; ours is asked for one that newer writes have pushed out.
        let old = if Cluster::get().ours { first.version() } else { "1" };
        for n in 1..=ours::SHORT_HISTORY * 2 {
            t.patch(&widgets.at("a"), MERGE, json!({"spec": {"n": n}})).await.expect(200);
        }
        let path = format!("{}?watch=true&resourceVersion={old}", widgets.path);
        let mut watch = Watch::of(t.get(&path)).await;
        let status = watch.expect("ERROR").await;
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(410)));
        assert_eq!(status["reason"], "Expired");
        assert!(status.text("/message").starts_with("too old resource version: "), "{status}");
        assert!(watch.next().await.is_none(), "nothing follows");
        t.get(&widgets.path).await.expect(200);
    };
    if !Cluster::get().ours {
        return scene(body).await;
    }
    let server = ours::start(ours::SHORT_HISTORY).await;
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&server.kubeconfig()).expect("ours parses");
    let client = Client::try_from(config_of(kubeconfig).await).expect("a client");
    scene_with(client, body).await;
}

#[tokio::test]
async fn many_watchers_see_the_same() {
    scene(async |t: &Scene| {
        let start = t.config_map("zero", "1").await;
        let path = t.core(&format!("{MINE}&resourceVersion={}", start.version()));
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(Watch::of(t.get(&path)).await);
        }
        for n in 0..20 {
            t.post(&t.core("configmaps"), config_map(&format!("m{n}"), "1")).await.expect(201);
        }
        for watch in &mut watches {
            for n in 0..20 {
                assert_eq!(watch.expect("ADDED").await.name(), format!("m{n}"));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_deleted_kind_ends_its_watches() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({})).await;
        let mut watch = Watch::of(t.get(&format!("{}?watch=true", widgets.path))).await;
        watch.expect("ADDED").await;
        t.delete(&widgets.definition()).await.expect(200);
        watch.expect("DELETED").await;
        eventually("the watch ends", async || watch.next().await.is_none().then_some(())).await;
    })
    .await;
}
