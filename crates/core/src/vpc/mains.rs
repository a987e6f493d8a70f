//! Which gateway of a VPC is the main one, and what follows from a change of it.
//!
//! The VPC's own record is the decision: it names the main gateway, and nothing else remembers one. [`elect`] is asked with
//! every change and answers from what is there now, so it is the same whether an event was seen, missed, or came while
//! nobody led. A switch is two writes, the record and then the VPC's routes ([`Step`]). The record comes first although the
//! routes are what packets wait for: it costs one write of some milliseconds, other clusters begin to follow, and from then on
//! whoever leads, also after a crash between the two, moves the same routes the same way ([`Moving`]). The other way round,
//! a main gateway that came back in between would be taken for the one that never left, and the routes for somebody else's.
//!
//! A gateway that was the main one keeps its part until no route leads to it any more, so a switch on purpose drains.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::exchange::{self, Record, RecordTask};
use super::objects::{ListedRoute, PodRef, Switch, Vpc};
use super::state::State;
use crate::names::{GatewayName, Ipv4Cidr, ObjectKey};

/// What speaks for one gateway or another.
#[derive(Debug, Clone, Default)]
pub struct Field<'a> {
    /// The one that the VPC's record names.
    pub recorded: Option<&'a GatewayName>,
    /// The one that the VPC's owner asked for and that could take over.
    pub wished: Option<&'a GatewayName>,
    /// Those that routes of the VPC lead to.
    pub routed: BTreeSet<&'a GatewayName>,
    /// All gateways of the VPC, and whether each is fit: ready, and not known to be dead.
    pub gateways: BTreeMap<&'a GatewayName, bool>,
    /// Whether any tunnel follows the main gateway; without one, the record follows the routes.
    pub followed: bool,
}

/// The main gateway: the one asked for; else the one that is; else the one that traffic already flows to; else the first by
/// name. Where none is fit the one that is stays: nobody could do better.
pub fn elect<'a>(field: &Field<'a>) -> Option<&'a GatewayName> {
    let fit = || field.gateways.iter().filter(|(_, fit)| **fit).map(|(name, _)| *name);
    let recorded = || fit().find(|name| Some(*name) == field.recorded);
    let routed = || fit().find(|name| field.routed.contains(name));
    let kept = || field.gateways.keys().copied().find(|name| Some(*name) == field.recorded);
    let wished = fit().find(|name| Some(*name) == field.wished);
    let known = || {
        if field.followed { recorded().or_else(routed) } else { routed().or_else(recorded) }
    };
    wished.or_else(known).or_else(|| fit().next()).or_else(kept)
}

/// A VPC's main gateway, and the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Main {
    /// The main one.
    pub(super) gateway: GatewayName,
    /// Those that carry packets: the main one, and one that was while routes still lead to it.
    pub(super) carrying: BTreeSet<GatewayName>,
    /// Those that could take over.
    pub(super) standbys: BTreeSet<GatewayName>,
    /// Whether it is fit itself.
    pub(super) fit: bool,
    /// Whether kube-ovn fails over by itself here, and routes are none of our business.
    pub(super) hands_off: bool,
    /// A wish that waits, and for what.
    pub(super) waiting: Option<String>,
}

/// Routes that are still to be moved, by the address that they lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moving {
    /// The address of a gateway that was the main one.
    pub from: Ipv4Addr,
    /// Whether all that lead there move, or those of tunnels only.
    pub all: bool,
}

impl std::fmt::Display for Moving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.from, if self.all { "all" } else { "tunnels" })
    }
}

impl std::str::FromStr for Moving {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (from, extent) = text.split_once('/').ok_or(())?;
        let all = match extent {
            "all" => true,
            "tunnels" => false,
            _ => return Err(()),
        };
        Ok(Self { from: from.parse().map_err(drop)?, all })
    }
}

/// Next hops of a VPC to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteTask {
    /// The version that it was decided on.
    pub version: String,
    /// Which routes, by their place in the list.
    pub places: Vec<usize>,
    /// The new next hop.
    pub to: Ipv4Addr,
    /// What is done, in words: kept on the object as an annotation.
    pub note: String,
    /// Whether the object has any annotation already.
    pub annotated: bool,
}

