//! All that is known to the room, and what each event touches.

use std::collections::{BTreeMap, BTreeSet};

use super::cloud::{Cloud, Clue, Held, Seen};
use super::mark::{Home, Owner};
use super::object::Network;
use super::overlap::Ranges;
use super::plan::{self, Goal, Stuck, Todo, Want};
use super::status;
use super::trouble::{Next, Trouble};
use crate::names::ObjectKey;
use crate::room::{self, Change};

/// What was seen.
#[derive(Debug)]
pub enum Event {
    /// Which cluster this is.
    Home(Home),
    /// Objects.
    Networks(Change<ObjectKey, Network>),
    /// All that is ours in the cloud, from a list that began at a revision.
    Listed(u64, Vec<Held>),
    /// All that may be one object's, from a look at just that.
    Found(ObjectKey, Vec<Held>),
    /// What a step gave.
    Seen(Seen),
    /// How far the work on an object got.
    Worked(ObjectKey, Report),
    /// Nothing of an object is left in the cloud, seen after its deletion was asked for.
    LetGo(String),
    /// The cloud has not answered for some time; or it does again.
    Blind(Option<Trouble>),
    /// We do not lead any more: others may change the cloud.
    TermEnded,
}

/// What a worker is sent to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All that is ours in the cloud, by one list.
    Look,
    /// An object's network in the cloud.
    Network(ObjectKey),
    /// A network of the cloud, by its id, whose object is gone.
    Orphan(String),
    /// What an object says of itself.
    Status(ObjectKey),
}

/// How far the work on an object got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Of which object.
    pub uid: String,
    /// On which generation of it.
    pub generation: i64,
    /// What is in the way, if anything.
    pub trouble: Option<InTheWay>,
    /// Whether the cloud refused to make the network: nothing of the object is there.
    pub is_unmade: bool,
    /// When something was done so that the cloud equals the spec, in seconds since 1970.
    pub synced: Option<i64>,
}

/// What is in the way of an object's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InTheWay {
    /// The cloud, with this network.
    Trouble(Trouble),
    /// The cloud as a whole, which cannot be listed; the next list that succeeds asks for every network again.
    Outage(Trouble),
    /// A decision that somebody has to make.
    Stuck(Stuck),
}

/// All that is known to the room.
#[derive(Debug, Default)]
pub struct State {
    /// The kind of cloud that networks are made in.
    provider: &'static str,
    home: Option<Home>,
    networks: BTreeMap<ObjectKey, Network>,
    /// Whether all objects were ever listed: of a kind that is not served nothing is known, which is not that there are none.
    is_listed: bool,
    by_uid: BTreeMap<String, ObjectKey>,
    ranges: Ranges,
    /// Nothing until it was listed.
    cloud: Option<Cloud>,
    /// How often it was listed.
    lists: u64,
    /// Networks of the cloud by the uid of their object.
    owned: BTreeMap<String, BTreeSet<String>>,
    /// Those with their first mark only, by their name.
    unfinished: BTreeMap<String, BTreeSet<String>>,
    reports: BTreeMap<ObjectKey, Report>,
    /// The generation of each object, by its uid, that the cloud was once equal to.
    reached: BTreeMap<String, i64>,
    /// Uids of objects of which nothing is left.
    let_go: BTreeSet<String>,
    /// Networks whose object was not there at the last look.
    suspects: BTreeSet<String>,
    /// Those whose object was not there at two looks in a row.
    orphans: BTreeSet<String>,
    blind: Option<Trouble>,
}

impl room::State for State {
    type Event = Event;
    type Scope = Scope;

