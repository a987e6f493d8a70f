//! Things undone by hand in a gateway come back, and things that are not ours stay.
#![cfg(feature = "sandbox")]

mod support;

use std::net::Ipv4Addr;
use std::time::Duration;

use support::tunnels::{join, vxlan, with_vni};
use support::{Cluster, Sandbox};

const FAR: &str = "242.1.1.20";
/// What the kernel reports is repaired at once; this is long before the timer would come to it.
const AT_ONCE: Duration = Duration::from_secs(10);
/// What it does not report is found by the timer, every 15 s.
const BY_TIMER: Duration = Duration::from_secs(150);

/// Everything of a gateway that a tunnel needs or that somebody else put there.
#[derive(Debug, PartialEq)]
struct Snapshot {
    links: Vec<(String, Option<String>)>,
    addresses: Vec<Vec<String>>,
    routes: Vec<String>,
    postrouting: Vec<String>,
    clamps: Vec<String>,
    sysctls: Vec<String>,
}

async fn snapshot(cluster: &Cluster) -> Snapshot {
    let mut links = Vec::new();
    let mut addresses = Vec::new();
    for name in ["vx0", "theirs"] {
        let link = cluster.link("gw1", name).await;
        let up = link.as_ref().map(|link| link["flags"].to_string().replace("\"LOWER_UP\"", ""));
        let alias = link.and_then(|link| link["ifalias"].as_str().map(str::to_owned));
        links.push((format!("{name} {up:?}"), alias));
        addresses.push(cluster.addresses("gw1", name).await);
    }
    let mut sysctls = vec![cluster.sysctl("gw1", "ip_forward").await];
    for name in ["proxy_arp", "rp_filter", "promote_secondaries"] {
        let read = cluster.in_gateway("gw1", &format!("cat /proc/sys/net/ipv4/conf/vx0/{name}")).await;
        sysctls.push(format!("{name} {}", read.out.trim()));
    }
    let delay = cluster.in_gateway("gw1", "ip ntable show name arp_cache dev vx0").await.out;
    let delay = delay.split_whitespace().skip_while(|word| *word != "proxy_delay").nth(1);
    sysctls.push(format!("proxy_delay {delay:?}"));
    let (routes, postrouting) = (cluster.routes("gw1").await, cluster.postrouting("gw1").await);
    let clamps = cluster.clamps("gw1").await;
    Snapshot { links, addresses, routes, postrouting, clamps, sysctls }
}

/// Puts things into the gateway that are somebody else's, beside ours.
async fn add_foreign_things(cluster: &Cluster) {
    let iptables = cluster.iptables("gw1").await;
    let script = format!(
        "set -e
        ip link add name theirs type bridge
        ip address add 10.200.0.1/24 dev theirs
        ip link set dev theirs up
        ip route add 10.201.0.0/16 via 10.0.1.10
        ip route add 242.1.0.0/16 via 10.0.1.10 metric 500
        {iptables} -w 5 -t nat -A POSTROUTING -d 10.202.0.0/16 -m comment --comment theirs -j ACCEPT"
    );
    cluster.in_gateway("gw1", &script).await.ok();
}

/// Waits until the gateway is as it was.
async fn restored(cluster: &Cluster, what: &str, before: &Snapshot, patience: Duration) {
    let what = format!("the gateway is as before: {what}");
    let look = async || {
        let now = snapshot(cluster).await;
        if now == *before { Ok(()) } else { Err(format!("{now:#?}, before {before:#?}")) }
    };
    cluster.until(&what, patience, look).await;
}

#[tokio::test]
async fn what_the_kernel_reports_is_repaired_at_once_and_said_and_nothing_else_is_touched() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    add_foreign_things(&one).await;
    let before = snapshot(&one).await;
    let undone = [
        ("ip link delete dev vx0", "link vx0"),
        ("ip link set dev vx0 down", "vx0 up"),
        ("ip address delete 10.100.0.1/24 dev vx0", "address 10.100.0.1/24 of vx0"),
        ("ip route delete 242.1.0.0/16 dev vx0", "route 242.1.0.0/16 dev vx0"),
        ("ip route delete 242.0.0.0/16 dev eth0", "route 242.0.0.0/16 via 10.0.1.1 dev eth0"),
        ("echo 0 >/proc/sys/net/ipv4/conf/vx0/proxy_arp", "proxy_arp of vx0"),
        ("echo 1 >/proc/sys/net/ipv4/conf/vx0/rp_filter", "rp_filter of vx0"),
        ("echo 0 >/proc/sys/net/ipv4/ip_forward", "ip_forward"),
    ];
    for (command, repaired) in undone {
        one.in_gateway("gw1", command).await.ok();
        restored(&one, command, &before, AT_ONCE).await;
        let reported = one.reports("vx0", "DriftRepaired", repaired).await;
        assert!(!reported.warning && reported.note.contains("gw1"), "{reported:?}");
    }
    one.built("vx0").await;
    one.comes_to_reach(FAR).await;
    let trouble = one.events("ns1", "vx0").await.into_iter().filter(|reported| reported.warning);
    assert_eq!(trouble.collect::<Vec<_>>(), [], "a repair is no alarm");
}

