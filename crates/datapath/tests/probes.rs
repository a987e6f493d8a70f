//! Who answers through a tunnel, asked from inside a gateway.

mod lab;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use causeway_core::vpc::{Near, TunnelKind, Variant};
use causeway_datapath::vpc::{Heard, Monitor as Script};
use lab::monitor::Monitor;
use lab::want::{VXLAN, add, demo};
use lab::{Lab, joined, require};
use tokio::io::AsyncWriteExt;

const MINUTE: Duration = Duration::from_secs(60);
const PING: &[(&str, &[&str])] = &[("ping", &["-V"])];

/// Waits for an answer that fits: what was asked before a change may still be on its way.
async fn until(monitor: &mut Monitor, fits: impl Fn(&causeway_core::vpc::Answer) -> bool) {
    let answer = async { while !fits(&monitor.answer("demo", 1).await) {} };
    tokio::time::timeout(Duration::from_secs(30), answer).await.expect("such an answer in time");
}

fn answers(near: Near) -> bool {
    matches!(near, Near::Answered(Some(1..5_000_000)))
}

#[tokio::test]
async fn a_peer_that_answers_does_and_one_that_is_cut_off_either_way_does_not() {
    require(PING);
    let lab = joined(Variant::Nft).await;
    lab.workloads[1].sh("echo 1 > /proc/sys/net/ipv4/ip_forward");
    let mut monitor = Monitor::start(&lab.gateways[0], MINUTE).await;
    until(&mut monitor, |answer| answers(answer.near) && answer.far == Some(true) && answer.astray.is_none())
        .await;
    let (here, there) = (&lab.gateways[0], &lab.gateways[1]);
    let vxlan = "-p udp --dport 4789 -j DROP";
    for (where_, cut, mend) in [
        (there, format!("iptables-nft -A INPUT {vxlan}"), "iptables-nft -F INPUT".to_string()),
        (there, format!("iptables-nft -A OUTPUT {vxlan}"), "iptables-nft -F OUTPUT".into()),
        (here, format!("iptables-nft -A OUTPUT {vxlan}"), "iptables-nft -F OUTPUT".into()),
        (
            there,
            "ip link set demo down".into(),
            "ip link set demo up; ip route add 242.0.0.0/16 dev demo proto 157".into(),
        ),
        (there, "ip link set net1 down".into(), "ip link set net1 up".into()),
    ] {
        where_.sh(&cut);
        until(&mut monitor, |answer| answer.near == Near::Silent).await;
        where_.sh(&mend);
        until(&mut monitor, |answer| answers(answer.near)).await;
    }
    there.sh("iptables-nft -P FORWARD DROP");
    until(&mut monitor, |answer| answers(answer.near) && answer.far == Some(false)).await;
    there.sh("iptables-nft -P FORWARD ACCEPT");
    until(&mut monitor, |answer| answers(answer.near) && answer.far == Some(true)).await;
    here.sh("ip rule add to 242.1.0.0/16 blackhole");
    until(&mut monitor, |answer| answer.astray.as_deref() == Some("")).await;
    here.sh("ip rule del to 242.1.0.0/16 blackhole; ip rule add to 242.1.0.0/16 lookup 99; ip route add 242.1.0.0/16 via 172.50.16.21 table 99");
    until(&mut monitor, |answer| answer.astray.as_deref() == Some("net1")).await;
}

#[tokio::test]
async fn answers_carry_the_number_of_the_change_that_was_announced_before_they_were_asked_for() {
    require(PING);
    let lab = joined(Variant::Nft).await;
    let mut monitor = Monitor::start(&lab.gateways[0], MINUTE).await;
    monitor.answer("demo", 1).await;
    monitor.write(Script::announce(7, []).as_bytes()).await;
    assert!(answers(monitor.answer("demo", 7).await.near));
}

/// Waits for an answer under the number of a change.
async fn under(monitor: &mut Monitor, change: u64) {
    let answer = tokio::time::timeout(Duration::from_secs(30), monitor.answer("demo", change)).await;
    assert!(answers(answer.expect("such an answer in time").near));
}

