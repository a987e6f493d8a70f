//! How long a new tunnel takes until it carries its first packet.
//!
//! A round creates both ends through the API and asks the far server every millisecond, from the
//! client's namespace, until an answer comes back; then it deletes both ends and waits until they
//! are gone. Every question has a socket of its own: a gateway remembers what it did to a flow's
//! first packet, so one that came too early must not decide for those after it.
//!
//! Invariant: a round starts only when a question stays unanswered, so no answer comes through
//! the tunnel of the round before.

use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_api::vpc::VpcNatTunnel;
use futures::future::try_join_all;
use kube::Api;
use kube::api::DeleteParams;
use serde::Serialize;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::addresses::{Cluster, Role, WORKLOADS};
use super::apply;
use super::echo::PORT;
use super::netns::Namespace;
use super::progress::Progress;
use super::site::Site;
use super::tunnel;

/// Between two questions: the most that asking adds to a sample.
const PACE: Duration = Duration::from_millis(1);
/// Long enough for an answer if there is a way for it.
const SILENCE: Duration = Duration::from_millis(50);
/// How long a question is waited for; bounds how many sockets are open at once.
const MEMORY: Duration = Duration::from_millis(500);
/// Between rounds, so that none finds the gateways still busy with the one before.
const REST: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(10);

/// What the rounds showed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measurement {
    /// How many rounds there were.
    pub(super) rounds: usize,
    /// Half of the rounds were at least this fast.
    pub(super) p50_ms: f64,
    /// The slowest round.
    pub(super) worst_ms: f64,
    /// In the order of the rounds.
    pub(super) samples_ms: Vec<f64>,
}

impl Measurement {
    pub(super) fn of(samples: &[Duration]) -> Measurement {
        let samples_ms: Vec<f64> = samples.iter().map(|sample| tenths(*sample)).collect();
        let mut sorted = samples_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        Measurement {
            rounds: samples.len(),
            p50_ms: at(samples.len().saturating_sub(1) / 2),
            worst_ms: at(samples.len().saturating_sub(1)),
            samples_ms,
        }
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let (p50, worst, rounds) = (self.p50_ms, self.worst_ms, self.rounds);
        let mut text =
            format!("first packet through a new tunnel: p50 {p50} ms, worst {worst} ms of {rounds}\n");
        for line in self.samples_ms.chunks(10) {
            let line: Vec<String> = line.iter().map(|sample| format!("{sample:7.1}")).collect();
            let _ = writeln!(text, "  {}", line.join(" "));
        }
        text
    }
}

/// Milliseconds with one digit behind the point: more would pretend.
fn tenths(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Measures `rounds` new tunnels between the first two clusters, one after another.
pub(super) async fn run(
    sites: &[Site],
    rounds: u16,
    patience: Duration,
    progress: &Progress,
) -> anyhow::Result<Measurement> {
    let [near, far, ..] = sites else { anyhow::bail!("two clusters are needed") };
    progress.stage("waiting for the pods");
    let roles = [Role::Client, Role::Server].into_iter().chain(tunnel_gateways());
    let pods = roles.flat_map(|role| [near.running.wait_for(role), far.running.wait_for(role)]);
    timeout(patience, futures::future::join_all(pods)).await.context("the pods did not start")?;
    let client = near.running.wait_for(Role::Client).await;
    let target = far.cluster.server_global();
    progress.stage("measuring the first packet");
    let mut samples = Vec::new();
    for round in 1..=rounds {
        sleep(REST).await;
        let asker = Asker { namespace: &client.net.namespace, target, round };
        ensure!(!asker.answered().await?, "an answer came before round {round} had a tunnel");
        let ends = Ends::new(near, far, &format!("m{round}"));
        let sample = timeout(patience, first_packet(&asker, &ends)).await;
        samples.push(sample.with_context(|| format!("no packet in round {round} within {patience:?}"))??);
        timeout(patience, ends.delete()).await.context("a deleted tunnel stays")??;
    }
    Ok(Measurement::of(&samples))
}

fn tunnel_gateways() -> impl Iterator<Item = Role> {
    Role::ALL.into_iter().filter(|role| matches!(role, Role::Gateway(_)))
}

async fn first_packet(asker: &Asker<'_>, ends: &Ends<'_>) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let (came, ()) = tokio::try_join!(asker.first_answer(), ends.create())?;
    Ok(came - start)
}

