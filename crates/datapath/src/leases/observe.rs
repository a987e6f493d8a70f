//! What the kernel holds.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use causeway_core::leases::kernel::{Held, HeldLink};
use causeway_core::leases::{Have, Mac, Owner, Route, Vxlan};
use causeway_core::{Cidr, Family};
use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{BOOT, PROTOCOL, address_family, mark, priority};
use crate::netlink::Netlink;

pub(super) fn observe(kernel: &mut Netlink, family: Family, name: Option<&str>) -> io::Result<Have> {
    let link = name.map(|name| find_link(kernel, name)).transpose()?.flatten();
    let mut have = Have::default();
    if let Some(link) = link {
        have.link = Some(look_at(kernel, family, &link)?);
    }
    let marked = marked(kernel, family)?.into_iter();
    have.stale = marked.filter(|(_, known)| Some(known.as_str()) != name).map(|(index, _)| index).collect();
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(family);
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.attributes.push(RouteAttribute::Table(RouteHeader::RT_TABLE_MAIN.into()));
    kernel.dump(RouteNetlinkMessage::GetRoute(message), |message| {
        if let RouteNetlinkMessage::NewRoute(route) = message
            && let Some((range, held)) = held(family, &route)
        {
            have.routes.entry(range).or_default().push(held);
        }
    })?;
    Ok(have)
}

/// The link of a name.
fn find_link(kernel: &mut Netlink, name: &str) -> io::Result<Option<LinkMessage>> {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.into()));
    Ok(match kernel.get(RouteNetlinkMessage::GetLink(message))? {
        Some(RouteNetlinkMessage::NewLink(link)) => Some(link),
        _ => None,
    })
}

/// The links with our mark for a family, by index and name.
pub(super) fn marked(kernel: &mut Netlink, family: Family) -> io::Result<Vec<(u32, String)>> {
    let mut message = LinkMessage::default();
    // The kernel lists only those.
    message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan)]));
    let mut found = Vec::new();
    kernel.dump(RouteNetlinkMessage::GetLink(message), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message
            && is_marked(&link, family)
        {
            let name = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            });
            found.push((link.header.index, name.unwrap_or_default()));
        }
    })?;
    Ok(found)
}

fn is_marked(link: &LinkMessage, family: Family) -> bool {
    let mark = mark(family);
    link.attributes
        .iter()
        .any(|attribute| matches!(attribute, LinkAttribute::IfAlias(alias) if *alias == mark))
}

fn look_at(kernel: &mut Netlink, family: Family, link: &LinkMessage) -> io::Result<HeldLink> {
    let index = link.header.index;
    let mut held = HeldLink {
        index,
        vxlan: vxlan(link),
        addresses: Vec::new(),
        up: link.header.flags.contains(LinkFlags::Up),
        is_marked: is_marked(link, family),
        neighbours: BTreeMap::new(),
        fdb: BTreeMap::new(),
    };
    let mut message = AddressMessage::default();
    (message.header.family, message.header.index) = (address_family(family), index);
    kernel.dump(RouteNetlinkMessage::GetAddress(message), |message| {
        if let RouteNetlinkMessage::NewAddress(message) = message
            && message.header.index == index
        {
            let address = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            });
            let net = address.and_then(|address| IpNet::new(address, message.header.prefix_len).ok());
            held.addresses.extend(net);
        }
    })?;
    ends(kernel, address_family(family), index, |mac, address| {
        held.neighbours.insert(address, mac);
    })?;
    ends(kernel, AddressFamily::Bridge, index, |mac, address| {
        if Family::of(address) == family {
            held.fdb.insert(mac, address);
        }
    })?;
    Ok(held)
}

