//! Real packets among three nodes, over routes and links that the kernel was given by netlink.

mod lab;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use causeway_core::leases::interface::{Choice, choose};
use causeway_core::leases::{
    Backend, Have, Lease, Mac, Mode, Network, Node, Place, Plan, Want, admit, compile, plan,
};
use causeway_core::{Cidr, Family};
use causeway_datapath::leases::{Heard, Interest, Kernel, Monitor};
use lab::{Netns, require};

const VXLAN: Mode = Mode::Vxlan { vni: 1, port: 8472, direct: false };
const DIRECT: Mode = Mode::Vxlan { vni: 1, port: 8472, direct: true };
const NODES: u8 = 3;

fn range(text: &str) -> Cidr {
    text.parse().expect("a range")
}

fn subnet(family: Family, number: u8) -> Cidr {
    match family {
        Family::V4 => range(&format!("10.244.{number}.0/24")),
        Family::V6 => range(&format!("fd00:10:244:{number}::/64")),
    }
}

fn public(family: Family, number: u8) -> IpAddr {
    let text = match family {
        Family::V4 => format!("192.168.7.{number}"),
        Family::V6 => format!("fd00:192:168::{number}"),
    };
    text.parse().expect("an address")
}

fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 7, number])
}

fn network(family: Family, mode: Mode) -> Network {
    let range = match family {
        Family::V4 => range("10.244.0.0/16"),
        Family::V6 => range("fd00:10:244::/48"),
    };
    Network { range, mode }
}

fn lease(family: Family, mode: Mode, number: u8) -> Lease {
    let backend = match mode {
        Mode::HostGw => Backend::HostGw,
        Mode::Vxlan { vni, .. } => Backend::Vxlan { vni, mac: mac(number) },
    };
    Lease { subnet: subnet(family, number), public: public(family, number), backend }
}

/// A node with a pod behind it.
struct Machine {
    number: u8,
    node: Netns,
    pod: Netns,
    kernel: Kernel,
}

impl Machine {
    fn new(number: u8, switch: &Netns) -> Self {
        let (node, pod) = (Netns::new(), Netns::new());
        switch.sh(&format!(
            "ip link add port{number} type veth peer name eth0 netns {}
             ip link set port{number} master br0 up",
            node.pid()
        ));
        node.sh(&format!(
            "ip link set lo up; ip link set eth0 up; ip link add pod type veth peer name eth0 netns {}
             ip link set pod up
             ip addr add 192.168.7.{number}/24 dev eth0
             ip addr add fd00:192:168::{number}/64 dev eth0 nodad
             ip addr add 10.244.{number}.1/24 dev pod
             ip addr add fd00:10:244:{number}::1/64 dev pod nodad
             echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
            pod.pid()
        ));
        pod.sh(&format!(
            "ip link set lo up; ip link set eth0 up
             ip addr add 10.244.{number}.10/24 dev eth0; ip route add default via 10.244.{number}.1
             ip addr add fd00:10:244:{number}::10/64 dev eth0 nodad
             ip route add default via fd00:10:244:{number}::1"
        ));
        let kernel = node.inside(Kernel::open).join().expect("no panic").expect("a conversation");
        Self { number, node, pod, kernel }
    }

    fn place(&self, family: Family) -> Place {
        let link = self.node.sh("ip -o link show eth0 | cut -d: -f1").trim().parse().expect("an index");
        let near = Cidr::containing(
            ipnet::IpNet::new(public(family, 0), if family == Family::V4 { 24 } else { 64 }).expect("a net"),
        );
        let subnet = subnet(family, self.number);
        Place {
            subnet,
            public: public(family, self.number),
            local: public(family, self.number),
            link,
            mtu: 1500,
            neighbours: vec![near],
            mac: mac(self.number),
        }
    }

    fn want(&self, network: &Network, nodes: &BTreeMap<String, Node>) -> Want {
        let place = self.place(network.range.family());
        let own = format!("node{}", self.number);
        let others = nodes.iter().filter(|(name, _)| **name != own).map(|(name, node)| (name.as_str(), node));
        let admitted = admit(network, &place, others);
        assert!(admitted.refused.is_empty(), "{:?}", admitted.refused);
        compile(network, &place, &admitted)
    }

