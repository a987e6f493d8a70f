//! What is known of the network, and what of it concerns this node's kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::network::overhead;
use super::traffic::Traffic;
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

/// What this node is told by others, and what it has said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// Its parts of the network, or what is wrong with one.
    pub subnets: Vec<Result<Cidr, String>>,
    /// At which addresses it is to be reached, whatever it has itself, or what is wrong with one.
    pub overwritten: BTreeMap<Family, Result<IpAddr, String>>,
    /// What its ends of VXLANs were called when it last said so.
    pub macs: BTreeMap<Family, Mac>,
    /// What it says of itself, by name.
    pub announced: BTreeMap<String, String>,
    /// Whether it is said to have a network.
    pub is_available: bool,
    /// The version of all that.
    pub version: String,
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

/// What the kernel holds of a family, as it was last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// How many leases it has the way to.
    pub routes: usize,
    /// Leases whose place is taken by somebody else's route.
    pub contested: Vec<Cidr>,
    /// What could not be changed, and why.
    pub failed: Vec<String>,
}

/// What was seen.
#[derive(Debug, Clone)]
pub enum Event {
    /// Nodes came, changed or went.
    Nodes(Change<String, Seen>),
    /// The link by which this node is reached is another one, or why there is none.
    Interface(Family, Result<Interface, String>),
    /// What the kernel holds of a family, or why that cannot be seen.
    Held(Family, Result<Holding, String>),
}

/// What is handled as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// What the kernel holds of a family.
    Kernel(Family),
    /// What the kernel does with packets of pods.
    Traffic,
    /// What this node says of itself: to the others, and to its CNI plugin.
    Announcement,
}

/// What is known from the start.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The name of this node.
    pub name: String,
    /// The networks, one for each family.
    pub networks: Vec<Network>,
    /// What its ends of VXLANs are called, unless it has said otherwise before.
    pub macs: BTreeMap<Family, Mac>,
    /// The largest packet on the link between nodes, where the link's own is not to be taken.
    pub mtu: Option<u32>,
    /// At which addresses it is reached, where the link's own are not to be taken.
    pub public: Vec<IpAddr>,
    /// Whether addresses of pods are hidden from the outside.
    pub masquerade: bool,
    /// Whether packets from and to pods are let through.
    pub forward: bool,
}

/// What this node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Its leases, one for each network.
    pub leases: Vec<(Network, Lease)>,
    /// The largest packet of its pods.
    pub mtu: u32,
}

/// All that is known.
#[derive(Debug, Clone)]
pub struct State {
    given: Given,
    /// Whether this node was seen: what its ends are called is decided by then.
    met: bool,
    nodes: BTreeMap<String, Seen>,
    interfaces: BTreeMap<Family, Result<Interface, String>>,
    held: BTreeMap<Family, Result<Holding, String>>,
    /// How often what the kernel should hold may have changed.
    revision: u64,
}

impl State {
    /// Of one node, without knowledge of others.
    pub fn new(given: Given) -> Self {
        let (nodes, interfaces, held) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { given, met: false, nodes, interfaces, held, revision: 0 }
    }

    /// The networks, one for each family.
    pub fn networks(&self) -> &[Network] {
        &self.given.networks
    }

    /// What is known of this node itself.
    pub fn own(&self) -> Option<&Own> {
        self.nodes.get(&self.given.name)?.own.as_ref()
    }

    /// How often what the kernel should hold may have changed: while this stays, that does.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What the kernel holds of a family, or why that cannot be seen; nothing before anybody looked.
    pub fn held(&self, family: Family) -> Option<&Result<Holding, String>> {
        self.held.get(&family)
    }

    /// The link by which this node is reached, of a family, if there is one.
    pub fn interface(&self, family: Family) -> Option<&Interface> {
        self.interfaces.get(&family)?.as_ref().ok()
    }

    /// What this node is in the network of a family; or what is still waited for, in a sentence.
    pub fn place(&self, family: Family) -> Result<(&Network, Place), String> {
        let name = &self.given.name;
        let network = self.networks().iter().find(|network| network.range.family() == family);
        let network = network.ok_or_else(|| format!("{family} is not enabled"))?;
        let own = self.own().ok_or_else(|| format!("there is no Node {name}"))?;
        let subnet = of_family(&own.subnets, family)
            .unwrap_or_else(|| Err(format!("Node {name} has no {family} podCIDR yet")))?;
        if !network.range.covers(subnet) {
            return Err(format!(
                "the subnet {subnet} of Node {name} is not in the network {}",
                network.range
            ));
        }
        let interface = self.interfaces.get(&family);
        let interface = interface.ok_or_else(|| format!("no {family} interface was found yet"))?.as_ref();
        let interface = interface.map_err(Clone::clone)?;
        let (address, link) = (interface.address, &interface.name);
        if address.is_loopback() || network.range.contains(address) {
            return Err(format!(
                "the interface {link} has {address}, at which no other node can reach this one"
            ));
        }
        let overwritten = own.overwritten.get(&family).cloned().transpose()?;
        let given = self.given.public.iter().copied().find(|address| Family::of(*address) == family);
        let public = overwritten.or(given).unwrap_or(interface.address);
        if network.mode == Mode::HostGw && public != interface.address {
            return Err(format!(
                "host-gw needs the interface's own address: {} has {}, and {public} is asked for",
                interface.name, interface.address
            ));
        }
        let Interface { index: link, mtu, neighbours, .. } = interface.clone();
        let mac = self.given.macs.get(&family).copied().unwrap_or_default();
        let mtu = self.given.mtu.unwrap_or(mtu);
        let local = interface.address;
        Ok((network, Place { subnet, public, local, link, mtu, neighbours, mac }))
    }