/// The next thing to do about a VPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// All is as it should be.
    Nothing,
    /// Its record.
    Record(RecordTask),
    /// Its routes.
    Routes(RouteTask),
}

/// Who hands its flows over to whom, in a switch from one gateway that works to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    /// The one that has been the main one.
    pub from: PodRef,
    /// The one that will be.
    pub to: PodRef,
    /// Where the flows lead.
    pub ranges: Vec<Ipv4Cidr>,
}

/// What is handed over before a VPC's record names another gateway. From one that is lost nothing can be had.
pub fn handover(state: &State, vpc: &str) -> Option<Handover> {
    let (main, from) = (state.main(vpc)?, state.recorded_main(vpc)?);
    let extent = Extent::of(state, vpc);
    if *from == main.gateway || !state.is_fit(from) || !extent.is_followed || extent.tunnels.is_empty() {
        return None;
    }
    let pod = |name| state.gateways.pod(name).ok().cloned();
    Some(Handover { from: pod(from)?, to: pod(&main.gateway)?, ranges: extent.tunnels })
}

/// Compiles the scope of a VPC: its record first, then its routes.
pub fn step(state: &State, vpc: &str) -> Step {
    match exchange::vpc_record(state, vpc) {
        RecordTask::Nothing => routes(state, vpc).map_or(Step::Nothing, Step::Routes),
        task => Step::Record(task),
    }
}

/// The routes that lead to a gateway which was the main one. The record says so: where it is not written yet there is nothing.
fn routes(state: &State, name: &str) -> Option<RouteTask> {
    let record = exchange::own_vpc_record(state, name)?;
    let main = state.main(name).filter(|main| record.gateway.as_ref() == Some(&main.gateway))?;
    let to = state.gateways.locate(&main.gateway).ok()?.lan?;
    let vpc = state.vpcs.get(name)?;
    let extent = Extent::of(state, name);
    let moving = record.moving.iter().filter(|moving| moving.from != to);
    let moving: Vec<&Moving> = moving.filter(|_| extent.is_followed).collect();
    let moves = |route: &ListedRoute| moving.iter().any(|moving| extent.includes(route, moving));
    let places: Vec<usize> =
        vpc.listed.iter().enumerate().filter(|(_, route)| moves(route)).map(|(place, _)| place).collect();
    let note = |place: &usize| {
        let route = vpc.listed.get(*place)?;
        let (range, from) = (route.range?, route.next_hop?);
        Some(format!("{range} from {from} to {to}"))
    };
    let note = places.iter().filter_map(note).collect::<Vec<_>>().join(", ");
    let (version, annotated) = (vpc.resource_version.clone(), vpc.annotated);
    (!places.is_empty()).then_some(RouteTask { version, places, to, note, annotated })
}

/// What is still to be moved once a gateway is the main one, with the address that it has.
pub(super) fn still_moving(
    state: &State,
    name: &str,
    record: Option<&Record>,
    main: &Main,
    lan: Option<Ipv4Addr>,
) -> Vec<Moving> {
    let extent = Extent::of(state, name);
    let (Some(vpc), true) = (state.vpcs.get(name), extent.is_followed) else { return Vec::new() };
    let mut moving = record.map(|record| record.moving.clone()).unwrap_or_else(|| unremembered(state, name));
    let wish = record.and_then(|record| pending(state, vpc, record, main));
    if let Some(record) = record.filter(|record| record.gateway.as_ref() != Some(&main.gateway)) {
        moving.extend(record.lan.map(|from| Moving { from, all: wish.is_none_or(|wish| wish.all) }));
    } else if let Some(from) = record.and_then(|record| record.lan).filter(|from| Some(*from) != lan) {
        // The same gateway under another address.
        moving.push(Moving { from, all: true });
    } else if let Some(record) = record
        && wish.is_some_and(|wish| wish.all)
    {
        // The tunnels' routes went before, and now the rest is to follow.
        moving.retain(|moving| Some(moving.from) != record.switched_from);
        moving.extend(record.switched_from.map(|from| Moving { from, all: true }));
    }
    moving.retain(|moving| {
        Some(moving.from) != lan && vpc.listed.iter().any(|route| extent.includes(route, moving))
    });
    moving.sort_unstable();
    moving.dedup_by_key(|moving| moving.from);
    moving
}