    fn observe(&mut self, family: Family, want: &Want) -> Have {
        let link = want.link.as_ref().map(|(name, _)| name.as_str());
        loop {
            match self.kernel.observe(family, link) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                observed => return observed.expect("observed"),
            }
        }
    }

    /// Observes, plans and applies once; nothing may fail, and nothing is left to do.
    fn converge(&mut self, network: &Network, nodes: &BTreeMap<String, Node>) -> Plan {
        let family = network.range.family();
        let want = self.want(network, nodes);
        let have = self.observe(family, &want);
        let planned = plan(&want, &have);
        let failures = self.kernel.apply(family, &planned, &have).expect("applied");
        assert!(failures.is_empty(), "{failures:?}");
        let have = self.observe(family, &want);
        assert_eq!(plan(&want, &have), Plan::default(), "of {have:?}");
        planned
    }
}

struct Cluster {
    // Before the switch: whoever goes first takes its cables along.
    machines: Vec<Machine>,
    _switch: Netns,
}

impl Cluster {
    fn new() -> Self {
        let switch = Netns::new();
        switch.sh("ip link add br0 type bridge; ip link set br0 up");
        let machines = (1..=NODES).map(|number| Machine::new(number, &switch)).collect();
        Self { machines, _switch: switch }
    }

    fn nodes(family: Family, mode: Mode) -> BTreeMap<String, Node> {
        let node = |number| Node { since: 0, leases: vec![Ok(lease(family, mode, number))] };
        (1..=NODES).map(|number| (format!("node{number}"), node(number))).collect()
    }

    fn converge(&mut self, network: &Network, nodes: &BTreeMap<String, Node>) {
        for machine in &mut self.machines {
            machine.converge(network, nodes);
        }
    }

    /// Who reaches whom: `1-2` for the pod of the first and that of the second node.
    fn reached(&self, family: Family) -> Vec<String> {
        let mut pings = Vec::new();
        for machine in &self.machines {
            for other in (1..=NODES).filter(|other| *other != machine.number) {
                let address = match family {
                    Family::V4 => format!("10.244.{other}.10"),
                    Family::V6 => format!("fd00:10:244:{other}::10"),
                };
                // The first ones may wait for a neighbour's address.
                let ping = format!("ping -q -c 1 -i 0.2 -w 3 {address}");
                pings.push((format!("{}-{other}", machine.number), &machine.pod, ping));
            }
        }
        std::thread::scope(|scope| {
            let started = pings.iter().map(|(who, pod, ping)| (who, scope.spawn(|| pod.try_sh(ping).0)));
            let started: Vec<_> = started.collect();
            let ended = started.into_iter().map(|(who, ping)| (who, ping.join().expect("no panic")));
            ended.filter(|(_, reached)| *reached).map(|(who, _)| who.clone()).collect()
        })
    }
}

const EVERYBODY: [&str; 6] = ["1-2", "1-3", "2-1", "2-3", "3-1", "3-2"];

#[test]
fn pods_reach_each_other_over_either_way_and_family() {
    require(&[("ping", &["-V"])]);
    for (family, mode) in
        Family::ALL.into_iter().flat_map(|family| [Mode::HostGw, VXLAN, DIRECT].map(|mode| (family, mode)))
    {
        let mut cluster = Cluster::new();
        assert_eq!(cluster.reached(family), Vec::<String>::new(), "nobody knows a way");
        let (network, mut nodes) = (network(family, mode), Cluster::nodes(family, mode));
        cluster.converge(&network, &nodes);
        assert_eq!(cluster.reached(family), EVERYBODY, "{family} {mode:?}");
        nodes.remove("node3");
        for machine in &mut cluster.machines[..2] {
            machine.converge(&network, &nodes);
        }
        assert_eq!(cluster.reached(family), ["1-2", "2-1"], "{family} {mode:?}");
    }
}

