//! Rules in the sandbox: each cluster's controller serves them on loopback, two data planes ask for them, and a rule is
//! changed under them.
//!
//! The data planes are tasks of this process and the same that `causeway rules watch` is. They stay, and whatever is
//! pushed to them later is shown as it comes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_api::rules::resource;
use causeway_core::rules::Kind;
use futures::future::{join_all, try_join_all};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::addresses::Cluster;
use super::apply;
use super::progress::Progress;
use super::site::{Site, Tasks};
use super::start_time::since_process_start;
use crate::rules::decode::Message;
use crate::rules::plane::{Arrival, Plane, Taken, Wanted};
use crate::rules::reach::Reach;
use crate::rules::text;

/// The rule that is made and changed.
const SAMPLE: &str = include_str!("../../../../samples/rules/rate-limit-strategy.yaml");
/// Whose rule that is.
const APP: &str = "foo";
const NAMESPACE: &str = "default";
/// What it is changed to.
const CHANGED: i64 = 20;
/// Where data planes of the first clusters connect, if nobody else listens there.
const USUAL: [u16; 2] = [10246, 10247];
const SUBSCRIBERS: usize = 2;

/// Where a cluster's controller listens. The ports stay its own, also while it is away.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    /// For data planes.
    pub(super) listen: SocketAddr,
    /// For whoever asks who is connected.
    pub(super) clients: SocketAddr,
    _held: Arc<[TcpSocket; 2]>,
}

impl Ports {
    /// Ports of one cluster that are free, the usual one where it is.
    pub(super) fn choose(at: usize) -> anyhow::Result<Ports> {
        let usual = USUAL.get(at).and_then(|port| hold(*port).ok());
        let any = || hold(0).context("no port is free");
        let held = [usual.map_or_else(any, Ok)?, any()?];
        let [listen, clients] = [held[0].local_addr()?, held[1].local_addr()?];
        Ok(Ports { listen, clients, _held: Arc::new(held) })
    }
}

/// Takes a port without listening on it. Only a socket that shares addresses can bind it besides, which is what servers
/// do; the next sandbox, that looks for a port here, does not.
fn hold(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// What was seen of the rules in one cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RulesReport {
    pub(super) cluster: String,
    /// Where data planes connect.
    pub(super) address: String,
    /// Where can be asked who is connected.
    pub(super) clients: String,
    pub(super) subscribers: Vec<Seen>,
}

/// What a data plane has seen.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Seen {
    pub(super) name: String,
    /// From the process's start to the answer to its subscription.
    pub(super) subscribed_ms: Option<u64>,
    /// How many sets it was sent, the answer included.
    pub(super) pushes: u64,
    /// The version that it holds.
    pub(super) version: Option<i64>,
    /// From just before the rule was changed to the moment at which it was here.
    pub(super) change_ms: Option<f64>,
    #[serde(skip)]
    threshold: Option<i64>,
    #[serde(skip)]
    at: Option<Instant>,
}

/// The rules of all clusters.
pub(super) struct Rules {
    clusters: Vec<Served>,
    planes: Tasks,
}

struct Served {
    cluster: Cluster,
    client: Client,
    ports: Ports,
    subscribers: Vec<watch::Receiver<Seen>>,
}

/// Installs the six kinds, which a sandbox without rules does not have.
pub(super) async fn install(sites: &[Site]) -> anyhow::Result<()> {
    let install = |site: &Site| {
        let (client, cluster) = (site.client.clone(), site.cluster);
        async move { apply::crds(&client, causeway_api::rules::crds()).await.with_context(|| cluster.id()) }
    };
    try_join_all(sites.iter().map(install)).await.map(drop)
}

impl Rules {
    /// Starts the data planes of all clusters; they wait for their controllers.
    pub(super) fn start(sites: &[Site], ports: &[Ports], progress: &Progress) -> Rules {
        let mut planes = Tasks::new();
        let mut serve = |(site, ports): (&Site, &Ports)| {
            let mut subscriber = |number: usize| {
                let name = format!("{}-subscriber{}", site.cluster, number + 1);
                let (seen, receiver) = watch::channel(Seen { name: name.clone(), ..Seen::default() });
                planes.spawn(subscribe(name, ports.listen, seen, progress.clone()));
                receiver
            };
            let subscribers = (0..SUBSCRIBERS).map(&mut subscriber).collect();
            Served { cluster: site.cluster, client: site.client.clone(), ports: ports.clone(), subscribers }
        };
        Rules { clusters: sites.iter().zip(ports).map(&mut serve).collect(), planes }
    }

    /// Ends the data planes, so that no controller has to wait for them.
    pub(super) async fn end(mut self) {
        self.planes.shutdown().await;
    }

