//! A node's links, and where its packets go.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use causeway_core::Family;
use causeway_core::leases::interface::{LinkSeen, Way};
use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::address_family;
use super::observe::ip;
use crate::netlink::Netlink;

/// All links, with their addresses of both families.
pub(super) fn links(kernel: &mut Netlink) -> io::Result<Vec<LinkSeen>> {
    let mut links = BTreeMap::new();
    kernel.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message {
            links.insert(link.header.index, seen(&link));
        }
    })?;
    kernel.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
        if let RouteNetlinkMessage::NewAddress(message) = message
            && is_lasting(&message)
            && let Some(link) = links.get_mut(&message.header.index)
        {
            // On a link between two the first is the other's.
            let find =
                |pick: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(pick);
            let address = find(|it| if let AddressAttribute::Local(it) = it { Some(*it) } else { None })
                .or_else(|| find(|it| if let AddressAttribute::Address(it) = it { Some(*it) } else { None }));
            let net = address.and_then(|address| IpNet::new(address, message.header.prefix_len).ok());
            link.addresses.extend(net);
        }
    })?;
    Ok(links.into_values().collect())
}

/// Whether a node can be known by an address: some go by themselves, some are not sure to be its own yet.
fn is_lasting(message: &AddressMessage) -> bool {
    let passing = AddressHeaderFlags::Secondary
        | AddressHeaderFlags::Dadfailed
        | AddressHeaderFlags::Deprecated
        | AddressHeaderFlags::Tentative;
    // Of IPv4 the first of these only says that it was not the first of its network.
    let passing =
        if message.header.family == AddressFamily::Inet { AddressHeaderFlags::empty() } else { passing };
    !message.header.flags.intersects(passing)
}

fn seen(link: &LinkMessage) -> LinkSeen {
    let (mut name, mut mtu) = (String::new(), 0);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(it) => name.clone_from(it),
            LinkAttribute::Mtu(it) => mtu = *it,
            _ => {}
        }
    }
    let up = link.header.flags.contains(LinkFlags::Up);
    LinkSeen { index: link.header.index, name, mtu, up, addresses: Vec::new() }
}

/// Where packets go that no other route is for.
pub(super) fn default_way(kernel: &mut Netlink, family: Family) -> io::Result<Way> {
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(family);
    message.attributes.push(RouteAttribute::Table(RouteHeader::RT_TABLE_MAIN.into()));
    let mut best: Option<(u32, (u32, Option<IpAddr>))> = None;
    kernel.dump(RouteNetlinkMessage::GetRoute(message), |message| {
        let RouteNetlinkMessage::NewRoute(route) = message else { return };
        let is_default =
            route.header.destination_prefix_length == 0 && route.header.kind == RouteType::Unicast;
        if !is_default || route.header.table != RouteHeader::RT_TABLE_MAIN {
            return;
        }
        if let (number, Some(way)) = way_of(&route)
            && best.is_none_or(|(known, _)| number < known)
        {
            best = Some((number, way));
        }
    })?;
    Ok(best.map(|(_, way)| way))
}

/// Where packets to an address go.
pub(super) fn way_to(kernel: &mut Netlink, address: IpAddr) -> io::Result<Way> {
    let mut message = RouteMessage::default();
    let family = Family::of(address);
    message.header.address_family = address_family(family);
    message.header.destination_prefix_length = family.longest();
    message.attributes.push(RouteAttribute::Destination(address.into()));
    match kernel.get(RouteNetlinkMessage::GetRoute(message)) {
        Ok(Some(RouteNetlinkMessage::NewRoute(route))) => {
            Ok(way_of(&route).1.filter(|_| route.header.kind == RouteType::Unicast))
        }
        Ok(_) => Ok(None),
        // ENETUNREACH and EHOSTUNREACH.
        Err(error) if matches!(error.raw_os_error(), Some(101 | 113)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A route's priority, its link and the address that packets come from.
fn way_of(route: &RouteMessage) -> (u32, Option<(u32, Option<IpAddr>)>) {
    let (mut number, mut link, mut source) = (0, None, None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Priority(it) => number = *it,
            RouteAttribute::Oif(it) => link = Some(*it),
            RouteAttribute::PrefSource(it) => source = ip(it),
            // Of several ways the first.
            RouteAttribute::MultiPath(ways) => {
                link = link.or_else(|| ways.first().map(|way| way.interface_index));
            }
            _ => {}
        }
    }
    (number, link.map(|link| (link, source)))
}
