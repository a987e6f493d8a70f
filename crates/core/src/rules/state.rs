//! What is known of all rules, and the sets that they make.
//!
//! A set is whatever a data plane asks for: the rules of a kind in a namespace for one app, or for all of them (`*`),
//! maybe only those with certain labels. Data planes drop whatever has a lower version than what they hold. So a set's
//! version is the resourceVersion of the last event that changed it, or of the last list, whichever is later:
//!
//! - What a set has is what was true at its version, and still is, as far as this replica knows. So versions rise across
//!   restarts, and of two replicas the one with the newer set has the higher version.
//! - A list raises every version, also where nothing differs: a set may have changed and changed back while nobody
//!   watched, and data planes of other replicas may hold what it was in between. Who already has these bytes needs no push.
//! - A change always raises the version. A cluster that was restored from a backup counts from a lower number again; a
//!   replica that has seen higher ones adds what is missing.
//!
//! The exception is a rule that makes no sense any more. Whoever saw it when it did keeps that form, and the leader writes it
//! into the rule's status for those who come later; until they have read it there they do not send the rule. When it is
//! mended all say the same under a new version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use super::kept::Kept;
use super::kept::{Difference, is_news_to_data_planes, is_news_to_replicas};
use super::object::RuleObject;
use super::{Kind, status};
use crate::ObjectKey;
use crate::room::{self, Change};

/// Stands for every app of a namespace.
pub const ANY_APP: &str = "*";

/// What a data plane asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Rules of this kind.
    pub kind: Kind,
    /// In this namespace.
    pub namespace: Arc<str>,
    /// For this app, or for any.
    pub app: Arc<str>,
    /// With these labels.
    pub labels: Arc<BTreeMap<String, String>>,
}

impl Target {
    /// Whether a change of an app's rules may be one of what is asked for.
    pub fn concerns(&self, kind: Kind, namespace: &str, app: &str) -> bool {
        self.kind == kind && &*self.namespace == namespace && (&*self.app == app || &*self.app == ANY_APP)
    }
}

/// A complete set of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Its version.
    pub version: i64,
    /// The rules, encoded as the field `data` of `DataWithVersion`.
    pub data: Vec<u8>,
    /// Which they are, in order.
    pub rules: Vec<ObjectKey>,
}

/// What was seen.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "an event is one at a time, and on its way")]
pub enum Event {
    /// Rules of a kind changed or were listed.
    Rules {
        /// The kind.
        kind: Kind,
        /// Which of them.
        change: Change<ObjectKey, RuleObject>,
        /// The resourceVersion of that.
        version: i64,
    },
    /// A kind's definition is not installed.
    Missing(Kind),
    /// Nobody follows a kind any more: what is known of it may be old.
    Unfollowed(Kind),
    /// Replicas came or went.
    Replicas(Change<String, ()>),
}

/// What is handled as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The sets that an app's rules of a kind belong to.
    App(Kind, Arc<str>, Arc<str>),
    /// All sets of a kind: it is listed now, or no longer followed, or its definition is missing.
    Kind(Kind),
    /// What answers to a set add up to.
    Tally(Target),
    /// What this replica says of a rule.
    Share(Kind, ObjectKey),
    /// What the leader says of a rule.
    Status(Kind, ObjectKey),
}

/// How far a kind is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// It was not listed yet.
    #[default]
    Unknown,
    /// All of it is known.
    Listed,
    /// Its definition is not installed.
    Missing,
}

/// The rules of an app that are sent: there is at least one.
#[derive(Debug, Clone, Default)]
struct App {
    rules: BTreeSet<ObjectKey>,
    versions: Versions,
}

/// Since when a set is what it is.
#[derive(Debug, Clone, Copy, Default)]
struct Versions {
    /// What data planes are told: a list raises it.
    told: i64,
    /// That of the last change.
    changed: i64,
}

impl Versions {
    fn of_change(version: i64) -> Self {
        Self { told: version, changed: version }
    }
}

/// All that is known of a kind.
#[derive(Debug, Clone, Default)]
struct Known {
    standing: Standing,
    rules: BTreeMap<ObjectKey, Arc<Kept>>,
    /// By namespace and app.
    apps: BTreeMap<(Arc<str>, Arc<str>), App>,
    /// The version of all apps of a namespace together, while there is one.
    namespaces: BTreeMap<Arc<str>, Versions>,
    /// The version of whatever has no rule: that of the last change of any set, so that no set that became empty was
    /// ever higher, and nothing is kept of it.
    empty: i64,
    /// The highest version so far.
    newest: i64,
    /// What is added to a resourceVersion.
    lift: i64,
}