    /// Makes a rule in every cluster and changes it under its data planes. The error says who missed what.
    pub(super) async fn prove(
        &self,
        patience: Duration,
        progress: &Progress,
    ) -> (Vec<RulesReport>, anyhow::Result<()>) {
        progress.stage("changing a rule under its data planes");
        let proofs = join_all(self.clusters.iter().map(|served| served.prove(patience))).await;
        let (mut reports, mut outcome) = (Vec::new(), Ok(()));
        for (served, proof) in self.clusters.iter().zip(proofs) {
            let mut report = served.report();
            match proof {
                Ok(latencies) => {
                    let latencies = latencies.into_iter().map(|it| Some(tenths(it)));
                    report.subscribers.iter_mut().zip(latencies).for_each(|(seen, it)| seen.change_ms = it);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
            reports.push(report);
        }
        if outcome.is_ok() {
            progress.done("every data plane has seen the rule and its change");
        }
        (reports, outcome)
    }
}

impl Served {
    /// How long the change took to each of the data planes.
    async fn prove(&self, patience: Duration) -> anyhow::Result<Vec<Duration>> {
        let rule: Value = serde_saphyr::from_str(SAMPLE).context("the sample rule")?;
        let first = rule["spec"]["threshold"].as_i64();
        let name = rule["metadata"]["name"].as_str().context("the sample rule's name")?.to_owned();
        each(&self.subscribers, "was not answered", patience, |seen| seen.subscribed_ms.is_some()).await?;
        apply::one(&self.client, rule).await?;
        each(&self.subscribers, "has not seen the rule", patience, |seen| seen.threshold == first).await?;
        let resource = resource(Kind::RateLimitStrategy);
        let rules = Api::<DynamicObject>::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        let change = Patch::Merge(json!({ "spec": { "threshold": CHANGED } }));
        let start = Instant::now();
        rules.patch(&name, &PatchParams::default(), &change).await?;
        let seen =
            each(&self.subscribers, "missed the change", patience, |seen| seen.threshold == Some(CHANGED))
                .await?;
        Ok(seen.into_iter().map(|seen| seen.at.map_or(Duration::ZERO, |at| at - start)).collect())
    }

    fn report(&self) -> RulesReport {
        RulesReport {
            cluster: self.cluster.id(),
            address: self.ports.listen.to_string(),
            clients: self.ports.clients.to_string(),
            subscribers: self.subscribers.iter().map(|it| it.borrow().clone()).collect(),
        }
    }
}

/// Waits until every data plane has seen something, and says what it had seen then.
async fn each(
    planes: &[watch::Receiver<Seen>],
    fails: &str,
    patience: Duration,
    is: impl Fn(&Seen) -> bool + Copy,
) -> anyhow::Result<Vec<Seen>> {
    let mut all = Vec::new();
    for plane in planes {
        let mut plane = plane.clone();
        let name = plane.borrow().name.clone();
        let late = || format!("{name} {fails} within {patience:?}");
        let seen = timeout(patience, plane.wait_for(|seen| is(seen))).await.ok().with_context(late)?;
        all.push(seen.with_context(|| format!("{name} ended"))?.clone());
    }
    Ok(all)
}

/// A data plane, for as long as the sandbox lives.
async fn subscribe(
    name: String,
    address: SocketAddr,
    seen: watch::Sender<Seen>,
    progress: Progress,
) -> anyhow::Result<()> {
    let wanted = Wanted {
        namespace: NAMESPACE.into(),
        app: APP.into(),
        kinds: vec![Kind::RateLimitStrategy],
        labels: Vec::new(),
        identifier: name.clone(),
    };
    let mut plane = Plane::new(Reach::Address(address.to_string()), wanted);
    loop {
        plane.reconnect(|error| tracing::debug!(name, error = format!("{error:#}"), "not connected")).await;
        loop {
            match plane.next().await {
                Ok(arrival) => {
                    progress.note(&line(&name, &arrival));
                    seen.send_modify(|seen| take(seen, &arrival));
                }
                Err(error) => {
                    progress.note(&format!("{name}: {error:#}; connecting again"));
                    break;
                }
            }
        }
    }
}

fn take(seen: &mut Seen, arrival: &Arrival) {
    let Taken::Rules(rules) = &arrival.taken else { return };
    let millis = || u64::try_from(since_process_start().as_millis()).unwrap_or(u64::MAX);
    seen.subscribed_ms.get_or_insert_with(millis);
    seen.pushes += 1;
    seen.version = Some(arrival.version());
    seen.at = Some(Instant::now());
    seen.threshold = rules.iter().find_map(|rule| match rule {
        Message::RateLimit(rule) => Some(rule.threshold),
        _ => None,
    });
}

fn line(name: &str, arrival: &Arrival) -> String {
    let version = arrival.version();
    match &arrival.taken {
        Taken::Rules(rules) => {
            let rules: Vec<String> = rules.iter().flat_map(text::rule).collect();
            let rules = if rules.is_empty() { "no rule".into() } else { rules.join("; ") };
            format!("{name} has version {version}: {rules}")
        }
        Taken::Outdated(held) => format!("{name} dropped version {version}, since it holds {held}"),
        Taken::Undecodable(why) => format!("{name} refused version {version}: {}", text::plain(why)),
        Taken::Refusal => format!("{name} was refused: {}", text::plain(arrival.status().1)),
    }
}

/// Milliseconds with one digit behind the point: more would pretend.
fn tenths(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_missed_a_change_is_named() {
        let (one, first) = watch::channel(Seen { name: "one".into(), ..Seen::default() });
        let (_two, second) = watch::channel(Seen { name: "two".into(), ..Seen::default() });
        one.send_modify(|seen| seen.threshold = Some(CHANGED));
        let changed = |seen: &Seen| seen.threshold == Some(CHANGED);
        let patience = Duration::from_secs(5);
        let seen = each(std::slice::from_ref(&first), "missed the change", patience, changed).await;
        assert_eq!(seen.expect("it has").len(), 1);
        let error =
            each(&[first, second], "missed the change", patience, changed).await.expect_err("it has not");
        assert_eq!(error.to_string(), "two missed the change within 5s");
    }

    #[tokio::test]
    async fn a_port_stays_a_controllers_own_while_it_is_away() {
        let ports = Ports::choose(0).expect("ports");
        assert!(ports.listen != ports.clients && ports.listen.ip().is_loopback());
        for _ in 0..2 {
            let listener = tokio::net::TcpListener::bind(ports.listen).await.expect("the controller gets it");
            assert!(hold(ports.listen.port()).is_err(), "nobody else does");
            drop(listener);
            assert!(hold(ports.listen.port()).is_err(), "nor while it is away");
        }
        assert_ne!(Ports::choose(0).expect("other ports").listen, ports.listen);
    }
}
