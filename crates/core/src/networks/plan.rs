//! What comes next for a network.
//!
//! One step at a time: what a step gives (an id, a revision) the next one needs. The order is such that a crash after
//! any of them leaves something that the next run knows as ours, and that what is used stays until its successor is there.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use super::cloud::{Held, HeldSubnet};
use super::mark::{self, Home, Owner};
use super::pools::{self, Pool};
use super::spec::NetworkSpec;
use crate::Cidr;

/// What an object wants of the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The object's uid.
    pub uid: String,
    /// The name of its network.
    pub name: String,
    /// The id that the object says its subnet has: it is its own also without marks, as long as it has nobody else's.
    pub subnet: Option<String>,
    /// What should become of it.
    pub goal: Goal,
}

/// What should become of an object's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// It should be there.
    Present {
        /// Like this.
        spec: NetworkSpec,
        /// Whether its subnet may be replaced.
        may_replace: bool,
        /// The network to take over, where none is ours.
        adopt: Option<String>,
        /// The id that the object says it has: of two the one to keep.
        known: Option<String>,
    },
    /// It should not be there.
    Absent,
    /// It should stay, and not be ours any more.
    Released {
        /// The id that the object says it has: what is not seen keeps its marks, and would be taken for an orphan later.
        known: Option<String>,
    },
    /// It is in a cloud of another kind, where we cannot see it.
    Elsewhere {
        /// Which kind.
        provider: String,
        /// What it is called there.
        id: String,
    },
    /// It should stay as it is: what it should be cannot be told.
    Frozen,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Todo {
    /// All is as it should be.
    Nothing,
    /// Look again before something is made, or let go, on the word of an old list.
    Look,
    /// This.
    Step(Step),
    /// Nothing, before somebody does something about this.
    Stuck(Stuck),
}

/// One change of the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Makes a network with our first mark.
    CreateNetwork {
        /// For which object.
        uid: String,
        /// Its name.
        name: String,
        /// Its first mark.
        description: String,
    },
    /// Gives a network just these tags.
    TagNetwork {
        /// Which.
        id: String,
        /// All of them.
        tags: BTreeSet<String>,
    },
    /// Changes what is said of a network.
    ChangeNetwork {
        /// Which.
        id: String,
        /// As it was seen.
        revision: Option<u64>,
        /// Its name, if that should change.
        name: Option<String>,
        /// The same of its description.
        description: Option<String>,
    },
    /// Puts in order what is [broken](Held::broken) of a network.
    Repair {
        /// Which.
        id: String,
        /// What was seen.
        broken: String,
    },
    /// Makes a subnet with our first mark.
    CreateSubnet {
        /// In which network.
        network: String,
        /// Its name.
        name: String,
        /// Its first mark.
        description: String,
        /// Its range and its gateway.
        spec: NetworkSpec,
    },
    /// Gives a subnet just these tags.
    TagSubnet {
        /// Its network.
        network: String,
        /// Which.
        id: String,
        /// All of them.
        tags: BTreeSet<String>,
    },
    /// Changes a subnet.
    ChangeSubnet {
        /// Its network.
        network: String,
        /// Which.
        id: String,
        /// As it was seen.
        revision: Option<u64>,
        /// What should change.
        change: SubnetChange,
    },
    /// Deletes a subnet.
    DeleteSubnet {
        /// Its network.
        network: String,
        /// Which.
        id: String,
        /// As it was seen.
        revision: Option<u64>,
    },
    /// Deletes a network with all that is ours in it.
    DeleteNetwork {
        /// Which.
        id: String,
        /// As it was seen, its subnets included: one that somebody put there since would go with it.
        revision: Option<u64>,
    },
}

/// What should change of a subnet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubnetChange {
    /// Its name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its gateway.
    pub gateway: Option<IpAddr>,
    /// With that, from where to where it gives out addresses: the gateway's must not be among them.
    pub pools: Option<Vec<Pool>>,
}

