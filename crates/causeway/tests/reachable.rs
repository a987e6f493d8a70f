//! Ready means packets: it goes when they no longer cross, for whatever reason, and comes back when they do.
#![cfg(feature = "sandbox")]

mod support;

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::api::{Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use support::tunnels::{NS, condition, join, vxlan, with_vni};
use support::{Cluster, PATIENCE, Sandbox};

const FAR: &str = "242.1.1.20";
/// A peer that falls silent is so within 15 s, one that answers again within 5 s; a test takes ten times that.
const SILENT: Duration = Duration::from_secs(150);
const BACK: Duration = Duration::from_secs(50);

/// Waits until a tunnel is not ready for one of these reasons.
async fn not_ready(cluster: &Cluster, name: &str, reason: &str) -> String {
    let tunnel = cluster.says(NS, name, "Ready", "False", reason, SILENT).await;
    condition(&tunnel, "Ready").expect("it was there").message.clone()
}

async fn ready(cluster: &Cluster, name: &str) {
    cluster.says(NS, name, "Ready", "True", "Up", BACK).await;
    cluster.says(NS, name, "Reachable", "True", "Answered", BACK).await;
}

/// Stops whoever listens and asks in gw1.
async fn stop_monitor(cluster: &Cluster) {
    let gateway = cluster.in_gateway("gw1", "readlink /proc/self/ns/net").await.out;
    let is_its = |process: &Path| {
        let cmdline = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let network = std::fs::read_link(process.join("ns/net")).unwrap_or_default();
        cmdline.ends_with(b"causeway-monitor\0") && network == Path::new(gateway.trim())
    };
    let processes =
        std::fs::read_dir("/proc").expect("processes").filter_map(|entry| Some(entry.ok()?.path()));
    let pids: Vec<i32> = processes
        .filter(|process| is_its(process))
        .filter_map(|process| process.file_name()?.to_str()?.parse().ok())
        .collect();
    assert!(!pids.is_empty(), "nobody listens in {gateway}");
    for pid in pids {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("it runs");
    }
}

/// One fault: what is done where, how it is mended, and what is said of it at both ends.
struct Fault {
    at: Where,
    put: &'static str,
    mend: &'static str,
    here: &'static str,
    there: Option<&'static str>,
}

enum Where {
    Here,
    There,
}

const FAULTS: [Fault; 8] = [
    Fault {
        at: Where::There,
        put: "IPTABLES -A INPUT -p udp --dport 4789 -j DROP",
        mend: "IPTABLES -F INPUT",
        here: "PeerSilent",
        there: Some("PeerSilent"),
    },
    Fault {
        at: Where::There,
        put: "IPTABLES -A OUTPUT -p udp --dport 4789 -j DROP",
        mend: "IPTABLES -F OUTPUT",
        here: "PeerSilent",
        there: Some("PeerSilent"),
    },
    Fault {
        at: Where::There,
        put: "IPTABLES -P FORWARD DROP",
        mend: "IPTABLES -P FORWARD ACCEPT",
        here: "SilentBehindPeer",
        there: Some("ForwardDropped"),
    },
    Fault {
        at: Where::Here,
        put: "IPTABLES -P FORWARD DROP",
        mend: "IPTABLES -P FORWARD ACCEPT",
        here: "ForwardDropped",
        there: Some("SilentBehindPeer"),
    },
    Fault {
        at: Where::Here,
        put: "IPTABLES -N NO && IPTABLES -A NO -i eth0 -j DROP && IPTABLES -A FORWARD -o demo -j NO",
        mend: "IPTABLES -F FORWARD && IPTABLES -F NO && IPTABLES -X NO",
        here: "ForwardDropped",
        there: Some("SilentBehindPeer"),
    },
    Fault {
        at: Where::Here,
        put: "ip rule add iif eth0 to 242.1.0.0/16 blackhole",
        mend: "ip rule del iif eth0 to 242.1.0.0/16 blackhole",
        here: "RoutedElsewhere",
        there: Some("SilentBehindPeer"),
    },
    // Of what is asked for none is in there, so the other end has nothing to say.
    Fault {
        at: Where::Here,
        put: "ip route add blackhole 242.1.1.0/24",
        mend: "ip route del blackhole 242.1.1.0/24",
        here: "RoutedElsewhere",
        there: None,
    },
    Fault {
        at: Where::Here,
        put: "ip route add 242.1.1.20 dev net1",
        mend: "ip route del 242.1.1.20 dev net1",
        here: "RoutedElsewhere",
        there: None,
    },
];

#[tokio::test]
async fn ready_goes_when_packets_do_not_cross_and_comes_back_when_they_do() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "demo", "gw1", 0).await;
    for cluster in [&one, &two] {
        ready(cluster, "demo").await;
    }
    for Fault { at, put, mend, here, there } in FAULTS {
        let site = match at {
            Where::Here => &one,
            Where::There => &two,
        };
        let iptables = format!("{} -w 5", site.iptables("gw1").await);
        site.in_gateway("gw1", &put.replace("IPTABLES", &iptables)).await.ok();
        tokio::join!(not_ready(&one, "demo", here), async {
            if let Some(there) = there {
                not_ready(&two, "demo", there).await;
            }
        });
        let lost = one.in_client(&format!("ping -n -c 3 -i 0.2 -W 1 {FAR}")).await;
        assert!(lost.out.contains(" 0 received"), "{put}: {lost:?}");
        site.in_gateway("gw1", &mend.replace("IPTABLES", &iptables)).await.ok();
        tokio::join!(ready(&one, "demo"), ready(&two, "demo"));
        one.reaches(FAR).await;
    }
}

