//! Real packets through tunnels that the command datapath made.

mod lab;

use std::net::SocketAddrV4;

use causeway_core::names::ObjectKey;
use causeway_core::vpc::{TunnelKind, Variant, Want, plan};
use causeway_datapath::vpc::{Datapath, StepError};
use lab::net::{ask, transfer};
use lab::want::{VXLAN, add, demo};
use lab::{BOTH, Lab, joined, observed, require};

#[tokio::test]
async fn packets_cross_with_a_source_of_the_egress_range() {
    require(&[]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        assert_eq!(lab.source_seen(0), None, "nothing crosses before");
        drop(lab);
        let lab = joined(variant).await;
        lab.assert_crosses();
    }
}

#[tokio::test]
async fn a_flow_that_was_there_before_the_tunnel_gets_the_right_source_too() {
    require(&[("conntrack", &["--version"])]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        // A gateway sends what it knows no way for to the outside, with a floating IP as source.
        lab.gateways[0].sh("ip route add default via 172.50.16.99; echo 1 > /proc/sys/net/ipv4/ip_forward");
        let (client, server) = lab.sockets(0);
        assert_eq!(ask(&client, &server), None, "there is no tunnel yet");
        for side in 0..2 {
            lab.converge(side, &demo(side as u8, VXLAN)).await;
        }
        let seen = ask(&client, &server).expect("the flow goes on");
        assert_eq!(seen.octets()[..3], [242, 0, 0]);
    }
}

#[tokio::test]
async fn tcp_crosses_also_where_somebody_filters_the_word_that_packets_are_too_large() {
    require(&[]);
    for variant in BOTH {
        let lab = joined(variant).await;
        for workload in &lab.workloads {
            workload.sh("iptables-nft -A INPUT -p icmp -j DROP");
        }
        let transfer = || {
            let server = SocketAddrV4::new([242, 1, 1, 20].into(), 7001);
            transfer(&lab.workloads[0], &lab.workloads[1], server, 200_000)
        };
        assert_eq!(transfer(), 200_000);
        let ipt = lab::iptables(variant);
        for gateway in &lab.gateways {
            gateway.sh(&format!("{ipt} -t mangle -F FORWARD"));
        }
        assert!(transfer() < 200_000, "without our rules it stalls, so the test tests something");
    }
}

#[tokio::test]
async fn tearing_down_leaves_the_gateway_as_it_was() {
    require(&[]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        let before = lab.gateways[0].listing();
        lab.converge(0, &demo(0, VXLAN)).await;
        assert_ne!(lab.gateways[0].listing(), before);
        let (_, have) = lab.converge(0, &Want::default()).await;
        assert!(!have.holding().anything);
        assert_eq!(lab.gateways[0].listing(), before);
    }
}

#[tokio::test]
async fn gre_crosses_or_the_kernel_is_named_as_the_reason_and_the_vxlan_beside_it_works() {
    require(&[]);
    let lab = Lab::new(Variant::Nft);
    if lab.gateways[0].try_sh("ip link add probe type gre local 1.1.1.1 && ip link del probe").0 {
        for side in 0..2 {
            lab.converge(side, &demo(side as u8, TunnelKind::Gre)).await;
        }
        return lab.assert_crosses();
    }
    lab.converge(1, &demo(1, VXLAN)).await;
    let mut want = demo(0, VXLAN);
    add(&mut want, "far", 1, TunnelKind::Gre);
    let datapath = lab.datapath(0);
    let plan = plan(&want, &observed(&datapath).await);
    let applied = datapath.apply(&plan, None).await.expect("applied");
    assert!(!applied.failures.is_empty());
    for (index, error) in &applied.failures {
        assert_eq!(plan.steps[*index].owner, Some(ObjectKey::new("ns1", "far").expect("a key")));
        assert_eq!(*error, StepError::KernelLacksTunnelType("gre"), "{:?}", plan.steps[*index]);
    }
    lab.assert_crosses();
}

#[tokio::test]
async fn sixty_tunnels_come_and_go_in_one_round_trip_each() {
    require(&[]);
    let lab = joined(Variant::Legacy).await;
    let mut want = demo(0, VXLAN);
    for number in 0..60 {
        add(
            &mut want,
            &format!("t{number}"),
            number,
            TunnelKind::Vxlan { vni: 200 + u32::from(number), port: 4789 },
        );
    }
    let (plan, have) = lab.converge(0, &want).await;
    assert!(
        plan.steps.iter().all(|step| step.owner != Some(ObjectKey::new("ns1", "demo").expect("a key"))),
        "{plan:?}"
    );
    assert_eq!(have.links.values().filter(|link| link.is_ours()).count(), 61);
    lab.assert_crosses();
    lab.converge(0, &demo(0, VXLAN)).await;
    lab.assert_crosses();
}
