//! `causeway node` in one cluster with flannel's own programs, built by `hack/peers-build.sh`: `make peers`.
#![cfg(feature = "sandbox")]

#[path = "nodes/agent.rs"]
mod agent;
#[path = "nodes/cluster.rs"]
#[allow(dead_code, reason = "the tests of our agent alone use more of it")]
mod cluster;
#[path = "node_peers/cni.rs"]
mod cni;
#[path = "../../datapath/tests/lab/net.rs"]
#[allow(dead_code, reason = "the tests of the datapath use more of it")]
mod net;
#[path = "nodes/ping.rs"]
mod ping;

use std::path::Path;

use agent::{Agent, Program};
use causeway_datapath::leases::PROTOCOL;
use cluster::{Backend, Cluster, Machine};
use cni::Container;
use futures::future::join_all;
use net::Netns;
use ping::{Monitor, Steady};

/// The routes to the two other nodes in either family are there, and ours.
fn all_ours(machine: &Machine) -> Result<(), String> {
    let routes = machine.routes();
    let ours = |route: &String| format!("{route} ").contains(&format!(" proto {PROTOCOL} "));
    if routes.len() == 4 && routes.iter().all(ours) { Ok(()) } else { Err(routes.join("\n")) }
}

/// No chain or table of flannel's is left.
fn no_rules_of_flannel(machine: &Machine) -> Result<(), String> {
    let rules = machine.node.sh("iptables-save; ip6tables-save; nft list tables");
    let left: Vec<&str> = rules.lines().filter(|line| line.to_lowercase().contains("flannel")).collect();
    if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
}

/// Packets that flow while an agent is exchanged: in both families, to and from the pod of the first node.
struct Flow {
    pings: Vec<Steady>,
    // Ends after the pings.
    monitor: Monitor,
}

impl Flow {
    async fn begin(cluster: &Cluster) -> Self {
        let [first, second, third] = &cluster.machines[..] else { panic!("three nodes") };
        let monitor = Monitor::begin(cluster.folder(), &first.node);
        let ways = [(first, second), (second, first), (first, third), (third, first)];
        let ping = |(from, to): (&Machine, &Machine)| {
            to.addresses().map(|address| Steady::begin(cluster.folder(), &from.pod, &address))
        };
        let flow = Self { pings: ways.into_iter().flat_map(ping).collect(), monitor };
        flow.goes_on().await;
        flow
    }

    async fn goes_on(&self) {
        join_all(self.pings.iter().map(Steady::goes_on)).await;
    }

    /// Ends it; no packet was lost, and no way to another node was away for however short a time.
    async fn was_never_interrupted(self, during: &str) {
        self.goes_on().await;
        let mut sent = 0;
        for ping in self.pings {
            sent += ping.none_was_lost().await;
        }
        eprintln!("{during}: {sent} packets, none lost");
        assert_eq!(
            self.monitor.deleted(),
            Vec::<String>::new(),
            "{during}: replaced in place, not deleted and added"
        );
    }
}

fn flanneld_can_run() {
    let bridges = Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables");
    assert!(bridges.exists(), "flanneld needs the module br_netfilter: there is no {}", bridges.display());
}

