//! A node's kernel: what it holds of the ways to other nodes, and how that is changed.

mod apply;
mod links;
mod monitor;
mod observe;
mod rules;
pub mod traffic;

use std::io;
use std::net::IpAddr;

use causeway_core::Family;
use causeway_core::leases::interface::{LinkSeen, Way};
use causeway_core::leases::{Have, Plan};
use netlink_packet_route::AddressFamily;

use crate::netlink::Netlink;

pub use apply::Failure;
pub use monitor::{Heard, Interest, Monitor};

/// What marks our routes.
pub const PROTOCOL: u8 = 158;
/// What marks our links, in their alias.
const MARK: &str = "causeway";
/// What marks flannel's: that of whatever does not say.
const BOOT: u8 = 3;

/// The kernel of a node.
pub struct Kernel(Netlink);

impl Kernel {
    /// That of the network namespace that this thread is in.
    pub fn open() -> io::Result<Self> {
        Netlink::open().map(Self)
    }

    /// Under which number the kernel knows this conversation, and tells others who changed something.
    pub fn port(&self) -> Option<u32> {
        self.0.port()
    }

    /// What it holds of a family, and the link of this name if it has one.
    pub fn observe(&mut self, family: Family, link: Option<&str>) -> io::Result<Have> {
        observe::observe(&mut self.0, family, link)
    }

    /// All links of the node.
    pub fn links(&mut self) -> io::Result<Vec<LinkSeen>> {
        links::links(&mut self.0)
    }

    /// Where packets go that no other route is for.
    pub fn default_way(&mut self, family: Family) -> io::Result<Way> {
        links::default_way(&mut self.0, family)
    }

    /// Where packets to an address go.
    pub fn way_to(&mut self, address: IpAddr) -> io::Result<Way> {
        links::way_to(&mut self.0, address)
    }

    /// Carries a plan out; whatever fails holds up nothing else.
    pub fn apply(&mut self, family: Family, plan: &Plan, have: &Have) -> io::Result<Vec<Failure>> {
        apply::apply(&mut self.0, family, plan, have)
    }
}

fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

/// The alias of our links of a family.
fn mark(family: Family) -> String {
    format!("{MARK} {family}")
}

/// Of two routes that lead to the same the one with the lower number is taken; this is what a route has that does not say.
fn priority(family: Family) -> u32 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1024,
    }
}
