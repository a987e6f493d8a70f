//! Real packets of pods: who sees which address, and what gets through.

mod lab;
#[path = "traffic/site.rs"]
mod site;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Instant;

use async_trait::async_trait;
use causeway_core::Family;
use causeway_core::leases::Traffic;
use causeway_datapath::leases::traffic::{Trouble, keep, remove, would};
use causeway_datapath::{Output, Run, RunError};
use lab::{Local, Netns};
use site::{ALL, LONG, NODE, NODE_OTHER_SIDE, OTHER, OUTSIDE, POD, SHORT, Site, at, socket, want};

#[tokio::test]
async fn pods_are_hidden_from_outside_and_from_nobody_else() {
    let site = Site::new();
    let changed = site.keep(&want()).await;
    let expected = [
        "put the nftables table `causeway` of IPv4",
        "put the nftables table `causeway` of IPv6",
        "let pods of 10.244.0.0/16 through FORWARD of iptables-nft",
        "let pods of fd00:10:244::/48 through FORWARD of ip6tables-nft",
    ];
    assert_eq!(changed, expected);
    for family in Family::ALL {
        let expected = [NODE, POD, OTHER, OUTSIDE, NODE_OTHER_SIDE].map(|it| Some(at(family, it)));
        assert_eq!(site.views(family), expected, "{family}");
        // What kube-proxy translates itself is not translated by us.
        let ipt = if family == Family::V4 { "iptables-nft" } else { "ip6tables-nft" };
        site.node.sh(&format!("{ipt} -t mangle -A FORWARD -j MARK --set-xmark 0x4000/0x4000"));
        let seen = site.seen(&site.pod, &site.outside, at(family, OUTSIDE), LONG);
        assert_eq!(seen, Some(at(family, POD)));
        site.node.sh(&format!("{ipt} -t mangle -F FORWARD"));
        // The host's own translation goes before ours.
        let own = if family == Family::V4 { "192.168.7.77/24" } else { "fd00:192:168:7::77/64" };
        let (address, _) = own.split_once('/').expect("a prefix");
        site.node.sh(&format!(
            "ip addr add {own} dev eth0 $([[ {own} == *:* ]] && echo nodad)
             {ipt} -t nat -A POSTROUTING -o eth0 -p udp --dport 7000 -j SNAT --to-source {address}"
        ));
        let seen = site.seen(&site.pod, &site.outside, at(family, OUTSIDE), LONG);
        assert_eq!(seen, address.parse().ok());
    }
    // No legacy table was woken up.
    let names = site.node.sh("cat /proc/net/ip_tables_names /proc/net/ip6_tables_names");
    assert_eq!(names, "");
    site.node.sh("iptables-nft -t nat -F; ip6tables-nft -t nat -F");
    let changed = site.keep(&Traffic { masquerade: false, ..want() }).await;
    assert_eq!(changed.len(), 2, "{changed:?}");
    for family in Family::ALL {
        let seen = site.seen(&site.pod, &site.outside, at(family, OUTSIDE), LONG);
        assert_eq!(seen, Some(at(family, POD)));
    }
}

