//! What is done for a network, as sentences.

use causeway_core::Truth;
use causeway_core::networks::mark::Owner;
use causeway_core::networks::state::{InTheWay, Report};
use causeway_core::networks::{Event, Home, NetworkSpec, Scope, State, Step, Todo, Trouble, status};
use causeway_core::room::State as _;

use crate::sky::plain_subnet;
use crate::world::{Fate, World, home, network};

fn settled(name: &str) -> World {
    let mut world = World::new();
    world.declare(network(name, "10.1.0.0/24", None));
    world.settle();
    world
}

fn only(world: &World) -> &causeway_core::networks::Held {
    let mut all = world.sky.networks.values();
    let held = all.next().expect("a network");
    assert!(all.next().is_none(), "{:?}", world.sky.networks);
    held
}

fn spec(cidr: &str, gateway: &str) -> Result<NetworkSpec, String> {
    Ok(NetworkSpec::parse(cidr, Some(gateway)).expect("a spec"))
}

#[test]
fn a_network_is_made_marked_and_given_its_subnet_and_the_object_says_so() {
    let world = settled("blue");
    let held = only(&world);
    assert_eq!(held.name.as_deref(), Some("default/blue"));
    assert!(home().tags("uid-blue").is_subset(&held.tags));
    let (id, subnet) = held.subnets.iter().next().expect("a subnet");
    assert_eq!((subnet.cidr.to_string(), subnet.gateway), ("10.1.0.0/24".into(), Some([10, 1, 0, 1].into())));
    assert_eq!(subnet.owner(&home()), Owner::Object("uid-blue"));
    let status = &world.objects[&crate::world::key("blue")].status;
    assert_eq!(
        (status.network_id.as_deref(), status.subnet_id.as_deref()),
        (Some(held.id.as_str()), Some(id.as_str()))
    );
    assert_eq!(world.ready("blue").0, Truth::True);
    let verbs: Vec<&str> = world.sky.changes.iter().map(Step::verb).collect();
    assert_eq!(verbs, ["create_network", "tag_network", "create_subnet", "tag_subnet"]);
}

#[test]
fn what_is_as_declared_is_left_alone_also_by_whoever_starts() {
    let mut world = settled("blue");
    world.sky.changes.clear();
    assert_eq!(world.look(), [], "a look that shows nothing new touches nothing");
    world.restart();
    world.settle();
    assert_eq!(world.sky.changes, []);
}

#[test]
fn the_gateway_moves_in_place_together_with_the_pools() {
    let mut world = settled("blue");
    world.sky.changes.clear();
    world.edit("blue", |it| it.spec = spec("10.1.0.0/24", "10.1.0.254"));
    world.settle();
    let subnet = only(&world).subnets.values().next().expect("a subnet").clone();
    assert_eq!(subnet.gateway, Some([10, 1, 0, 254].into()));
    assert_eq!(subnet.pools, [([10, 1, 0, 1].into(), [10, 1, 0, 253].into())]);
    assert_eq!(world.sky.changes.len(), 1);
    assert_eq!(world.ready("blue").0, Truth::True);
}

#[test]
fn a_range_changes_only_where_that_is_allowed() {
    let mut world = settled("blue");
    let before = world.sky.networks.clone();
    world.edit("blue", |it| it.spec = spec("10.2.0.0/24", "10.2.0.1"));
    world.settle();
    assert_eq!(world.sky.networks, before);
    let (truth, reason, message) = world.ready("blue");
    assert_eq!((truth, reason.as_str()), (Truth::False, "ReplacementNotAllowed"));
    assert!(message.contains("it is 10.1.0.0/24, and 10.2.0.0/24 needs another subnet"), "{message}");
    world.sky.changes.clear();
    world.edit("blue", |it| it.may_replace = true);
    world.settle();
    let verbs: Vec<&str> = world.sky.changes.iter().map(Step::verb).collect();
    assert_eq!(verbs, ["create_subnet", "tag_subnet", "delete_subnet"], "put before drop");
    assert_eq!(world.ready("blue").0, Truth::True);
}

#[test]
fn a_range_that_overlaps_with_the_one_before_needs_its_place() {
    let mut world = settled("blue");
    world.sky.changes.clear();
    world.edit("blue", |it| {
        it.spec = spec("10.1.0.0/16", "10.1.0.1");
        it.may_replace = true;
    });
    world.settle();
    let verbs: Vec<&str> = world.sky.changes.iter().map(Step::verb).collect();
    assert_eq!(verbs, ["delete_subnet", "create_subnet", "tag_subnet"]);
}