    fn apply(&mut self, event: Event) -> BTreeSet<Scope> {
        match event {
            Event::Home(home) => {
                self.home = Some(home);
                self.index_all();
                self.everything()
            }
            Event::Networks(change) => self.take_networks(change),
            Event::Listed(since, held) => self.take_list(since, held),
            Event::Found(key, held) => self.take_found(&key, held),
            Event::Seen(seen) => {
                let id = seen.network().to_owned();
                let keys = self.with_index(&[id], |cloud| cloud.take_in(seen));
                keys.into_iter().map(Scope::Status).collect()
            }
            Event::Worked(key, report) => {
                if report.trouble.is_none() {
                    self.reached.insert(report.uid.clone(), report.generation);
                }
                self.reports.insert(key.clone(), report);
                [Scope::Status(key)].into()
            }
            Event::LetGo(uid) => {
                let key = self.by_uid.get(&uid).cloned();
                self.let_go.insert(uid);
                key.into_iter().map(Scope::Status).collect()
            }
            Event::Blind(trouble) => {
                if self.blind.as_ref().map(Trouble::reason) == trouble.as_ref().map(Trouble::reason) {
                    return BTreeSet::new();
                }
                self.blind = trouble;
                self.networks.keys().cloned().map(Scope::Status).collect()
            }
            Event::TermEnded => {
                let home = self.home.take();
                let (networks, by_uid) =
                    (std::mem::take(&mut self.networks), std::mem::take(&mut self.by_uid));
                let (ranges, reached) = (std::mem::take(&mut self.ranges), std::mem::take(&mut self.reached));
                let is_listed = self.is_listed;
                *self =
                    Self { home, networks, is_listed, by_uid, ranges, reached, ..Self::new(self.provider) };
                BTreeSet::new()
            }
        }
    }

    fn everything(&self) -> BTreeSet<Scope> {
        let of_each = |key: &ObjectKey| [Scope::Network(key.clone()), Scope::Status(key.clone())];
        let orphans = self.orphans.iter().cloned().map(Scope::Orphan);
        self.networks.keys().flat_map(of_each).chain(orphans).chain([Scope::Look]).collect()
    }
}

impl State {
    /// Without knowledge; networks are made in this kind of cloud.
    pub fn new(provider: &'static str) -> Self {
        Self { provider, ..Self::default() }
    }

