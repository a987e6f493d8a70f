//! The room `networks`: declared networks in a cloud.
//!
//! A look lists all that is ours in the cloud, now and then and when a term begins ([`look`]); from that and the objects
//! follows which networks need work, one step after the other ([`sync`]), and what each object says ([`report`]).
//! The cloud itself is behind a seam ([`provider`]).

#[cfg(feature = "bridge")]
pub mod bridge;
mod look;
mod metrics;
pub mod neutron;
pub mod provider;
mod report;
mod sync;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_api::networks::{LooseNetwork, parse};
use causeway_core::networks::{Event, Home, Network, Scope, State, Trouble};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use self::provider::NetworkProvider;
use crate::election::Term;
use crate::follow::Watch;
use crate::found::by_key;
use crate::queue::Next;
use crate::room::{self, Desk, Duty, House, Parts, Room, Who};
use crate::sources::{Feed, Sources, Standing};
use crate::words::describe;

/// How the room runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The id that this cluster goes by; without it the uid of its `kube-system`.
    pub cluster: Option<String>,
    /// How many networks are worked on at once.
    pub workers: usize,
    /// How often the cloud is looked at as a whole.
    pub resync: Duration,
}

/// The room and its cloud.
#[derive(Clone)]
pub struct Setup {
    /// How it runs.
    pub options: Options,
    /// Where networks are made.
    pub cloud: Cloud,
}

/// The clouds that there are.
#[derive(Clone)]
pub enum Cloud {
    /// OpenStack's.
    Neutron(Arc<neutron::Neutron>),
    /// Linux bridges on this machine.
    #[cfg(feature = "bridge")]
    Bridge(bridge::Bridge),
}

impl Setup {
    /// Starts the room.
    pub(crate) fn start(self, house: &House, parts: &mut Parts) {
        match self.cloud {
            Cloud::Neutron(cloud) => {
                let requests = cloud.requests().0.clone();
                house.metrics.of_room(Networks::<Arc<neutron::Neutron>>::NAME, |registry| {
                    registry.register("requests", "Requests to the cloud, by method and status", requests);
                });
                room::start(&Networks::new(self.options, cloud, house), house, parts);
            }
            #[cfg(feature = "bridge")]
            Cloud::Bridge(cloud) => room::start(&Networks::new(self.options, cloud, house), house, parts),
        }
    }
}

/// The room: its state and what it needs to act.
pub struct Networks<P> {
    desk: Desk<State>,
    house: House,
    options: Options,
    provider: P,
    metrics: metrics::Metrics,
    /// Since when the cloud cannot be listed, and why.
    outage: Mutex<Option<(Instant, Trouble)>>,
    /// What the cloud is not asked about before some time: because it wants so, or because only somebody else can help.
    rests: Mutex<BTreeMap<Scope, Instant>>,
    /// All objects, as the API server had them after so many looks.
    objects: tokio::sync::Mutex<Option<(u64, Arc<[Network]>)>>,
    /// Whether it was said that another cluster goes by our id.
    warned: AtomicBool,
}

/// One list of everything; a cloud that hangs holds up nothing else.
const LOOKS: usize = 0;
/// What is asked of the cloud for each network.
const WORK: usize = 1;
/// Writes to our own API server.
const WRITES: usize = 2;
/// How many of those are under way at once.
const WRITES_AT_ONCE: usize = 16;
/// The namespace that every cluster has from its first moment to its last.
const KUBE_SYSTEM: &str = "kube-system";

impl<P: NetworkProvider> Networks<P> {
    /// A room without knowledge.
    pub fn new(options: Options, provider: P, house: &House) -> Arc<Self> {
        let duty = |name, workers| Duty { name, who: Who::Leader, workers };
        let duties = [duty("looks", 1), duty("networks", options.workers), duty("writes", WRITES_AT_ONCE)];
        let room = Arc::new(Self {
            desk: Desk::new::<Self>(State::new(P::NAME), &duties),
            house: house.clone(),
            options,
            metrics: metrics::Metrics::default(),
            provider,
            outage: Mutex::default(),
            rests: Mutex::default(),
            objects: tokio::sync::Mutex::default(),
            warned: AtomicBool::new(false),
        });
        room.metrics.register(&room);
        room
    }

    /// Why the cloud cannot be listed at the moment.
    fn outage(&self) -> Option<Trouble> {
        let outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        outage.as_ref().map(|(_, trouble)| trouble.clone())
    }
}

impl<P: NetworkProvider> Room for Networks<P> {
    const NAME: &'static str = "networks";
    const LEASE: &'static str = "causeway-networks";
    type State = State;

    fn desk(&self) -> &Desk<State> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>) {
        sources.task("cluster", |feed| know_home(feed, self.clone()));
        let networks = Watch::<LooseNetwork>::new(Api::all(self.house.client.clone()));
        sources.watch("networks", networks, by_key(parse::network), |change, _| Event::Networks(change));
    }

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope {
            Scope::Look => ("look", LOOKS),
            Scope::Network(_) => ("network", WORK),
            Scope::Orphan(_) => ("orphan", WORK),
            Scope::Status(_) => ("status", WRITES),
        }
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        match &scope {
            Scope::Look => self.look().await,
            Scope::Network(key) => self.sync(key, &term).await,
            Scope::Orphan(id) => self.sweep(id, &term).await,
            Scope::Status(key) => self.write_status(key, &term).await,
        }
    }

    fn term_ended(&self) {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.desk.tell(Event::TermEnded);
    }
}

/// Learns which cluster this is; without that nothing in the cloud can be told to be ours.
async fn know_home<P: NetworkProvider>(feed: Feed<Networks<P>>, room: Arc<Networks<P>>) {
    let namespaces: Api<Namespace> = Api::all(room.house.client.clone());
    let mut pace = feed.pace();
    let uid = loop {
        let why = match namespaces.get(KUBE_SYSTEM).await {
            Ok(namespace) => match namespace.uid() {
                Some(uid) => break uid,
                None => "namespace kube-system has no uid".to_owned(),
            },
            Err(error) => describe(&error),
        };
        tracing::warn!(why, "it cannot be told which cluster this is");
        feed.note(Standing::Waiting(why));
        tokio::time::sleep(pace.pause()).await;
    };
    feed.tell(Event::Home(Home::new(room.options.cluster.as_deref(), &uid)));
    feed.note(Standing::Listed);
    std::future::pending::<()>().await;
}
