//! `causeway sandbox` as people meet it: one command, an answer, and nothing left behind.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{PATIENCE, Sandbox, can_run, processes_of, real};

const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");

fn causeway(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).stdin(Stdio::null()).output().expect("the program runs")
}

/// Runs a sandbox to its end.
fn sandbox(args: &[&str]) -> Output {
    let turn = real::turn(args);
    let flags: Vec<&str> = std::iter::once("sandbox").chain(turn.flags.iter().map(String::as_str)).collect();
    causeway(&flags)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until something is true; says what it waited for.
fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for: {what}");
        std::thread::sleep(Duration::from_millis(25));
    }
}

/// Runs a sandbox to its proof and reads the report.
fn once(args: &[&str]) -> Value {
    let output = sandbox(&[&["--once", "-o", "json"], args].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}\n{}", text(&output.stdout), text(&output.stderr));
    });
    assert!(output.status.success(), "{report:#}");
    report
}

#[test]
fn one_command_proves_that_packets_cross_and_says_so_to_programs() {
    can_run(&[]);
    let report = once(&[]);
    assert_eq!(report["ready"], true);
    // Five seconds, with tenfold slack for a busy machine.
    assert!(report["firstPacketMs"].as_u64().expect("a number") < 50_000, "{report:#}");
    let proof = &report["proof"];
    assert_eq!(proof["target"], "242.1.1.20");
    assert_eq!(proof["sent"], proof["received"]);
    assert!(proof["bytes"].as_u64().expect("a number") > 1_000_000);
    let egress = proof["egress"].as_array().expect("addresses");
    let seen = proof["sourceSeen"].as_array().expect("addresses");
    assert!(!seen.is_empty() && seen.iter().all(|source| egress.contains(source)), "{proof:#}");
    let tunnels = report["tunnels"].as_array().expect("tunnels");
    let ends: Vec<_> =
        tunnels.iter().map(|t| (&t["cluster"], &t["name"], &t["local"], &t["remote"])).collect();
    assert_eq!(format!("{ends:?}").matches("ns1/demo").count(), 2, "{ends:?}");
    assert!(tunnels.iter().all(|tunnel| tunnel["ready"] == true && tunnel["type"] == "vxlan"));
    let names: Vec<_> = report["clusters"].as_array().expect("clusters").iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["cluster1", "cluster2"]);
    let folder = PathBuf::from(report["folder"].as_str().expect("a folder"));
    assert!(!folder.exists(), "a folder of its own goes with it");
}

#[test]
fn a_manifest_is_mirrored_to_the_peer_and_proved() {
    can_run(&[]);
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/tunnel-vxlan.yaml");
    let report = once(&["--apply", sample.to_str().expect("text")]);
    assert_eq!(report["ready"], true);
    let tunnels = report["tunnels"].as_array().expect("tunnels");
    let end = |cluster: &str| tunnels.iter().find(|tunnel| tunnel["cluster"] == cluster).expect("an end");
    assert_eq!(tunnels.len(), 2);
    for (cluster, local, remote) in
        [("cluster1", "172.50.16.11", "172.50.16.21"), ("cluster2", "172.50.16.21", "172.50.16.11")]
    {
        let tunnel = end(cluster);
        assert_eq!((&tunnel["name"], &tunnel["ready"]), (&"ns1/vx0".into(), &true.into()), "{tunnel}");
        assert_eq!((&tunnel["local"], &tunnel["remote"]), (&local.into(), &remote.into()));
    }
    assert_eq!(report["proof"]["sent"], report["proof"]["received"]);
}

#[test]
fn what_cannot_be_proved_is_reported_with_the_reason() {
    can_run(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tunnel.yaml");
    let tunnel = r#"{"apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {"name": "no0", "namespace": "ns1"},
        "spec": {"type": "vxlan", "clusterId": "cluster2", "gatewayName": "gw1", "natGwDp": "gw7",
                 "interfaceAddr": "10.100.0.1/24"}}"#;
    fs::write(&file, tunnel).expect("written");
    let file = file.to_str().expect("text");
    let output = sandbox(&["--once", "-o", "json", "--timeout", "15", "--apply", file]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["ready"], false);
    assert!(report["reason"].as_str().expect("a reason").contains("no packet came back within 15s"));
    let why = report["tunnels"][0]["message"].as_str().expect("a sentence");
    assert!(why.contains("there is no gateway gw7"), "{why}");
}