#[tokio::test]
async fn ready_goes_with_the_far_end_and_says_what_to_look_at() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "demo", "gw1", 0).await;
    one.reaches(FAR).await;

    // Whoever asks hangs: that is noticed, and somebody else asks, before anybody has to say that nothing is known.
    stop_monitor(&one).await;
    two.delete("demo").await;
    one.until("the peer is silent", SILENT, async || {
        let ready = condition(&one.tunnel("demo").await, "Ready").cloned().expect("it is said");
        assert_ne!(ready.reason, "Unheard");
        if ready.reason == "PeerSilent" { Ok(()) } else { Err(format!("{ready:?}")) }
    })
    .await;
    let why = not_ready(&one, "demo", "PeerSilent").await;
    assert!(
        why.contains("cluster2/gw1") && why.contains("UDP port 4789") && why.contains("VNI 1000"),
        "{why}"
    );
    // The other identifier: nothing crosses, and nobody says Ready.
    two.create(&with_vni(vxlan("demo", "gw1", "cluster1/gw1", "10.100.0.2/24"), 7)).await;
    two.says(NS, "demo", "Programmed", "True", "InPlace", PATIENCE).await;
    not_ready(&two, "demo", "PeerSilent").await;
    not_ready(&one, "demo", "PeerSilent").await;
    two.delete("demo").await;
    two.create(&with_vni(vxlan("demo", "gw1", "cluster1/gw1", "10.100.0.2/24"), 1000)).await;
    tokio::join!(ready(&one, "demo"), ready(&two, "demo"));
    one.reaches(FAR).await;

    // The peer's gateway dies, and comes back.
    let sets: Api<StatefulSet> = Api::namespaced(two.client.clone(), "kube-system");
    let scale = |replicas: u8| Patch::Merge(json!({"spec": {"replicas": replicas}}));
    sets.patch("vpc-nat-gw-gw1", &PatchParams::default(), &scale(0)).await.expect("scaled");
    not_ready(&one, "demo", "PeerSilent").await;
    sets.patch("vpc-nat-gw-gw1", &PatchParams::default(), &scale(1)).await.expect("scaled");
    tokio::join!(ready(&one, "demo"), ready(&two, "demo"));
    one.reaches(FAR).await;
}
