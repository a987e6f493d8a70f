//! What the kernel should hold for the nodes that are reached: one small function for each way.

use std::collections::BTreeMap;

use super::network::overhead;
use super::{Admitted, Backend, Lease, Link, Mode, Network, Place, Route, Vxlan, Want};
use crate::{Cidr, Family};

/// What the kernel should hold for one family.
pub fn compile(network: &Network, place: &Place, admitted: &Admitted<'_>) -> Want {
    let mut want = Want {
        range: network.range,
        over: place.link,
        link: None,
        routes: BTreeMap::new(),
        neighbours: BTreeMap::new(),
        fdb: BTreeMap::new(),
    };
    if let Mode::Vxlan { vni, port, .. } = network.mode {
        want.link = Some((link_name(place.subnet.family(), vni), link(place, vni, port)));
    }
    for lease in admitted.leases.values() {
        match (network.mode, &lease.backend) {
            (Mode::Vxlan { direct, .. }, Backend::Vxlan { mac, .. })
                if !(direct && is_near(place, lease)) =>
            {
                // The far end goes by the first address of its lease.
                let end = lease.subnet.address();
                want.routes.insert(lease.subnet, Route { via: end, link: 0, onlink: true });
                want.neighbours.insert(end, *mac);
                want.fdb.insert(*mac, lease.public);
            }
            _ => {
                let route = Route { via: lease.public, link: place.link, onlink: false };
                want.routes.insert(lease.subnet, route);
            }
        }
    }
    want
}

/// The name of the link through which others are reached: as flannel calls it, so that either finds the other's.
pub fn link_name(family: Family, vni: u32) -> String {
    match family {
        Family::V4 => format!("flannel.{vni}"),
        Family::V6 => format!("flannel-v6.{vni}"),
    }
}

fn link(place: &Place, vni: u32, port: u16) -> Link {
    let mtu = place.mtu.saturating_sub(overhead(place.subnet.family()));
    let (over, local, mac) = (place.link, place.local, place.mac);
    let vxlan = Vxlan { vni, port, over, local, mac, mtu, learning: false };
    Link { vxlan, address: Cidr::alone(place.subnet.address()) }
}

/// Whether a node is on the same link.
fn is_near(place: &Place, lease: &Lease) -> bool {
    place.neighbours.iter().any(|range| range.contains(lease.public))
}
