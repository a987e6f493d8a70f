//! How a visit to a gateway went: which tunnels are up, what the gateway refused, what was repaired.

use std::collections::{BTreeMap, BTreeSet};

use super::action::{Action, Step, shared_clamp_spec};
use super::filter::Packets;
use super::have::{Have, Holding, NatRule, Route};
use super::plan::{Plan, Refused, plan_after};
use super::want::{TunnelWant, Want};
use super::{LAN_LINK, UNDERLAY_LINK};
use crate::names::{Ipv4Cidr, LinkName, ObjectKey};

pub use super::trouble::{Claim, Trouble};

/// The result of observing, planning and applying on one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The pod it was.
    pub pod_uid: String,
    /// The state's revision that the work was compiled from.
    pub revision: u64,
    /// The number under which the last change of the gateway was announced to whoever asks its tunnels' peers: questions
    /// of an earlier number were about what there was before.
    pub asked: u64,
    /// What is there now, or why that is not known.
    pub result: Result<Visit, Trouble>,
}

/// A visit that got through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visit {
    /// Each tunnel that was wanted: as it was wanted, and what stands in its way.
    pub tunnels: BTreeMap<ObjectKey, (TunnelWant, Option<Trouble>)>,
    /// Whose things the gateway holds.
    pub holding: Holding,
    /// Whether ARP is off on the underlay link, as kube-ovn 1.12 leaves it until the first EIP.
    pub arp_off: bool,
    /// Tunnels whose segment size rule could not be made, and why: they work anyway.
    pub unclamped: BTreeMap<ObjectKey, String>,
    /// Whether the gateway refused the one segment size rule for all tunnels, and each has its own.
    pub clamps_each: bool,
    /// What stood for all tunnels.
    pub shared: Shared,
    /// Tunnels that are built as they were, because what they were wanted to be is another's: that, and why not.
    pub fallen: BTreeMap<ObjectKey, (TunnelWant, Trouble)>,
    /// Tunnels whose echoes the gateway's own filter stops: what they would tell is not known.
    pub deaf: BTreeSet<ObjectKey>,
    /// What keeps packets out of tunnels that have all they need, where anything is seen to.
    pub hindered: BTreeMap<ObjectKey, Hindrance>,
    /// The MTU of each tunnel's link that is there.
    pub mtus: BTreeMap<ObjectKey, u32>,
}

impl Visit {
    /// Whether it says how a tunnel stands that was wanted like this.
    pub(super) fn is_about(&self, key: &ObjectKey, want: &TunnelWant) -> bool {
        let wanted = self.fallen.get(key).map(|(wanted, _)| wanted);
        wanted.or_else(|| self.tunnels.get(key).map(|(built, _)| built)) == Some(want)
    }
}

/// Something that is not ours and keeps packets out of a tunnel: it is told and not touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hindrance {
    /// The gateway passes none on between the tunnel and the VPC.
    Stopped {
        /// The link that they come by.
        from: String,
        /// The link that they would leave by.
        to: String,
        /// The rule or policy.
        by: String,
    },
    /// Those to a part of the peer's range, or of our own, go elsewhere.
    Led(Route),
}

impl Hindrance {
    /// What is seen to keep packets out of each tunnel.
    pub fn find(want: &Want, now: &Have) -> BTreeMap<ObjectKey, Self> {
        let mut foreign: BTreeMap<Ipv4Cidr, &Route> = BTreeMap::new();
        for route in now.routes.iter().filter(|route| !route.is_ours()) {
            foreign.entry(route.range).or_insert(route);
        }
        let led = |link: &str, range: Ipv4Cidr| {
            let within = foreign.range(range..=range.last());
            let mut longer = within.filter(|(it, _)| **it != range && range.covers(**it));
            longer.find(|(_, route)| route.dev.as_deref() != Some(link)).map(|(_, route)| (*route).clone())
        };
        let stopped = |from: &str, to: &str, source: Option<Ipv4Cidr>, destination: Option<Ipv4Cidr>| {
            let by = now
                .nat
                .stops("FORWARD", Packets { from, to: Some(to), source, destination, protocol: None })?;
            Some(Self::Stopped { from: from.into(), to: to.into(), by })
        };
        let of = |(link, tunnel): (&LinkName, &TunnelWant)| {
            let link = link.as_str();
            let range = tunnel.remote_range;
            let hindrance = led(link, range)
                .or_else(|| led(LAN_LINK, want.inbound?.range))
                .map(Self::Led)
                .or_else(|| stopped(LAN_LINK, link, None, Some(range)))
                .or_else(|| stopped(link, LAN_LINK, Some(range), None))?;
            Some((tunnel.owner.clone(), hindrance))
        };
        want.tunnels.iter().filter_map(of).collect()
    }
}

