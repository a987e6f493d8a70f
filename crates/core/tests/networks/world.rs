//! Objects, a cloud and a state, and whoever works between them.

use std::collections::BTreeMap;

use causeway_core::networks::object::FINALIZER;
use causeway_core::networks::plan::Goal;
use causeway_core::networks::state::{InTheWay, Report};
use causeway_core::networks::status::{self, Finalizer};
use causeway_core::networks::trouble::Next;
use causeway_core::networks::{
    Event, Home, Look, Network, NetworkSpec, NetworkStatus, Scope, State, Step, Todo, Trouble,
};
use causeway_core::room::{Change, State as _};
use causeway_core::{ObjectKey, Truth};

use crate::sky::Sky;

pub(crate) fn home() -> Home {
    Home::new(Some("cluster1"), "home-1")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name).expect("a key")
}

pub(crate) fn network(name: &str, cidr: &str, gateway: Option<&str>) -> Network {
    Network {
        key: key(name),
        uid: format!("uid-{name}"),
        resource_version: "1".into(),
        generation: 1,
        created: 100,
        deleting: false,
        finalizers: Vec::new(),
        abandon: false,
        adopt: None,
        may_replace: false,
        spec: NetworkSpec::parse(cidr, gateway).map_err(|error| error.to_string()),
        status: NetworkStatus::default(),
    }
}

/// How a run of steps is cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is not.
    Fine,
    /// The process ends before the n-th change.
    CrashBefore(usize),
    /// The process ends right after it.
    CrashAfter(usize),
    /// The n-th change is made, and nobody hears of it.
    Lost(usize),
}

pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) sky: Sky,
    pub(crate) objects: BTreeMap<ObjectKey, Network>,
    pub(crate) provider: &'static str,
    version: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let (state, sky, objects) = (State::default(), Sky::default(), BTreeMap::new());
        let mut world = Self { state, sky, objects, provider: "memory", version: 1 };
        world.restart();
        world
    }

    /// Whoever starts knows the cluster and its objects; the cloud it has to look at.
    pub(crate) fn restart(&mut self) {
        self.state = State::new(self.provider);
        self.state.apply(Event::Home(home()));
        self.state.apply(Event::Networks(Change::Reset(self.objects.clone())));
    }

    fn put(&mut self, mut network: Network) {
        self.version += 1;
        network.resource_version = self.version.to_string();
        if network.deleting && network.finalizers.is_empty() {
            self.objects.remove(&network.key);
            self.state.apply(Event::Networks(Change::Gone(network.key)));
            return;
        }
        self.objects.insert(network.key.clone(), network.clone());
        self.state.apply(Event::Networks(Change::Put(network.key.clone(), network)));
    }

    pub(crate) fn declare(&mut self, network: Network) {
        self.put(network);
    }

    /// Changes an object as a person does; a changed spec is another generation.
    pub(crate) fn edit(&mut self, name: &str, edit: impl FnOnce(&mut Network)) {
        let Some(known) = self.objects.get(&key(name)) else { return };
        let mut network = known.clone();
        edit(&mut network);
        if network.spec != known.spec || network.deleting != known.deleting {
            network.generation += 1;
        }
        self.put(network);
    }

    pub(crate) fn look(&mut self) -> Vec<Scope> {
        let since = self.state.revision();
        let held = self.sky.look(&home(), &Look::All);
        self.state.apply(Event::Listed(since, held)).into_iter().collect()
    }

    /// What a worker does for an object.
    pub(crate) fn work(&mut self, name: &str, fate: Fate) {
        let (key, mut looked, mut changes, mut stale) = (key(name), None, 0, 0);
        for _ in 0..16 {
            let Some(network) = self.state.network(&key).cloned() else { return };
            let Some(todo) = self.state.todo(&network, looked) else { return };
            match todo {
                Todo::Nothing => {
                    match self.state.want(&network).goal {
                        Goal::Absent | Goal::Released { .. } => {
                            drop(self.state.apply(Event::LetGo(network.uid)));
                        }
                        Goal::Present { .. } => self.report(&network, None),
                        Goal::Frozen | Goal::Elsewhere { .. } => {}
                    }
                    return;
                }
                Todo::Stuck(stuck) => return self.report(&network, Some(InTheWay::Stuck(stuck))),
                Todo::Look => looked = Some(self.find(&network)),
                Todo::Step(step) => {
                    if fate == Fate::CrashBefore(changes) {
                        return self.restart();
                    }
                    let mut done = self.sky.apply(&step);
                    if fate == Fate::CrashAfter(changes) {
                        return self.restart();
                    }
                    if fate == Fate::Lost(changes) {
                        done = Err(Trouble::unreachable("no answer"));
                    }
                    changes += 1;
                    match done {
                        Ok(seen) => drop(self.state.apply(Event::Seen(seen))),
                        Err(trouble) if trouble.next() == Next::Look && stale == 0 => {
                            stale += 1;
                            looked = Some(self.find(&network));
                        }
                        Err(trouble) => {
                            let is_unmade = matches!(step, Step::CreateNetwork { .. });
                            let is_unmade = is_unmade && trouble.next() == Next::Seldom;
                            return self.report_of(&network, Some(InTheWay::Trouble(trouble)), is_unmade);
                        }
                    }
                }
            }
        }
        panic!("{name} never comes to rest: {:?}", self.sky.changes);
    }

    pub(crate) fn find(&mut self, network: &Network) -> u64 {
        let found = self.sky.look(&home(), &Look::One(self.state.clue(network)));
        self.state.apply(Event::Found(network.key.clone(), found));
        self.state.lists()
    }

    fn report(&mut self, network: &Network, trouble: Option<InTheWay>) {
        self.report_of(network, trouble, false);
    }

    fn report_of(&mut self, network: &Network, trouble: Option<InTheWay>, is_unmade: bool) {
        let (uid, generation) = (network.uid.clone(), network.generation);
        let report = Report { uid, generation, trouble, is_unmade, synced: None };
        self.state.apply(Event::Worked(network.key.clone(), report));
    }

    /// Writes what an object says, and its finalizer.
    pub(crate) fn write(&mut self, name: &str) {
        let Some(task) = status::network(&self.state, &key(name)) else { return };
        let mut network = self.objects[&key(name)].clone();
        match task.finalizer {
            Finalizer::Add => network.finalizers.push(FINALIZER.into()),
            Finalizer::Remove => network.finalizers.retain(|it| it != FINALIZER),
            Finalizer::Leave => {
                let Some(status) = task.status else { return };
                network.status = status;
            }
        }
        if network != self.objects[&key(name)] {
            self.put(network);
        }
    }

    /// Everything that anybody would do, until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        // Orphans go at the second look.
        for _ in 0..3 {
            for scope in self.look() {
                if let Scope::Orphan(id) = scope
                    && let Some(Todo::Step(step)) = self.state.todo_of_orphan(&id)
                    && let Ok(seen) = self.sky.apply(&step)
                {
                    self.state.apply(Event::Seen(seen));
                }
            }
            let names: Vec<String> = self.objects.keys().map(|key| key.name().to_owned()).collect();
            for _ in 0..3 {
                for name in &names {
                    self.write(name);
                    self.work(name, Fate::Fine);
                    self.write(name);
                }
            }
        }
    }

    /// Whether an object is ready, why or why not.
    pub(crate) fn ready(&self, name: &str) -> (Truth, String, String) {
        let status = &self.objects[&key(name)].status;
        let ready = status.conditions.get(status::READY).expect("it says whether it is ready");
        (ready.status, ready.reason.clone(), ready.message.clone())
    }
}
