//! Which gateway of a VPC is the main one after an event, and what that touches.

use std::collections::BTreeSet;

use super::{State, Touched};
use crate::names::{GatewayName, ObjectKey};
use crate::vpc::event::Scope;
use crate::vpc::exchange::Record;
use crate::vpc::mains::Main;
use crate::vpc::objects::{Ends, Far, Tunnel};
use crate::vpc::want::Seat;

impl State {
    /// The main gateway of a VPC, and the others.
    pub(in crate::vpc) fn main(&self, vpc: &str) -> Option<&Main> {
        self.mains.get(vpc)
    }

    /// The tunnels that a gateway carries or stands by for.
    pub(in crate::vpc) fn on(&self, gateway: &GatewayName) -> impl Iterator<Item = &ObjectKey> {
        let by_vpc = self.gateways.vpc_of(gateway).into_iter().flat_map(|vpc| self.tunnels.of_vpc(vpc));
        self.tunnels.naming(gateway).chain(by_vpc)
    }

    /// The gateway that a tunnel goes through: the one that it names, or the main one of its VPC.
    pub fn gateway_of<'a>(&'a self, tunnel: &'a Tunnel) -> Option<&'a GatewayName> {
        match &tunnel.spec.as_ref().ok()?.ends {
            Ends::ByGateway { gateway, .. } => Some(gateway),
            Ends::ByVpc { local, .. } => self.main(local).map(|main| &main.gateway),
        }
    }

    /// All gateways that should hold a tunnel.
    pub(in crate::vpc) fn gateways_of(&self, tunnel: &Tunnel) -> Vec<GatewayName> {
        match tunnel.spec.as_ref().ok().map(|spec| &spec.ends) {
            Some(Ends::ByGateway { gateway, .. }) => vec![gateway.clone()],
            Some(Ends::ByVpc { local, .. }) => self.gateways.of_vpc(local).cloned().collect(),
            None => Vec::new(),
        }
    }

    /// What a gateway is to the tunnels of its VPC.
    pub(in crate::vpc) fn seat(&self, vpc: &str, gateway: &GatewayName) -> Seat {
        let carries = self.main(vpc).is_some_and(|main| main.carrying.contains(gateway));
        if carries { Seat::Main } else { Seat::Standby }
    }

    /// Whether nobody who listens hears a gateway. Who is gone cannot say that it is heard again, so what it said last stands; and
    /// who does not listen cannot contradict, however ready its pod says that it is.
    pub(in crate::vpc) fn is_dead(&self, gateway: &GatewayName) -> bool {
        let Some(to) = self.silent.get(gateway) else { return false };
        let vpc = self.gateways.vpc_of(gateway).unwrap_or_default();
        let mut others = self.gateways.of_vpc(vpc).filter(|name| *name != gateway);
        let hears = |name: &GatewayName| !to.contains(name);
        let listens = |name: &GatewayName| self.listening.contains(name);
        !others.any(|name| hears(name) && listens(name) && self.gateways.get(name).is_some_and(|it| it.fit))
    }

    /// Whether a gateway is silent to another.
    pub(in crate::vpc) fn is_silent_to(&self, gateway: &GatewayName, by: &GatewayName) -> bool {
        self.silent.get(gateway).is_some_and(|to| to.contains(by))
    }

    /// Whether any gateway says that another is silent.
    pub(in crate::vpc) fn is_silent_to_any(&self, gateway: &GatewayName) -> bool {
        self.silent.contains_key(gateway)
    }

    /// Whether the pod that serves a gateway was seen to hold a tunnel; nothing where it was not seen.
    pub(in crate::vpc) fn is_built(&self, gateway: &GatewayName, key: &ObjectKey) -> Option<bool> {
        let visit = self.outcome(gateway).and_then(|outcome| outcome.result.as_ref().ok())?;
        Some(visit.tunnels.get(key).is_some_and(|(_, trouble)| trouble.is_none()))
    }

