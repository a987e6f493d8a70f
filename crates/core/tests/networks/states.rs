//! What an event touches: whatever is compiled differently afterwards.

use std::collections::{BTreeMap, BTreeSet};

use causeway_core::ObjectKey;
use causeway_core::networks::status::{self, Task};
use causeway_core::networks::{Event, Look, NetworkSpec, Scope, State, Todo, Trouble};
use causeway_core::room::{Change, State as _};
use proptest::prelude::*;

use crate::world::{Fate, World, home, key, network};

type Compiled = BTreeMap<ObjectKey, (Option<Task>, bool)>;

/// What each object says, and whether something is to be done for it.
fn compiled(state: &State) -> Compiled {
    let of = |network: &causeway_core::networks::Network| {
        let is_due = state.todo(network, None).is_some_and(|todo| todo != Todo::Nothing);
        (status::network(state, &network.key), is_due)
    };
    state.networks().map(|network| (network.key.clone(), of(network))).collect()
}

#[derive(Debug, Clone)]
enum News {
    Put(usize, u8, bool),
    Gone(usize),
    Listed,
    Blind(bool),
    Work(usize),
    Write(usize),
}

fn news() -> impl Strategy<Value = News> {
    let who = || 0_usize..4;
    prop_oneof![
        (who(), 0_u8..4, any::<bool>()).prop_map(|(who, net, deleting)| News::Put(who, net, deleting)),
        who().prop_map(News::Gone),
        Just(News::Listed),
        any::<bool>().prop_map(News::Blind),
        who().prop_map(News::Work),
        who().prop_map(News::Write),
    ]
}

proptest! {
    #[test]
    fn what_is_compiled_differently_was_touched(history in prop::collection::vec(news(), 1..40)) {
        let mut world = World::new();
        for it in history {
            let before = compiled(&world.state);
            let touched: BTreeSet<Scope> = match it {
                News::Put(who, net, deleting) => {
                    let name = ["blue", "red", "green", "grey"][who];
                    let mut it = network(name, &format!("10.{net}.0.0/{}", if net == 3 { 15 } else { 24 }), None);
                    it.spec = NetworkSpec::parse(&format!("10.{}.0.0/{}", net & 2, if net > 1 { 16 } else { 24 }), None)
                        .map_err(|why| why.to_string());
                    it.deleting = deleting;
                    it.created = who as i64;
                    it.finalizers = vec!["causeway/network".into()];
                    it.resource_version = "9".into();
                    world.objects.insert(it.key.clone(), it.clone());
                    world.state.apply(Event::Networks(Change::Put(it.key.clone(), it)))
                }
                News::Gone(who) => {
                    let key = key(["blue", "red", "green", "grey"][who]);
                    world.objects.remove(&key);
                    world.state.apply(Event::Networks(Change::Gone(key)))
                }
                News::Listed => {
                    let (since, held) = (world.state.revision(), world.sky.look(&home(), &Look::All));
                    world.state.apply(Event::Listed(since, held))
                }
                News::Blind(is) => {
                    world.state.apply(Event::Blind(is.then(|| Trouble::unreachable("dark"))))
                }
                // These tell many events; what they touch is the same object's business.
                News::Work(who) => {
                    world.work(["blue", "red", "green", "grey"][who], Fate::Fine);
                    continue;
                }
                News::Write(who) => {
                    world.write(["blue", "red", "green", "grey"][who]);
                    continue;
                }
            };
            let after = compiled(&world.state);
            for (key, (task, is_due)) in &after {
                let (task_before, was_due) = before.get(key).cloned().unwrap_or((None, false));
                if task.as_ref() != task_before.as_ref() {
                    prop_assert!(touched.contains(&Scope::Status(key.clone())), "the status of {key}: {touched:?}");
                }
                if *is_due && !was_due {
                    prop_assert!(touched.contains(&Scope::Network(key.clone())), "the network of {key}: {touched:?}");
                }
            }
        }
    }
}

#[test]
fn one_change_among_thousands_touches_one() {
    let mut world = World::new();
    for number in 0..2000_u32 {
        let (high, low) = (number / 250, number % 250);
        let mut it = network(&format!("n{number}"), &format!("10.{high}.{low}.0/24"), None);
        it.finalizers = vec!["causeway/network".into()];
        world.declare(it);
    }
    world.look();
    for number in 0..2000 {
        world.work(&format!("n{number}"), Fate::Fine);
    }
    assert_eq!(world.look().iter().filter(|scope| matches!(scope, Scope::Network(_))).count(), 0);
    let mut it = world.objects[&key("n7")].clone();
    it.spec = NetworkSpec::parse("10.0.7.0/24", Some("10.0.7.9")).map_err(|why| why.to_string());
    it.resource_version = "999999".into();
    let touched = world.state.apply(Event::Networks(Change::Put(it.key.clone(), it)));
    assert_eq!(touched, [Scope::Network(key("n7")), Scope::Status(key("n7"))].into());
}

#[test]
fn a_list_that_began_before_a_step_does_not_undo_what_the_step_gave() {
    let mut world = World::new();
    world.declare(network("blue", "10.1.0.0/24", None));
    world.look();
    world.write("blue");
    let (since, old) = (world.state.revision(), world.sky.look(&home(), &Look::All));
    world.work("blue", Fate::Fine);
    world.write("blue");
    let said = world.ready("blue");
    world.state.apply(Event::Listed(since, old));
    world.write("blue");
    assert_eq!(world.ready("blue"), said);
    let is_work = |scope: &Scope| matches!(scope, Scope::Network(_));
    assert!(!world.look().iter().any(is_work), "nothing is made anew");
}
