//! How the kernel is changed.

use std::io;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    BridgeStpState, InfoBridge, InfoData, InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::mark::{Group, mac};
use crate::netlink::{Netlink, Request, is_absent};

pub(super) fn create(kernel: &mut Netlink, name: &str, group: Group) -> io::Result<()> {
    let mut message = in_order(0);
    message.attributes.push(LinkAttribute::IfName(name.into()));
    message.attributes.push(LinkAttribute::Address(mac(name).to_vec()));
    message.attributes.push(LinkAttribute::Group(group.0));
    make(kernel, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
}

pub(super) fn mark(kernel: &mut Netlink, index: u32, group: Group, alias: Option<&str>) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(LinkAttribute::Group(group.0));
    message.attributes.extend(alias.map(|alias| LinkAttribute::IfAlias(alias.into())));
    make(kernel, RouteNetlinkMessage::SetLink(message), 0)
}

pub(super) fn put_in_order(kernel: &mut Netlink, index: u32) -> io::Result<()> {
    // The kernel sets the delay before the protocol, and with the protocol on refuses to have none: so that goes first.
    let first = a_bridge(index, vec![InfoBridge::StpState(BridgeStpState::Disabled)]);
    make(kernel, RouteNetlinkMessage::NewLink(first), 0)?;
    make(kernel, RouteNetlinkMessage::NewLink(in_order(index)), 0)
}

pub(super) fn delete(kernel: &mut Netlink, index: u32) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    make(kernel, RouteNetlinkMessage::DelLink(message), 0)
}

/// In one go: put, drop, and put once more. Where the kernel does not promote the new address when the old one goes, the
/// new one goes along, and is back before anybody notices.
pub(super) fn move_address(
    kernel: &mut Netlink,
    index: u32,
    put: Option<IpNet>,
    drop: &[IpNet],
) -> io::Result<()> {
    let to_put = put.map(|address| Request {
        message: RouteNetlinkMessage::NewAddress(an_address(index, address)),
        flags: NLM_F_CREATE | NLM_F_REPLACE,
    });
    let to_drop = drop.iter().filter(|address| Some(**address) != put).map(|address| Request {
        message: RouteNetlinkMessage::DelAddress(an_address(index, *address)),
        flags: 0,
    });
    let first = to_put.is_some();
    let mut requests: Vec<Request> = to_put.clone().into_iter().chain(to_drop).collect();
    let drops = if first { 1..requests.len() } else { 0..requests.len() };
    requests.extend(to_put.filter(|_| !drops.is_empty()));
    let failed = kernel.batch(&requests)?;
    // What should go may have gone by itself.
    let failed = failed.into_iter().find(|(at, error)| !(drops.contains(at) && is_absent(error)));
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

/// A bridge that is up and passes packets on at once.
fn in_order(index: u32) -> LinkMessage {
    let settings = vec![InfoBridge::StpState(BridgeStpState::Disabled), InfoBridge::ForwardDelay(0)];
    let mut message = a_bridge(index, settings);
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message
}

fn a_bridge(index: u32, settings: Vec<InfoBridge>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    let info = vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(InfoData::Bridge(settings))];
    message.attributes.push(LinkAttribute::LinkInfo(info));
    message
}

fn an_address(index: u32, address: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = match address {
        IpNet::V4(_) => AddressFamily::Inet,
        IpNet::V6(_) => AddressFamily::Inet6,
    };
    // Nobody else has it, and a bridge without a port would wait for ever to be sure of that.
    if let IpNet::V6(_) = address {
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.header.prefix_len = address.prefix_len();
    message.header.index = index;
    message.attributes.push(AddressAttribute::Local(address.addr()));
    message.attributes.push(AddressAttribute::Address(address.addr()));
    message
}

fn make(kernel: &mut Netlink, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let failed = kernel.batch(&[Request { message, flags }])?;
    failed.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}
