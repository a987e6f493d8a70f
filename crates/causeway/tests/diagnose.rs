//! `causeway diagnose` names the hop that a fault is at: one sandbox, one fault after the other, nobody to repair them.
#![cfg(feature = "sandbox")]

mod support;

use serde_json::Value;
use support::vpcs::by_vpc;
use support::{Cluster, Said, Sandbox};

const SERVER: &str = "242.1.1.20";

/// Where something is done.
#[derive(Clone, Copy, Debug)]
enum At {
    /// In the gateway gw1 of cluster1 or cluster2.
    Near,
    Far,
    /// With kubectl, there.
    Here,
    There,
}

use At::{Far, Here, Near, There};

/// A fault, how to heal it, and what should be said: the hop, its cluster, and words of what was found.
struct Fault {
    plant: &'static [(At, &'static str)],
    heal: &'static [(At, &'static str)],
    hop: &'static str,
    cluster: &'static str,
    found: &'static str,
    /// Whether the peer's cluster is looked at too.
    both: bool,
}

const fn fault(
    plant: &'static [(At, &'static str)],
    heal: &'static [(At, &'static str)],
    (hop, cluster, found): (&'static str, &'static str, &'static str),
) -> Fault {
    Fault { plant, heal, hop, cluster, found, both: true }
}

/// The same, seen from this end alone.
const fn alone(fault: Fault) -> Fault {
    Fault { both: false, ..fault }
}

const UP: &str = "ip link set demo up && ip route replace 242.1.0.0/16 dev demo proto 157";
const FAR_UP: &str = "ip link set demo up && ip route replace 242.0.0.0/16 dev demo proto 157";
const NO_ROUTE: &str = r#"patch vpc test-vpc-1 --type merge -p {"spec":{"staticRoutes":[]}}"#;
const OTHER_ROUTE: &str = r#"patch vpc test-vpc-1 --type merge -p {"spec":{"staticRoutes":[{"cidr":"242.1.0.0/16","nextHopIP":"10.0.1.253"}]}}"#;
const ROUTE: &str = r#"patch vpc test-vpc-1 --type merge -p {"spec":{"staticRoutes":[{"cidr":"242.1.0.0/16","nextHopIP":"10.0.1.254"}]}}"#;
const FAR_ROUTE: &str = r#"patch vpc test-vpc-1 --type merge -p {"spec":{"staticRoutes":[{"cidr":"242.0.0.0/16","nextHopIP":"10.0.1.254"}]}}"#;
const NAT: &str = "iptables -t nat -I POSTROUTING 1 ! -s 242.0.0.0/16 -d 242.1.0.0/16 -o demo -m comment --comment causeway:ns1/demo -j SNAT --to-source 242.0.0.1-242.0.0.8";
const NAT_GONE: &str = "iptables -t nat -D POSTROUTING ! -s 242.0.0.0/16 -d 242.1.0.0/16 -o demo -m comment --comment causeway:ns1/demo -j SNAT --to-source 242.0.0.1-242.0.0.8";

