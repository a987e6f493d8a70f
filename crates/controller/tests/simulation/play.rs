//! What happens in a run while the weather lasts, by chance.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_apiserver::Local;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::actors::set_node;
use crate::declared::{Gateway, Tunnel};
use crate::lever::Lever;
use crate::replica::Handle;
use crate::site::{Change, LEASES, Reach, SYSTEM};
use crate::world::{Place, World};

/// Those who act, and what they are about to do.
pub(crate) struct Play {
    world: Arc<World>,
    handles: Vec<Handle>,
    /// What has begun and will end.
    later: JoinSet<()>,
    /// What is being done something to: by one at a time.
    busy: Arc<Mutex<BTreeSet<String>>>,
    backup: Option<Local>,
}

/// What can happen.
#[derive(Debug, Clone, Copy)]
enum Happening {
    DeclareOrDelete,
    DeleteAndDeclare,
    NewAddress,
    Hold,
    PodLost,
    Reboot,
    Flap,
    GatewayGone,
    Disturbed,
    NodeSilent,
    Killed,
    Stopped,
    CutOff,
    ServerAway,
    BrokerAway,
    Backup,
    Restore,
    LeaseDeleted,
    LeaseStolen,
}

impl Happening {
    const ALL: [Self; 19] = [
        Self::DeclareOrDelete,
        Self::DeleteAndDeclare,
        Self::NewAddress,
        Self::Hold,
        Self::PodLost,
        Self::Reboot,
        Self::Flap,
        Self::GatewayGone,
        Self::Disturbed,
        Self::NodeSilent,
        Self::Killed,
        Self::Stopped,
        Self::CutOff,
        Self::ServerAway,
        Self::BrokerAway,
        Self::Backup,
        Self::Restore,
        Self::LeaseDeleted,
        Self::LeaseStolen,
    ];
}

impl Play {
    pub(crate) fn new(world: Arc<World>, handles: Vec<Handle>) -> Self {
        Self { world, handles, later: JoinSet::new(), busy: Arc::default(), backup: None }
    }

    /// Something happens.
    pub(crate) async fn act(&mut self) {
        let Some(happening) = self.world.dice.pick(&Happening::ALL) else { return };
        match happening {
            Happening::DeclareOrDelete
            | Happening::DeleteAndDeclare
            | Happening::NewAddress
            | Happening::Hold => self.with_tunnel(happening).await,
            Happening::PodLost
            | Happening::Reboot
            | Happening::Flap
            | Happening::GatewayGone
            | Happening::Disturbed => self.with_gateway(happening).await,
            Happening::NodeSilent => self.silence_node(),
            Happening::Killed | Happening::Stopped | Happening::CutOff => self.with_controller(happening),
            Happening::ServerAway => {
                let place = Place::Cluster(self.world.dice.index(2));
                self.cut(place.to_string(), self.world.site(place).reach.clone(), 40_000);
            }
            Happening::BrokerAway => self.cut("broker".into(), self.world.broker.reach.clone(), 60_000),
            Happening::Backup => {
                self.world.note("the broker is backed up");
                let (seed, now) = (self.world.dice.number(0..u64::MAX), self.world.time_at(Place::Broker));
                self.backup = Some(self.world.broker.server().copy(seed, now));
            }
            Happening::Restore => self.restore(),
            Happening::LeaseDeleted | Happening::LeaseStolen => self.with_lease(happening).await,
        }
    }

    /// All that has begun has ended.
    pub(crate) async fn settle(&mut self) {
        self.world.calm_down();
        self.handles.iter().for_each(|handle| handle.reach.set(|_| Reach::Open));
        while self.later.join_next().await.is_some() {}
    }

