//! What the leader says of a rule, case by case.

use std::collections::BTreeMap;

use causeway_core::room::{Change, State as _};
use causeway_core::rules::state::{Event, Scope, State};
use causeway_core::rules::status::{ACCEPTED, DISTRIBUTED, Said};
use causeway_core::rules::{Failure, RuleObject, Share};
use causeway_core::{Condition, Truth};

use crate::world::{RATE, acked, after, key, list, object, put, rate_limit, refusal};

const ALIVE: [&str; 2] = ["r1", "r2"];

fn failure(client: &str, at: i64) -> Option<Failure> {
    Some(Failure { client: client.into(), code: 4007, message: "boom".into(), at })
}

fn failed(failed: u32, failure: Option<Failure>) -> Share {
    Share { failed, failure, ..Share::default() }
}

fn pending(pending: u32) -> Share {
    Share { pending, ..Share::default() }
}

/// The rule `limit` of the app `a`, of which replicas said this.
fn told<const N: usize>(shares: [(&str, Share); N]) -> RuleObject {
    let mut object = object("limit", "a", rate_limit(1));
    let generation = object.generation;
    let shares = shares.map(|(name, share)| (name.to_owned(), Share { generation, ..share }));
    object.status.replicas = shares.into();
    object
}

#[test]
fn who_answered_to_an_older_generation_has_not_answered_to_this() {
    let mut edited = told([("r1", acked(3)), ("r2", failed(2, failure("client", 1)))]);
    edited.generation = 2;
    let said = said_of(edited.clone());
    assert_eq!(said.status.total, pending(5));
    let expected = (Truth::Unknown, "Pending", "5 data planes did not answer yet");
    assert_eq!(condition(&said, DISTRIBUTED), owned(expected));
    edited.status.replicas.insert("r1".into(), Share { generation: 2, ..acked(3) });
    edited.status.replicas.insert("r2".into(), Share { generation: 3, ..acked(2) });
    assert_eq!(condition(&said_of(edited), DISTRIBUTED).1, "Acked", "one that is ahead counts");
}

#[test]
fn nobody_runs_a_rule_that_was_edited_into_one_that_cannot_be_sent() {
    let good = told([("r1", acked(3))]);
    let refused = RuleObject { rule: Err(refusal()), ..good.clone() };
    let state = knowing([list([good], 1), put(refused, 2)]);
    let said = state.status(RATE, &key("limit")).expect("it is there");
    assert_eq!(said.status.total, pending(3), "what they run is its last good form");
    assert_eq!(condition(&said, DISTRIBUTED).1, "NotAccepted");
}

#[test]
fn a_new_generation_is_news_to_replicas_also_where_nothing_else_changed() {
    let mut state = knowing([list([told([("r1", acked(3))])], 1)]);
    let mut edited = told([("r1", acked(3))]);
    edited.generation = 2;
    let touched = state.apply(put(edited, 2));
    assert_eq!(touched, [Scope::Share(RATE, key("limit")), Scope::Status(RATE, key("limit"))].into());
}

#[test]
fn a_replica_that_counts_again_is_asked_to_say_again_what_was_struck_out() {
    let mut state = knowing([list([told([("r1", acked(3))])], 1)]);
    let gone = state.apply(Event::Replicas(Change::Gone("r1".into())));
    assert_eq!(gone, [Scope::Status(RATE, key("limit"))].into());
    let back = state.apply(Event::Replicas(Change::Put("r1".into(), ())));
    assert!(back.contains(&Scope::Share(RATE, key("limit"))), "{back:?}");
}

/// Those that are alive, and nothing of rules.
fn alive() -> State {
    after([Event::Replicas(Change::Reset(ALIVE.map(|name| (name.to_owned(), ())).into()))])
}

fn knowing(events: impl IntoIterator<Item = Event>) -> State {
    let mut state = alive();
    events.into_iter().for_each(|event| drop(state.apply(event)));
    state
}

