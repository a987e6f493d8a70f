//! Two gateways and a workload behind each, in network namespaces that vanish with the test.
//!
//! ```text
//! w1 10.0.1.10 ── eth0 10.0.1.254 [gw1] net1 172.50.16.11 ── net1 172.50.16.21 [gw2] eth0 ── w2 10.0.1.10
//! 242.0.1.20 on lo                                                                      242.1.1.20 on lo
//! ```
//!
//! Both VPCs use the same addresses on purpose. The gateways have a gateway's own NAT chains, with a
//! floating IP for the workload that would catch its packets if our rule did not stand in front.

#![allow(dead_code)] // each test binary uses its own part

pub(crate) mod monitor;
pub(crate) mod net;
pub(crate) mod want;

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use causeway_core::vpc::{Have, Plan, Variant, Want, plan};
use causeway_datapath::vpc::{Applied, Commands, Datapath, Listing};
pub(crate) use net::{Local, Netns};

/// The whole topology.
pub(crate) struct Lab {
    pub(crate) gateways: [Netns; 2],
    pub(crate) workloads: [Netns; 2],
}

/// Fails where this machine cannot run these tests, and says what it lacks. A test may need more tools, each with
/// arguments that do no harm.
pub(crate) fn require(tools: &[(&str, &[&str])]) {
    if let Some(why) = net::prerequisites(tools) {
        panic!("{why}");
    }
}

impl Lab {
    /// Builds it, with the gateways' own chains in one iptables variant.
    pub(crate) fn new(variant: Variant) -> Self {
        let lab = Self { gateways: [Netns::new(), Netns::new()], workloads: [Netns::new(), Netns::new()] };
        for side in 0..2 {
            let (gateway, workload) = (&lab.gateways[side], &lab.workloads[side]);
            gateway.sh(&format!("ip link add eth0 type veth peer name eth0 netns {}", workload.pid()));
            let own = 10 * side + 11;
            if side == 0 {
                gateway.sh(&format!(
                    "ip link add net1 type veth peer name net1 netns {}",
                    lab.gateways[1].pid()
                ));
            }
            gateway.sh(&format!(
                "ip link set lo up; ip addr add 10.0.1.254/24 dev eth0; ip addr add 172.50.16.{own}/24 dev net1
                 ip link set eth0 up; ip link set net1 up"
            ));
            workload.sh(&format!(
                "ip link set lo up; ip addr add 10.0.1.10/24 dev eth0; ip link set eth0 up
                 ip route add default via 10.0.1.254; ip addr add 242.{side}.1.20/32 dev lo"
            ));
            gateway.sh(&chains(variant, own));
        }
        lab
    }

    /// A gateway's datapath.
    pub(crate) fn datapath(&self, side: usize) -> Commands<Local> {
        Commands::new(self.gateways[side].runner())
    }

    /// Observes, plans and applies once; nothing may fail.
    pub(crate) async fn converge(&self, side: usize, want: &Want) -> (Plan, Have) {
        let datapath = self.datapath(side);
        let plan = plan(want, &observed(&datapath).await);
        let Applied { listing: Listing { have, .. }, failures } =
            datapath.apply(&plan, None).await.expect("applied");
        assert!(failures.is_empty(), "{failures:?} in {plan:?}");
        assert_eq!(causeway_core::vpc::plan(want, &have).steps, [], "a second plan is empty");
        (plan, have)
    }

    /// A client's socket near the gateway of `side`, and a server's at the far workload's global address.
    pub(crate) fn sockets(&self, side: usize) -> (UdpSocket, UdpSocket) {
        let far = 1 - side;
        let server = format!("242.{far}.1.20:7000").parse().expect("address");
        let client = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        (net::socket(&self.workloads[side], client), net::socket(&self.workloads[far], server))
    }

    /// What the far workload sees as source when the near one of `side` sends to its global address.
    pub(crate) fn source_seen(&self, side: usize) -> Option<Ipv4Addr> {
        let (client, server) = self.sockets(side);
        net::ask(&client, &server)
    }

    /// Fails unless packets cross both ways with a source of the egress range.
    pub(crate) fn assert_crosses(&self) {
        for side in 0..2_u8 {
            let seen =
                self.source_seen(side.into()).unwrap_or_else(|| panic!("nothing crossed from side {side}"));
            let [a, b, c, d] = seen.octets();
            assert!(
                [a, b, c] == [242, side, 0] && (1..=8).contains(&d),
                "from side {side} the source is {seen}"
            );
        }
    }
}

/// What a gateway holds.
pub(crate) async fn observed(datapath: &impl Datapath) -> Have {
    datapath.observe(None).await.expect("observed").listing().expect("a listing").have
}

/// The two iptables variants.
pub(crate) const BOTH: [Variant; 2] = [Variant::Legacy, Variant::Nft];

/// Both gateways with the demo tunnel.
pub(crate) async fn joined(variant: Variant) -> Lab {
    let lab = Lab::new(variant);
    for side in 0..2_u8 {
        lab.converge(side.into(), &want::demo(side, want::VXLAN)).await;
    }
    lab
}

/// The command of a variant.
pub(crate) fn iptables(variant: Variant) -> &'static str {
    match variant {
        Variant::Legacy => "iptables-legacy",
        Variant::Nft => "iptables-nft",
    }
}

/// What the gateway's own scripts make of NAT.
fn chains(variant: Variant, own: usize) -> String {
    let ipt = iptables(variant);
    let floating = own + 90;
    format!(
        "set -e; for c in DNAT_FILTER SNAT_FILTER EXCLUSIVE_DNAT EXCLUSIVE_SNAT SHARED_DNAT SHARED_SNAT; do
            {ipt} -t nat -N $c
         done
         {ipt} -t nat -A PREROUTING -j DNAT_FILTER
         {ipt} -t nat -A DNAT_FILTER -j EXCLUSIVE_DNAT; {ipt} -t nat -A DNAT_FILTER -j SHARED_DNAT
         {ipt} -t nat -A POSTROUTING -j SNAT_FILTER
         {ipt} -t nat -A SNAT_FILTER -j EXCLUSIVE_SNAT; {ipt} -t nat -A SNAT_FILTER -j SHARED_SNAT
         {ipt} -t nat -A EXCLUSIVE_SNAT -s 10.0.1.10 -j SNAT --to-source 172.50.16.{floating}
         {ipt} -t nat -A EXCLUSIVE_DNAT -d 172.50.16.{floating} -j DNAT --to-destination 10.0.1.10
         {ipt} -t nat -A SHARED_SNAT -o net1 -s 10.0.1.0/24 -j SNAT --to-source 172.50.16.{own}"
    )
}
