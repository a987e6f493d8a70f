//! What others do to a gateway is planned away, and what others own is left alone.

mod lab;

use std::path::Path;

use causeway_core::names::ObjectKey;
use causeway_core::vpc::{NatRule, Problem, TunnelKind, Variant, Want, plan};
use causeway_datapath::Trouble;
use causeway_datapath::vpc::{Commands, Datapath};
use lab::want::{VXLAN, add, demo};
use lab::{BOTH, Lab, Local, Netns, iptables, joined, observed, require};

/// Somebody else's things beside ours, as alike as can be.
const FOREIGN: &str = "set -e
    ip link add other type vxlan id 777 local 172.50.16.11 remote 172.50.16.21 dstport 4789 dev net1
    ip link set dev other alias causeway:ns1/other; ip addr add 10.77.0.1/24 dev other; ip link set other up
    ip route add 9.1.0.0/16 dev other proto static
    ip route add 242.1.0.0/16 dev other metric 50
    ip route add blackhole 9.2.0.0/16";

/// What `ip` and iptables list of them.
fn foreign_listing(gateway: &Netns, ipt: &str) -> String {
    gateway.sh(&format!(
        "ip -d link show other | sed 's/ qlen.*//'; ip -4 addr show other
         ip -N route show | grep -v 'proto 157' | grep -v 'dev demo'
         {ipt} -t nat -S | grep -v 'causeway:ns1/demo'"
    ))
}

#[tokio::test]
async fn whatever_is_removed_by_hand_comes_back_and_foreign_things_stay() {
    require(&[]);
    for variant in BOTH {
        let lab = joined(variant).await;
        let (gateway, ipt) = (&lab.gateways[0], iptables(variant));
        gateway.sh(FOREIGN);
        gateway.sh(&format!("{ipt} -t nat -A POSTROUTING -d 9.1.0.0/16 -m comment --comment 'not causeway:ns1/demo' -j SNAT --to-source 10.77.0.1"));
        let foreign = foreign_listing(gateway, ipt);
        let rule = "POSTROUTING ! -s 242.0.0.0/16 -d 242.1.0.0/16 -o demo -m comment --comment causeway:ns1/demo -j SNAT --to-source 242.0.0.1-242.0.0.8";
        let rule_gone = format!("{ipt} -t nat -D {rule}");
        let rule_twice = format!("{ipt} -t nat -I {rule}");
        let jump_in_front = format!(
            "{ipt} -t nat -D POSTROUTING -j SNAT_FILTER; {ipt} -t nat -I POSTROUTING 1 -j SNAT_FILTER"
        );
        let rule_changed = format!(
            "{ipt} -t nat -R POSTROUTING 1 -d 242.1.0.0/16 -m comment --comment causeway:ns1/demo -j SNAT --to-source 242.0.0.9"
        );
        for damage in [
            "ip link del demo",
            "ip link set demo down",
            "ip addr flush dev demo",
            "ip addr add 10.100.0.77/24 dev demo",
            "ip route del 242.1.0.0/16 dev demo",
            "ip route del 242.0.0.0/16",
            "ip link set dev demo alias lost",
            "ip link set dev demo group 0",
            "ip link set dev demo mtu 600",
            "ip link set dev demo arp off",
            "ip link set dev demo address 02:00:00:00:00:01",
            "ip link set dev demo type vxlan ageing 7",
            "ip link set dev demo type vxlan nolearning ttl 1",
            "echo 0 > /proc/sys/net/ipv4/conf/demo/proxy_arp; echo 1 > /proc/sys/net/ipv4/conf/demo/rp_filter",
            "ip ntable change name arp_cache dev demo proxy_delay 500; echo 0 > /proc/sys/net/ipv4/ip_forward",
            "ip link del demo; ip link add demo group 0x43575901 type vxlan id 101 local 172.50.16.11 dstport 4789 dev net1",
            &rule_gone,
            &rule_twice,
            &rule_changed,
            &jump_in_front,
        ] {
            gateway.sh(damage);
            let (plan, _) = lab.converge(0, &demo(0, VXLAN)).await;
            assert!(!plan.is_empty(), "{damage} goes unnoticed");
            assert_eq!(
                lab.source_seen(0).map(|seen| seen.octets()[0]),
                Some(242),
                "after {damage}: {plan:?}"
            );
        }
        // The jump was moved in front on purpose; it is where its owner put it, behind ours.
        let chain = gateway.sh(&format!("{ipt} -t nat -S POSTROUTING"));
        assert!(chain.find("causeway:ns1/demo\"") < chain.find("SNAT_FILTER"), "{chain}");
        gateway.sh(&format!(
            "{ipt} -t nat -D POSTROUTING -j SNAT_FILTER; {ipt} -t nat -I POSTROUTING 2 -j SNAT_FILTER"
        ));
        assert_eq!(foreign_listing(gateway, ipt), foreign);
        lab.assert_crosses();
    }
}