fn said(state: &State) -> Said {
    state.status(RATE, &key("limit")).expect("the rule is known")
}

fn said_of(object: RuleObject) -> Said {
    said(&knowing([list([object], 1)]))
}

/// A condition's status, reason and message.
fn condition(said: &Said, kind: &str) -> (Truth, String, String) {
    let Condition { status, reason, message, .. } =
        said.status.conditions.get(kind).expect("it is set").clone();
    (status, reason, message)
}

fn owned((truth, reason, message): (Truth, &str, &str)) -> (Truth, String, String) {
    (truth, reason.into(), message.into())
}

#[test]
fn replicas_that_are_alive_are_added_up() {
    let shares = [
        ("r1", Share { pending: 3, ..acked(1) }),
        ("r2", Share { failed: 2, ..acked(10) }),
        ("r3", acked(100)),
    ];
    let said = said_of(told(shares));
    assert_eq!(said.status.total, Share { failed: 2, pending: 3, ..acked(11) });
    assert_eq!(said.gone, ["r3"]);
    assert_eq!(said.status.replicas.into_keys().collect::<Vec<_>>(), ["r1", "r2"], "its word goes with it");
}

#[test]
fn what_nobody_said_adds_up_to_nothing() {
    let said = said_of(told([]));
    assert_eq!((said.status.total, said.gone), (Share::default(), vec![]));
}

#[test]
fn a_sum_beyond_all_numbers_is_the_largest() {
    let said = said_of(told([("r1", acked(u32::MAX)), ("r2", acked(1))]));
    assert_eq!(said.status.total.acked, u32::MAX);
}

#[test]
fn the_latest_failure_is_told() {
    let latest = |first, second, third| {
        let shares = [("r1", failed(1, first)), ("r2", failed(1, second)), ("r3", failed(1, third))];
        said_of(told(shares)).status.total.failure.map(|failure| failure.client)
    };
    assert_eq!(latest(failure("one", 1), failure("two", 2), None).as_deref(), Some("two"));
    assert_eq!(latest(failure("one", 2), failure("two", 1), None).as_deref(), Some("one"));
    assert_eq!(latest(failure("one", 1), None, None).as_deref(), Some("one"));
    assert_eq!(latest(None, failure("two", 1), None).as_deref(), Some("two"));
    assert_eq!(
        latest(failure("one", 1), None, failure("gone", 9)).as_deref(),
        Some("one"),
        "only of the living"
    );
    assert_eq!(
        latest(failure("one", 1), failure("two", 1), None).as_deref(),
        Some("one"),
        "always the same one"
    );
}

#[test]
fn accepted_says_whether_it_is_sent() {
    let good = told([]);
    let refused = RuleObject { rule: Err(refusal()), ..told([]) };
    let mut of_nobody = told([]);
    of_nobody.labels = Default::default();
    let mut empty_label = told([]);
    empty_label.labels = std::sync::Arc::new(BTreeMap::from([("app".to_owned(), String::new())]));
    let refused_of_nobody = RuleObject { labels: Default::default(), ..refused.clone() };
    let other_object = RuleObject { uid: "another".into(), ..refused.clone() };
    let no_app = (Truth::False, "NoApp", "the label `app` is missing: nobody gets this rule");
    let why = "spec.threshold: it is negative";
    let stays = "spec.threshold: it is negative; what was sent before stays";
    let cases = [
        (vec![good.clone()], (Truth::True, "Converted", "data planes that ask for it get it")),
        (vec![refused.clone()], (Truth::False, "Refused", why)),
        (vec![good.clone(), refused.clone()], (Truth::False, "Refused", stays)),
        (
            vec![good.clone(), refused.clone(), good.clone()],
            (Truth::True, "Converted", "data planes that ask for it get it"),
        ),
        (vec![good.clone(), refused_of_nobody], (Truth::False, "Refused", why)),
        (vec![good.clone(), other_object], (Truth::False, "Refused", why)),
        (vec![of_nobody], no_app),
        (vec![empty_label], no_app),
    ];
    for (objects, expected) in cases {
        let events: Vec<Event> =
            objects.into_iter().zip(1..).map(|(object, version)| put(object, version)).collect();
        let said = said(&knowing(events.clone()));
        assert_eq!(condition(&said, ACCEPTED), owned(expected), "{events:?}");
    }
}