    /// Does something in a while, unless somebody is at it.
    fn later<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        what: String,
        doing: impl FnOnce(Arc<World>) -> F,
    ) {
        let busy = self.busy.clone();
        if !busy.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone()) {
            return;
        }
        let doing = doing(self.world.clone());
        self.later.spawn(async move {
            doing.await;
            busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&what);
        });
    }

    async fn with_tunnel(&mut self, happening: Happening) {
        let all: Vec<(usize, String)> = self.world.declared().tunnels.keys().cloned().collect();
        let Some(key) = self.world.dice.pick(&all) else { return };
        match happening {
            Happening::DeclareOrDelete => {
                let present = self.world.declared().tunnels.get(&key).is_some_and(|tunnel| tunnel.present);
                self.set_present(&key, !present).await;
            }
            Happening::DeleteAndDeclare => {
                self.set_present(&key, false).await;
                self.set_present(&key, true).await;
            }
            Happening::NewAddress => {
                // Both ends have one of their own.
                let number = 2 * self.world.dice.number(2..120) + u64::try_from(key.0).unwrap_or(0);
                let changed = self.edit(&key, |tunnel| {
                    let net = tunnel.address.rsplit_once('.').map_or("10.100.9", |(net, _)| net).to_owned();
                    tunnel.address = format!("{net}.{number}/24");
                });
                changed.change(&self.world).await;
            }
            _ => self.hold(&key, Duration::ZERO),
        }
    }

    /// Somebody else puts a finalizer on a tunnel in a while, and takes it away again.
    fn hold(&mut self, key: &(usize, String), wait: Duration) {
        let tunnel = self.edit(key, |_| {});
        self.later(format!("hold {key:?}"), |world| async move {
            sleep(wait).await;
            tunnel.hold(&world, true).await;
            world.wait_or_calm(world.dice.millis(100..15_000)).await;
            tunnel.hold(&world, false).await;
        });
    }

    fn edit(&self, key: &(usize, String), edit: impl FnOnce(&mut Tunnel)) -> Tunnel {
        let mut declared = self.world.declared();
        let tunnel = declared.tunnels.get_mut(key).expect("a tunnel");
        edit(tunnel);
        tunnel.clone()
    }

    /// Declares a tunnel, or has it deleted.
    pub(crate) async fn set_present(&mut self, key: &(usize, String), present: bool) {
        let tunnel = self.edit(key, |tunnel| tunnel.present = present);
        if !present {
            return tunnel.delete(&self.world).await;
        }
        // There are tools that put theirs on everything as soon as it is there.
        if self.world.dice.strikes(400) {
            self.hold(key, self.world.dice.millis(0..20));
        }
        // The one before may still be on its way out: then whoever declares it waits.
        let key = key.clone();
        self.later(format!("declare {key:?}"), |world| async move {
            loop {
                let tunnel = world.declared().tunnels.get(&key).cloned();
                let Some(tunnel) = tunnel.filter(|tunnel| tunnel.present) else { return };
                if tunnel.declare(&world).await {
                    return;
                }
                sleep(world.dice.millis(100..1000)).await;
            }
        });
    }

    async fn with_gateway(&mut self, happening: Happening) {
        let all: Vec<Gateway> = self.world.declared().gateways.values().cloned().collect();
        let Some(gateway) = self.world.dice.pick(&all) else { return };
        let name = format!("gateway {} of {}", gateway.name, gateway.cluster);
        if let Happening::Disturbed = happening {
            return gateway.disturb(&self.world);
        }
        self.later(name, |world| async move {
            match happening {
                Happening::PodLost => {
                    gateway.lose_pod(&world).await;
                    world.wait_or_calm(world.dice.millis(100..20_000)).await;
                    gateway.start(&world).await;
                }
                Happening::Reboot => {
                    gateway.reboot(&world);
                    if world.dice.strikes(500) {
                        gateway.become_ready(&world, false).await;
                        world.wait_or_calm(world.dice.millis(10..5_000)).await;
                        gateway.become_ready(&world, true).await;
                    }
                }
                Happening::Flap => {
                    for _ in 0..world.dice.number(1..11) {
                        gateway.become_ready(&world, false).await;
                        world.wait_or_calm(world.dice.millis(10..1_000)).await;
                        gateway.become_ready(&world, true).await;
                    }
                }
                _ => {
                    gateway.remove(&world).await;
                    world.wait_or_calm(world.dice.millis(100..30_000)).await;
                    gateway.moved(&world).add(&world).await;
                }
            }
        });
    }

    fn silence_node(&mut self) {
        let (cluster, node) = (self.world.dice.index(2), ["n0", "n1"][self.world.dice.index(2)]);
        self.later(format!("node {node} of {cluster}"), |world| async move {
            set_node(&world, cluster, node, "Unknown").await;
            world.excuse(cluster, node);
            world.wait_or_calm(world.dice.millis(100..100_000)).await;
            set_node(&world, cluster, node, "True").await;
        });
    }

    fn with_controller(&mut self, happening: Happening) {
        let Some(handle) = self.handles.get(self.world.dice.index(self.handles.len())) else { return };
        match happening {
            Happening::Killed => handle.kill(),
            Happening::Stopped => handle.stop(),
            _ => self.cut(format!("a controller of {}", handle.cluster), handle.reach.clone(), 40_000),
        }
    }

    /// Something cannot be reached for a while.
    fn cut(&mut self, what: String, reach: Lever<Reach>, most: u64) {
        self.later(what.clone(), |world| async move {
            let how = world.dice.pick(&[Reach::Silent, Reach::Refused]).unwrap_or_default();
            world.note(format!("{what}: {how:?}"));
            reach.set(|_| how);
            world.wait_or_calm(world.dice.millis(500..most)).await;
            world.note(format!("{what}: open"));
            reach.set(|_| Reach::Open);
        });
    }

    /// The broker comes back with what it held at its last backup.
    fn restore(&self) {
        if let Some(backup) = &self.backup {
            self.world.note("the broker is restored from its backup");
            let (seed, now) = (self.world.dice.number(0..u64::MAX), self.world.time_at(Place::Broker));
            self.world.broker.restore(backup.copy(seed, now));
        }
    }

    async fn with_lease(&self, happening: Happening) {
        let cluster = self.world.dice.index(2);
        self.world.note(format!("{happening:?} in {cluster}"));
        let change = match happening {
            Happening::LeaseDeleted => Change::Delete,
            _ => {
                Change::Merge(json!({ "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": 15 } }))
            }
        };
        self.world.clusters[cluster].change(LEASES, SYSTEM, "causeway-controller", change).await;
    }
}

/// So long at most passes between two happenings.
pub(crate) const PAUSE: Duration = Duration::from_secs(6);