#[test]
fn deleting_an_object_deletes_its_network_also_while_nobody_was_there() {
    let mut world = settled("blue");
    world.edit("blue", |it| it.deleting = true);
    world.restart();
    world.settle();
    assert!(world.sky.networks.is_empty() && world.objects.is_empty());
}

#[test]
fn a_network_in_use_keeps_its_object_which_says_why() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    world.sky.used.insert(id.clone());
    world.edit("blue", |it| it.deleting = true);
    world.settle();
    let status = &world.objects[&crate::world::key("blue")].status;
    let blocked = status.conditions.get("CleanupBlocked").expect("a condition");
    assert_eq!(blocked.reason, "InUse");
    assert!(blocked.message.contains("causeway/abandon=true"), "{}", blocked.message);
    // Abandoned it is nobody's, and stays.
    world.edit("blue", |it| it.abandon = true);
    world.settle();
    assert!(world.objects.is_empty());
    let held = only(&world);
    assert_eq!(held.owner(&home()), Owner::Others);
    assert!(held.subnets.values().all(|subnet| subnet.owner(&home()) == Owner::Others));
}

#[test]
fn a_network_of_nobody_is_deleted_at_the_second_look_and_not_before() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    // Somebody took the finalizer off by force.
    world.objects.clear();
    world.restart();
    assert_eq!(world.look(), [], "one list may be wrong");
    assert_eq!(world.look(), [Scope::Orphan(id)]);
    world.settle();
    assert!(world.sky.networks.is_empty());
}

#[test]
fn an_older_network_keeps_its_addresses_and_the_younger_one_says_whose_they_are() {
    let mut world = settled("blue");
    let mut red = network("red", "10.1.0.0/16", None);
    red.created = 200;
    world.declare(red);
    world.settle();
    assert_eq!(world.sky.networks.len(), 1);
    let (truth, reason, message) = world.ready("red");
    assert_eq!((truth, reason.as_str()), (Truth::False, "Overlap"));
    assert_eq!(
        message,
        "its range shares addresses with 10.1.0.0/24 of Network default/blue, which is older"
    );
    assert_eq!(world.ready("blue").0, Truth::True);
    world.edit("blue", |it| it.deleting = true);
    world.settle();
    assert_eq!(world.ready("red").0, Truth::True, "the place is free");
}

#[test]
fn a_network_is_adopted_only_when_asked_for_and_only_if_it_is_nobodys() {
    let mut world = World::new();
    let theirs = world.sky.foreign("legacy", Some("10.9.0.0/24"));
    let mut blue = network("blue", "10.9.0.0/24", None);
    blue.adopt = Some(theirs.clone());
    world.declare(blue);
    world.settle();
    let held = only(&world);
    assert_eq!((held.id.clone(), held.owner(&home())), (theirs.clone(), Owner::Object("uid-blue")));
    assert_eq!(held.subnets.len(), 1, "its subnet is taken over too");
    assert_eq!(world.ready("blue").0, Truth::True);
    let mut red = network("red", "10.8.0.0/24", None);
    red.adopt = Some(theirs);
    world.declare(red);
    let mut green = network("green", "10.7.0.0/24", None);
    green.adopt = Some("nowhere".into());
    world.declare(green);
    world.settle();
    assert_eq!(world.ready("red").1, "AdoptionRefused");
    assert_eq!(world.ready("green").1, "AdoptionTargetMissing");
    assert_eq!(world.sky.networks.len(), 1);
}

#[test]
fn without_being_asked_a_network_of_the_same_name_is_somebody_elses() {
    let mut world = World::new();
    let theirs = world.sky.foreign("default/blue", Some("10.1.0.0/24"));
    let before = world.sky.networks[&theirs].clone();
    world.declare(network("blue", "10.1.0.0/24", None));
    world.settle();
    assert_eq!(world.sky.networks[&theirs], before);
    assert_eq!(world.sky.networks.len(), 2);
}

#[test]
fn a_cluster_of_the_same_id_keeps_its_networks() {
    let mut world = World::new();
    let theirs = world.sky.foreign("default/blue", Some("10.1.0.0/24"));
    let tags = Home::new(Some("cluster1"), "another home").tags("uid-of-theirs");
    world.sky.network(&theirs, None).expect("there").tags = tags;
    let before = world.sky.networks.clone();
    world.settle();
    world.settle();
    assert_eq!(world.sky.networks, before);
    assert_eq!(world.state.namesakes(), 1);
}

