//! What is known of a cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::mark::{Home, Owner};
use crate::Cidr;

/// A network of a cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The cloud's name for it.
    pub id: String,
    /// Its name for people, where networks have one.
    pub name: Option<String>,
    /// What is said of it.
    pub description: String,
    /// Its tags, everybody's.
    pub tags: BTreeSet<String>,
    /// What a change is guarded by, where the cloud counts changes.
    pub revision: Option<u64>,
    /// When it was made, as the cloud spells it; later ones sort later.
    pub created: String,
    /// What of it is not in order beside what is declared, in words: a link that is down, a rule that is gone. A cloud
    /// that keeps such things in order by itself has none.
    pub broken: Option<String>,
    /// Its subnets, everybody's.
    pub subnets: BTreeMap<String, HeldSubnet>,
}

/// A subnet of a network, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSubnet {
    /// Its name for people, where subnets have one.
    pub name: Option<String>,
    /// What is said of it.
    pub description: String,
    /// Its tags, everybody's.
    pub tags: BTreeSet<String>,
    /// What a change is guarded by.
    pub revision: Option<u64>,
    /// The range of its addresses.
    pub cidr: Cidr,
    /// Its gateway, if it has one.
    pub gateway: Option<IpAddr>,
    /// From where to where addresses are given out; empty where the cloud gives out none.
    pub pools: Vec<(IpAddr, IpAddr)>,
}

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// All that is ours.
    All,
    /// All that may be one object's.
    One(Clue),
}

/// What an object's network can be found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clue {
    /// The uid of the object.
    pub uid: String,
    /// The name that it was made under.
    pub name: String,
    /// Ids that it is said to have.
    pub ids: BTreeSet<String>,
}

/// What a step gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A network, as it is now; of its subnets nothing is said.
    Network(Held),
    /// All tags of a network.
    NetworkTags(String, BTreeSet<String>),
    /// A subnet of a network, as it is now.
    Subnet(String, String, HeldSubnet),
    /// All tags of a subnet of a network.
    SubnetTags(String, String, BTreeSet<String>),
    /// A subnet of a network is gone.
    SubnetGone(String, String),
    /// A network is gone.
    Gone(String),
}

impl Seen {
    /// The network that it is about.
    pub fn network(&self) -> &str {
        match self {
            Self::Network(held) => &held.id,
            Self::NetworkTags(id, _)
            | Self::Subnet(id, ..)
            | Self::SubnetTags(id, ..)
            | Self::SubnetGone(id, _)
            | Self::Gone(id) => id,
        }
    }
}

/// All that is ours in a cloud, as far as it was seen.
#[derive(Debug, Clone, Default)]
pub struct Cloud {
    held: BTreeMap<String, Held>,
    /// Grows with all that is learned beside the lists, so that a list which began before does not undo it.
    revision: u64,
    /// When something was last learned of a network, also that it is gone.
    learned: BTreeMap<String, u64>,
}

impl Cloud {
    /// What a list that begins now is newer than.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A network.
    pub fn get(&self, id: &str) -> Option<&Held> {
        self.held.get(id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// Takes a list of everything in that began at a revision; returns the networks of which that is news, as they were
    /// before.
    pub fn list(&mut self, since: u64, listed: Vec<Held>) -> BTreeMap<String, Option<Held>> {
        let is_older =
            |learned: &BTreeMap<String, u64>, id: &str| learned.get(id).is_some_and(|at| *at > since);
        let mut new: BTreeMap<String, Held> =
            listed.into_iter().map(|held| (held.id.clone(), held)).collect();
        new.retain(|id, _| !is_older(&self.learned, id));
        for (id, held) in &self.held {
            if is_older(&self.learned, id) {
                new.insert(id.clone(), held.clone());
            }
        }
        self.learned.retain(|_, at| *at > since);
        let mut old = std::mem::replace(&mut self.held, new);
        let added = self.held.keys().filter(|id| !old.contains_key(*id)).cloned();
        let mut changed: BTreeMap<String, Option<Held>> = added.map(|id| (id, None)).collect();
        old.retain(|id, held| self.held.get(id) != Some(held));
        changed.extend(old.into_iter().map(|(id, held)| (id, Some(held))));
        changed
    }

    /// Takes in all that was found of one object, instead of what was known of it before.
    pub fn find(&mut self, before: &BTreeSet<String>, found: Vec<Held>) {
        for id in before {
            self.learn(id);
            self.held.remove(id);
        }
        for held in found {
            self.learn(&held.id);
            self.held.insert(held.id.clone(), held);
        }
    }

    /// Takes in what a step gave.
    pub fn take_in(&mut self, seen: Seen) {
        self.learn(seen.network());
        match seen {
            Seen::Network(new) => {
                let known = self.held.remove(&new.id).unwrap_or_default();
                self.held.insert(new.id.clone(), Held { subnets: known.subnets, ..new });
            }
            Seen::NetworkTags(id, tags) => {
                if let Some(held) = self.held.get_mut(&id) {
                    held.tags = tags;
                }
            }
            Seen::Subnet(network, id, subnet) => {
                if let Some(held) = self.held.get_mut(&network) {
                    held.subnets.insert(id, subnet);
                }
            }
            Seen::SubnetTags(network, id, tags) => {
                if let Some(subnet) = self.held.get_mut(&network).and_then(|held| held.subnets.get_mut(&id)) {
                    subnet.tags = tags;
                }
            }
            Seen::SubnetGone(network, id) => {
                if let Some(held) = self.held.get_mut(&network) {
                    held.subnets.remove(&id);
                }
            }
            Seen::Gone(id) => drop(self.held.remove(&id)),
        }
    }

    fn learn(&mut self, id: &str) {
        self.revision += 1;
        self.learned.insert(id.to_owned(), self.revision);
    }
}

impl Held {
    /// Whose it is.
    pub fn owner(&self, home: &Home) -> Owner<'_> {
        home.owner(&self.tags, &self.description)
    }
}

impl HeldSubnet {
    /// Whose it is.
    pub fn owner(&self, home: &Home) -> Owner<'_> {
        home.owner(&self.tags, &self.description)
    }
}
