//! A node among so many others that their next hops are objects in its kernel.

mod lab;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use causeway_core::leases::{
    Backend, Have, Lease, Mac, Mode, Network, Node, Place, Plan, Step, Want, admit, clean, compile, plan,
};
use causeway_core::{Cidr, Family};
use causeway_datapath::leases::{Heard, Interest, Kernel, Monitor};
use lab::{Netns, require};

const VXLAN: Mode = Mode::Vxlan { vni: 1, port: 8472, direct: false };
/// More than are put without objects.
const MANY: u32 = 1200;
const FEW: u32 = 1000;
const V4: Family = Family::V4;

fn range(text: &str) -> Cidr {
    text.parse().expect("a range")
}

/// A node's part of the network; its own has none of these numbers.
fn subnet(number: u32) -> Cidr {
    range(&format!("{}/24", Ipv4Addr::from(0x0a00_0000 + (number << 8))))
}

fn public(number: u32) -> IpAddr {
    Ipv4Addr::from(0xac10_0000 + number).into()
}

/// What a next hop goes by: our mark, and the end of its address.
fn number(node: u32) -> u32 {
    0x9e10_0000 + node
}

fn mac(number: u32) -> Mac {
    let [_, _, high, low] = number.to_be_bytes();
    Mac([2, 0, 0, 0, high, low])
}

fn lease(mode: Mode, number: u32) -> Lease {
    let backend = match mode {
        Mode::HostGw => Backend::HostGw,
        Mode::Vxlan { vni, .. } => Backend::Vxlan { vni, mac: mac(number) },
    };
    Lease { subnet: subnet(number), public: public(number), backend }
}

/// A node whose link has an end in another namespace.
struct Machine {
    node: Netns,
    other: Netns,
    kernel: Kernel,
}

impl Machine {
    fn new() -> Self {
        require(&[]);
        let (node, other) = (Netns::new(), Netns::new());
        node.sh(&format!(
            "ip link set lo up; ip link add eth0 type veth peer name eth0 netns {}
             ip addr add 172.31.0.1/12 dev eth0; ip link set eth0 up",
            other.pid()
        ));
        other.sh("ip link set lo up; ip link set eth0 up");
        let kernel = node.inside(Kernel::open).join().expect("no panic").expect("a conversation");
        Self { node, other, kernel }
    }

    fn want(&self, mode: Mode, nodes: u32) -> Want {
        let link = self.node.sh("ip -o link show eth0 | cut -d: -f1").trim().parse().expect("an index");
        let place = Place {
            subnet: range("10.255.0.0/24"),
            public: [172, 31, 0, 1].into(),
            local: [172, 31, 0, 1].into(),
            link,
            mtu: 1500,
            neighbours: vec![range("172.16.0.0/12")],
            mac: mac(0),
        };
        let network = Network { range: range("10.0.0.0/8"), mode };
        let node = |number| Node { since: 0, leases: vec![Ok(lease(mode, number))] };
        let nodes: BTreeMap<String, Node> =
            (1..=nodes).map(|number| (format!("node{number:05}"), node(number))).collect();
        let admitted = admit(&network, &place, nodes.iter().map(|(name, node)| (name.as_str(), node)));
        assert!(admitted.refused.is_empty(), "{:?}", admitted.refused);
        compile(&network, &place, &admitted)
    }

    fn observe(&mut self, want: &Want) -> Have {
        let link = want.link.as_ref().map(|(name, _)| name.as_str());
        loop {
            match self.kernel.observe(V4, link) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                observed => return observed.expect("observed"),
            }
        }
    }

    fn apply(&mut self, planned: &Plan, have: &Have) {
        let failures = self.kernel.apply(V4, planned, have).expect("applied");
        assert!(failures.is_empty(), "{:?}", failures.first());
    }

    /// Observes, plans and applies once; nothing may fail, and nothing is left to do.
    fn converge(&mut self, want: &Want) -> Plan {
        let have = self.observe(want);
        let planned = plan(want, &have);
        self.apply(&planned, &have);
        let have = self.observe(want);
        assert_eq!(plan(want, &have), Plan::default());
        planned
    }

    /// How many routes are ours, and how many of these lead through a next hop that is an object.
    fn routes(&self) -> (usize, usize) {
        let text = self.node.sh("ip route show proto 158");
        (text.lines().count(), text.lines().filter(|line| line.contains(" nhid ")).count())
    }

    /// The numbers of next hops that have our mark.
    fn hops(&self) -> BTreeSet<u32> {
        let text = self.node.sh("ip nexthop show proto 158 || ip nexthop show protocol 158");
        let number =
            |line: &str| line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        text.lines().map(number).collect()
    }

    /// What `ip` says of the way to a node's pods.
    fn route(&self, node: u32) -> String {
        self.node.sh(&format!("ip route show {}", subnet(node))).trim().to_owned()
    }
}

