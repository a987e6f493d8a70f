//! A conversation with the kernel: dumps, and many requests at once.
//!
//! Requests are sent some hundred at a time, and only the last one of these asks for an answer: whatever failed before it
//! has been said by then, each under its number.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

/// A part of an answer is never larger.
const LARGEST_PART: usize = 64 * 1024;
/// How much the kernel may have to say at once: that all requests of a batch failed.
const WAITING: usize = 4 * 1024 * 1024;
/// A kernel that says nothing for so many seconds has lost the answer; whoever asked begins anew.
const ANSWERS_WITHIN: i64 = 10;
/// Requests that are sent at once. Where there is no more room than usual, so many complaints fit into it.
const BATCH: usize = 256;
/// What was listed changed meanwhile.
const NLM_F_DUMP_INTR: u16 = 0x10;

/// A request, and how it is meant (`NLM_F_CREATE` and its like).
#[derive(Debug, Clone)]
pub struct Request {
    /// What is requested.
    pub message: RouteNetlinkMessage,
    /// How.
    pub flags: u16,
}

/// A conversation with the kernel.
pub struct Netlink {
    socket: Socket,
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// With that of the network namespace that this thread is in, and stays with it wherever it is used.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        let port = socket.bind_auto()?.port_number();
        socket.connect(&SocketAddr::new(0, 0))?;
        // Errors come without the request that they are about, and lists with nothing but what was asked for; older kernels
        // do neither, and need not.
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_netlink_get_strict_chk(true);
        room_for(&socket, WAITING);
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(ANSWERS_WITHIN))?;
        Ok(Self { socket, port, sequence: 0, buffer: Vec::with_capacity(LARGEST_PART) })
    }

    /// The number of this end.
    pub fn port(&self) -> Option<u32> {
        Some(self.port).filter(|port| *port != 0)
    }

    /// Lists. One that is [interrupted](io::ErrorKind::Interrupted) may lack something: it has to be made again.
    pub fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        mut take: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        let sequence = self.send_one(message, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut interrupted = false;
        loop {
            let mut end = None;
            self.receive(|answer| {
                if answer.header.sequence_number != sequence {
                    return;
                }
                interrupted |= answer.header.flags & NLM_F_DUMP_INTR != 0;
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => take(message),
                    NetlinkPayload::Done(done) => end = Some(failure(done.code)),
                    NetlinkPayload::Error(error) => end = Some(failure(error.raw_code())),
                    _ => {}
                }
            })?;
            match end {
                Some(Some(error)) => return Err(error),
                Some(None) if interrupted => return Err(io::ErrorKind::Interrupted.into()),
                Some(None) => return Ok(()),
                None => {}
            }
        }
    }

    /// Asks for one thing; nothing where there is no such thing.
    pub fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<Option<RouteNetlinkMessage>> {
        let sequence = self.send_one(message, NLM_F_REQUEST)?;
        loop {
            let mut found = None;
            self.receive(|answer| {
                if answer.header.sequence_number == sequence {
                    found = Some(answer.payload);
                }
            })?;
            match found {
                Some(NetlinkPayload::InnerMessage(message)) => return Ok(Some(message)),
                Some(NetlinkPayload::Error(error)) => match failure(error.raw_code()) {
                    Some(error) if is_absent(&error) => return Ok(None),
                    Some(error) => return Err(error),
                    None => return Ok(None),
                },
                _ => {}
            }
        }
    }

    /// Makes requests in their order, whether or not others failed. Returns which did, and why.
    pub fn batch(&mut self, requests: &[Request]) -> io::Result<Vec<(usize, io::Error)>> {
        let mut failed = Vec::new();
        for (at, requests) in requests.chunks(BATCH).enumerate() {
            let first = self.sequence.wrapping_add(1);
            let mut bytes = Vec::with_capacity(requests.len() * 96);
            for (number, request) in requests.iter().enumerate() {
                self.sequence = self.sequence.wrapping_add(1);
                let answer = if number + 1 == requests.len() { NLM_F_ACK } else { 0 };
                encode(
                    request.message.clone(),
                    NLM_F_REQUEST | request.flags | answer,
                    self.sequence,
                    &mut bytes,
                );
            }
            let last = self.sequence;
            self.socket.send(&bytes, 0)?;
            let mut answered = false;
            while !answered {
                let received = self.receive(|answer| {
                    let number = answer.header.sequence_number.wrapping_sub(first) as usize;
                    if let NetlinkPayload::Error(error) = answer.payload
                        && number < requests.len()
                    {
                        answered |= answer.header.sequence_number == last;
                        failed.extend(failure(error.raw_code()).map(|error| (at * BATCH + number, error)));
                    }
                });
                match received {
                    // More failed than can be said; what came of it is seen afterwards, and the rest is still to be made.
                    Err(error) if is_too_much(&error) => {
                        failed.push((at * BATCH + requests.len() - 1, error));
                        break;
                    }
                    received => received?,
                }
            }
        }
        Ok(failed)
    }

    fn send_one(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        encode(message, flags, self.sequence, &mut bytes);
        self.socket.send(&bytes, 0)?;
        Ok(self.sequence)
    }

    /// Takes what the kernel has said, as much as comes at once.
    fn receive(&mut self, mut take: impl FnMut(NetlinkMessage<RouteNetlinkMessage>)) -> io::Result<()> {
        self.buffer.clear();
        self.socket.recv(&mut self.buffer, 0)?;
        make_legible(&mut self.buffer);
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            // Messages begin at multiples of four.
            let length = (message.header.length as usize).next_multiple_of(4).min(rest.len());
            rest = if length == 0 { &[] } else { &rest[length..] };
            take(message);
        }
        Ok(())
    }
}

