//! The state's promises under random histories: a set is complete and no other than what the replica was told; whoever
//! may be sent another set is among those touched; versions never fall and rise with every change; and a data plane
//! that moves between replicas ends on what is true, however far each of them lags.

use std::collections::{BTreeMap, BTreeSet};

use causeway_core::ObjectKey;
use causeway_core::room::{Change, State as _};
use causeway_core::rules::Kind;
use causeway_core::rules::object::Share;
use causeway_core::rules::state::{Event, Kept, Scope, Set, Standing, State, Target};
use causeway_core::rules::status::Said;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::history::{
    Cluster, Content, HEARERS, Happening, KINDS, Slot, Thing, any_happening, encoded, slots, targets,
};

/// What a replica was told of a kind.
#[derive(Default)]
struct View {
    standing: Standing,
    /// The objects, each with the last number that made sense.
    things: BTreeMap<ObjectKey, (Thing, Option<i64>)>,
    /// The next entry of the log; none: a list comes first.
    next: Option<usize>,
    /// Up to which revision.
    revision: i64,
}

impl View {
    fn take(&mut self, key: &ObjectKey, thing: Option<&Thing>) {
        let before = self.things.remove(key);
        let Some(thing) = thing else { return };
        let good = before.filter(|(before, _)| before.is_same_object(thing)).and_then(|(_, good)| good);
        self.things.insert(key.clone(), (thing.clone(), thing.value.or(good)));
    }

    fn content(&self, target: &Target) -> Content {
        let of_kind = |key: &ObjectKey| (target.kind, key.clone());
        let fitting = self.things.iter().filter(|(key, (thing, _))| thing.fits(&of_kind(key), target));
        fitting.filter_map(|(key, (_, good))| Some((key.clone(), (*good)?))).collect()
    }

    /// Whether a set has a rule that makes no sense any more, in its last good form.
    fn has_old(&self, target: &Target) -> bool {
        let is_old = |(thing, good): &(Thing, Option<i64>)| thing.value.is_none() && good.is_some();
        let of_kind = |key: &ObjectKey| (target.kind, key.clone());
        self.things.iter().any(|(key, known)| is_old(known) && known.0.fits(&of_kind(key), target))
    }

    fn apps(&self, key: &ObjectKey) -> Option<&'static str> {
        self.things.get(key).and_then(|(thing, _)| thing.app)
    }
}

/// Whose rule it is, and what replicas say of it.
type Told = (Option<String>, BTreeMap<String, Share>);

/// What a state has to say, where it is somebody's work to act on it.
struct Spoken {
    sets: BTreeMap<Target, Option<Set>>,
    statuses: BTreeMap<Slot, Option<Said>>,
    shares: BTreeMap<Slot, Option<Told>>,
}

impl Spoken {
    fn of(state: &State) -> Self {
        let set = |target: Target| (target.clone(), state.set(&target));
        let status = |slot: Slot| (slot.clone(), state.status(slot.0, &slot.1));
        let share = |slot: Slot| {
            let kept = state.rule(slot.0, &slot.1);
            let said = |kept: &Kept| (kept.app.as_deref().map(str::to_owned), kept.status.replicas.clone());
            (slot, kept.map(said))
        };
        Self {
            sets: targets().into_iter().map(set).collect(),
            statuses: slots().into_iter().map(status).collect(),
            shares: slots().into_iter().map(share).collect(),
        }
    }
}

impl Default for Spoken {
    fn default() -> Self {
        Self::of(&State::default())
    }
}

type Checked = Result<(), TestCaseError>;

