//! A cloud in memory that behaves like Neutron where it matters: tags come after making, revisions rise, ranges of one
//! network must not overlap, what is in use stays.

use std::collections::{BTreeMap, BTreeSet};

use causeway_core::Cidr;
use causeway_core::networks::mark::Owner;
use causeway_core::networks::{Held, HeldSubnet, Home, Look, Seen, Step, Trouble, pools};

/// The cloud.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sky {
    pub(crate) networks: BTreeMap<String, Held>,
    /// Networks that something is attached to.
    pub(crate) used: BTreeSet<String>,
    /// How many networks there may be.
    pub(crate) quota: Option<usize>,
    /// How many more changes get through.
    pub(crate) made: u64,
    pub(crate) changes: Vec<Step>,
}

impl Sky {
    fn id(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}{:04}", self.made)
    }

    pub(crate) fn look(&self, home: &Home, look: &Look) -> Vec<Held> {
        let is_found = |held: &&Held| match look {
            Look::All => {
                held.tags.contains(&home.home_tag())
                    || held.tags.contains(&home.cluster_tag())
                    || held.description == home.description()
            }
            Look::One(clue) => {
                held.tags.contains(&Home::object_tag(&clue.uid))
                    || held.description == home.description() && held.name.as_ref() == Some(&clue.name)
                    || clue.ids.contains(&held.id)
            }
        };
        self.networks.values().filter(is_found).cloned().collect()
    }

    pub(crate) fn foreign(&mut self, name: &str, cidr: Option<&str>) -> String {
        let (id, subnet) = (self.id("n"), self.id("s"));
        let range = cidr.map(|text| text.parse::<Cidr>().expect("a range"));
        let subnets = range.map(|cidr| (subnet, plain_subnet(name, cidr)));
        let held = Held {
            id: id.clone(),
            name: Some(name.into()),
            revision: Some(1),
            created: format!("{:04}", self.made),
            subnets: subnets.into_iter().collect(),
            ..Held::default()
        };
        self.networks.insert(id.clone(), held);
        id
    }

    pub(crate) fn apply(&mut self, step: &Step) -> Result<Seen, Trouble> {
        self.changes.push(step.clone());
        match step {
            Step::CreateNetwork { name, description, .. } => {
                if self.quota.is_some_and(|most| self.networks.len() >= most) {
                    return Err(Trouble::Quota("no more networks".into()));
                }
                let id = self.id("n");
                let held = Held {
                    id: id.clone(),
                    name: Some(name.clone()),
                    description: description.clone(),
                    revision: Some(1),
                    created: format!("{:04}", self.made),
                    ..Held::default()
                };
                self.networks.insert(id, held.clone());
                Ok(Seen::Network(held))
            }
            Step::TagNetwork { id, tags } => {
                let held = self.network(id, None)?;
                held.tags = tags.clone();
                Ok(Seen::NetworkTags(id.clone(), tags.clone()))
            }
            Step::ChangeNetwork { id, revision, name, description } => {
                let held = self.network(id, *revision)?;
                held.name = name.clone().or(held.name.take());
                held.description = description.clone().unwrap_or_else(|| held.description.clone());
                Ok(Seen::Network(held.clone()))
            }
            Step::Repair { id, .. } => {
                let held = self.network(id, None)?;
                held.broken = None;
                Ok(Seen::Network(held.clone()))
            }
            Step::CreateSubnet { network, name, description, spec } => {
                let id = self.id("s");
                let held = self.network(network, None)?;
                if held.subnets.values().any(|known| known.cidr.overlaps(spec.cidr)) {
                    return Err(Trouble::Refused("it overlaps with another subnet".into()));
                }
                let subnet = HeldSubnet {
                    description: description.clone(),
                    gateway: Some(spec.gateway),
                    pools: pools::all_but(spec.cidr, spec.gateway),
                    ..plain_subnet(name, spec.cidr)
                };
                held.subnets.insert(id.clone(), subnet.clone());
                Ok(Seen::Subnet(network.clone(), id, subnet))
            }
            Step::TagSubnet { network, id, tags } => {
                self.subnet(network, id, None)?.tags = tags.clone();
                Ok(Seen::SubnetTags(network.clone(), id.clone(), tags.clone()))
            }
            Step::ChangeSubnet { network, id, revision, change } => {
                let subnet = self.subnet(network, id, *revision)?;
                let pools = change.pools.clone().unwrap_or_else(|| subnet.pools.clone());
                if let Some(gateway) = change.gateway {
                    if pools.iter().any(|(first, last)| (*first..=*last).contains(&gateway)) {
                        return Err(Trouble::Refused("the gateway is in the pool".into()));
                    }
                    subnet.gateway = Some(gateway);
                }
                subnet.pools = pools;
                subnet.name = change.name.clone().or(subnet.name.take());
                subnet.description = change.description.clone().unwrap_or_else(|| subnet.description.clone());
                Ok(Seen::Subnet(network.clone(), id.clone(), subnet.clone()))
            }
            Step::DeleteSubnet { network, id, revision } => {
                if self.used.contains(network) {
                    return Err(Trouble::InUse("a port".into()));
                }
                self.subnet(network, id, *revision)?;
                self.network(network, None)?.subnets.remove(id);
                Ok(Seen::SubnetGone(network.clone(), id.clone()))
            }
            Step::DeleteNetwork { id, revision } => {
                if self.used.contains(id) {
                    return Err(Trouble::InUse("a port".into()));
                }
                match self.network(id, *revision) {
                    // As good as deleted.
                    Ok(_) | Err(Trouble::Missing(_)) => drop(self.networks.remove(id)),
                    Err(trouble) => return Err(trouble),
                }
                Ok(Seen::Gone(id.clone()))
            }
        }
    }

    /// A network at a revision, which rises.
    pub(crate) fn network(&mut self, id: &str, revision: Option<u64>) -> Result<&mut Held, Trouble> {
        let held = self.networks.get_mut(id).ok_or_else(|| Trouble::Missing(id.into()))?;
        rise(&mut held.revision, revision)?;
        Ok(held)
    }

    pub(crate) fn subnet(
        &mut self,
        network: &str,
        id: &str,
        revision: Option<u64>,
    ) -> Result<&mut HeldSubnet, Trouble> {
        let held = self.networks.get_mut(network).ok_or_else(|| Trouble::Missing(network.into()))?;
        let subnet = held.subnets.get_mut(id).ok_or_else(|| Trouble::Missing(id.into()))?;
        rise(&mut subnet.revision, revision)?;
        Ok(subnet)
    }

    /// Those that are not ours by any mark.
    pub(crate) fn others(&self, home: &Home) -> BTreeMap<String, Held> {
        let is_foreign = |held: &Held| matches!(held.owner(home), Owner::Others | Owner::Namesake);
        let all = self.networks.iter().filter(|(_, held)| is_foreign(held));
        all.map(|(id, held)| (id.clone(), held.clone())).collect()
    }
}

fn rise(known: &mut Option<u64>, revision: Option<u64>) -> Result<(), Trouble> {
    if revision.is_some_and(|revision| *known != Some(revision)) {
        return Err(Trouble::Stale("the revision is another one".into()));
    }
    *known = known.map(|number| number + 1);
    Ok(())
}

pub(crate) fn plain_subnet(name: &str, cidr: Cidr) -> HeldSubnet {
    HeldSubnet {
        name: Some(name.into()),
        description: String::new(),
        tags: BTreeSet::new(),
        revision: Some(0),
        cidr,
        gateway: Some(cidr.second()),
        pools: pools::all_but(cidr, cidr.second()),
    }
}