/// An alias may be any bytes; the decoder knows text only, and gives up the whole list for a single one of anybody's links. What
/// is no text becomes question marks.
fn make_legible(bytes: &mut [u8]) {
    /// `RTM_NEWLINK`, what precedes its attributes, and `IFLA_IFALIAS`.
    const NEW_LINK: u16 = 16;
    const HEADERS: usize = 32;
    const ALIAS: u16 = 20;
    let number = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let mut start = 0;
    while let Some(&[a, b, c, d]) = bytes.get(start..).and_then(|rest| rest.first_chunk::<4>()) {
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let (end, is_link) = ((start + length).min(bytes.len()), number(bytes, start + 4) == Some(NEW_LINK));
        let mut at = start + HEADERS;
        while let Some((size, kind)) = number(&bytes[..end], at).zip(number(&bytes[..end], at + 2))
            && is_link
        {
            let size = usize::from(size).max(4);
            if kind == ALIAS
                && let Some(text) = bytes.get_mut(at + 4..(at + size).min(end))
                && std::str::from_utf8(text).is_err()
            {
                text.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
            }
            at += size.next_multiple_of(4);
        }
        start += length.max(HEADERS / 2).next_multiple_of(4);
    }
}

fn encode(message: RouteNetlinkMessage, flags: u16, sequence: u32, bytes: &mut Vec<u8>) {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = flags;
    message.header.sequence_number = sequence;
    message.finalize();
    let start = bytes.len();
    bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
    message.serialize(&mut bytes[start..]);
}

/// What a code of the kernel's says; zero is success.
fn failure(code: i32) -> Option<io::Error> {
    (code != 0).then(|| io::Error::from_raw_os_error(code.abs()))
}

/// Gives a socket so much room for what waits to be read, whatever is usual on this machine.
pub(crate) fn room_for(socket: &Socket, bytes: usize) {
    if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
        // Without the right to that there is less room, and more is looked for a second time.
        let _ = setsockopt(socket, sockopt::RcvBuf, &bytes);
    }
}

/// Whether an error says that something was lost, because nobody had read for too long: `ENOBUFS`.
pub(crate) fn is_too_much(error: &io::Error) -> bool {
    error.raw_os_error() == Some(105)
}

/// Whether an error says that there is no such thing.
pub fn is_absent(error: &io::Error) -> bool {
    // ENOENT, ESRCH, ENODEV, EADDRNOTAVAIL.
    matches!(error.raw_os_error(), Some(2 | 3 | 19 | 99))
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_alias_that_is_no_text_spoils_no_list() {
        let mut bytes = Vec::new();
        for alias in ["fine", "odd#", "also fine"] {
            let mut message = LinkMessage::default();
            message.attributes.push(LinkAttribute::Mtu(1500));
            message.attributes.push(LinkAttribute::IfAlias(alias.into()));
            encode(netlink_packet_route::RouteNetlinkMessage::NewLink(message), 0, 1, &mut bytes);
        }
        let odd = bytes.iter().position(|byte| *byte == b'#').expect("it is there");
        bytes[odd] = 0xff;
        make_legible(&mut bytes);
        assert_eq!(bytes[odd], b'?');
        assert_eq!(bytes.iter().filter(|byte| **byte == b'?').count(), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 14..18_u8) {
            if let Some(byte) = bytes.get_mut(4) {
                *byte = kind;
            }
            make_legible(&mut bytes);
        }
    }
}
