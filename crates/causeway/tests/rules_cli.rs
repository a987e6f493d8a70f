//! `causeway rules`, and rules in `causeway status` and in the sandbox, as people meet them.

#[path = "rules_cli/pods.rs"]
mod pods;
mod support;

use std::net::SocketAddr;
use std::process::Stdio;

use nix::sys::signal::Signal;
use pods::Pod;
use serde_json::Value;
use support::{Cluster, PATIENCE, Said, Sandbox, real};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");

fn sample(name: &str) -> String {
    format!("{}/../../samples/rules/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Where a cluster's controller listens, by the word that it logs.
fn address(cluster: &Cluster, message: &str) -> SocketAddr {
    let log = cluster.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = lines.rev().find(|line| line["message"] == message);
    let found = found.and_then(|line| line["address"].as_str()?.parse().ok());
    found.unwrap_or_else(|| panic!("{message:?} in: {log}"))
}

fn rules_at(cluster: &Cluster) -> SocketAddr {
    address(cluster, "data planes may connect")
}

fn clients_at(cluster: &Cluster) -> SocketAddr {
    address(cluster, "serving who is connected")
}

fn objects(said: Said) -> Vec<Value> {
    said.ok().lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// `causeway rules watch` that goes on.
struct Watch {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(address: SocketAddr, flags: &[&str]) -> Watch {
        let mut command = Command::new(PROGRAM);
        command.args(["rules", "watch", "--app", "foo", "-o", "json", "--address", &address.to_string()]);
        command
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Watch { _child: child, lines }
    }

    async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("a line in time");
        serde_json::from_str(&line.expect("its output").expect("it goes on")).expect("an object")
    }

    /// Waits until the first rule has this threshold; what comes before may be the same again.
    async fn until_threshold(&mut self, wanted: Option<i64>) -> Value {
        loop {
            let set = self.next().await;
            if set["rules"][0]["threshold"].as_i64() == wanted {
                return set;
            }
        }
    }
}

#[tokio::test]
async fn what_data_planes_get_is_printed_in_words_and_in_json() {
    let sandbox = Sandbox::start(&["--bare", "--rules"]).await;
    let one = sandbox.cluster(1).await;
    let address = rules_at(&one).to_string();
    one.kubectl(&["apply", "-f", &sample("")]).await.ok();
    let watch = ["rules", "watch", "--app", "foo", "--once", "--address", &address];
    let said = one
        .until("all six are there", PATIENCE, async || {
            let said = one.causeway(&watch).await.ok();
            if said.contains("no rule") { Err(said) } else { Ok(said) }
        })
        .await;
    for words in [
        "RateLimitStrategy default/foo: 1 rule, version ",
        "rate-limit-foo: 10 requests in 1 s, each process",
        "GET:/orders, POST:/orders: RateLimitStrategy rate-limit-foo, CircuitBreakerStrategy circuit-breaker-foo",
        "throttling-foo: a request every 20 ms, waiting 500 ms at most",
        "concurrency-limit-foo: 8 requests at once, each process",
        "when 60% of at least 10 requests in",
        "foo: foo.default.svc.cluster.local",
        "path /*, header x-tag = v2 → outbound||v2|foo.default.svc.cluster.local, else outbound||v1|",
        "outbound||v1|foo.default.svc.cluster.local (90), outbound||v2|foo.default.svc.cluster.local (10)",
    ] {
        assert!(said.contains(words), "{words:?} in: {said}");
    }
    let json = [
        "-o",
        "json",
        "--kind",
        "RateLimitStrategy",
        "--kind",
        "traffic.opensergo.io/v1alpha1/TrafficRouter",
    ];
    let sets = objects(one.causeway(&[&watch[..], &json].concat()).await);
    assert_eq!(sets.len(), 2, "{sets:?}");
    let limit =
        sets.iter().find(|set| set["kind"].as_str().is_some_and(|it| it.ends_with("/RateLimitStrategy")));
    let limit = limit.expect("one of the two");
    assert_eq!((&limit["code"], &limit["rules"][0]["threshold"]), (&1.into(), &10.into()));
    assert_eq!(limit["rules"][0]["statDurationTimeUnit"], "SECOND");
    assert!(limit["version"].as_i64().is_some_and(|version| version > 0));

    // Labels narrow a set down; whoever watches is a data plane like others.
    let labelled = ["--kind", "RateLimitStrategy", "--label", "colour=green", "-o", "json"];
    let sets = objects(one.causeway(&[&watch[..], &labelled].concat()).await);
    assert_eq!(sets[0]["rules"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn a_watch_sees_changes_and_comes_back_when_its_replica_does() {
    let sandbox = Sandbox::start(&["--bare", "--rules"]).await;
    let one = sandbox.cluster(1).await;
    let mut watch = Watch::start(rules_at(&one), &["--kind", "RateLimitStrategy"]);
    let first = watch.until_threshold(Some(20)).await;
    let patch = async |threshold: i64| {
        let patch = format!(r#"{{"spec": {{"threshold": {threshold}}}}}"#);
        one.kubectl(&["patch", "ratelimitstrategy", "rate-limit-foo", "--type", "merge", "-p", &patch])
            .await
            .ok();
    };
    patch(30).await;
    let second = watch.until_threshold(Some(30)).await;
    assert_eq!(second["code"], 200, "it is a push");
    assert!(second["version"].as_i64() > first["version"].as_i64());
    sandbox.restart(&one, Signal::SIGKILL).await;
    patch(31).await;
    watch.until_threshold(Some(31)).await;
    one.kubectl(&["delete", "ratelimitstrategy", "rate-limit-foo"]).await.ok();
    watch.until_threshold(None).await;
}

#[tokio::test]
async fn who_is_connected_and_what_they_said_is_told_with_the_rights_of_whoever_asks() {
    let sandbox = Sandbox::start(&["--bare", "--rules"]).await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let mut watch =
        Watch::start(rules_at(&one), &["--kind", "RateLimitStrategy", "--namespace", "elsewhere"]);
    let version = watch.next().await["version"].clone();
    let address = clients_at(&one).to_string();
    let asked = ["rules", "clients", "--address", &address, "-o", "json"];
    let found = one
        .until("the watch is listed with its answer", PATIENCE, async || {
            let document: Value = serde_json::from_str(&one.causeway(&asked).await.ok()).expect("a document");
            let clients = document["replicas"][0]["clients"].as_array().expect("clients").clone();
            let mut found = clients.iter().filter(|it| it["subscriptions"][0]["namespace"] == "elsewhere");
            let found = found.find(|it| it["subscriptions"][0]["answer"]["said"] == "acked").cloned();
            found.ok_or_else(|| document.to_string())
        })
        .await;
    let asks = &found["subscriptions"][0];
    assert_eq!((&asks["kind"], &asks["app"]), (&"RateLimitStrategy".into(), &"foo".into()));
    assert_eq!((&asks["sent"], &asks["answer"]["version"]), (&version, &version));
    assert!(found["identifier"].as_str().is_some_and(|name| name.starts_with("causeway-rules-watch-")));
    let table = one.causeway(&asked[..4]).await.ok();
    assert!(table.contains("sandbox-cluster1") && table.contains("elsewhere/foo"), "{table}");
    assert!(table.contains("cluster1-subscriber2 (127.0.0.1:"), "{table}");

    // By their pods: each is asked, and one that cannot be is named.
    let folder = tempfile::tempdir().expect("a folder");
    let pod = |name, ready, ports: &[(u16, SocketAddr)]| Pod {
        name,
        ready,
        ports: ports.iter().copied().collect(),
    };
    let all = vec![
        pod("stopped", false, &[]),
        pod("first", true, &[(10246, rules_at(&one)), (10249, clients_at(&one))]),
        pod("second", true, &[(10246, rules_at(&two)), (10249, clients_at(&two))]),
    ];
    let kubeconfig = pods::serve(all, folder.path()).await;
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().expect("text")];
    let said = one.causeway(&[&["rules", "clients"][..], &kubeconfig].concat()).await;
    assert_eq!(said.code, 1, "one of three did not answer: {said:?}");
    assert!(said.err.contains("stopped: connection refused in the pod"), "{said:?}");
    for words in ["cluster1-subscriber1", "cluster2-subscriber2", "elsewhere/foo"] {
        assert!(said.out.contains(words), "{words} in: {said:?}");
    }
    let once = ["rules", "watch", "--app", "foo", "--once", "--kind", "RateLimitStrategy"];
    let said = one.causeway(&[&once[..], &kubeconfig].concat()).await.ok();
    assert!(said.contains("rate-limit-foo: 20 requests in 1 s"), "{said}");
    let closed = one.causeway(&[&once[..], &kubeconfig, &["--port", "1"]].concat()).await;
    assert_eq!(closed.code, 1);
    closed.refused(&["connection refused in the pod"]);
    let nobody = [&["rules", "clients", "--namespace", "elsewhere"][..], &kubeconfig].concat();
    one.causeway(&nobody)
        .await
        .refused(&["there is no pod app=multi-vpc-controller-manager in namespace elsewhere"]);
}

#[tokio::test]
async fn where_nothing_listens_that_is_said_in_one_line() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let run = async |args: &[&str]| {
        let output = Command::new(PROGRAM).args(args).stdin(Stdio::null()).output().await.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let address = free.to_string();
    for command in [&["rules", "watch", "--app", "foo"][..], &["rules", "clients"]] {
        let (code, said) = run(&[command, &["--address", &address]].concat()).await;
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(&format!("nothing listens at {address}")), "{said}");
    }
    let (code, said) = run(&["rules", "watch", "--app", "foo", "--kind", "Nope"]).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("there is no such kind") && said.contains("TrafficRouter"), "{said}");
    let (code, said) = run(&["controller", "--rules-clients-listen", "0.0.0.0:1"]).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("can be reached from elsewhere"), "{said}");
}

#[tokio::test]
async fn the_status_shows_rules_beside_tunnels_and_fails_when_one_is_refused() {
    let sandbox = Sandbox::start(&["--rules"]).await;
    let one = sandbox.cluster(1).await;
    let said = one
        .until("both data planes are counted", PATIENCE, async || {
            let said = one.causeway(&["status"]).await;
            let row = said.out.lines().find(|line| line.contains("default/rate-limit-foo"));
            let cells: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
            let expected = ["default/rate-limit-foo", "RateLimitStrategy", "foo", "yes", "2", "0", "0"];
            if cells.starts_with(&expected) { Ok(said) } else { Err(format!("{said:?}")) }
        })
        .await;
    assert!(said.ok().contains("ns1/demo"), "the tunnel is there as before");
    let breaker = std::fs::read_to_string(sample("circuit-breaker-strategy.yaml")).expect("a sample");
    one.apply(&breaker.replace("500ms", "100d")).await.ok();
    one.until("the rule that cannot be sent is named", PATIENCE, async || {
        let said = one.causeway(&["status"]).await;
        let told = said.code == 1 && said.out.contains("spec.slowConditions.maxAllowedRt");
        if told { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_sandbox_without_rules_has_none_of_their_kinds_and_one_with_them_proves_a_change() {
    support::can_run(&[]);
    let turn = real::turn(&["--rules", "--bare", "--once", "-o", "json"]);
    let run = Command::new(PROGRAM).arg("sandbox").args(&turn.flags).stdin(Stdio::null()).output();
    let output = timeout(2 * PATIENCE, run).await.expect("it ends").expect("it runs");
    drop(turn);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(output.status.success(), "{report:#}");
    let rules = report["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), 2, "{report:#}");
    for served in rules {
        let planes = served["subscribers"].as_array().expect("data planes");
        assert_eq!(planes.len(), 2, "{served:#}");
        for plane in planes {
            assert!(plane["pushes"].as_u64().is_some_and(|sets| sets >= 2), "{plane}");
            assert!(plane["subscribedMs"].is_u64() && plane["changeMs"].is_f64(), "{plane}");
        }
        let port = |field: &str| served[field].as_str().and_then(|it| it.parse::<SocketAddr>().ok());
        assert!(port("address").expect("an address").ip().is_loopback());
        assert!(port("clients").expect("an address").ip().is_loopback());
    }
    if real::folder().is_none() {
        let sandbox = Sandbox::bare().await;
        let said = sandbox.cluster(1).await.kubectl(&["get", "crds", "-o", "name"]).await.ok();
        assert!(!said.contains("opensergo"), "{said}");
    }
}
