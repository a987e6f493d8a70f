//! The clock that all processes of the machine share.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The present instant, in microseconds since the machine's start.
pub(crate) fn micros() -> anyhow::Result<u64> {
    let now: Duration = clock_gettime(ClockId::CLOCK_MONOTONIC)?.into();
    Ok(u64::try_from(now.as_micros())?)
}