    pub(super) fn apply_silence(&mut self, of: &GatewayName, by: GatewayName, silent: bool) -> Touched {
        let Some(vpc) = self.gateways.vpc_of(of).map(ToString::to_string) else { return Touched::new() };
        let news = if silent {
            self.silent.entry(of.clone()).or_default().insert(by)
        } else {
            self.forget_silence(of, &by)
        };
        if news { self.elect(&vpc) } else { Touched::new() }
    }

    pub(super) fn apply_listening(&mut self, gateway: GatewayName, listening: bool) -> Touched {
        let vpc = self.gateways.vpc_of(&gateway).map(ToString::to_string);
        let news = if listening { self.listening.insert(gateway) } else { self.listening.remove(&gateway) };
        vpc.filter(|_| news).map(|vpc| self.elect(&vpc)).unwrap_or_default()
    }

    fn forget_silence(&mut self, of: &GatewayName, by: &GatewayName) -> bool {
        let Some(to) = self.silent.get_mut(of) else { return false };
        let news = to.remove(by);
        if to.is_empty() {
            self.silent.remove(of);
        }
        news
    }

    /// A gateway that comes up anew is not the one that fell silent, nor the one that heard so.
    pub(super) fn hear_anew(&mut self, gateway: &GatewayName) {
        self.silent.remove(gateway);
        self.listening.remove(gateway);
        for of in self.silent.keys().cloned().collect::<Vec<_>>() {
            self.forget_silence(&of, gateway);
        }
    }

    /// Decides anew who is the main gateway of a VPC. What it says is touched in any case, as something that it rests on has
    /// changed; all that is built on its gateways only if the answer is another one.
    pub(super) fn elect(&mut self, vpc: &str) -> Touched {
        let mut touched = Touched::from([Scope::Vpc(vpc.into())]);
        touched.extend(self.gateways.of_vpc(vpc).cloned().map(Scope::Watch));
        let new = self.compute_main(vpc);
        let old = match new.clone() {
            Some(main) => self.mains.insert(vpc.into(), main),
            None => self.mains.remove(vpc),
        };
        if old == new {
            return touched;
        }
        fn part(main: &Option<Main>) -> Option<(&GatewayName, &BTreeSet<GatewayName>)> {
            main.as_ref().map(|main| (&main.gateway, &main.carrying))
        }
        touched.extend(self.tunnels.of_vpc(vpc).cloned().map(Scope::Tunnel));
        if part(&old) != part(&new) {
            for name in self.gateways.of_vpc(vpc).cloned().collect::<Vec<_>>() {
                self.admit_whole(&name);
                touched.insert(Scope::Gateway(name));
            }
            touched.extend(self.tunnels.of_vpc(vpc).filter_map(|key| self.own_end(key)));
        }
        touched
    }

    /// The same of several.
    pub(super) fn elect_each(&mut self, vpcs: BTreeSet<String>) -> Touched {
        vpcs.iter().flat_map(|vpc| self.elect(vpc)).collect()
    }

    pub(super) fn elect_all(&mut self) {
        for vpc in self.all_vpcs() {
            match self.compute_main(&vpc) {
                Some(main) => drop(self.mains.insert(vpc, main)),
                None => drop(self.mains.remove(&vpc)),
            }
        }
    }

    /// Every VPC that has gateways, tunnels or a record.
    pub(in crate::vpc) fn all_vpcs(&self) -> BTreeSet<String> {
        let recorded = self.records.here().values().filter_map(|record| self.own_vpc(record));
        let known = self.gateways.vpcs().chain(self.tunnels.vpcs()).chain(self.mains.keys());
        known.cloned().chain(recorded).collect()
    }

    /// The VPC of ours that a record is about.
    pub(super) fn own_vpc(&self, record: &Record) -> Option<String> {
        match record.far()? {
            Far::Vpc { cluster, vpc } if record.origin.is_none() && self.cluster() == Some(&cluster) => {
                Some(vpc)
            }
            Far::Vpc { .. } | Far::Gateway(_) => None,
        }
    }
}