#[tokio::test]
async fn an_announcement_counts_also_where_it_comes_early_or_in_two_parts() {
    require(PING);
    let lab = joined(Variant::Nft).await;
    let early = Script::announce(7, ["demo"]);
    let mut monitor = Monitor::start_with(&lab.gateways[0], MINUTE, None, &early).await;
    under(&mut monitor, 7).await;
    drop(monitor);

    let second = Duration::from_secs(1);
    let mut monitor = Monitor::start(&lab.gateways[0], second).await;
    let line = Script::announce(17, ["demo"]);
    let (one, other) = line.split_at(2);
    monitor.write(one.as_bytes()).await;
    // By then it has given up waiting for a line.
    tokio::time::sleep(second * 3 / 2).await;
    monitor.write(other.as_bytes()).await;
    under(&mut monitor, 17).await;
}

#[tokio::test]
async fn whoever_asks_takes_two_parts_of_a_line_for_one() {
    let until_heard = "heard= named= begun=\nuntil [[ $heard ]]; do listen .01; done\necho \"$heard:$named\"";
    let script = [include_str!("../src/vpc/probe.sh"), until_heard].join("\n");
    let mut command = tokio::process::Command::new("bash");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("bash starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"12 pa").await.expect("taken");
    tokio::time::sleep(Duration::from_millis(300)).await;
    stdin.write_all(b"ir0 pair1\n").await.expect("taken");
    let said = child.wait_with_output().await.expect("it ends");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "12: pair0 pair1\n");
}

#[tokio::test]
async fn one_that_changes_all_the_time_keeps_no_other_waiting() {
    require(PING);
    let lab = Lab::new(Variant::Nft);
    let mut want = demo(0, VXLAN);
    (1..=100).for_each(|n| {
        add(&mut want, &format!("t{n}"), n, TunnelKind::Vxlan { vni: 2000 + u32::from(n), port: 4789 });
    });
    lab.converge(0, &want).await;
    let mut monitor = Monitor::start(&lab.gateways[0], MINUTE).await;
    // One is announced after each line, so there is always one more; all others are heard of nevertheless.
    let mut unheard: BTreeSet<String> = (1..=100).map(|n| format!("t{n}")).collect();
    for number in 2.. {
        monitor.write(Script::announce(number, ["t7"]).as_bytes()).await;
        let Heard::Probed { answers, .. } = Heard::of(&monitor.line().await.expect("still running")) else {
            continue;
        };
        unheard.retain(|link| answers.iter().all(|(answer, _)| answer.link != *link));
        if unheard.is_empty() {
            break;
        }
        assert!(number < 100, "never heard of {unheard:?}");
    }
}

#[tokio::test]
async fn a_rule_that_leads_all_of_several_tunnels_nowhere_is_seen() {
    require(PING);
    let lab = joined(Variant::Nft).await;
    let mut want = demo(0, VXLAN);
    add(&mut want, "other", 7, TunnelKind::Vxlan { vni: 2000, port: 4789 });
    lab.converge(0, &want).await;
    let mut monitor = Monitor::start(&lab.gateways[0], MINUTE).await;
    until(&mut monitor, |answer| answers(answer.near) && answer.astray.is_none()).await;
    lab.gateways[0].sh("ip rule add iif eth0 blackhole");
    until(&mut monitor, |answer| answer.astray.as_deref() == Some("")).await;
    lab.gateways[0].sh("ip rule del iif eth0 blackhole");
    until(&mut monitor, |answer| answer.astray.is_none()).await;
}

/// The processes of a monitor: its own, those that it began, and theirs.
fn family(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    std::iter::once(pid).chain(children.flat_map(family)).collect()
}

