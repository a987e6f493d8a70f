//! A cluster with rules, replicas that hear of them sooner or later, and a data plane that moves between replicas.
//!
//! The cluster knows what was true at each of its revisions; of a replica it is known what it was told. Both are plain
//! maps, so that what a state says can be compared with what it should say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_core::ObjectKey;
use causeway_core::room::Change;
use causeway_core::rules::rule::LimitMode;
use causeway_core::rules::state::{ANY_APP, Event, Target};
use causeway_core::rules::{Kind, RuleObject, RuleStatus};
use proptest::prelude::*;
use proptest::sample::select;

use crate::protobuf::{any, message, number, text};
use crate::world::{acked, concurrency_limit, labels, rate_limit, rate_limit_bytes, refusal};

pub(crate) const KINDS: [Kind; 2] = [Kind::RateLimitStrategy, Kind::ConcurrencyLimitStrategy];
const NAMESPACES: [&str; 2] = ["ns1", "ns2"];
const REPLICAS: [&str; 2] = ["r1", "r2"];
/// How many replicas hear of the cluster.
pub(crate) const HEARERS: usize = 2;

/// A rule's object: its kind, and its key.
pub(crate) type Slot = (Kind, ObjectKey);
/// What a set has: rules by name, each with its number.
pub(crate) type Content = Vec<(ObjectKey, i64)>;

pub(crate) fn slots() -> Vec<Slot> {
    let key = |namespace, name| ObjectKey::new(namespace, name).expect("a key");
    let keys = NAMESPACES.into_iter().flat_map(|namespace| ["x", "y"].map(|name| key(namespace, name)));
    keys.flat_map(|key| KINDS.map(|kind| (kind, key.clone()))).collect()
}

/// All that a data plane might ask for.
pub(crate) fn targets() -> Vec<Target> {
    let mut targets = Vec::new();
    for (kind, namespace) in KINDS.into_iter().flat_map(|kind| NAMESPACES.map(|namespace| (kind, namespace)))
    {
        for app in ["a", "b", ANY_APP] {
            for labels in [labels(&[]), labels(&[("color", "red")])] {
                let (namespace, app, labels) = (namespace.into(), app.into(), Arc::new(labels));
                targets.push(Target { kind, namespace, app, labels });
            }
        }
    }
    targets
}

/// An object as it stands in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thing {
    uid: u32,
    revision: i64,
    pub(crate) app: Option<&'static str>,
    color: Option<&'static str>,
    /// The number that it says; without one it makes no sense.
    pub(crate) value: Option<i64>,
    pub(crate) shares: BTreeMap<&'static str, u32>,
}

impl Thing {
    /// Whether anything but its status differs.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let said = |thing: &Self| (thing.uid, thing.app, thing.color, thing.value);
        said(self) == said(other)
    }

    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    fn object(&self, (kind, key): &Slot) -> RuleObject {
        let pairs = [self.app.map(|app| ("app", app)), self.color.map(|color| ("color", color))];
        let rule = |value| match kind {
            Kind::RateLimitStrategy => rate_limit(value),
            _ => concurrency_limit(value, LimitMode::Local),
        };
        let replicas = self.shares.iter().map(|(name, share)| ((*name).to_owned(), acked(*share))).collect();
        RuleObject {
            key: key.clone(),
            uid: self.uid.to_string(),
            resource_version: self.revision.to_string(),
            generation: 1,
            labels: Arc::new(labels(&pairs.into_iter().flatten().collect::<Vec<_>>())),
            rule: self.value.map(rule).ok_or_else(refusal),
            status: RuleStatus { replicas, ..RuleStatus::default() },
        }
    }

    /// Whether a rule belongs to what is asked for, if it can be sent at all.
    pub(crate) fn fits(&self, (kind, key): &Slot, target: &Target) -> bool {
        let is_of_app = self.app.is_some_and(|app| &*target.app == app || &*target.app == ANY_APP);
        let has_labels = target.labels.is_empty() || self.color == Some("red");
        *kind == target.kind && key.namespace() == &*target.namespace && is_of_app && has_labels
    }
}

/// What a set of these has as bytes.
pub(crate) fn encoded(kind: Kind, content: &Content) -> Vec<u8> {
    let full_name = "io.opensergo.proto.fault_tolerance.v1.ConcurrencyLimitStrategy";
    let rule = |(key, value): &(ObjectKey, i64)| match kind {
        Kind::RateLimitStrategy => rate_limit_bytes(key.name(), *value),
        _ => any(1, full_name, &message([text(1, key.name()), number(2, 1), number(3, *value)])),
    };
    content.iter().flat_map(rule).collect()
}

