//! What the planner promises, for any wish and any gateway.

mod worlds;

use std::collections::BTreeSet;

use causeway_core::names::{Cidr, ObjectKey};
use causeway_core::vpc::{
    Action, EgressRange, Have, Link, LinkKind, NatRule, Plan, Route, Step, TunnelKind, TunnelWant, Variant,
    Want, model, plan, plan_doubting,
};
use proptest::prelude::*;
use worlds::{drifted, have, want};

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

fn untouchable(want: &Want, have: &Have) -> Untouchable {
    let frozen = |link: &Link| link.owner().is_some_and(|owner| want.frozen.contains(&owner));
    let links = have.links.iter().filter(|(_, link)| !link.is_ours() || frozen(link));
    // A route of anybody's goes with its link, so one on a link of ours is at our mercy.
    let on_ours = |route: &Route| {
        let link = route.dev.as_ref().and_then(|dev| have.links.get(dev));
        link.is_some_and(|link| link.is_ours() && !frozen(link))
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
        NatRule::Ours { owner, .. } => want.frozen.contains(owner),
    };
    (
        links.map(|(name, link)| (name.clone(), link.clone())).collect(),
        routes.cloned().collect(),
        rules.filter(|(_, rule)| foreign(rule)).collect(),
    )
}

/// The ranges that a route of ours leads to.
fn routed(have: &Have) -> BTreeSet<Cidr> {
    have.routes.iter().filter(|route| route.is_ours() && route.metric == 0).map(|route| route.range).collect()
}

/// The ranges whose way runs over a link that is made again.
fn interrupted(plan: &Plan, have: &Have) -> BTreeSet<Cidr> {
    let hit = |link: &str| {
        plan.steps.iter().any(|step| matches!(&step.action, Action::LinkDel { link: l } if l == link))
    };
    let routes = have.routes.iter().filter(|route| route.dev.as_deref().is_some_and(hit));
    routes.map(|route| route.range).collect()
}

/// All promises at once.
fn keeps_its_promises(want: &Want, have: &Have) {
    let first = plan(want, have);
    let after = carried_out(&first, have, |_| {});

    let second = plan(want, &after);
    assert_eq!(second.steps, [], "after {:#?}\non {have:#?}\ngiving {after:#?}", first.steps);
    assert_eq!(second.problems, first.problems);
    assert_eq!(untouchable(want, &after), untouchable(want, have));

    let lasting: BTreeSet<Cidr> = routed(have).intersection(&routed(&after)).copied().collect();
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
    fn a_tunnel_whose_link_can_not_be_made_leaves_nothing_behind(want in want(), have in have(), made in want()) {
        // A gateway whose kernel lacks GRE.
        let mut have = drifted(have, &made, &[]);
        let gre: Vec<String> = have.links.iter().filter(|(_, link)| matches!(link.kind, Some(LinkKind::Gre { .. }))).map(|(name, _)| name.clone()).collect();
        for name in gre {
            have.links.remove(&name);
            have.routes.retain(|route| route.dev.as_ref() != Some(&name));
        }
        let lacks = |action: &Action| matches!(action, Action::LinkAdd { want: LinkKind::Gre { .. }, .. });
        let first = plan(&want, &have);
        let doubted: BTreeSet<ObjectKey> = first.steps.iter().filter(|s| lacks(&s.action)).filter_map(|s| s.owner.clone()).collect();
        let attempt = |plan: &Plan, have: &mut Have| {
            for step in plan.steps.iter().filter(|step| !lacks(&step.action)) {
                // What builds on the link fails with it.
                let _ = model::apply(have, &step.action);
            }
        };
        attempt(&first, &mut have);
        attempt(&plan_doubting(&want, &have, &doubted), &mut have);
        let again = plan_doubting(&want, &have, &doubted);
        let only_links = |s: &Step| matches!(s.action, Action::LinkAdd { .. } | Action::LinkAlias { .. }) && s.owner.as_ref().is_some_and(|o| doubted.contains(o));
        prop_assert!(again.steps.iter().all(only_links), "{:#?}", again.steps);
        for owner in &doubted {
            prop_assert!(!have.holding().includes(owner), "{owner} in {have:#?}");
        }
        if want.tunnels.values().all(|tunnel| doubted.contains(&tunnel.owner)) && want.frozen.is_empty() {
            prop_assert!(!have.holding().anything, "{have:#?}");
        }
    }

    #[test]
    fn wishing_nothing_leaves_nothing_of_ours(have in have()) {
        let nothing = Want::default();
        let after = carried_out(&plan(&nothing, &have), &have, |_| {});
        prop_assert!(!after.holding().anything);
    }
}

/// A link on its way out is listed for a moment without its settings; what is planned from that sight fails.
#[test]
fn a_plan_from_a_sight_that_has_passed_is_told_from_one_that_can_not_work() {
    let tunnel = TunnelWant {
        owner: ObjectKey::new("ns1", "ta"),
        kind: TunnelKind::Vxlan { vni: 1, port: 4789 },
        local: [172, 50, 16, 1].into(),
        remote: [172, 50, 16, 2].into(),
        address: "10.100.0.1/24".parse().expect("an address"),
        remote_range: "242.1.0.0/16".parse().expect("a range"),
        egress: EgressRange { first: [242, 0, 0, 1].into(), last: [242, 0, 0, 1].into() },
    };
    let want = Want { tunnels: [("ta".parse().expect("a name"), tunnel)].into(), ..Want::default() };
    let nothing = Have::default();
    let full = carried_out(&plan(&want, &nothing), &nothing, |_| {});
    let mut passing = full.clone();
    passing.links.get_mut("ta").expect("the link").proxy_arp = false;
    let mut gone = full;
    gone.links.clear();
    gone.routes.clear();
    assert!(plan(&want, &gone).goes_beyond(&plan(&want, &passing)));
    assert!(!plan(&want, &gone).goes_beyond(&plan(&want, &gone)), "refused as a whole");
    assert!(!plan(&want, &passing).goes_beyond(&plan(&want, &gone)), "refused in part");
}
