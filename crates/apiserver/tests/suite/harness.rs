//! A test gets a [`Scene`]: a client, a namespace of its own, raw HTTP with assertions that show the
//! whole answer when they fail, and waits that have a deadline. What a scene made is deleted when the
//! test ends, also when it fails.

use std::{
    future::{Future, IntoFuture},
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::cluster::{Cluster, say};

/// How long anything may take before the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Where one test happens.
pub(crate) struct Scene {
    pub(crate) client: Client,
    /// A namespace nobody else uses.
    pub(crate) ns: String,
    /// A word nobody else uses, fit for names and groups.
    pub(crate) id: String,
    leftovers: Mutex<Vec<String>>,
}

/// Runs a test with a scene of its own on the cluster under test.
pub(crate) async fn scene(body: impl AsyncFnOnce(&Scene)) {
    let config = Cluster::get().config().await;
    scene_with(Client::try_from(config).expect("a client"), body).await;
}

/// As [`scene`], for a test that only our own server can take.
pub(crate) async fn ours_only(why: &str, body: impl AsyncFnOnce(&Scene)) {
    if Cluster::get().ours {
        scene(body).await;
    } else {
        let name = std::thread::current().name().unwrap_or("test").to_owned();
        say(&format!("not applicable to this server: {name}: {why}"));
    }
}

/// As [`scene`], with a client that the test chose.
pub(crate) async fn scene_with(client: Client, body: impl AsyncFnOnce(&Scene)) {
    let id = unique();
    let scene = Scene { client, ns: format!("suite-{id}"), id, leftovers: Mutex::default() };
    scene.make_namespace(&scene.ns).await;
    let outcome = AssertUnwindSafe(body(&scene)).catch_unwind().await;
    let leftovers = std::mem::take(&mut *scene.leftovers.lock().expect("nobody panics holding it"));
    for path in leftovers.iter().rev() {
        scene.delete(path).await;
    }
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = now.expect("after 1970").as_micros() % 1_000_000_000_000;
    format!("t{micros:x}{:x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Scene {
    /// The same place seen by another client. Leaves nothing of its own behind.
    pub(crate) fn borrowed(other: &Scene, client: Client) -> Scene {
        Scene { client, ns: other.ns.clone(), id: other.id.clone(), leftovers: Mutex::default() }
    }

    /// Path of a core/v1 resource in this scene's namespace.
    pub(crate) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.ns)
    }

    /// Path of a resource of a named group in this scene's namespace.
    pub(crate) fn group(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.ns)
    }

    /// Creates a namespace that goes with the scene.
    pub(crate) async fn make_namespace(&self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", body).await.expect(201);
        self.forget_later(&format!("/api/v1/namespaces/{name}"));
    }

    /// Creates a ConfigMap with one entry and returns it.
    pub(crate) async fn config_map(&self, name: &str, value: &str) -> Value {
        self.post(&self.core("configmaps"), config_map(name, value)).await.expect(201)
    }

    /// Has `path` deleted when the scene ends.
    pub(crate) fn forget_later(&self, path: &str) {
        self.leftovers.lock().expect("nobody panics holding it").push(path.to_owned());
    }

    pub(crate) fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path)
    }

    pub(crate) fn delete(&self, path: &str) -> Call<'_> {
        self.call(Method::DELETE, path)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Call<'_> {
        self.call(Method::POST, path).json(body)
    }

    pub(crate) fn put(&self, path: &str, body: Value) -> Call<'_> {
        self.call(Method::PUT, path).json(body)
    }

    /// A patch of the given content type.
    pub(crate) fn patch(&self, path: &str, kind: &str, body: Value) -> Call<'_> {
        self.call(Method::PATCH, path).json(body).header("content-type", kind)
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> Call<'_> {
        let (path, headers, body) = (path.to_owned(), HeaderMap::new(), Vec::new());
        Call { client: &self.client, method, path, headers, body }
    }

    /// Waits until a GET of `path` answers `code`.
    pub(crate) async fn until_code(&self, path: &str, code: u16) -> Answer {
        eventually(&format!("GET {path} answers {code}"), async || {
            let answer = self.get(path).await;
            (answer.code == code).then_some(answer)
        })
        .await
    }
}

/// A ConfigMap manifest with one entry, `key`.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

/// Polls until there is something to return; fails at [`DEADLINE`].
pub(crate) async fn eventually<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(found) = poll().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, attempts).await {
        Ok(found) => found,
        Err(_) => panic!("waited {DEADLINE:?} in vain until {what}"),
    }
}

/// A request under construction; awaiting it sends it.
pub(crate) struct Call<'a> {
    client: &'a Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl<'a> Call<'a> {
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().expect("a legal header value"));
        self
    }

    pub(crate) fn json(self, body: Value) -> Self {
        self.bytes(body.to_string()).header("content-type", "application/json")
    }

    pub(crate) fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request and hands back the response unread.
    pub(crate) async fn response(self) -> http::Response<Body> {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        if !self.headers.contains_key(header::ACCEPT) {
            request = request.header(header::ACCEPT, "application/json");
        }
        request.headers_mut().expect("a legal request").extend(self.headers);
        let request = request.body(Body::from(self.body)).expect("a legal request");
        match tokio::time::timeout(DEADLINE, self.client.send(request)).await {
            Ok(sent) => sent.expect("the server answers"),
            Err(_) => panic!("no answer within {DEADLINE:?}: {}", self.path),
        }
    }

    async fn answer(self) -> Answer {
        let asked = format!("{} {}", self.method, self.path);
        let (head, body) = self.response().await.into_parts();
        let bytes = body.collect().await.expect("the whole body").to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { asked, code: head.status.as_u16(), headers: head.headers, text, json }
    }
}

impl<'a> IntoFuture for Call<'a> {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.answer())
    }
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    asked: String,
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null when the body is not JSON.
    pub(crate) json: Value,
}

impl Answer {
    /// The body of an answer that must have this code.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}: {}", self.asked, self.text);
        self.json
    }

    /// The body of an answer that must be a failure `Status` with this code and reason.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str) -> Value {
        let answered = (&self.json["kind"], &self.json["status"], &self.json["code"], &self.json["reason"]);
        let want = (&json!("Status"), &json!("Failure"), &json!(code), &json!(reason));
        assert_eq!(answered, want, "{}: {} {}", self.asked, self.code, self.text);
        assert_eq!(self.code, code, "{}: {}", self.asked, self.text);
        self.json
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        let all = self.headers.get_all("warning").iter();
        all.map(|value| value.to_str().expect("warnings are text")).collect()
    }
}

/// Shorthands to read answers with.
pub(crate) trait Read {
    /// The string at a JSON pointer, or "" when there is none.
    fn text(&self, pointer: &str) -> &str;
    fn name(&self) -> &str;
    fn version(&self) -> &str;
    /// Names of a list's items.
    fn names(&self) -> Vec<&str>;
}

impl Read for Value {
    fn text(&self, pointer: &str) -> &str {
        self.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    fn names(&self) -> Vec<&str> {
        self["items"].as_array().expect("a list").iter().map(Read::name).collect()
    }
}

/// Asserts that `text` contains every one of `parts`.
#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected {part:?} in: {text}");
    }
}