/// What a write makes of a set.
fn carry_out(
    (_, slot, thing): &(i64, Slot, Option<Thing>),
    target: &Target,
    content: &mut BTreeMap<ObjectKey, i64>,
) {
    match thing.as_ref().filter(|thing| thing.fits(slot, target)).and_then(|thing| thing.value) {
        Some(value) => drop(content.insert(slot.1.clone(), value)),
        None => drop(content.remove(&slot.1)),
    }
}

/// The API server.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) revision: i64,
    pub(crate) log: Vec<(i64, Slot, Option<Thing>)>,
    things: BTreeMap<Slot, Thing>,
    pub(crate) missing: BTreeSet<Kind>,
    uids: u32,
    /// It was restored from a backup: a revision no longer says what was true.
    pub(crate) restored: bool,
}

impl Cluster {
    pub(crate) fn write(&mut self, slot: &Slot, write: &Write) {
        if self.missing.contains(&slot.0) {
            return;
        }
        let mut thing = self.things.get(slot).cloned();
        match (write, &mut thing) {
            (Write::Delete, Some(_)) => thing = None,
            (Write::Save(app, color, value), Some(thing)) => {
                (thing.app, thing.color, thing.value) = (*app, *color, *value);
            }
            (Write::Save(app, color, value), None) => {
                self.uids += 1;
                let (uid, app, color, value, shares) = (self.uids, *app, *color, *value, BTreeMap::new());
                thing = Some(Thing { uid, revision: 0, app, color, value, shares });
            }
            (Write::Edit(value), Some(thing)) => thing.value = *value,
            (Write::Move(app), Some(thing)) => thing.app = *app,
            (Write::Relabel(color), Some(thing)) => thing.color = *color,
            (Write::Status(replica, share), Some(thing)) => {
                thing.shares.remove(replica);
                thing.shares.extend(share.map(|share| (*replica, share)));
            }
            (_, None) => return,
        }
        self.revision += 1;
        if let Some(thing) = &mut thing {
            thing.revision = self.revision;
        }
        self.log.push((self.revision, slot.clone(), thing.clone()));
        self.things.remove(slot);
        self.things.extend(thing.map(|thing| (slot.clone(), thing)));
    }

    pub(crate) fn uninstall(&mut self, kind: Kind) {
        for slot in slots().iter().filter(|(of, _)| *of == kind) {
            self.write(slot, &Write::Delete);
        }
        self.missing.insert(kind);
    }

    /// Goes back to what was true before the last so many writes. Revisions count from there.
    pub(crate) fn restore(&mut self, writes: usize) {
        self.log.truncate(self.log.len().saturating_sub(writes));
        self.revision = self.log.last().map_or(0, |(revision, ..)| *revision);
        let last = self.log.iter().map(|(_, slot, thing)| (slot.clone(), thing.clone()));
        let last: BTreeMap<Slot, Option<Thing>> = last.collect();
        self.things = last.into_iter().filter_map(|(slot, thing)| Some((slot, thing?))).collect();
        self.restored = true;
    }

    /// The writes of a kind up to a revision.
    fn writes(&self, kind: Kind, revision: i64) -> impl Iterator<Item = &(i64, Slot, Option<Thing>)> {
        self.log.iter().filter(move |(written, slot, _)| *written <= revision && slot.0 == kind)
    }

    /// What a set had at a revision.
    pub(crate) fn truth(&self, target: &Target, revision: i64) -> Content {
        let mut content = BTreeMap::new();
        self.writes(target.kind, revision).for_each(|write| carry_out(write, target, &mut content));
        content.into_iter().collect()
    }

    /// The last revision, up to this one, at which a set became what it is.
    pub(crate) fn last_change(&self, target: &Target, revision: i64) -> i64 {
        let mut content = BTreeMap::new();
        let mut last = 0;
        for write in self.writes(target.kind, revision) {
            let before = content.clone();
            carry_out(write, target, &mut content);
            if content != before {
                last = write.0;
            }
        }
        last
    }

    pub(crate) fn things(&self, kind: Kind) -> BTreeMap<ObjectKey, Thing> {
        let things = self.things.iter().filter(|((of, _), _)| *of == kind);
        things.map(|((_, key), thing)| (key.clone(), thing.clone())).collect()
    }