/// Where no record remembers anything, what leads to gateways that nobody can use is to be moved.
fn unremembered(state: &State, vpc: &str) -> Vec<Moving> {
    let lost = state.gateways.of_vpc(vpc).filter(|name| !state.is_fit(name));
    let lan = |name: &GatewayName| state.gateways.get(name).and_then(|gateway| gateway.lan);
    lost.filter_map(lan).map(|from| Moving { from, all: true }).collect()
}

/// The wish that makes a gateway the main one, while the record does not say yet that it is granted. Where the one before is
/// lost it is no wish that decides, and nothing may stay there.
fn pending<'a>(state: &State, vpc: &'a Vpc, record: &Record, main: &Main) -> Option<&'a Switch> {
    let wish = vpc.switch.as_ref().filter(|wish| wish.to == main.gateway)?;
    let is_new = record.switched.as_ref() != Some(&wish.text);
    let is_fit = record.gateway.as_ref().is_some_and(|before| state.is_fit(before));
    Some(wish).filter(|_| is_new && is_fit)
}

/// The address of the gateway that gave way to a wish, once another one is the main one. After a loss there is none: all moved.
pub(super) fn left_behind(
    state: &State,
    name: &str,
    record: Option<&Record>,
    main: &Main,
    lan: Option<Ipv4Addr>,
) -> Option<Ipv4Addr> {
    let (record, vpc) = (record?, state.vpcs.get(name));
    let from = match record.gateway.as_ref() == Some(&main.gateway) {
        true => record.switched_from,
        false => vpc.and_then(|vpc| pending(state, vpc, record, main)).and(record.lan),
    };
    from.filter(|from| Some(*from) != lan)
}

/// Which routes of a VPC follow its main gateway.
pub(super) struct Extent {
    /// Whether any does: a tunnel by VPC is there, and kube-ovn does not fail over by itself.
    is_followed: bool,
    /// What its tunnels lead to.
    tunnels: Vec<Ipv4Cidr>,
    /// What tunnels that name a gateway lead to, with the address of that where it is known: nobody but the owner moves those.
    pinned: Vec<(Option<Ipv4Addr>, Ipv4Cidr)>,
}

impl Extent {
    pub(super) fn of(state: &State, vpc: &str) -> Self {
        let main = state.main(vpc);
        let is_followed =
            main.is_some_and(|main| !main.hands_off) && state.tunnels.of_vpc(vpc).next().is_some();
        let range = |gateway: &GatewayName, key| {
            let verdict = state.admission(gateway)?.of(key)?;
            Some(verdict.ok()?.remote_range)
        };
        let of_main = |main: &Main| {
            let tunnels = state.tunnels.of_vpc(vpc);
            tunnels.filter_map(|key| range(&main.gateway, key)).collect::<Vec<_>>()
        };
        let mut pinned = Vec::new();
        // Of a gateway that is gone nothing is known, and its tunnels may still be declared.
        let gone = state.tunnels.gateways().filter(|name| state.gateways.get(name).is_none());
        for name in state.gateways.of_vpc(vpc).chain(gone) {
            let lan = state.gateways.get(name).and_then(|gateway| gateway.lan);
            pinned.extend(state.tunnels.naming(name).filter_map(|key| Some((lan, state.far_range(key)?))));
        }
        Self { is_followed, tunnels: main.map(of_main).unwrap_or_default(), pinned }
    }

    /// Whether a range belongs to a tunnel that names the gateway with an address.
    pub(super) fn is_pinned(&self, lan: Ipv4Addr, range: Ipv4Cidr) -> bool {
        self.pinned.iter().any(|(its_lan, its)| its_lan.is_none_or(|it| it == lan) && its.covers(range))
    }

