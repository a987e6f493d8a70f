//! The sandbox on real API servers: what it refuses, and what its kubelet does that the embedded server's does not.
#![cfg(feature = "sandbox")]

mod support;

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::tunnels::vxlan;
use support::{PATIENCE, Sandbox, real};

#[test]
#[ignore = "needs real API servers: make real"]
fn a_cluster_that_has_nodes_of_its_own_is_left_alone() {
    let folder = real::needed();
    let turn = real::turn(&["--once", "--bare"]);
    let kubeconfig = folder.join("cluster2.kubeconfig");
    let kubectl = |args: &[&str]| {
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(&kubeconfig).args(args);
        kubectl.stderr(Stdio::inherit()).output().expect("kubectl")
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somebodys-node"}});
    let file = folder.join("node.json");
    std::fs::write(&file, node.to_string()).expect("written");
    assert!(kubectl(&["create", "-f", &file.display().to_string()]).status.success());
    kubectl(&["create", "namespace", "somebodys"]);
    let mut sandbox = Command::new(env!("CARGO_BIN_EXE_causeway"));
    let tried = sandbox.arg("sandbox").args(&turn.flags).output().expect("it runs");
    let kept = kubectl(&["get", "namespace", "somebodys", "-o", "name"]).status.success();
    kubectl(&["delete", "node/somebodys-node", "namespace/somebodys"]);
    let said = String::from_utf8_lossy(&tried.stderr);
    assert!(!tried.status.success() && said.contains("it has a node somebodys-node"), "{said}");
    assert!(kept, "nothing was swept");
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn a_caller_that_goes_away_ends_a_commands_input_and_not_the_command() {
    real::needed();
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let script = "echo begun >$HOME/began; read -r line; echo \"read $? $line\" >$HOME/ended";
    let process = one.start("ns1", "client", &["bash", "-c", script]).await;
    let look = async |file: &str| {
        let said = one.in_client(&format!("cat $HOME/{file}")).await;
        if said.code == 0 { Ok(said.out) } else { Err(said.err) }
    };
    one.until("it has begun", PATIENCE, async || look("began").await).await;
    assert!(look("ended").await.is_err(), "it waits for input");
    drop(process);
    let ended = one.until("it has ended by itself", PATIENCE, async || look("ended").await).await;
    assert_eq!(ended, "read 1 \n");
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn every_command_in_a_gateway_is_in_the_gateways_own_log() {
    real::needed();
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    one.create(&vxlan("vx0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.built("vx0").await;
    one.in_gateway("gw1", "exit 7").await;
    let read =
        || std::fs::read_to_string(sandbox.folder().join("logs/cluster1-execs.jsonl")).expect("the log");
    // It comes a moment after the first tunnel.
    one.until("a monitor", PATIENCE, async || {
        let log = read();
        if log.contains(r#""monitor""#) { Ok(()) } else { Err(log) }
    })
    .await;
    let log = read();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str, event: &str| {
        let fits = |line: &&Value| {
            line["kind"] == kind && line["event"] == event && line["pod"] == "vpc-nat-gw-gw1-0"
        };
        lines.iter().filter(fits).cloned().collect::<Vec<Value>>()
    };
    assert_eq!(of("monitor", "start").len(), 1, "{log}");
    assert_eq!(of("apply", "end").first().map(|line| line["exit"].clone()), Some(json!(0)), "{log}");
    assert_eq!(of("other", "end").last().map(|line| line["exit"].clone()), Some(json!(7)), "{log}");
}
