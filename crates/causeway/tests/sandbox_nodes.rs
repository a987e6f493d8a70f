//! `causeway sandbox --nodes 3`: pods on nodes reach each other, stop doing so, and do so again; nothing is left behind.

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{PATIENCE, Sandbox, can_run, processes_of};

const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");
const NODES: [&str; 3] = ["worker1", "worker2", "worker3"];

/// Runs a sandbox of its own servers to its end; says who it was.
fn sandbox(args: &[&str]) -> (u32, Output) {
    let mut command = Command::new(PROGRAM);
    command.arg("sandbox").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let pid = child.id();
    (pid, child.wait_with_output().expect("its end"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Every pair of nodes, and whether one reached the other.
fn pairs(matrix: &Value) -> Vec<(&'static str, &'static str, bool)> {
    let pairs = NODES.into_iter().flat_map(|from| NODES.into_iter().map(move |to| (from, to)));
    let others = pairs.filter(|(from, to)| from != to);
    others.map(|(from, to)| (from, to, matrix[from][to].is_number())).collect()
}

/// Runs a sandbox whose clusters have these back ends, looks at what it says of its nodes, and returns the report.
fn healed(args: &[&str], backends: [&str; 2], flushed: u64) -> Value {
    can_run(&[]);
    let (pid, output) = sandbox(&[&["--nodes", "3", "--once", "-o", "json"], args].concat());
    let said = text(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{said}", text(&output.stdout)));
    assert!(output.status.success() && report["ready"] == true, "{report:#}\n{said}");
    let clusters = report["nodes"].as_array().expect("the clusters' nodes");
    let names: Vec<_> = clusters.iter().map(|nodes| (&nodes["cluster"], &nodes["backend"])).collect();
    let [first, second] = backends.map(Value::from);
    assert_eq!(names, [(&"cluster1".into(), &first), (&"cluster2".into(), &second)]);
    for nodes in clusters {
        let names: Vec<_> =
            nodes["nodes"].as_array().expect("nodes").iter().map(|node| &node["name"]).collect();
        assert_eq!(names, NODES);
        for (from, to, reached) in pairs(&nodes["before"]).into_iter().chain(pairs(&nodes["after"])) {
            assert!(reached, "{from} → {to} in {nodes:#}");
        }
        for (from, to, reached) in pairs(&nodes["broken"]) {
            assert_eq!(reached, from != "worker1" && to != "worker1", "{from} → {to} in {nodes:#}");
        }
        assert_eq!(nodes["flushed"], flushed, "a route of each family to each of the others: {nodes:#}");
        assert!(nodes["repairedMs"].as_f64().is_some_and(|ms| ms > 0.0), "{nodes:#}");
    }
    until("no process is left", || processes_of(pid).is_empty());
    assert!(!Path::new(report["folder"].as_str().expect("a folder")).exists());
    report
}

#[test]
fn pods_on_nodes_reach_each_other_before_and_after_a_fault_and_not_in_between() {
    let report = healed(&[], ["host-gw", "host-gw"], 2);
    assert_eq!(report["proof"]["sent"], report["proof"]["received"], "the tunnel works beside them");
}

#[test]
fn they_do_so_over_a_back_end_of_each_clusters_own_and_over_ipv6_too() {
    let args = ["--bare", "--nodes-backend", "vxlan,host-gw", "--nodes-ipv6"];
    let report = healed(&args, ["vxlan", "host-gw"], 4);
    assert_eq!((&report["nodes"][0]["ipv6"], &report["nodes"][1]["ipv6"]), (&true.into(), &true.into()));
}

#[tokio::test]
async fn a_killed_agent_comes_back_and_takes_care_of_its_node_again() {
    let sandbox = Sandbox::start(&["--bare", "--nodes", "2"]).await;
    let folder = sandbox.folder().to_owned();
    let agent = || {
        let text = std::fs::read_to_string(folder.join("cluster1.worker1.pid")).ok()?;
        text.trim().parse::<i32>().ok()
    };
    let first = agent().expect("the agent's pid");
    kill(Pid::from_raw(first), Signal::SIGKILL).expect("it runs");
    until("another agent", || agent().is_some_and(|pid| pid != first));
    // In the node's network, by way of its new agent.
    let routes = |args: &[&str]| {
        let pid = agent().expect("the agent's pid").to_string();
        let user: &[&str] =
            if nix::unistd::geteuid().is_root() { &[] } else { &["-U", "--preserve-credentials"] };
        let mut command = Command::new("nsenter");
        let output = command.args(user).args(["-n", "-t", &pid, "ip", "route"]).args(args).output();
        let output = output.expect("nsenter runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let way = "10.244.2.0/24 via 192.168.7.2 dev eth0";
    assert!(routes(&["show", "proto", "158"]).contains(way), "no route went with its agent");
    routes(&["flush", "proto", "158"]);
    until("the new agent repairs", || routes(&["show", "proto", "158"]).contains(way));
}

#[test]
fn nodes_want_servers_of_the_sandboxs_own_and_are_at_least_two() {
    let refused = |args: &[&str]| {
        let (_, output) = sandbox(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        text(&output.stderr)
    };
    assert!(refused(&["--nodes", "1"]).contains("2..=9"));
    assert!(refused(&["--nodes", "3", "--measure", "2"]).contains("cannot be used with"));
    assert!(refused(&["--nodes", "3", "--kubeconfig", "a,b,c"]).contains("cannot be used with"));
    assert!(refused(&["--nodes", "3", "--nodes-backend", "wireguard"]).contains("host-gw, vxlan"));
    assert!(refused(&["--nodes-backend", "vxlan"]).contains("--nodes <N>"));
    assert!(refused(&["--nodes-ipv6"]).contains("--nodes <N>"));
}