#[test]
fn many_routes_lead_through_next_hops_and_carry_packets_and_few_do_not() {
    require(&[("ping", &["-V"])]);
    let mut machine = Machine::new();
    machine.converge(&machine.want(Mode::HostGw, FEW));
    assert_eq!((machine.routes(), machine.hops().len()), ((1000, 0), 0), "as people know them");
    assert_eq!(machine.route(7), "10.0.7.0/24 via 172.16.0.7 dev eth0 proto 158");

    let mut machine = Machine::new();
    machine.converge(&machine.want(Mode::HostGw, MANY));
    assert_eq!((machine.routes(), machine.hops().len()), ((1200, 1200), 1200));
    let wanted = format!("10.0.7.0/24 nhid {} via 172.16.0.7 dev eth0 proto 158", number(7));
    assert_eq!(machine.route(7), wanted);
    machine.other.sh("ip addr add 172.16.0.7/12 dev eth0; ip addr add 10.0.7.9/32 dev lo");
    machine.node.sh("ping -q -c 1 -i 0.2 -w 3 10.0.7.9");

    // A kernel that is set to say no more than the number.
    machine.node.sh("echo 0 > /proc/sys/net/ipv4/nexthop_compat_mode");
    assert_eq!(machine.route(7), format!("10.0.7.0/24 nhid {} proto 158", number(7)));
    assert_eq!(machine.converge(&machine.want(Mode::HostGw, MANY)), Plan::default());
    machine.node.sh("echo 1 > /proc/sys/net/ipv4/nexthop_compat_mode");

    // A few more are put beside them, and what is not needed any more goes with its routes.
    machine.converge(&machine.want(Mode::HostGw, MANY + 10));
    assert_eq!((machine.routes(), machine.hops().len()), ((1210, 1200), 1200));
    machine.converge(&machine.want(Mode::HostGw, 3));
    assert_eq!((machine.routes(), machine.hops()), ((3, 3), [1, 2, 3].map(number).into()));

    let have = machine.observe(&machine.want(Mode::HostGw, 3));
    machine.apply(&clean(&have), &have);
    assert_eq!((machine.routes(), machine.hops().len()), ((0, 0), 0));
}

/// All that the kernel has said so far; it is read in parts.
fn heard(monitor: &mut Monitor, interest: &Interest) -> BTreeSet<Heard> {
    let mut heard = BTreeSet::new();
    while monitor.wait(Duration::from_millis(20)).expect("it listens") {
        heard.append(&mut monitor.read(interest).expect("read"));
    }
    heard
}

#[test]
fn what_happens_to_next_hops_is_heard_and_put_right() {
    let mut machine = Machine::new();
    let want = machine.want(Mode::HostGw, MANY);
    let mut monitor = machine.node.inside(Monitor::open).join().expect("no panic").expect("it listens");
    let pods = Interest {
        ranges: vec![range("10.0.0.0/8")],
        own: machine.kernel.port().into_iter().collect(),
        ..Interest::default()
    };
    machine.converge(&want);
    // Others' routes go in silence with the next hop, so that is all there is to hear.
    machine.node.sh("echo 0 > /proc/sys/net/ipv4/nexthop_compat_mode");
    heard(&mut monitor, &pods);
    let (third, fourth) = (number(3), number(4));
    for (change, news) in [
        (format!("ip nexthop del id {third}"), Heard::Routes(V4)),
        // By now it is somebody else's; it stays as it is, and our route leads elsewhere.
        (format!("ip nexthop replace id {fourth} via 172.16.0.99 dev eth0 proto static"), Heard::Routes(V4)),
        (format!("ip route del {}", subnet(5)), Heard::Routes(V4)),
        (format!("ip route replace {} via 172.16.0.99", subnet(6)), Heard::Routes(V4)),
        ("ip nexthop flush proto 158".into(), Heard::Routes(V4)),
        ("ip link set eth0 down; ip link set eth0 up".into(), Heard::Links),
    ] {
        machine.node.sh(&change);
        let said = heard(&mut monitor, &pods);
        assert!(said.contains(&news), "{change}: {said:?}");
        let planned = machine.converge(&want);
        assert_ne!(planned, Plan::default(), "{change}");
        assert_eq!(machine.routes().0, 1200, "{change}");
        let said = heard(&mut monitor, &pods);
        assert!(!said.contains(&Heard::Routes(V4)), "what we put is no news: {said:?}");
        if change.contains("static") {
            let hop = machine.node.sh(&format!("ip nexthop show id {fourth}"));
            assert!(hop.contains("via 172.16.0.99 dev eth0 scope link proto static"), "{hop}");
            machine.node.sh("echo 1 > /proc/sys/net/ipv4/nexthop_compat_mode");
            assert!(machine.route(4).contains("via 172.16.0.4 dev eth0"), "{}", machine.route(4));
        }
    }
    machine.node.sh("ip nexthop add id 77 via 172.16.0.99 dev eth0; ip nexthop del id 77");
    assert_eq!(heard(&mut monitor, &pods), BTreeSet::new(), "that is others' business");
}