#[tokio::test]
async fn what_goes_to_a_group_keeps_its_source() {
    let site = Site::new();
    site.keep(&want()).await;
    // The kernel sends to a group by the link that the source is on.
    site.node.sh("ip addr add 10.244.1.99/32 dev eth0; ip addr add fd00:10:244:1::99/128 dev eth0 nodad");
    let link = |netns: &Netns| {
        netns.sh("ip -o link show eth0 | cut -d: -f1").trim().parse::<u32>().expect("an index")
    };
    let (inner, outer) = (link(&site.node), link(&site.outside));
    let (group, group6) = (Ipv4Addr::new(239, 1, 2, 3), "ff02::1234".parse::<Ipv6Addr>().expect("a group"));
    for family in Family::ALL {
        let own = at(family, [10, 244, 1, 99]);
        let sender = socket(&site.node, SocketAddr::new(own, 0));
        let any: (IpAddr, SocketAddr) = match family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED.into(), SocketAddr::new(group.into(), 7001)),
            Family::V6 => (Ipv6Addr::UNSPECIFIED.into(), SocketAddrV6::new(group6, 7001, 0, inner).into()),
        };
        let receiver = socket(&site.outside, SocketAddr::new(any.0, 7001));
        match family {
            Family::V4 => receiver.join_multicast_v4(&group, &Ipv4Addr::new(192, 168, 7, 9)),
            Family::V6 => receiver.join_multicast_v6(&group6, outer),
        }
        .expect("joined");
        let source = |to: SocketAddr| {
            let deadline = Instant::now() + LONG;
            let mut buffer = [0; 8];
            while Instant::now() < deadline {
                sender.send_to(b"hello", to).expect("sent");
                if let Ok((_, from)) = receiver.recv_from(&mut buffer) {
                    return Some(from.ip());
                }
            }
            None
        };
        assert_eq!(source(any.1), Some(own), "{family}");
        // To anybody alone it is hidden.
        assert_eq!(source(SocketAddr::new(at(family, OUTSIDE), 7001)), Some(at(family, NODE)), "{family}");
    }
}

#[tokio::test]
async fn where_nothing_is_let_through_pods_are_and_nobody_else() {
    for variant in ["nft", "legacy"] {
        let site = Site::new();
        for tool in [format!("iptables-{variant}"), format!("ip6tables-{variant}")] {
            // A rule that drops everything is not passed by what stands behind it.
            site.node.sh(&format!(
                "{tool} -P FORWARD DROP; {tool} -A FORWARD -i nothing -j ACCEPT
                 {tool} -A FORWARD -m comment --comment 'all others' -j DROP"
            ));
        }
        for family in Family::ALL {
            let seen = site.seen(&site.pod, &site.outside, at(family, OUTSIDE), SHORT);
            assert_eq!(seen, None, "{variant} {family}");
        }
        let changed = site.keep(&want()).await;
        assert_eq!(changed.len(), if variant == "nft" { 4 } else { 6 }, "{changed:?}");
        for family in Family::ALL {
            let expected = [NODE, POD, OTHER, OUTSIDE, NODE_OTHER_SIDE].map(|it| Some(at(family, it)));
            assert_eq!(site.views(family), expected, "{variant} {family}");
            let seen = site.seen(&site.outside, &site.other, at(family, OTHER), SHORT);
            assert_eq!(seen, None, "{variant} {family}");
        }
        let changed = site.keep(&Traffic { forward: false, ..want() }).await;
        assert_eq!(changed.len(), if variant == "nft" { 2 } else { 4 }, "{changed:?}");
        let seen = site.seen(&site.pod, &site.outside, at(Family::V4, OUTSIDE), SHORT);
        assert_eq!(seen, None, "{variant}");
    }
}

#[tokio::test]
async fn what_others_disturb_is_put_right_by_the_next_look() {
    let site = Site::new();
    site.node
        .sh("iptables-legacy -P FORWARD DROP; iptables-nft -P FORWARD DROP; ip6tables-nft -P FORWARD DROP");
    site.keep(&want()).await;
    let right = site.listing();
    let disturbances = [
        "nft flush table ip causeway",
        "nft delete table ip6 causeway",
        "nft flush ruleset; iptables-nft -P FORWARD DROP; ip6tables-nft -P FORWARD DROP",
        "nft insert rule ip causeway postrouting accept",
        "nft delete rule ip causeway postrouting handle $(nft -a list table ip causeway | sed -n '/!= 224/s/.*handle //p')",
        "iptables-nft -D FORWARD 1",
        "iptables-legacy -F FORWARD",
        "ip6tables-nft -A FORWARD -s fd00:10:244::/48 -m comment --comment 'causeway: pods of fd00:10:244::/48' -j ACCEPT",
        "iptables-nft -I FORWARD -s 10.9.0.0/16 -m comment --comment 'causeway: pods of 10.9.0.0/16' -j ACCEPT",
        "iptables-nft -I FORWARD -p tcp -m comment --comment 'causeway: pods of 10.244.0.0/16' -j DROP",
    ];
    for disturbance in disturbances {
        site.node.sh(disturbance);
        let disturbed = site.listing();
        let planned = would(&site.run(), &want()).await.expect("seen");
        assert!(!planned.is_empty(), "{disturbance}");
        assert_eq!(site.listing(), disturbed, "nothing was changed");
        assert_eq!(site.keep(&want()).await, planned, "{disturbance}");
        assert_eq!(site.listing(), right, "{disturbance}");
    }
    // A rule that ends everything, in front of ours.
    site.node.sh("iptables-legacy -I FORWARD -j DROP");
    assert_eq!(site.keep(&want()).await, ["let pods of 10.244.0.0/16 through FORWARD of iptables-legacy"]);
    let changed = remove(&site.run()).await.expect("removed");
    assert_eq!(changed.len(), 5, "{changed:?}");
    assert!(!site.listing().contains("causeway"), "{}", site.listing());
    assert_eq!(remove(&site.run()).await, Ok(vec![]));
}