#[tokio::test]
async fn tunnels_that_go_together_take_nothing_along() {
    require(&[]);
    let lab = Lab::new(Variant::Nft);
    let gateway = &lab.gateways[0];
    gateway.sh(FOREIGN);
    let foreign = foreign_listing(gateway, iptables(Variant::Nft));
    let mut want = demo(0, VXLAN);
    for number in 1..6 {
        let kind = TunnelKind::Vxlan { vni: 200 + u32::from(number), port: 4789 };
        add(&mut want, &format!("far{number}"), number, kind);
    }
    lab.converge(0, &want).await;
    want.tunnels.retain(|name, _| name.as_str() == "demo");
    lab.converge(0, &want).await;
    assert!(!gateway.sh("ip -o link").contains("far"));
    lab.converge(0, &Want::default()).await;
    assert_eq!(foreign_listing(gateway, iptables(Variant::Nft)), foreign);
}

#[tokio::test]
async fn our_rule_in_the_other_variant_is_removed() {
    require(&[]);
    let lab = joined(Variant::Legacy).await;
    lab.gateways[0].sh("iptables-nft -t nat -I POSTROUTING -d 242.1.0.0/16 -m comment --comment causeway:ns1/demo -j SNAT --to-source 242.0.0.1-242.0.0.8");
    let (plan, have) = lab.converge(0, &demo(0, VXLAN)).await;
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
    assert_eq!(have.nat.active, Variant::Legacy);
    assert!(have.nat.postrouting[&Variant::Nft].iter().all(|rule| matches!(rule, NatRule::Foreign(_))));
}

