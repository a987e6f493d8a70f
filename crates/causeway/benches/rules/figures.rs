//! What the rounds came to, and what was aimed at.

use std::io::Write;

use prost::Message;

use crate::rounds::{Outcome, ROUNDS};
use crate::sample;
use crate::server::Kind;
use crate::table::{Grid, met};

/// The aims are for so many, and one rule.
const LARGE: usize = 10_000;
/// A third of what the Go control plane takes, in seconds.
const AIM_P99: f64 = 0.30;
/// What the Go control plane uses for a thousand pushes, in CPU seconds, and how much of that we may.
const GO_COST: f64 = 0.071;
const AIM_COST: f64 = 0.55;
/// What it holds for an idle subscriber, in KiB, and how much of that we may.
const GO_KIB: f64 = 62.0;
const AIM_KIB: f64 = 0.60;
/// Times what bare tonic uses.
const AIM_FLOOR: f64 = 1.3;

/// Prints all of it.
pub(crate) fn print(outcomes: &[Outcome], rules: usize) -> anyhow::Result<()> {
    let bytes = sample::response(rules, 0, 1).encoded_len();
    let set = if rules == 1 { "one rule".into() } else { format!("{rules} rules, of which one") };
    pushes(outcomes).print(&format!(
        "A set of {set} is edited {ROUNDS} times and sent to all, {bytes} bytes on a connection each"
    ))?;
    memory(outcomes).print("The server's memory")?;
    growth(outcomes)?;
    aims(outcomes, rules)
}

fn pushes(outcomes: &[Outcome]) -> Grid {
    let mut grid = Grid::new([
        "SERVER",
        "SUBSCRIBERS",
        "JOINED s",
        "P50 ms",
        "P99 ms",
        "MAX ms",
        "CPU s per 1,000",
        "CLIENTS' CPU s per 1,000",
        "OTHERS' cores",
    ]);
    for outcome in outcomes {
        let millis = |percent| format!("{:.1}", outcome.latency(percent) * 1e3);
        grid.row([
            outcome.kind.name().into(),
            outcome.size.to_string(),
            format!("{:.2}", outcome.joined.as_secs_f64()),
            millis(50),
            millis(99),
            millis(100),
            format!("{:.4}", outcome.server_cost()),
            format!("{:.4}", outcome.clients_cost()),
            format!("{:.2}", outcome.others),
        ]);
    }
    grid
}

fn memory(outcomes: &[Outcome]) -> Grid {
    let mut grid = Grid::new([
        "SERVER",
        "SUBSCRIBERS",
        "NOBODY MiB",
        "IDLE MiB",
        "IDLE KiB each",
        "AFTER MiB",
        "AFTER KiB each",
    ]);
    for outcome in outcomes {
        let mib = |kib: f64| format!("{:.1}", kib / 1024.0);
        grid.row([
            outcome.kind.name().into(),
            outcome.size.to_string(),
            mib(outcome.kib.empty),
            mib(outcome.kib.idle),
            format!("{:.1}", outcome.idle_kib()),
            mib(outcome.kib.after),
            format!("{:.1}", outcome.kib_after()),
        ]);
    }
    grid
}

/// From the smallest size to the largest.
fn growth(outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for kind in Kind::ALL {
        let mut all = outcomes.iter().filter(|outcome| outcome.kind == kind);
        let (Some(small), Some(large)) = (all.next(), all.next_back()) else { continue };
        writeln!(
            out,
            "{}, from {} to {}: p99 {:.1} times, CPU per push {:.2} times, memory each {:.2} times",
            kind.name(),
            small.size,
            large.size,
            large.latency(99) / small.latency(99),
            large.server_cost() / small.server_cost(),
            large.idle_kib() / small.idle_kib(),
        )?;
    }
    Ok(())
}

fn aims(outcomes: &[Outcome], rules: usize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for ours in outcomes.iter().filter(|outcome| outcome.kind == Kind::Causeway) {
        let Outcome { size, .. } = ours;
        let floor = outcomes.iter().find(|outcome| outcome.kind == Kind::Tonic && outcome.size == *size);
        if let Some(floor) = floor {
            let times = ours.server_cost() / floor.server_cost();
            let is_met = met(times <= AIM_FLOOR);
            writeln!(out, "{size}: CPU {times:.2} times bare tonic's (aim: {AIM_FLOOR}, {is_met})")?;
        }
        if *size != LARGE || rules != 1 {
            continue;
        }
        let (p99, cost, kib) = (ours.latency(99), ours.server_cost(), ours.idle_kib());
        writeln!(out, "{size}: p99 {p99:.3} s (aim: {AIM_P99:.2} s, {})", met(p99 <= AIM_P99))?;
        let (percent, aim) = (100.0 * cost / GO_COST, 100.0 * AIM_COST);
        let is_met = met(cost <= AIM_COST * GO_COST);
        writeln!(
            out,
            "{size}: CPU per push {percent:.0} % of the Go control plane's (aim: {aim:.0} %, {is_met})"
        )?;
        let (percent, aim) = (100.0 * kib / GO_KIB, 100.0 * AIM_KIB);
        let is_met = met(kib <= AIM_KIB * GO_KIB);
        writeln!(
            out,
            "{size}: memory each {percent:.0} % of the Go control plane's (aim: {aim:.0} %, {is_met})"
        )?;
    }
    Ok(())
}
