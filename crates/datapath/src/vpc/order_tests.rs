//! The order in which the script runs the parts keeps what the planner promises of its own order.

#[path = "../../../core/tests/worlds/mod.rs"]
mod worlds;

use std::collections::BTreeSet;

use causeway_core::names::Ipv4Cidr;
use causeway_core::vpc::{Action, Have, NatRule, Plan, model, plan, plan_after};
use proptest::prelude::*;

use super::render::{Input, Part};

/// The steps as the script takes them.
fn as_run(plan: &Plan) -> Vec<&Action> {
    let input = Input::of(plan);
    assert!(input.unnameable.is_empty());
    let lines: Vec<usize> =
        Part::ALL.into_iter().flat_map(|part| input.steps(part)).flatten().copied().collect();
    // A step that takes two lines is done with the second.
    let is_last = |(line, index): &(usize, usize)| !lines[line + 1..].contains(index);
    let order: Vec<usize> =
        lines.iter().copied().enumerate().filter(is_last).map(|(_, index)| index).collect();
    assert_eq!(order.len(), plan.steps.len(), "every step has its line");
    order.into_iter().map(|index| &plan.steps[index].action).collect()
}

fn routed(have: &Have) -> BTreeSet<Ipv4Cidr> {
    have.routes.iter().filter(|route| route.is_ours() && route.metric == 0).map(|route| route.range).collect()
}

/// Whether a rule of ours gives traffic to a range its source.
fn has_rule(have: &Have, range: Ipv4Cidr) -> bool {
    let rules = have.nat.postrouting.get(&have.nat.active);
    let to_range = format!("-d {range} ");
    rules
        .into_iter()
        .flatten()
        .any(|rule| matches!(rule, NatRule::Ours { spec, .. } if spec.contains(&to_range)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn every_step_works_in_the_order_of_the_parts_and_no_route_stands_before_its_rule(
        want in worlds::want(),
        other in worlds::want(),
        have in worlds::have(),
        refused in worlds::refused(),
        damage in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        let have = worlds::drifted(have, &other, &damage);
        let plan = plan_after(&refused, &want, &have);
        let mut now = have.clone();
        for action in as_run(&plan) {
            let done = model::apply(&mut now, action);
            prop_assert_eq!(done, Ok(()), "{:?} of {:#?}", action, plan);
            if let Action::RoutePut { route, .. } = action && route.via.is_none() {
                prop_assert!(has_rule(&now, route.range), "{} is open without its rule", route.range);
            }
        }
        // A tunnel that was refused before gets the rest once its link is there.
        for action in as_run(&plan_after(&refused, &want, &now.clone())) {
            prop_assert_eq!(model::apply(&mut now, action), Ok(()));
        }
        prop_assert_eq!(plan_after(&refused, &want, &now).steps, []);
    }

    #[test]
    fn ranges_that_stay_are_cut_off_only_where_a_link_or_address_must_change(
        want in worlds::want(),
        other in worlds::want(),
        have in worlds::have(),
    ) {
        let have = worlds::drifted(have, &other, &[]);
        let plan = plan(&want, &have);
        let must_change = |action: &Action| {
            matches!(action, Action::LinkFree { .. } | Action::LinkDel { .. } | Action::AddrDel { .. })
        };
        if plan.steps.iter().any(|step| must_change(&step.action)) {
            return Ok(());
        }
        let mut now = have.clone();
        let mut seen = vec![routed(&now)];
        for action in as_run(&plan) {
            let _ = model::apply(&mut now, action);
            seen.push(routed(&now));
        }
        for range in seen[0].intersection(&routed(&now)) {
            prop_assert!(seen.iter().all(|ranges| ranges.contains(range)), "{} was cut off", range);
        }
    }
}
