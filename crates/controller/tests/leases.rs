//! A node's agent in a network namespace of its own, with time that is moved: an hour without its API server.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use causeway_apiserver::{Fault, Switch};
use causeway_controller::clock::Clock;
use causeway_controller::follow::Spread;
use causeway_controller::leases::Options;
use causeway_controller::leases::links::{Selection, Wanted};
use causeway_controller::{NodeOptions, run_node};
use causeway_core::leases::{Given, Mode, Network};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use support::{client, server};
use tokio_util::sync::CancellationToken;

/// Runs a command of the test's own in the namespace that this thread is in; gives what it printed.
fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip starts");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Real time passes, and the test's own stands still: the kernel has no other.
async fn really(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        let pause = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(5)));
        pause.await.expect("no panic");
    }
}

/// On a thread that has left this machine's network, with time that moves when nothing else does.
fn alone<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let thread = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace (these tests need to be root)");
        // Whatever this runtime starts is in there too.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().expect("a runtime").block_on(test());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn node(name: &str, part: u8, public: &str) -> Node {
    let prefix = "flannel.alpha.coreos.com";
    let node = json!({
        "metadata": { "name": name, "annotations": {
            format!("{prefix}/kube-subnet-manager"): "true",
            format!("{prefix}/backend-type"): "host-gw",
            format!("{prefix}/backend-data"): "null",
            format!("{prefix}/public-ip"): public,
        } },
        "spec": { "podCIDR": format!("10.244.{part}.0/24"), "podCIDRs": [format!("10.244.{part}.0/24")] },
    });
    serde_json::from_value(node).expect("a node")
}

#[test]
fn an_hour_without_an_api_server_changes_no_route_and_what_is_deleted_meanwhile_comes_back() {
    alone(async || {
        for words in [
            "link set lo up",
            "link add eth0 type veth peer name far",
            "addr add 192.168.7.1/24 dev eth0",
            "link set eth0 up",
            "link set far up",
        ] {
            ip(words);
        }
        let server = server().await;
        let nodes: Api<Node> = Api::all(client(&server, "test"));
        for (name, part) in [("one", 1), ("two", 2)] {
            let node = node(name, part, &format!("192.168.7.{part}"));
            nodes.create(&PostParams::default(), &node).await.expect("it is created");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let range = "10.244.0.0/16".parse().expect("a range");
        let leases = Options {
            given: Given {
                name: "one".into(),
                networks: vec![Network { range, mode: Mode::HostGw }],
                ..Given::default()
            },
            prefix: "flannel.alpha.coreos.com".into(),
            selection: Selection(vec![Wanted::Named("eth0".into())]),
            subnet_file: folder.path().join("subnet.env"),
            set_condition: true,
            check_every: Duration::from_secs(15),
            spread: Spread::default(),
        };
        let stop = CancellationToken::new();
        let client = client(&server, "one");
        let options = NodeOptions { client, listen: None, clock: Clock::System, seed: 1, leases };
        let agent = tokio::spawn(run_node(options, stop.clone()));
        let is_there = || ip("route show 10.244.2.0/24").contains("via 192.168.7.2 dev eth0 proto 158");
        really("the route is there", is_there).await;
        really("the CNI plugin can begin", || folder.path().join("subnet.env").exists()).await;

        server.faults().set(vec![Fault::new(Switch::Freeze)]).expect("a fault");
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert!(is_there(), "an outage of the API server is none of the network");
            assert!(!agent.is_finished(), "it goes on");
        }
        ip("route del 10.244.2.0/24");
        really("the route is back", is_there).await;

        // What happened meanwhile is seen when the server is back.
        server.faults().clear();
        nodes.create(&PostParams::default(), &node("three", 3, "192.168.7.3")).await.expect("it is created");
        let follows = || ip("route show 10.244.3.0/24").contains("via 192.168.7.3 dev eth0 proto 158");
        let start = tokio::time::Instant::now();
        while !follows() {
            assert!(start.elapsed() < Duration::from_secs(600), "never: the new node is reached");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        stop.cancel();
        agent.await.expect("no panic").expect("a clean end");
        assert!(is_there() && follows(), "routes stay when it stops");
    });
}