#[test]
fn a_rule_that_cannot_be_carried_is_refused_by_its_field() {
    let mut breaker = crate::world::breaker();
    breaker.max_allowed_rt = Some(crate::world::span("30d"));
    let object = object("limit", "a", causeway_core::rules::Rule::CircuitBreaker(breaker));
    let kind = causeway_core::rules::Kind::CircuitBreakerStrategy;
    let said = knowing([put(object, 1)]).status(kind, &key("limit")).expect("the rule is known");
    let why = "spec.slowConditions.maxAllowedRt: 2592000000ms is more than a data plane can be told";
    assert_eq!(condition(&said, ACCEPTED), owned((Truth::False, "Refused", why)));
}

#[test]
fn distributed_says_how_far_it_got() {
    let many = Share { failed: 2, pending: 1, failure: failure("client (1.2.3.4:5)", 1), ..acked(3) };
    let cases = [
        (
            told([("r1", many)]),
            (Truth::False, "Failed", "2 data planes refused it: client (1.2.3.4:5): boom"),
        ),
        (told([("r1", failed(1, None))]), (Truth::False, "Failed", "1 data plane refused it")),
        (
            told([("r1", acked(3)), ("r2", pending(1))]),
            (Truth::Unknown, "Pending", "1 data plane did not answer yet"),
        ),
        (told([("r1", pending(2))]), (Truth::Unknown, "Pending", "2 data planes did not answer yet")),
        (told([("r1", acked(1))]), (Truth::True, "Acked", "1 data plane runs it")),
        (told([("r1", acked(1)), ("r2", acked(2))]), (Truth::True, "Acked", "3 data planes run it")),
        (told([]), (Truth::False, "NoSubscriber", "no data plane asks for it")),
        (told([("r3", acked(1))]), (Truth::False, "NoSubscriber", "no data plane asks for it")),
    ];
    for (object, expected) in cases {
        assert_eq!(condition(&said_of(object), DISTRIBUTED), owned(expected));
    }
}

#[test]
fn what_is_not_accepted_is_not_distributed_whatever_was_said() {
    let good = told([("r1", acked(3))]);
    let refused = RuleObject { rule: Err(refusal()), ..good.clone() };
    let of_nobody = RuleObject { labels: Default::default(), ..good.clone() };
    let not_accepted = (Truth::False, "NotAccepted", "the rule as it is was sent to nobody");
    for events in [
        vec![put(refused.clone(), 1)],
        vec![put(good.clone(), 1), put(refused, 2)],
        vec![put(of_nobody.clone(), 1)],
        vec![put(good, 1), put(of_nobody, 2)],
    ] {
        assert_eq!(
            condition(&said(&knowing(events.clone())), DISTRIBUTED),
            owned(not_accepted),
            "{events:?}"
        );
    }
}

#[test]
fn conditions_of_others_are_kept_and_ours_are_of_this_generation() {
    let theirs = Condition {
        kind: "Audited".into(),
        status: Truth::True,
        reason: "Theirs".into(),
        message: "it was".into(),
        observed_generation: Some(2),
        since: Some(7),
    };
    let ours = Condition { kind: ACCEPTED.into(), ..theirs.clone() };
    let mut object = told([]);
    object.generation = 5;
    object.status.observed_generation = Some(4);
    object.status.conditions = [theirs.clone(), ours].into_iter().collect();
    let said = said_of(object);
    assert_eq!(said.status.observed_generation, Some(5));
    let conditions: Vec<_> = said.status.conditions.iter().collect();
    assert_eq!(
        conditions.iter().map(|it| it.kind.as_str()).collect::<Vec<_>>(),
        ["Audited", ACCEPTED, DISTRIBUTED]
    );
    assert_eq!(conditions[0], &theirs);
    assert_eq!(
        (conditions[1].since, conditions[1].observed_generation),
        (Some(7), Some(5)),
        "still true since then"
    );
    assert_eq!((conditions[2].since, conditions[2].observed_generation), (None, Some(5)), "since this write");
}

