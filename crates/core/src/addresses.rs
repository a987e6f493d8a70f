//! Ranges of addresses of either family. A room that knows one family only has types of its own ([`Ipv4Cidr`]).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::names::{Invalid, Ipv4Cidr};

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The prefix of a single address.
    pub fn longest(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A range of addresses: host bits are always zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    /// The range that an address with a prefix lies in.
    pub fn containing(net: IpNet) -> Self {
        Self(net.trunc())
    }

    /// An address alone.
    pub fn alone(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }

    /// The family of its addresses.
    pub fn family(self) -> Family {
        Family::of(self.0.addr())
    }

    /// The address that it begins with.
    pub fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// The address after that, which is that of the range's own router by custom.
    pub fn second(self) -> IpAddr {
        match self.0.addr() {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).saturating_add(1)).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).saturating_add(1)).into(),
        }
    }

    /// The last address in it; of IPv4 that of everybody at once.
    pub fn last(self) -> IpAddr {
        self.0.broadcast()
    }

    /// How many bits all of its addresses have in common.
    pub fn prefix(self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether an address lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether a whole range lies in this one.
    pub fn covers(self, other: Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether any address lies in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Every range that this one lies in, from itself to all addresses.
    pub fn covering(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.0), IpNet::supernet).map(Self)
    }
}

impl From<Ipv4Cidr> for Cidr {
    fn from(range: Ipv4Cidr) -> Self {
        Self(range.net().into())
    }
}

impl FromStr for Cidr {
    type Err = Invalid;

    /// `10.1.0.0/16` or `fd00::/48`; a lone address is a range of one.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let net = match text.parse::<IpAddr>() {
            Ok(address) => Ok(IpNet::from(address)),
            Err(_) => text.parse::<IpNet>(),
        };
        net.map(Self::containing).map_err(|_| Invalid::Range(text.into()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Cidr {
        text.parse().expect("a range")
    }

    #[test]
    fn ranges_of_either_family_lose_their_host_bits_and_never_meet() {
        assert_eq!(range("10.1.2.3/16").to_string(), "10.1.0.0/16");
        assert_eq!(range("fd00:1::7/48").to_string(), "fd00:1::/48");
        assert_eq!(range("10.1.2.3"), Cidr::alone([10, 1, 2, 3].into()));
        assert!(range("fd00::/16").covers(range("fd00:1::/48")));
        assert!(!range("0.0.0.0/0").overlaps(range("::/0")));
        assert_eq!(range("fd00::/16").covering().count(), 17);
    }

    #[test]
    fn what_is_no_range_is_named() {
        let error = "10.1.0.0/33".parse::<Cidr>().expect_err("no range");
        assert_eq!(
            error.to_string(),
            "`10.1.0.0/33` is not a range of addresses, like 10.244.0.0/16 or fd00:10:244::/56"
        );
    }
}
