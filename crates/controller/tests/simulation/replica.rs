//! Controllers: each is started, ends when a fault or the scheduler says so, and is started again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_controller::clock::Clock;
use causeway_controller::election::Times;
use causeway_controller::events::{Announcer, Line};
use causeway_controller::health::Readiness;
use causeway_controller::metrics::Metrics;
use causeway_controller::room::{self, House, Parts, add_part};
use causeway_controller::vpc::broker::Broker;
use causeway_controller::vpc::{self, Vpc};
use causeway_controller::{client, until_end};
use causeway_core::vpc::Given;
use jiff::Timestamp;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::bugs::Known;
use crate::declared::globalnet;
use crate::lever::Lever;
use crate::passage::{LIMIT, Passage};
use crate::site::{MEETING, Reach, SYSTEM};
use crate::wire::Wire;
use crate::world::{Place, World, id};

/// One life of a controller's process.
pub(crate) struct Who {
    pub(crate) cluster: usize,
    /// For the trace.
    pub(crate) name: String,
    /// Its process has ended: whatever of it still moves reaches nothing any more.
    death: CancellationToken,
    /// Whether it reaches anything.
    reach: Lever<Reach>,
    /// What it has listed.
    listed: Mutex<BTreeSet<String>>,
    /// Whether it was shown the past: then it may not know of a gateway that there is.
    misled: AtomicBool,
    /// What it has seen, for a bug.
    pub(crate) known: Known,
}

impl Who {
    /// Goes on while its process lives.
    pub(crate) async fn alive(&self) {
        if self.death.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// Its process ends here.
    pub(crate) async fn die(&self, world: &World) {
        world.note(format!("{} dies", self.name));
        self.death.cancel();
        std::future::pending::<()>().await;
    }

    pub(crate) fn reach(&self, world: &World, place: Place) -> Reach {
        self.reach.get().max(world.site(place).reach.get())
    }

    /// Returns when it may reach a place no longer, or again.
    pub(crate) async fn other_reach(&self, world: &World, place: Place) {
        let site = &world.site(place).reach;
        let (mut own_seen, mut site_seen) = (self.reach.seen(), site.seen());
        tokio::select! {
            biased;
            _ = self.reach.changed(&mut own_seen) => {}
            _ = site.changed(&mut site_seen) => {}
        }
    }

    pub(crate) fn mislead(&self) {
        self.misled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_misled(&self) -> bool {
        self.misled.load(Ordering::Relaxed)
    }

    /// Whether something is listed for the first time in this life.
    pub(crate) fn lists_first(&self, path: &str) -> bool {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    }
}

/// How the scheduler treats a controller.
pub(crate) struct Handle {
    pub(crate) cluster: usize,
    pub(crate) reach: Lever<Reach>,
    orders: Lever<Order>,
}

/// What the scheduler wants of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Run,
    /// The process is killed.
    Kill,
    /// It is asked to stop.
    Stop,
}

impl Handle {
    pub(crate) fn kill(&self) {
        self.orders.set(|_| Order::Kill);
    }

    pub(crate) fn stop(&self) {
        self.orders.set(|_| Order::Stop);
    }
}

/// Starts all controllers of a run.
pub(crate) fn start_all(world: &Arc<World>) -> Vec<Handle> {
    let controllers = world.declared().controllers;
    let mut handles = Vec::new();
    for (cluster, (count, elects)) in controllers.into_iter().enumerate() {
        for number in 0..count {
            let (reach, orders) = (Lever::default(), Lever::new(Order::Run));
            let keeper = Keeper {
                world: world.clone(),
                cluster,
                number,
                elects,
                reach: reach.clone(),
                orders: orders.clone(),
            };
            tokio::spawn(keeper.keep());
            handles.push(Handle { cluster, reach, orders });
        }
    }
    handles
}

/// Starts a controller again and again, as a kubelet does.
struct Keeper {
    world: Arc<World>,
    cluster: usize,
    number: usize,
    elects: bool,
    reach: Lever<Reach>,
    orders: Lever<Order>,
}

/// What a life consists of.
struct Life {
    who: Arc<Who>,
    parts: Parts,
    stop: CancellationToken,
}

impl Keeper {
    async fn keep(self) {
        // A restarted container has the name of the one before; a new pod has a name of its own.
        let renames = self.world.dice.strikes(500);
        // Its node's clock differs from others', and not from one life to the next.
        let ahead = self.world.dice.number(0..self.world.dice.pick(&[1, 20, 4000]).unwrap_or(1));
        let base = Timestamp::from_second(1_800_000_000 + i64::try_from(ahead).unwrap_or(0));
        let clock = Clock::starting_at(base.unwrap_or_default());
        sleep(self.world.dice.millis(0..500)).await;
        for life in 0.. {
            let name = format!("{}/{}#{life}", id(self.cluster), self.number);
            let identity = if renames { name.replace('/', "-") } else { format!("c{}", self.number) };
            self.world.note(format!("{name} starts"));
            let life = self.begin(name, identity, clock);
            self.live(life).await;
            sleep(self.world.dice.millis(100..4000)).await;
        }
    }

