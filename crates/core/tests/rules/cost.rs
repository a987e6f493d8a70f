//! An event costs what it touches, not what exists: counted, on two thousand rules of two hundred apps.

use std::collections::BTreeSet;

use causeway_core::room::{Change, State as _};
use causeway_core::rules::state::{Event, Scope, State};
use causeway_core::rules::{Kind, RuleObject};

use crate::world::{RATE, acked, app, gone, key, list, names, object, put, rate_limit, refusal};

const RULES: usize = 2_000;
const APPS: usize = 200;

fn name_of(n: usize) -> String {
    format!("rule-{n:04}")
}

fn app_of(n: usize) -> String {
    format!("app-{:03}", n % APPS)
}

fn rule(n: usize) -> RuleObject {
    object(&name_of(n), &app_of(n), rate_limit(1))
}

fn crowd() -> State {
    let mut state = State::default();
    state.apply(list((0..RULES).map(rule), 1));
    state
}

fn status(n: usize) -> Scope {
    Scope::Status(RATE, key(&name_of(n)))
}

fn share(n: usize) -> Scope {
    Scope::Share(RATE, key(&name_of(n)))
}

fn touched<const N: usize>(scopes: [Scope; N]) -> BTreeSet<Scope> {
    scopes.into()
}

#[test]
fn the_first_list_concerns_its_kind_each_app_once_and_each_rule() {
    let mut state = State::default();
    let touched = state.apply(list((0..RULES).map(rule), 1));
    let count = |is: fn(&Scope) -> bool| touched.iter().filter(|scope| is(scope)).count();
    assert_eq!(count(|scope| matches!(scope, Scope::Kind(Kind::RateLimitStrategy))), 1);
    assert_eq!(count(|scope| matches!(scope, Scope::App(..))), APPS);
    assert_eq!(count(|scope| matches!(scope, Scope::Status(..))), RULES);
    assert_eq!(touched.len(), 1 + APPS + RULES);
}

#[test]
fn a_rule_that_comes_changes_or_goes_concerns_itself_and_its_app() {
    let mut state = crowd();
    let late = || object(&name_of(RULES), &app_of(7), rate_limit(1));
    assert_eq!(state.apply(put(late(), 2)), touched([app(&app_of(7)), status(RULES)]), "it comes");
    let changed = RuleObject { rule: Ok(rate_limit(2)), ..late() };
    assert_eq!(state.apply(put(changed.clone(), 3)), touched([app(&app_of(7)), status(RULES)]), "it changes");
    assert_eq!(state.apply(put(changed, 3)), touched([]), "the same again is no news");
    assert_eq!(
        state.apply(gone(&name_of(RULES), 4)),
        touched([app(&app_of(7)), status(RULES), share(RULES)]),
        "it goes"
    );
    assert_eq!(state.apply(gone(&name_of(RULES), 4)), touched([]), "and is gone");
}

#[test]
fn a_rule_that_moves_concerns_two_apps() {
    let mut state = crowd();
    let moved = object(&name_of(7), "app-100", rate_limit(1));
    assert_eq!(state.apply(put(moved, 2)), touched([app(&app_of(7)), app("app-100"), status(7), share(7)]));
    assert_eq!((names(&state, "app-100").1, names(&state, &app_of(7)).1), (2, 2));
    assert_eq!(names(&state, "app-101").1, 1, "nobody else has another version");
}

#[test]
fn a_status_concerns_the_rule_alone() {
    let mut state = crowd();
    let mut written = rule(7);
    written.resource_version = "2".into();
    assert_eq!(state.apply(put(written.clone(), 2)), touched([status(7)]));
    written.status.replicas = [("r1".to_owned(), acked(1))].into();
    assert_eq!(state.apply(put(written, 3)), touched([status(7), share(7)]), "that replica may know better");
    assert_eq!(names(&state, &app_of(7)).1, 1);
}

#[test]
fn a_rule_that_nobody_gets_concerns_nobody_else() {
    let mut state = crowd();
    let refused = |n: usize| RuleObject { rule: Err(refusal()), ..rule(n) };
    assert_eq!(state.apply(put(refused(RULES), 2)), touched([status(RULES)]), "it never made sense");
    let of_nobody = |n: usize| RuleObject { labels: Default::default(), ..rule(n) };
    assert_eq!(state.apply(put(of_nobody(RULES + 1), 3)), touched([status(RULES + 1)]), "it has no app");
    assert_eq!(names(&state, &app_of(RULES)).1, 1);
    assert_eq!(names(&state, "*").1, 1);
    assert_eq!(names(&state, "unheard-of").1, 1);
}

#[test]
fn the_same_list_says_nothing_new_and_one_with_a_change_only_that() {
    let mut state = crowd();
    assert_eq!(state.apply(list((0..RULES).map(rule), 2)), touched([]));
    let changed =
        (0..RULES).map(|n| RuleObject { rule: Ok(rate_limit(if n == 7 { 2 } else { 1 })), ..rule(n) });
    assert_eq!(state.apply(list(changed, 3)), touched([app(&app_of(7)), status(7)]));
}

#[test]
fn another_kind_and_a_renewed_lease_concern_nobody_here() {
    let mut state = crowd();
    state.apply(Event::Replicas(Change::Put("r1".into(), ())));
    assert_eq!(state.apply(Event::Replicas(Change::Put("r1".into(), ()))), touched([]));
    let kind = Kind::TrafficRouter;
    assert_eq!(state.apply(Event::Missing(kind)), touched([Scope::Kind(kind)]));
    assert_eq!(state.apply(Event::Missing(kind)), touched([]), "it was missing");
}

#[test]
fn a_set_has_the_rules_of_one_app() {
    let state = crowd();
    let (rules, _) = names(&state, &app_of(7));
    assert_eq!(rules, (0..RULES / APPS).map(|nth| name_of(7 + nth * APPS)).collect::<Vec<_>>());
    assert_eq!(names(&state, "*").0.len(), RULES);
}
