//! How long this process has been running, its program's loading included.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Ticks per second in `/proc`, the same on every Linux.
const TICKS: u64 = 100;

/// Time since the process started, to a hundredth of a second; zero where /proc does not say.
pub(super) fn since_process_start() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    started(&stat).map_or(Duration::ZERO, |start| now.saturating_sub(start))
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Field 22, counted behind the command's name, which may hold spaces.
fn started(stat: &str) -> Option<Duration> {
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_read_behind_a_name_with_spaces() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        assert_eq!(started(stat), Some(Duration::from_millis(123_450)));
    }

    #[test]
    fn this_process_started_a_little_while_ago() {
        assert!(since_process_start() < Duration::from_secs(3600));
    }
}
