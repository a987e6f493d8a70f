//! Images that lack a tool, images with another set of them, and the monitor.

mod lab;

use std::path::Path;
use std::time::{Duration, Instant};

use causeway_core::vpc::{Variant, plan};
use causeway_datapath::Trouble;
use causeway_datapath::vpc::{Commands, Datapath, Heard, Monitor as Script};
use lab::monitor::Monitor;
use lab::want::{VXLAN, demo};
use lab::{BOTH, Lab, Local, Netns, joined, observed, require};

/// A folder with nothing but these tools, each under the name given first.
fn tools(tools: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, real) in tools {
        let mut real =
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().map(|folder| Path::new(folder).join(real));
        let real = real.find(|path| path.exists()).expect("the tool is installed");
        std::os::unix::fs::symlink(real, dir.path().join(name)).expect("linked");
    }
    dir
}

#[tokio::test]
async fn a_missing_tool_is_named() {
    require(&[]);
    let lab = Lab::new(Variant::Nft);
    for (missing, present) in [
        ("ip", &[("bash", "bash"), ("iptables", "iptables")][..]),
        ("iptables", &[("bash", "bash"), ("ip", "ip")]),
        ("bash", &[("ip", "ip"), ("iptables", "iptables")]),
    ] {
        let dir = tools(present);
        let datapath = Commands::new(Local { path: Some(dir.path().into()), ..lab.gateways[0].runner() });
        let expected = Trouble::ToolMissing(missing.into());
        assert_eq!(datapath.observe(None).await, Err(expected.clone()));
        let plan = plan(&demo(0, VXLAN), &observed(&lab.datapath(0)).await);
        assert_eq!(datapath.apply(&plan, None).await, Err(expected));
    }
}

#[tokio::test]
async fn an_image_with_a_plain_iptables_of_either_kind_works() {
    require(&[]);
    for (variant, multi) in [(Variant::Legacy, "xtables-legacy-multi"), (Variant::Nft, "xtables-nft-multi")] {
        let lab = joined(variant).await;
        lab.converge(0, &causeway_core::vpc::Want::default()).await;
        let dir = tools(&[
            ("bash", "bash"),
            ("ip", "ip"),
            ("iptables", multi),
            ("iptables-save", multi),
            ("iptables-restore", multi),
        ]);
        let datapath = Commands::new(Local { path: Some(dir.path().into()), ..lab.gateways[0].runner() });
        let have = observed(&datapath).await;
        assert_eq!(have.nat.active, variant);
        assert_eq!(have.nat.postrouting.keys().collect::<Vec<_>>(), [&variant]);
        let applied = datapath.apply(&plan(&demo(0, VXLAN), &have), None).await.expect("applied");
        assert!(applied.failures.is_empty(), "{:?}", applied.failures);
        lab.assert_crosses();
    }
}

#[tokio::test]
async fn the_variant_with_the_gateways_chains_is_used_and_an_unused_legacy_one_not_woken() {
    require(&[]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        assert_eq!(observed(&lab.datapath(0)).await.nat.active, variant);
        let woken = lab.gateways[0].sh("cat /proc/net/ip_tables_names");
        assert_eq!(woken.contains("nat"), variant == Variant::Legacy, "{woken}");
    }
    let bare = Netns::new();
    let have = observed(&Commands::new(bare.runner())).await;
    let works = bare.try_sh("iptables-legacy -t nat -S INPUT 1").0;
    assert_eq!(have.nat.active, if works { Variant::Legacy } else { Variant::Nft });
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_monitor_says_by_its_digest_whether_the_gateway_holds_what_was_listed() {
    require(&[]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        let netns = &lab.gateways[0];
        let listed = async || {
            let looked = lab.datapath(0).observe(None).await.expect("an answer");
            looked.listing().expect("a listing").digest.expect("a digest")
        };
        let mut monitor = Monitor::start(netns, Duration::from_millis(300)).await;
        let before = listed().await;
        assert_eq!(monitor.held(None).await, before, "unasked");
        monitor.write(Script::ask(7).as_bytes()).await;
        let mut answer = monitor.heard().await;
        while matches!(answer, Heard::Held { asked: None, .. }) {
            answer = monitor.heard().await;
        }
        assert_eq!(answer, Heard::Held { digest: Some(before.clone()), asked: Some(7) });

        let tool = if variant == Variant::Legacy { "iptables-legacy" } else { "iptables-nft" };
        netns.sh(&format!("{tool} -t nat -A POSTROUTING -d 10.99.0.0/16 -j SNAT --to-source 10.0.0.1"));
        let after = listed().await;
        assert_ne!(after, before, "a rule, of which the kernel reports nothing");
        // Heartbeats of before may still be on their way.
        let changed = async { while monitor.held(None).await != after {} };
        tokio::time::timeout(Duration::from_secs(20), changed).await.expect("the new digest in time");
    }
}

/// The processes in a namespace but for the one that holds it.
fn processes(netns: &Netns) -> Vec<u32> {
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let theirs = namespace(netns.pid()).expect("held");
    let all = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != netns.pid() && namespace(*pid).as_ref() == Some(&theirs)).collect()
}

/// The process of `ip monitor` among those.
fn monitor_process(netns: &Netns) -> u32 {
    let is_ip = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "ip")
    };
    processes(netns).into_iter().find(is_ip).expect("ip monitor runs")
}

#[tokio::test]
async fn the_monitor_reports_every_change_after_its_first_heartbeat_and_ends_with_its_input() {
    require(&[]);
    let netns = Netns::new();
    // Many times, because what is looked for is a race between the heartbeat and the socket.
    for round in 0..20 {
        let mut monitor = Monitor::start(&netns, MINUTE).await;
        netns.sh(&format!("ip link add v{round} type veth peer name w{round}"));
        let line = monitor.line_of_a_change().await;
        assert!(line.contains(&format!("v{round}")) || line.contains(&format!("w{round}")), "{line}");
        drop(monitor.child.stdin.take());
        assert_eq!(monitor.end().await, Some(0));
        let left: Vec<_> = processes(&netns)
            .iter()
            .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")))
            .collect();
        assert!(left.is_empty(), "{left:?} is left behind");
    }
}

/// IPv6 speaks up a second or two after a link has come up, once for each: so many visits for nothing.
#[tokio::test]
async fn the_monitor_keeps_silent_about_ipv6_which_no_tunnel_uses() {
    require(&[]);
    let netns = Netns::new();
    netns.sh("ip link set dev lo up");
    let mut monitor = Monitor::start(&netns, MINUTE).await;
    netns.sh("ip addr add fd00::1/64 dev lo nodad");
    netns.sh("ip route add fd01::/64 dev lo");
    netns.sh("ip addr add 10.1.2.3/32 dev lo");
    let line = monitor.line_of_a_change().await;
    assert!(line.contains("10.1.2.3"), "{line}");
}

#[tokio::test]
async fn the_monitor_beats_and_ends_when_ip_is_gone_or_the_script_is_killed() {
    require(&[]);
    let netns = Netns::new();
    let started = Instant::now();
    let mut monitor = Monitor::start(&netns, Duration::from_secs(1)).await;
    monitor.held(None).await;
    assert!((900..20_000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    kill(monitor_process(&netns));
    assert_eq!(monitor.end().await, Some(1));
    assert!(processes(&netns).is_empty());

    let mut monitor = Monitor::start(&netns, MINUTE).await;
    kill(monitor.child.id().expect("running"));
    drop(monitor.child.stdin.take());
    monitor.end().await;
    let gone = async {
        while !processes(&netns).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("nothing is left behind");
}

fn kill(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(pid.try_into().expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("killed");
}
