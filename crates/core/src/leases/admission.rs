//! Which leases count.
//!
//! A node that claims what is another's takes its traffic, so of two that overlap only the older one counts, and both are
//! named. What this node has itself is nobody else's, whoever is older.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::{Backend, Lease, Mac, Mode, Network, Node, Place};
use crate::Cidr;

/// Why a node cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It says something that makes no sense.
    Unreadable(String),
    /// Its part is not of the network.
    Outside(Cidr, Cidr),
    /// It claims this node's own address.
    OurAddress(String),
    /// Its part overlaps this node's.
    OurSubnet(Cidr, Cidr),
    /// Its part overlaps that of an older node.
    Overlaps(Cidr, String, Cidr),
    /// It is reached in another way than this node.
    OtherBackend(String, &'static str),
    /// It is in another VXLAN.
    OtherVni(u32, u32),
    /// Its address is one that pods have.
    AddressOfPods(String, Cidr),
    /// It is said to be where an older node is.
    SameAddress(String, String),
    /// Its end of the VXLAN goes by the same address as that of an older node, or of this one.
    SameEnd(Mac, Option<String>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => f.write_str(why),
            Self::Outside(subnet, range) => write!(f, "its subnet {subnet} is not in the network {range}"),
            Self::OurAddress(address) => write!(f, "its public address {address} is this node's own"),
            Self::OurSubnet(subnet, ours) => {
                write!(f, "its subnet {subnet} overlaps this node's own, {ours}")
            }
            Self::Overlaps(subnet, node, other) => {
                write!(f, "its subnet {subnet} overlaps {other} of node {node}, which is older")
            }
            Self::OtherBackend(theirs, ours) => {
                write!(f, "its backend is `{theirs}`, and this node's is `{ours}`")
            }
            Self::OtherVni(theirs, ours) => write!(f, "its VNI is {theirs}, and this node's is {ours}"),
            Self::AddressOfPods(address, range) => {
                write!(f, "its public address {address} is in the network of pods, {range}")
            }
            Self::SameAddress(address, node) => {
                write!(f, "its public address {address} is that of node {node}, which is older")
            }
            Self::SameEnd(mac, Some(node)) => {
                write!(f, "its VtepMAC {mac} is that of node {node}, which is older")
            }
            Self::SameEnd(mac, None) => write!(f, "its VtepMAC {mac} is this node's own"),
        }
    }
}

/// Nodes that are reached, and why others are not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted<'a> {
    /// Their leases, by name.
    pub leases: BTreeMap<&'a str, &'a Lease>,
    /// The others.
    pub refused: BTreeMap<&'a str, Refusal>,
}

/// Judges all other nodes of a network.
pub fn admit<'a>(
    network: &Network,
    place: &Place,
    nodes: impl IntoIterator<Item = (&'a str, &'a Node)>,
) -> Admitted<'a> {
    let mut admitted = Admitted::default();
    let mut sound = Vec::new();
    for (name, node) in nodes {
        let unreadable = node.leases.iter().find_map(|lease| lease.as_ref().err());
        match (node.lease(network.range.family()), unreadable) {
            (Some(lease), _) => match refusal(network, place, lease) {
                Some(refusal) => drop(admitted.refused.insert(name, refusal)),
                None => sound.push((node.since, name, lease)),
            },
            (None, Some(why)) => {
                admitted.refused.insert(name, Refusal::Unreadable(why.to_string()));
            }
            // It has no part in this network.
            (None, None) => {}
        }
    }
    sound.sort_unstable_by_key(|(since, name, _)| (*since, *name));
    let mut taken = Taken::default();
    for (_, name, lease) in sound {
        match taken.take(name, lease) {
            Some(refusal) => drop(admitted.refused.insert(name, refusal)),
            None => drop(admitted.leases.insert(name, lease)),
        }
    }
    admitted
}

/// What older nodes have.
#[derive(Default)]
struct Taken<'a> {
    subnets: BTreeMap<Cidr, &'a str>,
    addresses: BTreeMap<IpAddr, &'a str>,
    ends: BTreeMap<Mac, &'a str>,
}

impl<'a> Taken<'a> {
    /// Takes what a lease claims, all or nothing; why nothing, if so.
    fn take(&mut self, name: &'a str, lease: &Lease) -> Option<Refusal> {
        if let Some((subnet, holder)) = holder(&self.subnets, lease.subnet) {
            return Some(Refusal::Overlaps(lease.subnet, holder.to_owned(), subnet));
        }
        if let Some(holder) = self.addresses.get(&lease.public) {
            return Some(Refusal::SameAddress(lease.public.to_string(), (*holder).to_owned()));
        }
        if let Backend::Vxlan { mac, .. } = lease.backend {
            // Its frames would go wherever the last of them is.
            if let Some(holder) = self.ends.get(&mac) {
                return Some(Refusal::SameEnd(mac, Some((*holder).to_owned())));
            }
            self.ends.insert(mac, name);
        }
        self.subnets.insert(lease.subnet, name);
        self.addresses.insert(lease.public, name);
        None
    }
}

/// Who has a range that overlaps this one. Those that are taken are apart from each other and in order: it is the one that
/// begins before this one, or the one after.
fn holder<'a>(taken: &BTreeMap<Cidr, &'a str>, subnet: Cidr) -> Option<(Cidr, &'a str)> {
    let before = taken.range(..=subnet).next_back();
    let after = taken.range(subnet..).next();
    let found = before.into_iter().chain(after).find(|(range, _)| range.overlaps(subnet));
    found.map(|(range, name)| (*range, *name))
}

fn refusal(network: &Network, place: &Place, lease: &Lease) -> Option<Refusal> {
    let Lease { subnet, public, backend } = lease;
    if [place.public, place.local].contains(public) {
        return Some(Refusal::OurAddress(public.to_string()));
    }
    // Who does not know the network gives all addresses for it.
    if network.range.prefix() > 0 && network.range.contains(*public) {
        return Some(Refusal::AddressOfPods(public.to_string(), network.range));
    }
    if !network.range.covers(*subnet) {
        return Some(Refusal::Outside(*subnet, network.range));
    }
    if subnet.overlaps(place.subnet) {
        return Some(Refusal::OurSubnet(*subnet, place.subnet));
    }
    match (network.mode, backend) {
        (Mode::HostGw, Backend::HostGw) => None,
        (Mode::Vxlan { vni: ours, .. }, Backend::Vxlan { vni, .. }) if *vni != ours => {
            Some(Refusal::OtherVni(*vni, ours))
        }
        (Mode::Vxlan { .. }, Backend::Vxlan { mac, .. }) => {
            (*mac == place.mac).then_some(Refusal::SameEnd(*mac, None))
        }
        (mode, other) => Some(Refusal::OtherBackend(other.name().to_owned(), mode.name())),
    }
}