impl Known {
    /// Takes in that a rule's part in sets is another one, and returns the apps that it concerns.
    fn take(&mut self, (key, old, new): &Difference, version: i64) -> Vec<Arc<str>> {
        let app = |kept: &Option<Arc<Kept>>| Some(kept.as_ref()?.part()?.app.clone());
        let (old, new) = (app(old), app(new));
        let namespace: Arc<str> = key.namespace().into();
        if let Some(old) = old.as_ref().filter(|old| Some(*old) != new.as_ref()) {
            self.leave(&namespace, old, key, version);
        }
        if let Some(new) = &new {
            let app = self.apps.entry((namespace.clone(), new.clone())).or_default();
            app.versions = Versions::of_change(version);
            app.rules.insert(key.clone());
        }
        if self.apps_of(&namespace).next().is_some() {
            self.namespaces.insert(namespace, Versions::of_change(version));
        } else {
            self.namespaces.remove(&namespace);
        }
        self.empty = version;
        let apps: BTreeSet<Arc<str>> = [old, new].into_iter().flatten().collect();
        apps.into_iter().collect()
    }

    fn leave(&mut self, namespace: &Arc<str>, name: &Arc<str>, key: &ObjectKey, version: i64) {
        let place = (namespace.clone(), name.clone());
        let Some(app) = self.apps.get_mut(&place) else { return };
        app.versions = Versions::of_change(version);
        app.rules.remove(key);
        if app.rules.is_empty() {
            self.apps.remove(&place);
        }
    }

    fn apps_of(&self, namespace: &Arc<str>) -> impl Iterator<Item = &App> {
        let first = (namespace.clone(), Arc::from(""));
        self.apps.range(first..).take_while(move |((other, _), _)| other == namespace).map(|(_, app)| app)
    }

    /// A resourceVersion as data planes are told: never lower than before, and with news higher. A list's may be lower,
    /// then the versions after it would be as well.
    fn version(&mut self, seen: i64, is_list: bool, is_news: bool) -> i64 {
        let least = self.newest.saturating_add(i64::from(is_news));
        if is_list && seen.saturating_add(self.lift) < least {
            self.lift = least.saturating_sub(seen);
        }
        self.newest = seen.saturating_add(self.lift).max(least);
        self.newest
    }

    /// All of this is true at a version.
    fn raise(&mut self, version: i64) {
        self.apps.values_mut().for_each(|app| app.versions.told = version);
        self.namespaces.values_mut().for_each(|versions| versions.told = version);
        self.empty = version;
    }
}

/// All that is known.
#[derive(Debug, Clone, Default)]
pub struct State {
    kinds: BTreeMap<Kind, Known>,
    replicas: BTreeMap<String, ()>,
}

impl State {
    /// How far a kind is known.
    pub fn standing(&self, kind: Kind) -> Standing {
        self.kinds.get(&kind).map_or(Standing::Unknown, |known| known.standing)
    }

    /// A rule.
    pub fn rule(&self, kind: Kind, key: &ObjectKey) -> Option<&Kept> {
        self.kinds.get(&kind)?.rules.get(key).map(|kept| &**kept)
    }

    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = (Kind, &ObjectKey, &Kept)> {
        self.kinds
            .iter()
            .flat_map(|(kind, known)| known.rules.iter().map(|(key, kept)| (*kind, key, &**kept)))
    }

    /// Whether a replica is alive.
    pub fn is_alive(&self, replica: &str) -> bool {
        self.replicas.contains_key(replica)
    }

    /// The version of a set that somebody asks for; none while its kind was not listed.
    pub fn version(&self, target: &Target) -> Option<i64> {
        self.versions(target).map(|versions| versions.told)
    }

    /// Whether a set of a version is what it is by now, but for its version.
    pub fn is_current(&self, target: &Target, version: i64) -> bool {
        self.versions(target).is_some_and(|versions| versions.changed <= version)
    }

    fn versions(&self, target: &Target) -> Option<Versions> {
        let known = self.kinds.get(&target.kind).filter(|known| known.standing == Standing::Listed)?;
        let versions = if &*target.app == ANY_APP {
            known.namespaces.get(&target.namespace).copied()
        } else {
            known.apps.get(&(target.namespace.clone(), target.app.clone())).map(|app| app.versions)
        };
        Some(versions.unwrap_or(Versions::of_change(known.empty)))
    }

    /// The set that somebody asks for; none while its kind was not listed.
    pub fn set(&self, target: &Target) -> Option<Set> {
        let version = self.version(target)?;
        let known = self.kinds.get(&target.kind)?;
        let keys: Vec<&ObjectKey> = if &*target.app == ANY_APP {
            let keys: BTreeSet<&ObjectKey> =
                known.apps_of(&target.namespace).flat_map(|app| &app.rules).collect();
            keys.into_iter().collect()
        } else {
            let app = known.apps.get(&(target.namespace.clone(), target.app.clone()));
            app.into_iter().flat_map(|app| &app.rules).collect()
        };
        let mut set = Set { version, data: Vec::new(), rules: Vec::new() };
        for key in keys {
            let Some(kept) = known.rules.get(key) else { continue };
            let fits = target.labels.iter().all(|(name, value)| kept.labels.get(name) == Some(value));
            if let Some(message) = kept.message.as_ref().filter(|_| fits) {
                set.data.extend_from_slice(message);
                set.rules.push(key.clone());
            }
        }
        Some(set)
    }

