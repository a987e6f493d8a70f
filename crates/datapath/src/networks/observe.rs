//! What the kernel holds.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use causeway_core::{Cidr, Family};
use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    BridgeStpState, InfoBridge, InfoData, InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};

use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};

use super::mark::{Group, tags};
use super::{Bridge, Links};
use crate::netlink::Netlink;

/// A list that changed while it was made is made again, so often.
const TRIES: u32 = 20;

pub(super) fn observe(kernel: &mut Netlink) -> io::Result<Links> {
    for _ in 1..TRIES {
        match try_to_observe(kernel) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            observed => return observed,
        }
    }
    try_to_observe(kernel)
}

fn try_to_observe(kernel: &mut Netlink) -> io::Result<Links> {
    let mut links = Links::default();
    let mut names = BTreeMap::new();
    let mut message = LinkMessage::default();
    // The kernel lists only those.
    message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]));
    kernel.dump(RouteNetlinkMessage::GetLink(message), |message| {
        if let RouteNetlinkMessage::NewLink(link) = message
            && let (Some(name), Some(bridge)) = (name(&link), bridge(&link))
        {
            names.insert(bridge.index, name.clone());
            links.bridges.insert(name, bridge);
        }
    })?;
    kernel.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
        if let RouteNetlinkMessage::NewAddress(message) = message
            && let Some(address) = address(&message)
        {
            let index = message.header.index;
            match names.get(&index).and_then(|name| links.bridges.get_mut(name)).filter(|_| lasts(&message)) {
                Some(bridge) => drop(bridge.addresses.insert(address)),
                None => links.elsewhere.push((index, address)),
            }
        }
    })?;
    Ok(links)
}

pub(super) fn name_of(kernel: &mut Netlink, index: u32) -> io::Result<Option<String>> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    Ok(match kernel.get(RouteNetlinkMessage::GetLink(message))? {
        Some(RouteNetlinkMessage::NewLink(link)) => name(&link),
        _ => None,
    })
}

pub(super) fn ports(kernel: &mut Netlink, index: u32) -> io::Result<Vec<String>> {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::Controller(index));
    let mut ports = Vec::new();
    kernel.dump(RouteNetlinkMessage::GetLink(message), |message| {
        // An older kernel lists all.
        if let RouteNetlinkMessage::NewLink(link) = message
            && link.attributes.contains(&LinkAttribute::Controller(index))
        {
            ports.extend(name(&link));
        }
    })?;
    Ok(ports)
}

/// Where packets for a range, or for a part of it, go by now, if not to this link: the first route but a default one, of
/// any table: that of the machine's own addresses too, whichever scope and life they have.
pub(super) fn route_elsewhere(kernel: &mut Netlink, range: Cidr, but: u32) -> io::Result<Option<Cidr>> {
    let mut message = RouteMessage::default();
    message.header.address_family = match range.family() {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    let mut found = None;
    kernel.dump(RouteNetlinkMessage::GetRoute(message), |message| {
        if let RouteNetlinkMessage::NewRoute(route) = message
            && let Some(to) = destination(&route).filter(|to| to.prefix() > 0 && to.overlaps(range))
            && !route.attributes.contains(&RouteAttribute::Oif(but))
        {
            found.get_or_insert(to);
        }
    })?;
    Ok(found)
}

fn destination(route: &RouteMessage) -> Option<Cidr> {
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::from(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::from(*address)),
        _ => None,
    })?;
    let net = IpNet::new(address, route.header.destination_prefix_length).ok()?;
    Some(Cidr::containing(net))
}

fn name(link: &LinkMessage) -> Option<String> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

fn bridge(link: &LinkMessage) -> Option<Bridge> {
    let mut bridge = Bridge {
        index: link.header.index,
        up: link.header.flags.contains(LinkFlags::Up),
        plain: true,
        ..Bridge::default()
    };
    let mut is_bridge = false;
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Group(number) => bridge.group = Group(*number),
            LinkAttribute::IfAlias(alias) => bridge.tags = tags(alias),
            LinkAttribute::LinkInfo(infos) => {
                is_bridge = infos.contains(&LinkInfo::Kind(InfoKind::Bridge));
                bridge.plain = !infos.iter().any(has_spanning_tree);
            }
            _ => {}
        }
    }
    is_bridge.then_some(bridge)
}

fn has_spanning_tree(info: &LinkInfo) -> bool {
    let LinkInfo::Data(InfoData::Bridge(infos)) = info else { return false };
    let is_on =
        |info: &InfoBridge| matches!(info, InfoBridge::StpState(state) if *state != BridgeStpState::Disabled);
    infos.iter().any(is_on)
}

/// Whether an address stays and can be reached from elsewhere.
fn lasts(message: &AddressMessage) -> bool {
    message.header.scope == AddressScope::Universe
        && message.header.flags.contains(AddressHeaderFlags::Permanent)
}

fn address(message: &AddressMessage) -> Option<IpNet> {
    // On a link between two the other one is the peer's.
    let find = |pick: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(pick);
    let local = find(|it| if let AddressAttribute::Local(it) = it { Some(*it) } else { None });
    let other = || find(|it| if let AddressAttribute::Address(it) = it { Some(*it) } else { None });
    IpNet::new(local.or_else(other)?, message.header.prefix_len).ok()
}