    /// The kind of cloud that networks are made in.
    pub fn provider(&self) -> &'static str {
        self.provider
    }

    /// The cluster, once it is known.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// An object.
    pub fn network(&self, key: &ObjectKey) -> Option<&Network> {
        self.networks.get(key)
    }

    /// All objects.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.networks.values()
    }

    /// What is known of the cloud, once it was listed.
    pub fn cloud(&self) -> Option<&Cloud> {
        self.cloud.as_ref()
    }

    /// What a list that begins now is newer than.
    pub fn revision(&self) -> u64 {
        self.cloud.as_ref().map_or(0, Cloud::revision)
    }

    /// What a look for one object is good for: until the next list of everything, which may know less of it.
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// How many networks of the cloud have lost their object.
    pub fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// Networks of the cloud that another cluster made which goes by our id.
    pub fn namesakes(&self) -> usize {
        let (Some(home), Some(cloud)) = (&self.home, &self.cloud) else { return 0 };
        cloud.iter().filter(|held| held.owner(home) == Owner::Namesake).count()
    }

    /// How far the work on the present generation of an object got, if there was any.
    pub fn report(&self, network: &Network) -> Option<&Report> {
        let report = self.reports.get(&network.key);
        report.filter(|report| report.uid == network.uid && report.generation == network.generation)
    }

    /// Whether the cloud was once equal to this generation of an object: what differs now is somebody's doing.
    pub fn was_reached(&self, network: &Network) -> bool {
        self.reached.get(&network.uid) == Some(&network.generation)
    }

    /// Why nothing can be said of the cloud.
    pub fn blind(&self) -> Option<&Trouble> {
        self.blind.as_ref()
    }

    /// Whether nothing of an object is left.
    pub fn is_let_go(&self, network: &Network) -> bool {
        self.let_go.contains(&network.uid)
    }

    /// Whether anything in the cloud is an object's.
    pub fn owns_any(&self, network: &Network) -> bool {
        self.owned.contains_key(&network.uid)
    }

    /// The older network of its namespace with which one shares addresses; of those the oldest.
    pub fn overlapped(&self, network: &Network) -> Option<&Network> {
        let spec = network.spec.as_ref().ok()?;
        let age = |it: &Network| (it.created, it.key.clone());
        let others = self.ranges.others(&network.key, spec.cidr).into_iter();
        let older = others.filter_map(|key| self.networks.get(key)).filter(|it| age(it) < age(network));
        older.min_by_key(|it| age(it))
    }

    /// What an object wants of the cloud.
    pub fn want(&self, network: &Network) -> Want {
        let goal = match &network.spec {
            // First the finalizer: else nobody would know what to clean.
            _ if !network.is_held() => Goal::Frozen,
            _ if let Some((provider, id)) = self.elsewhere(network) => {
                Goal::Elsewhere { provider: provider.to_owned(), id: id.to_owned() }
            }
            _ if network.deleting && network.abandon => {
                Goal::Released { known: network.status.network_id.clone() }
            }
            _ if network.deleting => Goal::Absent,
            Ok(_) if self.overlapped(network).is_some() => Goal::Frozen,
            Ok(spec) => Goal::Present {
                spec: *spec,
                may_replace: network.may_replace,
                adopt: network.adopt.clone(),
                known: network.status.network_id.clone(),
            },
            Err(_) => Goal::Frozen,
        };
        let (uid, name) = (network.uid.clone(), network.key.to_string());
        Want { uid, name, subnet: network.status.subnet_id.clone(), goal }
    }

    /// The kind of cloud that an object says it is in, and what it is called there, where that is not ours.
    fn elsewhere<'a>(&self, network: &'a Network) -> Option<(&'a str, &'a str)> {
        let provider = network.status.provider.as_deref().filter(|provider| *provider != self.provider)?;
        Some((provider, network.status.network_id.as_deref()?))
    }

    /// All in the cloud that is or may be an object's.
    pub fn have(&self, network: &Network) -> Vec<&Held> {
        let Some(cloud) = &self.cloud else { return Vec::new() };
        let owned = self.owned.get(&network.uid).into_iter().flatten();
        let unfinished = self.unfinished.get(&network.key.to_string()).into_iter().flatten();
        let said = network.adopt.iter().chain(&network.status.network_id);
        let ids: BTreeSet<&String> = owned.chain(unfinished).chain(said).collect();
        ids.into_iter().filter_map(|id| cloud.get(id)).collect()
    }

    /// What comes next for an object, which was looked for after so many [lists](Self::lists), or not yet; nothing is known
    /// before the cloud was listed. Where it is not known what became of the last step, that is seen first.
    pub fn todo(&self, network: &Network, looked: Option<u64>) -> Option<Todo> {
        let home = self.home.as_ref().filter(|_| self.cloud.is_some())?;
        let looked = looked == Some(self.lists);
        let is_unsure = !looked && self.report(network).is_some_and(Report::is_unsure);
        Some(match plan::plan(home, &self.want(network), &self.have(network), looked) {
            Todo::Step(_) if is_unsure => Todo::Look,
            todo => todo,
        })
    }

    /// Whether the cloud holds nothing of an object, and does not let us make it.
    pub fn is_gone(&self, network: &Network) -> bool {
        self.report(network).is_some_and(|report| report.is_unmade)
    }

    /// The network of the cloud that is an object's by its marks; of several the one that the object names.
    pub fn its(&self, network: &Network) -> Option<&Held> {
        let (home, want) = (self.home.as_ref()?, self.want(network));
        if self.elsewhere(network).is_some() {
            return None;
        }
        let its = self.have(network).into_iter().filter(|held| plan::is_its(home, &want, held));
        its.max_by_key(|held| Some(&held.id) == network.status.network_id.as_ref())
    }

    /// What comes next for a network of the cloud whose object is gone.
    pub fn todo_of_orphan(&self, id: &str) -> Option<Todo> {
        let (home, cloud) = self.home.as_ref().zip(self.cloud.as_ref())?;
        let held = cloud.get(id).filter(|_| self.orphans.contains(id))?;
        self.is_lost(home, held).then(|| plan::delete(home, None, held))
    }

    /// The one among objects that a network of the cloud belongs to.
    pub fn owner_among<'a>(&self, id: &str, objects: &'a [Network]) -> Option<&'a ObjectKey> {
        let (home, cloud) = self.home.as_ref().zip(self.cloud.as_ref())?;
        let held = cloud.get(id)?;
        let is_its = |object: &&Network| {
            let by_marks = match held.owner(home) {
                Owner::Object(its) => *its == *object.uid,
                Owner::Unfinished => held.name.as_ref() == Some(&object.key.to_string()),
                Owner::Namesake | Owner::Others => false,
            };
            by_marks || object.names(id)
        };
        objects.iter().find(is_its).map(|object| &object.key)
    }

    /// What an object's network is found by.
    pub fn clue(&self, network: &Network) -> Clue {
        let ids = self.have(network).into_iter().map(|held| held.id.clone());
        let said = network.adopt.iter().chain(&network.status.network_id).cloned();
        Clue { uid: network.uid.clone(), name: network.key.to_string(), ids: ids.chain(said).collect() }
    }

    /// Whether something is ours and nobody's, and no object says that it has it, whatever its marks are.
    fn is_lost(&self, home: &Home, held: &Held) -> bool {
        let is_known = match held.owner(home) {
            Owner::Object(uid) => self.by_uid.contains_key(uid),
            Owner::Unfinished => {
                let key = held.name.as_ref().and_then(|name| name.parse::<ObjectKey>().ok());
                key.is_some_and(|key| self.networks.contains_key(&key))
            }
            Owner::Namesake | Owner::Others => true,
        };
        let is_named = || self.networks.values().any(|network| network.names(&held.id));
        !is_known && home.is_proven(&held.tags, &held.description) && !is_named()
    }

    fn take_networks(&mut self, change: Change<ObjectKey, Network>) -> BTreeSet<Scope> {
        let change = match change {
            // Late news of an earlier version than the one that a write's answer brought.
            Change::Put(key, network)
                if self.networks.get(&key).is_some_and(|known| known.is_newer_than(&network)) =>
            {
                return BTreeSet::new();
            }
            change => change,
        };
        self.is_listed |= matches!(change, Change::Reset(_));
        let differences = change.carry_out(&mut self.networks);
        let mut touched = BTreeSet::new();
        // All indexes first: what is touched is looked up in them.
        for (key, old, new) in &differences {
            for (network, is_new) in [(old, false), (new, true)] {
                let Some(network) = network else { continue };
                let range = network.spec.as_ref().ok().map(|spec| spec.cidr);
                if is_new {
                    self.by_uid.insert(network.uid.clone(), key.clone());
                    if status::says_synced(network) {
                        self.reached.insert(network.uid.clone(), network.generation);
                    }
                    range.into_iter().for_each(|range| self.ranges.put(key, range));
                } else {
                    self.by_uid.remove(&network.uid);
                    range.into_iter().for_each(|range| self.ranges.take(key, range));
                }
            }
            if new.as_ref().map(|new| &new.uid) != old.as_ref().map(|old| &old.uid) {
                self.reports.remove(key);
                if let Some(old) = old {
                    self.let_go.remove(&old.uid);
                    self.reached.remove(&old.uid);
                }
            }
        }
        for (key, old, new) in &differences {
            touched.insert(Scope::Status(key.clone()));
            let differs = old.as_ref().zip(new.as_ref()).is_none_or(|(old, new)| new.differs_from(old));
            if !differs {
                continue;
            }
            touched.insert(Scope::Network(key.clone()));
            let ranges = [old, new].into_iter().flatten().filter_map(|it| it.spec.as_ref().ok());
            for others in ranges.map(|spec| self.ranges.others(key, spec.cidr)) {
                let both = |key: &&ObjectKey| [Scope::Network((*key).clone()), Scope::Status((*key).clone())];
                touched.extend(others.iter().flat_map(both));
            }
        }
        touched
    }

    fn take_list(&mut self, since: u64, held: Vec<Held>) -> BTreeSet<Scope> {
        let is_first = self.cloud.is_none();
        // It is over, whatever it was, and must not be told of whatever happens next.
        self.reports.retain(|_, report| !matches!(report.trouble, Some(InTheWay::Outage(_))));
        self.lists += 1;
        let changed = self.cloud.get_or_insert_default().list(since, held);
        self.index_all();
        let now = changed.keys().filter_map(|id| self.cloud.as_ref()?.get(id));
        let news = changed.values().flatten().chain(now).filter_map(|held| self.key_of(held));
        let mut touched: BTreeSet<Scope> = news.map(Scope::Status).collect();
        for network in self.networks.values() {
            let changed = touched.contains(&Scope::Status(network.key.clone()));
            let is_at_rest = self.todo(network, None) == Some(Todo::Nothing);
            // What somebody has to do something about is tried again now and then, not at each look.
            let waits = !changed && self.report(network).is_some_and(Report::waits);
            if !is_at_rest && !waits {
                touched.insert(Scope::Network(network.key.clone()));
            }
            if is_first {
                touched.insert(Scope::Status(network.key.clone()));
            }
        }
        self.judge_orphans(&mut touched);
        touched
    }

    /// What has lost its object is deleted when it had none at two looks in a row: a list of objects that was wrong once
    /// must not cost anybody his network.
    fn judge_orphans(&mut self, touched: &mut BTreeSet<Scope>) {
        let (Some(home), Some(cloud)) = (self.home.as_ref().filter(|_| self.is_listed), &self.cloud) else {
            return;
        };
        let lost = cloud.iter().filter(|held| self.is_lost(home, held)).map(|held| held.id.clone());
        let lost: BTreeSet<String> = lost.collect();
        self.orphans = lost.intersection(&self.suspects).cloned().collect();
        self.suspects = lost;
        touched.extend(self.orphans.iter().cloned().map(Scope::Orphan));
    }

    fn take_found(&mut self, key: &ObjectKey, held: Vec<Held>) -> BTreeSet<Scope> {
        let Some(network) = self.networks.get(key) else { return BTreeSet::new() };
        let before: BTreeSet<String> = self.have(network).into_iter().map(|held| held.id.clone()).collect();
        let ids: Vec<String> =
            before.iter().cloned().chain(held.iter().map(|held| held.id.clone())).collect();
        let keys = self.with_index(&ids, |cloud| cloud.find(&before, held));
        keys.into_iter().chain([key.clone()]).map(Scope::Status).collect()
    }

    /// The object that a network of the cloud belongs to.
    fn key_of(&self, held: &Held) -> Option<ObjectKey> {
        let key = match held.owner(self.home.as_ref()?) {
            Owner::Object(uid) => self.by_uid.get(uid).cloned(),
            Owner::Unfinished => held.name.as_ref().and_then(|name| name.parse().ok()),
            Owner::Namesake | Owner::Others => None,
        };
        key.filter(|key| self.networks.contains_key(key))
    }

    /// Changes what is known of some networks of the cloud; returns the objects that they belonged or belong to.
    fn with_index(&mut self, ids: &[String], change: impl FnOnce(&mut Cloud)) -> BTreeSet<ObjectKey> {
        let Some(mut cloud) = self.cloud.take() else { return BTreeSet::new() };
        let held =
            |cloud: &Cloud| -> Vec<Held> { ids.iter().filter_map(|id| cloud.get(id)).cloned().collect() };
        let before = held(&cloud);
        before.iter().for_each(|held| self.index(held, false));
        change(&mut cloud);
        let after = held(&cloud);
        after.iter().for_each(|held| self.index(held, true));
        self.cloud = Some(cloud);
        before.iter().chain(&after).filter_map(|held| self.key_of(held)).collect()
    }

    fn index_all(&mut self) {
        self.owned.clear();
        self.unfinished.clear();
        let Some(cloud) = self.cloud.take() else { return };
        cloud.iter().for_each(|held| self.index(held, true));
        self.cloud = Some(cloud);
    }

    /// Puts a network of the cloud where its object finds it, or takes it from there.
    fn index(&mut self, held: &Held, put: bool) {
        let Some(home) = &self.home else { return };
        let (index, name) = match held.owner(home) {
            Owner::Object(uid) => (&mut self.owned, uid.to_owned()),
            Owner::Unfinished => (&mut self.unfinished, held.name.clone().unwrap_or_default()),
            Owner::Namesake | Owner::Others => return,
        };
        let ids = index.entry(name.clone()).or_default();
        if put {
            ids.insert(held.id.clone());
        } else {
            ids.remove(&held.id);
        }
        if ids.is_empty() {
            index.remove(&name);
        }
    }
}

impl Report {
    /// Whether it is not known what became of the last step.
    fn is_unsure(&self) -> bool {
        match &self.trouble {
            Some(InTheWay::Trouble(trouble)) => trouble.next() != Next::Seldom,
            Some(InTheWay::Outage(_)) => true,
            Some(InTheWay::Stuck(_)) | None => false,
        }
    }

    /// Whether only somebody else can help.
    fn waits(&self) -> bool {
        match &self.trouble {
            Some(InTheWay::Trouble(trouble)) => trouble.next() == Next::Seldom,
            Some(InTheWay::Outage(_) | InTheWay::Stuck(_)) | None => false,
        }
    }
}
