//! How the network is meant to be, and what this node is in it.

use std::net::IpAddr;

use super::Mac;
use crate::{Cidr, Family};

/// How this node reaches the others, and they it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By routes, over a link that all nodes share.
    HostGw,
    /// Through VXLAN.
    Vxlan {
        /// The network in it.
        vni: u32,
        /// The port at which ends are reached.
        port: u16,
        /// Nodes on the same link are reached by a route all the same.
        direct: bool,
    },
}

impl Mode {
    /// As annotations have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostGw => "host-gw",
            Self::Vxlan { .. } => "vxlan",
        }
    }
}

/// The network of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// All leases lie in it.
    pub range: Cidr,
    /// How nodes reach each other.
    pub mode: Mode,
}

/// What this node is in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its own part.
    pub subnet: Cidr,
    /// The address at which the others reach it.
    pub public: IpAddr,
    /// The address that it has itself: somebody on the way may translate.
    pub local: IpAddr,
    /// The index of the link that has that address.
    pub link: u32,
    /// Whose largest packet this is.
    pub mtu: u32,
    /// What is reached over that link without a router.
    pub neighbours: Vec<Cidr>,
    /// The address of this node's end of a VXLAN: the one it had before, if there was one.
    pub mac: Mac,
}

/// What the headers of VXLAN take.
pub const fn overhead(family: Family) -> u32 {
    match family {
        Family::V4 => 50,
        Family::V6 => 70,
    }
}