impl Step {
    /// What it does, for metrics.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::CreateNetwork { .. } => "create_network",
            Self::TagNetwork { .. } => "tag_network",
            Self::ChangeNetwork { .. } => "change_network",
            Self::Repair { .. } => "repair_network",
            Self::CreateSubnet { .. } => "create_subnet",
            Self::TagSubnet { .. } => "tag_subnet",
            Self::ChangeSubnet { .. } => "change_subnet",
            Self::DeleteSubnet { .. } => "delete_subnet",
            Self::DeleteNetwork { .. } => "delete_network",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateNetwork { name, .. } => write!(f, "create network {name}"),
            Self::TagNetwork { id, .. } => write!(f, "tag network {id}"),
            Self::ChangeNetwork { id, name: Some(name), .. } => write!(f, "name network {id} {name}"),
            Self::ChangeNetwork { id, .. } => write!(f, "change network {id}"),
            Self::Repair { id, broken } => write!(f, "repair network {id}: {broken}"),
            Self::CreateSubnet { spec, .. } => {
                write!(f, "create subnet {} with gateway {}", spec.cidr, spec.gateway)
            }
            Self::TagSubnet { id, .. } => write!(f, "tag subnet {id}"),
            Self::ChangeSubnet { id, change: SubnetChange { gateway: Some(gateway), .. }, .. } => {
                write!(f, "set the gateway of subnet {id} to {gateway}")
            }
            Self::ChangeSubnet { id, .. } => write!(f, "change subnet {id}"),
            Self::DeleteSubnet { id, .. } => write!(f, "delete subnet {id}"),
            Self::DeleteNetwork { id, .. } => write!(f, "delete network {id}"),
        }
    }
}

/// What somebody has to do something about; each is a sentence a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// The range changed, and the subnet would have to be replaced.
    #[error(
        "the range of a subnet cannot change: it is {have}, and {want} needs another subnet in its place. To have it \
         replaced, which takes all addresses from whatever is attached, annotate the Network with causeway/allow-replace=true"
    )]
    Replacement {
        /// What there is.
        have: Cidr,
        /// What there should be.
        want: Cidr,
    },
    /// The network to be adopted is not there.
    #[error("network {0}, which causeway/adopt names, is not there, or not one of this project's")]
    AdoptMissing(String),
    /// It is another's.
    #[error("network {0}, which causeway/adopt names, belongs to another Network of Causeway's")]
    AdoptTaken(String),
    /// The network that the object had is there, and nothing on it says so any more.
    #[error(
        "network {0}, which it had, has lost all of Causeway's marks, and may be somebody else's by now. To go on with it \
         annotate the Network with causeway/adopt={0}; to have another one made, declare the Network anew"
    )]
    Unmarked(String),
    /// It should be let go, and is not seen.
    #[error(
        "network {0}, which is to be left in the cloud, is not seen there, so its marks cannot be taken off. Let this account \
         see it; if it is gone, take the finalizer causeway/network off"
    )]
    NotSeen(String),
    /// It is in another kind of cloud.
    #[error(
        "it has network {id} of provider {provider}, and this controller runs with another one: run it with --provider \
         {provider}, or delete the Network there and declare it anew here"
    )]
    Elsewhere {
        /// Which kind.
        provider: String,
        /// What it is called there.
        id: String,
    },
    /// Deleting the network would take another's subnet along.
    #[error(
        "subnet {subnet} in network {network} is somebody else's: delete it first, or annotate the Network with causeway/abandon=true"
    )]
    ForeignSubnet {
        /// The network.
        network: String,
        /// The subnet.
        subnet: String,
    },
}

impl Stuck {
    /// The reason of a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Replacement { .. } => "ReplacementNotAllowed",
            Self::AdoptMissing(_) => "AdoptionTargetMissing",
            Self::AdoptTaken(_) => "AdoptionRefused",
            Self::Unmarked(_) => "MarksLost",
            Self::NotSeen(_) => "NotSeen",
            Self::Elsewhere { .. } => "ProviderChanged",
            Self::ForeignSubnet { .. } => "ForeignSubnet",
        }
    }
}

/// What comes next, given all that is or may be the object's, and whether somebody just looked.
pub fn plan(home: &Home, want: &Want, have: &[&Held], looked: bool) -> Todo {
    match &want.goal {
        Goal::Present { spec, may_replace, adopt, known } => {
            let Some(main) = choose(home, want, have, known.as_deref(), adopt.as_deref()) else {
                return nothing_there(home, want, have, known.as_deref(), adopt.as_deref(), looked);
            };
            let adopts = adopt.as_deref() == Some(main.id.as_str());
            let present = Present { home, want, main, adopts, looked };
            present.network().or_else(|| present.subnet(*spec, *may_replace)).unwrap_or_else(|| {
                let extra = have.iter().find(|held| held.id != main.id && is_its(home, want, held));
                extra.map_or(Todo::Nothing, |extra| delete(home, Some(want), extra))
            })
        }
        Goal::Absent => match have.iter().find(|held| is_its(home, want, held)) {
            Some(held) => delete(home, Some(want), held),
            None if looked => Todo::Nothing,
            None => Todo::Look,
        },
        Goal::Released { .. } if !looked => Todo::Look,
        Goal::Released { known } => {
            let mut its = have.iter().filter(|held| is_its(home, want, held));
            let unseen = known.iter().find(|id| !have.iter().any(|held| held.id == **id));
            match (its.find_map(|held| release(home, held)), unseen) {
                (Some(step), _) => Todo::Step(step),
                (None, Some(id)) => Todo::Stuck(Stuck::NotSeen(id.clone())),
                (None, None) => Todo::Nothing,
            }
        }
        Goal::Elsewhere { provider, id } => {
            Todo::Stuck(Stuck::Elsewhere { provider: provider.clone(), id: id.clone() })
        }
        Goal::Frozen => Todo::Nothing,
    }
}

