//! Work on one network: step after step, until nothing is left or something is in the way.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use causeway_api::networks::{LooseNetwork, parse};
use causeway_core::ObjectKey;
use causeway_core::networks::plan::Goal;
use causeway_core::networks::state::{InTheWay, Report};
use causeway_core::networks::trouble::Next as After;
use causeway_core::networks::{Event, Home, Look, Network, Scope, Step, Todo, Trouble, status};
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::Networks;
use super::provider::NetworkProvider;
use crate::election::Term;
use crate::queue::Next;
use crate::words::describe;

/// The most steps and looks at a time: no network needs more, and two who undo each other's work take turns.
const AT_A_TIME: usize = 16;
/// How often in one go it is looked again because something is not as it was: tags that we put ourselves raise the
/// revisions of a network that is taken over and of its subnet.
const STALE_AT_A_TIME: usize = 3;
/// How often it is tried again what only somebody else can help with.
const SELDOM: Duration = Duration::from_secs(120);

/// What was done in one go.
#[derive(Default)]
struct Run {
    /// After how many lists the network was looked for: nothing is made, or let go, on the word of an old one.
    looked: Option<u64>,
    /// How often what was decided on turned out not to be so any more.
    stale: usize,
    /// Whether what failed was to make the network.
    is_unmade: bool,
    done: Vec<String>,
}

/// What comes next for a network.
struct Turn {
    home: Home,
    network: Network,
    goal: Goal,
    todo: Todo,
}

impl<P: NetworkProvider> Networks<P> {
    /// Brings an object's network in line.
    pub(super) async fn sync(&self, key: &ObjectKey, term: &Term) -> Next {
        if let Some(rest) = self.rest_of(&Scope::Network(key.clone())) {
            return Next::After(rest);
        }
        let mut run = Run::default();
        for _ in 0..AT_A_TIME {
            let Some(turn) = self.turn(key, &run) else {
                // It is gone, or the cloud was never listed.
                let network = self.desk.state().network(key).cloned();
                network.iter().for_each(|network| self.tell_of_outage(network));
                return Next::Done;
            };
            if !term.is_held() {
                return Next::Done;
            }
            let Turn { home, network, goal, todo } = &turn;
            let went = match todo {
                Todo::Nothing => return self.finish(network, goal, &run, term),
                Todo::Stuck(stuck) => {
                    self.tell_how_far(network, &run, Some(InTheWay::Stuck(stuck.clone())));
                    return Next::Done;
                }
                // Not one by one while the cloud as a whole does not answer: the next look that succeeds asks for it.
                Todo::Look | Todo::Step(_) if self.outage().is_some() => {
                    self.tell_of_outage(network);
                    return Next::Done;
                }
                Todo::Look => self.find(home, network, &mut run).await,
                Todo::Step(step) => self.carry_out(step, network, &mut run).await,
            };
            if let Err(trouble) = went {
                match trouble.next() {
                    // What was decided on is not so any more.
                    After::Look if run.stale < STALE_AT_A_TIME => {
                        run.stale += 1;
                        if let Err(trouble) = self.find(home, network, &mut run).await {
                            return self.give_up(network, &run, trouble);
                        }
                    }
                    _ => return self.give_up(network, &run, trouble),
                }
            }
        }
        Next::Retry
    }

    fn turn(&self, key: &ObjectKey, run: &Run) -> Option<Turn> {
        let state = self.desk.state();
        let network = state.network(key)?.clone();
        let home = state.home()?.clone();
        let todo = state.todo(&network, run.looked)?;
        Some(Turn { home, goal: state.want(&network).goal, network, todo })
    }

    async fn find(&self, home: &Home, network: &Network, run: &mut Run) -> Result<(), Trouble> {
        let clue = self.desk.state().clue(network);
        let found = self.provider.look(home, &Look::One(clue)).await;
        self.metrics.count_look(&found);
        self.desk.tell(Event::Found(network.key.clone(), found?));
        run.looked = Some(self.desk.state().lists());
        Ok(())
    }

    async fn carry_out(&self, step: &Step, network: &Network, run: &mut Run) -> Result<(), Trouble> {
        let applied = self.provider.apply(step).await;
        self.metrics.count_step(step, &applied);
        let is_refused = |trouble: &Trouble| trouble.next() == After::Seldom;
        run.is_unmade = matches!(step, Step::CreateNetwork { .. }) && applied.as_ref().is_err_and(is_refused);
        match &applied {
            Ok(_) => tracing::info!(object = %network.key, "{step}"),
            // It is looked at and tried once more.
            Err(trouble) if trouble.next() == After::Look => {
                tracing::debug!(object = %network.key, reason = trouble.reason(), "{step}: {trouble}");
            }
            Err(trouble) => {
                tracing::warn!(object = %network.key, reason = trouble.reason(), "{step}: {trouble}");
            }
        }
        self.desk.tell(Event::Seen(applied?));
        run.done.push(step.to_string());
        Ok(())
    }

