//! CPU time of processes.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

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
