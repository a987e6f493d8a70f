//! All that is known to the room, and what each event touches.

mod touched;
mod wants;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::corefile::Corefile;
use super::deployment::Deployment;
use super::forward::Forward;
use super::vpc_dns::{VpcDns, of_deployment};
use crate::names::ObjectKey;
use crate::room::{self, Change, is_later};

/// What was seen.
#[derive(Debug, Clone)]
pub enum Event {
    /// Forwards.
    Forwards(Change<ObjectKey, Forward>),
    /// kube-ovn's DNS servers.
    VpcDnses(Change<String, VpcDns>),
    /// Their Deployments.
    Deployments(Change<String, Deployment>),
    /// A ConfigMap with a Corefile.
    Corefile(String, Sight<Corefile>),
    /// The address of kube-dns, or why it is not known.
    KubeDns(Result<Ipv4Addr, String>),
    /// The gateway of the default subnet, or why it is not known.
    Gateway(Result<Ipv4Addr, String>),
    /// What kube-ovn is configured to be the default network's provider.
    Provider(Option<String>),
    /// How a write went, or why it does not stay.
    Tried(Scope, Option<Trouble>),
    /// We do not lead any more: how our writes went says nothing of those to come.
    TermEnded,
}

/// What a worker is sent to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// What a forward says of itself.
    Forward(ObjectKey),
    /// The block of a ConfigMap's Corefile.
    Corefile(String),
    /// The route of a Deployment.
    Deployment(String),
    /// Which ConfigMaps are followed.
    Follow,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(key) => write!(f, "VpcDnsForward {key}"),
            Self::Corefile(name) => write!(f, "ConfigMap kube-system/{name}"),
            Self::Deployment(name) => write!(f, "Deployment kube-system/{name}"),
            Self::Follow => f.write_str("ConfigMaps"),
        }
    }
}

/// What is known of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight<T> {
    /// Nothing yet.
    Unseen,
    /// It may not be read, and why.
    Forbidden(String),
    /// It, or that it is not there.
    Seen(Option<T>),
}

/// Why something cannot be written, or does not stay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// We may not.
    #[error("it may not be changed: {0}")]
    Forbidden(String),
    /// The API server does not take it, or does not answer.
    #[error("it could not be changed: {0}")]
    Refused(String),
    /// Somebody changes it back.
    #[error("somebody changes it back again and again; it is tried now and then")]
    Undone,
}

impl Trouble {
    /// The reason of a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Forbidden(_) => "Forbidden",
            Self::Refused(_) => "WriteRefused",
            Self::Undone => "Undone",
        }
    }
}

/// All that is known to the room.
#[derive(Debug)]
pub struct State {
    forwards: BTreeMap<ObjectKey, Forward>,
    /// Whether all of them were ever listed: of a kind that is not served nothing is known, which is not that there are none.
    is_listed: bool,
    /// Forwards by each VPC that they are or were about.
    forwards_of: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Nothing until they were listed.
    dnses: Option<BTreeMap<String, VpcDns>>,
    /// Their names by VPC.
    dnses_of: BTreeMap<String, BTreeSet<String>>,
    /// Their names by Corefile.
    users_of: BTreeMap<String, BTreeSet<String>>,
    deployments: BTreeMap<String, Deployment>,
    corefiles: BTreeMap<String, Sight<Corefile>>,
    kube_dns: Result<Ipv4Addr, String>,
    gateway: Result<Ipv4Addr, String>,
    provider: Option<String>,
    troubles: BTreeMap<Scope, Trouble>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            forwards: BTreeMap::new(),
            is_listed: false,
            forwards_of: BTreeMap::new(),
            dnses: None,
            dnses_of: BTreeMap::new(),
            users_of: BTreeMap::new(),
            deployments: BTreeMap::new(),
            corefiles: BTreeMap::new(),
            kube_dns: Err("Service kube-system/kube-dns was not seen".into()),
            gateway: Err("Subnet ovn-default was not seen".into()),
            provider: None,
            troubles: BTreeMap::new(),
        }
    }
}

