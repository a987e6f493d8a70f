//! Gateways in memory: what a pod holds, and what is watched over while that changes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

use causeway_core::names::Ipv4Cidr;
use causeway_core::vpc::{Action, Have, LAN_LINK, Link, NatRule, Plan, Route, Step, UNDERLAY_LINK, Variant};
use causeway_datapath::Trouble;
use causeway_datapath::vpc::{Applied, Memory, StepError};

use crate::lever::Lever;
use crate::world::World;

/// A pod that runs.
pub(crate) struct Pod {
    pub(crate) cluster: usize,
    pub(crate) name: String,
    pub(crate) external: Ipv4Addr,
    pub(crate) memory: Memory,
    /// Counts what the kernel reports; `None` when the pod has ended.
    pub(crate) news: Lever<Option<u64>>,
    /// Whether it may hold what a controller cannot know of: a plan was carried out here that nobody waited for any more, or
    /// its node was silent, so that it counted as gone.
    pub(crate) excused: AtomicBool,
}

/// A link that somebody else made, with the route into it.
const FOREIGN_LINK: &str = "wg0";

/// What a gateway holds before we come: kube-ovn's own, and somebody else's.
fn bare() -> Have {
    let up = || Link { up: true, mtu: 1500, proxy_delay: 800, ..Link::default() };
    let mut have = Have::default();
    for name in [LAN_LINK, UNDERLAY_LINK, FOREIGN_LINK] {
        have.links.insert(name.into(), up());
    }
    let route = |range: &str, via: Option<Ipv4Addr>, dev: &str| Route {
        range: range.parse().expect("a range"),
        via,
        dev: Some(dev.into()),
        protocol: 3,
        metric: 0,
    };
    have.routes = vec![
        route("0.0.0.0/0", Some(Ipv4Addr::new(172, 50, 0, 1)), UNDERLAY_LINK),
        route("198.18.0.0/15", None, FOREIGN_LINK),
    ];
    let rules = vec![NatRule::Foreign("-j SNAT_FILTER".into())];
    have.nat.postrouting.insert(have.nat.active, rules);
    have.nat.forward.insert(have.nat.active, vec![NatRule::Foreign("-o wg0 -j ACCEPT".into())]);
    have
}

impl Pod {
    pub(crate) fn new(cluster: usize, name: String, external: Ipv4Addr) -> Self {
        let news = Lever::new(Some(0));
        Self { cluster, name, external, memory: Memory::new(bare()), news, excused: AtomicBool::new(false) }
    }

    /// What ran in it ends.
    pub(crate) fn end(&self) {
        self.news.set(|_| None);
    }

    /// Somebody else changes something.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Have)) {
        let before = self.memory.have();
        self.memory.change(change);
        self.report(&before);
    }

    /// The kernel reports changes of links and routes, not of rules.
    fn report(&self, before: &Have) {
        let now = self.memory.have();
        if now.links != before.links || now.routes != before.routes {
            self.news.set(|news| news.map(|count| count + 1));
        }
    }

    /// Carries out the first steps of a plan as a command would, watched over at each of them.
    pub(crate) fn carry_out(
        &self,
        world: &World,
        plan: &Plan,
        steps: usize,
        refused: Option<usize>,
        term: Option<u64>,
    ) -> Result<Applied, Trouble> {
        self.memory.admit(term)?;
        let before = self.memory.have();
        let mut failures = BTreeMap::new();
        let mut ways = vec![routed(&before)];
        for (index, step) in plan.steps.iter().take(steps).enumerate() {
            let done = match refused {
                Some(at) if at == index => Err(StepError::Refused("Operation not supported".into())),
                _ => self.memory.step(&step.action),
            };
            let now = self.memory.have();
            if foreign(&now) != foreign(&before) {
                world.violate(format!("{}: something foreign was touched by {}", self.name, step.action));
            }
            ways.push(routed(&now));
            if let Err(error) = done {
                failures.insert(index, error);
            }
        }
        self.watch_over_ways(world, plan, &ways);
        self.report(&before);
        Ok(Applied { listing: self.memory.listing(), failures })
    }

    /// A range that a plan does not take away is led into a tunnel all the time.
    fn watch_over_ways(&self, world: &World, plan: &Plan, ways: &[BTreeMap<Ipv4Cidr, String>]) {
        let puts = |range: &Ipv4Cidr| {
            let puts =
                |step: &Step| matches!(&step.action, Action::RoutePut { route, .. } if route.range == *range);
            plan.steps.iter().any(puts)
        };
        let takes = |range: &Ipv4Cidr, dev: &str| {
            let takes = |step: &Step| match &step.action {
                // One that is made anew cannot be there all the time.
                Action::LinkDel { link } | Action::LinkFree { link } => link == dev,
                Action::RouteDel { route } => route.range == *range && !puts(range),
                _ => false,
            };
            plan.steps.iter().any(takes)
        };
        let Some(first) = ways.first() else { return };
        for (range, _) in first.iter().filter(|(range, dev)| !takes(range, dev)) {
            if ways.iter().any(|ways| !ways.contains_key(range)) {
                world.violate(format!("{}: packets to {range} had no way for a moment", self.name));
            }
        }
    }
}

/// Which ranges are led into tunnels of ours, and into which.
fn routed(have: &Have) -> BTreeMap<Ipv4Cidr, String> {
    let led = |route: &Route| {
        let dev = route.dev.as_ref().filter(|_| route.is_ours())?;
        have.links.get(dev).filter(|link| link.is_ours() && link.up)?;
        Some((route.range, dev.clone()))
    };
    have.routes.iter().filter_map(led).collect()
}

/// What is not ours: it stays as it is, whatever we do.
fn foreign(have: &Have) -> impl PartialEq + use<> {
    let links = have.links.iter().filter(|(_, link)| !link.is_ours());
    // What the kernel lets pass is set on the gateway's own links too.
    let links = links.map(|(name, link)| (name.clone(), Link { rp_filter: 0, ..link.clone() }));
    let routes = have.routes.iter().filter(|route| !route.is_ours()).cloned();
    let rules = |chains: &BTreeMap<Variant, Vec<NatRule>>| -> Vec<(Variant, String)> {
        let all = chains.iter().flat_map(|(variant, rules)| rules.iter().map(|rule| (*variant, rule)));
        all.filter_map(|(variant, rule)| match rule {
            NatRule::Foreign(spec) => Some((variant, spec.clone())),
            NatRule::Ours { .. } | NatRule::Shared { .. } => None,
        })
        .collect()
    };
    (
        links.collect::<BTreeMap<_, _>>(),
        routes.collect::<Vec<_>>(),
        rules(&have.nat.postrouting),
        rules(&have.nat.forward),
    )
}