/// The client has a floating IP, whose rule would catch its packets on every way out.
async fn comes_from_the_egress_range(one: &Cluster) {
    let (answer, source) = one.http(FAR).await;
    assert_eq!(answer, "HTTP/1.0 200 OK");
    let source: Ipv4Addr = source.parse().expect("the address that the far end saw");
    let egress = Ipv4Addr::new(242, 0, 0, 1)..=Ipv4Addr::new(242, 0, 0, 8);
    assert!(egress.contains(&source), "{source} is not an egress address");
}

async fn our_rule_comes_back_in_front(variant: &str) {
    let sandbox = Sandbox::start(&["--bare", "--iptables", variant]).await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let iptables = one.iptables("gw1").await;
    assert_eq!(iptables, format!("iptables-{variant}"));
    let floating = one.in_gateway("gw1", &format!("{iptables} -t nat -S EXCLUSIVE_SNAT")).await.ok();
    assert!(floating.contains("-s 10.0.1.10/32"), "the client has a floating IP: {floating}");
    let _server = two.serve_http(FAR).await;
    comes_from_the_egress_range(&one).await;
    add_foreign_things(&one).await;
    let before = snapshot(&one).await;
    assert!(before.postrouting[0].contains("causeway:ns1/vx0"), "{before:?}");
    assert!(before.clamps[0].contains("causeway:all"), "{before:?}");

    // The kernel reports none of these: the timer finds them.
    let undone = [
        "{iptables} -w 5 -t mangle -F FORWARD",
        "{nat} -D POSTROUTING 1 && ip ntable change name arp_cache dev vx0 proxy_delay 800",
        "{nat} -F POSTROUTING && {nat} -A POSTROUTING -j SNAT_FILTER \
         && {nat} -A POSTROUTING -d 10.202.0.0/16 -m comment --comment theirs -j ACCEPT",
        "{nat} -D POSTROUTING -j SNAT_FILTER && {nat} -I POSTROUTING 1 -j SNAT_FILTER",
    ];
    for command in undone {
        let command = command.replace("{nat}", "{iptables} -w 5 -t nat").replace("{iptables}", iptables);
        one.in_gateway("gw1", &command).await.ok();
        restored(&one, &command, &before, BY_TIMER).await;
        comes_from_the_egress_range(&one).await;
    }
    one.reports("vx0", "DriftRepaired", "SNAT rule for 242.1.0.0/16").await;
    one.reports("vx0", "DriftRepaired", "segment size rule").await;
    one.reports("vx0", "DriftRepaired", "proxy_delay of vx0").await;
}

#[tokio::test]
async fn the_snat_rule_comes_back_in_front_of_the_gateways_own_with_legacy_iptables() {
    our_rule_comes_back_in_front("legacy").await;
}

#[tokio::test]
async fn the_snat_rule_comes_back_in_front_of_the_gateways_own_with_nft_iptables() {
    our_rule_comes_back_in_front("nft").await;
}

#[tokio::test]
async fn nothing_is_counted_of_a_tunnel_that_is_gone_and_one_of_its_name_begins_at_nothing() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 1).await;
    one.reaches(FAR).await;
    let controller = one.controller().await;
    one.in_gateway("gw1", "ip link set dev vx0 down").await.ok();
    let counted = async |what: &str, as_it_should: fn(f64) -> bool| {
        one.until(what, BY_TIMER, async || {
            let series = controller.series("vx0").await;
            match series.get("causeway_vpc_tunnel_repairs_total") {
                Some(repairs) if as_it_should(*repairs) => Ok(series.len()),
                _ => Err(format!("{series:?}")),
            }
        })
        .await
    };
    let all = counted("a repair is counted", |repairs| repairs >= 1.0).await;
    assert_eq!(all, 6, "up, reachable, round trip, received, sent, repairs");
    one.delete("vx0").await;
    one.until("no series is left of it", AT_ONCE, async || {
        let left = controller.series("vx0").await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    one.create(&with_vni(vxlan("vx0", "gw1", "cluster2/gw1", "10.100.1.1/24"), 1001)).await;
    one.up("vx0").await;
    counted("the new one is counted from nothing", |repairs| repairs == 0.0).await;
}