    fn take_rules(
        &mut self,
        kind: Kind,
        change: Change<ObjectKey, RuleObject>,
        version: i64,
    ) -> BTreeSet<Scope> {
        let known = self.kinds.entry(kind).or_default();
        let is_list = matches!(change, Change::Reset(_));
        let keep = |object: RuleObject| {
            let before = known.rules.get(&object.key).map(|before| &**before);
            Arc::new(Kept::new(kind, object, before))
        };
        let change = match change {
            Change::Put(key, object) => Change::Put(key, keep(object)),
            Change::Gone(key) => Change::Gone(key),
            Change::Reset(objects) => {
                Change::Reset(objects.into_iter().map(|(key, object)| (key, keep(object))).collect())
            }
        };
        let differences = change.carry_out(&mut known.rules);
        let version = known.version(version, is_list, differences.iter().any(is_news_to_data_planes));
        let mut touched = BTreeSet::new();
        if is_list {
            known.raise(version);
            if std::mem::replace(&mut known.standing, Standing::Listed) != Standing::Listed {
                touched.insert(Scope::Kind(kind));
                // Nothing was said of them meanwhile.
                touched.extend(known.rules.keys().map(|key| Scope::Status(kind, key.clone())));
            }
        }
        for difference in differences {
            if is_news_to_data_planes(&difference) {
                let namespace: Arc<str> = difference.0.namespace().into();
                let apps = known.take(&difference, version);
                touched.extend(apps.into_iter().map(|app| Scope::App(kind, namespace.clone(), app)));
            }
            if is_news_to_replicas(&difference) {
                touched.insert(Scope::Share(kind, difference.0.clone()));
            }
            touched.insert(Scope::Status(kind, difference.0));
        }
        touched
    }

    fn take_replicas(&mut self, change: Change<String, ()>) -> BTreeSet<Scope> {
        let differences = change.carry_out(&mut self.replicas);
        // Renewed Leases are no news, and come all the time.
        if differences.is_empty() {
            return BTreeSet::new();
        }
        let names: BTreeSet<&String> = differences.iter().map(|(name, ..)| name).collect();
        let told = |kept: &Kept| names.iter().any(|name| kept.status.replicas.contains_key(*name));
        let concerned = self.rules().filter(|(_, _, kept)| told(kept));
        let mut touched: BTreeSet<Scope> =
            concerned.map(|(kind, key, _)| Scope::Status(kind, key.clone())).collect();
        // One that counts again has to say again what was taken away.
        if differences.iter().any(|(_, before, _)| before.is_none()) {
            touched.extend(self.rules().map(|(kind, key, _)| Scope::Share(kind, key.clone())));
        }
        touched
    }

    /// What the leader should say of a rule.
    pub fn status(&self, kind: Kind, key: &ObjectKey) -> Option<status::Said> {
        self.rule(kind, key).map(|kept| status::said(kept, |replica| self.is_alive(replica)))
    }
}

impl room::State for State {
    type Event = Event;
    type Scope = Scope;

    fn apply(&mut self, event: Event) -> BTreeSet<Scope> {
        match event {
            Event::Rules { kind, change, version } => self.take_rules(kind, change, version),
            // What is known stays: a definition that is gone for a moment must not take every rule with it.
            Event::Missing(kind) => self.stand(kind, Standing::Missing),
            Event::Unfollowed(kind) => self.stand(kind, Standing::Unknown),
            Event::Replicas(change) => self.take_replicas(change),
        }
    }

    fn everything(&self) -> BTreeSet<Scope> {
        let rules = self.rules().flat_map(|(kind, key, kept)| {
            let app = kept.app.clone().map(|app| Scope::App(kind, key.namespace().into(), app));
            [Some(Scope::Share(kind, key.clone())), Some(Scope::Status(kind, key.clone())), app]
        });
        rules.flatten().chain(Kind::ALL.map(Scope::Kind)).collect()
    }
}

impl State {
    fn stand(&mut self, kind: Kind, standing: Standing) -> BTreeSet<Scope> {
        let known = self.kinds.entry(kind).or_default();
        if std::mem::replace(&mut known.standing, standing) == standing {
            BTreeSet::new()
        } else {
            [Scope::Kind(kind)].into()
        }
    }
}