/// The network namespaces that processes of a sandbox live in or hold.
fn namespaces(pids: &[u32]) -> BTreeSet<PathBuf> {
    let own = fs::read_link("/proc/self/ns/net").expect("our own");
    let links = pids.iter().flat_map(|pid| {
        let held = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let lives_in = PathBuf::from(format!("/proc/{pid}/ns/net"));
        held.map(|entry| entry.path()).chain([lives_in]).collect::<Vec<_>>()
    });
    let targets = links.filter_map(|link| fs::read_link(link).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("net:[") && *target != own).collect()
}

fn every_process() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn links_here() -> BTreeSet<String> {
    let links = fs::read_dir("/sys/class/net").expect("links").flatten();
    links.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn ctrl_c_leaves_no_namespace_no_process_and_no_file_but_logs() {
    let before = links_here();
    let mut sandbox = Sandbox::start(&[]).await;
    let folder = sandbox.folder().to_owned();
    for file in ["cluster1.kubeconfig", "cluster2.kubeconfig", "broker.kubeconfig", "cluster1.controller.pid"]
    {
        assert!(folder.join(file).exists(), "{file}");
    }
    let held = namespaces(&[sandbox.pid()]);
    // Underlay, and for each cluster a router, two gateways and two workloads.
    assert!(held.len() >= 11, "{held:?}");
    assert!(!processes_of(sandbox.pid()).is_empty());
    assert_eq!(links_here(), before, "it builds nothing in the caller's own network");

    let status = sandbox.end().expect("it ends when interrupted");
    assert_eq!(status.code(), Some(0), "everything it was asked for had worked");
    until("no process is left", || processes_of(sandbox.pid()).is_empty());
    until("no namespace is held", || namespaces(&every_process()).is_disjoint(&held));
    assert_eq!(links_here(), before);
    assert!(folder.join("logs").join("cluster1-controller.log").exists());
    assert!(!folder.join("ready").exists() && !folder.join("pods").exists());
    // What else is in its folder is looked at when the sandbox is dropped.
}

#[tokio::test]
async fn a_second_sandbox_in_the_same_folder_is_refused_and_the_first_stays_as_it_is() {
    let sandbox = Sandbox::bare().await;
    let folder = sandbox.folder().to_str().expect("text");
    let output = causeway(&["sandbox", "--once", "--dir", folder]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{folder} is in use by pid {}:", sandbox.pid())), "{said}");
    assert!(sandbox.folder().join("ready").exists());
    sandbox.cluster(1).await.kubectl(&["get", "vpc"]).await.ok();
}

#[tokio::test]
async fn a_gateways_log_tells_of_the_commands_that_ran_in_it_and_a_workloads_is_empty() {
    let sandbox = Sandbox::start(&[]).await;
    let one = sandbox.cluster(1).await;
    let log = one.kubectl(&["logs", "-n", "kube-system", "vpc-nat-gw-gw1-0"]).await.ok();
    assert!(log.contains(r#""kind":"apply""#) && !log.contains("vpc-nat-gw-gw2-0"), "{log}");
    let last = one.kubectl(&["logs", "-n", "kube-system", "vpc-nat-gw-gw1-0", "--tail", "1"]).await.ok();
    assert_eq!(last.lines().count(), 1, "{last}");
    assert_eq!(one.kubectl(&["logs", "-n", "ns1", "server"]).await.ok(), "");
    one.kubectl(&["logs", "-n", "ns1", "nobody"]).await.refused(&["nobody"]);
}

#[tokio::test]
async fn a_routine_day_alarms_nobody() {
    let sandbox = Sandbox::start(&[]).await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let gateway = ["delete", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0", "--wait=true"];
    one.kubectl(&gateway).await.ok();
    // The pod that held the tunnel is gone, so whatever answers now came through its successor.
    one.comes_to_reach("242.1.1.20").await;
    one.built("demo").await;
    for cluster in [&one, &two] {
        let events = cluster.events("ns1", "demo").await;
        assert!(events.iter().all(|event| !event.warning), "{}: {events:?}", cluster.name);
    }
}

#[test]
fn what_contradicts_itself_or_proves_nothing_is_refused_before_anything_starts() {
    can_run(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("map.yaml");
    fs::write(&file, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n").expect("written");
    let file = file.to_str().expect("text");
    let cases = [
        (["sandbox", "--bare", "--apply", file], 2, "cannot be used with"),
        (["sandbox", "--once", "--apply", file], 1, "has no VpcNatTunnel to prove"),
        (["sandbox", "--once", "--apply", "/nowhere.yaml"], 1, "cannot read the manifest /nowhere.yaml"),
    ];
    for (args, code, words) in cases {
        let output = causeway(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words) && !said.contains("taking everything down"), "{said}");
    }
}

#[test]
fn a_killed_sandbox_leaves_no_process_and_no_folder_behind() {
    can_run(&[]);
    let turn = real::turn(&["-o", "json"]);
    let mut command = Command::new(PROGRAM);
    command
        .arg("sandbox")
        .args(&turn.flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let folder = lines.find_map(|line| {
        let line = line.expect("text");
        Some(line.split_once("\"folder\": \"")?.1.trim_end_matches("\",").to_owned())
    });
    let folder = PathBuf::from(folder.expect("the report names its folder"));
    until("it is ready", || folder.join("ready").exists());
    let held = namespaces(&[child.id()]);
    assert!(!processes_of(child.id()).is_empty() && !held.is_empty());

    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL).expect("it runs");
    child.wait().expect("its end");
    until("no process is left", || processes_of(child.id()).is_empty());
    until("its folder is gone", || !folder.exists());
    until("no namespace is held", || namespaces(&every_process()).is_disjoint(&held));
}

#[test]
fn what_is_missing_is_named_together_with_what_to_install() {
    can_run(&[]);
    // Empty folders over those that hold tools, seen by this one process alone.
    let script = format!(
        "for place in /usr/local/sbin /usr/local/bin /usr/sbin /sbin /bin /usr/bin; do \
           [ -L $place ] || mount -t tmpfs none $place || exit 9; done; exec {PROGRAM} sandbox --once"
    );
    let root = nix::unistd::geteuid().is_root();
    let mut command = Command::new("unshare");
    command.arg(if root { "-m" } else { "-rm" }).args(["bash", "-c", &script]);
    let output = command.stdin(Stdio::null()).output().expect("unshare runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for words in [
        "`ip` is not installed: install the package iproute2",
        "`iptables` is not installed: install the package iptables",
    ] {
        assert!(said.contains(words), "{words:?} in: {said}");
    }
}

#[test]
fn help_names_every_command_and_every_flag_with_a_sentence() {
    let help = |args: &[&str]| {
        let output = causeway(args);
        assert!(output.status.success(), "{args:?}");
        text(&output.stdout)
    };
    let top = help(&["--help"]);
    for command in ["controller", "status", "rules", "crds", "completion", "sandbox"] {
        let line = top.lines().find(|line| line.trim_start().starts_with(command));
        let line = line.unwrap_or_else(|| panic!("{command} in: {top}"));
        assert!(line.split_whitespace().count() > 4, "it says what it does: {line}");
    }
    let sandbox = help(&["sandbox", "--help"]);
    for flag in [
        "--clusters",
        "--bare",
        "--apply",
        "--rules",
        "--nodes",
        "--nodes-backend",
        "--nodes-ipv6",
        "--demo",
        "--once",
        "--output",
        "--dir",
        "--iptables",
        "--timeout",
    ] {
        assert!(sandbox.contains(flag), "{flag} in: {sandbox}");
    }
    let controller = help(&["controller", "--help"]);
    for flag in ["--kubeconfig", "--broker-kubeconfig", "--cluster-id", "--globalnet-cidr", "--egress-ips"] {
        assert!(controller.contains(flag), "{flag} in: {controller}");
    }
    assert!(!controller.contains("exit-with-parent"), "what people do not need is not shown");
    assert_eq!(causeway(&["sandbox", "--clusters", "1"]).status.code(), Some(2));
}
