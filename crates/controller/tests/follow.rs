//! Following a kind: what is listed, what changes, and the three ways of seeing nothing.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::follow::{Interruption, Seen, Spread, Watch};
use causeway_controller::found::Found;
use causeway_controller::pace::Pace;
use causeway_core::room::Change;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use support::{Log, client, server, until};

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
    {
        let said: Arc<Mutex<Vec<Said>>> = Arc::default();
        let heard = said.clone();
        let tell = move |seen: Result<Seen<String, String>, Interruption>| {
            heard.lock().expect("no panic").push(seen.map_err(|Interruption(why)| why));
        };
        let convert = |object: &Found<K>| {
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
                Seen::Put(key, value, _) => drop(known.as_mut()?.insert(key, value)),
                Seen::Gone(key, _) => drop(known.as_mut()?.remove(&key)),
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

/// The version of all that has happened so far.
async fn version(maps: &Api<ConfigMap>) -> String {
    let list = maps.list(&kube::api::ListParams::default()).await.expect("a list");
    list.metadata.resource_version.expect("a version")
}

#[tokio::test(start_paused = true)]
async fn a_list_then_every_change_and_every_end_each_with_its_version() {
    let server = server().await;
    let maps = maps(&server);
    put(&maps, "a", "1").await;
    let follower = Follower::of(watch(&server));
    follower.knows(&[("a", "1")]).await;
    let listed = version(&maps).await;
    put(&maps, "b", "2").await;
    let put_b = version(&maps).await;
    put(&maps, "a", "3").await;
    let put_a = version(&maps).await;
    maps.delete("b", &DeleteParams::default()).await.expect("deleted");
    let gone_b = version(&maps).await;
    follower.knows(&[("a", "3")]).await;
    let said: Vec<_> =
        follower.said().into_iter().flatten().map(|seen| seen.change().expect("a change")).collect();
    let versions: Vec<&str> = said.iter().map(|(_, version)| version.as_str()).collect();
    assert_eq!(versions, [&listed, &put_b, &put_a, &gone_b]);
    assert!(matches!(&said[3].0, Change::Gone(name) if name == "b"), "{said:?}");
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
    let (log, _guard) = Log::listen();
    let server = server().await;
    let somebody = client(&server, "somebody");
    let widgets = Watch::<Widget>::new(Api::namespaced(client(&server, "follower"), "default"));
    let follower = Follower::of(widgets);
    until("it is missing", || async { follower.said().contains(&Ok(Seen::Missing)) }).await;
    assert_eq!(follower.known(), None);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let warnings = log.lines("WARN");
    assert_eq!(warnings.len(), 1, "what is known fills no log: {warnings:#?}");
    let definitions = Api::all(somebody);
    definitions.create(&PostParams::default(), &Widget::crd()).await.expect("installed");
    follower.knows(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_comes_and_goes_is_listed_soon_each_time() {
    use kube::CustomResourceExt;
    let server = server().await;
    let somebody = client(&server, "somebody");
    let definitions = Api::<CustomResourceDefinition>::all(somebody);
    let widgets = Watch::<Widget>::new(Api::namespaced(client(&server, "follower"), "default"));
    let follower = Follower::of(widgets);
    for round in 1..=8 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        definitions.create(&PostParams::default(), &Widget::crd()).await.expect("installed");
        let start = tokio::time::Instant::now();
        until("it is listed", || async { follower.lists() == round }).await;
        assert!(start.elapsed() < Duration::from_secs(8), "round {round}: {:?}", start.elapsed());
        definitions.delete("widgets.example.org", &DeleteParams::default()).await.expect("deleted");
    }
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
    client_with(server, |_| {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422,
            "reason": "Invalid", "message": "sendInitialEvents is forbidden for watch" });
        (422, Body::from(status.to_string().into_bytes()))
    })
}

/// A client whose streaming lists are answered so, given how many there were before.
fn client_with(
    server: &Server,
    answer: impl Fn(usize) -> (u16, Body) + Send + Sync + 'static,
) -> kube::Client {
    let inner = client(server, "follower");
    let (answer, asked) = (Arc::new(answer), Arc::new(Mutex::new(0)));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, answer, asked) = (inner.clone(), answer.clone(), asked.clone());
        async move {
            if request.uri().query().is_some_and(|query| query.contains("sendInitialEvents")) {
                let before = {
                    let mut asked = asked.lock().expect("no panic");
                    *asked += 1;
                    *asked - 1
                };
                let (status, body) = answer(before);
                return Ok::<_, kube::Error>(
                    http::Response::builder().status(status).body(body).expect("an answer"),
                );
            }
            Ok(inner.send(request).await?.map(Body::new))
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_never_ends_is_said_and_after_the_second_one_pages_are_listed() {
    let silence = || Body::from_stream(futures::stream::pending::<kube::Result<bytes::Bytes>>());
    type Answer = Box<dyn Fn(usize) -> (u16, Body) + Send + Sync>;
    let cases: [(&str, Answer); 2] = [
        ("the list ended in the middle", Box::new(|_| (200, Body::empty()))),
        ("the list stalled", Box::new(move |_| (200, silence()))),
    ];
    for (why, answer) in cases {
        let server = server().await;
        let maps = maps(&server);
        put(&maps, "a", "1").await;
        let follower =
            Follower::of(Watch::<ConfigMap>::new(Api::namespaced(client_with(&server, answer), "default")));
        follower.knows(&[("a", "1")]).await;
        let said: Vec<_> = follower.said().into_iter().filter_map(Result::err).collect();
        assert_eq!(said, [why, why]);
        put(&maps, "a", "2").await;
        follower.knows(&[("a", "2")]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_server_stops_sending_bookmarks_is_opened_anew() {
    let server = server().await;
    let maps = maps(&server);
    put(&maps, "a", "1").await;
    let version = version(&maps).await;
    let stopped = move |_| {
        let map = |annotations| {
            json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": {
                "name": "a", "namespace": "default", "labels": { "text": "1" }, "resourceVersion": version,
                "annotations": annotations,
            }})
        };
        let end = json!({ "k8s.io/initial-events-end": "true" });
        let events = [("ADDED", json!({})), ("BOOKMARK", end), ("BOOKMARK", json!({}))];
        let lines = events.map(|(kind, annotations)| {
            Ok::<_, kube::Error>(format!("{}\n", json!({ "type": kind, "object": map(annotations) })))
        });
        let stream = futures::stream::iter(lines).chain(futures::stream::pending());
        (200, Body::from_stream(stream))
    };
    let follower =
        Follower::of(Watch::<ConfigMap>::new(Api::namespaced(client_with(&server, stopped), "default")));
    follower.knows(&[("a", "1")]).await;
    put(&maps, "a", "2").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(follower.known().expect("listed")["a"], "1", "a bookmark a minute is enough");
    // Long before the server would have ended it.
    tokio::time::sleep(Duration::from_secs(140)).await;
    assert_eq!(follower.known().expect("listed")["a"], "2");
}

#[tokio::test(start_paused = true)]
async fn many_that_start_or_lose_their_server_together_do_not_arrive_together() {
    let server = server().await;
    let start = tokio::time::Instant::now();
    let spread = Spread { first: Duration::from_secs(10), later: Duration::from_secs(10) };
    let arrivals: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let mut followers = tokio::task::JoinSet::new();
    for number in 0..100 {
        let api: Api<Found<ConfigMap>> = Api::all(client(&server, "one of many"));
        let arrivals = arrivals.clone();
        let convert = |object: &Found<ConfigMap>| (object.name_any(), Some(()));
        followers.spawn(async move {
            let tell = |seen: Result<Seen<String, ()>, Interruption>| {
                if matches!(seen, Ok(Seen::All { .. } | Seen::Put(..))) {
                    arrivals.lock().expect("no panic").push(start.elapsed());
                }
            };
            match Watch::new(api).spread(spread).follow(Pace::seeded(number), convert, tell).await {}
        });
    }
    let spread_over = |times: &[Duration]| {
        let busiest = times
            .iter()
            .map(|at| times.iter().filter(|it| (*at..*at + Duration::from_secs(1)).contains(*it)).count());
        busiest.max().unwrap_or_default()
    };
    until("all have listed", async || arrivals.lock().expect("no panic").len() == 100).await;
    let first = std::mem::take(&mut *arrivals.lock().expect("no panic"));
    assert!(first.iter().all(|at| *at < Duration::from_secs(11)), "{first:?}");
    assert!(spread_over(&first) < 25, "in no second comes a quarter of them: {first:?}");
    // All watches end at once; whoever is back hears the news.
    server.faults().set(vec![Fault::new(Switch::CloseWatches)]).expect("a fault");
    // Time moves once all of them have.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server, "test"), "default");
    let news = serde_json::from_value(json!({ "metadata": { "name": "news" } })).expect("a ConfigMap");
    maps.create(&PostParams::default(), &news).await.expect("it is created");
    until("all are back", async || arrivals.lock().expect("no panic").len() >= 100).await;
    let again = arrivals.lock().expect("no panic").clone();
    assert!(spread_over(&again) < 25, "in no second comes a quarter of them: {again:?}");
}
