//! What others change in a node's kernel is put right in a moment, although the timer has an hour to go.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use super::agent::Program;
use super::cluster::{Backend, Cluster, Machine};
use super::{all_ours, joined};

/// Some milliseconds are promised; this machine may be busy.
const SOON: Duration = Duration::from_secs(10);

/// What a node's agent answers to a request for a path.
fn asked(machine: &Machine, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    let answer = machine.node.inside(move || {
        let mut stream = TcpStream::connect("127.0.0.1:8080").expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        text
    });
    answer.join().expect("an answer")
}

/// How much a counter or gauge has, over all of its labels.
pub(crate) fn metric(machine: &Machine, name: &str) -> f64 {
    let text = asked(machine, "/metrics");
    let of = |line: &&str| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} "));
    let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    text.lines().filter(of).filter_map(value).sum()
}

/// What the agents' events say of a node, by reason.
pub(crate) async fn events(cluster: &Cluster, node: &str, reason: &str) -> Vec<String> {
    let api: Api<Event> = Api::all(cluster.client());
    let listed = api.list(&ListParams::default()).await.expect("events").items.into_iter();
    let about = |event: &Event| event.regarding.as_ref().and_then(|it| it.name.clone());
    listed
        .filter(|event| about(event).as_deref() == Some(node) && event.reason.as_deref() == Some(reason))
        .filter_map(|event| event.note)
        .collect()
}

/// Each of these is done to the first node; afterwards it holds what it held, soon.
async fn repairs(backend: Backend, faults: &[&str]) {
    let cluster = joined(backend).await;
    let first = &cluster.machines[0];
    let held = holds(first);
    for fault in faults {
        let repairs = metric(first, "causeway_leases_repairs_total");
        first.node.sh(fault);
        let start = Instant::now();
        cluster
            .until(&format!("after `{fault}` all is as it was"), async || {
                let now = holds(first);
                if now == held { Ok(()) } else { Err(format!("{now}\ninstead of\n{held}")) }
            })
            .await;
        assert!(start.elapsed() < SOON, "`{fault}` was put right after {:?}", start.elapsed());
        cluster
            .until("it is counted", async || {
                let now = metric(first, "causeway_leases_repairs_total");
                if now > repairs { Ok(()) } else { Err(format!("{now}")) }
            })
            .await;
    }
    cluster.everybody_is_reached().await;
    cluster
        .until("it is told", async || {
            let told = events(&cluster, "node1", "Repaired").await;
            if told.is_empty() { Err(first.log()) } else { Ok(()) }
        })
        .await;
    assert!(metric(first, "causeway_leases_repair_seconds_count") >= 1.0);
}