    /// All is as it should be.
    fn finish(&self, network: &Network, goal: &Goal, run: &Run, term: &Term) -> Next {
        match goal {
            Goal::Absent | Goal::Released { .. } => self.desk.tell(Event::LetGo(network.uid.clone())),
            Goal::Present { .. } => {
                let was_reached = self.desk.state().was_reached(network);
                self.tell_how_far(network, run, None);
                if let Some(news) = status::repaired(network, was_reached, &run.done) {
                    self.announce(term, network, news);
                }
            }
            Goal::Frozen | Goal::Elsewhere { .. } => {}
        }
        Next::Done
    }

    /// For how long the cloud is not asked about something, whatever happens meanwhile.
    fn rest_of(&self, scope: &Scope) -> Option<Duration> {
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        rests.retain(|_, until| *until > now);
        rests.get(scope).map(|until| until.duration_since(now))
    }

    fn have_rest(&self, scope: Scope, rest: Duration) -> Next {
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.insert(scope, Instant::now() + rest);
        Next::After(rest)
    }

    fn give_up(&self, network: &Network, run: &Run, trouble: Trouble) -> Next {
        let next = match trouble.next() {
            After::Soon(Some(after)) => self.have_rest(Scope::Network(network.key.clone()), after),
            After::Soon(None) | After::Look => Next::Retry,
            After::Seldom => Next::After(SELDOM),
        };
        self.tell_how_far(network, run, Some(InTheWay::Trouble(trouble)));
        next
    }

    /// Nothing can be done for a network while the cloud cannot be listed.
    pub(super) fn tell_of_outage(&self, network: &Network) {
        if let Some(trouble) = self.outage() {
            self.tell_how_far(network, &Run::default(), Some(InTheWay::Outage(trouble)));
        }
    }

    fn tell_how_far(&self, network: &Network, run: &Run, trouble: Option<InTheWay>) {
        let synced = (trouble.is_none() && !run.done.is_empty()).then(|| self.house.clock.now().as_second());
        let (uid, generation, is_unmade) = (network.uid.clone(), network.generation, run.is_unmade);
        let report = Report { uid, generation, trouble, is_unmade, synced };
        self.desk.tell(Event::Worked(network.key.clone(), report));
    }

    /// Deletes a network of the cloud whose object is gone.
    pub(super) async fn sweep(&self, id: &str, term: &Term) -> Next {
        let Some(todo) = self.desk.state().todo_of_orphan(id) else { return Next::Done };
        let scope = Scope::Orphan(id.to_owned());
        if !term.is_held() || self.outage().is_some() || self.rest_of(&scope).is_some() {
            return Next::Done;
        }
        let step = match todo {
            Todo::Step(step) => step,
            Todo::Stuck(stuck) => {
                tracing::warn!(network = id, "its object is gone, and it stays: {stuck}");
                return self.have_rest(scope, SELDOM);
            }
            Todo::Nothing | Todo::Look => return Next::Done,
        };
        match self.objects().await {
            Ok(objects) => {
                if let Some(key) = self.desk.state().owner_among(id, &objects) {
                    tracing::warn!(network = id, object = %key, "it has an object that was not heard of here, and stays");
                    return Next::Done;
                }
            }
            Err(why) => {
                tracing::warn!(network = id, why, "whether its object is gone cannot be told, and it stays");
                return Next::Done;
            }
        }
        let applied = self.provider.apply(&step).await;
        self.metrics.count_step(&step, &applied);
        match applied {
            Ok(seen) => {
                tracing::info!(network = id, "its object is gone: deleted");
                self.desk.tell(Event::Seen(seen));
                Next::Done
            }
            Err(trouble) => {
                tracing::warn!(
                    network = id,
                    reason = trouble.reason(),
                    "its object is gone, and it stays: {trouble}"
                );
                match trouble.next() {
                    After::Soon(Some(after)) => self.have_rest(scope, after),
                    After::Seldom => self.have_rest(scope, SELDOM),
                    // The next look finds it again.
                    After::Soon(None) | After::Look => Next::Done,
                }
            }
        }
    }

    /// All objects there are, from the API server itself: what a watch has brought may be old, and a deletion cannot be
    /// undone. One list serves all orphans that one look at the cloud has shown.
    async fn objects(&self) -> Result<Arc<[Network]>, String> {
        let lists = self.desk.state().lists();
        let mut known = self.objects.lock().await;
        if let Some((_, objects)) = known.as_ref().filter(|(at, _)| *at == lists) {
            return Ok(objects.clone());
        }
        let api: Api<LooseNetwork> = Api::all(self.house.client.clone());
        let listed = api.list(&ListParams::default()).await.map_err(|error| describe(&error))?;
        let objects: Arc<[Network]> = listed.iter().filter_map(parse::network).collect();
        *known = Some((lists, objects.clone()));
        Ok(objects)
    }
}
