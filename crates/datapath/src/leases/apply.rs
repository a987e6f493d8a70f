//! How the kernel is changed: everything over a link in one go, once it is there.

use std::io;
use std::net::IpAddr;

use causeway_core::leases::{Have, Link, Mac, Plan, Route, Step};
use causeway_core::{Cidr, Family};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{BOOT, PROTOCOL, address_family, mark, priority};
use crate::netlink::{Netlink, Request, is_absent};

/// A step that failed.
#[derive(Debug)]
pub struct Failure {
    /// Which.
    pub step: Step,
    /// Why.
    pub error: io::Error,
}

pub(super) fn apply(
    kernel: &mut Netlink,
    family: Family,
    plan: &Plan,
    have: &Have,
) -> io::Result<Vec<Failure>> {
    let is_about_link =
        |step: &Step| matches!(step, Step::DropLink(_) | Step::AddLink(..) | Step::SetLink(..));
    let (first, rest): (Vec<&Step>, Vec<&Step>) = plan.steps.iter().partition(|step| is_about_link(step));
    let (last, mut rest): (Vec<&Step>, Vec<&Step>) =
        rest.into_iter().partition(|step| matches!(step, Step::DropStaleLink(_)));
    let mut failures = Vec::new();
    let mut index = have.link.as_ref().map_or(0, |link| link.index);
    let mac = have.link.as_ref().and_then(|link| Some(link.vxlan.as_ref()?.mac));
    for step in first {
        let mut changed = change_link(kernel, family, mac, step);
        // There cannot be two links of one VXLAN: one of ours by another name has to go first.
        if changed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
            && !last.is_empty()
        {
            for stale in &last {
                change_link(kernel, family, mac, stale)?;
            }
            changed = change_link(kernel, family, mac, step);
        }
        match changed {
            Ok(Some(new)) => index = new,
            Ok(None) => {}
            Err(error) => failures.push(Failure { step: step.clone(), error }),
        }
    }
    let is_linked = failures.is_empty();
    if !is_linked {
        // What leads over the link has to wait for it.
        rest.retain(|step| !needs_link(step));
    }
    let requests: Vec<Request> = rest.iter().map(|step| request(family, index, step)).collect();
    for (at, error) in kernel.batch(&requests)? {
        let step = rest[at].clone();
        // What should go may have gone by itself.
        let is_drop = matches!(
            step,
            Step::DropRoute(..) | Step::DropNeighbour(_) | Step::DropFdb(..) | Step::DropAddress(_)
        );
        if !(is_drop && is_absent(&error)) {
            failures.push(Failure { step, error });
        }
    }
    // While the new way is not there, the old one stays.
    for step in last.into_iter().filter(|_| is_linked) {
        if let Err(error) = change_link(kernel, family, mac, step) {
            failures.push(Failure { step: step.clone(), error });
        }
    }
    Ok(failures)
}

/// Whether a step is about something on or over the link.
fn needs_link(step: &Step) -> bool {
    match step {
        Step::AddRoute(_, route) | Step::PutRoute(_, route) => route.link == 0,
        Step::DropRoute(..) => true,
        Step::PutAddress(_) | Step::DropAddress(_) | Step::PutNeighbour(..) | Step::PutFdb(..) => true,
        Step::DropNeighbour(_) | Step::DropFdb(..) => true,
        Step::DropLink(_) | Step::AddLink(..) | Step::SetLink(..) | Step::DropStaleLink(_) => false,
    }
}

/// Changes the link itself, which has this address now; the index of a new one.
fn change_link(
    kernel: &mut Netlink,
    family: Family,
    mac: Option<Mac>,
    step: &Step,
) -> io::Result<Option<u32>> {
    let (message, flags) = match step {
        Step::DropLink(index) | Step::DropStaleLink(index) => {
            let mut message = LinkMessage::default();
            message.header.index = *index;
            (RouteNetlinkMessage::DelLink(message), 0)
        }
        Step::AddLink(name, link) => {
            let mut message = new_link(family, link);
            message.attributes.push(LinkAttribute::IfName(name.clone()));
            message.attributes.push(LinkAttribute::Address(link.vxlan.mac.0.to_vec()));
            message.attributes.push(LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Vxlan),
                LinkInfo::Data(InfoData::Vxlan(vxlan(link))),
            ]));
            (RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
        }
        Step::SetLink(index, link) => {
            let mut message = new_link(family, link);
            message.header.index = *index;
            // A link that is given its address, even the one it has, forgets its neighbours.
            if mac != Some(link.vxlan.mac) {
                message.attributes.push(LinkAttribute::Address(link.vxlan.mac.0.to_vec()));
            }
            (RouteNetlinkMessage::SetLink(message), 0)
        }
        _ => return Ok(None),
    };
    if let Some((_, error)) = kernel.batch(&[Request { message, flags }])?.into_iter().next() {
        let is_drop = matches!(step, Step::DropLink(_) | Step::DropStaleLink(_));
        return if is_drop && is_absent(&error) { Ok(None) } else { Err(error) };
    }
    let Step::AddLink(name, link) = step else { return Ok(None) };
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.clone()));
    let Some(RouteNetlinkMessage::NewLink(found)) = kernel.get(RouteNetlinkMessage::GetLink(message))? else {
        return Err(io::ErrorKind::NotFound.into());
    };
    // A link that is made takes no alias yet.
    let mac = Some(link.vxlan.mac);
    change_link(kernel, family, mac, &Step::SetLink(found.header.index, link.clone()))?;
    Ok(Some(found.header.index))
}

