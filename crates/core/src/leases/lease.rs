//! What a node announces: which part of the network is its own, and how it is reached.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Cidr, Family};

/// The address of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether one link can go by it: all others are for many, or for none.
    pub fn is_of_one(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

/// A text that is no address of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the address of a link, like 2a:11:22:33:44:55")]
pub struct NoMac(pub String);

impl FromStr for Mac {
    type Err = NoMac;

    fn from_str(text: &str) -> Result<Self, NoMac> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|it| it.is_ascii_hexdigit());
            let part = parts.next().filter(is_byte);
            *byte =
                part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(|| NoMac(text.into()))?;
        }
        if parts.next().is_some() { Err(NoMac(text.into())) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// How a node wants to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// By a route to it.
    HostGw,
    /// Through VXLAN.
    Vxlan {
        /// The network in it.
        vni: u32,
        /// The address of its end.
        mac: Mac,
    },
    /// In a way that this is not for.
    Other(String),
}

impl Backend {
    /// As annotations have it.
    pub fn name(&self) -> &str {
        match self {
            Self::HostGw => "host-gw",
            Self::Vxlan { .. } => "vxlan",
            Self::Other(name) => name,
        }
    }
}

/// A node's part of the network, of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its part.
    pub subnet: Cidr,
    /// The address at which the node is reached.
    pub public: IpAddr,
    /// How.
    pub backend: Backend,
}

/// A node, as far as it is anybody's business here: one that is part of the network has a lease of each family that it
/// takes part in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Since when it is there, in seconds: of two that claim the same the older one is right.
    pub since: i64,
    /// Its leases; why one that it should have is none is said in words.
    pub leases: Vec<Result<Lease, Arc<str>>>,
}

impl Node {
    /// The lease of a family.
    pub fn lease(&self, family: Family) -> Option<&Lease> {
        self.leases.iter().flatten().find(|lease| lease.subnet.family() == family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_link_is_six_bytes_in_two_digits_each() {
        let mac: Mac = "2a:11:22:33:44:5F".parse().expect("an address");
        assert_eq!(mac.to_string(), "2a:11:22:33:44:5f");
        for bad in [
            "",
            "2a:11:22:33:44",
            "2a:11:22:33:44:55:66",
            "2a:11:22:33:44:5",
            "2a:11:22:33:44:gg",
            "+a:11:22:33:44:55",
        ] {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }
}