    /// What a list of a kind brings.
    pub(crate) fn list(&self, kind: Kind) -> Event {
        let things = self.things(kind);
        let object = |(key, thing): (&ObjectKey, &Thing)| (key.clone(), thing.object(&(kind, key.clone())));
        Event::Rules {
            kind,
            change: Change::Reset(things.iter().map(object).collect()),
            version: self.revision,
        }
    }

    /// What a watch brings of an entry of the log.
    pub(crate) fn news(&self, entry: usize) -> Event {
        let (version, slot, thing) = &self.log[entry];
        let change = match thing {
            Some(thing) => Change::Put(slot.1.clone(), thing.object(slot)),
            None => Change::Gone(slot.1.clone()),
        };
        Event::Rules { kind: slot.0, change, version: *version }
    }
}

/// Something that is done to an object.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Save(Option<&'static str>, Option<&'static str>, Option<i64>),
    /// To a number, or to something that makes no sense.
    Edit(Option<i64>),
    Move(Option<&'static str>),
    Relabel(Option<&'static str>),
    Delete,
    Status(&'static str, Option<u32>),
}

/// Something that happens, maybe to one of the replicas.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    Write(Slot, Write),
    /// Something else is written.
    Elsewhere,
    Uninstall(Kind),
    Install(Kind),
    Restore(usize),
    /// A replica hears of the next so many writes, or of whatever keeps it from hearing.
    Hear(usize, Kind, usize),
    Relist(usize, Kind),
    Unfollow(usize, Kind),
    Restart(usize),
    Lease(usize, &'static str, bool),
    Leases(usize, Vec<&'static str>),
    /// The data plane asks this replica.
    Ask(usize),
}

fn any_app() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::weighted(0.85, select(vec!["a", "b"]))
}

fn any_color() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(select(vec!["red", "blue"]))
}

/// One in six makes no sense, unless all is calm.
fn any_value(is_calm: bool) -> impl Strategy<Value = Option<i64>> {
    (0..6_u8, 1..4_i64).prop_map(move |(luck, value)| (luck > 0 || is_calm).then_some(value))
}

fn any_write(is_calm: bool) -> impl Strategy<Value = Write> {
    let any_value = move || any_value(is_calm);
    prop_oneof![
        4 => (any_app(), any_color(), any_value()).prop_map(|(app, color, value)| Write::Save(app, color, value)),
        3 => any_value().prop_map(Write::Edit),
        3 => any_app().prop_map(Write::Move),
        2 => any_color().prop_map(Write::Relabel),
        3 => Just(Write::Delete),
        2 => (select(REPLICAS.to_vec()), prop::option::weighted(0.7, 1..3_u32))
            .prop_map(|(replica, share)| Write::Status(replica, share)),
    ]
}

/// Whatever may happen; when all is calm no backup is restored and every edit makes sense.
pub(crate) fn any_happening(is_calm: bool) -> impl Strategy<Value = Happening> {
    let restored = move |writes| if is_calm { Happening::Elsewhere } else { Happening::Restore(writes) };
    let any_kind = || select(KINDS.to_vec());
    let any_lease = || select(REPLICAS.to_vec());
    prop_oneof![
        20 => (select(slots()), any_write(is_calm)).prop_map(|(slot, write)| Happening::Write(slot, write)),
        2 => Just(Happening::Elsewhere),
        1 => any_kind().prop_map(Happening::Uninstall),
        2 => any_kind().prop_map(Happening::Install),
        1 => (1..8_usize).prop_map(restored),
        20 => (0..HEARERS, any_kind(), 1..5_usize).prop_map(|(hearer, kind, most)| Happening::Hear(hearer, kind, most)),
        3 => (0..HEARERS, any_kind()).prop_map(|(hearer, kind)| Happening::Relist(hearer, kind)),
        1 => (0..HEARERS, any_kind()).prop_map(|(hearer, kind)| Happening::Unfollow(hearer, kind)),
        1 => (0..HEARERS).prop_map(Happening::Restart),
        2 => (0..HEARERS, any_lease(), prop::bool::ANY).prop_map(|(hearer, name, lives)| Happening::Lease(hearer, name, lives)),
        1 => (0..HEARERS, prop::collection::vec(any_lease(), 0..3)).prop_map(|(hearer, names)| Happening::Leases(hearer, names)),
        4 => (0..HEARERS).prop_map(Happening::Ask),
    ]
}