fn new_link(family: Family, link: &Link) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message.attributes.push(LinkAttribute::Mtu(link.vxlan.mtu));
    message.attributes.push(LinkAttribute::IfAlias(mark(family)));
    message
}

fn vxlan(link: &Link) -> Vec<InfoVxlan> {
    let local = match link.vxlan.local {
        IpAddr::V4(address) => InfoVxlan::Local(address),
        IpAddr::V6(address) => InfoVxlan::Local6(address),
    };
    vec![
        InfoVxlan::Id(link.vxlan.vni),
        InfoVxlan::Port(link.vxlan.port),
        InfoVxlan::Link(link.vxlan.over),
        InfoVxlan::Learning(link.vxlan.learning),
        local,
    ]
}

/// Everything else is one request.
fn request(family: Family, link: u32, step: &Step) -> Request {
    let put = NLM_F_CREATE | NLM_F_REPLACE;
    let (message, flags) = match step {
        Step::PutAddress(address) => {
            let message = an_address(family, link, address.address(), address.prefix());
            (RouteNetlinkMessage::NewAddress(message), put)
        }
        Step::DropAddress(address) => {
            let message = an_address(family, link, address.addr(), address.prefix_len());
            (RouteNetlinkMessage::DelAddress(message), 0)
        }
        Step::PutNeighbour(address, mac) => {
            let message = neighbour(address_family(family), link, Some(mac.0), *address);
            (RouteNetlinkMessage::NewNeighbour(message), put)
        }
        Step::DropNeighbour(address) => {
            let message = neighbour(address_family(family), link, None, *address);
            (RouteNetlinkMessage::DelNeighbour(message), 0)
        }
        Step::PutFdb(mac, address) => {
            let message = neighbour(AddressFamily::Bridge, link, Some(mac.0), *address);
            (RouteNetlinkMessage::NewNeighbour(message), put)
        }
        Step::DropFdb(mac, address) => {
            let message = neighbour(AddressFamily::Bridge, link, Some(mac.0), *address);
            (RouteNetlinkMessage::DelNeighbour(message), 0)
        }
        Step::AddRoute(range, route) | Step::PutRoute(range, route) => {
            let route = if route.link == 0 { Route { link, ..*route } } else { *route };
            let is_first = matches!(step, Step::AddRoute(..));
            let flags = if is_first { NLM_F_CREATE | NLM_F_EXCL } else { put };
            (RouteNetlinkMessage::NewRoute(a_route(family, *range, Some(route), PROTOCOL)), flags)
        }
        Step::DropRoute(range, held) => {
            let protocol = if held.owner == causeway_core::leases::Owner::Ours { PROTOCOL } else { BOOT };
            let mut message = a_route(family, *range, held.route, protocol);
            // Of whatever kind it is.
            (message.header.kind, message.header.scope) = (RouteType::Unspec, RouteScope::NoWhere);
            (RouteNetlinkMessage::DelRoute(message), 0)
        }
        Step::DropLink(_) | Step::AddLink(..) | Step::SetLink(..) | Step::DropStaleLink(_) => {
            unreachable!("links come first or last")
        }
    };
    Request { message, flags }
}

fn an_address(family: Family, link: u32, address: IpAddr, prefix: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = address_family(family);
    message.header.prefix_len = prefix;
    message.header.index = link;
    message.attributes.push(AddressAttribute::Address(address));
    message.attributes.push(AddressAttribute::Local(address));
    message
}

fn neighbour(family: AddressFamily, link: u32, mac: Option<[u8; 6]>, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    message.header.ifindex = link;
    message.header.state = NeighbourState::Permanent;
    if family == AddressFamily::Bridge {
        message.header.flags = NeighbourFlags::Own;
    }
    message.header.kind = RouteType::Unicast;
    let address = match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    };
    message.attributes.push(NeighbourAttribute::Destination(address));
    message.attributes.extend(mac.map(|mac| NeighbourAttribute::LinkLayerAddress(mac.to_vec())));
    message
}

fn a_route(family: Family, range: Cidr, route: Option<Route>, protocol: u8) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: address_family(family),
        destination_prefix_length: range.prefix(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::from(protocol),
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes.push(RouteAttribute::Destination(range.address().into()));
    if priority(family) != 0 {
        message.attributes.push(RouteAttribute::Priority(priority(family)));
    }
    if let Some(Route { via, link, onlink }) = route {
        message.attributes.push(RouteAttribute::Gateway(via.into()));
        message.attributes.push(RouteAttribute::Oif(link));
        if onlink {
            message.header.flags = RouteFlags::Onlink;
        }
    }
    message
}