#[test]
fn what_was_said_and_read_again_is_the_same() {
    let object = told([("r1", acked(1)), ("r3", acked(1))]);
    let first = said_of(object.clone());
    let again = said_of(RuleObject { status: first.status.clone(), ..object });
    assert_eq!((again.status, again.gone), (first.status, vec![]));
}

#[test]
fn a_replica_that_goes_concerns_the_rules_of_which_it_said_something() {
    let mut quiet = object("quiet", "a", rate_limit(1));
    quiet.status.replicas = [("r2".to_owned(), acked(1))].into();
    let mut state = knowing([list([told([("r1", acked(1))]), quiet], 1)]);
    let touched = state.apply(Event::Replicas(Change::Gone("r1".into())));
    assert_eq!(touched, [Scope::Status(RATE, key("limit"))].into());
    assert_eq!(said(&state).gone, ["r1"]);
    assert!(state.apply(Event::Replicas(Change::Gone("r1".into()))).is_empty(), "it is gone already");
    let renewed = state.apply(Event::Replicas(Change::Put("r2".into(), ())));
    assert!(renewed.is_empty(), "it was there");
    let touched = state.apply(Event::Replicas(Change::Put("r1".into(), ())));
    let statuses: Vec<_> = touched.iter().filter(|scope| matches!(scope, Scope::Status(..))).collect();
    assert_eq!(statuses, [&Scope::Status(RATE, key("limit"))], "it is back before its word was taken away");
}

#[test]
fn of_a_rule_that_is_gone_nothing_is_said() {
    let state = knowing([put(told([]), 1), crate::world::gone("limit", 2)]);
    assert_eq!(state.status(RATE, &key("limit")), None);
}

#[test]
fn a_failure_that_goes_on_is_news_once_and_so_is_its_end() {
    let mut told = causeway_core::rules::status::Told::default();
    let mut next = |share: Share| {
        let news = told.news(&said_of(told_by(share)).status);
        news.into_iter().map(|news| (news.warning, news.reason)).collect::<Vec<_>>()
    };
    let failing = || failed(1, failure("client", 1));
    assert_eq!(next(acked(2)), []);
    assert_eq!(next(failing()), [(true, "Failed".to_owned())]);
    assert_eq!(next(pending(2)), [], "an edit that has still to be answered");
    assert_eq!(next(failing()), [], "it goes on");
    assert_eq!(next(pending(2)), []);
    assert_eq!(next(acked(2)), [(false, "Acked".to_owned())]);
    assert_eq!(next(pending(2)), []);
    assert_eq!(next(acked(2)), []);
}

fn told_by(share: Share) -> RuleObject {
    told([("r1", share)])
}

#[test]
fn what_was_last_sent_counts_where_it_is_one_rule_of_the_kind_and_only_then() {
    let good = told([]);
    let refused = RuleObject { rule: Err(refusal()), ..good.clone() };
    let state = knowing([list([good], 1), put(refused.clone(), 2)]);
    let kept = state.status(RATE, &key("limit")).expect("it is there").status.last_sent.expect("it is kept");
    let known = |last_sent: Option<std::sync::Arc<[u8]>>| {
        let mut object = refused.clone();
        object.status.last_sent = last_sent;
        let state = knowing([list([object], 1)]);
        state.rule(RATE, &key("limit")).expect("it is there").is_sent()
    };
    assert!(known(Some(kept.clone())));
    assert!(!known(None));
    assert!(!known(Some(b"nonsense".as_slice().into())));
    assert!(!known(Some([&kept[..], &kept[..]].concat().into())), "two rules");
}