#[tokio::test]
async fn one_that_hangs_is_not_left_behind() {
    require(PING);
    let lab = joined(Variant::Nft).await;
    let mut monitor = Monitor::start(&lab.gateways[0], MINUTE).await;
    monitor.answer("demo", 1).await;
    let all = family(monitor.child.id().expect("it runs"));
    // Whoever asks is the youngest shell.
    let is_shell = |pid: &&u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "bash"
    };
    let prober = all.iter().filter(is_shell).max().expect("a shell");
    lab.gateways[0].sh(&format!("kill -STOP {prober}"));
    drop(monitor.child.stdin.take());
    monitor.end().await;
    let left = || all.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect::<Vec<_>>();
    let gone = async {
        while !left().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), gone).await.is_ok(), "{:?}", left());
}

#[tokio::test]
async fn many_tunnels_are_asked_and_leave_nothing_in_the_kernels_table() {
    require(PING);
    let lab = Lab::new(Variant::Nft);
    for side in 0..2 {
        let mut want = demo(side, VXLAN);
        (1..=120).for_each(|n| {
            add(&mut want, &format!("t{n}"), n, TunnelKind::Vxlan { vni: 2000 + u32::from(n), port: 4789 });
        });
        lab.converge(side.into(), &want).await;
    }
    let mut monitor = Monitor::start(&lab.gateways[0], MINUTE).await;
    for link in ["t1", "t60", "t120"] {
        let near = monitor.answer(link, 1).await.near;
        assert!(matches!(near, Near::Answered(_) | Near::Silent), "{link}: {near:?}");
    }
    drop(monitor.child.stdin.take());
    monitor.end().await;
    let left = lab.gateways[0]
        .sh("ip -4 neigh show nud reachable nud failed nud incomplete | grep -c '^242' || true");
    assert!(left.trim().parse::<u32>().expect("a number") <= 40, "{left}");
}

#[tokio::test]
async fn a_new_tunnel_waits_for_no_round_of_many_silent_ones() {
    require(PING);
    let lab = Lab::new(Variant::Nft);
    lab.converge(1, &demo(1, VXLAN)).await;
    let mut want = demo(0, VXLAN);
    (1..=150).for_each(|n| {
        add(&mut want, &format!("t{n}"), n, TunnelKind::Vxlan { vni: 2000 + u32::from(n), port: 4789 });
    });
    let mut silent = want.clone();
    silent.tunnels.retain(|link, _| link.as_str() != "demo");
    lab.converge(0, &silent).await;
    // Each forty of them take a second.
    let mut monitor = Monitor::start(&lab.gateways[0], MINUTE).await;
    assert_eq!(monitor.answer("t1", 1).await.near, Near::Silent);
    lab.converge(0, &want).await;
    monitor.write(Script::announce(2, ["demo"]).as_bytes()).await;
    let demo = loop {
        let Heard::Probed { answers, .. } = Heard::of(&monitor.line().await.expect("still running")) else {
            continue;
        };
        let answer = |link: &str| answers.iter().map(|(answer, _)| answer).find(|answer| answer.link == link);
        if let Some(demo) = answer("demo") {
            break demo.near;
        }
        assert!(answer("t150").is_none(), "the round was ended first");
    };
    assert!(answers(demo), "{demo:?}");
}

#[tokio::test]
async fn an_image_without_what_it_takes_says_that_nobody_was_asked() {
    require(&[]);
    let lab = joined(Variant::Nft).await;
    // An `ip` of before `use`, and no `ping`.
    let folder = tempfile::tempdir().expect("a folder");
    let old = "#!/bin/bash\n[[ $* == 'neigh help' ]] && exit\nexec /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin ip \"$@\"\n";
    std::fs::write(folder.path().join("ip"), old).expect("written");
    lab.gateways[0].sh(&format!("chmod +x {}/ip", folder.path().display()));
    let others = "for tool in bash head kill sha1sum iptables-nft iptables-nft-save; do ln -s $(command -v $tool) $0/; done";
    lab.gateways[0].sh(&format!("bash -c '{others}' {}", folder.path().display()));
    let mut monitor = Monitor::start_with(&lab.gateways[0], MINUTE, Some(folder.path()), "").await;
    assert_eq!(monitor.answer("demo", 1).await.near, Near::NotAsked);
}