#[test]
fn what_somebody_changed_in_the_cloud_is_put_back_and_told() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    let subnet = only(&world).subnets.keys().next().expect("a subnet").clone();
    world.sky.network(&id, None).expect("there").name = Some("renamed".into());
    world.sky.subnet(&id, &subnet, None).expect("there").gateway = None;
    world.settle();
    assert_eq!(only(&world).name.as_deref(), Some("default/blue"));
    assert_eq!(only(&world).subnets[&subnet].gateway, Some([10, 1, 0, 1].into()));
    world.sky.networks.clear();
    world.settle();
    assert_eq!(only(&world).subnets.len(), 1, "made anew");
    assert_eq!(world.ready("blue").0, Truth::True);
}

#[test]
fn deleting_does_not_take_along_somebody_elses_subnet() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    let theirs = plain_subnet("theirs", "172.16.0.0/24".parse().expect("a range"));
    world.sky.network(&id, None).expect("there").subnets.insert("theirs".into(), theirs);
    world.edit("blue", |it| it.deleting = true);
    world.settle();
    assert!(only(&world).subnets.contains_key("theirs"));
    let status = &world.objects[&crate::world::key("blue")].status;
    assert_eq!(status.conditions.get("CleanupBlocked").expect("a condition").reason, "ForeignSubnet");
}

#[test]
fn nor_one_that_nobody_has_seen_yet() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    world.look();
    let theirs = plain_subnet("theirs", "172.16.0.0/24".parse().expect("a range"));
    world.sky.network(&id, None).expect("there").subnets.insert("theirs".into(), theirs);
    world.edit("blue", |it| it.deleting = true);
    world.work("blue", Fate::Fine);
    assert!(only(&world).subnets.contains_key("theirs"));
}

#[test]
fn a_quota_is_said_and_not_asked_for_at_every_look() {
    let mut world = World::new();
    world.sky.quota = Some(0);
    world.declare(network("blue", "10.1.0.0/24", None));
    world.settle();
    assert_eq!(world.ready("blue").1, "QuotaExceeded");
    assert_eq!(world.look(), [], "it is tried now and then, not at every look");
}

#[test]
fn an_outage_is_told_of_what_was_never_seen_and_ends_with_the_next_look_whatever_it_was() {
    let mut world = settled("old");
    world.declare(network("new", "10.2.0.0/24", None));
    world.write("new");
    world.restart();
    for name in ["old", "new"] {
        let object = world.objects[&crate::world::key(name)].clone();
        let trouble = Some(InTheWay::Outage(Trouble::Forbidden("no lists for you".into())));
        let report = Report {
            uid: object.uid,
            generation: object.generation,
            trouble,
            is_unmade: false,
            synced: None,
        };
        world.state.apply(Event::Worked(object.key, report));
        world.write(name);
    }
    assert_eq!(world.ready("new").1, "Forbidden");
    assert_eq!(world.ready("old").0, Truth::True, "nothing is known to have changed");
    assert!(world.look().contains(&Scope::Network(crate::world::key("new"))));
    // Afterwards nobody hears of it any more.
    world.settle();
    let id = world
        .sky
        .networks
        .values()
        .find(|held| held.name.as_deref() == Some("default/old"))
        .expect("there")
        .id
        .clone();
    world.sky.network(&id, None).expect("there").name = Some("mine".into());
    world.look();
    world.write("old");
    assert_eq!(world.ready("old").1, "Syncing");
}

#[test]
fn a_spec_that_makes_no_sense_changes_nothing_and_can_be_deleted() {
    let mut world = settled("blue");
    let before = world.sky.networks.clone();
    world.edit("blue", |it| it.spec = Err("cidr is nonsense".into()));
    world.settle();
    assert_eq!(world.sky.networks, before);
    assert_eq!(world.ready("blue"), (Truth::False, "Invalid".into(), "cidr is nonsense".into()));
    world.edit("blue", |it| it.deleting = true);
    world.settle();
    assert!(world.sky.networks.is_empty() && world.objects.is_empty());
}

#[test]
fn of_two_networks_of_one_object_the_one_it_says_it_has_stays() {
    let mut world = settled("blue");
    let known = only(&world).id.clone();
    // A former leader's late request.
    let double = world.sky.foreign("default/blue", None);
    let held = world.sky.network(&double, None).expect("there");
    held.tags = home().tags("uid-blue");
    held.created = "0000".into();
    world.settle();
    assert_eq!(only(&world).id, known);
    assert_eq!(world.ready("blue").0, Truth::True);
}

