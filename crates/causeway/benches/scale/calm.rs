//! A thousand tunnels on one gateway, idle, on a machine that is not: whoever is slow must not be called broken.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use causeway_api::vpc::VpcNatTunnel;
use futures::StreamExt;
use k8s_openapi::api::events::v1::Event as Occurrence;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cluster::{Cluster, is_ready};
use crate::gateways::Gateways;
use crate::objects::NAMESPACE;
use crate::shape::Shape;
use crate::stage::Stage;
use crate::table::{met, seconds, sizes};

const LOOPS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// What was heard while nothing should happen.
#[derive(Default)]
struct Heard {
    /// Which of the tunnels are ready, by the last that was heard.
    ready: BTreeMap<String, bool>,
    /// Tunnels that left Ready, as often as they did, with the reason.
    left: Vec<String>,
    /// Events, by name and version.
    events: BTreeMap<String, String>,
    /// What they said.
    said: Vec<String>,
}

/// Measures and prints. `CALM_MINUTES` says how long, ten minutes otherwise.
pub(crate) async fn run() -> anyhow::Result<()> {
    let minutes: f64 = match std::env::var("CALM_MINUTES") {
        Ok(text) => text.parse().context("CALM_MINUTES")?,
        Err(_) => 10.0,
    };
    for size in sizes([1_000])? {
        measure(size, Duration::from_secs_f64(60.0 * minutes)).await?;
    }
    Ok(())
}

async fn measure(size: usize, time: Duration) -> anyhow::Result<()> {
    let mut stage = Stage::set(Gateways::create(1)?, Shape { gateways: 1, peers: size }).await?;
    let built = stage.build(size).await?;
    let (requests, cpu, ran) = (stage.cluster.requests().await?, stage.controller.cpu()?, stage.exec.clock());
    let loops: Vec<Child> = (0..LOOPS).map(|_| busy_loop()).collect::<anyhow::Result<_>>()?;
    let mut heard = Heard::default();
    let listened = tokio::select! {
        listened = heard.listen(&stage.cluster, time) => listened,
        ended = stage.controller.ended() => Err(ended),
    };
    for mut busy in loops {
        // Each is our own child, so its id is still its own.
        busy.kill().await?;
    }
    listened?;
    let cpu = stage.controller.cpu()? - cpu;
    let (asked, ran) =
        (stage.cluster.requests().await?.since(&requests), stage.exec.clock().ended - ran.ended);
    let resident = stage.controller.resident_mib()?;
    let all = stage.cluster.tunnels().list(&ListParams::default()).await?;
    let ready = all.iter().filter(|tunnel| is_ready(tunnel)).count();
    ensure!(heard.ready.len() == size, "{} of {size} tunnels were watched", heard.ready.len());
    stage.clear(size).await?;
    stage.end().await?;

    let mut out = std::io::stdout().lock();
    let minutes = time.as_secs_f64() / 60.0;
    writeln!(out, "\n{size} tunnels on one gateway, idle for {minutes} minutes beside {LOOPS} busy loops")?;
    writeln!(out, "  ready after {} s, {ready} ready at the end", seconds(built.up))?;
    let (left, events) = (heard.left.len(), heard.said.len());
    writeln!(
        out,
        "  left Ready: {left}; events: {events} (aim: none, {})",
        met(left == 0 && events == 0 && ready == size)
    )?;
    for what in heard.left.iter().chain(&heard.said).take(10) {
        writeln!(out, "    {what}")?;
    }
    let kinds: Vec<String> =
        asked.kinds().into_iter().map(|(what, count)| format!("{what} {count}")).collect();
    let kinds = if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") };
    writeln!(out, "  {} CPU s, {resident:.0} MiB, {ran} commands; asked for: {kinds}", seconds(cpu))?;
    Ok(())
}

fn busy_loop() -> anyhow::Result<Child> {
    let mut command = Command::new("bash");
    command.args(["-c", "while :; do :; done"]).kill_on_drop(true);
    command.stdin(Stdio::null()).spawn().context("cannot run bash")
}

impl Heard {
    /// Listens for so long, from when everything has been listed.
    async fn listen(&mut self, cluster: &Cluster, time: Duration) -> anyhow::Result<()> {
        let occurrences = Api::<Occurrence>::namespaced(cluster.client(), NAMESPACE);
        let mut tunnels = std::pin::pin!(watcher(cluster.tunnels(), watcher::Config::default()));
        let mut events = std::pin::pin!(watcher(occurrences, watcher::Config::default()));
        let listed = async {
            loop {
                match tunnels.next().await.context("the watch ended")?? {
                    Event::InitDone => break,
                    event => self.tunnel(event),
                }
            }
            loop {
                match events.next().await.context("the watch ended")?? {
                    Event::InitDone => return anyhow::Ok(()),
                    event => drop(self.is_news(event)),
                }
            }
        };
        timeout(PATIENCE, listed).await.context("the lists")??;
        self.left.clear();
        let end = Instant::now() + time;
        loop {
            tokio::select! {
                () = sleep_until(end) => return Ok(()),
                // A watch that breaks is begun again, and what is different then is news too.
                event = tunnels.next() => match event {
                    Some(Ok(event)) => self.tunnel(event),
                    Some(Err(_)) => {}
                    None => bail!("the watch of tunnels ended"),
                },
                event = events.next() => match event {
                    Some(Ok(event)) => if let Some(said) = self.is_news(event) {
                        self.said.push(said);
                    },
                    Some(Err(_)) => {}
                    None => bail!("the watch of events ended"),
                },
            }
        }
    }

    fn tunnel(&mut self, event: Event<VpcNatTunnel>) {
        match event {
            Event::Apply(tunnel) | Event::InitApply(tunnel) => {
                let (name, ready) = (tunnel.name_any(), is_ready(&tunnel));
                if self.ready.insert(name.clone(), ready) != Some(ready) && !ready {
                    let conditions = tunnel.status.iter().flat_map(|status| &status.conditions);
                    let why = conditions.into_iter().find(|condition| condition.type_ == "Ready");
                    self.left.push(format!("{name}: {}", why.map_or("", |why| &why.reason)));
                }
            }
            Event::Delete(tunnel) => self.left.push(format!("{}: deleted", tunnel.name_any())),
            Event::Init | Event::InitDone => {}
        }
    }

    fn is_news(&mut self, event: Event<Occurrence>) -> Option<String> {
        let (Event::Apply(event) | Event::InitApply(event)) = event else { return None };
        let version = event.resource_version().unwrap_or_default();
        let before = self.events.insert(event.name_any(), version.clone());
        let what =
            || event.regarding.as_ref().and_then(|regarding| regarding.name.clone()).unwrap_or_default();
        let (reason, note) = (event.reason.as_deref(), event.note.as_deref());
        let said = || format!("{}: {} {}", what(), reason.unwrap_or_default(), note.unwrap_or_default());
        (before.as_ref() != Some(&version)).then(said)
    }
}