/// What flannel has of masquerading and forwarding, in all ways that it has at once.
fn flannels(site: &Site) {
    for tool in ALL {
        let (range, part) = if tool.starts_with("ip6") {
            ("fd00:10:244::/48", "fd00:10:244:1::/64")
        } else {
            ("10.244.0.0/16", "10.244.1.0/24")
        };
        site.node.sh(&format!(
            "set -e
             {tool} -t nat -N FLANNEL-POSTRTG; {tool} -N FLANNEL-FWD; {tool} -P FORWARD DROP
             {tool} -t nat -A POSTROUTING -m comment --comment 'flanneld masq' -j FLANNEL-POSTRTG
             {tool} -t nat -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN
             {tool} -t nat -A FLANNEL-POSTRTG -s {part} -d {range} -j RETURN
             {tool} -t nat -A FLANNEL-POSTRTG -s {range} -d {part} -j RETURN
             {tool} -t nat -A FLANNEL-POSTRTG '!' -s {range} -d {part} -j RETURN
             {tool} -t nat -A FLANNEL-POSTRTG -s {range} -j MASQUERADE --random-fully
             {tool} -A FORWARD -m comment --comment 'flanneld forward' -j FLANNEL-FWD
             {tool} -A FLANNEL-FWD -s {range} -j ACCEPT; {tool} -A FLANNEL-FWD -d {range} -j ACCEPT"
        ));
    }
    site.node.sh("nft add table ip flannel-ipv4; nft add table ip6 flannel-ipv6
                  nft add chain ip flannel-ipv4 forward '{ type filter hook forward priority filter; }'");
}

/// What is anybody else's, in chains where something of ours or flannel's stands as well.
fn foreign(site: &Site) {
    for tool in ALL {
        site.node.sh(&format!(
            r#"set -e
               {tool} -t nat -N KUBE-POSTROUTING; {tool} -t nat -I POSTROUTING -j KUBE-POSTROUTING
               {tool} -t nat -A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully
               {tool} -I FORWARD -m comment --comment "odd \"quotes\" and \\ causeway: pods of 10.244.0.0/16" -j RETURN -p 99
               {tool} -A FORWARD -i nothing -j DROP; {tool} -t nat -A POSTROUTING -o nothing -j ACCEPT
               {tool} -N FLANNEL-FWD-OF-ANOTHER; {tool} -A FORWARD -o nothing -j FLANNEL-FWD-OF-ANOTHER"#
        ));
    }
    site.node.sh("nft add table inet flannel-ipv4; nft add table inet causeway; nft add table ip causeway2");
}

#[tokio::test]
async fn flannels_chains_go_once_ours_stand_and_everybody_elses_stay() {
    let site = Site::new();
    foreign(&site);
    let only_foreign = site.listing();
    flannels(&site);
    let with_flannels = site.listing();
    // Ours cannot be put: nothing of flannel's is touched.
    for tool in ["nft", "ip6tables-legacy-restore"] {
        let trouble = keep(&Failing(site.run(), tool), &want()).await.expect_err("it fails");
        let Trouble::Partly { failed, .. } = &trouble else { panic!("{trouble}") };
        assert!(failed.iter().all(|why| why.ends_with("no room")), "{failed:?}");
        let still = site.listing();
        for chain in ["FLANNEL-POSTRTG", "FLANNEL-FWD", "flannel-ipv"] {
            assert_eq!(
                still.matches(chain).count(),
                with_flannels.matches(chain).count(),
                "{chain} in {still}"
            );
        }
        assert_eq!(remove(&site.run()).await.map(|changed| changed.is_empty()), Ok(false));
        assert_eq!(site.listing(), with_flannels, "what is removed is ours alone");
    }
    // At no moment is a packet dropped, or seen as somebody else.
    let changed = keep(&Watching { run: site.run(), site: &site }, &want()).await.expect("kept");
    assert_eq!(
        changed.iter().filter(|change| change.contains("remove flannel's")).count(),
        10,
        "{changed:?}"
    );
    let left = site.listing();
    for gone in ["FLANNEL-POSTRTG", "-j FLANNEL-FWD\n", "table ip flannel", "table ip6 flannel"] {
        assert!(!left.contains(gone), "{gone} in {left}");
    }
    for family in Family::ALL {
        let expected = [NODE, POD, OTHER, OUTSIDE, NODE_OTHER_SIDE].map(|it| Some(at(family, it)));
        assert_eq!(site.views(family), expected, "{family}");
    }
    remove(&site.run()).await.expect("removed");
    let policy = |text: &str| text.replace(":FORWARD DROP", ":FORWARD ACCEPT");
    assert_eq!(policy(&site.listing()), only_foreign);
}

/// Runs commands of which one kind fails.
struct Failing(Local, &'static str);

#[async_trait]
impl Run for Failing {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        if argv.get(4) == Some(&self.1) {
            let stdout = b"@@causeway begin change\nno room\n@@causeway end 1\n@@causeway done 0\n".to_vec();
            return Ok(Output { stdout, ..Output::default() });
        }
        self.0.run(argv, stdin).await
    }
}

/// Sees, command by command, whether packets are still let through and pods still hidden.
struct Watching<'a> {
    run: Local,
    site: &'a Site,
}

