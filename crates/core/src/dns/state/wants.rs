//! What each text should hold, from all that is known.

use std::collections::BTreeSet;

use super::super::corefile;
use super::super::deployment::{self, Inherited};
use super::super::forward::Forward;
use super::super::route::Route;
use super::super::vpc_dns::{COREFILE, VpcDns, of_deployment};
use super::{Sight, State};

/// Whether a DNS server answers where it should forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    Surely,
    Perhaps,
    Not,
}

impl State {
    /// What a Deployment should hold.
    pub fn deployment_want(&self, name: &str) -> deployment::Want {
        use deployment::Want;
        if !self.is_listed {
            return Want::AsItIs;
        }
        let Some(dnses) = &self.dnses else {
            return if self.is_anything_wanted() { Want::AsItIs } else { Want::Nothing };
        };
        let Some(dns) = of_deployment(name).and_then(|name| dnses.get(name)) else { return Want::Nothing };
        match (self.serves(dns), &self.kube_dns, &self.gateway) {
            (Serves::Not, ..) => Want::Nothing,
            (Serves::Perhaps, ..) | (_, Err(_), _) | (_, _, Err(_)) => Want::AsItIs,
            (Serves::Surely, Ok(to), Ok(via)) => {
                Want::Route(Route { to: *to, via: *via }, self.inherited(&dns.vpc))
            }
        }
    }

    /// What should be done about a Deployment.
    pub fn deployment_plan(&self, name: &str) -> Option<deployment::Plan> {
        let have = self.deployments.get(name)?;
        Some(deployment::plan(have, self.deployment_want(name), self.provider.as_deref()))
    }

    /// What a Corefile should hold.
    pub fn corefile_want(&self, name: &str) -> corefile::Want {
        use corefile::Want;
        if !self.is_listed {
            return Want::AsItIs;
        }
        let Some(dnses) = &self.dnses else {
            return if self.is_anything_wanted() { Want::AsItIs } else { Want::Nothing };
        };
        let users = self.users_of.get(name).into_iter().flatten().filter_map(|user| dnses.get(user));
        let mut users = users.filter(|dns| self.serves(dns) != Serves::Not).peekable();
        if users.peek().is_none() {
            return Want::Nothing;
        }
        match &self.kube_dns {
            Ok(server) if users.any(|dns| dns.active && self.is_told(name, &dns.vpc)) => Want::Block(*server),
            Ok(_) | Err(_) => Want::AsItIs,
        }
    }

    /// What should be done about a Corefile; nothing where there is none to be seen.
    pub fn corefile_plan(&self, name: &str) -> Option<corefile::Plan> {
        let Sight::Seen(Some(have)) = self.corefile(name) else { return None };
        let text = have.text.as_ref().filter(|_| !have.deleting)?;
        Some(corefile::plan(text, self.corefile_want(name)))
    }

    /// Whether a ConfigMap may hold a block of ours.
    pub fn may_hold_block(&self, name: &str) -> bool {
        match self.corefile(name) {
            Sight::Unseen | Sight::Forbidden(_) => true,
            Sight::Seen(None) => false,
            Sight::Seen(Some(have)) => have.text.as_deref().is_some_and(|text| corefile::strip(text) != text),
        }
    }

    /// The ConfigMaps to be followed besides the usual one, by name.
    pub fn followed(&self) -> BTreeSet<String> {
        let named = self.users_of.iter().filter(|(_, users)| {
            let dnses = users.iter().filter_map(|user| self.dnses.as_ref()?.get(user));
            dnses.into_iter().any(|dns| self.forwards_of.contains_key(&dns.vpc))
        });
        let told = self.forwards.values().flat_map(|forward| &forward.status.corefiles);
        named.map(|(name, _)| name).chain(told).filter(|name| *name != COREFILE).cloned().collect()
    }

    /// Whether a DNS server answers in a VPC that wants it to forward. kube-ovn calls one inactive when anything went wrong
    /// with it, and leaves it running: only another that is active says that it serves no more.
    fn serves(&self, dns: &VpcDns) -> Serves {
        let others = self.dnses_of(&dns.vpc).unwrap_or_default();
        match dns.active {
            _ if !self.is_wanted(&dns.vpc) => Serves::Not,
            true => Serves::Surely,
            false if others.into_iter().any(|(_, other)| other.active) => Serves::Not,
            false => Serves::Perhaps,
        }
    }

    pub(super) fn is_anything_wanted(&self) -> bool {
        self.forwards.values().any(|forward| forward.wants().is_some())
    }

    fn is_wanted(&self, vpc: &str) -> bool {
        self.wanting(vpc).next().is_some()
    }

    /// The forwards because of which a VPC's DNS server forwards.
    fn wanting<'a>(&'a self, vpc: &'a str) -> impl Iterator<Item = &'a Forward> {
        let all = self.forwards_of.get(vpc).into_iter().flatten().filter_map(|key| self.forwards.get(key));
        all.filter(move |forward| forward.wants() == Some(vpc))
    }

    /// Whether a forward says that a ConfigMap may hold a block because of it. The usual one is looked at anyway.
    fn is_told(&self, corefile: &str, vpc: &str) -> bool {
        corefile == COREFILE || self.wanting(vpc).any(|it| it.status.corefiles.contains(corefile))
    }

    fn inherited(&self, vpc: &str) -> Inherited {
        let is_ours = self.wanting(vpc).any(Forward::is_inherited);
        if is_ours { Inherited::Ours } else { Inherited::Theirs }
    }
}
