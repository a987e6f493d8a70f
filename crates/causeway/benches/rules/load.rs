//! Who else uses the cores meanwhile.

use std::time::{Duration, Instant};

use anyhow::Context;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

/// A moment, with what all and this process had used until then.
pub(crate) struct Load {
    at: Instant,
    all: Duration,
    own: Duration,
}

impl Load {
    pub(crate) fn now() -> anyhow::Result<Load> {
        let own = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into();
        Ok(Load { at: Instant::now(), all: used()?, own })
    }

    /// How many cores others have used since then, beside this process and children that used so much.
    pub(crate) fn others(&self, children: Duration) -> anyhow::Result<f64> {
        let now = Load::now()?;
        let ours = now.own - self.own + children;
        let others = (now.all - self.all).saturating_sub(ours);
        Ok(others.as_secs_f64() / (now.at - self.at).as_secs_f64())
    }
}

/// CPU time that all processes used, and what the machine itself was denied; not that of interrupts, which are ours too.
fn used() -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("/proc/stat")?;
    let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    // The order is: user, nice, system, idle, waiting, interrupts, soft interrupts, stolen.
    let used: u64 = [0, 1, 2, 7].iter().filter_map(|at| ticks.get(*at)).sum();
    let each = sysconf(SysconfVar::CLK_TCK)?.context("the length of a tick")?;
    Ok(Duration::from_secs_f64(used as f64 / each as f64))
}
