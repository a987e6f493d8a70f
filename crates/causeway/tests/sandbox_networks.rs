//! `causeway sandbox --networks`: hosts of one network reach each other and their gateway and nobody else; what somebody
//! breaks is mended, what is in use stays, and nothing is left behind.
#![cfg(feature = "sandbox")]

mod cloud;
mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use cloud::{Neutron, Settings};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::{Cluster, PATIENCE, Said, Sandbox, can_run, processes_of, real};

const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");
/// Each host, and who it reaches.
const REACHES: [(&str, &[&str]); 3] = [
    ("blue1", &["blue2", "192.168.10.1"]),
    ("blue2", &["blue1", "192.168.10.1"]),
    ("green1", &["192.168.20.1"]),
];
/// All that hosts ask.
const ALL: [&str; 5] = ["blue1", "blue2", "green1", "192.168.10.1", "192.168.20.1"];
const KIND: &str = "networks.samplecrd.k8s.io";

/// Runs a sandbox to its end; says who it was.
fn sandbox(args: &[&str]) -> (u32, Output) {
    let turn = real::turn(args);
    finish(Command::new(PROGRAM).arg("sandbox").args(&turn.flags))
}

fn finish(command: &mut Command) -> (u32, Output) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
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

/// Runs a command where one of the sandbox's files leads to.
fn inside(sandbox: &Sandbox, file: &str, argv: &[&str]) -> (bool, String) {
    let folder = sandbox.folder();
    let mut command = Command::new("nsenter");
    if !nix::unistd::geteuid().is_root() {
        let pid = sandbox.pid().to_string();
        command.args(["-U", "--preserve-credentials", "-t", &pid]);
    }
    command.arg(format!("--net={}", folder.join(format!("cluster1.{file}.net")).display()));
    let output = command.args(argv).output().expect("nsenter runs");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// How many of five packets come back.
fn answers(sandbox: &Sandbox, from: &str, to: &str) -> u32 {
    let (_, said) = inside(sandbox, from, &["ping", "-c", "5", "-i", "0.05", "-W", "1", to]);
    let received = said.split(", ").find_map(|part| part.strip_suffix(" received"));
    received.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

/// What a condition of the network `blue` says, as `status reason: message`.
async fn says(cluster: &Cluster, condition: &str) -> String {
    let said = cluster.kubectl(&["get", KIND, "blue", "-o", "json"]).await.ok();
    let object: Value = serde_json::from_str(&said).expect("JSON");
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|it| it["type"] == condition).unwrap_or_default();
    let word = |key: &str| found[key].as_str().unwrap_or("?").to_owned();
    format!("{} {}: {}", word("status"), word("reason"), word("message"))
}

fn expect(what: &str, said: Said) -> Result<(), String> {
    if said.code == 0 && said.out.contains(what) { Ok(()) } else { Err(format!("{said:?}")) }
}

#[test]
fn hosts_reach_their_own_network_and_no_other_and_nothing_is_left() {
    can_run(&[]);
    let (pid, output) = sandbox(&["--networks", "--once", "-o", "json"]);
    let said = text(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{said}", text(&output.stdout)));
    assert!(output.status.success() && report["ready"] == true, "{report:#}\n{said}");
    let clusters = report["networks"].as_array().expect("the clusters' networks");
    let names: Vec<&Value> = clusters.iter().map(|of| &of["cluster"]).collect();
    assert_eq!(names, ["cluster1", "cluster2"]);
    for of in clusters {
        let declared = of["networks"].as_array().expect("networks");
        let facts = declared.iter().map(|it| [&it["name"], &it["cidr"], &it["gateway"], &it["ready"]]);
        let ready = Value::Bool(true);
        let [blue, green] = [
            ["blue", "192.168.10.0/24", "192.168.10.1"].map(Value::from),
            ["green", "192.168.20.0/24", "192.168.20.1"].map(Value::from),
        ];
        let wanted = [&blue, &green].map(|[name, cidr, gateway]| [name, cidr, gateway, &ready]);
        assert_eq!(facts.collect::<Vec<_>>(), wanted);
        for (from, own) in REACHES {
            for to in ALL.into_iter().filter(|to| *to != from) {
                let (answer, none) = (&of["reached"][from][to], &of["apart"][from]);
                assert_eq!(answer.is_number(), own.contains(&to), "{from} → {to} in {of:#}");
                assert_eq!(none.get(to), (!own.contains(&to)).then_some(&Value::Null), "{from} → {to}");
            }
        }
        let counted = ["sent", "received", "crossed"].map(|key| of[key].as_u64());
        assert_eq!(counted, [Some(500), Some(500), Some(0)], "{of:#}");
    }
    assert_eq!(report["proof"]["sent"], report["proof"]["received"], "the tunnel works beside them");
    until("no process is left", || processes_of(pid).is_empty());
    assert!(!Path::new(report["folder"].as_str().expect("a folder")).exists());
}

#[tokio::test]
async fn a_deleted_bridge_comes_back_and_a_network_goes_once_nothing_is_attached() {
    let mut sandbox = Sandbox::start(&["--bare", "--networks"]).await;
    let one = sandbox.cluster(1).await;
    let said = std::fs::read_to_string(sandbox.folder().join("sandbox.out")).expect("what it said");
    for (host, _) in REACHES {
        let row = said.lines().find(|line| line.contains(&format!(" {host} ")) && line.contains("apart"));
        assert!(row.is_some_and(|row| row.contains(" ms ") && !row.contains('✘')), "{host} in:\n{said}");
    }
    assert!(said.contains("cluster1.blue1.net ping -c 3 192.168.10.12"), "how to get in:\n{said}");
    let namespaces = namespaces(sandbox.folder());
    assert_eq!(namespaces.len(), 8, "bridges and three hosts in each of two clusters");
    assert_eq!(answers(&sandbox, "blue1", "192.168.10.12"), 5);
    assert_eq!(answers(&sandbox, "green1", "192.168.10.11"), 0);

    // Somebody deletes the bridge. The controllers look every five seconds.
    let id = one.kubectl(&["get", KIND, "blue", "-o", "jsonpath={.status.networkId}"]).await.ok();
    let bridge = |argv: &[&str]| inside(&sandbox, "bridges", argv);
    let deleted = Instant::now();
    assert_eq!(bridge(&["ip", "link", "delete", &id]), (true, String::new()));
    assert_eq!(answers(&sandbox, "blue1", "192.168.10.12"), 0, "it is gone");
    until("the bridge and its hosts", || answers(&sandbox, "blue1", "192.168.10.12") == 5);
    assert_eq!(answers(&sandbox, "blue2", "192.168.10.1"), 5, "its gateway too");
    assert!(deleted.elapsed() < Duration::from_secs(20), "{:?}", deleted.elapsed());
    one.until("the repair is told", PATIENCE, async || {
        let events = ["get", "events", "--field-selector", "reason=DriftRepaired,involvedObject.name=blue"];
        expect("create network default/blue", one.kubectl(&events).await)
    })
    .await;

    // A network that hosts are attached to stays, and says who they are.
    one.kubectl(&["delete", KIND, "blue", "--wait=false"]).await.ok();
    let in_the_way = format!("attached to bridge {id}: blue1, blue2");
    one.until("what is in the way", PATIENCE, async || {
        let said = says(&one, "CleanupBlocked").await;
        if said.starts_with("True InUse") && said.contains(&in_the_way) { Ok(()) } else { Err(said) }
    })
    .await;
    assert_eq!(answers(&sandbox, "blue1", "192.168.10.12"), 5, "whoever uses it goes on");

    // So they are detached. It would be tried again within two minutes; a controller that starts tries at once.
    for host in ["blue1", "blue2"] {
        assert_eq!(bridge(&["ip", "link", "set", "dev", host, "nomaster"]), (true, String::new()));
    }
    let controller = sandbox.controller_pid("cluster1").expect("its controller");
    kill(Pid::from_raw(controller), Signal::SIGKILL).expect("it runs");
    one.until("the network is gone", PATIENCE, async || {
        let said = one.kubectl(&["get", KIND, "-o", "name"]).await.ok();
        if said.contains("/blue") { Err(said) } else { Ok(()) }
    })
    .await;
    let (found, said) = bridge(&["ip", "link", "show", "dev", &id]);
    assert!(!found && said.contains("does not exist"), "{said}");
    assert_eq!(answers(&sandbox, "green1", "192.168.20.1"), 5, "the other network is as it was");

    sandbox.end().expect("it ends");
    until("no network namespace is left", || used().is_disjoint(&namespaces));
}

#[tokio::test]
async fn a_neutron_holds_the_networks_while_the_sandbox_runs_and_nothing_afterwards() {
    let neutron = Neutron::start(Settings::default()).await;
    let api = neutron.api();
    let strangers = api.create("network", json!({ "name": "somebody's" })).await;
    let mut sandbox = Sandbox::start(&["--bare", "--neutron", &neutron.url()]).await;
    let said = std::fs::read_to_string(sandbox.folder().join("sandbox.out")).expect("what it said");
    for name in ["cluster1", "cluster2"] {
        let mut held = Vec::new();
        for network in api.list(&format!("networks?tags=causeway-cluster%3D{name}")).await {
            let id = network["id"].as_str().expect("its id").to_owned();
            assert!(said.contains(&id), "{id} in:\n{said}");
            held.push((network["name"].as_str().expect("its name").to_owned(), id));
        }
        held.sort();
        let cluster = sandbox.cluster(if name == "cluster1" { 1 } else { 2 }).await;
        let template = "jsonpath={range .items[*]}default/{.metadata.name} {.status.networkId}{\"\\n\"}{end}";
        let declared = cluster.kubectl(&["get", KIND, "-o", template]).await.ok();
        let declared: Vec<_> = declared.lines().filter_map(|line| line.split_once(' ')).collect();
        assert_eq!(held.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect::<Vec<_>>(), declared);
        assert_eq!(held.len(), 2, "{held:?}");
    }
    sandbox.end().expect("it ends");
    let left = api.list("networks").await;
    let left: Vec<&Value> = left.iter().map(|network| &network["id"]).collect();
    assert_eq!(left, [&strangers["id"]], "nothing of ours, and all of others'");
}

/// The network namespaces that the files of a folder lead to.
fn namespaces(folder: &Path) -> BTreeSet<u64> {
    let files = std::fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path());
    let leads = files.filter(|path| path.extension().is_some_and(|end| end == "net"));
    leads.map(|path| std::fs::metadata(path).expect("a namespace").ino()).collect()
}

/// Those that any thread of any process is in.
fn used() -> BTreeSet<u64> {
    let folder = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|it| it.path());
    let threads = folder(Path::new("/proc")).flat_map(|process| folder(&process.join("task")));
    threads.filter_map(|thread| Some(std::fs::metadata(thread.join("ns/net")).ok()?.ino())).collect()
}

#[test]
fn what_is_missing_for_networks_is_named_before_anything_is_built() {
    can_run(&[]);
    // A machine that has all tools but one.
    let tools = tempfile::tempdir().expect("a folder");
    for tool in ["ip", "bash", "setsid", "stty", "iptables"] {
        let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|place| Path::new(place).join(tool));
        let found = places.into_iter().find(|path| path.exists()).expect("it can run here");
        symlink(found, tools.path().join(tool)).expect("linked");
    }
    let mut command = Command::new(PROGRAM);
    let (_, output) = finish(command.args(["sandbox", "--once", "--networks"]).env("PATH", tools.path()));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("`nft` is not installed: install the package nftables"), "{said}");

    let nobody = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let url = format!("http://{}", nobody.local_addr().expect("its address"));
    drop(nobody);
    let (_, output) = finish(Command::new(PROGRAM).args(["sandbox", "--once", "--neutron", &url]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [&*format!("no Neutron at {url}"), "Connection refused", &format!("curl {url}/v2.0/networks")]
    {
        assert!(said.contains(part), "{part} in: {said}");
    }

    let (_, output) = finish(Command::new(PROGRAM).args(["sandbox", "--networks", "--measure", "2"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
}
