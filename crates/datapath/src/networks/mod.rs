//! Networks as bridges of a kernel: what there is, and how it is changed.
//!
//! ```text
//! links and addresses, two dumps ─▶ Links ─▶ table(links) = the rules that should be
//! ```
//!
//! [`mark`] says whose a bridge is, [`table`] keeps the networks apart. All of it happens in the network namespace that
//! the thread is in ([`namespace`]).

mod change;
pub mod mark;
pub mod namespace;
mod observe;
pub mod settings;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use causeway_core::Cidr;
use causeway_core::networks::Home;
use ipnet::IpNet;

use crate::netlink::Netlink;
use mark::{Group, is_plain};

/// A bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridge {
    /// The kernel's number for it.
    pub index: u32,
    /// Its group.
    pub group: Group,
    /// The words of its alias.
    pub tags: BTreeSet<String>,
    /// Whether it is up.
    pub up: bool,
    /// Whether it passes packets on at once: it takes no part in the spanning tree protocol.
    pub plain: bool,
    /// Its lasting addresses that others can have packets sent to.
    pub addresses: BTreeSet<IpNet>,
}

impl Bridge {
    /// Whether it has a mark of Causeway's, of whichever cluster.
    pub fn is_ours(&self) -> bool {
        self.group.is_ours() || Home::of(&self.tags).is_some()
    }

    /// The ranges of its addresses.
    pub fn ranges(&self) -> BTreeSet<Cidr> {
        self.addresses.iter().copied().map(Cidr::containing).collect()
    }

    /// Its addresses in a range.
    pub fn addresses_of(&self, range: Cidr) -> impl Iterator<Item = IpNet> {
        self.addresses.iter().copied().filter(move |address| Cidr::containing(*address) == range)
    }
}

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// All bridges by name, everybody's.
    pub bridges: BTreeMap<String, Bridge>,
    /// The addresses of all other links, by their number.
    pub elsewhere: Vec<(u32, IpNet)>,
}

impl Links {
    /// The bridges with a mark of Causeway's. One of an odd name was never marked by us.
    pub fn ours(&self) -> impl Iterator<Item = (&str, &Bridge)> {
        let ours = self.bridges.iter().filter(|(name, bridge)| is_plain(name) && bridge.is_ours());
        ours.map(|(name, bridge)| (name.as_str(), bridge))
    }

    /// A link with addresses of a range, other than this one: packets for these would go to one of the two.
    pub fn overlap(&self, range: Cidr, but: u32) -> Option<(u32, Cidr)> {
        let bridges = self
            .bridges
            .values()
            .flat_map(|bridge| bridge.addresses.iter().map(|address| (bridge.index, *address)));
        let all = bridges.chain(self.elsewhere.iter().copied());
        let ranges = all.map(|(index, address)| (index, Cidr::containing(address)));
        ranges.filter(|(index, _)| *index != but).find(|(_, other)| other.overlaps(range))
    }
}

/// The kernel of a network namespace.
pub struct Kernel(Netlink);

impl Kernel {
    /// That of the network namespace that this thread is in.
    pub fn open() -> io::Result<Self> {
        Netlink::open().map(Self)
    }

    /// All bridges and addresses, by two dumps.
    pub fn observe(&mut self) -> io::Result<Links> {
        observe::observe(&mut self.0)
    }

    /// The name of a link.
    pub fn name_of(&mut self, index: u32) -> io::Result<Option<String>> {
        observe::name_of(&mut self.0, index)
    }

    /// Where packets for a range, or for a part of it, go by now, if not to this link and not where all others go.
    pub fn route_elsewhere(&mut self, range: Cidr, but: u32) -> io::Result<Option<Cidr>> {
        observe::route_elsewhere(&mut self.0, range, but)
    }

    /// The names of links that are attached to a bridge.
    pub fn ports(&mut self, index: u32) -> io::Result<Vec<String>> {
        observe::ports(&mut self.0, index)
    }

    /// Makes a bridge that is up. That there is a link of this name is an error.
    pub fn create(&mut self, name: &str, group: Group) -> io::Result<()> {
        change::create(&mut self.0, name, group)
    }

    /// Marks a bridge.
    pub fn mark(&mut self, index: u32, group: Group, alias: Option<&str>) -> io::Result<()> {
        change::mark(&mut self.0, index, group, alias)
    }

    /// Has a bridge up and pass packets on.
    pub fn put_in_order(&mut self, index: u32) -> io::Result<()> {
        change::put_in_order(&mut self.0, index)
    }

    /// Deletes a bridge.
    pub fn delete(&mut self, index: u32) -> io::Result<()> {
        change::delete(&mut self.0, index)
    }

    /// Puts an address on a bridge, then takes others from it; at no time has it none, and it keeps its routes where
    /// [`settings::of_bridge`] could be set.
    pub fn move_address(&mut self, index: u32, put: Option<IpNet>, drop: &[IpNet]) -> io::Result<()> {
        change::move_address(&mut self.0, index, put, drop)
    }
}