/// Whatever is said differently after an event is touched, and what is not touched is as it was. An empty set has the
/// version of the last change of any, and a list raises all.
fn check_touched(before: &Spoken, after: &Spoken, touched: &BTreeSet<Scope>, is_list: bool) -> Checked {
    for (target, set) in &after.sets {
        let concerns = |scope: &Scope| match scope {
            Scope::App(kind, namespace, app) => target.concerns(*kind, namespace, app),
            Scope::Kind(kind) => *kind == target.kind,
            _ => false,
        };
        let data = |set: &Option<Set>| set.as_ref().map(|set| (set.data.clone(), set.rules.clone()));
        let has_rules = set.as_ref().is_some_and(|set| !set.rules.is_empty());
        let is_same = data(&before.sets[target]) == data(set);
        let is_same_version = is_list || !has_rules || before.sets[target] == *set;
        let is_touched = touched.iter().any(concerns);
        prop_assert!(
            is_touched || is_same && is_same_version,
            "{target:?} changed from {:?} to {set:?}",
            before.sets[target]
        );
    }
    for (slot, status) in &after.statuses {
        let is_touched = touched.contains(&Scope::Status(slot.0, slot.1.clone()));
        prop_assert!(
            status.is_none() || before.statuses[slot] == *status || is_touched,
            "{slot:?}: {status:?}"
        );
    }
    for (slot, share) in &after.shares {
        let is_touched = touched.contains(&Scope::Share(slot.0, slot.1.clone()));
        let before = &before.shares[slot];
        // Of a rule that comes, and of which nobody said anything, there is nothing to say yet.
        let is_new = before.is_none() && share.as_ref().is_none_or(|(_, replicas)| replicas.is_empty());
        prop_assert!(before == share || is_new || is_touched, "{slot:?}: from {before:?} to {share:?}");
    }
    Ok(())
}

/// A replica: its state, and what that was told.
#[derive(Default)]
struct Replica {
    state: State,
    spoken: Spoken,
    views: BTreeMap<Kind, View>,
    /// The last set that it had for each target.
    told: BTreeMap<Target, Set>,
    /// The same before it was restarted: versions must not begin anew, unless the cluster's do.
    earlier: BTreeMap<Target, Set>,
}

impl Replica {
    fn view(&mut self, kind: Kind) -> &mut View {
        self.views.entry(kind).or_default()
    }

    /// Whether it knows all that happened.
    fn is_up_to_date(&self, cluster: &Cluster) -> bool {
        KINDS.iter().all(|kind| self.views.get(kind).and_then(|view| view.next) == Some(cluster.log.len()))
    }

    fn hear(&mut self, cluster: &Cluster, kind: Kind, most: usize) -> Checked {
        let Some(next) = self.view(kind).next else {
            return if cluster.missing.contains(&kind) {
                self.miss(cluster, kind)
            } else {
                self.list(cluster, kind)
            };
        };
        let later = cluster.log.iter().enumerate().skip(next);
        let entries: Vec<usize> =
            later.filter(|(_, (_, slot, _))| slot.0 == kind).map(|(at, _)| at).collect();
        if entries.is_empty() && cluster.missing.contains(&kind) {
            return self.miss(cluster, kind);
        }
        let is_all = entries.len() <= most;
        for at in entries.into_iter().take(most) {
            self.take_news(cluster, kind, at)?;
        }
        if is_all {
            self.view(kind).next = Some(cluster.log.len());
        }
        Ok(())
    }

    fn take_news(&mut self, cluster: &Cluster, kind: Kind, at: usize) -> Checked {
        let (revision, (_, key), thing) = &cluster.log[at];
        let view = self.view(kind);
        let before = view.things.get(key).map(|(thing, _)| thing.clone());
        let mut apps: BTreeSet<_> = view.apps(key).into_iter().collect();
        view.take(key, thing.as_ref());
        apps.extend(view.apps(key));
        (view.next, view.revision) = (Some(at + 1), *revision);
        let is_status = before.zip(thing.as_ref()).is_some_and(|(before, thing)| before.says_the_same(thing));
        let sets = self.spoken.sets.clone();
        let touched = self.take(cluster, cluster.news(at))?;
        for scope in &touched {
            let fits = match scope {
                Scope::App(of, namespace, app) => {
                    *of == kind && &**namespace == key.namespace() && apps.contains(&**app) && !is_status
                }
                Scope::Share(of, rule) | Scope::Status(of, rule) => *of == kind && rule == key,
                Scope::Kind(_) | Scope::Tally(_) => false,
            };
            prop_assert!(fits, "{scope:?} has nothing to do with {key}");
        }
        if is_status {
            prop_assert_eq!(&sets, &self.spoken.sets, "a status changes no set and no version");
        }
        Ok(())
    }

