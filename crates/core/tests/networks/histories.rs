//! Whatever happens in whatever order: in the end the cloud holds what objects declare, and nobody else's things differ.

use causeway_core::Truth;
use causeway_core::networks::NetworkSpec;
use causeway_core::networks::mark::Owner;
use proptest::prelude::*;

use crate::world::{Fate, World, home, key, network};

const NAMES: [&str; 3] = ["blue", "red", "green"];

#[derive(Debug, Clone)]
enum Deed {
    Declare(usize, u8),
    Spec(usize, u8, u8),
    AllowReplace(usize, bool),
    Delete(usize),
    Force(usize),
    Work(usize, Fate),
    Write(usize),
    Look,
    Restart,
    Foreign(u8),
    Drift(u8, u8),
    Use(u8, bool),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Fine),
        1 => (0_usize..4).prop_map(Fate::CrashBefore),
        1 => (0_usize..4).prop_map(Fate::CrashAfter),
        1 => (0_usize..4).prop_map(Fate::Lost),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let who = || 0_usize..NAMES.len();
    prop_oneof![
        (who(), 0_u8..4).prop_map(|(who, net)| Deed::Declare(who, net)),
        (who(), 0_u8..4, 1_u8..250).prop_map(|(who, net, gateway)| Deed::Spec(who, net, gateway)),
        (who(), any::<bool>()).prop_map(|(who, may)| Deed::AllowReplace(who, may)),
        who().prop_map(Deed::Delete),
        who().prop_map(Deed::Force),
        (who(), fate()).prop_map(|(who, fate)| Deed::Work(who, fate)),
        (who(), fate()).prop_map(|(who, fate)| Deed::Work(who, fate)),
        who().prop_map(Deed::Write),
        who().prop_map(Deed::Write),
        Just(Deed::Look),
        Just(Deed::Restart),
        any::<u8>().prop_map(Deed::Foreign),
        (any::<u8>(), 0_u8..4).prop_map(|(which, how)| Deed::Drift(which, how)),
        (any::<u8>(), any::<bool>()).prop_map(|(which, used)| Deed::Use(which, used)),
    ]
}

fn cidr(net: u8) -> String {
    // The last two share addresses.
    match net {
        3 => "10.2.0.0/16".into(),
        net => format!("10.{net}.0.0/24"),
    }
}

struct Story {
    world: World,
    born: u32,
}

impl Story {
    fn tell(&mut self, deed: &Deed) {
        let world = &mut self.world;
        match deed {
            Deed::Declare(who, net) => {
                if !world.objects.contains_key(&key(NAMES[*who])) {
                    self.born += 1;
                    let mut it = network(NAMES[*who], &cidr(*net), None);
                    it.uid = format!("uid-{}", self.born);
                    it.created = self.born.into();
                    world.declare(it);
                }
            }
            Deed::Spec(who, net, gateway) => world.edit(NAMES[*who], |it| {
                let address = format!("10.{}.0.{gateway}", if *net == 3 { 2 } else { *net });
                it.spec = NetworkSpec::parse(&cidr(*net), Some(&address)).map_err(|why| why.to_string());
            }),
            Deed::AllowReplace(who, may) => world.edit(NAMES[*who], |it| it.may_replace = *may),
            Deed::Delete(who) => world.edit(NAMES[*who], |it| it.deleting = true),
            Deed::Force(who) => world.edit(NAMES[*who], |it| {
                it.deleting = true;
                it.finalizers.clear();
            }),
            Deed::Work(who, fate) => world.work(NAMES[*who], *fate),
            Deed::Write(who) => world.write(NAMES[*who]),
            Deed::Look => drop(world.look()),
            Deed::Restart => world.restart(),
            Deed::Foreign(number) => {
                drop(world.sky.foreign(&format!("theirs-{number}"), Some("10.1.0.0/24")));
            }
            Deed::Drift(which, how) => drift(world, *which, *how),
            Deed::Use(which, used) => {
                let ids: Vec<String> = world.sky.networks.keys().cloned().collect();
                let Some(id) = ids.get(usize::from(*which) % ids.len().max(1)) else { return };
                if *used {
                    world.sky.used.insert(id.clone())
                } else {
                    world.sky.used.remove(id)
                };
            }
        }
    }
}

/// Somebody changes something of ours.
fn drift(world: &mut World, which: u8, how: u8) {
    let ours = |held: &&mut causeway_core::networks::Held| matches!(held.owner(&home()), Owner::Object(_));
    let mut all: Vec<_> = world.sky.networks.values_mut().filter(ours).collect();
    let at = usize::from(which) % all.len().max(1);
    let Some(held) = all.get_mut(at) else { return };
    held.revision = held.revision.map(|number| number + 1);
    match how {
        0 => held.name = Some("renamed".into()),
        1 => {
            for subnet in held.subnets.values_mut() {
                subnet.gateway = None;
                subnet.revision = subnet.revision.map(|number| number + 1);
            }
        }
        2 => held.subnets.clear(),
        _ => {
            let id = held.id.clone();
            world.sky.networks.remove(&id);
        }
    }
}

proptest! {
    #[test]
    fn in_the_end_the_cloud_is_as_declared(deeds in prop::collection::vec(deed(), 0..60)) {
        let mut story = Story { world: World::new(), born: 0 };
        for deed in &deeds {
            let before = story.world.sky.others(&home());
            story.tell(deed);
            let after = story.world.sky.others(&home());
            for (id, held) in before {
                prop_assert_eq!(after.get(&id), Some(&held), "{:?} changed somebody else's", deed);
            }
        }
        let mut world = story.world;
        world.sky.used.clear();
        let foreign = world.sky.others(&home());
        world.settle();
        world.settle();
        prop_assert_eq!(world.sky.others(&home()), foreign);
        // Each object that says it is ready has just what it declares; and nothing of ours is anybody else's.
        let mut accounted = 0;
        for network in world.objects.values() {
            let owned: Vec<_> = world.sky.networks.values()
                .filter(|held| held.owner(&home()) == Owner::Object(&network.uid)).collect();
            accounted += owned.len();
            prop_assert!(owned.len() <= 1, "{} has {:?}", network.key, owned);
            let (ready, reason, _) = world.ready(network.key.name());
            prop_assert!(
                ready == Truth::True || ["Overlap", "Invalid", "ReplacementNotAllowed"].contains(&reason.as_str()),
                "{}: {}", network.key, reason
            );
            if ready == Truth::True {
                let spec = network.spec.clone().expect("it is ready");
                let subnets: Vec<_> = owned[0].subnets.values().map(|it| (it.cidr, it.gateway)).collect();
                prop_assert_eq!(subnets, [(spec.cidr, Some(spec.gateway))]);
            }
        }
        let ours = world.sky.networks.values()
            .filter(|held| !matches!(held.owner(&home()), Owner::Others | Owner::Namesake)).count();
        prop_assert_eq!(ours, accounted, "something of ours is nobody's: {:?}", world.sky.networks);
        world.sky.changes.clear();
        world.restart();
        world.settle();
        prop_assert_eq!(&world.sky.changes, &Vec::new(), "at rest");
    }
}
