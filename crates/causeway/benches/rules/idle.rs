//! Ten thousand subscribers, a thousand rules, and a minute in which nothing happens.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep, timeout};

use crate::crowd::Crowd;
use crate::framing::Wire;
use crate::rounds::number;
use crate::server::Server;
use crate::site::Site;
use crate::table::{met, seconds};

const SUBSCRIBERS: usize = 10_000;
const RULES: usize = 1_000;
const APPS: usize = 100;
const SECONDS: usize = 60;
/// Without a request for so long, the controller is at rest.
const REST: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(180);

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let subscribers = number("IDLE_SUBSCRIBERS")?.unwrap_or(SUBSCRIBERS);
    let time = Duration::from_secs(number("IDLE_SECONDS")?.unwrap_or(SECONDS) as u64);
    let server =
        Server::controller(Site::start(RULES, APPS).await?, &["--lease-namespace", "default"]).await?;
    let joining = Crowd::join(Wire::Grpc, server.address, subscribers, APPS);
    let mut crowd = timeout(PATIENCE, joining).await.context("not all were answered")??;
    let site = server.site.as_ref().context("it has a site")?;
    timeout(PATIENCE, at_rest(site)).await.context("the controller does not come to rest")?;

    let (requests, messages, cpu) = (site.requests(), crowd.messages().await?, server.process.cpu()?);
    let start = Instant::now();
    sleep(time).await;
    let (elapsed, cpu) = (start.elapsed(), server.process.cpu()? - cpu);
    let (asked, pushed) = (since(&site.requests(), &requests), crowd.messages().await? - messages);
    let mib = server.process.resident_kib()? / 1024.0;
    crowd.end().await?;

    let mut out = std::io::stdout().lock();
    let percent = 100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64();
    writeln!(
        out,
        "\n{subscribers} subscribers and {RULES} rules of {APPS} apps, idle for {} s",
        seconds(elapsed)
    )?;
    writeln!(out, "  {} CPU s, {percent:.2} % of a core, {mib:.0} MiB", seconds(cpu))?;
    writeln!(out, "  {pushed} pushes (aim: none, {})", met(pushed == 0))?;
    let count: u64 = asked.values().sum();
    let is_met = met(count == 0);
    writeln!(out, "  {count} requests beside watches and leases (aim: none, {is_met}) {asked:?}")?;
    drop(out);
    server.end().await
}

/// Waits until nothing is asked for but watches and Leases.
async fn at_rest(site: &Site) {
    loop {
        let before = site.requests();
        sleep(REST).await;
        if site.requests() == before {
            return;
        }
    }
}

fn since(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let past = |what| before.get(what).copied().unwrap_or_default();
    let new = now.iter().map(|(what, count)| (what.clone(), count - past(what)));
    new.filter(|(_, count)| *count > 0).collect()
}
