//! What an event touches: whatever is compiled differently afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use causeway_core::dns::corefile::{self, render};
use causeway_core::dns::deployment;
use causeway_core::dns::forward::FINALIZER;
use causeway_core::dns::state::Trouble;
use causeway_core::dns::status::{self, Task};
use causeway_core::dns::vpc_dns::COREFILE;
use causeway_core::dns::{Corefile, Event, Scope, Sight, State, VpcDns};
use causeway_core::room::{Change, State as _};
use proptest::prelude::*;

use crate::world::{GATEWAY, ROW, SERVER, STOCK, after, dns, forward, key, route, with_list, with_script};

/// What is compiled for a scope.
#[derive(Debug, Clone, PartialEq)]
enum Compiled {
    Forward(Option<Task>),
    Corefile(Option<corefile::Plan>),
    Deployment(Option<deployment::Plan>),
    Follow(BTreeSet<String>),
}

fn compiled(state: &State) -> BTreeMap<Scope, Compiled> {
    let forwards = ["f", "g", "h"].map(|name| Scope::Forward(key(name)));
    let corefiles = [COREFILE, "mine"].map(|name| Scope::Corefile(name.into()));
    let deployments = ["vpc-dns-one", "vpc-dns-two"].map(|name| Scope::Deployment(name.into()));
    let all = forwards.into_iter().chain(corefiles).chain(deployments).chain([Scope::Follow]);
    let of = |scope: &Scope| match scope {
        Scope::Forward(key) => Compiled::Forward(status::forward(state, key)),
        Scope::Corefile(name) => Compiled::Corefile(state.corefile_plan(name)),
        Scope::Deployment(name) => Compiled::Deployment(state.deployment_plan(name)),
        Scope::Follow => Compiled::Follow(state.followed()),
    };
    all.map(|scope| (scope.clone(), of(&scope))).collect()
}

fn any_forward() -> impl Strategy<Value = Event> {
    let facts = (
        0_usize..3,
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.3),
        any::<bool>(),
        any::<bool>(),
        0_u8..3,
    );
    facts.prop_map(|(who, vpc, held, deleting, told, observed, version)| {
        let mut it = forward(["f", "g", "h"][who], if vpc { "a" } else { "b" });
        it.finalizers = held.then(|| FINALIZER.to_owned()).into_iter().collect();
        it.deleting = deleting;
        it.resource_version = version.to_string();
        it.status.corefiles = told.then(|| "mine".to_owned()).into_iter().collect();
        it.status.observed_generation = observed.then_some(1);
        if told && observed {
            it.status.vpc = Some("a".into());
            it.vpc = Err("it makes no sense".into());
        }
        Event::Forwards(Change::Put(it.key.clone(), it))
    })
}

fn any_dns() -> impl Strategy<Value = Event> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(who, vpc, active, mine, gone)| {
            let name = if who { "one" } else { "two" }.to_owned();
            let corefile = if mine { "mine" } else { COREFILE }.into();
            let dns = VpcDns { corefile, ..dns(if vpc { "a" } else { "b" }, active) };
            Event::VpcDnses(if gone { Change::Gone(name) } else { Change::Put(name, dns) })
        },
    )
}

fn any_deployment() -> impl Strategy<Value = Event> {
    (any::<bool>(), 0_u8..6).prop_map(|(who, form)| {
        let name = if who { "vpc-dns-one" } else { "vpc-dns-two" }.to_owned();
        let want = deployment::Want::Route(route(), deployment::Inherited::Theirs);
        let deployment = match form {
            0 => return Event::Deployments(Change::Gone(name)),
            1 => with_script(ROW),
            2 => after(&with_script(ROW), want),
            3 => with_list(Some("[]")),
            4 => after(&with_list(None), want),
            _ => causeway_core::dns::Deployment::default(),
        };
        Event::Deployments(Change::Put(name, deployment))
    })
}

fn any_sight() -> impl Strategy<Value = Event> {
    (any::<bool>(), 0_u8..6).prop_map(|(mine, form)| {
        let name = if mine { "mine" } else { COREFILE }.to_owned();
        let seen = |text: &str| {
            Sight::Seen(Some(Corefile {
                resource_version: "1".into(),
                deleting: false,
                text: Some(text.into()),
            }))
        };
        let sight = match form {
            0 => Sight::Unseen,
            1 => Sight::Forbidden("no".into()),
            2 => Sight::Seen(None),
            3 => seen(STOCK),
            4 => seen(&render(STOCK, SERVER)),
            _ => seen("clusterset.local {\n}\n"),
        };
        Event::Corefile(name, sight)
    })
}

fn any_other() -> impl Strategy<Value = Event> {
    let address = |known: bool, address: Ipv4Addr| if known { Ok(address) } else { Err("gone".to_owned()) };
    prop_oneof![
        any::<bool>().prop_map(move |it| Event::KubeDns(address(it, SERVER))),
        any::<bool>().prop_map(move |it| Event::Gateway(address(it, GATEWAY))),
        any::<bool>().prop_map(|it| Event::Provider(it.then(|| "nad.ns.ovn".into()))),
        any::<bool>().prop_map(|it| Event::Tried(
            Scope::Deployment("vpc-dns-one".into()),
            it.then_some(Trouble::Undone)
        )),
        any::<bool>().prop_map(|it| Event::Tried(
            Scope::Corefile("mine".into()),
            it.then(|| Trouble::Refused("no".into()))
        )),
        Just(Event::TermEnded),
        Just(Event::Forwards(Change::Reset(BTreeMap::new()))),
        Just(Event::VpcDnses(Change::Reset(BTreeMap::new()))),
        (0_usize..3).prop_map(|who| Event::Forwards(Change::Gone(key(["f", "g", "h"][who])))),
    ]
}

pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![4 => any_forward(), 3 => any_dns(), 3 => any_deployment(), 3 => any_sight(), 2 => any_other()]
}

proptest! {
    #[test]
    fn what_is_compiled_differently_was_touched(history in prop::collection::vec(any_event(), 1..60)) {
        let mut state = State::default();
        for event in history {
            let before = compiled(&state);
            let words = format!("{event:?}");
            let touched = state.apply(event);
            for (scope, now) in compiled(&state) {
                prop_assert!(
                    before[&scope] == now || touched.contains(&scope),
                    "{scope}: {:?} became {now:?} after {words}", before[&scope]
                );
            }
        }
    }
}
