//! Lists in the protobuf form, in front of a server that has none: what is asked for, and what happens when it goes wrong.

mod support;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use causeway_api::leases::{DEFAULT_PREFIX, NodeObject, seen};
use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::follow::{Interruption, Seen, Watch};
use causeway_controller::found::Found;
use causeway_controller::pace::Pace;
use futures::{StreamExt, stream};
use http::{Request, Response};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectList;
use kube::{Api, Client, ResourceExt};
use prost::Message;
use serde_json::json;
use support::{client, server, until};
use tokio_util::task::AbortOnDropHandle;

/// The node whose agent follows.
const OWN: &str = "one.example";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What is written of a node.
#[derive(Clone, PartialEq, Message)]
struct NodeMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<Spec>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Timestamp>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Spec {
    #[prost(string, tag = "1")]
    pod_cidr: String,
    #[prost(string, repeated, tag = "7")]
    pod_cidrs: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<NodeMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Refusal {
    #[prost(string, tag = "3")]
    message: String,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

fn in_envelope(kind: &str, message: &impl Message) -> Vec<u8> {
    let type_meta = Some(TypeMeta { api_version: "v1".into(), kind: kind.into() });
    let envelope = Envelope { type_meta, raw: message.encode_to_vec() };
    [&b"k8s\0"[..], &envelope.encode_to_vec()].concat()
}

fn message(node: Node) -> NodeMessage {
    let created = node.creation_timestamp().map(|time| Timestamp { seconds: time.0.as_second() });
    let spec = node.spec.unwrap_or_default();
    NodeMessage {
        metadata: Some(Metadata {
            name: node.metadata.name.unwrap_or_default(),
            resource_version: node.metadata.resource_version.unwrap_or_default(),
            creation_timestamp: created,
            annotations: node.metadata.annotations.unwrap_or_default(),
        }),
        spec: Some(Spec {
            pod_cidr: spec.pod_cidr.unwrap_or_default(),
            pod_cidrs: spec.pod_cidrs.unwrap_or_default(),
        }),
    }
}

/// All nodes, as a real server would have answered.
async fn whole(client: &Client) -> Vec<u8> {
    let list = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    let version = list.metadata.resource_version.expect("a version");
    let items = list.items.into_iter().map(message).collect();
    in_envelope("NodeList", &NodeList { metadata: Some(ListMeta { resource_version: version }), items })
}

fn answer(code: u16, kind: &str, body: impl Into<Body>) -> Response<Body> {
    Response::builder().status(code).header("content-type", kind).body(body.into()).expect("an answer")
}

/// The questions for compact lists so far.
type Asked = Arc<Mutex<Vec<String>>>;

/// A client of the server that gets this answer to each question for a compact list.
fn client_with<F: Future<Output = Response<Body>> + Send>(
    server: &Server,
    give: impl Fn(Client) -> F + Send + Sync + 'static,
) -> (Client, Asked) {
    let (inner, give, asked) = (client(server, "follower"), Arc::new(give), Asked::default());
    let all = asked.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (inner, give, all) = (inner.clone(), give.clone(), all.clone());
        async move {
            if request.headers().get("accept").is_none_or(|kind| kind != PROTOBUF) {
                return Ok::<_, kube::Error>(inner.send(request).await?.map(Body::new));
            }
            assert_eq!(request.headers()["accept-encoding"], "identity");
            all.lock().expect("no panic").push(request.uri().to_string());
            Ok(give(inner).await)
        }
    });
    (Client::new(service, "default"), asked)
}

type Value = causeway_core::leases::Seen;
type Said = Result<Seen<String, Value>, String>;

/// What was said of nodes so far; it ends with this.
struct Follower {
    said: Arc<Mutex<Vec<Said>>>,
    _task: AbortOnDropHandle<Infallible>,
}

impl Follower {
    fn of(client: Client) -> Follower {
        let said: Arc<Mutex<Vec<_>>> = Arc::default();
        let heard = said.clone();
        let tell = move |seen: Result<Seen<String, Value>, Interruption>| {
            heard.lock().expect("no panic").push(seen.map_err(|Interruption(why)| why));
        };
        let convert = |object: &Found<NodeObject>| {
            let value = object.0.as_ref().ok().map(|object| seen(DEFAULT_PREFIX, OWN, object));
            (object.name_any(), value)
        };
        let watch = Watch::<NodeObject>::new(Api::all(client)).compact(NodeObject::from_protobuf);
        let task = tokio::spawn(watch.follow(Pace::seeded(1), convert, tell));
        Follower { said, _task: AbortOnDropHandle::new(task) }
    }