#[test]
fn a_crash_between_making_and_marking_leaves_nothing_behind() {
    for step in 0..4 {
        for fate in [Fate::CrashBefore(step), Fate::CrashAfter(step), Fate::Lost(step)] {
            let mut world = World::new();
            world.declare(network("blue", "10.1.0.0/24", None));
            world.look();
            world.write("blue");
            world.work("blue", fate);
            world.settle();
            let held = only(&world);
            assert_eq!((held.subnets.len(), world.ready("blue").0), (1, Truth::True), "{fate:?}");
        }
    }
}

#[test]
fn a_crash_after_which_the_object_vanished_leaves_nothing_behind_either() {
    for step in 0..4 {
        let mut world = World::new();
        world.declare(network("blue", "10.1.0.0/24", None));
        world.look();
        world.write("blue");
        world.work("blue", Fate::CrashAfter(step));
        world.objects.clear();
        world.restart();
        world.settle();
        assert!(world.sky.networks.is_empty(), "after step {step}: {:?}", world.sky.networks);
    }
}

#[test]
fn a_cloud_that_is_silent_for_long_makes_nothing_ready_and_nothing_broken() {
    let mut world = settled("blue");
    let before = world.objects[&crate::world::key("blue")].status.clone();
    let dark = Trouble::unreachable("connection refused");
    world.state.apply(Event::Blind(Some(dark)));
    world.write("blue");
    let (truth, reason, message) = world.ready("blue");
    assert_eq!((truth, reason.as_str()), (Truth::Unknown, "CloudUnreachable"));
    assert!(message.contains("connection refused; what it holds is as it was last seen"), "{message}");
    let after = &world.objects[&crate::world::key("blue")].status;
    assert_eq!(after.network_id, before.network_id, "what was known stays known");
    assert_eq!(status::news(&before, after), [], "the cloud's silence is no event of each network");
    world.state.apply(Event::Blind(None));
    world.write("blue");
    assert_eq!(world.ready("blue").0, Truth::True);
}

#[test]
fn a_kind_that_is_not_served_is_no_reason_to_delete_its_networks() {
    let mut world = settled("blue");
    let before = world.sky.networks.clone();
    // Whoever starts while the definition is away hears of no object, and of no list either.
    world.state = State::new("memory");
    world.state.apply(Event::Home(home()));
    for _ in 0..3 {
        assert_eq!(world.look(), []);
    }
    assert_eq!(world.sky.networks, before);
}

#[test]
fn a_cluster_that_is_called_otherwise_keeps_its_networks() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    world.sky.network(&id, None).expect("there").tags = Home::new(None, "home-1").tags("uid-blue");
    world.settle();
    let held = only(&world);
    assert_eq!(held.id, id);
    assert!(held.tags.contains("causeway-cluster=cluster1") && held.tags.len() == 4, "{:?}", held.tags);
    assert_eq!(world.ready("blue").0, Truth::True);
}

#[test]
fn tags_that_somebody_took_away_are_put_back() {
    for gone in ["causeway", "causeway-cluster=cluster1", "causeway-home=home-1", "causeway-uid=uid-blue"] {
        let mut world = settled("blue");
        let id = only(&world).id.clone();
        let held = world.sky.network(&id, None).expect("there");
        // As one that was adopted: the description does not tell.
        held.description.clear();
        held.tags.remove(gone);
        world.settle();
        assert_eq!((only(&world).id.clone(), only(&world).tags.len()), (id, 4), "without {gone}");
        assert_eq!(world.ready("blue").0, Truth::True, "without {gone}");
    }
}

#[test]
fn what_another_cluster_has_tagged_is_its_own_whatever_the_description_says() {
    let mut world = World::new();
    let theirs = world.sky.foreign("default/blue", None);
    let held = world.sky.network(&theirs, None).expect("there");
    held.description = home().description();
    held.tags = Home::new(Some("cluster2"), "home-2").tags("uid-of-theirs");
    let before = world.sky.networks.clone();
    world.settle();
    world.settle();
    assert_eq!(world.sky.networks, before);
}

