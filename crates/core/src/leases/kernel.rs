//! What a node's kernel should hold, and what it holds.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Mac;
use crate::Cidr;

/// The way to a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The node to send to.
    pub via: IpAddr,
    /// Over which link, by its index.
    pub link: u32,
    /// The node is on that link whatever its addresses say.
    pub onlink: bool,
}

/// A link that wraps packets for other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vxlan {
    /// The network in it.
    pub vni: u32,
    /// The port at which ends are reached.
    pub port: u16,
    /// The link that wrapped packets leave by, by its index.
    pub over: u32,
    /// The address that they come from.
    pub local: IpAddr,
    /// The address of this end.
    pub mac: Mac,
    /// Its largest packet.
    pub mtu: u32,
    /// Whether it takes for granted where frames come from; here it never does.
    pub learning: bool,
}

/// A link of ours as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// What it wraps packets in.
    pub vxlan: Vxlan,
    /// Its own address.
    pub address: Cidr,
}

/// What the kernel should hold for one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// All leases lie in it.
    pub range: Cidr,
    /// The link that nodes share, by its index.
    pub over: u32,
    /// The link through which others are reached, by its name, if any.
    pub link: Option<(String, Link)>,
    /// The way to each lease. One over a link that is not there yet has the index 0.
    pub routes: BTreeMap<Cidr, Route>,
    /// Who is at the far ends of that link.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// At which node they are.
    pub fdb: BTreeMap<Mac, IpAddr>,
}

/// Whose a route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// It has our mark.
    Ours,
    /// It has the mark of whoever had this job before.
    Flannels,
    /// Anybody else's.
    Others,
}

/// A route that the kernel holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose it is.
    pub owner: Owner,
    /// Where it leads; nothing where it leads in another way than ours do.
    pub route: Option<Route>,
}

/// A link that the kernel holds under the name of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLink {
    /// Its index.
    pub index: u32,
    /// What it wraps packets in, if it is such a link at all.
    pub vxlan: Option<Vxlan>,
    /// Its addresses, with their prefixes.
    pub addresses: Vec<IpNet>,
    /// Whether it is up.
    pub up: bool,
    /// Whether it has our mark.
    pub is_marked: bool,
    /// Who is at its far ends, as far as that was put there.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// At which node.
    pub fdb: BTreeMap<Mac, IpAddr>,
}

/// What the kernel holds of one family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Have {
    /// The link with the name of ours.
    pub link: Option<HeldLink>,
    /// Links with our mark and another name, by their indexes: of a network as it was before.
    pub stale: Vec<u32>,
    /// All routes of the main table with the priority of ours or a better one, by where they lead to.
    pub routes: BTreeMap<Cidr, Vec<Held>>,
}
