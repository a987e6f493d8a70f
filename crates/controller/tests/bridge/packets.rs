//! Who reaches whom.

use net::Netns;
use site::{Site, absent, reaches, reaches_not, released, want};

use crate::{net, site};

/// The gateway of a network and two of its hosts.
type Addresses = (&'static str, &'static str, [&'static str; 2]);
const V4: [Addresses; 2] = [
    ("10.1.0.0/24", "10.1.0.1", ["10.1.0.11", "10.1.0.12"]),
    ("10.2.0.0/24", "10.2.0.1", ["10.2.0.11", "10.2.0.12"]),
];
const V6: [Addresses; 2] = [
    ("fd00:1::/64", "fd00:1::1", ["fd00:1::11", "fd00:1::12"]),
    ("fd00:2::/64", "fd00:2::1", ["fd00:2::11", "fd00:2::12"]),
];

fn hosts(site: &Site, uid: &str, (range, gateway, addresses): Addresses) -> [Netns; 2] {
    let (_, prefix) = range.split_once('/').expect("a range");
    let host = |number: usize| {
        let address = format!("{}/{prefix}", addresses[number]);
        site.host(uid, &format!("{uid}{number}"), &address, gateway)
    };
    [host(0), host(1)]
}

#[tokio::test]
async fn hosts_reach_those_of_their_own_network_and_nobody_elses() {
    for networks in [V4, V6] {
        let site = Site::new(false);
        site.machine
            .sh("echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
             for it in /proc/sys/net/bridge/bridge-nf-call-ip*; do [ ! -e $it ] || echo 1 > $it; done");
        let [(range, gateway, own), (other_range, other_gateway, others)] = networks;
        let made = ["create_network", "tag_network", "create_subnet"];
        assert_eq!(site.converge(&want("a", range, gateway)).await.expect("made"), made);
        assert_eq!(site.converge(&want("b", other_range, other_gateway)).await.expect("made"), made);
        let [a0, _a1] = hosts(&site, "a", networks[0]);
        let [b0, _b1] = hosts(&site, "b", networks[1]);
        for (host, address) in [(&a0, own[1]), (&a0, gateway), (&b0, others[1]), (&b0, other_gateway)] {
            assert!(reaches(host, address), "{address} of its own network");
        }
        for (host, address) in [(&a0, others[0]), (&a0, other_gateway), (&b0, own[0]), (&b0, gateway)] {
            assert!(reaches_not(host, address), "{address} of another network");
        }
        if gateway.contains(':') {
            assert!(reaches_not(&a0, "fd00:2::"), "every router of a network has that address too");
        }
        // It is the rules that keep them apart; without them they are made anew, and all is as before.
        site.machine
            .sh("nft flush chain inet causeway-networks forward; nft delete table inet causeway-networks");
        assert!(reaches(&a0, others[0]) && reaches(&a0, other_gateway));
        assert_eq!(site.converge(&want("a", range, gateway)).await.expect("made"), ["repair_network"]);
        assert!(reaches_not(&a0, others[0]) && reaches_not(&a0, other_gateway));
        assert!(reaches(&a0, own[1]) && reaches(&a0, gateway));
    }
}

const FORWARD: &str =
    "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";

#[tokio::test]
async fn nobody_has_answers_sent_to_hosts_of_another_network() {
    for (networks, version) in [(V4, "ip"), (V6, "ip6")] {
        let site = Site::new(false);
        site.machine.sh(FORWARD);
        for (uid, (range, gateway, _)) in ["a", "b"].into_iter().zip(networks) {
            site.converge(&want(uid, range, gateway)).await.expect("made");
        }
        let [liar, neighbour] = hosts(&site, "a", networks[0]);
        let [victim, _] = hosts(&site, "b", networks[1]);
        let outside = Netns::new();
        let (here, there) = if version == "ip" {
            ("192.0.2.1/24", "192.0.2.9/24")
        } else {
            ("2001:db8::1/64", "2001:db8::9/64")
        };
        site.machine.sh(&format!(
            "ip link add outer type veth peer name eth0 netns {}; ip link set outer up; ip addr add {here} dev outer",
            outside.pid()
        ));
        outside.sh(&format!("ip link set eth0 up; ip addr add {there} dev eth0"));
        let protocol = if version == "ip" { "icmp" } else { "icmpv6" };
        victim.sh(&format!(
            "nft add table inet heard
             nft 'add chain inet heard input {{ type filter hook input priority 0; }}'
             nft 'add rule inet heard input {protocol} type echo-reply counter'"
        ));
        let is_left_alone = || victim.sh("nft list chain inet heard input").contains("packets 0");
        let (gateway, address) = (networks[0].1, networks[1].2[0]);
        let nodad = if version == "ip6" { "nodad" } else { "" };
        liar.sh(&format!("ip addr add {address} dev eth0 {nodad}"));
        outside.sh(&format!("ip addr add {address} dev eth0 {nodad}"));
        let lie = format!("ping -c 2 -i 0.2 -W 1 -I {address} {gateway}");
        let _ = liar.try_sh(&lie);
        let (machine, _) = here.split_once('/').expect("a prefix");
        let _ = outside.try_sh(&format!("ping -c 2 -i 0.2 -W 1 -I {address} {machine}"));
        assert!(is_left_alone(), "an answer came to whom nobody asked");
        assert!(reaches(&neighbour, gateway), "who does not lie is heard");
        // It is the rule that stops it.
        site.machine.sh("nft flush chain inet causeway-networks prerouting");
        // Who was not heard so far may take some time to ask for the gateway again.
        let is_heard = (0..20).any(|_| {
            let _ = liar.try_sh(&lie);
            !is_left_alone()
        });
        assert!(is_heard);
        assert!(site.converge(&want("a", networks[0].0, gateway)).await.is_ok(), "and it is put back");
    }
}

#[tokio::test]
async fn a_network_that_was_let_go_is_as_far_from_the_others_as_before() {
    let site = Site::new(false);
    site.machine.sh(FORWARD);
    for (uid, (range, gateway, _)) in ["a", "b"].into_iter().zip(V4) {
        site.converge(&want(uid, range, gateway)).await.expect("made");
    }
    let [a0, a1] = hosts(&site, "a", V4[0]);
    let [b0, b1] = hosts(&site, "b", V4[1]);
    site.converge(&released("b")).await.expect("let go");
    assert!(reaches(&b0, V4[1].2[1]) && reaches(&b1, V4[1].1) && reaches(&a1, V4[0].2[0]));
    assert!(reaches_not(&b0, V4[0].2[0]) && reaches_not(&b0, V4[0].1) && reaches_not(&a0, V4[1].2[0]));
}

#[tokio::test]
async fn addresses_that_are_somebody_elses_are_refused_and_nothing_is_changed() {
    let site = Site::new(false);
    site.machine.sh(
        "ip link add wide type veth peer name far; ip link set wide up; ip route add 10.60.7.0/24 dev wide
         ip addr add 10.61.0.5/32 dev wide valid_lft 3000 preferred_lft 3000; ip addr add 10.62.0.5/32 dev lo scope host
         ip route add 10.63.0.0/24 dev wide table 100; ip route add local 10.64.0.0/24 dev lo",
    );
    for (range, why) in [
        ("8.8.8.0/24", "may have: 10.0.0.0/8, fc00::/7; --bridge-within"),
        ("2001:4860:4860::/64", "may have: 10.0.0.0/8"),
        ("10.60.0.0/16", "10.60.7.0/24, which this machine has a route to"),
        ("10.60.7.128/30", "10.60.7.0/24, which this machine has a route to"),
        ("10.61.0.0/24", "10.61.0.5/32 on link wide"),
        ("10.62.0.0/24", "10.62.0.5/32 on link lo"),
        ("10.63.0.0/16", "10.63.0.0/24, which this machine has a route to"),
        ("10.64.0.0/16", "10.64.0.0/24, which this machine has a route to"),
    ] {
        let gateway = range.parse::<causeway_core::Cidr>().expect("a range").second().to_string();
        let trouble = site.converge(&want("x", range, &gateway)).await.expect_err(range);
        assert_eq!(trouble.reason(), "Refused");
        assert!(trouble.to_string().contains(why), "{trouble}");
    }
    let addresses = site.machine.sh("ip -br addr show type bridge scope global");
    assert!(!addresses.contains('/'), "{addresses}");
}

#[tokio::test]
async fn a_gateway_moves_and_no_route_is_lost() {
    let site = Site::new(false);
    for (networks, moved, far) in [(V4, "10.1.0.254", "10.50.0.0/16"), (V6, "fd00:1::fe", "fd50::/16")] {
        let (range, gateway, own) = networks[0];
        let uid = if range.contains(':') { "six" } else { "four" };
        site.converge(&want(uid, range, gateway)).await.expect("made");
        let [host, _other] = hosts(&site, uid, networks[0]);
        assert!(reaches(&host, gateway));
        site.machine.sh(&format!("ip route add {far} via {}", own[0]));
        let pings = host.inside({
            let from = host.pid();
            let near = own[1];
            move || {
                let mut command = std::process::Command::new("ping");
                command.args(["-q", "-c", "20", "-i", "0.05", near]).env("OF", from.to_string());
                command.stdout(std::process::Stdio::piped()).spawn().expect("ping starts")
            }
        });
        assert_eq!(site.converge(&want(uid, range, moved)).await.expect("moved"), ["change_subnet"]);
        assert!(reaches(&host, moved) && reaches_not(&host, gateway));
        let routes = site.machine.sh("ip route; ip -6 route");
        assert!(routes.contains(&format!("{far} via {}", own[0])) && routes.contains(range), "{routes}");
        assert!(pings.join().expect("no panic").wait().expect("it ended").success());
        // A crash on the way leaves both addresses: the one that should not be goes.
        let prefix = range.split_once('/').expect("a range").1;
        let bridge = causeway_datapath::networks::mark::link_name(uid);
        site.machine.sh(&format!("ip addr add {gateway}/{prefix} dev {bridge}"));
        let done = site.converge(&want(uid, range, moved)).await.expect("moved");
        assert_eq!(done, ["change_subnet"]);
        assert!(reaches(&host, moved) && reaches_not(&host, gateway));
    }
}

#[tokio::test]
async fn what_is_outside_is_reached_with_translation_and_not_without() {
    let mut site = Site::new(false);
    let outside = Netns::new();
    site.machine.sh(&format!(
        "ip link add outer type veth peer name eth0 netns {}; ip link set outer up
         ip addr add 192.0.2.1/24 dev outer; ip addr add 2001:db8::1/64 dev outer nodad",
        outside.pid()
    ));
    // It knows no way back.
    outside.sh(
        "ip link set eth0 up; ip addr add 192.0.2.9/24 dev eth0; ip addr add 2001:db8::9/64 dev eth0 nodad",
    );
    let cases = [("four", V4[0], "192.0.2.9"), ("six", V6[0], "2001:db8::9")];
    let mut attached = Vec::new();
    for (uid, network, _) in cases {
        site.converge(&want(uid, network.0, network.1)).await.expect("made");
        attached.push(hosts(&site, uid, network));
    }
    assert_eq!(site.machine.sh("cat /proc/sys/net/ipv4/ip_forward"), "0\n", "nobody asked for it");
    for ([host, _], (_, _, far)) in attached.iter().zip(cases) {
        assert!(reaches_not(host, far), "{far}");
    }
    site.restart(true);
    for (([host, _], (uid, network, far)), number) in attached.iter().zip(cases).zip(1..) {
        let done = site.converge(&want(uid, network.0, network.1)).await.expect("made");
        assert_eq!(done, ["repair_network"], "{number}");
        assert!(reaches(host, far), "{far}");
        assert!(reaches(host, network.2[1]), "and its own network");
    }
    // Nobody outside begins, even who knows the way.
    outside.sh("ip route add 10.1.0.0/24 via 192.0.2.1; ip route add fd00:1::/64 via 2001:db8::1");
    assert!(reaches_not(&outside, "10.1.0.11") && reaches_not(&outside, "fd00:1::11"));
    assert!(reaches(&attached[0][0], "192.0.2.9") && reaches(&attached[1][0], "2001:db8::9"));
    // Somebody switches it off again.
    site.machine.sh("echo 0 > /proc/sys/net/ipv4/ip_forward");
    let done = site.converge(&want("four", V4[0].0, V4[0].1)).await.expect("made");
    assert_eq!((done, reaches(&attached[0][0], "192.0.2.9")), (vec!["repair_network"], true));
    site.restart(false);
    for (uid, network, _) in cases {
        site.converge(&want(uid, network.0, network.1)).await.expect("made");
    }
    for ([host, _], (_, _, far)) in attached.iter().zip(cases) {
        assert!(reaches_not(host, far), "{far}");
    }
}

#[tokio::test]
async fn what_is_in_use_stays_and_the_rules_go_with_the_last() {
    let site = Site::new(false);
    for (uid, (range, gateway, _)) in ["a", "b"].into_iter().zip(V4) {
        site.converge(&want(uid, range, gateway)).await.expect("made");
    }
    let [_first, second] = hosts(&site, "a", V4[0]);
    let trouble = site.converge(&absent("a")).await.expect_err("in use");
    assert_eq!(trouble.reason(), "InUse");
    assert!(trouble.to_string().contains("a0, a1"), "{trouble}");
    assert!(reaches(&second, "10.1.0.1"), "nothing was taken away");
    site.machine.sh("ip link del a0; ip link del a1");
    assert_eq!(site.converge(&absent("a")).await.expect("gone"), ["delete_network"]);
    assert!(
        site.table().is_some_and(|table| !table.contains("10.1.0.0/24") && table.contains("10.2.0.0/24"))
    );
    assert_eq!(site.converge(&absent("b")).await.expect("gone"), ["delete_network"]);
    assert_eq!(site.table(), None);
    assert_eq!(site.machine.sh("ip -br link show type bridge"), "");
}
