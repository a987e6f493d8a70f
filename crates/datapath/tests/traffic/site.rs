//! A node, a pod of its own, a pod of another node's, and somebody outside.
//!
//! ```text
//! pod 10.244.1.10 ── 10.244.1.1 [node] eth0 192.168.7.1 ── 192.168.7.9 outside
//!                               [node] eth1 192.168.8.1 ── 192.168.8.2 another node, with a pod's 10.244.2.10
//! ```

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use causeway_core::Family;
use causeway_core::leases::Traffic;
use causeway_datapath::leases::traffic::keep;

use crate::lab::{Local, Netns, require};

/// How long something may take that should happen, and something that should not.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const SHORT: Duration = Duration::from_millis(300);

pub(crate) const ALL: [&str; 4] = ["iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy"];

pub(crate) struct Site {
    pub(crate) pod: Netns,
    pub(crate) node: Netns,
    pub(crate) outside: Netns,
    pub(crate) other: Netns,
}

/// An address of the site, of either family.
pub(crate) fn at(family: Family, v4: [u8; 4]) -> IpAddr {
    let [a, b, c, d] = v4;
    match (family, a) {
        (Family::V4, _) => v4.into(),
        (Family::V6, 10) => format!("fd00:10:{b}:{c}::{d}").parse().expect("an address"),
        (Family::V6, _) => format!("fd00:{a}:{b}:{c}::{d}").parse().expect("an address"),
    }
}

pub(crate) const POD: [u8; 4] = [10, 244, 1, 10];
pub(crate) const FAR_POD: [u8; 4] = [10, 244, 2, 10];
pub(crate) const NODE: [u8; 4] = [192, 168, 7, 1];
pub(crate) const NODE_OTHER_SIDE: [u8; 4] = [192, 168, 8, 1];
pub(crate) const OUTSIDE: [u8; 4] = [192, 168, 7, 9];
pub(crate) const OTHER: [u8; 4] = [192, 168, 8, 2];

impl Site {
    pub(crate) fn new() -> Self {
        require(&[("nft", &["--version"])]);
        let site = Self { pod: Netns::new(), node: Netns::new(), outside: Netns::new(), other: Netns::new() };
        site.node.sh(&format!(
            "set -e
             echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
             ip link add pod type veth peer name eth0 netns {}
             ip link add eth0 type veth peer name eth0 netns {}
             ip link add eth1 type veth peer name eth0 netns {}
             for link in lo pod eth0 eth1; do ip link set $link up; done
             ip addr add 10.244.1.1/24 dev pod; ip addr add fd00:10:244:1::1/64 dev pod nodad
             ip addr add 192.168.7.1/24 dev eth0; ip addr add fd00:192:168:7::1/64 dev eth0 nodad
             ip addr add 192.168.8.1/24 dev eth1; ip addr add fd00:192:168:8::1/64 dev eth1 nodad",
            site.pod.pid(),
            site.outside.pid(),
            site.other.pid()
        ));
        let ends = [
            (&site.pod, "10.244.1.10/24", "10.244.1.1", "fd00:10:244:1::10/64", "fd00:10:244:1::1"),
            (&site.outside, "192.168.7.9/24", "192.168.7.1", "fd00:192:168:7::9/64", "fd00:192:168:7::1"),
            (&site.other, "192.168.8.2/24", "192.168.8.1", "fd00:192:168:8::2/64", "fd00:192:168:8::1"),
        ];
        for (netns, v4, via, v6, via6) in ends {
            netns.sh(&format!(
                "set -e; ip link set lo up; ip link set eth0 up
                 ip addr add {v4} dev eth0; ip route add default via {via}
                 ip addr add {v6} dev eth0 nodad; ip route add default via {via6}"
            ));
        }
        site.other.sh("ip addr add 10.244.2.10/32 dev lo; ip addr add fd00:10:244:2::10/128 dev lo nodad");
        site.node.sh("ip route add 10.244.2.0/24 via 192.168.8.2
                      ip route add fd00:10:244:2::/64 via fd00:192:168:8::2");
        site
    }

    pub(crate) fn run(&self) -> Local {
        self.node.runner()
    }

    /// Keeps, which must work, and once more, which must find nothing to do.
    pub(crate) async fn keep(&self, want: &Traffic) -> Vec<String> {
        let changed = keep(&self.run(), want).await.expect("kept");
        assert_eq!(keep(&self.run(), want).await, Ok(vec![]), "after {changed:?}");
        changed
    }

    /// As whom the server saw the client, whose answer has to come back too.
    pub(crate) fn seen(
        &self,
        from: &Netns,
        server: &Netns,
        to: IpAddr,
        patience: Duration,
    ) -> Option<IpAddr> {
        let server = socket(server, SocketAddr::new(to, 7000));
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let client = socket(from, SocketAddr::new(any, 0));
        let deadline = Instant::now() + patience;
        // The first ones may wait for a neighbour's address.
        while Instant::now() < deadline {
            client.send_to(b"hello", SocketAddr::new(to, 7000)).ok()?;
            let mut buffer = [0; 64];
            let Ok((_, source)) = server.recv_from(&mut buffer) else { continue };
            server.send_to(b"welcome", source).ok()?;
            if client.recv_from(&mut buffer).is_ok() {
                return Some(source.ip());
            }
        }
        None
    }

    /// As whom the outside and another node's pod see the pod, and that pod the outside and this node.
    pub(crate) fn views(&self, family: Family) -> [Option<IpAddr>; 5] {
        let at = |v4| at(family, v4);
        [
            self.seen(&self.pod, &self.outside, at(OUTSIDE), LONG),
            self.seen(&self.pod, &self.other, at(FAR_POD), LONG),
            self.seen(&self.other, &self.pod, at(POD), LONG),
            self.seen(&self.outside, &self.pod, at(POD), LONG),
            self.seen(&self.outside, &self.other, at(FAR_POD), LONG),
        ]
    }

    /// Everything that is there, without counters and dates.
    pub(crate) fn listing(&self) -> String {
        self.node.sh(
            r"nft list tables | sort | grep -Ev ' (filter|nat|mangle)$' | while read -r table; do nft list $table; done
              cat /proc/net/ip_tables_names /proc/net/ip6_tables_names
              for tool in iptables-nft ip6tables-nft iptables-legacy ip6tables-legacy; do
                  $tool-save 2>/dev/null | sed '/^:/s/ \[.*//; /^#/d'
              done",
        )
    }
}

pub(crate) fn socket(netns: &Netns, address: SocketAddr) -> UdpSocket {
    let socket = netns.inside(move || bound(address)).join().expect("made");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("time-out");
    socket
}

/// A child that another test starts at this moment has the last socket of the same address open until it becomes its program.
fn bound(address: SocketAddr) -> UdpSocket {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match UdpSocket::bind(address) {
            Ok(socket) => return socket,
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{address}: {error}"),
        }
    }
}

pub(crate) fn want() -> Traffic {
    let range = |text: &str| text.parse().expect("a range");
    Traffic {
        ranges: vec![
            (range("10.244.0.0/16"), range("10.244.1.0/24")),
            (range("fd00:10:244::/48"), range("fd00:10:244:1::/64")),
        ],
        masquerade: true,
        forward: true,
    }
}