/// What the tunnels of a gateway share, as far as it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shared {
    /// `net.ipv4.ip_forward`.
    pub forwarding: bool,
    /// Our routes into the VPC.
    pub inbound: Vec<Route>,
    /// The one segment size rule.
    pub clamp: bool,
}

impl Shared {
    fn of(have: &Have) -> Self {
        let rules = have.nat.forward.get(&have.nat.active).into_iter().flatten();
        let inbound = have.routes.iter().filter(|r| r.is_ours() && r.dev.as_deref() == Some(LAN_LINK));
        let clamp = shared_clamp_spec();
        Self {
            forwarding: have.forwarding,
            inbound: inbound.cloned().collect(),
            clamp: rules.filter(|rule| rule.owner().is_none()).any(|rule| rule.our_spec() == Some(&clamp)),
        }
    }

    /// Whether a step puts something that stood before.
    fn held(&self, action: &Action) -> bool {
        match action {
            Action::Forward => self.forwarding,
            Action::RoutePut { route, .. } => self.inbound.contains(route),
            Action::ClampAll { .. } => self.clamp,
            _ => false,
        }
    }
}

/// Steps by the tunnel they are for, and those that are for all.
#[derive(Default)]
struct Sorted<'a, T> {
    of_all: Vec<T>,
    by_owner: BTreeMap<&'a ObjectKey, Vec<T>>,
}

impl<'a, T> Sorted<'a, T> {
    fn new(entries: impl Iterator<Item = (&'a Step, T)>) -> Self {
        let mut sorted = Self { of_all: Vec::new(), by_owner: BTreeMap::new() };
        for (step, entry) in entries {
            match &step.owner {
                Some(owner) => sorted.by_owner.entry(owner).or_default().push(entry),
                None => sorted.of_all.push(entry),
            }
        }
        sorted
    }

    /// Those that concern a tunnel.
    fn concerning(&self, owner: &ObjectKey) -> impl Iterator<Item = &T> {
        self.of_all.iter().chain(self.by_owner.get(owner).into_iter().flatten())
    }
}

/// What is left to do on a gateway, of one kind, and why.
struct Undone<'a> {
    left: Sorted<'a, &'a Action>,
    failed: Sorted<'a, &'a Trouble>,
}

impl<'a> Undone<'a> {
    fn new(
        again: &'a Plan,
        planned: &'a Plan,
        failures: &'a BTreeMap<usize, Trouble>,
        counts: impl Fn(&Action) -> bool,
    ) -> Self {
        let left = again.steps.iter().filter(|step| counts(&step.action));
        let failed = failures.iter().filter_map(|(at, trouble)| Some((planned.steps.get(*at)?, trouble)));
        Self {
            left: Sorted::new(left.map(|step| (step, &step.action))),
            failed: Sorted::new(failed.filter(|(step, _)| counts(&step.action))),
        }
    }

    /// Why a tunnel does not have all it needs: what a command said, or what is left.
    fn trouble(&self, owner: &ObjectKey) -> Option<Trouble> {
        let mut left = self.left.concerning(owner).peekable();
        left.peek()?;
        let failed = self.failed.concerning(owner).next();
        Some(failed.map(|trouble| (*trouble).clone()).unwrap_or_else(|| {
            let left: Vec<String> = left.map(ToString::to_string).collect();
            Trouble::CommandFailed(format!("it did not take: {}", left.join(", ")))
        }))
    }
}

