//! What whoever asks gets to know of a VPC's gateways, and whether a switch can be asked for.
//!
//! From objects alone: what gateways hold, and whether one is silent, only the controller knows that visits them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::exchange;
use super::mains::Moving;
use super::state::State;
use super::stayed::Stayed;
use crate::names::{GatewayName, ObjectKey};

/// A VPC of ours and its gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// The VPC.
    pub vpc: String,
    /// The gateway that its record names.
    pub main: Option<GatewayName>,
    /// All of its gateways, by name.
    pub gateways: Vec<Seen>,
    /// Whether kube-ovn fails over by itself here.
    pub hands_off: bool,
    /// Tunnels that follow its main gateway.
    pub tunnels: Vec<ObjectKey>,
    /// Routes that are still to be moved.
    pub moving: Vec<Moving>,
    /// The last wish that was granted, as it was written.
    pub switched: Option<String>,
    /// What that left where it was.
    pub stayed: Option<Stayed>,
}

/// A gateway of a VPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: GatewayName,
    /// Its address in the VPC.
    pub lan: Option<Ipv4Addr>,
    /// Its address outside, while that is known.
    pub external: Option<Ipv4Addr>,
    /// Why it cannot be the main one, if it cannot.
    pub unfit: Option<String>,
}

impl Overview {
    /// A gateway of this VPC.
    pub fn gateway(&self, name: &GatewayName) -> Option<&Seen> {
        self.gateways.iter().find(|gateway| gateway.name == *name)
    }

    /// Those that could take over.
    pub fn standbys(&self) -> impl Iterator<Item = &GatewayName> {
        let others = self.gateways.iter().filter(|gateway| self.main.as_ref() != Some(&gateway.name));
        others.filter(|gateway| gateway.unfit.is_none()).map(|gateway| &gateway.name)
    }
}

impl State {
    /// The VPCs of ours that have gateways or tunnels, or a record.
    pub fn vpc_names(&self) -> BTreeSet<String> {
        self.all_vpcs()
    }

    /// A VPC and its gateways; nothing where there is nothing of it but perhaps its object.
    pub fn overview(&self, vpc: &str) -> Overview {
        let record = exchange::own_vpc_record(self, vpc);
        let seen = |name: &GatewayName| Seen {
            name: name.clone(),
            lan: self.gateways.get(name).and_then(|gateway| gateway.lan),
            external: self.gateways.locate(name).ok().map(|located| located.external),
            unfit: self.unfit(name),
        };
        Overview {
            vpc: vpc.into(),
            main: record.and_then(|record| record.gateway.clone()),
            gateways: self.gateways.of_vpc(vpc).map(seen).collect(),
            hands_off: self.main(vpc).is_some_and(|main| main.hands_off),
            tunnels: self.tunnels.of_vpc(vpc).cloned().collect(),
            moving: record.map(|record| record.moving.clone()).unwrap_or_default(),
            switched: record.and_then(|record| record.switched.clone()),
            stayed: self.stayed(vpc).cloned(),
        }
    }

    /// Why a gateway cannot be a VPC's main one, if it cannot.
    fn unfit(&self, name: &GatewayName) -> Option<String> {
        let gateway = self.gateways.get(name)?;
        if gateway.fit {
            return None;
        }
        if let Err(trouble) = gateway.pod.as_ref().map(drop).and(gateway.located.as_ref().map(drop)) {
            return Some(trouble.to_string());
        }
        Some(match (gateway.ready, gateway.lan) {
            (false, _) => format!("gateway {name} is not ready: no replica of its workload is available"),
            (true, None) => format!("gateway {name} has no address in its VPC"),
            (true, Some(_)) => format!("gateway {name} is not ready, or its pod is being deleted"),
        })
    }

    /// Why it makes no sense to ask for a gateway as the main one of a VPC, if it makes none.
    pub fn refuses_switch(&self, vpc: &str, gateway: &GatewayName) -> Option<String> {
        let known = self.overview(vpc);
        let names = |names: Vec<String>| if names.is_empty() { "none".into() } else { names.join(", ") };
        if !self.vpcs.contains_key(vpc) {
            let there = names(self.vpcs.keys().cloned().collect());
            return Some(format!("there is no Vpc {vpc}; there is: {there}"));
        }
        let there = || names(known.gateways.iter().map(|it| it.name.to_string()).collect());
        let Some(seen) = known.gateway(gateway) else {
            return Some(match (self.gateways.get(gateway), self.gateways.vpc_of(gateway)) {
                (None, _) => format!("there is no gateway {gateway}; VPC {vpc} has: {}", there()),
                (Some(_), Some(other)) => {
                    format!("gateway {gateway} is of VPC {other}, not of {vpc}, which has: {}", there())
                }
                (Some(_), None) => format!("which VPC gateway {gateway} is of is not known"),
            });
        };
        if let Some(unfit) = &seen.unfit {
            return Some(unfit.clone());
        }
        if known.hands_off {
            return Some(format!(
                "kube-ovn itself fails over between several pods of a gateway of VPC {vpc}, so its routes are left to kube-ovn"
            ));
        }
        known.tunnels.is_empty().then(|| {
            format!(
                "no tunnel by VPC leads from VPC {vpc} (spec.localVpc), so nothing follows its main gateway"
            )
        })
    }
}
