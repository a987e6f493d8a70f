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

    /// The gateway that a tunnel goes through.
    pub(in crate::vpc) fn gateway_of<'a>(&'a self, tunnel: &'a Tunnel) -> Option<&'a GatewayName> {
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

    /// Whether whoever watches a gateway hears nothing of it.
    pub(in crate::vpc) fn is_dead(&self, gateway: &GatewayName) -> bool {
        self.silent.contains(gateway)
    }

    /// Whether the pod that serves a gateway was seen to hold a tunnel.
    pub(in crate::vpc) fn is_built(&self, gateway: &GatewayName, key: &ObjectKey) -> bool {
        let visit = self.outcome(gateway).and_then(|outcome| outcome.result.as_ref().ok());
        let built = visit.and_then(|visit| visit.tunnels.get(key));
        built.is_some_and(|(_, trouble)| trouble.is_none())
    }

    pub(super) fn apply_silence(&mut self, gateway: GatewayName, silent: bool) -> Touched {
        let vpc = self.gateways.vpc_of(&gateway).map(ToString::to_string);
        let news = if silent { self.silent.insert(gateway) } else { self.silent.remove(&gateway) };
        vpc.filter(|_| news).map(|vpc| self.elect(&vpc)).unwrap_or_default()
    }

    /// Decides anew who is the main gateway of a VPC. What it says is touched in any case, as something that it rests on has
    /// changed; all that is built on its gateways only if the answer is another one.
    pub(super) fn elect(&mut self, vpc: &str) -> Touched {
        let mut touched = Touched::from([Scope::Vpc(vpc.into())]);
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
    pub(super) fn all_vpcs(&self) -> BTreeSet<String> {
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
