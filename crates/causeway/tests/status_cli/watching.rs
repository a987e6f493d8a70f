//! `--watch` in a pipe: everything anew whenever something changes, and nothing while nothing does.

use std::process::Stdio;
use std::time::Duration;

use causeway_apiserver::{Fault, Switch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use super::site::{Site, condition, down, tunnel};

const PATIENCE: Duration = Duration::from_secs(30);

struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(site: &Site, args: &[&str]) -> Self {
        let mut command = site.command(&["status", "--watch", "--kubeconfig"]);
        command.arg(site.kubeconfig()).args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("in time").expect("readable");
        line.expect("a line")
    }

    /// The next document that is as it should be; until then others may come.
    async fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let document: Value = serde_json::from_str(&self.line().await).expect("a document in a line");
            if is_it(&document) {
                return document;
            }
        }
    }

    async fn end(mut self, how: Signal) -> Option<i32> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).expect("it runs");
        kill(Pid::from_raw(id), how).expect("a signal");
        timeout(PATIENCE, self.child.wait()).await.expect("in time").expect("it ended").code()
    }
}

#[tokio::test]
async fn every_change_is_printed_and_the_end_says_how_all_was() {
    let site = Site::with_tunnels("one").await;
    site.put("ns1", tunnel("demo")).await;
    let mut watch = Watch::start(&site, &["-o", "json"]);
    let first = watch.until(|_| true).await;
    assert_eq!((first["ready"].as_bool(), &first["tunnels"][0]["name"]), (Some(true), &"demo".into()));
    let down_again =
        json!({ "conditions": [condition("Ready", "False", "GatewayLost", "no word of its node")] });
    site.says("ns1", &tunnel("demo"), down_again).await;
    let changed = watch.until(|it| it["ready"] == false).await;
    assert_eq!(changed["tunnels"][0]["reason"], "GatewayLost");
    site.put("ns1", tunnel("second")).await;
    watch.until(|it| it["tunnels"].as_array().is_some_and(|all| all.len() == 2)).await;
    // A kind that is defined only now.
    for crd in causeway_api::networks::crds() {
        site.define(&crd).await;
    }
    let network = json!({ "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": { "name": "net" },
                          "spec": { "cidr": "10.8.0.0/24" } });
    site.put("default", network).await;
    watch.until(|it| it["networks"][0]["name"] == "net").await;
    assert_eq!(watch.end(Signal::SIGINT).await, Some(1));

    let mut watch = Watch::start(&site, &["-n", "elsewhere"]);
    assert!(watch.line().await.starts_with("no tunnels in namespace elsewhere"));
    assert_eq!(watch.end(Signal::SIGTERM).await, Some(0));
}

#[tokio::test]
async fn nothing_is_printed_or_asked_while_nothing_changes() {
    let site = Site::with_tunnels("one").await;
    site.put("ns1", tunnel("demo")).await;
    let mut watch = Watch::start(&site, &[]);
    let head = watch.line().await;
    assert!(head.starts_with("TUNNEL"), "{head}");
    assert!(watch.line().await.starts_with("ns1/demo"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = || -> u64 { site.server.requests().iter().map(|it| it.count).sum() };
    let before = asked();
    let more = timeout(Duration::from_secs(2), watch.lines.next_line()).await;
    assert!(more.is_err(), "{more:?}");
    // Kinds that are not defined are asked for now and then, ever more rarely.
    assert!(asked() - before <= 16, "{} requests in two seconds", asked() - before);
    site.put("ns1", down("lost")).await;
    assert_eq!(watch.line().await, "", "tables stand apart");
    assert!(watch.line().await.starts_with("TUNNEL"));
    assert_eq!(watch.end(Signal::SIGINT).await, Some(1));
}

#[tokio::test]
async fn an_outage_is_said_until_it_is_over_and_what_is_known_stays() {
    let site = Site::with_tunnels("one").await;
    site.put("ns1", tunnel("demo")).await;
    let mut watch = Watch::start(&site, &["-o", "json"]);
    watch.until(|_| true).await;
    let refuse = Switch::Refuse { code: 503, percent: 100, retry_after_seconds: 0 };
    site.server.faults().set(vec![Fault::new(Switch::CloseWatches), Fault::new(refuse)]).expect("faults");
    let cut = watch.until(|it| it["errors"][0]["message"].is_string()).await;
    let message = cut["errors"][0]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("what is shown may be old: "), "{message}");
    assert!(!message.contains("Status {"), "{message}");
    assert_eq!((&cut["tunnels"][0]["name"], cut["ready"].as_bool()), (&"demo".into(), Some(false)));
    site.server.faults().clear();
    let again = watch.until(|it| it["errors"].as_array().is_some_and(Vec::is_empty)).await;
    assert_eq!(again["ready"], true);
    assert_eq!(watch.end(Signal::SIGINT).await, Some(0));
}

#[tokio::test]
async fn what_cannot_be_asked_at_the_start_is_not_waited_for_and_a_closed_pipe_ends_it() {
    let site = Site::named("one", Vec::new()).await;
    let said = site.status(&["--watch", "--context", "nowhere"]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    site.server.shutdown().await;
    let server = Site::with_tunnels("two").await;
    let mut watch = Watch::start(&server, &["-o", "json"]);
    watch.until(|_| true).await;
    let Watch { mut child, lines } = watch;
    drop(lines);
    server.put("ns1", down("lost")).await;
    let ended = timeout(PATIENCE, child.wait()).await.expect("in time").expect("it ended");
    assert_eq!(ended.code(), Some(0));
}
