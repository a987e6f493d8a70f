//! What the planner promises, for any wish and any gateway.

mod worlds;

use std::collections::BTreeSet;

use causeway_core::names::{Ipv4Cidr, LinkName, ObjectKey};
use causeway_core::vpc::action::{clamp_spec, shared_clamp_spec};
use causeway_core::vpc::{
    Action, EgressRange, Have, Link, LinkKind, NatRule, Plan, Refused, Route, Step, TunnelKind, TunnelWant,
    Variant, Want, model, plan, plan_after,
};
use proptest::prelude::*;
use worlds::{drifted, have, refused, want};

/// Applies a plan to the model, every step of which must work; calls `look` after each.
fn carried_out(plan: &Plan, have: &Have, mut look: impl FnMut(&Have)) -> Have {
    let mut have = have.clone();
    for step in &plan.steps {
        if let Err(why) = model::apply(&mut have, &step.action) {
            panic!("{why}: {step:?}\nof {:#?}\non {have:#?}", plan.steps);
        }
        look(&have);
    }
    have
}

/// Everything that is not ours to touch, in order.
type Untouchable = (Vec<(String, Link)>, Vec<Route>, Vec<(Variant, NatRule)>);

/// What a plan takes for ours though it lacks a mark.
fn adopted(plan: &Plan) -> BTreeSet<String> {
    let name = |step: &Step| match &step.action {
        Action::LinkGroup { link, .. } => Some(link.to_string()),
        _ => None,
    };
    plan.steps.iter().filter_map(name).collect()
}

/// Whose things stay as they are: those of which nothing can be told, and those that were up before something came in their way.
fn frozen(want: &Want, plan: &Plan) -> BTreeSet<ObjectKey> {
    let established = want.established.keys().filter(|owner| plan.problems.contains_key(*owner));
    want.frozen.iter().chain(established).cloned().collect()
}

fn untouchable(stays: &BTreeSet<ObjectKey>, plan: &Plan, have: &Have) -> Untouchable {
    let is_frozen = |owner: &ObjectKey| stays.contains(owner);
    let frozen = |link: &Link| !link.is_leaving() && link.owner().as_ref().is_some_and(is_frozen);
    let adopted = adopted(plan);
    let is_ours = |name: &String, link: &Link| link.is_ours() || adopted.contains(name);
    let links =
        have.links.iter().filter(|(name, link)| !is_ours(name, link) || (link.is_ours() && frozen(link)));
    // A route of anybody's goes with its link, so one on a link of ours is at our mercy.
    let on_ours = |route: &Route| {
        let link = route.dev.as_ref().and_then(|dev| have.links.get_key_value(dev));
        link.is_some_and(|(name, link)| is_ours(name, link) && !frozen(link))
    };
    let on_frozen = |route: &Route| {
        route.dev.as_ref().and_then(|dev| have.links.get(dev)).is_some_and(|l| l.is_ours() && frozen(l))
    };
    let routes = have.routes.iter().filter(|route| (!route.is_ours() && !on_ours(route)) || on_frozen(route));
    let rules = have
        .nat
        .postrouting
        .iter()
        .chain(&have.nat.forward)
        .flat_map(|(variant, rules)| rules.iter().map(|rule| (*variant, rule.clone())));
    let foreign = |rule: &NatRule| match rule {
        NatRule::Foreign(_) => true,
        NatRule::Ours { owner, .. } => is_frozen(owner),
        NatRule::Shared { .. } => false,
    };
    (
        links.map(|(name, link)| (name.clone(), link.clone())).collect(),
        routes.cloned().collect(),
        rules.filter(|(_, rule)| foreign(rule)).collect(),
    )
}

/// The ranges that a route of ours leads to.
fn routed(have: &Have) -> BTreeSet<Ipv4Cidr> {
    have.routes.iter().filter(|route| route.is_ours() && route.metric == 0).map(|route| route.range).collect()
}

/// The ranges whose way runs over a link that is made again.
fn interrupted(plan: &Plan, have: &Have) -> BTreeSet<Ipv4Cidr> {
    let hit = |link: &str| {
        let removes = |action: &Action| match action {
            Action::LinkFree { link: l } | Action::LinkDel { link: l } => l == link,
            _ => false,
        };
        plan.steps.iter().any(|step| removes(&step.action))
    };
    let routes = have.routes.iter().filter(|route| route.dev.as_deref().is_some_and(hit));
    routes.map(|route| route.range).collect()
}