    /// The nodes as far as it has said.
    fn known(&self) -> Option<BTreeMap<String, Value>> {
        let mut known: Option<BTreeMap<String, Value>> = None;
        for seen in self.said.lock().expect("no panic").iter().flatten().cloned() {
            match seen {
                Seen::All { objects, .. } => known = Some(objects),
                Seen::Put(key, value, _) => drop(known.as_mut()?.insert(key, value)),
                Seen::Gone(key, _) => drop(known.as_mut()?.remove(&key)),
                Seen::Missing | Seen::Forbidden(_) => {}
            }
        }
        known
    }

    async fn knows(&self, names: &[&str]) {
        let names_known = || self.known().map(|known| known.into_keys().collect::<Vec<_>>());
        until(&format!("{names:?}"), async || names_known().is_some_and(|known| known == names)).await;
    }

    fn lists(&self) -> usize {
        let said = self.said.lock().expect("no panic");
        said.iter().filter(|said| matches!(said, Ok(Seen::All { .. }))).count()
    }

    fn interruptions(&self) -> Vec<String> {
        self.said.lock().expect("no panic").iter().filter_map(|said| said.clone().err()).collect()
    }
}

async fn put(server: &Server, name: &str, part: u8) {
    let node = json!({
        "metadata": { "name": name, "annotations": {
            format!("{DEFAULT_PREFIX}/kube-subnet-manager"): "true",
            format!("{DEFAULT_PREFIX}/backend-type"): "host-gw",
            format!("{DEFAULT_PREFIX}/public-ip"): format!("192.168.7.{part}"),
        } },
        "spec": { "podCIDR": format!("10.244.{part}.0/24"), "podCIDRs": [format!("10.244.{part}.0/24")] },
    });
    let node = serde_json::from_value(node).expect("a node");
    let nodes: Api<Node> = Api::all(client(server, "somebody"));
    nodes.create(&PostParams::default(), &node).await.expect("it is created");
}

/// Both are what a kube-apiserver 1.37 answered, to the same question but for its form.
#[tokio::test(start_paused = true)]
async fn the_answer_of_a_real_server_gives_what_its_json_gives() {
    let server = server().await;
    let (with, _) =
        client_with(&server, |_| async { answer(200, PROTOBUF, &include_bytes!("data/nodes.pb")[..]) });
    let follower = Follower::of(with);
    follower.knows(&["one.example", "three", "two"]).await;
    let json: ObjectList<NodeObject> = serde_json::from_str(include_str!("data/nodes.json")).expect("a list");
    let version = json.metadata.resource_version.clone().expect("a version");
    let convert = |node: &NodeObject| (node.name_any(), seen(DEFAULT_PREFIX, OWN, node));
    let objects: BTreeMap<_, _> = json.iter().map(convert).collect();
    assert!(objects["two"].node.is_some() && objects[OWN].own.as_ref().is_some_and(|own| own.is_available));
    assert_eq!(follower.said.lock().expect("no panic")[0], Ok(Seen::All { objects, version }));
}

