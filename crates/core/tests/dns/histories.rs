//! Whatever happens, and whoever is away meanwhile: it comes to rest, and nothing is left when all forwards are gone.

use std::net::Ipv4Addr;

use causeway_core::dns::corefile::strip;
use causeway_core::dns::vpc_dns::COREFILE;
use causeway_core::dns::{Event, State, VpcDns};
use causeway_core::room::State as _;
use proptest::prelude::*;

use crate::world::{GATEWAY, ROW, SERVER, STOCK, World, dns, forward, key, with_list, with_script};

#[derive(Debug, Clone)]
enum Happens {
    Create(usize, bool),
    Move(usize, bool),
    Delete(usize),
    Active(bool, bool),
    NamesCorefile(bool, bool),
    /// kube-ovn makes a Deployment anew, in one of its forms.
    Regenerate(bool, bool),
    KubeDns(u8),
    Gateway(u8),
    /// The controller ends and another one begins: it knows nothing but what it lists.
    Restart,
    /// One scope is handled: the controller may end after each.
    Handle(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    let (who, it) = (|| 0_usize..3, any::<bool>);
    prop_oneof![
        1 => (who(), it()).prop_map(|(who, vpc)| Happens::Create(who, vpc)),
        1 => (who(), it()).prop_map(|(who, vpc)| Happens::Move(who, vpc)),
        1 => who().prop_map(Happens::Delete),
        1 => (it(), it()).prop_map(|(who, active)| Happens::Active(who, active)),
        1 => (it(), it()).prop_map(|(who, mine)| Happens::NamesCorefile(who, mine)),
        1 => (it(), it()).prop_map(|(who, new)| Happens::Regenerate(who, new)),
        1 => (0_u8..3).prop_map(Happens::KubeDns),
        1 => (0_u8..3).prop_map(Happens::Gateway),
        1 => Just(Happens::Restart),
        8 => (0_usize..16).prop_map(Happens::Handle),
    ]
}

const NAMES: [&str; 3] = ["f", "g", "h"];
const LIST: &str = "[ {\"dst\":\"10.96.0.1/32\"} ]";

fn vpc(which: bool) -> &'static str {
    if which { "a" } else { "b" }
}

struct History {
    world: World,
    kube_dns: Result<Ipv4Addr, String>,
    gateway: Result<Ipv4Addr, String>,
}

impl History {
    fn begin() -> Self {
        let mut world = World::new();
        world.dns("two", Some(dns("b", true)));
        world.deployment("vpc-dns-two", Some(with_list(Some(LIST))));
        world.corefile("mine", Some(STOCK));
        Self { world, kube_dns: Ok(SERVER), gateway: Ok(GATEWAY) }
    }

    fn change_dns(&mut self, first: bool, change: impl FnOnce(&mut VpcDns)) {
        let name = if first { "one" } else { "two" };
        let mut dns = self.world.dnses[name].clone();
        change(&mut dns);
        self.world.dns(name, Some(dns));
    }

    fn happen(&mut self, it: Happens) {
        let world = &mut self.world;
        let address = |last: u8, base: Ipv4Addr| match last {
            0 => Err("gone".to_owned()),
            last => Ok(Ipv4Addr::from(u32::from(base) + u32::from(last) - 1)),
        };
        match it {
            Happens::Create(who, which) if !world.forwards.contains_key(&key(NAMES[who])) => {
                world.put(forward(NAMES[who], vpc(which)));
            }
            Happens::Move(who, which) if world.forwards.contains_key(&key(NAMES[who])) => {
                world.change(NAMES[who], |it| {
                    it.vpc = Ok(vpc(which).into());
                    it.generation += 1;
                });
            }
            Happens::Delete(who) if world.forwards.contains_key(&key(NAMES[who])) => world.delete(NAMES[who]),
            Happens::Create(..) | Happens::Move(..) | Happens::Delete(_) => {}
            Happens::Active(first, active) => self.change_dns(first, |dns| dns.active = active),
            Happens::NamesCorefile(first, mine) => {
                self.change_dns(first, |dns| dns.corefile = if mine { "mine" } else { COREFILE }.into());
            }
            Happens::Regenerate(first, new) => {
                let name = if first { "vpc-dns-one" } else { "vpc-dns-two" };
                let mut anew = if new { with_list(Some(LIST)) } else { with_script(ROW) };
                anew.has_copy = world.deployments[name].has_record;
                world.deployment(name, Some(anew));
            }
            Happens::KubeDns(last) => {
                self.kube_dns = address(last, SERVER);
                world.tell(Event::KubeDns(self.kube_dns.clone()));
            }
            Happens::Gateway(last) => {
                self.gateway = address(last, GATEWAY);
                world.tell(Event::Gateway(self.gateway.clone()));
            }
            Happens::Restart => self.restart(),
            Happens::Handle(which) => {
                let scopes: Vec<_> = world.state.everything().into_iter().collect();
                world.handle(&scopes[which % scopes.len()]);
            }
        }
    }

    fn restart(&mut self) {
        self.world.state = State::default();
        self.world.tell(Event::KubeDns(self.kube_dns.clone()));
        self.world.tell(Event::Gateway(self.gateway.clone()));
        self.world.list();
    }
}

proptest! {
    #[test]
    fn it_comes_to_rest_and_nothing_is_left_when_all_are_gone(history in prop::collection::vec(happens(), 1..80)) {
        let mut it = History::begin();
        for happens in history {
            it.happen(happens);
            for text in it.world.corefiles.values() {
                prop_assert_eq!(strip(text), STOCK, "what was there stays, throughout");
            }
        }
        it.world.settle();
        let before = it.world.writes.len();
        // Whoever comes next finds nothing to do.
        it.restart();
        it.world.settle();
        prop_assert_eq!(&it.world.writes[before..], &[] as &[String]);
        for name in NAMES {
            if it.world.forwards.contains_key(&key(name)) {
                it.world.delete(name);
            }
        }
        it.restart();
        it.world.settle();
        prop_assert!(it.world.forwards.is_empty());
        for text in it.world.corefiles.values() {
            prop_assert_eq!(text, STOCK);
        }
        for deployment in it.world.deployments.values_mut() {
            deployment.resource_version.clear();
            prop_assert!(*deployment == with_script(ROW) || *deployment == with_list(Some(LIST)), "{:?}", deployment);
        }
        prop_assert_eq!(it.world.state.followed().len(), 0);
    }
}