#[test]
fn next_hops_of_others_and_what_others_need_stay() {
    let mut machine = Machine::new();
    let (first, second) = (number(1), number(2));
    let others = format!(
        "ip nexthop add id {first} via 172.16.9.9 dev eth0 proto static
         ip nexthop add id {second} blackhole
         ip nexthop add id 5 via 172.16.9.8 dev eth0
         ip route add 10.254.0.0/24 nhid 5 proto static"
    );
    machine.node.sh(&others);
    machine.converge(&machine.want(Mode::HostGw, MANY));
    assert_eq!((machine.routes(), machine.hops().len()), ((1200, 1200), 1200));
    assert!(!machine.hops().contains(&first) && !machine.hops().contains(&second));
    assert!(machine.route(1).contains("via 172.16.0.1 dev eth0"), "{}", machine.route(1));

    // Somebody relies on ours: in another table, in a group, beside ours, and later than ours.
    let [other_table, group, beside, later] = [3, 4, 5, 6].map(number);
    machine.node.sh(&format!(
        "ip route add 10.77.0.0/16 table 100 nhid {other_table}; ip nexthop add id 6 group {group}
         ip route add 10.250.0.0/16 nhid {beside} proto static
         ip route add 10.251.0.0/16 nhid {later} metric 9 proto static"
    ));
    machine.converge(&machine.want(Mode::HostGw, 2));
    let kept: BTreeSet<u32> = [other_table, group, beside, later].into();
    let left: BTreeSet<u32> = machine.hops().intersection(&kept).copied().collect();
    assert_eq!((left, machine.hops().len()), (kept, 6));
    let have = machine.observe(&machine.want(Mode::HostGw, 2));
    machine.apply(&clean(&have), &have);
    assert_eq!(machine.hops().len(), 4, "cleaning leaves them, too");
    let text = machine.node.sh("ip nexthop; ip route show table all");
    for it in [
        format!("id {first} via 172.16.9.9 dev eth0 scope link proto static"),
        format!("id {second} blackhole"),
        "id 5 via 172.16.9.8".into(),
        "10.254.0.0/24 nhid 5 ".into(),
        format!("10.77.0.0/16 nhid {other_table} "),
        format!("id 6 group {group}"),
        format!("10.250.0.0/16 nhid {beside} "),
        format!("10.251.0.0/16 nhid {later} "),
    ] {
        assert!(text.contains(&it), "{it} in {text}");
    }
    // Once nobody does, they go.
    machine.node.sh("ip route del 10.77.0.0/16 table 100; ip nexthop del id 6; ip route del 10.250.0.0/16
                     ip route del 10.251.0.0/16 metric 9");
    machine.converge(&machine.want(Mode::HostGw, 2));
    assert_eq!((machine.routes(), machine.hops().len()), ((2, 0), 0));
}

#[test]
fn a_next_hop_that_cannot_be_had_has_its_route_put_without() {
    let mut machine = Machine::new();
    let want = machine.want(Mode::HostGw, MANY);
    let have = machine.observe(&want);
    let planned = plan(&want, &have);
    // Meanwhile somebody takes numbers, which lead elsewhere.
    let taken = (1..=300).map(|node| format!("nexthop add id {} via 172.16.9.9 dev eth0\n", number(node)));
    machine.node.sh(&format!("ip -batch - <<< '{}'", taken.collect::<String>().trim_end()));
    machine.apply(&planned, &have);
    assert_eq!((machine.routes(), machine.hops().len()), ((1200, 900), 900));
    assert_eq!(machine.route(7), "10.0.7.0/24 via 172.16.0.7 dev eth0 proto 158");
    assert_eq!(machine.converge(&want), Plan::default());

    // What is seen and gone by the time that a route should lead through it.
    machine.node.sh(&format!("ip route del {}", subnet(1000)));
    let have = machine.observe(&want);
    machine.node.sh(&format!("ip nexthop del id {}", number(1000)));
    machine.apply(&plan(&want, &have), &have);
    assert_eq!(machine.route(1000), "10.3.232.0/24 via 172.16.3.232 dev eth0 proto 158");
    // The same of one whose route should go.
    let fewer = machine.want(Mode::HostGw, MANY - 1);
    let have = machine.observe(&fewer);
    machine.node.sh(&format!("ip nexthop del id {}", number(MANY)));
    machine.apply(&plan(&fewer, &have), &have);
    assert_eq!(machine.converge(&fewer), Plan::default());
}

#[test]
fn what_is_left_of_an_earlier_agent_is_used_or_goes() {
    let mut machine = Machine::new();
    machine.node.sh(
        "ip nexthop add id 9 via 172.16.0.1 dev eth0 proto 158; ip nexthop add id 10 via 172.16.99.1 dev eth0 proto 158
         ip nexthop add id 11 blackhole proto 158; ip route add 10.0.2.0/24 nhid 10 proto 158",
    );
    let planned = machine.converge(&machine.want(Mode::HostGw, 2));
    assert_eq!(planned.steps.last(), Some(&Step::DropHop(11)), "last: {planned:?}");
    assert_eq!(machine.hops(), [9].into());
    assert_eq!(machine.route(1), "10.0.1.0/24 nhid 9 via 172.16.0.1 dev eth0 proto 158");
    assert_eq!(machine.route(2), "10.0.2.0/24 via 172.16.0.2 dev eth0 proto 158");
}

#[test]
fn what_cannot_be_replaced_does_not_go_with_its_next_hop() {
    let mut machine = Machine::new();
    machine.node.sh(
        "ip nexthop add id 9 via 172.16.99.1 dev eth0 proto 158; ip route add 10.0.1.0/24 nhid 9 proto 158",
    );
    let mut want = machine.want(Mode::HostGw, 1);
    // There is no such link.
    want.routes.values_mut().for_each(|route| route.link = 99);
    let have = machine.observe(&want);
    let planned = plan(&want, &have);
    assert!(planned.steps.contains(&Step::DropHop(9)), "{planned:?}");
    let failures = machine.kernel.apply(V4, &planned, &have).expect("applied");
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(machine.route(1), "10.0.1.0/24 nhid 9 via 172.16.99.1 dev eth0 proto 158");
}

#[test]
fn over_a_vxlan_it_is_the_same_and_either_way_can_follow_the_other() {
    let mut machine = Machine::new();
    machine.converge(&machine.want(VXLAN, MANY));
    assert_eq!((machine.routes(), machine.hops().len()), ((1200, 1200), 1200));
    let route = machine.route(7);
    assert!(route.ends_with("via 10.0.7.0 dev flannel.1 proto 158 onlink"), "{route}");
    machine.node.sh("ip link del flannel.1");
    assert_eq!((machine.routes(), machine.hops().len()), ((0, 0), 0), "they go with it");
    machine.converge(&machine.want(VXLAN, MANY));
    // One that is made anew has them again.
    machine.converge(&machine.want(Mode::Vxlan { vni: 7, port: 8472, direct: false }, MANY));
    assert_eq!((machine.routes(), machine.hops().len()), ((1200, 1200), 1200));
    machine.converge(&machine.want(Mode::HostGw, MANY));
    assert_eq!((machine.routes(), machine.hops().len()), ((1200, 1200), 1200));
    assert_eq!(machine.node.sh("ip -br link show type vxlan"), "");
    machine.converge(&machine.want(VXLAN, MANY));
    assert!(machine.route(7).contains(" dev flannel.1 "), "{}", machine.route(7));
}

/// As docs/node.md has it, for whoever goes back to flannel.
const PLAIN: &str =
    "ip route show proto 158 | sed -n 's/ nhid [0-9]*//p' | sed 's/^/route replace /' | ip -batch -
     ip nexthop flush proto 158";

#[test]
fn routes_become_flannels_in_place_and_ours_again() {
    let mut machine = Machine::new();
    let want = machine.want(Mode::HostGw, MANY);
    machine.converge(&want);
    // What flannel does with a route that it finds wrong, and cannot do with one through a next hop.
    let deletes = format!("ip route del {} via 172.16.0.7 dev eth0", subnet(7));
    assert!(!machine.node.try_sh(&deletes).0, "the kernel knows it by the number alone");
    // Over the VXLAN it puts all of them in place of what is there.
    machine.node.sh(&format!("ip route replace {} via 172.16.0.8 dev eth0", subnet(8)));
    machine.node.sh(PLAIN);
    assert_eq!((machine.routes(), machine.hops().len()), ((0, 0), 0));
    let routes = machine.node.sh("ip route show proto boot");
    assert_eq!(routes.lines().count(), 1200, "none was lost");
    machine.node.sh(&deletes);
    assert_eq!(machine.converge(&want).steps.len(), 1200);
    assert_eq!(machine.routes(), (1200, 1200));
}