/// A node goes while the follower cannot watch, and afterwards the server no longer knows of it.
async fn lose_history(server: &Server, name: &str) {
    let of = Match { verbs: vec!["watch".into()], user_agent: Some("follower".into()), ..Match::default() };
    let set = |switches: &[Switch]| {
        let faults = switches.iter().map(|switch| Fault::new(switch.clone()).on(of.clone()));
        server.faults().set(faults.collect()).expect("faults");
    };
    set(&[Switch::CloseWatches, Switch::Refuse { code: 503, percent: 100, retry_after_seconds: 0 }]);
    let nodes: Api<Node> = Api::all(client(server, "somebody"));
    nodes.delete(name, &DeleteParams::default()).await.expect("deleted");
    set(&[Switch::Compacted]);
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_of_any_version_and_later_ones_are_never_older_than_what_was_seen() {
    let server = server().await;
    put(&server, OWN, 1).await;
    put(&server, "two", 2).await;
    let compact = |inner| async move { answer(200, PROTOBUF, whole(&inner).await) };
    let (with, asked) = client_with(&server, compact);
    let follower = Follower::of(with);
    follower.knows(&[OWN, "two"]).await;
    // The same as of JSON, and the watch goes on from there.
    let other = Follower::of(client(&server, "another"));
    other.knows(&[OWN, "two"]).await;
    assert_eq!(follower.known(), other.known());
    let own = &follower.known().expect("listed")[OWN];
    assert!(own.own.as_ref().is_some_and(|own| !own.version.is_empty()), "{own:?}");
    let nodes: Api<Node> = Api::all(client(&server, "somebody"));
    let patch =
        json!({ "metadata": { "annotations": { format!("{DEFAULT_PREFIX}/public-ip"): "192.168.7.9" } } });
    nodes.patch("two", &PatchParams::default(), &Patch::Merge(patch)).await.expect("it is patched");
    until("the change is seen", async || follower.known() == other.known()).await;
    put(&server, "three", 3).await;
    follower.knows(&[OWN, "three", "two"]).await;
    lose_history(&server, "two").await;
    until("it lists again", async || follower.lists() > 1).await;
    server.faults().clear();
    follower.knows(&[OWN, "three"]).await;
    let asked = asked.lock().expect("no panic").clone();
    assert_eq!(asked[..2], ["/api/v1/nodes?"; 2], "as they are now, not as they were");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_such_lists_is_asked_once_and_listed_as_ever() {
    let server = server().await;
    put(&server, "one", 1).await;
    let (with, asked) = client_with(&server, |_| async { answer(200, "application/json", "{\"kind\":") });
    let follower = Follower::of(with);
    follower.knows(&["one"]).await;
    lose_history(&server, "one").await;
    until("it lists again", async || follower.lists() > 1).await;
    assert_eq!(asked.lock().expect("no panic").len(), 1);
    // The embedded server refuses by itself.
    server.faults().clear();
    let follower = Follower::of(client(&server, "another"));
    follower.knows(&[]).await;
    assert_eq!(follower.interruptions(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_makes_no_sense_or_is_not_to_be_had_now_costs_nothing_but_time() {
    let cut_short = |body: Vec<u8>| [&body[..body.len() - 3], &[0xff; 30]].concat();
    for code in [200, 504, 410] {
        let server = server().await;
        put(&server, "one", 1).await;
        let said = json!({ "kind": "Status", "code": code, "message": "Too large resource version" });
        let (with, asked) = client_with(&server, move |inner| {
            let said = said.to_string();
            async move {
                match code {
                    200 => answer(200, PROTOBUF, cut_short(whole(&inner).await)),
                    code => answer(code, "application/json", said),
                }
            }
        });
        let follower = Follower::of(with);
        follower.knows(&["one"]).await;
        put(&server, "two", 2).await;
        follower.knows(&["one", "two"]).await;
        assert_eq!((follower.lists(), follower.interruptions()), (1, Vec::new()), "{code}");
        assert_eq!(asked.lock().expect("no panic").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_never_end_are_said_and_after_the_second_one_another_form_is_asked_for() {
    let half = |body: Vec<u8>| stream::iter([Ok::<_, Infallible>(body[..body.len() / 2].to_vec())]);
    for (why, stalls) in [("the list stalled", true), ("the list ended in the middle", false)] {
        let server = server().await;
        put(&server, "one", 1).await;
        let (with, asked) = client_with(&server, move |inner| async move {
            let begins = half(whole(&inner).await);
            let body = if stalls {
                Body::from_stream(begins.chain(stream::pending()))
            } else {
                Body::from_stream(begins)
            };
            answer(200, PROTOBUF, body)
        });
        let follower = Follower::of(with);
        follower.knows(&["one"]).await;
        assert_eq!(follower.interruptions(), [why, why]);
        assert_eq!(asked.lock().expect("no panic").len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up_in_time() {
    let server = server().await;
    let (with, _) = client_with(&server, |_| std::future::pending());
    let follower = Follower::of(with);
    tokio::time::sleep(Duration::from_secs(31)).await;
    let said = follower.interruptions();
    assert!(matches!(&said[..], [why] if why.ends_with("the API server does not answer")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_this_form_is_said_in_its_own_words() {
    let server = server().await;
    put(&server, "one", 1).await;
    let is_forbidden = Arc::new(Mutex::new(true));
    let refuses = is_forbidden.clone();
    let (with, _) = client_with(&server, move |inner| {
        let refuses = *refuses.lock().expect("no panic");
        async move {
            if refuses {
                let said = Refusal { message: "nodes is forbidden".into() };
                answer(403, PROTOBUF, in_envelope("Status", &said))
            } else {
                answer(200, PROTOBUF, whole(&inner).await)
            }
        }
    });
    let follower = Follower::of(with);
    until("it says so", async || {
        let said = follower.said.lock().expect("no panic");
        said.iter().any(|said| matches!(said, Ok(Seen::Forbidden(why)) if why == "nodes is forbidden"))
    })
    .await;
    *is_forbidden.lock().expect("no panic") = false;
    follower.knows(&["one"]).await;
}