/// Whether a network is an object's by its marks.
pub(super) fn is_its(home: &Home, want: &Want, held: &Held) -> bool {
    match held.owner(home) {
        Owner::Object(uid) => uid == want.uid,
        Owner::Unfinished => held.name.as_ref() == Some(&want.name),
        Owner::Namesake | Owner::Others => false,
    }
}

/// The network to go on with: the one that the object says it has, else the oldest of those that are its, else one that
/// was made for it and not yet marked, else the one to adopt.
fn choose<'a>(
    home: &Home,
    want: &Want,
    have: &[&'a Held],
    known: Option<&str>,
    adopt: Option<&str>,
) -> Option<&'a Held> {
    let its = have.iter().copied().filter(|held| is_its(home, want, held));
    let order = |held: &&Held| {
        let is_unfinished = held.owner(home) == Owner::Unfinished;
        (is_unfinished, Some(held.id.as_str()) != known, held.created.clone(), held.id.clone())
    };
    let adopted = || {
        let named = have.iter().copied().find(|held| Some(held.id.as_str()) == adopt);
        named.filter(|held| !mark::names_another(home, &want.uid, &held.tags))
    };
    its.min_by_key(order).or_else(adopted)
}

fn nothing_there(
    home: &Home,
    want: &Want,
    have: &[&Held],
    known: Option<&str>,
    adopt: Option<&str>,
    looked: bool,
) -> Todo {
    let there = |id: &str| have.iter().find(|held| held.id == id);
    let unmarked = known.and_then(there).filter(|held| !mark::names_another(home, &want.uid, &held.tags));
    match (adopt, unmarked) {
        _ if !looked => Todo::Look,
        (Some(id), _) if there(id).is_some() => Todo::Stuck(Stuck::AdoptTaken(id.to_owned())),
        (Some(id), _) => Todo::Stuck(Stuck::AdoptMissing(id.to_owned())),
        // What is attached to it would stay behind.
        (None, Some(held)) => Todo::Stuck(Stuck::Unmarked(held.id.clone())),
        (None, None) => Todo::Step(Step::CreateNetwork {
            uid: want.uid.clone(),
            name: want.name.clone(),
            description: home.description(),
        }),
    }
}

/// What is left to do for a network that is there.
struct Present<'a> {
    home: &'a Home,
    want: &'a Want,
    main: &'a Held,
    adopts: bool,
    looked: bool,
}

