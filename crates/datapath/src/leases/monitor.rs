//! What the kernel says by itself.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use causeway_core::{Cidr, Family};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::observe::ip;

/// `RTNLGRP_LINK`, `_NEIGH`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV6_IFADDR`, `_IPV6_ROUTE`.
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// How much may wait to be read.
const WAITING: usize = 4 * 1024 * 1024;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heard {
    /// Links, addresses, or where packets go that no other route is for.
    Links,
    /// Routes of a family, or far ends of links.
    Routes(Family),
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
    /// What is changed in these conversations with the kernel is no news.
    pub own: BTreeSet<u32>,
}

/// Listens.
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Monitor {
    /// To the kernel of the network namespace that this thread is in.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        // What is lost is looked for all the same.
        let _ = socket.set_rx_buf_sz(WAITING);
        Ok(Self { socket, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Waits until there is something to read, or for so long.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], limit) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// All news so far, without waiting; nothing where there was none.
    pub fn read(&mut self, interest: &Interest) -> io::Result<BTreeSet<Heard>> {
        let mut heard = BTreeSet::new();
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Ok(_) => heard.extend(messages(&self.buffer, interest)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(heard),
                // ENOBUFS.
                Err(error) if error.raw_os_error() == Some(105) => drop(heard.insert(Heard::TooMuch)),
                Err(error) => return Err(error),
            }
        }
    }
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
        // Where far ends are is said of neither.
        AddressFamily::Bridge => Some(Heard::TooMuch),
        _ => None,
    };
    match message {
        RouteNetlinkMessage::NewLink(_)
        | RouteNetlinkMessage::DelLink(_)
        | RouteNetlinkMessage::NewAddress(_)
        | RouteNetlinkMessage::DelAddress(_) => Some(Heard::Links),
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route)
            if route.header.destination_prefix_length == 0 =>
        {
            Some(Heard::Links)
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