    fn begin(&self, name: String, identity: String, clock: Clock) -> Life {
        let who = Arc::new(Who {
            cluster: self.cluster,
            name,
            death: CancellationToken::new(),
            reach: self.reach.clone(),
            listed: Mutex::default(),
            misled: AtomicBool::new(false),
            known: Known::default(),
        });
        let client = |place| {
            let wire = Wire { world: self.world.clone(), who: who.clone(), place };
            client::over(wire, "default")
        };
        let (mut parts, stop) = (Parts::new(), CancellationToken::new());
        let (announcer, line) = Announcer::new();
        let house = House {
            client: client(Place::Cluster(self.cluster)),
            identity,
            lease_namespace: self.elects.then(|| SYSTEM.into()),
            lease_times: Times::default(),
            clock,
            seed: self.world.dice.number(0..u64::MAX),
            metrics: Arc::new(Metrics::default()),
            readiness: Readiness::default(),
            announcer,
            stop: stop.clone(),
        };
        add_part(&mut parts, &stop, "events".into(), hear(self.world.clone(), who.clone(), line));
        let passage = Passage::new(self.world.clone(), who.clone());
        let room = Vpc::by(Arc::new(passage), options(self.cluster, client(Place::Broker)), &house);
        room::start(&room, &house, &mut parts);
        Life { who, parts, stop }
    }

    /// Waits for the end of a life, whichever it is.
    async fn live(&self, mut life: Life) {
        let mut seen = self.orders.seen();
        let ended = tokio::select! {
            biased;
            () = life.who.death.cancelled() => None,
            order = self.orders.changed(&mut seen) => Some(order),
            ended = life.parts.join_next() => {
                let name = &life.who.name;
                self.world.violate(format!("{name}: a part ended by itself: {ended:?}"));
                None
            }
        };
        if let Some(Order::Stop) = ended {
            self.world.note(format!("{} is asked to stop", life.who.name));
            life.stop.cancel();
            let patience = Duration::from_secs(30);
            let parts = std::mem::take(&mut life.parts);
            let _ = timeout(patience, until_end(parts, life.stop.clone())).await;
        }
        self.world.note(format!("{} has ended", life.who.name));
        life.who.death.cancel();
        life.parts.shutdown().await;
    }
}

/// What a controller announces is part of what happens.
async fn hear(world: Arc<World>, who: Arc<Who>, mut line: Line) -> anyhow::Result<()> {
    while let Some((_, news)) = line.recv().await {
        let about = news.about.name.unwrap_or_default();
        world.note(format!("{} says of {about}: {} {}", who.name, news.reason, news.note));
    }
    anyhow::bail!("nobody announces any more")
}

fn options(cluster: usize, broker: kube::Client) -> vpc::Options {
    let net = u8::try_from(cluster).unwrap_or(0);
    vpc::Options {
        given: Given {
            cluster: Some(id(cluster).parse().expect("an id")),
            globalnet: Some(globalnet(cluster).parse().expect("a range")),
            egress: (1..=8).map(|last| [242, net, 0, last].into()).collect(),
            ..Given::default()
        },
        broker: Some(Broker { client: broker, namespace: MEETING.into() }),
        gateway_prefix: Some("vpc-nat-gw".into()),
        visits: 4,
        exec_timeout: LIMIT,
        drift_interval: Duration::from_secs(15),
        probe_interval: Duration::from_secs(5),
        resync_interval: Duration::from_secs(120),
        node_grace: Duration::from_secs(60),
    }
}
