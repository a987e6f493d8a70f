//! The range of a network and the address of its gateway, parsed.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Cidr, Family};

/// What a network is declared to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkSpec {
    /// The range of its addresses.
    pub cidr: Cidr,
    /// The address of its gateway, which is one of them.
    pub gateway: IpAddr,
}

/// Why a spec makes no sense; each is a sentence a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSpec {
    /// Not a range.
    #[error("cidr `{0}` is not a range of addresses, like 192.168.0.0/16 or fd00:7::/64")]
    Cidr(String),
    /// A range with host bits.
    #[error("cidr `{text}` has bits after its prefix; the range it lies in is {range}")]
    HostBits {
        /// The text found.
        text: String,
        /// What it may have been meant to be.
        range: Cidr,
    },
    /// Too large or too small.
    #[error("cidr {cidr} has a prefix of {}: use one from {min} to {max}, so that it has room for hosts", cidr.prefix())]
    Prefix {
        /// The range.
        cidr: Cidr,
        /// The shortest prefix allowed.
        min: u8,
        /// The longest.
        max: u8,
    },
    /// Addresses that no host may have.
    #[error("cidr {0} is {1}, which no network can have")]
    Special(Cidr, &'static str),
    /// Not an address.
    #[error("gateway `{0}` is not an address, like 192.168.0.1 or fd00:7::1")]
    Gateway(String),
    /// Of another family than the range.
    #[error("gateway {gateway} is an {} address, and cidr {cidr} is an {} range", Family::of(*gateway), cidr.family())]
    Mixed {
        /// The gateway.
        gateway: IpAddr,
        /// The range.
        cidr: Cidr,
    },
    /// Somewhere else.
    #[error("gateway {gateway} is outside of cidr {cidr}")]
    Outside {
        /// The gateway.
        gateway: IpAddr,
        /// The range.
        cidr: Cidr,
    },
    /// The first or the last address.
    #[error("gateway {gateway} is the {which} address of cidr {cidr}, which no host can have")]
    Reserved {
        /// The gateway.
        gateway: IpAddr,
        /// The range.
        cidr: Cidr,
        /// Which one it is.
        which: &'static str,
    },
}

/// Prefixes that leave room for a gateway and for hosts, and that are not half of all addresses.
const fn prefixes(family: Family) -> (u8, u8) {
    match family {
        Family::V4 => (8, 30),
        Family::V6 => (16, 126),
    }
}

impl NetworkSpec {
    /// Without a gateway it is the first address that a host can have.
    pub fn parse(cidr: &str, gateway: Option<&str>) -> Result<Self, BadSpec> {
        let cidr = range(cidr)?;
        let gateway = match gateway {
            Some(text) => text.parse().map_err(|_| BadSpec::Gateway(few(text)))?,
            None => cidr.second(),
        };
        if Family::of(gateway) != cidr.family() {
            return Err(BadSpec::Mixed { gateway, cidr });
        }
        if !cidr.contains(gateway) {
            return Err(BadSpec::Outside { gateway, cidr });
        }
        if gateway == cidr.address() {
            return Err(BadSpec::Reserved { gateway, cidr, which: "first" });
        }
        if cidr.family() == Family::V4 && gateway == cidr.last() {
            return Err(BadSpec::Reserved { gateway, cidr, which: "broadcast" });
        }
        Ok(Self { cidr, gateway })
    }
}

fn range(text: &str) -> Result<Cidr, BadSpec> {
    let net = net(text).ok_or_else(|| BadSpec::Cidr(few(text)))?;
    let cidr = Cidr::containing(net);
    if cidr.address() != net.addr() {
        return Err(BadSpec::HostBits { text: few(text), range: cidr });
    }
    let (min, max) = prefixes(cidr.family());
    if !(min..=max).contains(&cidr.prefix()) {
        return Err(BadSpec::Prefix { cidr, min, max });
    }
    match special(cidr) {
        Some(what) => Err(BadSpec::Special(cidr, what)),
        None => Ok(cidr),
    }
}

/// A range in the one spelling that everybody reads alike: `010.0.0.0/08` is eight to some.
fn net(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    let is_plain = prefix == "0" || prefix.starts_with(|first: char| ('1'..='9').contains(&first));
    IpNet::new(address.parse().ok()?, prefix.parse().ok().filter(|_| is_plain)?).ok()
}

/// What no host has an address of. Ranges are no wider than these are.
fn special(cidr: Cidr) -> Option<&'static str> {
    let ranges = [
        ("0.0.0.0/8", "of nobody"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/16", "of nobody"),
        ("fe80::/10", "link-local"),
        ("ff00::/8", "multicast"),
    ];
    let known = |text: &str| text.parse().is_ok_and(|known: Cidr| known.overlaps(cidr));
    ranges.into_iter().find(|(text, _)| known(text)).map(|(_, what)| what)
}

/// Others' words as far as anybody wants to read them.
fn few(text: &str) -> String {
    const ENOUGH: usize = 64;
    text[..text.floor_char_boundary(ENOUGH)].to_owned()
}
