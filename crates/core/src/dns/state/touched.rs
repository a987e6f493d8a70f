//! Takes events in, and works out what they touch.

use std::collections::{BTreeMap, BTreeSet};

use super::super::corefile::{self, Corefile};
use super::super::forward::Forward;
use super::super::vpc_dns::{VpcDns, deployment_of};
use super::{Scope, Sight, State, is_late};
use crate::names::ObjectKey;
use crate::room::{self, Change};

impl State {
    pub(super) fn replace<T: PartialEq>(
        &mut self,
        field: impl Fn(&mut Self) -> &mut T,
        value: T,
    ) -> BTreeSet<Scope> {
        if *field(self) == value {
            return BTreeSet::new();
        }
        *field(self) = value;
        room::State::everything(self)
    }

    /// Carries a change out. A Corefile is shared by many, whom it concerns only if what it should hold is another then.
    pub(super) fn noting_wants(
        &mut self,
        change: impl FnOnce(&mut Self) -> BTreeSet<Scope>,
    ) -> BTreeSet<Scope> {
        let wants = |state: &Self| -> BTreeMap<String, corefile::Want> {
            let names = state.corefiles.keys().chain(state.users_of.keys());
            names.map(|name| (name.clone(), state.corefile_want(name))).collect()
        };
        let (before, followed) = (wants(self), self.followed());
        let mut touched = change(self);
        let after = wants(self);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names.into_iter().filter(|name| before.get(*name) != after.get(*name)) {
            touched.extend(self.around(&Scope::Corefile(name.clone())));
        }
        if self.followed() != followed {
            touched.insert(Scope::Follow);
        }
        touched
    }

    pub(super) fn take_forwards(&mut self, change: Change<ObjectKey, Forward>) -> BTreeSet<Scope> {
        let change = match change {
            // Late news of an earlier version than the one that a write's answer brought.
            Change::Put(key, forward)
                if self.forwards.get(&key).is_some_and(|known| known.is_newer_than(&forward)) =>
            {
                return BTreeSet::new();
            }
            change => change,
        };
        let mut touched = BTreeSet::new();
        if matches!(change, Change::Reset(_)) && !std::mem::replace(&mut self.is_listed, true) {
            touched.extend(room::State::everything(self));
        }
        let was_wanted = self.is_anything_wanted();
        let differences = change.carry_out(&mut self.forwards);
        for (key, old, new) in &differences {
            for vpc in old.iter().flat_map(Forward::vpcs) {
                unindex(&mut self.forwards_of, vpc, key);
            }
            for vpc in new.iter().flat_map(Forward::vpcs) {
                self.forwards_of.entry(vpc.to_owned()).or_default().insert(key.clone());
            }
            if new.is_none() {
                self.troubles.remove(&Scope::Forward(key.clone()));
            }
        }
        for (key, old, new) in &differences {
            touched.insert(Scope::Forward(key.clone()));
            let facts = |forward: &Option<Forward>| {
                let wants = forward.as_ref().and_then(Forward::wants).map(str::to_owned);
                (wants, forward.as_ref().is_some_and(Forward::is_inherited))
            };
            if facts(old) != facts(new) {
                let vpcs = [old, new].into_iter().flatten().flat_map(Forward::vpcs);
                touched.extend(vpcs.flat_map(|vpc| self.of_vpc(vpc)).collect::<Vec<_>>());
            }
        }
        if self.dnses.is_none() && was_wanted != self.is_anything_wanted() {
            touched.extend(room::State::everything(self));
        }
        touched
    }

    pub(super) fn take_corefile(&mut self, name: String, sight: Sight<Corefile>) -> BTreeSet<Scope> {
        let known = self.corefiles.get(&name).unwrap_or(&Sight::Unseen);
        if let (Sight::Seen(Some(now)), Sight::Seen(Some(known))) = (&sight, known)
            && is_late(&now.resource_version, &known.resource_version)
        {
            return BTreeSet::new();
        }
        if *known == sight {
            return BTreeSet::new();
        }
        match sight {
            Sight::Unseen => drop(self.corefiles.remove(&name)),
            sight => drop(self.corefiles.insert(name.clone(), sight)),
        }
        self.around(&Scope::Corefile(name))
    }

    pub(super) fn take_dnses(&mut self, change: Change<String, VpcDns>) -> BTreeSet<Scope> {
        let mut touched = BTreeSet::new();
        if self.dnses.is_none() {
            touched.extend(room::State::everything(self));
        }
        let mut dnses = self.dnses.take().unwrap_or_default();
        let differences = change.carry_out(&mut dnses);
        self.dnses = Some(dnses);
        for (name, old, new) in &differences {
            if let Some(old) = old {
                unindex(&mut self.dnses_of, &old.vpc, name);
                unindex(&mut self.users_of, &old.corefile, name);
            }
            if let Some(new) = new {
                self.dnses_of.entry(new.vpc.clone()).or_default().insert(name.clone());
                self.users_of.entry(new.corefile.clone()).or_default().insert(name.clone());
            }
        }
        for (name, old, new) in &differences {
            touched.insert(Scope::Deployment(deployment_of(name)));
            for dns in [old, new].into_iter().flatten() {
                touched.extend(self.of_vpc(&dns.vpc));
            }
            // Whose Deployment that is, is another question now.
            touched.extend(self.leaving());
        }
        touched
    }

    /// Deployments and forwards of a VPC.
    fn of_vpc(&self, vpc: &str) -> BTreeSet<Scope> {
        let deployments = self.dnses_of.get(vpc).into_iter().flatten();
        let deployments = deployments.map(|name| Scope::Deployment(deployment_of(name)));
        let forwards = self.forwards_of.get(vpc).into_iter().flatten().cloned().map(Scope::Forward);
        deployments.chain(forwards).collect()
    }

    fn leaving(&self) -> impl Iterator<Item = Scope> {
        let leaving = self.forwards.values().filter(|forward| forward.deleting);
        leaving.map(|forward| Scope::Forward(forward.key.clone()))
    }

    /// A place, and the forwards that say how it is.
    pub(super) fn around(&self, scope: &Scope) -> BTreeSet<Scope> {
        let mut all = self.statuses_around(scope);
        all.insert(scope.clone());
        all
    }

    /// The forwards that say how a place is.
    pub(super) fn statuses_around(&self, scope: &Scope) -> BTreeSet<Scope> {
        match scope {
            Scope::Forward(_) => [scope.clone()].into(),
            Scope::Follow => BTreeSet::new(),
            Scope::Deployment(name) => match self.vpc_of(name) {
                Some(vpc) => {
                    self.forwards_of.get(vpc).into_iter().flatten().cloned().map(Scope::Forward).collect()
                }
                None => self.leaving().collect(),
            },
            Scope::Corefile(name) => {
                let users = self.users_of.get(name).into_iter().flatten();
                let vpcs = users.filter_map(|user| Some(&self.dnses.as_ref()?.get(user)?.vpc));
                let users = vpcs.flat_map(|vpc| self.forwards_of.get(vpc).into_iter().flatten()).cloned();
                let told =
                    self.forwards.values().filter(|it| it.deleting || it.status.corefiles.contains(name));
                users.chain(told.map(|it| it.key.clone())).map(Scope::Forward).collect()
            }
        }
    }
}

fn unindex<T: Ord>(index: &mut BTreeMap<String, BTreeSet<T>>, name: &str, value: &T) {
    if let Some(values) = index.get_mut(name) {
        values.remove(value);
        if values.is_empty() {
            index.remove(name);
        }
    }
}
