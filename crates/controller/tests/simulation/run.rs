//! One run from beginning to end.
//!
//! ```text
//! gateways, controllers, tunnels ─▶ what happens, in bad weather ─▶ calm ─▶ as declared ─▶ idle
//!                                ─▶ all tunnels deleted, in bad weather ─▶ calm ─▶ nothing left
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::actors;
use crate::bugs::Bug;
use crate::declared::Gateway;
use crate::judge::difference;
use crate::play::{PAUSE, Play};
use crate::replica::start_all;
use crate::world::World;

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// What held that never may, if anything.
    pub(crate) broken: Option<String>,
    /// The hash of all that happened, and how much that was.
    pub(crate) sum: (u64, u64),
    /// In simulated time.
    pub(crate) lasted: Duration,
    /// The last that happened.
    pub(crate) last: Vec<String>,
}

/// Everything is as declared within this after the last fault. A watch that has fallen silent is given up after five
/// minutes and a half, if it never was told a bookmark.
const PATIENCE: Duration = Duration::from_secs(420);
/// So long without a write is silence.
const SILENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(seed: u64, bug: Option<Bug>, aloud: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let world = World::new(seed, bug, aloud);
        let over = world.over.clone();
        over.run_until_cancelled(live(world.clone())).await;
        let trace = world.trace();
        let last = trace.last().cloned().collect();
        Report { broken: world.broken(), sum: trace.sum(), lasted: world.elapsed(), last }
    })
}

async fn live(world: Arc<World>) {
    world.note(format!("{:?}", world.weather()));
    actors::found(&world).await;
    let weather = world.weather();
    let handles = start_all(&world);
    let gateways: Vec<Gateway> = world.declared().gateways.values().cloned().collect();
    for gateway in &gateways {
        gateway.add(&world).await;
    }
    let mut play = Play::new(world.clone(), handles);
    let tunnels: Vec<(usize, String)> = world.declared().tunnels.keys().cloned().collect();
    for tunnel in tunnels.iter().filter(|_| world.dice.strikes(800)) {
        play.set_present(tunnel, true).await;
    }
    for _ in 0..world.dice.number(2..16) {
        sleep(world.dice.millis(0..u64::try_from(PAUSE.as_millis()).unwrap_or(1))).await;
        play.act().await;
    }
    play.settle().await;
    converge(&world, "after what happened").await;
    world.has_settled();

    world.set_weather(weather);
    for tunnel in &tunnels {
        play.set_present(tunnel, false).await;
    }
    sleep(world.dice.millis(0..20_000)).await;
    play.settle().await;
    converge(&world, "after all tunnels were deleted").await;
    let gateways: Vec<Gateway> = {
        let mut declared = world.declared();
        declared.gateways.values_mut().for_each(|gateway| gateway.present = false);
        declared.gateways.values().cloned().collect()
    };
    for gateway in &gateways {
        gateway.remove(&world).await;
    }
    converge(&world, "after all gateways were removed").await;
}

/// Everything comes to be as declared, and then stays so while nobody writes anything but Leases.
async fn converge(world: &World, when: &str) {
    let writes = || world.writes.load(Ordering::Relaxed);
    let since = Instant::now();
    let (mut seen, mut quiet) = (writes(), Instant::now());
    while quiet.elapsed() < SILENCE {
        sleep(Duration::from_secs(1)).await;
        let difference = difference(world);
        if difference.is_some() || writes() != seen {
            (seen, quiet) = (writes(), Instant::now());
        }
        if since.elapsed() > PATIENCE {
            let why = difference.unwrap_or_else(|| "something is written again and again".into());
            return world.violate(format!("{when}: {why}"));
        }
    }
    world.note(format!("{when}: as declared within {:?}", quiet - since));
}
