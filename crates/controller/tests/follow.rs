//! Following a kind: what is listed, what changes, and the three ways of seeing nothing.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::follow::{Interruption, Pace, Seen, Watch};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::core::DeserializeGuard;
use kube::{Api, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use support::{client, server, until};

type Said = Result<Seen<String, String>, String>;

/// What a follower said so far; it ends with this.
struct Follower {
    said: Arc<Mutex<Vec<Said>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    fn of<K>(watch: Watch<K>) -> Self
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + Send
            + 'static,
        DeserializeGuard<K>: ResourceExt,
    {
        let said: Arc<Mutex<Vec<Said>>> = Arc::default();
        let heard = said.clone();
        let tell = move |seen: Result<Seen<String, String>, Interruption>| {
            heard.lock().expect("no panic").push(seen.map_err(|Interruption(why)| why));
        };
        let convert = |object: &DeserializeGuard<K>| {
            (object.name_any(), Some(object.labels().get("text").cloned().unwrap_or_default()))
        };
        let task = tokio::spawn(async move { match watch.follow(Pace::seeded(1), convert, tell).await {} });
        Self { said, task }
    }

    fn said(&self) -> Vec<Said> {
        self.said.lock().expect("no panic").clone()
    }

    /// What is there as far as it has said.
    fn known(&self) -> Option<BTreeMap<String, String>> {
        let mut known: Option<BTreeMap<String, String>> = None;
        for seen in self.said().into_iter().flatten() {
            match seen {
                Seen::All { objects, .. } => known = Some(objects),
                Seen::Put(key, value) => drop(known.as_mut()?.insert(key, value)),
                Seen::Gone(key) => drop(known.as_mut()?.remove(&key)),
                Seen::Missing | Seen::Forbidden(_) => {}
            }
        }
        known
    }

    async fn knows(&self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        until(&format!("{expected:?}"), || async { self.known().as_ref() == Some(&expected) }).await;
    }

    fn lists(&self) -> usize {
        self.said().iter().filter(|said| matches!(said, Ok(Seen::All { .. }))).count()
    }
}

fn maps(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(client(server, "somebody"), "default")
}

fn watch(server: &Server) -> Watch<ConfigMap> {
    Watch::new(Api::namespaced(client(server, "follower"), "default"))
}

async fn put(maps: &Api<ConfigMap>, name: &str, text: &str) {
    let map = json!({ "metadata": { "name": name, "labels": { "text": text } } });
    let map: ConfigMap = serde_json::from_value(map).expect("a ConfigMap");
    match maps.get_opt(name).await.expect("an answer") {
        Some(old) => {
            let metadata =
                kube::api::ObjectMeta { resource_version: old.resource_version(), ..map.metadata.clone() };
            let map = ConfigMap { metadata, ..map };
            maps.replace(name, &PostParams::default(), &map).await.map(drop)
        }
        None => maps.create(&PostParams::default(), &map).await.map(drop),
    }
    .expect("written");
}

fn on(verb: &str, switch: Switch) -> Fault {
    Fault::new(switch).on(Match {
        verbs: vec![verb.into()],
        user_agent: Some("follower".into()),
        ..Match::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_list_with_its_version_then_every_change() {
    let server = server().await;
    let maps = maps(&server);
    put(&maps, "a", "1").await;
    let follower = Follower::of(watch(&server));
    follower.knows(&[("a", "1")]).await;
    let listed =
        maps.list(&kube::api::ListParams::default()).await.expect("a list").metadata.resource_version;
    let Some(Ok(Seen::All { version, .. })) = follower.said().into_iter().next() else { panic!("no list") };
    assert_eq!(Some(version), listed);
    put(&maps, "b", "2").await;
    put(&maps, "a", "3").await;
    maps.delete("b", &DeleteParams::default()).await.expect("deleted");
    follower.knows(&[("a", "3")]).await;
    assert_eq!(follower.lists(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_nobody_could_watch_is_seen_afterwards() {
    let server = server().await;
    let maps = maps(&server);
    put(&maps, "a", "1").await;
    put(&maps, "b", "1").await;
    let follower = Follower::of(watch(&server));
    follower.knows(&[("a", "1"), ("b", "1")]).await;
    let faults = vec![
        on("watch", Switch::CloseWatches),
        on("watch", Switch::Refuse { code: 503, percent: 100, retry_after_seconds: 0 }),
    ];
    server.faults().set(faults).expect("faults");
    maps.delete("a", &DeleteParams::default()).await.expect("deleted");
    put(&maps, "c", "1").await;
    server.faults().set(vec![on("watch", Switch::Compacted)]).expect("faults");
    until("it lists again", || async { follower.lists() > 1 }).await;
    server.faults().clear();
    follower.knows(&[("b", "1"), ("c", "1")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_lists_everything_anew() {
    let server = server().await;
    put(&maps(&server), "a", "1").await;
    let follower = Follower::of(watch(&server).resync(Duration::from_secs(120)));
    tokio::time::sleep(Duration::from_secs(121 * 3)).await;
    assert_eq!(follower.lists(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_read_is_said_after_a_while_and_asked_for_again() {
    let server = server().await;
    put(&maps(&server), "a", "1").await;
    let forbidden = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    server.faults().set(vec![on("watch", forbidden.clone()), on("list", forbidden)]).expect("faults");
    let follower = Follower::of(watch(&server));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        follower.said().iter().all(Result::is_err),
        "a server that is starting forbids everything: {:?}",
        follower.said()
    );
    until("it says so", || async {
        follower.said().iter().any(|said| matches!(said, Ok(Seen::Forbidden(_))))
    })
    .await;
    server.faults().clear();
    follower.knows(&[("a", "1")]).await;
}

/// A kind of nobody's.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_differs_from_no_objects_and_one_installed_later_is_picked_up() {
    use kube::CustomResourceExt;
    let server = server().await;
    let somebody = client(&server, "somebody");
    let widgets = Watch::<Widget>::new(Api::namespaced(client(&server, "follower"), "default"));
    let follower = Follower::of(widgets);
    until("it is missing", || async { follower.said().contains(&Ok(Seen::Missing)) }).await;
    assert_eq!(follower.known(), None);
    let definitions = Api::all(somebody);
    definitions.create(&PostParams::default(), &Widget::crd()).await.expect("installed");
    follower.knows(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_in_pages() {
    let server = server().await;
    let maps = maps(&server);
    for number in 0..1203 {
        put(&maps, &format!("m{number:04}"), "1").await;
    }
    let no_streams = client_without_streams(&server);
    let follower = Follower::of(Watch::<ConfigMap>::new(Api::namespaced(no_streams, "default")));
    until("all are listed", || async { follower.known().is_some_and(|known| known.len() == 1203) }).await;
    put(&maps, "m0001", "2").await;
    until("changes are seen", || async { follower.known().is_some_and(|known| known["m0001"] == "2") }).await;
    assert_eq!(follower.lists(), 1);
    let lists = server
        .requests()
        .into_iter()
        .filter(|count| count.verb == "list")
        .map(|count| count.count)
        .sum::<u64>();
    assert_eq!(lists, 3, "pages of 500");
}

/// As servers before 1.32 answer: no `sendInitialEvents`.
fn client_without_streams(server: &Server) -> kube::Client {
    let inner = client(server, "follower");
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        async move {
            if request.uri().query().is_some_and(|query| query.contains("sendInitialEvents")) {
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422,
                    "reason": "Invalid", "message": "sendInitialEvents is forbidden for watch" });
                let body = kube::client::Body::from(status.to_string().into_bytes());
                return Ok(http::Response::builder().status(422).body(body).expect("an answer"));
            }
            inner.send(request).await
        }
    });
    kube::Client::new(service, "default")
}