impl Present<'_> {
    /// The step that gives something our tags beside those that others put there. A cloud takes tags as a whole, so those
    /// of others are not taken from an old list.
    fn tag(&self, have: &BTreeSet<String>, step: impl FnOnce(BTreeSet<String>) -> Step) -> Option<Todo> {
        let tags = self.home.tags(&self.want.uid);
        if tags.is_subset(have) {
            return None;
        }
        if !self.looked && !have.is_empty() {
            return Some(Todo::Look);
        }
        // Whatever of ours says otherwise is wrong.
        let others = have.iter().filter(|tag| !mark::is_ours(tag)).cloned();
        Some(Todo::Step(step(tags.into_iter().chain(others).collect())))
    }

    /// First the marks: what is not ours is not changed.
    fn network(&self) -> Option<Todo> {
        let id = self.main.id.clone();
        let tag = |tags| Step::TagNetwork { id: id.clone(), tags };
        if let Some(todo) = self.tag(&self.main.tags, tag) {
            return Some(todo);
        }
        let is_named = self.main.name.as_ref().is_none_or(|name| *name == self.want.name);
        if !is_named {
            let (revision, name) = (self.main.revision, Some(self.want.name.clone()));
            return Some(Todo::Step(Step::ChangeNetwork { id, revision, name, description: None }));
        }
        self.main.broken.clone().map(|broken| Todo::Step(Step::Repair { id, broken }))
    }

    fn subnet(&self, spec: NetworkSpec, may_replace: bool) -> Option<Todo> {
        let network = || self.main.id.clone();
        let is_ours = |id: &String, subnet: &HeldSubnet| match subnet.owner(self.home) {
            Owner::Object(uid) if uid == self.want.uid => true,
            Owner::Unfinished => true,
            // Also one that an object had which is no more: its network is nobody's.
            Owner::Object(_) | Owner::Namesake | Owner::Others => {
                let is_free = !mark::names_another_home(self.home, &subnet.tags);
                let adopts = self.adopts && subnet.cidr == spec.cidr && is_free;
                adopts || is_known(self.home, self.want, id, subnet)
            }
        };
        let mut ours = self.main.subnets.iter().filter(|(id, subnet)| is_ours(id, subnet));
        let stale = ours.clone().find(|(_, subnet)| subnet.cidr != spec.cidr);
        let drop = |(id, subnet): (&String, &HeldSubnet)| {
            let revision = subnet.revision;
            Todo::Step(Step::DeleteSubnet { network: network(), id: id.clone(), revision })
        };
        let Some((id, subnet)) = ours.find(|(_, subnet)| subnet.cidr == spec.cidr) else {
            return Some(match stale {
                Some((_, subnet)) if !may_replace => {
                    Todo::Stuck(Stuck::Replacement { have: subnet.cidr, want: spec.cidr })
                }
                // Two subnets of a network cannot share addresses: then the old one has to go first.
                Some(stale) if stale.1.cidr.overlaps(spec.cidr) => drop(stale),
                _ if !self.looked => Todo::Look,
                _ => {
                    let (name, description) = (self.want.name.clone(), self.home.description());
                    Todo::Step(Step::CreateSubnet { network: network(), name, description, spec })
                }
            });
        };
        let tag = |tags| Step::TagSubnet { network: network(), id: id.clone(), tags };
        if let Some(todo) = self.tag(&subnet.tags, tag) {
            return Some(todo);
        }
        let change = self.change(subnet, spec);
        if change != SubnetChange::default() {
            let (id, revision) = (id.clone(), subnet.revision);
            return Some(Todo::Step(Step::ChangeSubnet { network: network(), id, revision, change }));
        }
        // Also of two, one that may have something attached.
        stale.map(|stale| {
            if may_replace {
                return drop(stale);
            }
            Todo::Stuck(Stuck::Replacement { have: stale.1.cidr, want: spec.cidr })
        })
    }

    fn change(&self, subnet: &HeldSubnet, spec: NetworkSpec) -> SubnetChange {
        let is_named = subnet.name.as_ref().is_none_or(|name| *name == self.want.name);
        let mut change =
            SubnetChange { name: (!is_named).then(|| self.want.name.clone()), ..SubnetChange::default() };
        if subnet.gateway != Some(spec.gateway) {
            change.gateway = Some(spec.gateway);
            let pools = pools::moved(subnet.cidr, &subnet.pools, subnet.gateway, spec.gateway);
            change.pools = (pools != subnet.pools).then_some(pools);
        }
        change
    }
}

/// Whether a subnet is the one that an object says it has, though no mark says so any more.
fn is_known(home: &Home, want: &Want, id: &str, subnet: &HeldSubnet) -> bool {
    want.subnet.as_deref() == Some(id) && !mark::names_another(home, &want.uid, &subnet.tags)
}

/// Deletes a network, unless that would take along what is not ours.
pub(super) fn delete(home: &Home, want: Option<&Want>, held: &Held) -> Todo {
    let is_foreign = |id: &str, subnet: &HeldSubnet| {
        let is_known = want.is_some_and(|want| is_known(home, want, id, subnet));
        matches!(subnet.owner(home), Owner::Namesake | Owner::Others) && !is_known
    };
    match held.subnets.iter().find(|(id, subnet)| is_foreign(id, subnet)) {
        Some((subnet, _)) => {
            Todo::Stuck(Stuck::ForeignSubnet { network: held.id.clone(), subnet: subnet.clone() })
        }
        None => Todo::Step(Step::DeleteNetwork { id: held.id.clone(), revision: held.revision }),
    }
}

/// The next mark to take away: the first mark before the tags, and those of subnets before the network's, so that what is
/// left is found until the last one is gone.
fn release(home: &Home, held: &Held) -> Option<Step> {
    let rest = |tags: &BTreeSet<String>| tags.iter().filter(|tag| !mark::is_ours(tag)).cloned().collect();
    let first_mark = home.description();
    for (id, subnet) in &held.subnets {
        let (network, id) = (held.id.clone(), id.clone());
        if subnet.description == first_mark {
            let change = SubnetChange { description: Some(String::new()), ..SubnetChange::default() };
            return Some(Step::ChangeSubnet { network, id, revision: subnet.revision, change });
        }
        if matches!(subnet.owner(home), Owner::Object(_)) {
            return Some(Step::TagSubnet { network, id, tags: rest(&subnet.tags) });
        }
    }
    let id = held.id.clone();
    if held.description == first_mark {
        let description = Some(String::new());
        return Some(Step::ChangeNetwork { id, revision: held.revision, name: None, description });
    }
    mark::is_taken(&held.tags).then(|| Step::TagNetwork { id, tags: rest(&held.tags) })
}
