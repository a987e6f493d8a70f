//! What a switch did, for people and programs.

use std::net::Ipv4Addr;

use causeway_api::vpc::foreign::kube_ovn::{StaticRoute, Vpc};
use causeway_core::GatewayName;
use causeway_core::vpc::overview::Overview;
use serde::Serialize;

use super::tied::Tied;
use crate::table::Table;

/// Everything. Names are stable: docs/operating.md has them.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Document {
    /// Whether the exit code is 0.
    pub(super) switched: bool,
    pub(super) vpc: String,
    /// The gateway that was asked for.
    pub(super) gateway: String,
    /// The one that was the main one.
    pub(super) from: Option<String>,
    /// In a sentence.
    pub(super) message: String,
    /// Routes that were moved.
    pub(super) moved: Vec<Moved>,
    /// What stayed with the gateway that was the main one.
    pub(super) stayed: Stayed,
    /// What else should be known.
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Moved {
    pub(super) cidr: String,
    pub(super) from: String,
    pub(super) to: String,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Stayed {
    /// Routes that still lead there.
    pub(super) routes: Vec<String>,
    /// What lives there and cannot follow.
    pub(super) objects: Vec<Tied>,
}

/// The routes of a VPC that led to one address before, and lead to another now.
pub(super) fn moved(before: &Vpc, after: &Vpc) -> Vec<Moved> {
    let same =
        |one: &StaticRoute, other: &StaticRoute| (&one.cidr, &one.policy) == (&other.cidr, &other.policy);
    let is_there = |route: &StaticRoute, vpc: &Vpc| vpc.spec.static_routes.contains(route);
    let gone = before.spec.static_routes.iter().filter(|route| !is_there(route, after));
    let pairs = gone.filter_map(|old| {
        let new = after.spec.static_routes.iter().filter(|new| !is_there(new, before));
        new.into_iter().find(|new| same(old, new)).map(|new| (old, new))
    });
    pairs
        .map(|(old, new)| Moved {
            cidr: old.cidr.clone(),
            from: old.next_hop_ip.clone(),
            to: new.next_hop_ip.clone(),
        })
        .collect()
}

/// The routes of a VPC that lead to an address.
pub(super) fn leading_to(vpc: &Vpc, lan: Option<Ipv4Addr>) -> Vec<String> {
    let there = |route: &&StaticRoute| route.next_hop_ip.parse().ok() == lan && lan.is_some();
    vpc.spec.static_routes.iter().filter(there).map(|route| route.cidr.clone()).collect()
}

impl Document {
    pub(super) fn code(&self) -> u8 {
        u8::from(!self.switched)
    }

    /// For people; `known` names the gateways behind addresses.
    pub(super) fn text(&self, known: &Overview, columns: Option<usize>) -> String {
        let named = |address: &str| {
            let is_its = |lan: Option<Ipv4Addr>| lan.is_some_and(|lan| lan.to_string() == address);
            let gateway = known.gateways.iter().find(|gateway| is_its(gateway.lan));
            gateway.map_or_else(|| address.to_owned(), |gateway| format!("{} ({address})", gateway.name))
        };
        let mut table = Table::new(["WHAT", "NAME", "NOW"]);
        for Moved { cidr, from, to } in &self.moved {
            table.push(["route", cidr, &format!("moved from {} to {}", named(from), named(to))]);
        }
        let from = self.from.as_deref().unwrap_or("elsewhere");
        for cidr in &self.stayed.routes {
            table.push(["route", cidr, &format!("stays with {from}")]);
        }
        for Tied { kind, name, what } in &self.stayed.objects {
            table.push([(*kind).to_owned(), name.clone(), format!("stays on {from}: {what}")]);
        }
        let mut text = format!("{}\n", self.message);
        if !table.is_empty() {
            text += &format!("\n{}", table.render(columns));
        }
        self.warnings.iter().for_each(|warning| text += &format!("\nnote: {warning}\n"));
        text
    }
}

/// What should be known of what stayed: who asks for all should know what that costs, and who did, what it cost.
pub(super) fn warnings(stayed: &Stayed, vpc: &str, to: &GatewayName, all: bool) -> Vec<String> {
    let (routes, objects) = (!stayed.routes.is_empty(), !stayed.objects.is_empty());
    let mut said = Vec::new();
    if routes && !all {
        said.push(format!(
            "only the tunnels' routes follow; `causeway vpc switch {vpc} {to} --all` moves those that stayed too, and away from \
             any EIPs"
        ));
    }
    if routes && all {
        said.push(
            "those that stayed belong to tunnels that name that gateway, or kube-ovn chooses between several next hops of theirs"
                .into(),
        );
    }
    if objects && all && !routes {
        said.push(
            "no route leads to them any more: what is translated to those addresses finds no way out until they are moved".into(),
        );
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vpc(routes: &[(&str, &str)]) -> Vpc {
        let route = |(cidr, hop): &(&str, &str)| StaticRoute {
            cidr: (*cidr).into(),
            next_hop_ip: (*hop).into(),
            ..StaticRoute::default()
        };
        let mut vpc = Vpc::new("v", Default::default());
        vpc.spec.static_routes = routes.iter().map(route).collect();
        vpc
    }

    #[test]
    fn what_moved_is_what_led_elsewhere_before() {
        let before =
            vpc(&[("242.1.0.0/16", "a"), ("0.0.0.0/0", "a"), ("10.9.0.0/16", "c"), ("10.8.0.0/16", "a")]);
        // Others may put, drop and sort meanwhile.
        let after =
            vpc(&[("0.0.0.0/0", "a"), ("10.7.0.0/16", "b"), ("10.9.0.0/16", "c"), ("242.1.0.0/16", "b")]);
        let all = moved(&before, &after);
        let one = Moved { cidr: "242.1.0.0/16".into(), from: "a".into(), to: "b".into() };
        assert_eq!(all, [one]);
        assert_eq!(moved(&before, &before), []);
    }

    #[test]
    fn what_lies_with_no_gateway_at_all_is_nobodys() {
        let vpc = vpc(&[("0.0.0.0/0", "10.0.1.254"), ("10.9.0.0/16", "nonsense")]);
        assert_eq!(leading_to(&vpc, "10.0.1.254".parse().ok()), ["0.0.0.0/0"]);
        assert_eq!(leading_to(&vpc, None), Vec::<String>::new());
    }
}