impl room::State for State {
    type Event = Event;
    type Scope = Scope;

    fn apply(&mut self, event: Event) -> BTreeSet<Scope> {
        match event {
            Event::Forwards(change) => self.noting_wants(|state| state.take_forwards(change)),
            Event::VpcDnses(change) => self.noting_wants(|state| state.take_dnses(change)),
            Event::Deployments(change) => {
                if let Change::Put(name, now) = &change
                    && self
                        .deployments
                        .get(name)
                        .is_some_and(|known| is_late(&now.resource_version, &known.resource_version))
                {
                    return BTreeSet::new();
                }
                let differences = change.carry_out(&mut self.deployments);
                differences.into_iter().flat_map(|(name, ..)| self.around(&Scope::Deployment(name))).collect()
            }
            Event::Corefile(name, sight) => self.take_corefile(name, sight),
            Event::KubeDns(address) => self.replace(|state| &mut state.kube_dns, address),
            Event::Gateway(address) => self.replace(|state| &mut state.gateway, address),
            Event::Provider(provider) => self.replace(|state| &mut state.provider, provider),
            Event::Tried(scope, trouble) => {
                let before = match trouble.clone() {
                    Some(trouble) => self.troubles.insert(scope.clone(), trouble),
                    None => self.troubles.remove(&scope),
                };
                if before == trouble { BTreeSet::new() } else { self.statuses_around(&scope) }
            }
            Event::TermEnded => {
                let troubles = std::mem::take(&mut self.troubles);
                troubles.keys().flat_map(|scope| self.statuses_around(scope)).collect()
            }
        }
    }

    fn everything(&self) -> BTreeSet<Scope> {
        let forwards = self.forwards.keys().cloned().map(Scope::Forward);
        let corefiles = self.corefiles.keys().chain(self.users_of.keys()).cloned().map(Scope::Corefile);
        let deployments = self.deployments.keys().cloned().map(Scope::Deployment);
        forwards.chain(corefiles).chain(deployments).chain([Scope::Follow]).collect()
    }
}

/// Whether news of an object are of an earlier version than the one that a write's answer brought.
fn is_late(news: &str, known: &str) -> bool {
    is_later(known, news)
}

impl State {
    /// A forward.
    pub fn forward(&self, key: &ObjectKey) -> Option<&Forward> {
        self.forwards.get(key)
    }

    /// All forwards.
    pub fn forwards(&self) -> impl Iterator<Item = &Forward> {
        self.forwards.values()
    }

    /// A Deployment.
    pub fn deployment(&self, name: &str) -> Option<&Deployment> {
        self.deployments.get(name)
    }

    /// A ConfigMap with a Corefile.
    pub fn corefile(&self, name: &str) -> &Sight<Corefile> {
        self.corefiles.get(name).unwrap_or(&Sight::Unseen)
    }

    /// The address of kube-dns, or why it is not known.
    pub fn kube_dns(&self) -> &Result<Ipv4Addr, String> {
        &self.kube_dns
    }

    /// The gateway of the default subnet, or why it is not known.
    pub fn gateway(&self) -> &Result<Ipv4Addr, String> {
        &self.gateway
    }

    /// What is wrong with writing something.
    pub fn trouble(&self, scope: &Scope) -> Option<&Trouble> {
        self.troubles.get(scope)
    }

    /// The DNS servers of a VPC, by name; nothing where none were ever listed.
    pub fn dnses_of(&self, vpc: &str) -> Option<Vec<(&str, &VpcDns)>> {
        let dnses = self.dnses.as_ref()?;
        let names = self.dnses_of.get(vpc).into_iter().flatten();
        Some(names.filter_map(|name| Some((name.as_str(), dnses.get(name)?))).collect())
    }

    /// The VPC of a Deployment.
    pub fn vpc_of(&self, deployment: &str) -> Option<&str> {
        let dns = self.dnses.as_ref()?.get(of_deployment(deployment)?)?;
        Some(&dns.vpc)
    }

    /// All Deployments, by name.
    pub fn deployments(&self) -> impl Iterator<Item = &String> {
        self.deployments.keys()
    }
}
