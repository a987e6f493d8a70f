//! What the two gateways should hold.

use std::net::Ipv4Addr;

use causeway_core::names::ObjectKey;
use causeway_core::vpc::{EgressRange, Inbound, TunnelKind, TunnelWant, Want};

/// The VXLAN that most tests use.
pub(crate) const VXLAN: TunnelKind = TunnelKind::Vxlan { vni: 100, port: 4789 };

/// A gateway of side 0 or 1 with the tunnel `ns1/demo` to the other one.
pub(crate) fn demo(side: u8, kind: TunnelKind) -> Want {
    let far = 1 - side;
    let tunnel = TunnelWant {
        owner: ObjectKey::new("ns1", "demo").expect("a key"),
        kind,
        local: Ipv4Addr::new(172, 50, 16, 10 * side + 11),
        remote: Ipv4Addr::new(172, 50, 16, 10 * far + 11),
        address: format!("10.100.0.{}/24", side + 1).parse().expect("address"),
        remote_range: format!("242.{far}.0.0/16").parse().expect("range"),
        egress: EgressRange { first: Ipv4Addr::new(242, side, 0, 1), last: Ipv4Addr::new(242, side, 0, 8) },
        own: format!("242.{side}.0.0/16").parse().expect("range"),
        seat: Default::default(),
    };
    let inbound = Inbound {
        range: format!("242.{side}.0.0/16").parse().expect("range"),
        via: Ipv4Addr::new(10, 0, 1, 10),
    };
    Want {
        tunnels: [("demo".parse().expect("name"), tunnel)].into(),
        inbound: Some(inbound),
        ..Want::default()
    }
}

/// Adds a tunnel to a place that need not exist: `number` keeps it apart from others.
pub(crate) fn add(want: &mut Want, name: &str, number: u8, kind: TunnelKind) {
    let tunnel = TunnelWant {
        owner: ObjectKey::new("ns1", name).expect("a key"),
        kind,
        remote: Ipv4Addr::new(172, 50, 16, 100 + number),
        address: format!("10.101.{number}.1/24").parse().expect("address"),
        remote_range: format!("243.{number}.0.0/16").parse().expect("range"),
        ..want.tunnels.values().next().expect("a tunnel to start from").clone()
    };
    want.tunnels.insert(name.parse().expect("name"), tunnel);
}