/// All promises at once.
fn keeps_its_promises(want: &Want, have: &Have) {
    keeps_its_promises_after(&Refused::default(), want, have);
}

/// The same for a gateway that refused something before and now takes everything.
fn keeps_its_promises_after(refused: &Refused, want: &Want, have: &Have) {
    let first = plan_after(refused, want, have);
    let once = carried_out(&first, have, |_| {});
    // Of a tunnel that was refused, the first round makes the link only.
    let rest = if refused.tunnels.is_empty() { Plan::default() } else { plan_after(refused, want, &once) };
    let after = carried_out(&rest, &once, |_| {});

    let second = plan_after(refused, want, &after);
    assert_eq!(second.steps, [], "after {:#?}\non {have:#?}\ngiving {after:#?}", first.steps);
    // What is wrong with one may be said otherwise once it holds nothing; and one that was refused may lose by that what
    // it had against others.
    let wrong = |plan: &Plan| {
        let keys = plan.problems.keys().filter(|key| !refused.tunnels.contains(*key));
        keys.cloned().collect::<BTreeSet<_>>()
    };
    assert_eq!(wrong(&second), wrong(&first), "{:?} {:?}", first.problems, second.problems);
    let stays = frozen(want, &first);
    assert_eq!(untouchable(&stays, &first, &after), untouchable(&stays, &first, have));

    // Whoever asks the peers is told of every link that becomes another one.
    let made = first.steps.iter().filter_map(|step| match &step.action {
        Action::LinkAdd { link, .. } => Some(link),
        _ => None,
    });
    let told = want.links_of(&first.steps);
    made.for_each(|link| assert!(told.contains(&link), "{link} is not among {told:?}"));

    let lasting: BTreeSet<Ipv4Cidr> = routed(have).intersection(&routed(&once)).copied().collect();
    let excused = interrupted(&first, have);
    carried_out(&first, have, |now| {
        for range in lasting.difference(&excused) {
            assert!(routed(now).contains(range), "{range} was cut off by {:#?}\non {have:#?}", first.steps);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn any_gateway_reaches_any_wish(want in want(), have in have()) {
        keeps_its_promises(&want, &have);
    }

    #[test]
    fn a_gateway_that_held_something_else_and_was_damaged_reaches_any_wish(
        want in want(), other in want(), have in have(), damage in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        keeps_its_promises(&want, &drifted(have, &other, &damage));
    }

    #[test]
    fn what_was_made_needs_nothing_more(want in want(), have in have(), damage in prop::collection::vec(any::<usize>(), 0..5)) {
        keeps_its_promises(&want, &drifted(have, &want, &damage));
    }

    #[test]
    fn a_tunnel_whose_link_cannot_be_made_leaves_nothing_behind(want in want(), have in have(), made in want()) {
        // A gateway whose kernel lacks GRE.
        let mut have = drifted(have, &made, &[]);
        let gre: Vec<String> = have.links.iter().filter(|(_, link)| matches!(link.kind, Some(LinkKind::Gre { .. }))).map(|(name, _)| name.clone()).collect();
        for name in gre {
            have.links.remove(&name);
            have.routes.retain(|route| route.dev.as_ref() != Some(&name));
        }
        let lacks = |action: &Action| matches!(action, Action::LinkAdd { want: LinkKind::Gre { .. }, .. });
        let first = plan(&want, &have);
        let tunnels: BTreeSet<ObjectKey> = first.steps.iter().filter(|s| lacks(&s.action)).filter_map(|s| s.owner.clone()).collect();
        let attempt = |plan: &Plan, have: &mut Have| {
            for step in plan.steps.iter().filter(|step| !lacks(&step.action)) {
                // What builds on the link fails with it.
                let _ = model::apply(have, &step.action);
            }
        };
        let refused = Refused { tunnels, ..Refused::default() };
        attempt(&first, &mut have);
        attempt(&plan_after(&refused, &want, &have), &mut have);
        let again = plan_after(&refused, &want, &have);
        let only_links = |s: &Step| matches!(s.action, Action::LinkAdd { .. } | Action::LinkAlias { .. }) && s.owner.as_ref().is_some_and(|o| refused.tunnels.contains(o));
        prop_assert!(again.steps.iter().all(only_links), "{:#?}", again.steps);
        for owner in &refused.tunnels {
            prop_assert!(!have.holding().includes(owner), "{owner} in {have:#?}");
        }
        if want.tunnels.values().all(|tunnel| refused.tunnels.contains(&tunnel.owner)) && want.frozen.is_empty() {
            prop_assert!(!have.holding().anything, "{have:#?}");
        }
    }

    #[test]
    fn wishing_nothing_leaves_nothing_of_ours(have in have()) {
        let nothing = Want::default();
        let after = carried_out(&plan(&nothing, &have), &have, |_| {});
        prop_assert!(!after.holding().anything);
    }

    #[test]
    fn a_gateway_that_refused_something_before_reaches_any_wish(
        refused in refused(), want in want(), other in want(), have in have(),
        damage in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        keeps_its_promises_after(&refused, &want, &drifted(have, &other, &damage));
    }

    #[test]
    fn segment_sizes_are_fitted_by_one_rule_or_by_one_for_each_tunnel_and_never_by_none_in_between(
        refused in refused(), want in want(), have in have(), damage in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        let before = drifted(have, &want, &damage);
        let plan = plan_after(&refused, &want, &before);
        let built = |have: &Have| -> Vec<LinkName> {
            want.tunnels.keys().filter(|name| have.links.get(name.as_str()).is_some_and(Link::is_ours)).cloned().collect()
        };
        let fitted = |have: &Have, name: &LinkName| {
            let own = want.tunnels.get(name).map(|tunnel| clamp_spec(&tunnel.owner, name.as_str()));
            let rules = have.nat.forward.get(&have.nat.active).into_iter().flatten();
            let specs: Vec<&str> = rules.filter_map(NatRule::our_spec).collect();
            specs.contains(&shared_clamp_spec().as_str()) || own.is_some_and(|own| specs.contains(&own.as_str()))
        };
        let fitted_before: Vec<LinkName> = built(&before).into_iter().filter(|name| fitted(&before, name)).collect();
        let after = carried_out(&plan, &before, |now| {
            for name in built(now).iter().filter(|name| fitted_before.contains(name)) {
                let problem = want.tunnels.get(name).is_some_and(|t| plan.problems.contains_key(&t.owner));
                let tried = want.tunnels.get(name).is_some_and(|t| refused.tunnels.contains(&t.owner));
                assert!(problem || tried || fitted(now, name), "{name} in {now:#?}");
            }
        });
        let shared = after.nat.forward.values().flatten().filter(|rule| matches!(rule, NatRule::Shared { .. }));
        let each = after.nat.forward.values().flatten().filter(|r| {
            r.owner().is_some_and(|o| !frozen(&want, &plan).contains(o))
        });
        prop_assert!(shared.count() <= usize::from(!refused.shared_clamp));
        prop_assert!(refused.shared_clamp || each.count() == 0);
    }
}

/// A link on its way out is listed for a moment without its settings; what is planned from that fails.
#[test]
fn a_plan_from_a_passing_state_differs_from_one_that_cannot_work() {
    let tunnel = TunnelWant {
        owner: ObjectKey::new("ns1", "ta").expect("a key"),
        kind: TunnelKind::Vxlan { vni: 1, port: 4789 },
        local: [172, 50, 16, 1].into(),
        remote: [172, 50, 16, 2].into(),
        address: "10.100.0.1/24".parse().expect("an address"),
        remote_range: "242.1.0.0/16".parse().expect("a range"),
        egress: EgressRange { first: [242, 0, 0, 1].into(), last: [242, 0, 0, 1].into() },
        own: "242.0.0.0/16".parse().expect("a range"),
        seat: Default::default(),
    };
    let want = Want { tunnels: [("ta".parse().expect("a name"), tunnel)].into(), ..Want::default() };
    let nothing = Have::default();
    let full = carried_out(&plan(&want, &nothing), &nothing, |_| {});
    let mut passing = full.clone();
    passing.links.get_mut("ta").expect("the link").proxy_arp = false;
    let mut gone = full;
    gone.links.clear();
    gone.routes.clear();
    assert!(plan(&want, &gone).has_news_since(&plan(&want, &passing)));
    assert!(!plan(&want, &gone).has_news_since(&plan(&want, &gone)), "refused as a whole");
    assert!(!plan(&want, &passing).has_news_since(&plan(&want, &gone)), "refused in part");
}