    fn list(&mut self, cluster: &Cluster, kind: Kind) -> Checked {
        let things = cluster.things(kind);
        let view = self.view(kind);
        view.things.retain(|key, _| things.contains_key(key));
        things.iter().for_each(|(key, thing)| view.take(key, Some(thing)));
        view.standing = Standing::Listed;
        (view.next, view.revision) = (Some(cluster.log.len()), cluster.revision);
        self.take(cluster, cluster.list(kind)).map(drop)
    }

    fn miss(&mut self, cluster: &Cluster, kind: Kind) -> Checked {
        let view = self.view(kind);
        (view.standing, view.next) = (Standing::Missing, None);
        self.take(cluster, Event::Missing(kind)).map(drop)
    }

    fn unfollow(&mut self, cluster: &Cluster, kind: Kind) -> Checked {
        let view = self.view(kind);
        (view.standing, view.next) = (Standing::Unknown, None);
        self.take(cluster, Event::Unfollowed(kind)).map(drop)
    }

    fn hear_of_replicas(&mut self, cluster: &Cluster, change: Change<String, ()>) -> Checked {
        let touched = self.take(cluster, Event::Replicas(change))?;
        let is_said = |scope: &Scope| matches!(scope, Scope::Status(..) | Scope::Share(..));
        prop_assert!(touched.iter().all(is_said), "{touched:?}");
        Ok(())
    }

    /// Begins anew. What made no sense any more is forgotten, so a set without it may have the same version.
    fn restart(&mut self) {
        let before = std::mem::take(self);
        let has_old =
            |target: &Target| before.views.get(&target.kind).is_some_and(|view| view.has_old(target));
        let told = before.earlier.into_iter().chain(before.told);
        self.earlier = told.filter(|(target, _)| !has_old(target)).collect();
    }

    /// Tells the state, and compares what it says then with what it should say.
    fn take(&mut self, cluster: &Cluster, event: Event) -> Result<BTreeSet<Scope>, TestCaseError> {
        let touched = self.state.apply(event.clone());
        let after = Spoken::of(&self.state);
        let before = std::mem::replace(&mut self.spoken, after);
        let is_list = matches!(event, Event::Rules { change: Change::Reset(_), .. });
        check_touched(&before, &self.spoken, &touched, is_list)
            .and_then(|()| self.check_sets(cluster))
            .map_err(|error| TestCaseError::fail(format!("{error}\nafter {event:?}\ntouched {touched:?}")))?;
        Ok(touched)
    }

    fn check_sets(&mut self, cluster: &Cluster) -> Checked {
        for (target, set) in &self.spoken.sets {
            let view = self.views.entry(target.kind).or_default();
            prop_assert_eq!(self.state.standing(target.kind), view.standing);
            prop_assert_eq!(set.is_some(), view.standing == Standing::Listed, "{:?}", target);
            let Some(set) = set else { continue };
            let content = view.content(target);
            let rules: Vec<ObjectKey> = content.iter().map(|(key, _)| key.clone()).collect();
            prop_assert_eq!(&set.rules, &rules, "{:?}", target);
            prop_assert_eq!(&set.data, &encoded(target.kind, &content), "{:?}", target);
            let earlier = self.earlier.remove(target).filter(|_| !cluster.restored);
            if let Some(before) = self.told.insert(target.clone(), set.clone()).or(earlier) {
                let rises =
                    set.version > before.version || set.version == before.version && set.data == before.data;
                prop_assert!(rises, "{target:?}: from version {} to {}", before.version, set.version);
            }
            if !cluster.restored && !view.has_old(target) {
                let truth = cluster.truth(target, set.version);
                prop_assert_eq!(content, truth, "{:?}: not what was true at {}", target, set.version);
                let least = cluster.last_change(target, view.revision);
                prop_assert!(set.version >= least, "{target:?}: {} hides the change at {least}", set.version);
            }
        }
        Ok(())
    }
}

/// A data plane: what it holds of each set. Like the SDKs it drops what has a lower version.
#[derive(Default)]
struct DataPlane(BTreeMap<Target, Set>);