#[test]
fn a_subnet_is_never_deleted_unless_that_is_allowed() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    let mut second = plain_subnet("default/blue", "172.16.0.0/24".parse().expect("a range"));
    second.tags = home().tags("uid-blue");
    world.sky.network(&id, None).expect("there").subnets.insert("second".into(), second);
    world.settle();
    assert_eq!(only(&world).subnets.len(), 2);
    assert_eq!(world.ready("blue").1, "ReplacementNotAllowed");
    world.edit("blue", |it| it.may_replace = true);
    world.settle();
    assert_eq!((only(&world).subnets.len(), world.ready("blue").0), (1, Truth::True));
}

#[test]
fn what_only_seems_to_be_ours_is_not_deleted_for_having_no_object() {
    let mut world = World::new();
    // Of another cluster that goes by our id, after somebody took one of its tags away.
    let theirs = world.sky.foreign("default/blue", Some("10.1.0.0/24"));
    let tags = ["causeway", "causeway-cluster=cluster1", "causeway-uid=uid-of-theirs"];
    world.sky.network(&theirs, None).expect("there").tags = tags.map(str::to_owned).into();
    let before = world.sky.networks.clone();
    world.settle();
    world.settle();
    assert_eq!(world.sky.networks, before);
}

#[test]
fn an_orphan_that_the_api_server_knows_an_object_of_has_that_owner() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    world.objects.clear();
    world.restart();
    world.look();
    let object = |uid: &str, name: &str| {
        let mut object = network(name, "10.1.0.0/24", None);
        object.uid = uid.into();
        object
    };
    let others = [object("uid-red", "red"), object("uid-new", "blue")];
    assert_eq!(world.state.owner_among(&id, &others), None, "of the same name it is another object");
    let itself = [object("uid-red", "red"), object("uid-blue", "blue")];
    assert_eq!(world.state.owner_among(&id, &itself), Some(&crate::world::key("blue")));
    // Whatever its marks are: one that says it has it is asked first.
    let mut named = object("uid-new", "green");
    named.status.network_id = Some(id.clone());
    assert_eq!(world.state.owner_among(&id, &[named]), Some(&crate::world::key("green")));
}

#[test]
fn a_network_that_lost_all_its_marks_is_reported_and_no_second_one_is_made() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    let held = world.sky.networks.get_mut(&id).expect("it");
    (held.tags, held.description) = Default::default();
    for subnet in held.subnets.values_mut() {
        (subnet.tags, subnet.description) = Default::default();
    }
    world.sky.changes.clear();
    world.settle();
    let (truth, reason, message) = world.ready("blue");
    assert_eq!((truth, reason.as_str()), (Truth::False, "MarksLost"));
    assert!(message.contains(&format!("causeway/adopt={id}")), "{message}");
    assert_eq!((world.sky.changes.len(), only(&world).id.as_str()), (0, id.as_str()));
    // As it says, so it goes on.
    world.edit("blue", |it| it.adopt = Some(id.clone()));
    world.settle();
    assert_eq!((world.ready("blue").0, only(&world).id.as_str()), (Truth::True, id.as_str()));
}

#[test]
fn another_provider_touches_nothing_and_lets_nothing_go() {
    let mut world = settled("blue");
    let before = world.sky.networks.clone();
    world.provider = "other";
    world.restart();
    world.settle();
    let (truth, reason, message) = world.ready("blue");
    assert_eq!((truth, reason.as_str()), (Truth::False, "ProviderChanged"));
    assert!(message.contains("run it with --provider memory"), "{message}");
    for abandon in [false, true] {
        world.edit("blue", |it| (it.deleting, it.abandon) = (true, abandon));
        world.settle();
        let status = &world.objects[&crate::world::key("blue")].status;
        let blocked = status.conditions.get("CleanupBlocked").expect("a condition");
        assert_eq!(blocked.reason, "ProviderChanged");
        assert!(blocked.message.contains("take the finalizer"), "{}", blocked.message);
    }
    assert_eq!(world.sky.networks, before);
}

#[test]
fn what_is_gone_and_cannot_be_made_again_is_not_named_any_more() {
    let mut world = settled("blue");
    world.sky.networks.clear();
    world.sky.quota = Some(0);
    world.settle();
    assert_eq!(world.ready("blue").1, "QuotaExceeded");
    let status = &world.objects[&crate::world::key("blue")].status;
    assert_eq!(
        (&status.network_id, &status.subnet_id, &status.cidr, &status.gateway),
        (&None, &None, &None, &None)
    );
    world.sky.quota = None;
    world.settle();
    assert_eq!(world.ready("blue").0, Truth::True);
}