    /// What is waited for, of all families; nothing where all have their place.
    pub fn waiting(&self) -> Option<String> {
        let mut whys: Vec<String> = self.families().filter_map(|family| self.place(family).err()).collect();
        whys.dedup();
        (!whys.is_empty()).then(|| whys.join("; "))
    }

    /// Which nodes are reached over a family, and why others are not.
    pub fn admitted(&self, network: &Network, place: &Place) -> Admitted<'_> {
        let others = self.nodes.iter().filter(|(name, _)| **name != self.given.name);
        admit(network, place, others.filter_map(|(name, seen)| Some((name.as_str(), seen.node.as_ref()?))))
    }

    /// What the kernel should hold of a family, or what is waited for: then it holds what it held.
    pub fn want(&self, family: Family) -> Result<(Want, Admitted<'_>), String> {
        let (network, place) = self.place(family)?;
        let admitted = self.admitted(network, &place);
        Ok((compile(network, &place, &admitted), admitted))
    }

    /// What the kernel should do with packets of pods; or what is waited for.
    pub fn traffic(&self) -> Result<Traffic, String> {
        let range = |network: &Network| {
            let (network, place) = self.place(network.range.family())?;
            Ok((network.range, place.subnet))
        };
        let ranges = self.networks().iter().map(range).collect::<Result<_, String>>()?;
        Ok(Traffic { ranges, masquerade: self.given.masquerade, forward: self.given.forward })
    }

    /// What this node says of itself; or what is waited for. Nothing is said before the kernel holds what others rely on.
    pub fn announcement(&self) -> Result<Announcement, String> {
        let mut announcement = Announcement { leases: Vec::new(), mtu: u32::MAX };
        for network in self.networks() {
            let family = network.range.family();
            let (network, place) = self.place(family)?;
            let waits = || format!("what the kernel holds of {family} was not seen yet");
            self.held(family).ok_or_else(waits)?.as_ref().map_err(Clone::clone)?;
            let (backend, header) = match network.mode {
                Mode::HostGw => (Backend::HostGw, 0),
                Mode::Vxlan { vni, .. } => (Backend::Vxlan { vni, mac: place.mac }, overhead(family)),
            };
            let lease = Lease { subnet: place.subnet, public: place.public, backend };
            announcement.leases.push((*network, lease));
            announcement.mtu = announcement.mtu.min(place.mtu.saturating_sub(header));
        }
        Ok(announcement)
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        self.networks().iter().map(|network| network.range.family())
    }

    fn take_nodes(&mut self, change: Change<String, Seen>) -> BTreeSet<Scope> {
        let mut touched = BTreeSet::new();
        for (name, before, after) in change.carry_out(&mut self.nodes) {
            if name == self.given.name {
                touched
                    .extend(self.take_own(before.and_then(|seen| seen.own), after.and_then(|seen| seen.own)));
                continue;
            }
            // What is wrong with one may be about either family.
            let concern = |seen: &Option<Seen>, family| {
                let node = seen.as_ref()?.node.as_ref()?;
                let is_of = |lease: &&Result<Lease, _>| {
                    lease.as_ref().map_or(true, |it| it.subnet.family() == family)
                };
                let leases: Vec<_> = node.leases.iter().filter(is_of).cloned().collect();
                (!leases.is_empty()).then_some((node.since, leases))
            };
            let differs = |family: &Family| concern(&before, *family) != concern(&after, *family);
            touched.extend(self.families().filter(differs).map(Scope::Kernel));
        }
        touched
    }

    /// Takes in what this node is told. What its ends of VXLANs are called is what it said when it was first seen: others
    /// know them by that, and what somebody writes there later is put right.
    fn take_own(&mut self, before: Option<Own>, after: Option<Own>) -> BTreeSet<Scope> {
        if let Some(own) = &after
            && !self.met
        {
            self.met = true;
            self.given.macs.extend(&own.macs);
        }
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        if (&before.subnets, &before.overwritten) != (&after.subnets, &after.overwritten) {
            return room::State::everything(self);
        }
        let differs = (before.announced, before.is_available) != (after.announced, after.is_available);
        differs.then_some(Scope::Announcement).into_iter().collect()
    }
}

/// The one of a family, or what is wrong with any.
fn of_family(subnets: &[Result<Cidr, String>], family: Family) -> Option<Result<Cidr, String>> {
    let mut found = subnets.iter().filter(|subnet| subnet.as_ref().is_ok_and(|it| it.family() == family));
    let wrong = || subnets.iter().find(|subnet| subnet.is_err());
    found.next().or_else(wrong).cloned()
}

impl room::State for State {
    type Event = Event;
    type Scope = Scope;

    fn apply(&mut self, event: Event) -> BTreeSet<Scope> {
        let touched = match event {
            Event::Nodes(change) => self.take_nodes(change),
            Event::Interface(family, interface) => {
                if self.interfaces.get(&family) == Some(&interface) {
                    return BTreeSet::new();
                }
                self.interfaces.insert(family, interface);
                [Scope::Kernel(family), Scope::Traffic, Scope::Announcement].into()
            }
            Event::Held(family, held) => {
                let was_seen = self.held.get(&family).map(Result::is_ok);
                let differs = was_seen != Some(held.is_ok());
                self.held.insert(family, held);
                return differs.then_some(Scope::Announcement).into_iter().collect();
            }
        };
        if touched.iter().any(|scope| matches!(scope, Scope::Kernel(_))) {
            self.revision += 1;
        }
        touched
    }

    fn everything(&self) -> BTreeSet<Scope> {
        self.families().map(Scope::Kernel).chain([Scope::Traffic, Scope::Announcement]).collect()
    }
}
