//! What nftables says by itself: whether it is about rules of ours, or about the chain where some of them stand.
//!
//! Service proxies change thousands of rules a minute; to look at ours each time would cost more than all else.

use causeway_core::leases::traffic::{Chain, TABLE};

/// `NFNLGRP_NFTABLES`.
pub(super) const GROUP: u32 = 7;
/// `NFNL_SUBSYS_NFTABLES`, in the upper half of a message's kind.
const SUBSYSTEM: u8 = 10;
const HEADER: usize = 16;
/// `nfgenmsg`, before the attributes.
const FAMILY: usize = 4;
/// `NFT_MSG_NEWTABLE`, `_DELTABLE`, `_NEWCHAIN`, `_DELCHAIN`, `_NEWRULE`, `_DELRULE`.
const TABLES: [u8; 2] = [0, 2];
const CHAINS: [u8; 2] = [3, 5];
const RULES: [u8; 2] = [6, 8];
/// `NFTA_TABLE_NAME`, `NFTA_CHAIN_TABLE` and `NFTA_RULE_TABLE` are the first of theirs.
const IN_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const CHAIN_NAME: u16 = 3;

/// Whether any of these messages is. What cannot be read may be anything.
pub(super) fn concern_us(mut bytes: &[u8]) -> bool {
    while bytes.len() >= HEADER {
        let length = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let Some(message) = bytes.get(HEADER..length) else { return true };
        let [kind, subsystem] = [bytes[4], bytes[5]];
        if subsystem == SUBSYSTEM && concerns_us(kind, message) {
            return true;
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

fn concerns_us(kind: u8, message: &[u8]) -> bool {
    let chain = match kind {
        kind if TABLES.contains(&kind) => None,
        kind if CHAINS.contains(&kind) => Some(CHAIN_NAME),
        kind if RULES.contains(&kind) => Some(RULE_CHAIN),
        _ => return false,
    };
    let attributes = message.get(FAMILY..).unwrap_or_default();
    let table = attribute(attributes, IN_TABLE);
    let chain = chain.and_then(|kind| attribute(attributes, kind));
    let stands_in = |host: Chain| {
        table == Some(host.table().as_bytes()) && chain.is_none_or(|name| name == host.name().as_bytes())
    };
    table == Some(TABLE.as_bytes()) || stands_in(Chain::Forward)
}

/// A text among attributes, without the zero at its end.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let header = bytes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = bytes.get(4..length)?;
        if u16::from_ne_bytes([header[2], header[3]]) == wanted {
            return Some(value.strip_suffix(&[0]).unwrap_or(value));
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}