/// Judges a visit: what was planned, which steps failed, and what the gateway holds now.
///
/// A tunnel is up when nothing foreign is in its way and planning again leaves nothing to do for it; what
/// a command printed only explains why it is not.
pub fn judge(want: &Want, planned: &Plan, failures: &BTreeMap<usize, Trouble>, now: &Have) -> Visit {
    let refused = Refused { shared_clamp: planned.clamps_each, ..Refused::default() };
    let again = plan_after(&refused, want, now);
    let fallen = again.fallen.iter().filter_map(|(owner, problem)| {
        let wanted = want.tunnels.values().find(|tunnel| tunnel.owner == *owner)?;
        Some((owner.clone(), (wanted.clone(), Trouble::InTheWay(problem.clone()))))
    });
    let fallen = fallen.collect();
    let want = &want.fallen_back(&again.fallen);
    let unbuilt = Undone::new(&again, planned, failures, |action| !action.is_clamp());
    let unclamped = Undone::new(&again, planned, failures, Action::is_clamp);
    let verdict = |tunnel: &TunnelWant| {
        let problem = again.problems.get(&tunnel.owner).cloned().map(Trouble::InTheWay);
        let trouble = problem.or_else(|| unbuilt.trouble(&tunnel.owner));
        (tunnel.owner.clone(), (tunnel.clone(), trouble))
    };
    let unclamped = want.tunnels.values().filter_map(|tunnel| {
        let why = unclamped.trouble(&tunnel.owner)?;
        Some((tunnel.owner.clone(), why.to_string()))
    });
    let mtu = |(link, tunnel): (&LinkName, &TunnelWant)| {
        Some((tunnel.owner.clone(), now.links.get(link.as_str())?.mtu))
    };
    Visit {
        mtus: want.tunnels.iter().filter_map(mtu).collect(),
        tunnels: want.tunnels.values().map(verdict).collect(),
        holding: now.holding(),
        arp_off: now.links.get(UNDERLAY_LINK).is_some_and(|link| link.arp_off),
        unclamped: unclamped.collect(),
        clamps_each: planned.clamps_each,
        shared: Shared::of(now),
        hindered: Hindrance::find(want, now),
        deaf: want
            .tunnels
            .iter()
            .filter(|(link, _)| is_deaf(now, link))
            .map(|(_, it)| it.owner.clone())
            .collect(),
        fallen,
    }
}

/// Whether the gateway's filter stops its own echoes through a link, or what comes back.
fn is_deaf(now: &Have, link: &LinkName) -> bool {
    let link = link.as_str();
    let echoes = |from, to| Packets { from, to, source: None, destination: None, protocol: Some("icmp") };
    now.nat
        .stops("OUTPUT", echoes("", Some(link)))
        .or_else(|| now.nat.stops("INPUT", echoes(link, None)))
        .is_some()
}

/// What this pod of a gateway refused when it was last visited.
pub fn refused_before(before: Option<&Outcome>, pod_uid: &str) -> Refused {
    let Some(visit) = last_visit(before, pod_uid) else { return Refused::default() };
    let failed = visit.tunnels.iter().filter(|(_, (_, trouble))| trouble.is_some());
    Refused { tunnels: failed.map(|(key, _)| key.clone()).collect(), shared_clamp: visit.clamps_each }
}

/// What a gateway refused just now: tunnels whose link could not be made, and the one segment size rule. That one
/// is not blamed where source NAT did not take either, which comes first, nor where a rule that should go was gone
/// already: rules of a table change together or not at all.
pub fn refused_now(planned: &Plan, failures: &BTreeMap<usize, Trouble>, now: &Have) -> Refused {
    let failed = || failures.keys().filter_map(|at| planned.steps.get(*at));
    let links = failed().filter(|step| matches!(step.action, Action::LinkAdd { .. }));
    let clamp_failed =
        failed().any(|step| matches!(step.action, Action::ClampAll { .. })) && !Shared::of(now).clamp;
    let was_gone = failed().any(|step| is_gone(&step.action, now));
    let shared_clamp = planned.clamps_each || (clamp_failed && !was_gone && nat_took(planned, now));
    Refused { tunnels: links.filter_map(|step| step.owner.clone()).collect(), shared_clamp }
}

/// Whether a step removes a rule that does not stand.
fn is_gone(action: &Action, now: &Have) -> bool {
    let (rules, spec) = match action {
        Action::ClampDel { variant, spec } => (now.nat.forward.get(variant), spec),
        Action::NatDel { variant, spec } => (now.nat.postrouting.get(variant), spec),
        _ => return false,
    };
    !rules.into_iter().flatten().filter_map(NatRule::our_spec).any(|stands| stands == spec)
}

/// Whether the source NAT rules of a plan stand.
fn nat_took(planned: &Plan, now: &Have) -> bool {
    let rules = now.nat.postrouting.get(&now.nat.active).into_iter().flatten();
    let stand: BTreeSet<&str> = rules.filter_map(NatRule::our_spec).collect();
    planned.steps.iter().all(|step| match &step.action {
        Action::NatInsert { rule, .. } => stand.contains(rule.to_string().as_str()),
        _ => true,
    })
}