/// Both ends of one round's tunnel.
struct Ends<'a> {
    sites: [&'a Site; 2],
    objects: Vec<tunnel::Placed>,
    name: String,
}

impl<'a> Ends<'a> {
    fn new(near: &'a Site, far: &'a Site, name: &str) -> Ends<'a> {
        let clusters: [Cluster; 2] = [near.cluster, far.cluster];
        let mut objects = tunnel::demo(&clusters);
        for (_, object) in &mut objects {
            object["metadata"]["name"] = name.into();
        }
        Ends { sites: [near, far], objects, name: name.into() }
    }

    async fn create(&self) -> anyhow::Result<()> {
        let put = |(at, object): &tunnel::Placed| apply::one(&self.sites[*at].client, object.clone());
        try_join_all(self.objects.iter().map(put)).await.map(drop)
    }

    /// Deletes both and waits until nothing is left of them.
    async fn delete(&self) -> anyhow::Result<()> {
        let gone = |site: &'a Site| async move {
            let api = Api::<VpcNatTunnel>::namespaced(site.client.clone(), WORKLOADS);
            api.delete(&self.name, &DeleteParams::default()).await?;
            while api.get_opt(&self.name).await?.is_some() {
                sleep(POLL).await;
            }
            anyhow::Ok(())
        };
        try_join_all(self.sites.map(gone)).await.map(drop)
    }
}

/// Asks the far server from the client's namespace.
struct Asker<'a> {
    namespace: &'a Namespace,
    target: Ipv4Addr,
    round: u16,
}

impl Asker<'_> {
    /// Asks until the first answer, and says when it came.
    async fn first_answer(&self) -> anyhow::Result<Instant> {
        let mut asked = JoinSet::new();
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for number in 0_u32.. {
            tokio::select! {
                Some(Ok(Ok(Some(came)))) = asked.join_next(), if !asked.is_empty() => return Ok(came),
                _ = pace.tick() => {
                    let socket = self.namespace.run(open).await??;
                    let question = format!("round {} question {number}", self.round);
                    asked.spawn(timeout(MEMORY, ask(socket, self.target, question)));
                }
            }
        }
        anyhow::bail!("no question was answered")
    }

    /// Whether one question is answered.
    async fn answered(&self) -> anyhow::Result<bool> {
        let socket = self.namespace.run(open).await??;
        let question = format!("round {} too early", self.round);
        Ok(matches!(timeout(SILENCE, ask(socket, self.target, question)).await, Ok(Some(_))))
    }
}

/// When the answer to one question came; nothing when it was refused on its way.
async fn ask(socket: UdpSocket, target: Ipv4Addr, question: String) -> Option<Instant> {
    let target = SocketAddr::from((target, PORT));
    socket.send_to(question.as_bytes(), target).await.ok()?;
    let mut buffer = [0; 64];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.ok()?;
        if from == target && buffer[..length] == *question.as_bytes() {
            return Some(Instant::now());
        }
    }
}

/// A socket with a port of its own. Runs on the namespace's thread, which has entered the runtime.
fn open() -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_worst_are_printed_in_tenths_of_milliseconds() {
        let micros = [90_040, 80_000, 120_000, 70_000].map(Duration::from_micros);
        let measured = Measurement::of(&micros);
        assert_eq!(measured.samples_ms, [90.0, 80.0, 120.0, 70.0]);
        assert_eq!((measured.rounds, measured.p50_ms, measured.worst_ms), (4, 80.0, 120.0));
        assert!(
            measured.text().starts_with("first packet through a new tunnel: p50 80 ms, worst 120 ms of 4\n")
        );
    }
}