    /// Whether a route moves away from where it leads.
    pub(super) fn includes(&self, route: &ListedRoute, moving: &Moving) -> bool {
        if route.next_hop != Some(moving.from) || route.shared {
            return false;
        }
        let Some(range) = route.range else { return moving.all };
        // One around a tunnel's range leads there too, but the one that leads everywhere is not the tunnels'.
        let is_of_tunnel = |its: &Ipv4Cidr| its.covers(range) || range.prefix() > 0 && range.covers(*its);
        !self.is_pinned(moving.from, range) && (moving.all || self.tunnels.iter().any(is_of_tunnel))
    }
}

impl State {
    /// Works out anew which gateway of a VPC is the main one.
    pub(super) fn compute_main(&self, vpc: &str) -> Option<Main> {
        let record = exchange::own_vpc_record(self, vpc);
        let names: Vec<&GatewayName> = self.gateways.of_vpc(vpc).collect();
        let gateways: BTreeMap<&GatewayName, bool> =
            names.iter().map(|name| (*name, self.is_fit(name))).collect();
        let lan = |name: &GatewayName| self.gateways.get(name).and_then(|gateway| gateway.lan);
        let known = self.vpcs.get(vpc);
        let is_routed = |name: &&GatewayName| {
            let hop = lan(name);
            let followed = |known: &Vpc| known.listed.iter().any(|route| route.next_hop == hop);
            hop.is_some() && known.is_some_and(followed)
        };
        let hands_off =
            names.iter().any(|name| self.gateways.get(name).is_some_and(|gateway| gateway.replicated));
        // Where no record says which wishes were granted, none is new.
        let wish = record.and_then(|record| {
            let wish = known?.switch.as_ref()?;
            (record.switched.as_ref() != Some(&wish.text)).then_some(wish)
        });
        let obstacle = wish.and_then(|wish| match hands_off {
            true => Some(format!("kube-ovn itself fails over between gateways of VPC {vpc}")),
            false => self.cannot_take_over(vpc, &wish.to),
        });
        let field = Field {
            recorded: record.and_then(|record| record.gateway.as_ref()),
            wished: wish.filter(|_| obstacle.is_none()).map(|wish| &wish.to),
            routed: names.iter().copied().filter(is_routed).collect(),
            followed: !hands_off && self.tunnels.of_vpc(vpc).next().is_some(),
            gateways,
        };
        let gateway = elect(&field)?.clone();
        let moving = |name: &GatewayName| {
            let from = |record: &Record| record.moving.iter().any(|it| Some(it.from) == lan(name));
            record.is_some_and(from)
        };
        let carrying =
            names.iter().filter(|name| ***name == gateway || Some(**name) == field.recorded || moving(name));
        let others = field.gateways.iter().filter(|(name, fit)| **fit && **name != &gateway);
        Some(Main {
            carrying: carrying.map(|name| (*name).clone()).collect(),
            standbys: others.map(|(name, _)| (*name).clone()).collect(),
            fit: field.gateways.get(&gateway).copied().unwrap_or_default(),
            hands_off,
            waiting: obstacle,
            gateway,
        })
    }

    /// The main gateway of a VPC as its record has it.
    pub fn recorded_main(&self, vpc: &str) -> Option<&GatewayName> {
        exchange::own_vpc_record(self, vpc)?.gateway.as_ref()
    }

    /// What a tunnel leads to, whether or not its gateway is there to build it.
    fn far_range(&self, key: &ObjectKey) -> Option<Ipv4Cidr> {
        let tunnel = self.tunnels.get(key).filter(|tunnel| !tunnel.deleting)?;
        let found = self.records.find(&tunnel.spec.as_ref().ok()?.ends.far()).ok().map(|(_, range)| range);
        found.or_else(|| tunnel.status.remote_globalnet.as_ref()?.parse().ok())
    }

    /// Whether a gateway could be a VPC's main one.
    fn is_fit(&self, name: &GatewayName) -> bool {
        self.gateways.get(name).is_some_and(|gateway| gateway.fit) && !self.is_dead(name)
    }

