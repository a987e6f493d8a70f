//! The room `vpc`: tunnels on gateways, and the exchange of gateway records.
//!
//! [`watch`] and [`broker`] bring events; workers call `handle` with a scope, which compiles under a short read
//! lock and then does I/O without it: [`gateway`] visits a gateway, [`tunnel`] writes a tunnel object, [`record`]
//! gateway records, [`main_gateway`] those of VPCs and the routes that follow them, [`membership`] our claim at the broker, [`ends`] what our tunnels' ends are declared to be.

pub mod broker;
mod changes;
mod ends;
pub mod exec;
mod gateway;
mod looks;
mod main_gateway;
mod membership;
mod metrics;
mod monitor;
mod record;
mod tunnel;
mod watch;
mod watchers;
pub mod way;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_core::GatewayName;
use causeway_core::vpc::member::Member;
use causeway_core::vpc::{Event, Given, Scope, State};
use tokio::sync::watch as channel;
use tokio::time::Instant;

use crate::election::Term;
use crate::queue::Next;
use crate::room::{Desk, Duty, House, Room, Who};
use crate::sources::Sources;

/// How the room runs.
#[derive(Clone)]
pub struct Options {
    /// Values given by flag.
    pub given: Given,
    /// A broker given by kubeconfig; without it the ServiceDiscovery object says where it is.
    pub broker: Option<broker::Broker>,
    /// How gateway workloads' names begin; without it kube-ovn's ConfigMap says so.
    pub gateway_prefix: Option<String>,
    /// How many gateways are visited at once.
    pub visits: usize,
    /// The longest that a command in a gateway may take.
    pub exec_timeout: Duration,
    /// How often a gateway is observed although nothing was heard of it.
    pub drift_interval: Duration,
    /// How often the peer of each tunnel is asked whether it answers.
    pub probe_interval: Duration,
    /// How often both sides of the exchange are compared as a whole.
    pub resync_interval: Duration,
    /// How long a node may be silent before its gateway counts as gone.
    pub node_grace: Duration,
}

/// The room: its state and what it needs to act.
pub struct Vpc {
    desk: Desk<State>,
    house: House,
    metrics: metrics::Metrics,
    options: Options,
    monitors: monitor::Monitors,
    watchers: watchers::Watchers,
    looks: looks::Looks,
    /// When a gateway last ended a term of ours by having seen a newer one.
    superseded: Mutex<BTreeMap<GatewayName, Instant>>,
    way: Arc<dyn way::Way>,
    coordinates: channel::Sender<Option<broker::Coordinates>>,
    broker: channel::Sender<Option<broker::Broker>>,
    /// Who we are, for whoever follows what is meant for us.
    ourselves: channel::Sender<Option<Member>>,
    gateway_prefix: channel::Sender<Option<String>>,
}

/// Visits may hang for as long as a command may take: they have workers of their own.
const VISITS: usize = 0;
/// Writes to our own API server.
const WRITES: usize = 1;
/// Writes to the broker's, which may hang while ours does not.
const EXCHANGE: usize = 2;
/// Writes of what others have published, to our own: they hold up none that are about ourselves.
const IMPORTS: usize = 3;
/// Writes about VPCs, which wait behind nothing: when a gateway is lost, packets wait for them.
const FAILOVERS: usize = 4;
/// Commands that are begun and go on.
const WATCHES: usize = 5;
/// How many writes to one server are under way at once.
const WRITES_AT_ONCE: usize = 32;
/// How many of those are of what others have published.
const IMPORTS_AT_ONCE: usize = 8;

impl Vpc {
    /// A room without knowledge.
    pub fn new(options: Options, house: &House) -> Arc<Self> {
        let way = way::PodWay::new(house.client.clone(), options.exec_timeout);
        Self::by(Arc::new(way), options, house)
    }

    /// The same with another way into gateways.
    pub fn by(way: Arc<dyn way::Way>, options: Options, house: &House) -> Arc<Self> {
        let duty = |name, workers| Duty { name, who: Who::Leader, workers };
        let duties = [
            duty("visits", options.visits),
            duty("writes", WRITES_AT_ONCE),
            duty("exchange", WRITES_AT_ONCE),
            duty("imports", IMPORTS_AT_ONCE),
            duty("failovers", WRITES_AT_ONCE),
            duty("watches", options.visits),
        ];
        let room = Arc::new(Self {
            desk: Desk::new::<Self>(State::new(options.given.clone()), &duties),
            house: house.clone(),
            metrics: metrics::Metrics::default(),
            gateway_prefix: channel::Sender::new(options.gateway_prefix.clone()),
            options,
            monitors: monitor::Monitors::default(),
            watchers: watchers::Watchers::default(),
            looks: looks::Looks::default(),
            superseded: Mutex::default(),
            way,
            coordinates: channel::Sender::new(None),
            broker: channel::Sender::new(None),
            ourselves: channel::Sender::new(None),
        });
        room.metrics.register(&room);
        room
    }

    /// Takes in what says who we are.
    fn tell_identity(&self, event: Event) {
        self.desk.tell(event);
        let now = self.desk.state().ourselves();
        // While nothing says so, we are who we were.
        self.ourselves.send_if_modified(|known| {
            let news = now.is_some() && *known != now;
            if news {
                *known = now;
            }
            news
        });
    }
}

impl Room for Vpc {
    const NAME: &'static str = "vpc";
    const LEASE: &'static str = "causeway-controller";
    type State = State;

    fn desk(&self) -> &Desk<State> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>) {
        watch::start(self, sources);
        broker::start(self, sources);
    }

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope {
            Scope::Gateway(_) => ("gateway", VISITS),
            Scope::Tunnel(_) => ("tunnel", WRITES),
            Scope::Record(_) => ("record", WRITES),
            Scope::Vpc(_) => ("vpc", FAILOVERS),
            Scope::Watch(_) => ("watch", WATCHES),
            Scope::Export(_) => ("export", EXCHANGE),
            Scope::Import(..) => ("import", IMPORTS),
            Scope::End(_) => ("end", EXCHANGE),
            Scope::Membership => ("membership", EXCHANGE),
        }
    }

    /// Each member waits in a line of its own, however much another has published.
    fn lane(scope: &Scope) -> &str {
        match scope {
            Scope::Import(member, _) => member.as_str(),
            // What others call ours must not hold up our claim and our records.
            Scope::End(_) => "ends",
            _ => "",
        }
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        match &scope {
            Scope::Gateway(name) => self.visit(name, &term).await,
            Scope::Tunnel(key) => self.write_tunnel(key, &term).await,
            Scope::Record(gateway) => self.write_own_record(gateway, &term).await,
            Scope::Vpc(vpc) => self.write_vpc(vpc, &term).await,
            Scope::Watch(gateway) => self.watch_others(gateway, &term).await,
            Scope::Export(name) => self.export(name, &term).await,
            Scope::Import(_, key) => self.import(key, &term).await,
            Scope::End(name) => self.publish_end(name, &term).await,
            Scope::Membership => self.claim_id(&term).await,
        }
    }

    fn term_ended(&self) {
        self.monitors.close();
        self.watchers.close();
        self.looks.clear();
        self.metrics.forget_tunnels();
        self.desk.tell(Event::TermEnded);
    }
}
