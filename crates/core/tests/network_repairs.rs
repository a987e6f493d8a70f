//! What is not in order of a network beside what is declared.

use causeway_core::networks::cloud::HeldSubnet;
use causeway_core::networks::plan::{Goal, Want, plan};
use causeway_core::networks::{Held, Home, NetworkSpec, Step, Todo};

fn home() -> Home {
    Home::new(Some("east"), "h")
}

fn want(goal: Goal) -> Want {
    Want { uid: "u1".into(), name: "ns1/a".into(), subnet: None, goal }
}

fn present() -> Want {
    let spec = NetworkSpec::parse("10.1.0.0/24", None).expect("a spec");
    want(Goal::Present { spec, may_replace: false, adopt: None, known: None })
}

/// A network that lacks nothing, and is broken.
fn held() -> Held {
    let subnet = HeldSubnet {
        name: None,
        description: String::new(),
        tags: home().tags("u1"),
        revision: None,
        cidr: "10.1.0.0/24".parse().expect("a range"),
        gateway: "10.1.0.1".parse().ok(),
        pools: Vec::new(),
    };
    Held {
        id: "n1".into(),
        tags: home().tags("u1"),
        broken: Some("it is down".into()),
        subnets: [("s1".into(), subnet)].into(),
        ..Held::default()
    }
}

#[test]
fn what_is_broken_is_repaired_once_it_is_known_as_ours_and_before_its_subnets() {
    let repair = Todo::Step(Step::Repair { id: "n1".into(), broken: "it is down".into() });
    assert_eq!(plan(&home(), &present(), &[&held()], true), repair);
    let bare = Held { subnets: [].into(), ..held() };
    assert_eq!(plan(&home(), &present(), &[&bare], true), repair);
    let unmarked =
        Held { tags: [].into(), name: Some("ns1/a".into()), description: home().description(), ..held() };
    let first = plan(&home(), &present(), &[&unmarked], true);
    assert!(matches!(first, Todo::Step(Step::TagNetwork { .. })), "{first:?}");
    let whole = Held { broken: None, ..held() };
    assert_eq!(plan(&home(), &present(), &[&whole], true), Todo::Nothing);
}

#[test]
fn what_should_go_or_stay_as_it_is_is_not_repaired() {
    let gone = plan(&home(), &want(Goal::Absent), &[&held()], true);
    assert_eq!(gone, Todo::Step(Step::DeleteNetwork { id: "n1".into(), revision: None }));
    assert_eq!(plan(&home(), &want(Goal::Frozen), &[&held()], true), Todo::Nothing);
}

#[test]
fn a_repair_says_what_it_is_about() {
    let step = Step::Repair { id: "n1".into(), broken: "it is down".into() };
    assert_eq!((step.to_string().as_str(), step.verb()), ("repair network n1: it is down", "repair_network"));
}