    /// Why a gateway cannot become the main one on purpose, if it cannot: what works is not given up for what may not.
    fn cannot_take_over(&self, vpc: &str, name: &GatewayName) -> Option<String> {
        if !self.gateways.of_vpc(vpc).any(|known| known == name) {
            return Some(format!("VPC {vpc} has no gateway {name}"));
        }
        if !self.is_fit(name) {
            return Some(format!("gateway {name} is not ready"));
        }
        // What the present one was seen without is nothing to lose.
        let main = self.recorded_main(vpc);
        let is_lost = |key: &&ObjectKey| {
            self.is_built(name, key) != Some(true)
                && main.and_then(|main| self.is_built(main, key)) != Some(false)
        };
        let missing = self.tunnels.of_vpc(vpc).find(is_lost)?;
        Some(format!("gateway {name} does not hold tunnel {missing} yet"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> GatewayName {
        text.parse().expect("a name")
    }

    /// Elects among gateways written as `a b!`, where `!` means that one is not fit.
    fn elected(recorded: &str, wished: &str, routed: &str, gateways: &str, followed: bool) -> String {
        let all: Vec<(GatewayName, bool)> = gateways
            .split_whitespace()
            .map(|it| (name(it.trim_end_matches('!')), !it.ends_with('!')))
            .collect();
        let [recorded, wished, routed] =
            [recorded, wished, routed].map(|it| Some(it).filter(|it| !it.is_empty()).map(name));
        let field = Field {
            recorded: recorded.as_ref(),
            wished: wished.as_ref(),
            routed: routed.iter().collect(),
            gateways: all.iter().map(|(name, fit)| (name, *fit)).collect(),
            followed,
        };
        elect(&field).map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn a_gateway_that_is_added_is_the_main_one_only_where_there_is_none() {
        assert_eq!(elected("a", "", "a", "a", true), "a", "the one that is recorded is refreshed");
        assert_eq!(elected("b", "", "b", "a b", true), "b", "another is the main one already");
        assert_eq!(elected("", "", "b", "a b", true), "b", "the VPC leads to this one");
        assert_eq!(elected("", "", "", "b", true), "b", "there is no other");
    }

    #[test]
    fn a_main_gateway_that_goes_down_gives_way_to_one_that_is_ready_and_to_no_other() {
        assert_eq!(elected("a", "", "a", "a b!", true), "a", "a standby went down");
        assert_eq!(elected("a", "", "a", "a! b c", true), "b", "the main one did");
        assert_eq!(elected("a", "", "a", "a! b!", true), "a", "nobody could do better");
    }

    #[test]
    fn a_main_gateway_never_comes_back_by_itself() {
        assert_eq!(elected("b", "", "b", "a b", true), "b");
        // Not even where a crash came between record and routes.
        assert_eq!(elected("b", "", "a", "a b", true), "b");
    }

    #[test]
    fn a_gateway_that_is_deleted_leaves_its_place_to_a_standby_or_to_nobody() {
        assert_eq!(elected("a", "", "a", "b", true), "b");
        assert_eq!(elected("a", "", "a", "", true), "");
        assert_eq!(elected("a", "", "a", "b!", true), "");
    }

    #[test]
    fn a_wish_counts_where_it_can_be_granted() {
        assert_eq!(elected("a", "b", "a", "a b", true), "b");
        assert_eq!(elected("a", "b", "a", "a b!", true), "a");
    }

    #[test]
    fn where_no_tunnel_follows_it_the_record_follows_the_routes() {
        assert_eq!(elected("b", "", "a", "a b", false), "a");
        assert_eq!(elected("b", "", "a", "a! b", false), "b");
    }

    #[test]
    fn what_is_still_to_be_moved_is_read_as_it_is_written() {
        for text in ["10.0.1.254/all", "10.0.1.253/tunnels"] {
            assert_eq!(text.parse::<Moving>().map(|it| it.to_string()), Ok(text.to_string()));
        }
        for text in ["", "10.0.1.254", "10.0.1.254/", "x/all", "10.0.1.254/some"] {
            assert!(text.parse::<Moving>().is_err(), "{text}");
        }
    }
}