#[async_trait]
impl Run for Watching<'_> {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        let output = self.run.run(argv, stdin).await;
        for family in Family::ALL {
            let seen = self.site.seen(&self.site.pod, &self.site.outside, at(family, OUTSIDE), LONG);
            assert_eq!(seen, Some(at(family, NODE)), "{family} after {:?}", argv.get(4..));
        }
        output
    }
}

#[tokio::test]
async fn a_missing_tool_is_named_and_is_no_trouble_where_nothing_is_wanted() {
    let site = Site::new();
    let tools = tempfile::tempdir().expect("a folder");
    for tool in ["bash", "head", "timeout", "iptables-nft", "ip6tables-nft"] {
        let path = site.node.sh(&format!("type -P {tool}"));
        std::os::unix::fs::symlink(path.trim(), tools.path().join(tool)).expect("linked");
    }
    let run = Local { path: Some(tools.path().into()), ..site.run() };
    let trouble = keep(&run, &want()).await.expect_err("no nft");
    assert_eq!(trouble, Trouble::Missing { tool: "nft".into(), package: "nftables" });
    assert_eq!(remove(&run).await, Ok(vec![]));
    // The legacy tool is needed only where it is in use.
    std::os::unix::fs::symlink(site.node.sh("type -P nft").trim(), tools.path().join("nft")).expect("linked");
    for tool in ["iptables-nft-restore", "ip6tables-nft-restore"] {
        let path = site.node.sh(&format!("type -P {tool}"));
        std::os::unix::fs::symlink(path.trim(), tools.path().join(tool)).expect("linked");
    }
    assert_eq!(keep(&run, &want()).await.map(|changed| changed.len()), Ok(4));
    site.node.sh("ip6tables-legacy -P FORWARD DROP");
    let trouble = keep(&run, &want()).await.expect_err("no legacy");
    assert_eq!(trouble, Trouble::Missing { tool: "ip6tables-legacy".into(), package: "iptables" });
}
