//! The whole system in one thread, in simulated time, from a seed: the API servers of two clusters and of a broker, their
//! controllers with the real client, gateways in memory.
//!
//! ```text
//! replica ─▶ the room, as in production ─▶ client ─▶ wire ─▶ site: an API server   ─▶ watchdog: it writes its own
//!                                       ─▶ passage ─▶ gateway: a pod in memory     ─▶ nothing foreign, no gap
//! play: what people, kube-ovn, kubelets and networks do      weather: what goes wrong at each message
//! judge: where it has to end                                 trace: what happened, in order
//! ```
//!
//! All chance of a run comes from its seed ([`dice`]) and all time from tokio, which is paused and goes on when nobody has
//! anything to do. So a seed that fails is all that is needed to see it fail again, step by step:
//! `make simulate SEED=<seed> RUNS=1` prints everything that happened.

mod actors;
mod asked;
mod bugs;
mod declared;
mod dice;
mod gateway;
mod judge;
mod lever;
mod monitor;
mod passage;
mod play;
mod replica;
mod run;
mod site;
mod trace;
mod watchdog;
mod weather;
mod wire;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bugs::Bug;
use run::{Report, run};

/// The first seed and the number of runs, where nothing else is said.
const SEED: u64 = 20_261_117;
const RUNS: u64 = 100;

/// A number from the environment.
fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

/// Runs seeds on all cores, in their order, until `look` has seen enough.
fn run_all(seeds: std::ops::Range<u64>, bug: Option<Bug>, look: impl Fn(u64, Report) -> bool + Sync) {
    let next = AtomicU64::new(seeds.start);
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if look(seed, run(seed, bug, false)) {
                next.store(seeds.end, Ordering::Relaxed);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(worker))));
}

/// A seed that failed, and how to see it fail again.
fn failure(seed: u64, report: &Report) -> String {
    let broken = report.broken.as_deref().unwrap_or_default();
    let last = report.last.join("\n");
    format!("{last}\nseed {seed}: {broken}\nreplay: make simulate SEED={seed} RUNS=1")
}

#[test]
fn whatever_happens_all_is_as_declared_in_the_end_and_nothing_foreign_was_touched() {
    let (first, count) = (given("CAUSEWAY_SEED").unwrap_or(SEED), given("CAUSEWAY_RUNS").unwrap_or(RUNS));
    if count == 1 {
        let report = run(first, None, true);
        eprintln!(
            "{} lines, hash {:016x}, {:?} of simulated time",
            report.sum.1, report.sum.0, report.lasted
        );
        assert!(report.broken.is_none(), "seed {first}: {}", report.broken.unwrap_or_default());
        return;
    }
    let (failed, lasted) = (Mutex::new(Vec::new()), Mutex::new(Duration::ZERO));
    let began = std::time::Instant::now();
    run_all(first..first + count, None, |seed, report| {
        *lasted.lock().expect("no panic") += report.lasted;
        if report.broken.is_some() {
            failed.lock().expect("no panic").push((seed, failure(seed, &report)));
        }
        false
    });
    let mut failed = failed.into_inner().expect("no panic");
    failed.sort();
    let hours = lasted.into_inner().expect("no panic").as_secs_f64() / 3600.0;
    eprintln!("{count} runs from seed {first}: {hours:.1} simulated hours in {:.1?}", began.elapsed());
    // The whole story of the first, and of the others what is broken.
    let others: Vec<&str> = failed.iter().skip(1).filter_map(|(_, text)| text.rsplit('\n').nth(1)).collect();
    assert!(failed.is_empty(), "{}\nalso: {others:#?}", failed[0].1);
}

#[test]
fn a_seed_gives_the_same_history_every_time() {
    for seed in SEED..SEED + 8 {
        let once = run(seed, None, false);
        let again = std::thread::spawn(move || run(seed, None, false)).join().expect("a run");
        assert_eq!((once.sum, once.lasted), (again.sum, again.lasted), "seed {seed}");
    }
    assert_ne!(run(SEED, None, false).sum, run(SEED + 1, None, false).sum);
}

/// A bug is found within so many seeds.
const FOUND_WITHIN: u64 = 300;

/// Plants a bug, and gives what the first seed says of it that finds it.
fn found(bug: Bug) -> String {
    let first: Mutex<Option<(u64, String)>> = Mutex::default();
    run_all(1..1 + FOUND_WITHIN, Some(bug), |seed, report| {
        let Some(broken) = report.broken else { return false };
        let mut first = first.lock().expect("no panic");
        if first.as_ref().is_none_or(|(before, _)| seed < *before) {
            *first = Some((seed, broken));
        }
        true
    });
    let found = first.into_inner().expect("no panic");
    let (seed, broken) = found.unwrap_or_else(|| panic!("{bug:?} is not found within {FOUND_WITHIN} seeds"));
    eprintln!("{bug:?} is found by seed {seed}: {broken}");
    broken
}

#[test]
fn who_acts_only_on_what_it_sees_happen_is_found() {
    let broken = found(Bug::EdgeTriggered);
    assert!(broken.starts_with("after "), "it never comes to be as declared: {broken}");
}

#[test]
fn who_writes_over_what_it_has_not_seen_is_found() {
    let broken = found(Bug::UnguardedWrite);
    assert!(broken.contains("a finalizer of another was touched"), "{broken}");
}

#[test]
fn who_drops_before_it_puts_is_found() {
    let broken = found(Bug::DropBeforePut);
    assert!(broken.contains("had no way for a moment"), "{broken}");
}

#[test]
fn who_forgets_its_finalizer_is_found() {
    let broken = found(Bug::ForgottenFinalizer);
    assert!(broken.contains("still held something of it"), "{broken}");
}

#[test]
fn who_takes_a_stale_read_for_the_truth_is_found() {
    let broken = found(Bug::StaleRead);
    assert!(broken.starts_with("after "), "it never comes to be as declared: {broken}");
}