#[test]
fn a_way_that_changes_is_changed_in_place_and_nothing_of_others_is_touched() {
    require(&[("ping", &["-V"])]);
    let mut cluster = Cluster::new();
    let (family, mode) = (Family::V4, Mode::HostGw);
    let others =
        "ip route add 10.99.0.0/16 via 192.168.7.9; ip route add blackhole 10.244.77.0/24 proto static
                  ip route add 10.244.1.0/24 via 192.168.7.9 metric 7 proto static";
    cluster.machines[1].node.sh(others);
    let nodes = Cluster::nodes(family, mode);
    cluster.converge(&network(family, mode), &nodes);
    // Somebody else's way to a lease stays, and is named.
    let machine = &mut cluster.machines[1];
    machine.node.sh("ip route del 10.244.3.0/24; ip route add 10.244.3.0/24 via 192.168.7.9 proto static");
    let want = machine.want(&network(family, mode), &nodes);
    let have = machine.observe(family, &want);
    let planned = plan(&want, &have);
    assert_eq!((planned.contested, planned.steps.len()), (vec![subnet(family, 3)], 0));
    machine.node.sh("ip route del 10.244.3.0/24");
    machine.converge(&network(family, mode), &nodes);
    // A link and its routes are made anew where they were lost, and go over from one way to the other.
    let (network, nodes) = (network(family, VXLAN), Cluster::nodes(family, VXLAN));
    cluster.converge(&network, &nodes);
    assert_eq!(cluster.reached(family), EVERYBODY);
    cluster.machines[0].node.sh("ip link del flannel.1");
    cluster.machines[2]
        .node
        .sh("ip neigh flush dev flannel.1 nud permanent; bridge fdb del 02:00:00:00:07:01 dev flannel.1
                                 ip link set flannel.1 mtu 1300");
    assert_ne!(cluster.reached(family), EVERYBODY);
    cluster.converge(&network, &nodes);
    assert_eq!(cluster.reached(family), EVERYBODY);
    let left = cluster.machines[1].node.sh("ip -4 route");
    for kept in ["10.99.0.0/16", "blackhole 10.244.77.0/24", "metric 7"] {
        assert!(left.contains(kept), "{kept} in {left}");
    }
}

#[test]
fn the_link_is_found_by_the_default_route_by_a_way_and_by_its_name() {
    require(&[]);
    let mut cluster = Cluster::new();
    let machine = &mut cluster.machines[0];
    machine.node.sh("ip route add default via 192.168.7.9; ip route add default via 10.244.1.9 metric 50
                     ip route add 172.16.0.0/12 via 10.244.1.9; ip route add unreachable 172.30.0.0/16");
    let links = machine.kernel.links().expect("links");
    let find = |choice: &Choice<'_>, way| {
        choose(Family::V4, choice, &links, way).map(|it| (it.name, it.address.to_string()))
    };
    let way = machine.kernel.default_way(Family::V4).expect("an answer");
    assert_eq!(find(&Choice::Default, way), Ok(("eth0".into(), "192.168.7.1".into())));
    assert_eq!(find(&Choice::Named("pod"), None), Ok(("pod".into(), "10.244.1.1".into())));
    let far = IpAddr::from([172, 17, 0, 1]);
    let way = machine.kernel.way_to(far).expect("an answer");
    assert_eq!(find(&Choice::Reaching(far), way), Ok(("pod".into(), "10.244.1.1".into())));
    assert_eq!(machine.kernel.way_to([172, 30, 0, 1].into()).expect("an answer"), None);
    assert_eq!(machine.kernel.default_way(Family::V6).expect("an answer"), None);
}

#[test]
fn what_others_change_is_heard_and_what_we_put_is_not() {
    require(&[]);
    let mut cluster = Cluster::new();
    let (family, mode) = (Family::V4, Mode::HostGw);
    let machine = &mut cluster.machines[0];
    let mut monitor = machine.node.inside(Monitor::open).join().expect("no panic").expect("it listens");
    // Links that were just made may still say something.
    let pods = Interest {
        ranges: vec![range("10.244.0.0/16"), range("fd00:10:244::/48")],
        own: machine.kernel.port().into_iter().collect(),
        ..Interest::default()
    };
    while !monitor.read(&pods).expect("read").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    machine.converge(&network(family, mode), &Cluster::nodes(family, mode));
    assert!(!monitor.read(&pods).expect("read").contains(&Heard::Routes(family)));
    let cases = [
        ("ip route del 10.244.2.0/24", Heard::Routes(Family::V4)),
        ("ip route add 10.244.2.0/24 via 192.168.7.9 proto 158", Heard::Routes(Family::V4)),
        ("ip route replace 10.244.3.0/24 via 192.168.7.9", Heard::Routes(Family::V4)),
        ("ip -6 route add fd00:10:244:9::/64 via fd00:192:168::9", Heard::Routes(Family::V6)),
        ("ip route add default via 192.168.7.9", Heard::Links),
        ("ip addr add 192.168.8.1/24 dev eth0", Heard::Links),
        ("ip link set eth0 mtu 1400", Heard::Links),
    ];
    for (change, heard) in cases {
        machine.node.sh(change);
        let said = monitor.read(&pods).expect("read");
        assert!(said.contains(&heard), "{change}: {said:?}");
    }
}

#[test]
fn every_way_can_follow_every_other_in_either_family() {
    require(&[]);
    let mut cluster = Cluster::new();
    for family in Family::ALL {
        for mode in [DIRECT, VXLAN, Mode::HostGw, VXLAN, DIRECT, Mode::HostGw, DIRECT] {
            cluster.converge(&network(family, mode), &Cluster::nodes(family, mode));
        }
        assert_eq!(cluster.reached(family), EVERYBODY, "{family}");
    }
}

#[test]
fn rules_are_heard_of_where_ours_stand_alone() {
    require(&[("nft", &["--version"])]);
    let node = Netns::new();
    node.sh("nft add table ip causeway; nft add chain ip causeway postrouting; iptables-nft -N OTHERS; iptables-nft -P FORWARD DROP");
    let mut monitor = node.inside(Monitor::open).join().expect("no panic").expect("it listens");
    for (change, concerns_us) in [
        ("iptables-nft -A OTHERS -j DROP; iptables-nft -F OTHERS", false),
        ("nft add table ip others; nft delete table ip others", false),
        ("iptables-nft -A FORWARD -s 10.1.0.0/16 -j DROP", true),
        ("iptables-nft -F FORWARD", true),
        ("nft add rule ip causeway postrouting accept", true),
        ("nft delete table ip causeway", true),
        ("iptables-nft -t nat -A POSTROUTING -s 10.1.0.0/16 -j MASQUERADE", false),
    ] {
        node.sh(change);
        let said = monitor.read(&Interest::default()).expect("read");
        assert_eq!(said.contains(&Heard::Rules), concerns_us, "{change}: {said:?}");
    }
}

/// Somebody who never stops changing routes of a node, until dropped.
struct Restless {
    child: std::process::Child,
}

impl Restless {
    fn in_node(node: &Netns) -> Self {
        let flips = "while true; do for i in $(seq 50); do echo route add fd99:$i::/32 via fd00:192:168::9
                     echo route del fd99:$i::/32; done | ip -6 -batch - || exit; done";
        let mut command = std::process::Command::new("nsenter");
        command.args(["-t", &node.pid().to_string(), "-n", "bash", "-c", flips]);
        Self { child: command.spawn().expect("nsenter starts") }
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn beside_somebody_who_never_stops_changing_routes_nothing_is_forgotten() {
    require(&[]);
    let mut cluster = Cluster::new();
    let machine = &mut cluster.machines[0];
    // Enough that a list takes several answers.
    machine.node.sh(
        "for a in $(seq 100 115); do for b in $(seq 100 349); do echo route add fd$a:$b::/32 via fd00:192:168::9; done; done |
           sed 's/fd1/fd/' | ip -6 -batch -",
    );
    let (network, nodes) = (network(Family::V6, VXLAN), Cluster::nodes(Family::V6, VXLAN));
    let want = machine.want(&network, &nodes);
    let restless = Restless::in_node(&machine.node);
    for _ in 0..20 {
        // One that the kernel says was interrupted is made again.
        let have = machine.observe(Family::V6, &want);
        let failures = machine.kernel.apply(Family::V6, &plan(&want, &have), &have).expect("applied");
        assert!(failures.is_empty(), "{failures:?}");
        assert!(have.routes.len() >= 4000, "nothing is forgotten: {}", have.routes.len());
    }
    drop(restless);
    let have = machine.observe(Family::V6, &want);
    assert_eq!(plan(&want, &have), Plan::default());
}

#[test]
fn far_ends_are_heard_of_on_our_links_alone() {
    require(&[]);
    let mut cluster = Cluster::new();
    let machine = &mut cluster.machines[0];
    machine.converge(&network(Family::V4, VXLAN), &Cluster::nodes(Family::V4, VXLAN));
    let mut monitor = machine.node.inside(Monitor::open).join().expect("no panic").expect("it listens");
    let index = machine.node.sh("ip -o link show flannel.1 | cut -d: -f1").trim().parse().expect("an index");
    let ours = Interest { links: [index].into(), ..Interest::default() };
    for (change, heard) in [
        ("ip neigh del 10.244.2.0 dev flannel.1", Heard::Routes(Family::V4)),
        ("bridge fdb del 02:00:00:00:07:02 dev flannel.1 dst 192.168.7.2", Heard::Ends),
        ("bridge fdb replace 02:00:00:00:07:03 dev flannel.1 dst 192.168.7.9", Heard::Ends),
    ] {
        machine.node.sh(change);
        let said = monitor.read(&ours).expect("read");
        assert!(said.contains(&heard), "{change}: {said:?}");
    }
    // A new link's own address is announced once more when the kernel has seen that nobody else has it.
    machine.node.sh("while ip -o addr show tentative | grep -q .; do sleep 0.05; done");
    monitor.read(&ours).expect("read");
    machine.node.sh(
        "ip neigh add 192.168.7.77 lladdr 02:00:00:00:07:77 dev eth0; ip neigh del 192.168.7.77 dev eth0",
    );
    machine.node.sh("ip route add 10.9.0.0/16 via 192.168.7.9; ip route del 10.9.0.0/16");
    assert_eq!(monitor.read(&ours).expect("read"), BTreeSet::new(), "that is others' business");
}

#[test]
fn a_link_of_ours_that_has_another_name_by_now_goes_once_the_new_way_is_there() {
    require(&[]);
    let mut cluster = Cluster::new();
    let other = Mode::Vxlan { vni: 7, port: 8472, direct: false };
    for mode in [VXLAN, other, Mode::HostGw] {
        cluster.converge(&network(Family::V4, mode), &Cluster::nodes(Family::V4, mode));
        assert_eq!(cluster.reached(Family::V4), EVERYBODY, "{mode:?}");
        let links = cluster.machines[0].node.sh("ip -br link | grep -o 'flannel[^ ]*' || true");
        let wanted = match mode {
            Mode::HostGw => String::new(),
            Mode::Vxlan { vni, .. } => format!("flannel.{vni}"),
        };
        assert_eq!(links.trim(), wanted);
    }
}

#[test]
fn what_flannel_left_is_taken_over_in_place_and_what_is_stale_goes() {
    require(&[]);
    let mut cluster = Cluster::new();
    let (family, mode) = (Family::V4, Mode::HostGw);
    let machine = &mut cluster.machines[0];
    machine.node.sh("ip route add 10.244.2.0/24 via 192.168.7.2; ip route add 10.244.9.0/24 via 192.168.7.9");
    let planned = machine.converge(&network(family, mode), &Cluster::nodes(family, mode));
    assert_eq!(planned.steps.len(), 3, "{planned:?}");
    let routes = machine.node.sh("ip route show 10.244.0.0/16; ip route show root 10.244.0.0/16");
    assert!(
        routes.contains("10.244.2.0/24 via 192.168.7.2 dev eth0 proto 158") && !routes.contains("10.244.9.0"),
        "{routes}"
    );
}
