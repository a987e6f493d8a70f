//! What restarts, crashes and absences of a controller cost: nothing.
//!
//! The controller is a process of its own, so it is killed for real, at the moments that matter: before a
//! command runs in the gateway, while it runs, and after it ran but before anybody heard of it.

mod support;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use support::gateway::ONE_TUNNEL;
use support::tunnels::{NS, apart_from_times, condition, join, vxlan, with_vni};
use support::{Cluster, PATIENCE, Sandbox};

/// The far server of cluster2.
const FAR: &str = "242.1.1.20";

/// Everything of a cluster that a restart must not change: what tunnels say, versions of records, events, and all that
/// its gateways hold, indexes of links included.
async fn imprint(cluster: &Cluster) -> Vec<String> {
    let all = ListParams::default();
    let tunnels = cluster.tunnels(NS).list(&all).await.expect("tunnels");
    let records = cluster.records("kube-system").list(&all).await.expect("records");
    let version = |name: String, version: Option<String>| format!("{name} {}", version.unwrap_or_default());
    let mut lines: Vec<String> = tunnels.iter().map(apart_from_times).collect();
    lines.extend(records.iter().map(|record| version(record.name_any(), record.resource_version())));
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(cluster.client.clone());
    // A cluster's own controllers report things too.
    let events = events.list(&all).await.expect("events").items.into_iter();
    let ours = events.filter(|event| event.reporting_controller.as_deref() == Some("causeway"));
    lines.push(format!("{} events", ours.count()));
    for gateway in ["gw1", "gw2"] {
        let script = "ip -d link show; ip addr show; ip route show; \
                      for ipt in iptables-legacy iptables-nft; do $ipt -t nat -S 2>/dev/null; done; true";
        let all = cluster.in_gateway(gateway, script).await.ok();
        // Every leader leaves the number of its term.
        lines.extend(all.lines().filter(|line| !line.contains("causeway-term:")).map(str::to_owned));
    }
    lines
}

#[tokio::test]
async fn restarting_the_controllers_loses_no_packet_and_changes_nothing() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "calm0", "gw1", 1).await;
    one.comes_to_reach(FAR).await;
    let before = [imprint(&one).await, imprint(&two).await];

    let pings = "ping -n -q -c 600 -i 0.02 -W 5 242.1.1.20";
    let stream = one.in_client(pings);
    let restarts = async {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            for cluster in [&one, &two] {
                let controller = sandbox.restart(cluster, signal).await;
                assert_eq!(controller.execs("apply").await, 0, "{} after {signal}", cluster.name);
            }
        }
    };
    let (counted, ()) = tokio::join!(stream, restarts);
    assert!(counted.out.contains("600 packets transmitted, 600 received"), "{counted:?}");
    assert_eq!([imprint(&one).await, imprint(&two).await], before);
}

#[tokio::test]
async fn a_controller_killed_before_its_command_ran_builds_the_tunnel_at_its_next_start() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    one.controller().await;
    one.fault("gw1", "hang").await;
    let asked = one.requests().await["get pods exec"];
    one.create(&vxlan("crash0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.until("a command that hangs", PATIENCE, async || {
        let now = one.requests().await["get pods exec"];
        if now > asked { Ok(()) } else { Err(format!("{now} commands")) }
    })
    .await;

    sandbox.hold(&one).await;
    one.fault("gw1", "").await;
    assert_eq!(one.marked("gw1").await, Vec::<String>::new());
    assert!(condition(&one.tunnel("crash0").await, "Ready").is_none());
    sandbox.release(&one).await;
    one.built("crash0").await;
}

#[tokio::test]
async fn a_controller_killed_after_its_command_ran_only_has_to_say_so_at_its_next_start() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let controller = one.controller().await;
    // From now on the gateway is known, and the next command is the one that builds the tunnel. The monitor has to have
    // said that all is as it was found: from then on no command runs.
    monitor_in(&one, "gw1").await;
    let all = async || controller.execs("monitor").await + controller.execs("observe").await;
    one.until("both gateways have monitors, and nothing more is asked of them", PATIENCE, async || {
        let before = all().await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        if controller.execs("monitor").await >= 2 && all().await == before {
            Ok(())
        } else {
            Err(format!("{before}"))
        }
    })
    .await;
    one.fault("gw1", "late:30000").await;
    one.create(&vxlan("crash0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    // What this one prints comes late too, so it writes a file: pods share this machine's.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let script = format!(
        "until ip route | grep -q '242.1.0.0/16 dev crash0'; do sleep 0.05; done; ip -o link show crash0 > {}",
        file.path().display()
    );
    let _probe = one.start("kube-system", "vpc-nat-gw-gw1-0", &["bash", "-c", &script]).await;
    let link = one.until("the link in the gateway", PATIENCE, async || {
        let line = std::fs::read_to_string(file.path()).expect("a file");
        if line.ends_with('\n') { Ok(line) } else { Err(format!("{line:?}")) }
    });
    let link = link.await;

    sandbox.hold(&one).await;
    one.fault("gw1", "").await;
    assert!(condition(&one.tunnel("crash0").await, "Ready").is_none(), "nothing was reported yet");
    let built = one.marked("gw1").await;
    let controller = sandbox.release(&one).await;
    one.built("crash0").await;
    assert_eq!(controller.execs("apply").await, 0, "all was there already");
    let said = one.in_gateway("gw1", "ip -o link show crash0").await.ok();
    assert_eq!(said, link, "the link is the one that was built first");
    assert_eq!(one.marked("gw1").await, built);
}