fn last_visit<'a>(before: Option<&'a Outcome>, pod_uid: &str) -> Option<&'a Visit> {
    before.filter(|before| before.pod_uid == pod_uid)?.result.as_ref().ok()
}

/// What was repaired in a visit: drift, not news.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Of tunnels that were up as they are wanted when last seen, and are again.
    pub tunnels: BTreeMap<ObjectKey, String>,
    /// Of what all tunnels of the gateway share, once for all of them.
    pub gateway: Option<String>,
}

impl Repairs {
    /// Whether nothing was repaired.
    pub fn is_empty(&self) -> bool {
        self.tunnels.is_empty() && self.gateway.is_none()
    }
}

/// What a plan repaired. What went because nobody wants it any more is no repair, nor is what is tried again and again.
pub fn repairs(before: Option<&Outcome>, pod_uid: &str, want: &Want, planned: &Plan, now: &Visit) -> Repairs {
    let Some(visit) = last_visit(before, pod_uid) else { return Repairs::default() };
    let steps = Sorted::new(planned.steps.iter().map(|step| (step, &step.action)));
    let lasts = |tunnel: &&TunnelWant| {
        let is_up = |tunnels: &BTreeMap<ObjectKey, (TunnelWant, Option<Trouble>)>| {
            tunnels.get(&tunnel.owner).is_some_and(|(was, trouble)| was == *tunnel && trouble.is_none())
        };
        is_up(&visit.tunnels) && is_up(&now.tunnels)
    };
    let repaired = |tunnel: &TunnelWant| {
        let counts = |action: &&&Action| match action {
            Action::ForgetAstray { .. } | Action::ForgetLeft { .. } | Action::ClampDel { .. } => false,
            Action::ClampInsert { .. } => visit.clamps_each && !now.unclamped.contains_key(&tunnel.owner),
            _ => true,
        };
        let own = steps.by_owner.get(&tunnel.owner).into_iter().flatten();
        Some((tunnel.owner.clone(), in_words(own.filter(counts).copied())?))
    };
    let shared = steps.of_all.iter().copied().filter(|action| visit.shared.held(action));
    let stands = |action: &&Action| now.shared.held(action);
    Repairs {
        tunnels: want.tunnels.values().filter(lasts).filter_map(repaired).collect(),
        gateway: in_words(shared.filter(stands)),
    }
}

/// What a few actions for one tunnel, or for all, did; none if there are none. With a link comes all that is on it and
/// leads to it, which nobody needs to read one by one.
fn in_words<'a>(actions: impl Iterator<Item = &'a Action>) -> Option<String> {
    let actions: Vec<&Action> = actions.collect();
    let made = actions.iter().find(|action| matches!(action, Action::LinkAdd { .. }));
    if let Some(made) = made {
        return Some(format!("{made} and all of it"));
    }
    let words: Vec<String> = actions.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// What an outcome says of one tunnel.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding<'a> {
    pod_uid: &'a str,
    tunnel: Result<Option<&'a (TunnelWant, Option<Trouble>)>, &'a Trouble>,
    held: bool,
    arp_off: bool,
    hindered: Option<&'a Hindrance>,
    fallen: Option<&'a (TunnelWant, Trouble)>,
    deaf: bool,
    unclamped: Option<&'a String>,
    mtu: Option<u32>,
}

impl Outcome {
    /// What it says of one tunnel: the part whose change concerns that tunnel.
    pub fn of(&self, key: &ObjectKey) -> Finding<'_> {
        let visit = self.result.as_ref();
        Finding {
            pod_uid: &self.pod_uid,
            tunnel: visit.map(|visit| visit.tunnels.get(key)),
            held: visit.is_ok_and(|visit| visit.holding.includes(key)),
            arp_off: visit.is_ok_and(|visit| visit.arp_off),
            hindered: visit.ok().and_then(|visit| visit.hindered.get(key)),
            fallen: visit.ok().and_then(|visit| visit.fallen.get(key)),
            deaf: visit.is_ok_and(|visit| visit.deaf.contains(key)),
            unclamped: visit.ok().and_then(|visit| visit.unclamped.get(key)),
            mtu: visit.ok().and_then(|visit| visit.mtus.get(key)).copied(),
        }
    }
}
