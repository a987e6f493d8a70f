//! What a switch on purpose left where it was.
//!
//! Such a switch takes the tunnels' routes along, and all others only if that is said: a default route that leaves the gateway
//! of its EIPs cuts the internet off. kube-ovn's EIPs, and the floating IPs and SNATs on them, never move. So there is
//! something to be told, as long as the gateway that was asked for is the main one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::event::Scope;
use super::exchange;
use super::mains::Extent;
use super::objects::Switch;
use super::state::State;
use crate::names::{GatewayName, Ipv4Cidr};

/// What stayed with the gateway that gave way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stayed {
    /// The gateway that was asked for.
    pub to: GatewayName,
    /// The address of the one that gave way.
    pub lan: Ipv4Addr,
    /// Which that is, while there is one.
    pub from: Option<GatewayName>,
    /// Routes that still lead there, but for those of tunnels that name that gateway.
    pub routes: BTreeSet<Ipv4Cidr>,
    /// Addresses outside that it has, by the names of their objects; of interest where routes left them, or are still with them.
    pub addresses: BTreeMap<String, Ipv4Addr>,
}

impl Stayed {
    /// Why it matters, as the reason of a condition.
    pub fn reason(&self) -> &'static str {
        if self.routes.is_empty() { "AddressesStayed" } else { "RoutesStayed" }
    }

    /// In a sentence.
    pub fn sentence(&self, vpc: &str) -> String {
        let Self { to, lan, from, routes, addresses } = self;
        let old = from.as_ref().map_or_else(|| lan.to_string(), |from| format!("{from} ({lan})"));
        let named: Vec<String> = addresses.iter().map(|(name, it)| format!("{name} {it}")).collect();
        let named = first_few(&named);
        if routes.is_empty() {
            return format!(
                "all routes of VPC {vpc} lead to {to} since the switch, and EIPs stayed on {old}: {named}; what is translated to \
                 them, by floating IPs, SNAT or DNAT, finds no way out there"
            );
        }
        let ranges: Vec<String> = routes.iter().map(ToString::to_string).collect();
        let with = if addresses.is_empty() { String::new() } else { format!(", where EIPs are ({named})") };
        format!(
            "since the switch to {to} these routes of VPC {vpc} still lead to {old}: {}{with}; `causeway vpc switch {vpc} {to} \
             --all` moves them too, and away from any EIPs",
            first_few(&ranges)
        )
    }
}

/// So many are named.
const NAMED: usize = 5;

fn first_few(all: &[String]) -> String {
    let named = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl State {
    /// What a switch on purpose left where it was, if it left anything.
    pub fn stayed(&self, vpc: &str) -> Option<&Stayed> {
        self.stayed.get(vpc)
    }

    /// Looks what stayed in the VPCs that something was seen of; their tunnels say so.
    pub(super) fn with_what_stayed(&mut self, mut touched: BTreeSet<Scope>) -> BTreeSet<Scope> {
        let vpc = |scope: &Scope| match scope {
            Scope::Vpc(vpc) => Some(vpc.clone()),
            _ => None,
        };
        for vpc in touched.iter().filter_map(vpc).collect::<Vec<_>>() {
            if self.take_stock(&vpc) {
                touched.extend(self.tunnels.of_vpc(&vpc).cloned().map(Scope::Tunnel));
            }
        }
        touched
    }

    pub(super) fn take_stock_of_all(&mut self) {
        let vpcs: BTreeSet<String> = self.all_vpcs().into_iter().chain(self.stayed.keys().cloned()).collect();
        for vpc in vpcs {
            self.take_stock(&vpc);
        }
    }

    /// Looks what stayed in a VPC; whether that is news.
    fn take_stock(&mut self, vpc: &str) -> bool {
        let new = self.compute_stayed(vpc);
        let old = match new.clone() {
            Some(stayed) => self.stayed.insert(vpc.into(), stayed),
            None => self.stayed.remove(vpc),
        };
        old != new
    }

    fn compute_stayed(&self, vpc: &str) -> Option<Stayed> {
        let record = exchange::own_vpc_record(self, vpc)?;
        let (lan, wish) = (record.switched_from?, Switch::read(record.switched.as_ref()?)?);
        let is_main = self.main(vpc).is_some_and(|main| main.gateway == wish.to);
        if !is_main || record.gateway.as_ref() != Some(&wish.to) {
            return None;
        }
        let extent = Extent::of(self, vpc);
        let routes = self.vpcs.get(vpc).into_iter().flat_map(|vpc| &vpc.listed);
        let routes = routes.filter(|route| route.next_hop == Some(lan));
        let moves = |route| record.moving.iter().any(|moving| extent.includes(route, moving));
        let routes: BTreeSet<Ipv4Cidr> = routes
            .filter(|route| !moves(route))
            .filter_map(|route| route.range)
            .filter(|range| !extent.is_pinned(lan, *range))
            .collect();
        if routes.is_empty() && (!wish.all || !record.moving.is_empty()) {
            return None;
        }
        let is_it = |name: &&GatewayName| self.gateways.get(name).is_some_and(|it| it.lan == Some(lan));
        let from = self.gateways.of_vpc(vpc).find(is_it).cloned();
        let own = from.as_ref().and_then(|from| Some(self.gateways.locate(from).ok()?.external));
        let eips = from.iter().flat_map(|from| self.gateways.eips(from));
        // Where kube-ovn gives a gateway no address by itself, one of them is its own.
        let addresses: BTreeMap<String, Ipv4Addr> = eips
            .filter(|(_, address)| Some(*address) != own)
            .map(|(name, address)| (name.clone(), address))
            .collect();
        let any = !routes.is_empty() || !addresses.is_empty();
        any.then_some(Stayed { to: wish.to, lan, from, routes, addresses })
    }
}