#[tokio::test]
async fn a_controller_killed_at_any_moment_of_building_a_tunnel_finds_its_way() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    for step in 0..10 {
        one.create(&vxlan("crash0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
        tokio::time::sleep(std::time::Duration::from_millis(25 * step)).await;
        sandbox.hold(&one).await;
        sandbox.release(&one).await;
        one.built("crash0").await;
        let routes = one.routes("gw1").await;
        assert!(routes.contains(&"242.1.0.0/16 dev crash0 proto 157".to_owned()), "{routes:?}");
        assert_eq!(one.marked("gw1").await.len(), ONE_TUNNEL);
        one.delete("crash0").await;
        one.is_clean("gw1").await;
    }
}

#[tokio::test]
async fn input_cut_off_after_any_line_changes_nothing_and_the_next_start_converges() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let tunnel = vxlan("crash0", "gw1", "cluster2/gw1", "10.100.0.1/24");
    // The script comes first on its own input: past most of it in strides, then line by line to the end.
    let (mut lines, mut stride) = (0, 16);
    loop {
        // One whose own input is cut would never begin, and that would be the word.
        monitor_in(&one, "gw1").await;
        one.fault("gw1", &format!("cut:{lines}")).await;
        one.create(&tunnel).await;
        let word = one.until("a word from the gateway", PATIENCE, async || {
            let tunnel = one.tunnel("crash0").await;
            condition(&tunnel, "Programmed").cloned().ok_or_else(|| format!("{:?}", tunnel.status))
        });
        let word = word.await;
        if word.status == "True" && stride == 1 {
            break;
        } else if word.status == "True" {
            one.delete("crash0").await;
            lines -= stride - 1;
            stride = 1;
            continue;
        }
        assert_eq!(word.reason, "CommandFailed", "{word:?}");
        assert!(word.message.contains("the input ended early"), "{word:?}");
        sandbox.hold(&one).await;
        one.fault("gw1", "").await;
        assert_eq!(one.marked("gw1").await, Vec::<String>::new(), "cut off after {lines} lines");
        sandbox.release(&one).await;
        one.built("crash0").await;
        one.delete("crash0").await;
        lines += stride;
    }
    assert!(lines >= 12, "only {lines} lines were needed");
}

/// The process in a pod with such a command line. Pods share the machine's processes, but each carries the mark of
/// its pod.
async fn process_in(cluster: &Cluster, gateway: &str, is_it: impl Fn(&str) -> bool) -> Option<Pid> {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(cluster.client.clone(), "kube-system");
    let uid = pods.get(&format!("vpc-nat-gw-{gateway}-0")).await.expect("its pod").uid().expect("a uid");
    let mark = format!("CAUSEWAY_SANDBOX_POD={uid}-");
    std::fs::read_dir("/proc").expect("processes").flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let marked = read("environ").split(|byte| *byte == 0).any(|word| word.starts_with(mark.as_bytes()));
        let is_it = marked && is_it(&String::from_utf8_lossy(&read("cmdline")));
        is_it.then(|| Pid::from_raw(pid))
    })
}

fn is_monitor(argv: &str) -> bool {
    argv.starts_with("ip\0-4\0monitor")
}

/// The monitor of a pod, which comes a moment after its first tunnel.
async fn monitor_in(cluster: &Cluster, gateway: &str) -> Pid {
    let found = async || process_in(cluster, gateway, is_monitor).await.ok_or("none".to_owned());
    cluster.until("a monitor", PATIENCE, found).await
}

/// Breaks a link twice, and waits until it is back. By the timer alone the second repair would take its full 15 s.
async fn is_heard(cluster: &Cluster, link: &str) {
    let start = std::time::Instant::now();
    for _ in 0..2 {
        cluster.in_gateway("gw1", &format!("ip link del {link}")).await.ok();
        cluster
            .until("the link is back", PATIENCE, async || {
                let routes = cluster.routes("gw1").await;
                let back = routes.iter().any(|route| route.contains(&format!("dev {link}")));
                if back { Ok(()) } else { Err(format!("{routes:?}")) }
            })
            .await;
    }
    assert!(start.elapsed().as_secs() < 14, "it was not heard: {:?}", start.elapsed());
}

