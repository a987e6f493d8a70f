//! What an event of a gateway, of what was found there, or of the routes that lead to it touches.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::records::import_of;
use super::{State, Touched};
use crate::names::{GatewayName, ObjectKey};
use crate::room::Change;
use crate::vpc::compile;
use crate::vpc::event::Scope;
use crate::vpc::gateways::{Gateway, Located, Preference};
use crate::vpc::objects::{StaticRoute, Vpc};
use crate::vpc::outcome::Outcome;

impl State {
    /// The gateways and their records; where something is true of one that was not, every tunnel that is or
    /// was built on it.
    pub(super) fn around_gateways(&mut self, names: BTreeSet<GatewayName>) -> Touched {
        let mut touched = Touched::new();
        for name in names {
            // Before what was seen there is forgotten.
            touched.extend(self.leaving(&name));
            self.visits.keep(&name, &self.gateways.pod_uids(&name));
            touched.extend(self.around_gateway(&name));
            touched.insert(Scope::Record(name.clone()));
            touched.insert(Scope::Gateway(name));
        }
        touched
    }

    /// What is to be looked at because something is true of a gateway that was not.
    pub(super) fn around_gateway(&mut self, name: &GatewayName) -> Touched {
        let Some((old, new)) = self.gateways.work_out(name, &self.preference(name)) else {
            return Touched::new();
        };
        let pod = |gateway: &Option<Gateway>| gateway.as_ref().and_then(|it| it.pod.clone().ok());
        if pod(&old) != pod(&new) {
            self.hear_anew(name);
        }
        fn vpc(gateway: &Option<Gateway>) -> Option<&String> {
            gateway.as_ref().and_then(|gateway| gateway.vpc.as_ref())
        }
        fn grounds(gateway: &Option<Gateway>) -> impl PartialEq + use<'_> {
            fn known(located: &Located) -> (Ipv4Addr, Option<&str>) {
                (located.external, located.vpc.as_deref())
            }
            (gateway.as_ref().map(|gateway| gateway.located.as_ref().map(known)), vpc(gateway))
        }
        if grounds(&old) != grounds(&new) {
            self.admit_whole(name);
        }
        let vpcs: BTreeSet<String> = [vpc(&old), vpc(&new)].into_iter().flatten().cloned().collect();
        let mut touched =
            Touched::from([Scope::Record, Scope::Gateway, Scope::Watch].map(|scope| scope(name.clone())));
        // One that names another cluster is a slip of ours if it leads to where this gateway is.
        touched.extend(self.records.written_here(name).filter_map(import_of));
        let build =
            |gateway: &Option<Gateway>| gateway.as_ref().map(|it| (it.pod.clone(), it.located.clone()));
        if build(&old) != build(&new) || vpc(&old) != vpc(&new) {
            touched.extend(self.on(name).cloned().map(Scope::Tunnel));
            let left = vpc(&old).into_iter().flat_map(|vpc| self.tunnels.of_vpc(vpc));
            touched.extend(left.cloned().map(Scope::Tunnel));
        }
        touched.extend(self.elect_each(vpcs));
        touched.extend(self.leaving(name));
        touched
    }

    /// What speaks for one of several pods of a gateway.
    fn preference(&self, name: &GatewayName) -> Preference {
        let published = self.cluster().and_then(|cluster| self.records.published(cluster, name));
        Preference { serving: self.visits.serving(name).map(Into::into), published }
    }

    pub(super) fn work_out_gateways(&mut self) {
        for name in self.gateways.all_names() {
            self.gateways.work_out(&name, &self.preference(&name));
        }
    }

    /// The tunnels being deleted that may have something on a gateway.
    fn leaving(&self, gateway: &GatewayName) -> Touched {
        let leaving = self.tunnels.leaving();
        let held = leaving.iter().filter(|key| self.visits.holds(gateway, key));
        let stood_by = self.on(gateway).filter(|key| leaving.contains(key));
        let from = self.tunnels.leaving_from(gateway).chain(held).chain(stood_by);
        from.cloned().map(Scope::Tunnel).collect()
    }

    /// A route matters to the tunnels of the VPC's gateways whose far range it covers.
    pub(super) fn apply_vpcs(&mut self, event: Change<String, Vpc>) -> Touched {
        let mut touched = Touched::new();
        let (mut opened, mut concerned) = (BTreeSet::new(), BTreeSet::new());
        for (vpc, old, new) in event.carry_out(&mut self.vpcs) {
            let appeared = old.is_none() || new.is_none();
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            if appeared || old.namespaces != new.namespaces {
                opened.extend(self.gateways.in_vpc(&vpc).map(|(name, _)| name.clone()));
            }
            let changed: Vec<&StaticRoute> = old.routes.symmetric_difference(&new.routes).collect();
            for (name, located) in self.gateways.in_vpc(&vpc) {
                let Some(admission) = self.admissions.get(name) else { continue };
                if appeared {
                    touched.extend(admission.keys().cloned().map(Scope::Tunnel));
                }
                for route in changed.iter().filter(|route| Some(route.next_hop) == located.lan) {
                    touched.extend(admission.within(route.range).cloned().map(Scope::Tunnel));
                }
            }
            concerned.insert(vpc);
        }
        touched.extend(self.elect_each(concerned));
        if self.own.given.restrict_namespaces {
            for name in opened {
                self.admit_whole(&name);
                touched.extend(self.on(&name).cloned().map(Scope::Tunnel));
                touched.insert(Scope::Gateway(name));
            }
        }
        touched
    }

    /// An outcome matters to the tunnels of which it says something else than the one before.
    pub(super) fn apply_outcome(&mut self, gateway: GatewayName, outcome: Outcome) -> Touched {
        if !self.gateways.pod_uids(&gateway).contains(outcome.pod_uid.as_str()) {
            // The pod is gone, and what was found there with it.
            return Touched::new();
        }
        let mut touched = self.leaving(&gateway);
        let uid = outcome.pod_uid.clone();
        let serves = self.gateways.pod(&gateway).is_ok_and(|pod| pod.uid == uid);
        let old = self.visits.take(&gateway, outcome, serves);
        let new = self.visits.of_pod(&gateway, &uid);
        if serves && let Some(Outcome { asked, result: Ok(visit), .. }) = new {
            // What stands by sends nothing, so nobody is asked through it.
            let up =
                visit.tunnels.iter().filter(|(_, (want, trouble))| trouble.is_none() && want.seat.carries());
            let built = up.filter_map(|(key, (want, _))| {
                let tunnel = self.tunnels.get(key)?;
                Some((tunnel.spec.as_ref().ok()?.link.as_str(), want, tunnel.answered_behind(want)))
            });
            self.reaches.built(&gateway, &uid, *asked, built);
        }
        let differs = |key: &&ObjectKey| {
            old.as_ref().map(|outcome| outcome.of(key)) != new.map(|outcome| outcome.of(key))
        };
        let news: Vec<ObjectKey> = self.on(&gateway).filter(differs).cloned().collect();
        for key in &news {
            touched.extend(self.own_end(key));
            touched.insert(Scope::Tunnel(key.clone()));
        }
        touched.extend(self.leaving(&gateway));
        let clean = |outcome: &Outcome| compile::is_clean(outcome, self.tunnels.unreadable());
        let lingers = !serves && old.as_ref().is_some_and(clean) && !new.is_some_and(clean);
        // Whoever is asked for must hold all tunnels before it takes over.
        let vpc = self.gateways.vpc_of(&gateway).filter(|_| !news.is_empty()).map(ToString::to_string);
        touched.extend(vpc.map(|vpc| self.elect(&vpc)).unwrap_or_default());
        if lingers {
            // A visit that was under way when another pod took over.
            touched.insert(Scope::Gateway(gateway));
        }
        touched
    }
}