#[tokio::test]
async fn a_foreign_link_or_route_in_the_way_stops_that_tunnel_alone() {
    require(&[]);
    let lab = Lab::new(Variant::Nft);
    lab.converge(1, &demo(1, VXLAN)).await;
    let gateway = &lab.gateways[0];
    gateway.sh("set -e
        ip link add taken type veth peer name taken-peer
        ip route add 243.2.0.0/16 via 10.0.1.10");
    let mut want = demo(0, VXLAN);
    add(&mut want, "taken", 1, TunnelKind::Vxlan { vni: 201, port: 4789 });
    add(&mut want, "routed", 2, TunnelKind::Vxlan { vni: 202, port: 4789 });
    let (plan, have) = lab.converge(0, &want).await;
    let problem = |name: &str| plan.problems.get(&ObjectKey::new("ns1", name).expect("a key"));
    assert_eq!(problem("taken"), Some(&Problem::NameTaken { link: "taken".into() }));
    assert!(matches!(problem("routed"), Some(Problem::RouteTaken { .. })), "{plan:?}");
    assert_eq!(problem("demo"), None);
    assert!(have.links["taken"].kind.is_none() && !have.links.contains_key("routed"));
    lab.assert_crosses();
}

/// A runner whose gateway loses the last lines of its input.
struct Torn {
    inner: Local,
    lines: usize,
}

#[async_trait::async_trait]
impl causeway_datapath::Run for Torn {
    async fn run(
        &self,
        argv: &[&str],
        stdin: &[u8],
    ) -> Result<causeway_datapath::Output, causeway_datapath::RunError> {
        let lines: Vec<&[u8]> = stdin.split_inclusive(|byte| *byte == b'\n').collect();
        let cut = lines[..lines.len() - self.lines].concat();
        self.inner.run_to_end_of_input(argv, &cut).await
    }
}

#[tokio::test]
async fn input_cut_off_after_any_line_changes_nothing() {
    require(&[]);
    let lab = Lab::new(Variant::Nft);
    let have = observed(&lab.datapath(0)).await;
    let plan = plan(&demo(0, VXLAN), &have);
    // Each step has a line, before them are some more, and before those the script itself.
    for lines in (1..plan.steps.len() + 20).rev() {
        let torn = Commands::new(Torn { inner: lab.gateways[0].runner(), lines });
        let error = torn.apply(&plan, None).await.expect_err("torn");
        assert!(matches!(error, Trouble::Failed { status: 65, .. }), "{error}");
        assert_eq!(observed(&lab.datapath(0)).await, have, "without the last {lines} lines");
    }
    let whole = Commands::new(Torn { inner: lab.gateways[0].runner(), lines: 0 });
    assert!(whole.apply(&plan, None).await.expect("whole").failures.is_empty());
}

/// An `ip` that takes so many more batch lines and then kills the script, and an iptables-restore that counts
/// as one more.
fn deadly_tools(lines: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let left = dir.path().join("left");
    std::fs::write(&left, lines.to_string()).expect("written");
    let left = left.display();
    let tool = |name: &str, body: &str| {
        let path = dir.path().join(name);
        let script = format!(
            "#!/bin/bash
             PATH=/usr/sbin:/usr/bin:/sbin:/bin
             die() {{ read -r _ _ _ script _ </proc/$PPID/stat; kill -9 $script $PPID; exit 1; }}
             left=$(<{left})
             {body}
             exec {name} \"$@\""
        );
        std::fs::write(&path, script).expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("executable");
    };
    let batch = format!(
        "if [[ $2 == -batch ]]; then
            mapfile -t lines
            if (( ${{#lines[@]}} > left )); then printf '%s\\n' \"${{lines[@]:0:left}}\" | ip \"$@\"; die; fi
            echo $((left - ${{#lines[@]}})) >{left}
            printf '%s\\n' \"${{lines[@]}}\" | exec ip \"$@\"; exit
         fi"
    );
    tool("ip", &batch);
    tool("iptables-nft-restore", &format!("(( left > 0 )) || die; echo $((left - 1)) >{left}"));
    for real in ["/bin/bash", "/usr/sbin/iptables-nft", "/usr/sbin/iptables-nft-save"].map(Path::new) {
        let name = real.file_name().expect("a name");
        std::os::unix::fs::symlink(real, dir.path().join(name)).expect("linked");
    }
    dir
}

#[tokio::test]
async fn a_script_killed_after_any_line_is_made_good_by_the_next_round() {
    require(&[]);
    let lab = joined(Variant::Nft).await;
    let mut killed = 0;
    loop {
        lab.converge(0, &Want::default()).await;
        let tools = deadly_tools(killed);
        let runner = Local { path: Some(tools.path().into()), ..lab.gateways[0].runner() };
        let plan = plan(&demo(0, VXLAN), &observed(&lab.datapath(0)).await);
        if Commands::new(runner).apply(&plan, None).await.is_ok() {
            break;
        }
        lab.converge(0, &demo(0, VXLAN)).await;
        lab.assert_crosses();
        killed += 1;
        assert!(killed <= plan.steps.len(), "it never works");
    }
    assert!(killed >= 8, "it was killed at {killed} places only");
}
