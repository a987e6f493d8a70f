//! What the bad ones' presence came to.

use std::io::Write;

use super::{EDITS, HEALTHY, Outcome, Phase, RULES};
use crate::rounds::percentile;
use crate::table::{Grid, met};
use crate::unruly::Vice;

/// By how much latencies may differ.
const AIM: f64 = 0.1;

/// Prints all of it.
pub(crate) fn print(outcome: &Outcome) -> anyhow::Result<()> {
    let Outcome { without, with, .. } = outcome;
    let mut grid = Grid::new(["BAD ONES", "P50 ms", "P99 ms", "MAX ms", "STATUS WRITES"]);
    for (name, phases) in [("none", without), ("three", with)] {
        let (latencies, requests) =
            (in_order(phases), phases.iter().map(|phase| phase.requests).sum::<u64>());
        let millis = |percent| format!("{:.2}", percentile(&latencies, percent) * 1e3);
        grid.row([name.into(), millis(50), millis(99), millis(100), requests.to_string()]);
    }
    let (odd, even) = (in_order(without.iter().step_by(2)), in_order(without.iter().skip(1).step_by(2)));
    let (without, with) = (in_order(without), in_order(with));
    let rounds = outcome.with.len();
    grid.print(&format!(
        "{HEALTHY} healthy clients, {RULES} rules of which one is edited, {rounds} rounds of {EDITS} edits each way"
    ))?;

    let mut out = std::io::stdout().lock();
    for percent in [50, 99] {
        let ratio = |one, other| percentile(one, percent) / percentile(other, percent);
        let (times, noise) = (ratio(&with, &without), ratio(&even, &odd));
        let is_met = met((times - 1.0).abs() < AIM);
        writeln!(
            out,
            "p{percent} with the bad ones {times:.3} times that without (aim: within {AIM} of 1, {is_met}); \
             among the rounds without, even by odd: {noise:.3}"
        )?;
    }
    for (vice, times) in Vice::ALL.iter().zip(&outcome.times) {
        let did = match vice {
            Vice::ReadsNothing => "came, asked and read nothing",
            Vice::Leaves => "left in the middle of a message",
            Vice::Refuses => "refused a set without a status",
        };
        writeln!(out, "  {did}: {times} times")?;
    }
    match outcome.stuck {
        (0, there) => writeln!(out, "  nobody was disconnected for being stuck; one stayed for {there:.0?}")?,
        (count, there) => {
            writeln!(out, "  disconnected for being stuck: {count} times, after {there:.1?} the last time")?;
        }
    }
    writeln!(out, "others used {:.2} cores meanwhile", outcome.others)?;
    Ok(())
}

fn in_order<'a>(phases: impl IntoIterator<Item = &'a Phase>) -> Vec<u64> {
    let mut all: Vec<u64> = phases.into_iter().flat_map(|phase| phase.latencies.clone()).collect();
    all.sort_unstable();
    all
}