/// What a node holds of the network, in an order of its own, without what the kernel gives by itself when it likes.
fn holds(machine: &Machine) -> String {
    let script = "ip -br link show type vxlan; ip -br addr show type vxlan
                  for l in $(ip -br link show type vxlan | cut -d' ' -f1); do
                    ip neigh show dev $l nud permanent; ip -6 neigh show dev $l nud permanent; bridge fdb show dev $l
                  done";
    let text = machine.node.sh(script);
    let line = |line: &str| line.split(" fe80::").next().unwrap_or_default().trim().to_owned();
    let mut lines: Vec<String> = text.lines().map(line).chain(machine.routes()).collect();
    lines.retain(|line| !["fe80::", "33:33:", "01:00:5e"].iter().any(|its| line.contains(its)));
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_that_were_deleted_replaced_or_flushed_are_back_at_once() {
    repairs(
        Backend::HostGw,
        &[
            "ip route del 10.244.2.0/24",
            "ip -6 route del fd00:10:244:3::/64",
            "ip route replace 10.244.3.0/24 via 192.168.7.9 dev eth0",
            "ip route flush proto 158; ip -6 route flush proto 158",
            "ip route add 10.244.99.0/24 via 192.168.7.9 proto 158",
            "ip route add blackhole 10.244.98.0/24 proto 158",
            "ip link set eth0 down; ip link set eth0 up; ip -6 addr replace fd00:192:168::1/64 dev eth0 nodad",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vxlan_link_its_address_and_its_far_ends_are_back_at_once() {
    repairs(
        Backend::Vxlan,
        &[
            "ip route del 10.244.2.0/24",
            "ip neigh del 10.244.2.0 dev flannel.1",
            "ip -6 neigh del fd00:10:244:2:: dev flannel-v6.1",
            "bridge fdb del $(bridge fdb show dev flannel.1 | awk '/dst 192.168.7.3/{print $1; exit}') dev flannel.1 dst 192.168.7.3",
            "ip addr del 10.244.1.0/32 dev flannel.1",
            "ip addr add 10.244.1.77/24 dev flannel.1",
            "ip link set flannel.1 mtu 1300",
            "ip link set flannel.1 down",
            "ip link set flannel.1 down; ip link set flannel.1 name others; ip link set others up || true",
            "ip link del flannel.1; ip link del flannel-v6.1",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_route_stays_and_is_told_and_gone_it_is_ours_again() {
    let cluster = joined(Backend::HostGw).await;
    let first = &cluster.machines[0];
    first.node.sh("ip route replace 10.244.2.0/24 via 192.168.7.3 proto static");
    cluster
        .until("it is told", async || {
            let told = events(&cluster, "node1", "RouteContested").await;
            told.iter().any(|note| note.contains("10.244.2.0/24")).then_some(()).ok_or_else(|| first.log())
        })
        .await;
    assert_eq!(metric(first, "causeway_leases_contested"), 1.0);
    let route = first.node.sh("ip route show 10.244.2.0/24");
    assert!(route.contains("via 192.168.7.3") && route.contains("proto static"), "{route}");
    first.node.sh("ip route del 10.244.2.0/24");
    cluster.until("it is ours again", async || all_ours(first)).await;
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_renamed_or_has_another_address_is_followed() {
    let cluster = joined(Backend::HostGw).await;
    let (first, second) = (&cluster.machines[0], &cluster.machines[1]);
    // By another name it is still the one that others know.
    first.node.sh("ip link set eth0 down; ip link set eth0 name eth9; ip link set eth9 up
                   ip -6 addr replace fd00:192:168::1/64 dev eth9 nodad");
    let is_used = || first.routes().iter().filter(|route| route.contains("dev eth9 proto 158")).count() == 4;
    cluster
        .until("it is used", async || if is_used() { Ok(()) } else { Err(first.routes().join("\n")) })
        .await;
    // Without an address there is nothing to be known by; then it is looked for by its name.
    first.node.sh("ip addr flush dev eth9");
    cluster
        .until("what is waited for is said", async || {
            let told = events(&cluster, "node1", "Waiting").await;
            let said = told.iter().any(|note| note.contains("there is no interface eth0"));
            said.then_some(()).ok_or_else(|| format!("{told:?}"))
        })
        .await;
    first.node.sh(
        "ip link set eth9 down; ip link set eth9 name eth0; ip link set eth0 up
                   ip addr add 192.168.7.1/24 dev eth0; ip -6 addr replace fd00:192:168::1/64 dev eth0 nodad",
    );
    cluster.until("it is back", async || all_ours(first)).await;
    // One more address, and a better default route, are nobody's business.
    first.node.sh("ip -6 addr add fd00:192:168::77/64 dev eth0 nodad; ip addr add 192.168.7.77/24 dev eth0
                   ip route add default via 10.244.1.10");
    // Another address is announced, and the others go there.
    first.node.sh("ip addr del 192.168.7.77/24 dev eth0; ip addr add 192.168.7.101/24 dev eth0; ip addr del 192.168.7.1/24 dev eth0
                   ip addr replace 192.168.7.101/24 dev eth0");
    cluster
        .until("the others follow", async || {
            let route = second.node.sh("ip route show 10.244.1.0/24");
            if route.contains("via 192.168.7.101") { Ok(()) } else { Err(route) }
        })
        .await;
    let sixth = second.node.sh("ip -6 route show fd00:10:244:1::/64");
    assert!(sixth.contains("via fd00:192:168::1 "), "the address that was known stays: {sixth}");
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_another_one_by_the_same_name_is_used() {
    for backend in [Backend::HostGw, Backend::Vxlan] {
        let cluster = joined(backend).await;
        let (first, before) = (&cluster.machines[0], cluster.announced(1).await);
        cluster.lay_anew(1);
        cluster.until("all routes are back", async || all_ours(first)).await;
        cluster.everybody_is_reached().await;
        assert_eq!(cluster.announced(1).await, before, "nobody else has anything to do");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_were_flushed_are_back_at_once() {
    let cluster = joined(Backend::HostGw).await;
    let first = &cluster.machines[0];
    let rules = || {
        let rules = first.node.sh("iptables -S FORWARD; ip6tables -S FORWARD; nft list tables");
        let ours = |line: &&str| line.contains("causeway");
        rules.lines().filter(ours).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = |count: usize| if count == 6 { Ok(()) } else { Err(format!("{:?}", rules())) };
    cluster.until("the rules are there", async || all(rules().len())).await;
    for fault in
        ["iptables -F FORWARD", "ip6tables -F FORWARD", "nft delete table ip causeway", "nft flush ruleset"]
    {
        // A chain that is gone has no policy any more: it comes back with the next command.
        first.node.sh(&format!("{fault}; iptables -P FORWARD DROP; ip6tables -P FORWARD DROP"));
        let start = Instant::now();
        cluster.until(&format!("after `{fault}` the rules are back"), async || all(rules().len())).await;
        assert!(start.elapsed() < SOON, "`{fault}` was put right after {:?}", start.elapsed());
    }
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_better_route_of_ipv6_is_told_and_left_alone() {
    let cluster = joined(Backend::HostGw).await;
    let first = &cluster.machines[0];
    first.node.sh("ip -6 route add fd00:10:244:2::/64 via fd00:192:168::3 metric 50 proto static");
    cluster
        .until("it is told", async || {
            let told = events(&cluster, "node1", "RouteContested").await.join("; ");
            if told.contains("fd00:10:244:2::/64") { Ok(()) } else { Err(told) }
        })
        .await;
    first.node.sh("ip -6 route del fd00:10:244:2::/64 metric 50");
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_kernel_refuses_is_told_and_done_once_it_can_be() {
    let mut cluster = Cluster::new(Backend::Vxlan).await;
    // Two links of one VXLAN cannot be.
    cluster.machines[0].node.sh("ip link add others type vxlan id 1 dstport 8472 dev eth0");
    for number in 1..=3 {
        cluster.start_with(number, Program::Causeway, &["--healthz-port=8080"]);
    }
    cluster
        .until("it is told", async || {
            let told = events(&cluster, "node1", "KernelRefused").await.join("; ");
            let said = told.contains("make the link flannel.1: File exists");
            said.then_some(()).ok_or_else(|| cluster.machines[0].log())
        })
        .await;
    let announced = cluster.announced(1).await;
    assert_eq!(announced, Vec::<String>::new(), "nobody is told to reach it: {}", cluster.machines[0].log());
    assert!(!cluster.folder().join("node1.subnet.env").exists(), "and no pod is begun on it");
    assert!(cluster.machines[0].node.sh("ip link show others").contains("others"), "it is somebody else's");
    cluster.machines[0].node.sh("ip link del others");
    cluster.everybody_is_reached().await;
}
