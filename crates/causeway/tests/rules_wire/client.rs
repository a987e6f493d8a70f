//! A data plane in Python that owes nothing to us (`hack/sdk/data_plane.py`), and what it holds.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use causeway_core::rules::Kind;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::site::{PATIENCE, project};

/// Its process, which ends with it.
pub(crate) struct Client {
    child: Child,
    orders: ChildStdin,
    events: Lines<BufReader<ChildStdout>>,
    /// By kind, the last response that it applied.
    held: BTreeMap<String, Value>,
    server: Option<String>,
}

/// What a client asks for: kinds of the app `foo`.
pub(crate) fn target(kinds: &[&str]) -> Value {
    json!({ "namespace": "default", "app": "foo", "kinds": kinds })
}

impl Client {
    /// One that knows these servers.
    pub(crate) fn start(servers: &[String]) -> Self {
        let python = project().join(".cache/sdk/python/bin/python");
        assert!(python.exists(), "there is no {}: `hack/setup.sh test` makes it", python.display());
        let mut command = Command::new(python);
        command.arg(project().join("hack/sdk/data_plane.py")).arg(servers.join(","));
        // The servers are here, whatever proxy this machine has.
        command.env("no_proxy", "127.0.0.1").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("python starts");
        let orders = child.stdin.take().expect("it was piped");
        let events = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        Self { child, orders, events, held: BTreeMap::new(), server: None }
    }

    /// One that asks for a kind, and was answered.
    pub(crate) async fn subscribed(servers: &[String], kind: Kind) -> Self {
        let mut client = Self::start(servers);
        client.order(json!({ "subscribe": target(&[kind.full_name()]) })).await;
        client.until("it is answered", |event| event["is"] == "applied").await;
        client
    }

    /// Gives it an order.
    pub(crate) async fn order(&mut self, order: Value) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("it listens");
    }

    /// Has it answer like this from now on.
    pub(crate) async fn will_answer(&mut self, answer: Value) {
        self.order(json!({ "answer": answer })).await;
    }

    /// Where it is connected.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// What happens to it next.
    pub(crate) async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.events.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing happened; it holds {:?}", self.held));
        let line = line.expect("its output").expect("it runs; above is what it said");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        if let Some(server) = event["connected"].as_str() {
            self.server = Some(server.into());
        } else if event.get("lost").is_some() {
            self.server = None;
        }
        // What is outdated it dropped, as every client may: a replica that lags sends the newer set later.
        if event["is"] == "applied" {
            let kind = event["response"]["kind"].as_str().expect("a kind");
            self.held.insert(kind.into(), event["response"].clone());
        }
        event
    }

    /// Waits until something happens.
    pub(crate) async fn until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Vec::new();
        loop {
            let event = match timeout(PATIENCE, self.next()).await {
                Ok(event) => event,
                Err(_) => panic!("waited for: {what}\nseen: {seen:#?}"),
            };
            if is_it(&event) {
                return event;
            }
            seen.push(event);
        }
    }

    /// Waits until it holds these rules of a kind, as its own library decoded them.
    pub(crate) async fn holds(&mut self, kind: Kind, wanted: &Value) {
        while self.held(kind) != *wanted {
            let event = self.next().await;
            assert!(event["is"] != "refused", "{event}");
        }
    }

    /// Waits until these are the names and thresholds of its rate limits.
    pub(crate) async fn limits_are(&mut self, wanted: &[(&str, u32)]) {
        let wanted: Vec<_> =
            wanted.iter().map(|(name, limit)| (json!(name), json!(limit.to_string()))).collect();
        loop {
            let held = self.held(Kind::RateLimitStrategy);
            let limits = held.as_array().into_iter().flatten();
            if limits.map(|it| (it["name"].clone(), it["threshold"].clone())).collect::<Vec<_>>() == wanted {
                return;
            }
            self.next().await;
        }
    }

    /// Waits until it has lost its server and found another one.
    pub(crate) async fn moves(&mut self) {
        self.until("it loses its server", |event| event.get("lost").is_some()).await;
        self.until("it finds a server", |event| event.get("connected").is_some()).await;
    }

    fn held(&self, kind: Kind) -> Value {
        self.held.get(kind.full_name()).map_or(Value::Null, rules)
    }

    /// The version that it holds.
    pub(crate) fn version(&self, kind: Kind) -> i64 {
        let version = self.held.get(kind.full_name()).map(|held| &held["dataWithVersion"]["version"]);
        version.and_then(Value::as_str).and_then(|text| text.parse().ok()).expect("it was sent one")
    }

    /// That nothing happens to it for a while.
    pub(crate) async fn is_left_alone(&mut self) {
        if let Ok(event) = timeout(Duration::from_millis(500), self.next()).await {
            panic!("{event}");
        }
    }

    /// Ends it without a word to the server.
    pub(crate) async fn end(mut self) {
        self.child.kill().await.expect("it ran");
    }
}

pub(crate) fn rules(response: &Value) -> Value {
    response["dataWithVersion"].get("data").cloned().unwrap_or_else(|| json!([]))
}