#[tokio::test]
async fn what_breaks_before_the_monitor_listens_is_repaired_as_soon() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    one.create(&vxlan("early0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.built("early0").await;
    // No monitor of the kernel's reports this: a digest shows it, the first that is asked for or the next after that.
    let iptables = one.iptables("gw1").await;
    one.in_gateway("gw1", &format!("{iptables} -w 5 -t nat -D POSTROUTING 1")).await.ok();
    one.until("the rule is back", PATIENCE, async || {
        let rules = one.in_gateway("gw1", &format!("{iptables}-save -t nat")).await.out;
        if rules.contains("causeway:ns1/early0") { Ok(()) } else { Err(rules) }
    })
    .await;
    is_heard(&one, "early0").await;
}

#[tokio::test]
async fn a_killed_monitor_is_opened_again_and_hears_as_before() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    one.create(&vxlan("heard0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.built("heard0").await;
    let script = |argv: &str| argv.ends_with("causeway-monitor\0");
    for part in [&is_monitor as &(dyn Fn(&str) -> bool + Sync), &script] {
        let before = monitor_in(&one, "gw1").await;
        kill(process_in(&one, "gw1", part).await.expect("its process"), Signal::SIGKILL).expect("it runs");
        one.until("another monitor", PATIENCE, async || match process_in(&one, "gw1", is_monitor).await {
            Some(pid) if pid != before => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        is_heard(&one, "heard0").await;
    }
}

#[tokio::test]
async fn a_gateway_where_no_monitor_can_run_says_why_and_is_tried_ever_less_often() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let controller = one.controller().await;
    one.create(&vxlan("deaf0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.built("deaf0").await;
    let monitor = monitor_in(&one, "gw1").await;
    one.fault("gw1", "without:ip").await;
    kill(monitor, Signal::SIGKILL).expect("it runs");
    let sentence = one.down("deaf0", "ToolMissing").await;
    assert!(sentence.contains("no `ip`"), "{sentence}");

    let before = controller.execs("monitor").await;
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    let tries = controller.execs("monitor").await - before;
    assert!(tries <= 8, "{tries} tries in six seconds");
    one.fault("gw1", "").await;
    one.built("deaf0").await;
}

#[tokio::test]
async fn what_changed_while_the_controller_was_away_is_caught_up_with() {
    let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
    let one = sandbox.cluster(1).await;
    let tunnel = |name, gateway, peer, net: u8| {
        with_vni(vxlan(name, gateway, peer, &format!("10.100.{net}.1/24")), net.into())
    };
    one.create(&tunnel("deleted0", "gw1", "cluster2/gw1", 1)).await;
    one.create(&tunnel("changed0", "gw1", "cluster3/gw1", 2)).await;
    one.create(&tunnel("stale0", "gw2", "cluster2/gw2", 3)).await;
    for name in ["deleted0", "changed0", "stale0"] {
        one.built(name).await;
    }

    sandbox.hold(&one).await;
    let tunnels = one.tunnels(NS);
    tunnels.delete("deleted0", &DeleteParams::default()).await.expect("accepted");
    one.patch_spec("changed0", json!({"interfaceAddr": "10.100.9.1/24"})).await;
    // Gone without a trace but in the gateway.
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    tunnels.patch("stale0", &PatchParams::default(), &bare).await.expect("accepted");
    tunnels.delete("stale0", &DeleteParams::default()).await.expect("accepted");
    one.create(&tunnel("new0", "gw2", "cluster3/gw2", 4)).await;
    assert!(one.link("gw2", "stale0").await.is_some());
    sandbox.release(&one).await;

    one.built("changed0").await;
    one.built("new0").await;
    assert_eq!(one.addresses("gw1", "changed0").await, ["10.100.9.1/24"]);
    one.until("the deleted tunnel is gone", PATIENCE, async || {
        match tunnels.get_opt("deleted0").await.expect("an answer") {
            None => Ok(()),
            Some(left) => Err(format!("{:?}", left.metadata)),
        }
    })
    .await;
    for (gateway, gone, kept) in [("gw1", "deleted0", "changed0"), ("gw2", "stale0", "new0")] {
        let marked = one.marked(gateway).await;
        assert!(!marked.iter().any(|line| line.contains(gone)), "{marked:?}");
        assert_eq!(marked.len(), ONE_TUNNEL, "{kept}: {marked:?}");
    }
}

#[tokio::test]
async fn a_gateway_replaced_while_the_controller_was_away_is_built_anew() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "moved0", "gw1", 1).await;
    one.comes_to_reach(FAR).await;

    sandbox.hold(&one).await;
    one.kubectl(&["delete", "pod", "-n", "kube-system", "vpc-nat-gw-gw1-0", "--wait=true"]).await.ok();
    one.until("the new pod answers", PATIENCE, async || {
        let said = one.kubectl(&["exec", "-n", "kube-system", "vpc-nat-gw-gw1-0", "--", "true"]).await;
        if said.code == 0 { Ok(()) } else { Err(said.err) }
    })
    .await;
    assert_eq!(one.marked("gw1").await, Vec::<String>::new());
    sandbox.release(&one).await;
    one.built("moved0").await;
    one.comes_to_reach(FAR).await;
}
