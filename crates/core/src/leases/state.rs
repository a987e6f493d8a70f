//! What is known of the network, and what of it concerns this node's kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Admitted, Backend, Lease, Mac, Mode, Network, Node, Place, Want, admit, compile};
use crate::room::{self, Change};
use crate::{Cidr, Family};

/// A node as it is seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// What it announces, if it has a part in the network.
    pub node: Option<Node>,
    /// What only matters of this node itself.
    pub own: Option<Own>,
}

/// What this node is told by others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// Its parts of the network, or what is wrong with one.
    pub subnets: Vec<Result<Cidr, String>>,
    /// At which addresses it is to be reached, whatever it has itself, or what is wrong with one.
    pub overwritten: Vec<Result<IpAddr, String>>,
}

/// The link by which this node is reached, of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its largest packet.
    pub mtu: u32,
    /// The address at which others reach this node.
    pub address: IpAddr,
    /// What is reached over it without a router.
    pub neighbours: Vec<Cidr>,
}

/// What was seen.
#[derive(Debug, Clone)]
pub enum Event {
    /// Nodes came, changed or went.
    Nodes(Change<String, Seen>),
    /// The link by which this node is reached is another one, or why there is none.
    Interface(Family, Result<Interface, String>),
}

/// What is handled as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// What the kernel holds of a family.
    Kernel(Family),
    /// What this node says of itself: to the others, and to its CNI plugin.
    Announcement,
}

/// All that is known.
#[derive(Debug, Clone)]
pub struct State {
    name: String,
    networks: Vec<Network>,
    /// Of the ends of VXLANs.
    mac: Mac,
    nodes: BTreeMap<String, Seen>,
    interfaces: BTreeMap<Family, Result<Interface, String>>,
}

impl State {
    /// Of the node of a name, in these networks.
    pub fn new(name: &str, networks: Vec<Network>, mac: Mac) -> Self {
        Self { name: name.into(), networks, mac, nodes: BTreeMap::new(), interfaces: BTreeMap::new() }
    }

    /// The networks, one for each family.
    pub fn networks(&self) -> &[Network] {
        &self.networks
    }

    /// What this node is in the network of a family; or what is still waited for, in a sentence.
    pub fn place(&self, family: Family) -> Result<(&Network, Place), String> {
        let network = self.networks.iter().find(|network| network.range.family() == family);
        let network = network.ok_or_else(|| format!("{family} is not enabled"))?;
        let seen = self.nodes.get(&self.name).and_then(|seen| seen.own.as_ref());
        let own = seen.ok_or_else(|| format!("there is no Node {}", self.name))?;
        let subnet = own.subnets.iter().find_map(|subnet| match subnet {
            Ok(subnet) if subnet.family() == family => Some(Ok(*subnet)),
            Ok(_) => None,
            Err(why) => Some(Err(why.clone())),
        });
        let waiting = || format!("Node {} has no {family} podCIDR yet", self.name);
        let subnet = subnet.unwrap_or_else(|| Err(waiting()))?;
        if !network.range.covers(subnet) {
            return Err(format!(
                "the subnet {subnet} of Node {} is not in the network {}",
                self.name, network.range
            ));
        }
        let interface = self.interfaces.get(&family);
        let interface = interface.ok_or_else(|| format!("no {family} interface was found yet"))?.as_ref();
        let interface = interface.map_err(Clone::clone)?;
        let overwritten = own.overwritten.iter().find_map(|address| match address {
            Ok(address) if Family::of(*address) == family => Some(Ok(*address)),
            Ok(_) => None,
            Err(why) => Some(Err(why.clone())),
        });
        let public = overwritten.transpose()?.unwrap_or(interface.address);
        if network.mode == Mode::HostGw && public != interface.address {
            return Err(format!(
                "host-gw needs the interface's own address: {} has {}, and {public} is asked for",
                interface.name, interface.address
            ));
        }
        let Interface { index: link, mtu, neighbours, .. } = interface.clone();
        Ok((network, Place { subnet, public, link, mtu, neighbours, mac: self.mac }))
    }

    /// Which nodes are reached over a family, and why others are not.
    pub fn admitted(&self, network: &Network, place: &Place) -> Admitted<'_> {
        let others = self.nodes.iter().filter(|(name, _)| **name != self.name);
        admit(network, place, others.filter_map(|(name, seen)| Some((name.as_str(), seen.node.as_ref()?))))
    }

    /// What the kernel should hold of a family, or what is waited for: then it holds what it held.
    pub fn want(&self, family: Family) -> Result<(Want, Admitted<'_>), String> {
        let (network, place) = self.place(family)?;
        let admitted = self.admitted(network, &place);
        Ok((compile(network, &place, &admitted), admitted))
    }

    /// What this node says of itself; or what is waited for.
    pub fn leases(&self) -> Result<Vec<Lease>, String> {
        let lease = |network: &Network| {
            let (network, place) = self.place(network.range.family())?;
            let backend = match network.mode {
                Mode::HostGw => Backend::HostGw,
                Mode::Vxlan { vni, .. } => Backend::Vxlan { vni, mac: place.mac },
            };
            Ok(Lease { subnet: place.subnet, public: place.public, backend })
        };
        self.networks.iter().map(lease).collect()
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        self.networks.iter().map(|network| network.range.family())
    }

    fn take_nodes(&mut self, change: Change<String, Seen>) -> BTreeSet<Scope> {
        let mut touched = BTreeSet::new();
        for (name, before, after) in change.carry_out(&mut self.nodes) {
            if name == self.name {
                touched.extend(room::State::everything(self));
                continue;
            }
            let lease = |seen: &Option<Seen>, family| seen.as_ref()?.node.as_ref()?.lease(family).cloned();
            let since = |seen: &Option<Seen>| Some(seen.as_ref()?.node.as_ref()?.since);
            let differs = |family: &Family| {
                let (before_lease, after_lease) = (lease(&before, *family), lease(&after, *family));
                let either = before_lease.is_some() || after_lease.is_some();
                before_lease != after_lease || either && since(&before) != since(&after)
            };
            touched.extend(self.families().filter(differs).map(Scope::Kernel));
        }
        touched
    }
}

impl room::State for State {
    type Event = Event;
    type Scope = Scope;

    fn apply(&mut self, event: Event) -> BTreeSet<Scope> {
        match event {
            Event::Nodes(change) => self.take_nodes(change),
            Event::Interface(family, interface) => {
                if self.interfaces.get(&family) == Some(&interface) {
                    return BTreeSet::new();
                }
                self.interfaces.insert(family, interface);
                [Scope::Kernel(family), Scope::Announcement].into()
            }
        }
    }

    fn everything(&self) -> BTreeSet<Scope> {
        self.families().map(Scope::Kernel).chain([Scope::Announcement]).collect()
    }
}
