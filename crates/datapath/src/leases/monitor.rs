//! What the kernel says by itself.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use causeway_core::{Cidr, Family};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::observe::ip;
use super::rules;
use crate::netlink::{is_too_much, room_for};

/// `RTNLGRP_LINK`, `_NEIGH`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV6_IFADDR`, `_IPV6_ROUTE`.
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// How much may wait to be read.
const WAITING: usize = 4 * 1024 * 1024;

/// How much is read at once.
const MOST_READ: usize = 64;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heard {
    /// Links, addresses, or where packets go that no other route is for.
    Links,
    /// Routes of a family, or who is at far ends of our links.
    Routes(Family),
    /// At which nodes far ends of our links are.
    Ends,
    /// Rules that treat packets, where ours stand.
    Rules,
    /// More than was kept: anything may have changed.
    TooMuch,
}

/// What may be news.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    /// Our links, by their indexes: of far ends only theirs count.
    pub links: BTreeSet<u32>,
    /// Of routes only those into these ranges count, and default routes.
    pub ranges: Vec<Cidr>,
    /// The links by which this node is reached, where all are found: what happens to others, or to default routes, is no
    /// news then.
    pub settled: Option<BTreeSet<u32>>,
    /// What is changed in these conversations with the kernel is no news.
    pub own: BTreeSet<u32>,
}

/// Listens.
pub struct Monitor {
    socket: Socket,
    /// What nftables says; nothing where the kernel has none.
    rules: Option<Socket>,
    buffer: Vec<u8>,
}

impl Monitor {
    /// To the kernel of the network namespace that this thread is in.
    pub fn open() -> io::Result<Self> {
        let socket = listening(NETLINK_ROUTE, &GROUPS)?;
        let rules = listening(NETLINK_NETFILTER, &[rules::GROUP]).ok();
        Ok(Self { socket, rules, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Waits until there is something to read, or for so long.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let sockets = std::iter::once(&self.socket).chain(&self.rules);
        let mut sockets: Vec<_> =
            sockets.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut sockets, limit) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// All news so far, without waiting; nothing where there was none.
    pub fn read(&mut self, interest: &Interest) -> io::Result<BTreeSet<Heard>> {
        let mut heard = BTreeSet::new();
        drain(&self.socket, &mut self.buffer, |bytes| match bytes {
            Some(bytes) => heard.extend(messages(bytes, interest)),
            None => drop(heard.insert(Heard::TooMuch)),
        })?;
        if let Some(socket) = &self.rules {
            drain(socket, &mut self.buffer, |bytes| {
                if bytes.is_none_or(rules::concern_us) {
                    heard.insert(Heard::Rules);
                }
            })?;
        }
        Ok(heard)
    }
}

fn listening(protocol: isize, groups: &[u32]) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    for group in groups {
        socket.add_membership(*group)?;
    }
    socket.set_non_blocking(true)?;
    room_for(&socket, WAITING);
    Ok(socket)
}

/// Takes all that waits to be read; nothing where something was lost.
fn drain(socket: &Socket, buffer: &mut Vec<u8>, mut take: impl FnMut(Option<&[u8]>)) -> io::Result<()> {
    // Somebody may change things faster than they are read here: then the rest is read later.
    for _ in 0..MOST_READ {
        buffer.clear();
        match socket.recv(buffer, 0) {
            Ok(_) => take(Some(&buffer[..])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if is_too_much(&error) => take(None),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn messages(mut bytes: &[u8], interest: &Interest) -> Vec<Heard> {
    let mut heard = Vec::new();
    while !bytes.is_empty() {
        let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) else {
            // What cannot be understood may be anything.
            heard.push(Heard::TooMuch);
            break;
        };
        let length = (message.header.length as usize).next_multiple_of(4).min(bytes.len());
        bytes = if length == 0 { &[] } else { &bytes[length..] };
        if let NetlinkPayload::InnerMessage(inner) = message.payload
            && !interest.own.contains(&message.header.port_number)
        {
            heard.extend(meaning(&inner, interest));
        }
    }
    heard
}

fn meaning(message: &RouteNetlinkMessage, interest: &Interest) -> Option<Heard> {
    let of = |family| match family {
        AddressFamily::Inet => Some(Heard::Routes(Family::V4)),
        AddressFamily::Inet6 => Some(Heard::Routes(Family::V6)),
        AddressFamily::Bridge => Some(Heard::Ends),
        _ => None,
    };
    // Pods' links come and go all the time.
    let is_watched = |index| {
        let settled = interest.settled.as_ref();
        settled.is_none_or(|links| links.contains(&index)) || interest.links.contains(&index)
    };
    match message {
        RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
            is_watched(link.header.index).then_some(Heard::Links)
        }
        RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address) => {
            is_watched(address.header.index).then_some(Heard::Links)
        }
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route)
            if route.header.destination_prefix_length == 0 =>
        {
            interest.settled.is_none().then_some(Heard::Links)
        }
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
            let heard = of(route.header.address_family);
            heard.filter(|_| leads_into(route, &interest.ranges))
        }
        // The kernel learns about neighbours and forgets them all the time, but not about those that we put.
        RouteNetlinkMessage::NewNeighbour(end) | RouteNetlinkMessage::DelNeighbour(end)
            if interest.links.contains(&end.header.ifindex) =>
        {
            of(end.header.family)
        }
        _ => None,
    }
}

fn leads_into(route: &RouteMessage, ranges: &[Cidr]) -> bool {
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(address) => ip(address),
        _ => None,
    });
    address.is_some_and(|address| ranges.iter().any(|range| range.contains(address)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_said_is_taken_in(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = messages(&bytes, &Interest::default());
            let _ = rules::concern_us(&bytes);
        }

        /// Messages that begin as the kernel's do: their length and kind are right, the rest is anything.
        #[test]
        fn whatever_a_message_holds_is_taken_in(kind in 16..140u16, body in prop::collection::vec(any::<u8>(), 0..256)) {
            let length = u32::try_from(16 + body.len()).expect("it is short");
            let header = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
            let _ = messages(&[&header[..], &body].concat(), &Interest::default());
            let nft = [&length.to_ne_bytes()[..], &(0xa00 | kind & 0x1f).to_ne_bytes(), &[0; 10], &body].concat();
            let _ = rules::concern_us(&nft);
        }
    }
}