impl DataPlane {
    fn ask(&mut self, state: &State) {
        for target in targets() {
            let Some(set) = state.set(&target) else { continue };
            if self.0.get(&target).is_none_or(|held| held.version <= set.version) {
                self.0.insert(target, set);
            }
        }
    }
}

/// Everything.
#[derive(Default)]
struct World {
    cluster: Cluster,
    replicas: [Replica; HEARERS],
    data_plane: DataPlane,
}

impl World {
    fn after(happenings: Vec<Happening>) -> Result<Self, TestCaseError> {
        let mut world = Self::default();
        happenings.into_iter().try_for_each(|happening| world.go_on(happening))?;
        Ok(world)
    }

    fn go_on(&mut self, happening: Happening) -> Checked {
        let Self { cluster, replicas, data_plane } = self;
        match happening {
            Happening::Write(slot, write) => cluster.write(&slot, &write),
            Happening::Elsewhere => cluster.revision += 1,
            Happening::Uninstall(kind) => cluster.uninstall(kind),
            Happening::Install(kind) => drop(cluster.missing.remove(&kind)),
            Happening::Restore(writes) => {
                cluster.restore(writes);
                // No watch outlives that.
                replicas
                    .iter_mut()
                    .flat_map(|replica| replica.views.values_mut())
                    .for_each(|view| view.next = None);
            }
            Happening::Hear(at, kind, most) => replicas[at].hear(cluster, kind, most)?,
            Happening::Relist(at, kind) if !cluster.missing.contains(&kind) => {
                replicas[at].list(cluster, kind)?;
            }
            Happening::Relist(..) => {}
            Happening::Unfollow(at, kind) => replicas[at].unfollow(cluster, kind)?,
            Happening::Restart(at) => replicas[at].restart(),
            Happening::Lease(at, name, lives) => {
                let change = if lives { Change::Put(name.into(), ()) } else { Change::Gone(name.into()) };
                replicas[at].hear_of_replicas(cluster, change)?;
            }
            Happening::Leases(at, names) => {
                let all = names.into_iter().map(|name| (name.to_owned(), ())).collect();
                replicas[at].hear_of_replicas(cluster, Change::Reset(all))?;
            }
            Happening::Ask(at) => data_plane.ask(&replicas[at].state),
        }
        Ok(())
    }

    /// Installs what is missing and lets every replica hear of everything.
    fn settle(&mut self) -> Checked {
        self.cluster.missing.clear();
        for replica in &mut self.replicas {
            for kind in KINDS {
                replica.hear(&self.cluster, kind, usize::MAX)?;
            }
            prop_assert!(replica.is_up_to_date(&self.cluster));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn sets_are_complete_versions_rise_and_whoever_is_concerned_is_touched(happenings in vec(any_happening(false), 1..100)) {
        World::after(happenings)?.settle()?;
    }

    #[test]
    fn a_data_plane_that_moves_between_replicas_ends_on_what_is_true(happenings in vec(any_happening(true), 1..100)) {
        let mut world = World::after(happenings)?;
        world.settle()?;
        for replica in &world.replicas {
            world.data_plane.ask(&replica.state);
            for (target, held) in &world.data_plane.0 {
                let truth = world.cluster.truth(target, world.cluster.revision);
                prop_assert_eq!(&held.data, &encoded(target.kind, &truth), "{:?} at {}", target, held.version);
            }
        }
    }

    #[test]
    fn a_list_says_what_single_events_said(happenings in vec(any_happening(false), 1..60)) {
        let mut world = World::after(happenings)?;
        world.settle()?;
        let mut listed = Replica::default();
        for kind in KINDS {
            listed.list(&world.cluster, kind)?;
        }
        for replica in &world.replicas {
            for target in targets() {
                // Who saw it when it made sense keeps that; who comes later never knew.
                if !replica.views[&target.kind].has_old(&target) {
                    let data = |state: &State| state.set(&target).map(|set| (set.data, set.rules));
                    prop_assert_eq!(data(&replica.state), data(&listed.state), "{:?}", target);
                }
            }
        }
    }
}
