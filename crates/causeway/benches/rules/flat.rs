//! A hundred thousand changes as fast as the API server takes them, and what the controller holds meanwhile.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::{Instant, sleep, timeout};

use crate::bad::Bad;
use crate::clock;
use crate::crowd::Crowd;
use crate::framing::Wire;
use crate::rounds::number;
use crate::server::{Kind, Server};
use crate::table::{Grid, met, seconds};
use crate::unruly::Vice;

const CHANGES: usize = 100_000;
const HEALTHY: usize = 10;
const RULES: usize = 60;
/// After so many the controller's memory is looked at.
const LOOKS: [usize; 4] = [1_000, 10_000, 25_000, 50_000];
/// What it holds then is what it may hold, but for a tenth.
const WARM: usize = 10_000;
const AIM: f64 = 1.1;
/// Before the first change.
const SETTLING: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// The controller after so many changes.
struct Look {
    changes: usize,
    after: Duration,
    kib: f64,
    /// That each healthy subscriber got so far, on average.
    messages: u64,
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let changes = number("FLAT_CHANGES")?.unwrap_or(CHANGES);
    let server = Server::start(Kind::Causeway, RULES).await?;
    let joining = Crowd::join(Wire::Grpc, server.address, HEALTHY, 1);
    let mut crowd = timeout(PATIENCE, joining).await.context("not all were answered")??;
    let bad = Bad::join(&[Vice::ReadsNothing], server.address).await?;
    sleep(SETTLING).await;

    let site = server.site.as_ref().context("it has a site")?;
    let before = server.process.resident_kib()?;
    let start = Instant::now();
    let (mut looks, mut done) = (Vec::new(), 0);
    for next in LOOKS.into_iter().filter(|look| *look < changes).chain([changes]) {
        // The last of them is the first rule's, and tells each client that it has them all.
        site.edit_others(RULES - 1, done + 1..next).await?;
        let instant = clock::micros()?;
        let reached = async { timeout(PATIENCE, crowd.all_have(instant)).await.context("not all got it")? };
        tokio::try_join!(site.edit(instant), reached)?;
        done = next;
        let (after, kib) = (start.elapsed(), server.process.resident_kib()?);
        let states = crowd.states().await?;
        let expected = site.state().await?;
        ensure!(states.iter().all(|state| *state == expected), "not all have the state after {next} changes");
        looks.push(Look { changes: next, after, kib, messages: crowd.messages().await? / HEALTHY as u64 });
    }
    let stuck = server.stuck_streams().await?;
    bad.end().await?;
    crowd.end().await?;
    server.end().await?;
    print(before, &looks, stuck)
}

fn print(before: f64, looks: &[Look], stuck: u64) -> anyhow::Result<()> {
    let mut grid = Grid::new(["CHANGES", "AFTER s", "MiB", "MESSAGES each"]);
    let mib = |kib: f64| format!("{:.1}", kib / 1024.0);
    grid.row(["0".into(), "0".into(), mib(before), "1".into()]);
    for look in looks {
        grid.row([look.changes.to_string(), seconds(look.after), mib(look.kib), look.messages.to_string()]);
    }
    grid.print(&format!(
        "{RULES} rules that change all the time, {HEALTHY} healthy subscribers and one that reads nothing"
    ))?;
    let mut out = std::io::stdout().lock();
    let warm = looks.iter().find(|look| look.changes == WARM);
    if let (Some(warm), Some(last)) = (warm, looks.last()) {
        let (times, is_met) = (last.kib / warm.kib, met(last.kib <= AIM * warm.kib));
        writeln!(
            out,
            "after {} changes {times:.2} times what it was after {WARM} (aim: {AIM}, {is_met})",
            last.changes
        )?;
    }
    writeln!(out, "  every healthy subscriber had the last state each time")?;
    match stuck {
        0 => writeln!(out, "  the one that reads nothing stayed connected: it was too short for more")?,
        count => writeln!(out, "  the one that reads nothing was disconnected {count} times, and came back")?,
    }
    Ok(())
}