/// flanneld on one node, ours on another, and one of either on the third.
async fn side_by_side(backend: Backend) {
    flanneld_can_run();
    for third in [Program::Flanneld, Program::Causeway] {
        let mut cluster = Cluster::new(backend).await;
        for (number, program) in [(1, Program::Flanneld), (2, Program::Causeway), (3, third)] {
            cluster.start(number, program);
        }
        cluster.everybody_is_reached().await;
        assert_eq!(all_ours(&cluster.machines[1]), Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flanneld: make peers"]
async fn pods_of_flannels_nodes_and_of_ours_reach_each_other_over_host_gw() {
    side_by_side(Backend::HostGw).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flanneld: make peers"]
async fn pods_of_flannels_nodes_and_of_ours_reach_each_other_over_vxlan() {
    side_by_side(Backend::Vxlan).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flanneld: make peers"]
async fn pods_of_flannels_nodes_and_of_ours_reach_each_other_without_a_tunnel_on_one_link() {
    side_by_side(Backend::Direct).await;
}

/// A node goes over from flanneld to us and back while packets flow.
async fn there_and_back(backend: Backend) {
    flanneld_can_run();
    let mut cluster = Cluster::new(backend).await;
    for number in 1..=3 {
        cluster.start(number, Program::Flanneld);
    }
    cluster.everybody_is_reached().await;
    let (devices, announced) = (cluster.machines[0].devices(), cluster.announced(1).await);
    assert_eq!(devices.is_empty(), backend == Backend::HostGw);

    let flow = Flow::begin(&cluster).await;
    cluster.stop(1).await;
    assert!(all_ours(&cluster.machines[0]).is_err(), "flanneld's routes are not ours yet");
    cluster.start(1, Program::Causeway);
    cluster.until("the routes are ours", async || all_ours(&cluster.machines[0])).await;
    cluster.until("flannel's rules are gone", async || no_rules_of_flannel(&cluster.machines[0])).await;
    flow.was_never_interrupted("from flanneld to causeway").await;
    assert_eq!(cluster.machines[0].devices(), devices, "index and Ethernet address stay");
    assert_eq!(cluster.announced(1).await, announced, "no other node has anything to do");
    cluster.everybody_is_reached().await;

    let flow = Flow::begin(&cluster).await;
    cluster.stop(1).await;
    let before = cluster.machines[0].log().len();
    cluster.start(1, Program::Flanneld);
    cluster
        .until("flanneld is back", async || {
            let log = cluster.machines[0].log();
            let back = log.get(before..).is_some_and(|log| log.contains("flannel is ready"));
            if back { Ok(()) } else { Err(String::new()) }
        })
        .await;
    flow.was_never_interrupted("from causeway to flanneld").await;
    assert_eq!(cluster.machines[0].devices(), devices, "index and Ethernet address stay");
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flanneld: make peers"]
async fn a_node_goes_over_from_flanneld_and_back_without_a_lost_packet_over_host_gw() {
    there_and_back(Backend::HostGw).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flanneld: make peers"]
async fn a_node_goes_over_from_flanneld_and_back_without_a_lost_packet_over_vxlan() {
    there_and_back(Backend::Vxlan).await;
}

/// The files of a folder and below it that are about a container.
fn remembered(folder: &Path, id: &str) -> Vec<String> {
    let listed = std::process::Command::new("grep").args(["-rlF", id]).arg(folder).output().expect("grep");
    let named = std::process::Command::new("find").arg(folder).args(["-name", id]).output().expect("find");
    let text = [listed.stdout, named.stdout].concat();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flannel's CNI plugin: make peers"]
async fn flannels_cni_plugin_wires_pods_from_our_subnet_env() {
    flanneld_can_run();
    let mut cluster = Cluster::without_pods(Backend::Vxlan).await;
    cluster.start(1, Program::Causeway);
    cluster.start(2, Program::Flanneld);
    for number in 1..=2 {
        let file = cluster.folder().join(format!("node{number}.subnet.env"));
        cluster.until("subnet.env", async || file.exists().then_some(()).ok_or_else(String::new)).await;
    }
    let second = Netns::new();
    let [ours, theirs, _] = &cluster.machines[..] else { panic!("three nodes") };
    let container = |id: &str, version, machine, pod| Container {
        id: format!("causeway-peers-{id}"),
        version,
        machine,
        pod,
        cluster: &cluster,
    };
    let containers = [
        container("a", "0.3.1", ours, &ours.pod),
        container("b", "0.4.0", ours, &second),
        container("c", "0.4.0", theirs, &theirs.pod),
    ];
    let mut addresses: Vec<[String; 2]> = Vec::new();
    for container in &containers {
        let result = container.call("ADD");
        let number = container.machine.number;
        let ips = result["ips"].as_array().expect("addresses").iter();
        let ips: Vec<&str> = ips.map(|ip| ip["address"].as_str().expect("an address")).collect();
        let [v4, v6] = ips[..] else { panic!("one of each family: {result}") };
        assert!(v4.starts_with(&format!("10.244.{number}.")) && v4.ends_with("/24"), "{result}");
        assert!(v6.starts_with(&format!("fd00:10:244:{number}::")) && v6.ends_with("/64"), "{result}");
        addresses.push([v4, v6].map(|ip| ip.split('/').next().expect("an address").to_owned()));
        let env = std::fs::read_to_string(container.subnet_env()).expect("subnet.env");
        let mtu = env.lines().find_map(|line| line.strip_prefix("FLANNEL_MTU=")).expect("a size");
        let link = container.pod.sh("ip -o link show eth0");
        assert!(link.contains(&format!(" mtu {mtu} ")), "{env}{link}");
    }
    let mut pings = Vec::new();
    for (from, container) in containers.iter().enumerate() {
        for to in addresses.iter().enumerate().filter(|(to, _)| *to != from).flat_map(|(_, to)| to) {
            pings.push((container.pod, to.clone()));
        }
    }
    cluster
        .until("the pods reach each other", async || {
            let lost = ping::unreached(&pings);
            if lost.is_empty() { Ok(()) } else { Err(lost.join(", ")) }
        })
        .await;
    for container in &containers {
        assert_ne!(remembered(&container.memory(), &container.id), Vec::<String>::new());
        container.call("DEL");
        assert!(!container.pod.sh("ip -o link").contains("eth0"), "its link is gone");
        assert_eq!(remembered(&container.memory(), &container.id), Vec::<String>::new());
    }
}

/// Both run on one node for a while, as when Kubernetes takes its time to end one of them.
async fn at_once(backend: Backend) {
    flanneld_can_run();
    let mut cluster = Cluster::new(backend).await;
    for number in 1..=3 {
        cluster.start(number, Program::Flanneld);
    }
    cluster.everybody_is_reached().await;
    let flow = Flow::begin(&cluster).await;
    let ours = Agent::start(Program::Causeway, cluster.folder(), "node1", &cluster.machines[0].node, &[]);
    cluster.until("the routes are ours", async || all_ours(&cluster.machines[0])).await;
    cluster.until("flannel's rules go", async || no_rules_of_flannel(&cluster.machines[0])).await;
    cluster
        .until("flanneld puts them back", async || {
            no_rules_of_flannel(&cluster.machines[0]).is_err().then_some(()).ok_or_else(String::new)
        })
        .await;
    flow.goes_on().await;
    cluster.stop(1).await;
    flow.was_never_interrupted("while causeway comes before flanneld goes").await;
    assert_eq!(all_ours(&cluster.machines[0]), Ok(()));

    let flow = Flow::begin(&cluster).await;
    let before = cluster.machines[0].log().len();
    cluster.start(1, Program::Flanneld);
    cluster
        .until("flanneld is back", async || {
            let log = cluster.machines[0].log();
            let back = log.get(before..).is_some_and(|log| log.contains("flannel is ready"));
            if back { Ok(()) } else { Err(String::new()) }
        })
        .await;
    flow.goes_on().await;
    ours.stop().await;
    flow.was_never_interrupted("while flanneld comes before causeway goes").await;
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flanneld: make peers"]
async fn both_on_one_node_cost_no_packet_over_host_gw() {
    at_once(Backend::HostGw).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs flanneld: make peers"]
async fn both_on_one_node_cost_no_packet_over_vxlan() {
    at_once(Backend::Vxlan).await;
}
