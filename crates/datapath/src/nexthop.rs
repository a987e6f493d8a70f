//! Next hops as objects of their own, as they go over netlink: `struct nhmsg` and its attributes, as far as they are used.

use std::net::IpAddr;

use netlink_packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator,
};

const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
const RTM_GETNEXTHOP: u16 = 106;
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
/// `struct nhmsg`: family, scope, protocol, a byte of nothing, flags.
const HEADER: usize = 8;
/// `RTNH_F_ONLINK`.
const ONLINK: u32 = 4;
/// `struct nexthop_grp`: the number comes first.
const MEMBER: usize = 8;
/// `AF_INET`, `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 10];

/// What is said of next hops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextHopMessage {
    /// It is there; asked: it shall be.
    New(NextHop),
    /// It is gone; asked: it shall go, by its number.
    Del(NextHop),
    /// All are asked for.
    Get,
}

/// A next hop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NextHop {
    /// Its number.
    pub(crate) id: u32,
    /// Whose it is.
    pub(crate) protocol: u8,
    /// Where it leads.
    pub(crate) gateway: Option<IpAddr>,
    /// Over which link, by its index.
    pub(crate) link: Option<u32>,
    /// The gateway is on that link whatever its addresses say.
    pub(crate) onlink: bool,
    /// If it is a group: the numbers of those in it.
    pub(crate) members: Vec<u32>,
    /// Whether it says anything beside this.
    pub(crate) has_more: bool,
}

impl NextHopMessage {
    /// Whether messages of this kind are about next hops.
    pub(crate) fn is_kind(kind: u16) -> bool {
        (RTM_NEWNEXTHOP..=RTM_GETNEXTHOP).contains(&kind)
    }

    fn attributes(&self) -> Vec<(u16, Vec<u8>)> {
        match self {
            Self::New(hop) => {
                let mut all = vec![(NHA_ID, hop.id.to_ne_bytes().to_vec())];
                all.extend(hop.link.map(|link| (NHA_OIF, link.to_ne_bytes().to_vec())));
                all.extend(hop.gateway.map(|gateway| match gateway {
                    IpAddr::V4(address) => (NHA_GATEWAY, address.octets().to_vec()),
                    IpAddr::V6(address) => (NHA_GATEWAY, address.octets().to_vec()),
                }));
                all
            }
            Self::Del(hop) => vec![(NHA_ID, hop.id.to_ne_bytes().to_vec())],
            Self::Get => Vec::new(),
        }
    }
}

impl NetlinkSerializable for NextHopMessage {
    fn message_type(&self) -> u16 {
        match self {
            Self::New(_) => RTM_NEWNEXTHOP,
            Self::Del(_) => RTM_DELNEXTHOP,
            Self::Get => RTM_GETNEXTHOP,
        }
    }

    fn buffer_len(&self) -> usize {
        let lengths = self.attributes().into_iter().map(|(_, value)| 4 + value.len());
        HEADER + lengths.sum::<usize>()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let mut bytes = [0; HEADER].to_vec();
        // Whoever deletes or lists must not say anything there.
        if let Self::New(hop) = self {
            bytes[0] = FAMILIES[usize::from(hop.gateway.is_some_and(|gateway| gateway.is_ipv6()))];
            bytes[2] = hop.protocol;
            bytes[4..].copy_from_slice(&(if hop.onlink { ONLINK } else { 0 }).to_ne_bytes());
        }
        for (kind, value) in self.attributes() {
            // All are of four bytes or sixteen, so each begins where it should.
            let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
            bytes.extend(length.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
        }
        buffer[..bytes.len()].copy_from_slice(&bytes);
    }
}

impl NetlinkDeserializable for NextHopMessage {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        match header.message_type {
            RTM_NEWNEXTHOP => Ok(Self::New(next_hop(payload)?)),
            RTM_DELNEXTHOP => Ok(Self::Del(next_hop(payload)?)),
            RTM_GETNEXTHOP => Ok(Self::Get),
            kind => Err(format!("{kind} is not about next hops").into()),
        }
    }
}

fn next_hop(bytes: &[u8]) -> Result<NextHop, DecodeError> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or("it is too short for a next hop")?;
    let flags = number(&header[4..]).unwrap_or_default();
    let mut hop = NextHop { protocol: header[2], onlink: flags & ONLINK != 0, ..NextHop::default() };
    for attribute in NlasIterator::new(rest) {
        let attribute = attribute?;
        let value = attribute.value();
        match attribute.kind() {
            NHA_ID => hop.id = number(value).ok_or("a next hop without a number")?,
            NHA_OIF => hop.link = number(value),
            NHA_GATEWAY => hop.gateway = address(value),
            NHA_GROUP => hop.members = value.chunks_exact(MEMBER).filter_map(number).collect(),
            _ => hop.has_more = true,
        }
    }
    Ok(hop)
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_ne_bytes)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
    use proptest::prelude::*;

    use super::*;

    fn read(kind: u16, payload: &[u8]) -> Option<NextHopMessage> {
        let mut header = NetlinkHeader::default();
        header.message_type = kind;
        NextHopMessage::deserialize(&header, payload).ok()
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).expect("it is short");
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_group_names_its_members_and_whatever_else_is_said_is_noticed() {
        let members: Vec<u8> = [7_u32, 0, 9, 0].iter().flat_map(|it| it.to_ne_bytes()).collect();
        let group =
            [&[0; HEADER][..], &attribute(NHA_ID, &5_u32.to_ne_bytes()), &attribute(NHA_GROUP, &members)];
        let wanted = NextHop { id: 5, members: vec![7, 9], ..NextHop::default() };
        assert_eq!(read(RTM_NEWNEXTHOP, &group.concat()), Some(NextHopMessage::New(wanted)));
        // NHA_BLACKHOLE, which has no value.
        let nowhere = [&[0; HEADER][..], &attribute(NHA_ID, &5_u32.to_ne_bytes()), &attribute(4, &[])];
        let wanted = NextHop { id: 5, has_more: true, ..NextHop::default() };
        assert_eq!(read(RTM_DELNEXTHOP, &nowhere.concat()), Some(NextHopMessage::Del(wanted)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            id in any::<u32>(), protocol in any::<u8>(), gateway in any::<Option<IpAddr>>(), link in any::<Option<u32>>(), onlink in any::<bool>()
        ) {
            let hop = NextHop { id, protocol, gateway, link, onlink, ..NextHop::default() };
            let message = NextHopMessage::New(hop);
            let mut whole = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(message.clone()));
            whole.finalize();
            let mut bytes = vec![0; whole.buffer_len()];
            whole.serialize(&mut bytes);
            let again = NetlinkMessage::<NextHopMessage>::deserialize(&bytes).expect("it is read");
            prop_assert_eq!(again.payload, NetlinkPayload::InnerMessage(message));
        }

        #[test]
        fn whatever_is_said_of_next_hops_is_read_or_refused(kind in 100..110_u16, payload in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = read(kind, &payload);
        }

        /// Attributes that are whole, of any kind and length.
        #[test]
        fn whatever_attributes_hold_is_taken_in(
            kind in 104..106_u16,
            attributes in prop::collection::vec((0..20_u16, prop::collection::vec(any::<u8>(), 0..24)), 0..8),
        ) {
            let attributes = attributes.iter().flat_map(|(kind, value)| attribute(*kind, value));
            let payload: Vec<u8> = [0; HEADER].into_iter().chain(attributes).collect();
            let _ = read(kind, &payload);
        }
    }
}