const FAULTS: &[Fault] = &[
    fault(
        &[(Here, "label vnt -n ns1 demo vid=0 --overwrite")],
        &[(Here, "label vnt -n ns1 demo vid=100 --overwrite")],
        ("object", "cluster1", "InvalidSpec: label vid"),
    ),
    fault(
        &[(
            Here,
            r#"patch gwx -n kube-system gw1-cluster2 --type merge -p {"spec":{"externalip":"nowhere"}}"#,
        )],
        &[(
            Here,
            r#"patch gwx -n kube-system gw1-cluster2 --type merge -p {"spec":{"externalip":"172.50.16.21"}}"#,
        )],
        ("record", "cluster1", "PeerInvalid"),
    ),
    fault(
        &[(
            Here,
            r#"patch gwx -n kube-system gw1-cluster2 --type merge -p {"spec":{"externalip":"172.50.16.29"}}"#,
        )],
        &[(
            Here,
            r#"patch gwx -n kube-system gw1-cluster2 --type merge -p {"spec":{"externalip":"172.50.16.21"}}"#,
        )],
        ("record", "cluster1", "172.50.16.29 with 242.1.0.0/16"),
    ),
    fault(
        &[(Here, "label gwx -n kube-system gw1-cluster2 localGateway=gw7 --overwrite")],
        &[(Here, "label gwx -n kube-system gw1-cluster2 localGateway=gw1 --overwrite")],
        ("record", "cluster1", "PeerUnknown"),
    ),
    fault(
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 ovn.kubernetes.io/gateway-")],
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 ovn.kubernetes.io/gateway=10.0.1.1")],
        ("gateway", "cluster1", "GatewayIncomplete"),
    ),
    fault(
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 sandbox.causeway/exec=refuse")],
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 sandbox.causeway/exec-")],
        ("gateway", "cluster1", "refused"),
    ),
    fault(
        &[(There, "annotate pod -n kube-system vpc-nat-gw-gw1-0 sandbox.causeway/exec=without:ip")],
        &[(There, "annotate pod -n kube-system vpc-nat-gw-gw1-0 sandbox.causeway/exec-")],
        ("gateway", "cluster2", "no `ip`"),
    ),
    fault(
        &[(Near, "ip link set demo down && ip link set demo name gone")],
        &[(
            Near,
            "ip link set gone name demo && ip link set demo up && ip route add 242.1.0.0/16 dev demo proto 157",
        )],
        ("link", "cluster1", "there is no such link"),
    ),
    fault(&[(Near, "ip link set demo down")], &[(Near, UP)], ("link", "cluster1", "it is down")),
    alone(fault(
        &[(Near, "ip addr del 10.100.0.1/24 dev demo")],
        &[(Near, "ip addr add 10.100.0.1/24 dev demo"), (Near, UP)],
        ("link", "cluster1", "address 10.100.0.1/24"),
    )),
    fault(&[(Far, "ip link set demo down")], &[(Far, FAR_UP)], ("link", "cluster2", "it is down")),
    fault(
        &[(Far, "echo 0 >/proc/sys/net/ipv4/conf/demo/proxy_arp")],
        &[(Far, "echo 1 >/proc/sys/net/ipv4/conf/demo/proxy_arp")],
        ("link", "cluster2", "proxy_arp"),
    ),
    fault(
        &[(There, "label vnt -n ns1 demo vid=101 --overwrite")],
        &[(There, "label vnt -n ns1 demo vid=100 --overwrite")],
        ("link", "cluster2", "vxlan 100 on port 4789"),
    ),
    fault(
        &[(There, r#"patch vnt -n ns1 demo --type merge -p {"spec":{"clusterId":"cluster9"}}"#)],
        &[(There, r#"patch vnt -n ns1 demo --type merge -p {"spec":{"clusterId":"cluster1"}}"#)],
        ("peer", "cluster2", "no tunnel of cluster2 leads from that gateway to cluster1/gw1"),
    ),
    fault(
        &[
            (There, r#"patch vnt -n ns1 demo --type merge -p {"spec":{"interfaceAddr":"10.101.0.2/24"}}"#),
            (Far, "ip addr add 10.101.0.2/24 dev demo && ip addr del 10.100.0.2/24 dev demo"),
        ],
        &[
            (There, r#"patch vnt -n ns1 demo --type merge -p {"spec":{"interfaceAddr":"10.100.0.2/24"}}"#),
            (Far, "ip addr add 10.100.0.2/24 dev demo && ip addr del 10.101.0.2/24 dev demo"),
            (Far, FAR_UP),
        ],
        ("peer", "cluster2", "10.101.0.2/24"),
    ),
    alone(fault(
        &[(Near, "ip link set net1 down")],
        &[(Near, "ip link set net1 up")],
        ("underlay", "cluster1", "net1 of the gateway is down"),
    )),
    alone(fault(
        &[(Far, "ip link set net1 down")],
        &[(Far, "ip link set net1 up")],
        ("underlay", "cluster1", "172.50.16.21"),
    )),
    fault(
        &[(Far, "iptables -I INPUT -i net1 -p udp --dport 4789 -j DROP")],
        &[(Far, "iptables -D INPUT -i net1 -p udp --dport 4789 -j DROP")],
        ("underlay", "cluster1", "while 172.50.16.21 itself answers pings"),
    ),
    alone(fault(
        &[(Near, "iptables -I OUTPUT -o net1 -p udp --dport 4789 -j DROP")],
        &[(Near, "iptables -D OUTPUT -o net1 -p udp --dport 4789 -j DROP")],
        ("underlay", "cluster1", "while 172.50.16.21 itself answers pings"),
    )),
    fault(
        &[(Near, "ip link set demo mtu 1400")],
        &[(Near, "ip link set demo mtu 1450")],
        ("mtu", "cluster1", "1400 bytes"),
    ),
    alone(fault(
        &[(Near, "iptables -I OUTPUT -o net1 -p icmp -m length --length 1400: -j DROP")],
        &[(Near, "iptables -D OUTPUT -o net1 -p icmp -m length --length 1400: -j DROP")],
        ("mtu", "cluster1", "short ones do, long ones do not"),
    )),
    fault(&[(Near, NAT_GONE)], &[(Near, NAT)], ("nat", "cluster1", "no such rule")),
    fault(
        &[(Near, "iptables -t nat -I POSTROUTING 1 -s 10.0.1.0/24 -j SNAT --to-source 172.50.16.101")],
        &[(Near, "iptables -t nat -D POSTROUTING -s 10.0.1.0/24 -j SNAT --to-source 172.50.16.101")],
        ("nat", "cluster1", "at place 2"),
    ),
    fault(
        &[(Near, "echo 0 >/proc/sys/net/ipv4/ip_forward")],
        &[(Near, "echo 1 >/proc/sys/net/ipv4/ip_forward")],
        ("forward", "cluster1", "ip_forward is 0"),
    ),
    fault(
        &[(Near, "ip route del 242.0.0.0/16")],
        &[(Near, "ip route add 242.0.0.0/16 via 10.0.1.1 dev eth0 proto 157")],
        ("forward", "cluster1", "route 242.0.0.0/16 via 10.0.1.1"),
    ),
    fault(
        &[(Near, "iptables -P FORWARD DROP")],
        &[(Near, "iptables -P FORWARD ACCEPT")],
        ("forward", "cluster1", "-P FORWARD DROP"),
    ),
    fault(
        &[(Far, "iptables -I FORWARD -o demo -j REJECT")],
        &[(Far, "iptables -D FORWARD -o demo -j REJECT")],
        ("forward", "cluster2", "-A FORWARD -o demo -j REJECT"),
    ),
    fault(
        &[(Near, "iptables -N NO && iptables -A NO -i demo -j DROP && iptables -A FORWARD -j NO")],
        &[(Near, "iptables -F FORWARD && iptables -F NO && iptables -X NO")],
        ("forward", "cluster1", "-A NO -i demo -j DROP"),
    ),
    fault(
        &[(Near, "ip route add blackhole 242.1.1.0/24")],
        &[(Near, "ip route del blackhole 242.1.1.0/24")],
        ("forward", "cluster1", "242.1.1.0/24"),
    ),
    fault(
        &[(Near, "ip rule add iif eth0 to 242.1.0.0/16 blackhole")],
        &[(Near, "ip rule del iif eth0 to 242.1.0.0/16 blackhole")],
        ("forward", "cluster1", "packets from eth0 to 242.1.0.0/16 go nowhere"),
    ),
    alone(fault(
        &[(Far, "iptables -P FORWARD DROP")],
        &[(Far, "iptables -P FORWARD ACCEPT")],
        ("far", "cluster2", "and nobody behind it"),
    )),
    fault(&[(Here, NO_ROUTE)], &[(Here, ROUTE)], ("vpc", "cluster1", "no static route")),
    fault(&[(Here, OTHER_ROUTE)], &[(Here, ROUTE)], ("vpc", "cluster1", "leads 242.1.0.0/16 to 10.0.1.254")),
    fault(&[(There, NO_ROUTE)], &[(There, FAR_ROUTE)], ("vpc", "cluster2", "no static route")),
];

/// The same for tunnels that name no gateway.
const BY_VPC: &[Fault] = &[
    fault(
        &[(Here, "label vnt -n ns1 demo vid=0 --overwrite")],
        &[(Here, "label vnt -n ns1 demo vid-")],
        ("object", "cluster1", "InvalidSpec: label vid"),
    ),
    fault(
        &[(
            Here,
            r#"patch gwx -n kube-system test-vpc-1.cluster2 --type merge -p {"spec":{"externalip":"nowhere"}}"#,
        )],
        &[(
            Here,
            r#"patch gwx -n kube-system test-vpc-1.cluster2 --type merge -p {"spec":{"externalip":"172.50.16.21"}}"#,
        )],
        ("record", "cluster1", "PeerInvalid"),
    ),
    // The peer failed over, and its record has not arrived.
    fault(
        &[(
            Here,
            r#"patch gwx -n kube-system test-vpc-1.cluster2 --type merge -p {"spec":{"externalip":"172.50.16.22"}}"#,
        )],
        &[(
            Here,
            r#"patch gwx -n kube-system test-vpc-1.cluster2 --type merge -p {"spec":{"externalip":"172.50.16.21"}}"#,
        )],
        ("record", "cluster1", "172.50.16.22 with 242.1.0.0/16"),
    ),
    fault(
        &[(Here, "label gwx -n kube-system test-vpc-1.cluster2 localVpc=elsewhere --overwrite")],
        &[(Here, "label gwx -n kube-system test-vpc-1.cluster2 localVpc=test-vpc-1 --overwrite")],
        ("record", "cluster1", "PeerUnknown"),
    ),
    // The main gateway is on its way out, and nobody is there to let another take over.
    fault(
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 ovn.kubernetes.io/gateway-")],
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 ovn.kubernetes.io/gateway=10.0.1.1")],
        ("gateway", "cluster1", "the record of VPC test-vpc-1 names gw1"),
    ),
    fault(
        &[(There, "label gwx -n kube-system test-vpc-1.cluster2 localVpc=elsewhere --overwrite")],
        &[(There, "label gwx -n kube-system test-vpc-1.cluster2 localVpc=test-vpc-1 --overwrite")],
        ("gateway", "cluster2", "no record names the main gateway of VPC test-vpc-1"),
    ),
    fault(
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 sandbox.causeway/exec=refuse")],
        &[(Here, "annotate pod -n kube-system vpc-nat-gw-gw1-0 sandbox.causeway/exec-")],
        ("gateway", "cluster1", "refused"),
    ),
    // The record names the other one already, which does not carry the tunnel yet.
    fault(
        &[(Here, "label gwx -n kube-system test-vpc-1.cluster1 localGateway=gw2 --overwrite")],
        &[(Here, "label gwx -n kube-system test-vpc-1.cluster1 localGateway=gw1 --overwrite")],
        ("link", "cluster1", "not as it should be"),
    ),
    fault(&[(Near, "ip link set demo down")], &[(Near, UP)], ("link", "cluster1", "it is down")),
    fault(&[(Far, "ip link set demo down")], &[(Far, FAR_UP)], ("link", "cluster2", "it is down")),
    fault(
        &[(There, r#"patch vnt -n ns1 demo --type merge -p {"spec":{"remoteVpc":"elsewhere"}}"#)],
        &[(There, r#"patch vnt -n ns1 demo --type merge -p {"spec":{"remoteVpc":"test-vpc-1"}}"#)],
        ("peer", "cluster2", "no tunnel of cluster2 leads from that VPC to cluster1/test-vpc-1"),
    ),
    alone(fault(
        &[(Far, "iptables -I INPUT -i net1 -p udp --dport 4789 -j DROP")],
        &[(Far, "iptables -D INPUT -i net1 -p udp --dport 4789 -j DROP")],
        ("underlay", "cluster1", "while 172.50.16.21 itself answers pings"),
    )),
    fault(&[(Near, NAT_GONE)], &[(Near, NAT)], ("nat", "cluster1", "no such rule")),
    fault(&[(Here, OTHER_ROUTE)], &[(Here, ROUTE)], ("vpc", "cluster1", "leads 242.1.0.0/16 to 10.0.1.254")),
];

struct Lab {
    one: Cluster,
    two: Cluster,
}

impl Lab {
    async fn carry_out(&self, steps: &[(At, &str)]) {
        for (at, what) in steps {
            let said = match at {
                Near => self.one.in_gateway("gw1", what).await,
                Far => self.two.in_gateway("gw1", what).await,
                Here => self.one.kubectl(&what.split(' ').collect::<Vec<_>>()).await,
                There => self.two.kubectl(&what.split(' ').collect::<Vec<_>>()).await,
            };
            assert_eq!(said.code, 0, "{at:?}: {what}: {said:?}");
        }
    }

    /// Plants each fault, asks, and heals it.
    async fn names_each(&self, faults: &[Fault]) {
        let mut wrong = Vec::new();
        for Fault { plant, heal, hop, cluster, found, both } in faults {
            self.carry_out(plant).await;
            let said = self.diagnose(*both, &["-o", "json"]).await;
            let tunnel = &document(&said)["tunnels"][0];
            let last = tunnel["hops"].as_array().and_then(|hops| hops.last()).cloned().unwrap_or_default();
            let named = tunnel["broken"] == *hop && last["hop"] == *hop && last["cluster"] == *cluster;
            let has_remedy = last["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty());
            if !named || !has_remedy || said.code != 1 || !last["found"].to_string().contains(found) {
                wrong.push(format!(
                    "{plant:?} should be {hop} in {cluster} ({found}), and is: {last} {}",
                    said.err
                ));
            }
            self.carry_out(heal).await;
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
        let healed = self.diagnose(true, &[]).await;
        assert_eq!(healed.code, 0, "{healed:?}");
        self.one.reaches(SERVER).await;
    }

    async fn diagnose(&self, both: bool, more: &[&str]) -> Said {
        let files = [&self.one.kubeconfig, &self.two.kubeconfig];
        let files = files.map(|file| file.to_str().expect("text"));
        let mut args = vec!["diagnose", "demo", "--to", SERVER, "--kubeconfig", files[0]];
        if both {
            args.extend(["--kubeconfig", files[1]]);
        }
        args.extend(more);
        self.one.causeway(&args).await
    }
}

fn document(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_named_by_its_hop() {
    let sandbox = Sandbox::start(&["--iptables", "nft"]).await;
    let lab = Lab { one: sandbox.cluster(1).await, two: sandbox.cluster(2).await };
    lab.one.comes_to_reach(SERVER).await;
    for cluster in [&lab.one, &lab.two] {
        // What it says then it says until the end.
        cluster.up("demo").await;
        sandbox.hold(cluster).await;
    }
    for both in [true, false] {
        let well = lab.diagnose(both, &[]).await;
        assert_eq!(well.code, 0, "{well:?}");
        assert!(well.out.contains("all is well"), "{well:?}");
    }
    lab.names_each(FAULTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_tunnel_by_vpc_is_named_by_its_hop_and_a_missing_standby_is_told() {
    let sandbox = Sandbox::start(&["--bare", "--iptables", "nft"]).await;
    let lab = Lab { one: sandbox.cluster(1).await, two: sandbox.cluster(2).await };
    lab.one.create(&by_vpc(&lab.two, 1)).await;
    lab.two.create(&by_vpc(&lab.one, 2)).await;
    lab.one.comes_to_reach(SERVER).await;
    for cluster in [&lab.one, &lab.two] {
        cluster.up("demo").await;
        cluster.stands_by("gw2").await;
        sandbox.hold(cluster).await;
    }
    for both in [true, false] {
        let well = lab.diagnose(both, &[]).await;
        assert_eq!(well.code, 0, "{well:?}");
        let words = ["all is well", "main gateway gw1 of VPC test-vpc-1", "gw2 would take over"];
        assert!(words.iter().all(|words| well.out.contains(words)), "{well:?}");
    }
    // Packets cross while nobody would take over: that is said, and no fault.
    let standby = async |plant: &str, heal: &str, words: &str| {
        lab.one.in_gateway("gw2", plant).await.ok();
        let said = lab.diagnose(true, &[]).await;
        assert_eq!(said.code, 0, "{said:?}");
        let note = said.out.lines().find(|line| line.starts_with("note: cluster1: ") && line.contains(words));
        assert!(note.is_some(), "{words}: {said:?}");
        lab.one.in_gateway("gw2", heal).await.ok();
    };
    let heal = "ip link set demo up && ip route replace 242.1.0.0/16 dev demo proto 157";
    standby("ip link set demo down", heal, "gw2 would take over, and does not hold all of ns1/demo").await;
    let annotation = "annotate pod -n kube-system vpc-nat-gw-gw2-0 ovn.kubernetes.io/gateway";
    lab.carry_out(&[(Here, &format!("{annotation}-"))]).await;
    standby("true", "true", "no other gateway of VPC test-vpc-1 is ready to take over if gw1 is lost: ")
        .await;
    lab.carry_out(&[(Here, &format!("{annotation}=10.0.1.1"))]).await;
    lab.names_each(BY_VPC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_the_other_end_calls_down_is_not_called_well() {
    let sandbox = Sandbox::start(&["--iptables", "nft"]).await;
    let lab = Lab { one: sandbox.cluster(1).await, two: sandbox.cluster(2).await };
    lab.one.comes_to_reach(SERVER).await;
    lab.one.up("demo").await;
    // What the VPC's own addresses send ends here; what the gateway asks, and who has a global address, passes.
    lab.two.in_gateway("gw1", "iptables -I FORWARD -s 10.0.1.0/24 -j DROP").await.ok();
    let message = lab.one.down("demo", "SilentBehindPeer").await;
    let files = [&lab.two.kubeconfig, &lab.one.kubeconfig].map(|file| file.to_str().expect("text"));
    let args = ["diagnose", "demo", "--kubeconfig", files[0], "--kubeconfig", files[1]];
    let said = lab.two.causeway(&args).await;
    assert_eq!((said.code, said.out.contains("all is well")), (1, false), "{said:?}");
    assert!(said.out.contains("broken at far in cluster1"), "{said:?}");
    let said = lab.two.causeway(&[&args[..], &["-o", "json"]].concat()).await;
    let tunnel = &document(&said)["tunnels"][0];
    let last = tunnel["hops"].as_array().and_then(|hops| hops.last()).cloned().unwrap_or_default();
    assert_eq!((&tunnel["broken"], &last["cluster"]), (&"far".into(), &"cluster1".into()), "{said:?}");
    let found = last["found"].as_str().expect("text");
    assert!(found.contains("SilentBehindPeer") && found.contains(&message), "{found}");
    // As it says: from there the walk ends at what is broken.
    assert!(last["remedy"].as_str().is_some_and(|it| it.contains("cluster1 first")), "{last}");
    let there = ["diagnose", "demo", "--kubeconfig", files[1], "--kubeconfig", files[0]];
    let there = lab.one.causeway(&there).await;
    assert!(there.out.contains("broken at far in cluster2"), "{there:?}");
    let with_target = lab.diagnose(true, &[]).await;
    assert_eq!(
        (with_target.code, with_target.out.contains("walk without --to")),
        (1, true),
        "{with_target:?}"
    );

    lab.two.in_gateway("gw1", "iptables -D FORWARD -s 10.0.1.0/24 -j DROP").await.ok();
    lab.one.up("demo").await;
    let healed = lab.two.causeway(&args).await;
    assert_eq!((healed.code, healed.out.contains("all is well")), (0, true), "{healed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_seen_is_said_and_is_no_success() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let refused = async |resource: &str| {
        let fault = format!(
            r#"{{"switch":{{"refuse":{{"code":403}}}},"match":{{"resources":["{resource}"],"user":"admin"}}}}"#
        );
        one.kubectl_with(&["create", "--raw", "/faults", "-f", "-"], &fault).await.ok();
        let said = one.causeway(&["diagnose"]).await;
        one.kubectl(&["delete", "--raw", "/faults"]).await.ok();
        said
    };
    let nothing = one.causeway(&["diagnose"]).await;
    assert_eq!((nothing.code, nothing.out.starts_with("no tunnels")), (0, true), "{nothing:?}");
    let missing = one.causeway(&["diagnose", "ns1/nobody"]).await;
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.out.contains("broken at object"), "{missing:?}");
    let unread = refused("vpcnattunnels").await;
    assert_eq!((unread.code, unread.out.as_str()), (2, ""), "{unread:?}");
    assert!(unread.err.contains("cannot list resource \"vpcnattunnels\""), "{unread:?}");
    one.create(&support::tunnels::vxlan("demo", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.built("demo").await;
    let blind = refused("pods/exec").await;
    assert!(blind.out.contains("unseen: gateway in cluster1"), "{blind:?}");
    assert_eq!(blind.code, 1, "its object says that nobody answers: {blind:?}");
    assert!(blind.out.contains("broken at far in cluster1"), "{blind:?}");
    let half = one.causeway(&["diagnose", "-o", "json"]).await;
    assert_eq!(document(&half)["tunnels"][0]["broken"], "underlay", "there is no other end: {half:?}");
    for (args, words) in [
        (&["diagnose", "-n", "ns2", "ns1/demo"][..], "`ns1/demo` is of namespace ns1, while -n says ns2"),
        (&["diagnose", ""], "`` names no tunnel"),
        (&["diagnose", "/"], "`/` names no tunnel"),
        (
            &["diagnose", "--to", "10.9.9.9"],
            "10.9.9.9 is not behind tunnel ns1/demo, which leads to 242.1.0.0/16",
        ),
    ] {
        let refused = one.causeway(args).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
    let nowhere = one.causeway(&["diagnose", "--kubeconfig", "/nonexistent"]).await;
    assert_eq!(nowhere.code, 2, "{nowhere:?}");
    assert!(nowhere.err.contains("there is no such file"), "{nowhere:?}");
}