/// What was said of the far ends of a link, for good.
fn ends(
    kernel: &mut Netlink,
    family: AddressFamily,
    link: u32,
    mut take: impl FnMut(Mac, IpAddr),
) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    // The kernel filters by one or the other.
    match family {
        AddressFamily::Bridge => message.header.ifindex = link,
        _ => message.attributes.push(NeighbourAttribute::IfIndex(link)),
    }
    kernel.dump(RouteNetlinkMessage::GetNeighbour(message), |message| {
        let RouteNetlinkMessage::NewNeighbour(message) = message else { return };
        if message.header.ifindex != link || message.header.state != NeighbourState::Permanent {
            return;
        }
        let (mut mac, mut address) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::LinkLayerAddress(bytes) => {
                    mac = <[u8; 6]>::try_from(&bytes[..]).ok().map(Mac);
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet(it)) => {
                    address = Some(IpAddr::V4(*it));
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(it)) => {
                    address = Some(IpAddr::V6(*it));
                }
                // Of the family of bridges the address is of any.
                NeighbourAttribute::Destination(NeighbourAddress::Other(bytes)) => {
                    address = any_address(bytes);
                }
                _ => {}
            }
        }
        if let (Some(mac), Some(address)) = (mac, address) {
            take(mac, address);
        }
    })
}

fn any_address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn vxlan(link: &LinkMessage) -> Option<Vxlan> {
    let mut found: Option<&Vec<InfoVxlan>> = None;
    let (mut mac, mut mtu) = (None, None);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Address(bytes) => mac = <[u8; 6]>::try_from(&bytes[..]).ok().map(Mac),
            LinkAttribute::Mtu(value) => mtu = Some(*value),
            LinkAttribute::LinkInfo(infos) => {
                found = infos.iter().find_map(|info| match info {
                    LinkInfo::Data(InfoData::Vxlan(vxlan)) => Some(vxlan),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    let (mut vni, mut port, mut over, mut local, mut learning) = (None, None, 0, None, false);
    for info in found? {
        match info {
            InfoVxlan::Id(it) => vni = Some(*it),
            InfoVxlan::Port(it) => port = Some(*it),
            InfoVxlan::Link(it) => over = *it,
            InfoVxlan::Local(it) => local = Some(IpAddr::V4(*it)),
            InfoVxlan::Local6(it) => local = Some(IpAddr::V6(*it)),
            InfoVxlan::Learning(it) => learning = *it,
            _ => {}
        }
    }
    Some(Vxlan { vni: vni?, port: port?, over, local: local?, mac: mac?, mtu: mtu?, learning })
}

/// A route of the main table with the priority of ours, or a better one.
fn held(family: Family, message: &RouteMessage) -> Option<(Cidr, Held)> {
    let (mut destination, mut via, mut link, mut table) = (None, None, None, message.header.table.into());
    let (mut number, mut plain) = (0, message.header.kind == RouteType::Unicast);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address),
            RouteAttribute::Gateway(address) => via = ip(address),
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Priority(it) => number = *it,
            RouteAttribute::Table(it) => table = *it,
            // Ours have none of these.
            RouteAttribute::MultiPath(_)
            | RouteAttribute::Encap(_)
            | RouteAttribute::NhId(_)
            | RouteAttribute::Metrics(_)
            | RouteAttribute::PrefSource(_) => {
                plain = false;
            }
            _ => {}
        }
    }
    // Packets of a kind of service are others' business, and so are routes that come after ours.
    let is_others = message.header.tos != 0 || number > priority(family);
    if table != u32::from(RouteHeader::RT_TABLE_MAIN) || is_others {
        return None;
    }
    let everything = || match family {
        Family::V4 => IpAddr::from([0; 4]),
        Family::V6 => IpAddr::from([0; 16]),
    };
    let net = IpNet::new(destination.unwrap_or_else(everything), message.header.destination_prefix_length);
    let owner = match u8::from(message.header.protocol) {
        // It is taken in place of ours, which have another priority.
        _ if number < priority(family) => Owner::Others,
        PROTOCOL => Owner::Ours,
        BOOT => Owner::Flannels,
        _ => Owner::Others,
    };
    let onlink = message.header.flags.contains(RouteFlags::Onlink);
    let route = via.zip(link).filter(|_| plain).map(|(via, link)| Route { via, link, onlink });
    Some((Cidr::containing(net.ok()?), Held { owner, route }))
}

pub(super) fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(it) => Some((*it).into()),
        RouteAddress::Inet6(it) => Some((*it).into()),
        _ => None,
    }
}
