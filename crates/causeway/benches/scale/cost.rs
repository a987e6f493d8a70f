//! CPU time of processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// What the kernel counts in towards processes, whatever it does itself.
const TICKS_A_SECOND: f64 = 100.0;

/// Of a running process, those of its threads that have ended included.
pub(crate) fn process(pid: Pid) -> anyhow::Result<Duration> {
    Ok(clock_gettime(clock_getcpuclockid(pid)?)?.into())
}

/// Of every command that has ended so far, in the gateways and elsewhere.
pub(crate) fn children() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// Of everything that ran in the network namespace of a process: what has ended, as far as it was a command of ours, and what
/// still runs, with all that it has waited for.
pub(crate) fn inside(pid: u32) -> anyhow::Result<Duration> {
    let home = std::fs::read_link(format!("/proc/{pid}/ns/net"))?;
    let processes = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let is_inside = |path: &PathBuf| std::fs::read_link(path.join("ns/net")).is_ok_and(|net| net == home);
    let ticks: u64 = processes.filter(is_inside).filter_map(|path| ticks(&path)).sum();
    Ok(children()? + Duration::from_secs_f64(ticks as f64 / TICKS_A_SECOND))
}

/// Of one process and those that it has waited for. Whoever ended meanwhile has none.
fn ticks(process: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(process.join("stat")).ok()?;
    // Its name may hold anything, and ends with the last bracket.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}