#[test]
fn a_list_in_the_middle_of_an_adoption_has_it_looked_for_again() {
    let mut world = World::new();
    let id = world.sky.foreign("theirs", Some("10.1.0.0/24"));
    let mut blue = network("blue", "10.1.0.0/24", None);
    blue.adopt = Some(id.clone());
    world.declare(blue);
    world.write("blue");
    world.look();
    let blue = world.state.network(&crate::world::key("blue")).expect("it").clone();
    let looked = world.find(&blue);
    assert!(matches!(world.state.todo(&blue, Some(looked)), Some(Todo::Step(Step::TagNetwork { .. }))));
    world.look();
    assert_eq!(world.state.todo(&blue, Some(looked)), Some(Todo::Look), "lists know of marked networks only");
}

#[test]
fn tags_that_others_put_since_the_last_list_survive_ours() {
    let mut world = settled("blue");
    let id = only(&world).id.clone();
    world.sky.networks.get_mut(&id).expect("it").tags.remove(&home().home_tag());
    world.look();
    world.sky.networks.get_mut(&id).expect("it").tags.insert("theirs".into());
    world.work("blue", Fate::Fine);
    let tags = &only(&world).tags;
    assert!(tags.contains("theirs") && tags.contains(&home().home_tag()), "{tags:?}");
}

#[test]
fn marks_that_are_lost_in_part_are_no_reason_for_a_second_network_nor_for_the_end_of_the_first() {
    for (keeps_mark, left) in
        [(false, vec!["causeway"]), (false, vec!["causeway", "causeway-cluster=cluster1"]), (true, vec![])]
    {
        let mut world = settled("blue");
        let id = only(&world).id.clone();
        let held = world.sky.networks.get_mut(&id).expect("it");
        held.tags = left.iter().map(|tag| (*tag).to_owned()).collect();
        held.name = Some("mine".into());
        if !keeps_mark {
            held.description = String::new();
        }
        for _ in 0..3 {
            world.settle();
        }
        assert_eq!(
            (world.ready("blue").1, only(&world).id.as_str()),
            ("MarksLost".into(), id.as_str()),
            "{left:?}"
        );
        world.edit("blue", |it| it.adopt = Some(id.clone()));
        world.settle();
        assert_eq!((world.ready("blue").0, only(&world).id.as_str()), (Truth::True, id.as_str()), "{left:?}");
    }
}

#[test]
fn what_is_to_be_left_in_the_cloud_is_not_let_go_unseen() {
    let mut world = settled("blue");
    let sky = std::mem::take(&mut world.sky.networks);
    world.edit("blue", |it| (it.deleting, it.abandon) = (true, true));
    world.settle();
    let blocked = world.objects[&crate::world::key("blue")].status.conditions.get("CleanupBlocked").cloned();
    assert_eq!(blocked.map(|it| it.reason), Some("NotSeen".into()));
    world.sky.networks = sky;
    world.settle();
    assert!(world.objects.is_empty());
    assert_eq!(only(&world).owner(&home()), Owner::Others, "it stays, and is nobody's");
}

#[test]
fn a_network_that_is_half_made_says_already_where_it_is() {
    let mut world = World::new();
    world.declare(network("blue", "10.1.0.0/24", None));
    world.write("blue");
    world.look();
    world.work("blue", Fate::Lost(2));
    world.look();
    world.write("blue");
    let status = &world.objects[&crate::world::key("blue")].status;
    assert_eq!(status.network_id.as_deref(), Some(only(&world).id.as_str()));
    assert_eq!(status.provider.as_deref(), Some("memory"));
}

#[test]
fn a_subnet_that_lost_its_marks_gets_them_back_and_goes_with_its_object() {
    let strip = |world: &mut World| {
        let held = world.sky.networks.values_mut().next().expect("a network");
        for subnet in held.subnets.values_mut() {
            (subnet.tags, subnet.description) = Default::default();
        }
    };
    let mut world = settled("blue");
    strip(&mut world);
    world.settle();
    assert_eq!(world.ready("blue").0, Truth::True);
    let subnet = only(&world).subnets.values().next().expect("its subnet").clone();
    assert_eq!(subnet.owner(&home()), Owner::Object("uid-blue"));
    strip(&mut world);
    world.edit("blue", |it| it.deleting = true);
    world.settle();
    assert!(world.sky.networks.is_empty() && world.objects.is_empty());
}
