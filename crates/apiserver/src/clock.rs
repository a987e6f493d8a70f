//! The server's time: a wall-clock base taken (or given) at start, plus what `tokio` says has
//! passed since. Paused or simulated `tokio` time therefore moves creation stamps, ages and
//! time-outs together.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::time::Instant;

/// Where "now" comes from.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    base: Timestamp,
    start: Instant,
}

impl Clock {
    pub(crate) fn starting_at(base: Option<SystemTime>) -> Self {
        let base = base.and_then(|given| Timestamp::try_from(given).ok()).unwrap_or_else(Timestamp::now);
        Clock { base, start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.base.checked_add(self.start.elapsed()).unwrap_or(self.base)
    }

    /// Whole seconds, as object metadata carries them.
    pub(crate) fn stamp(&self) -> String {
        seconds(self.now())
    }

    /// With microseconds.
    pub(crate) fn micro_stamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }

    /// `after` from now, in whole seconds.
    pub(crate) fn stamp_in(&self, after: Duration) -> String {
        seconds(self.now().checked_add(after).unwrap_or(self.base))
    }

    /// How long ago an RFC 3339 instant was, in the short form of `kubectl get`.
    pub(crate) fn age(&self, since: &str) -> String {
        match since.parse::<Timestamp>() {
            Ok(then) => human(self.now().as_second() - then.as_second()),
            Err(_) => "<invalid>".to_owned(),
        }
    }
}

/// RFC 3339 in whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether a text is an instant just as RFC 3339 writes it; a parser of times takes much more.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    let (Some(day), Some(rest)) = (text.get(..10), text.get(10..)) else { return false };
    let Some(rest) = rest.strip_prefix('T') else { return false };
    let (Some(time), Some(zone)) = (rest.get(..8), rest.get(8..)) else { return false };
    let zone = match zone.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => zone,
    };
    let digits = |text: &str, between: char| {
        text.chars().enumerate().all(|(at, c)| if at % 3 == 2 { c == between } else { c.is_ascii_digit() })
    };
    let zoned = zone == "Z"
        || zone.strip_prefix(['+', '-']).is_some_and(|offset| offset.len() == 5 && digits(offset, ':'));
    let dated = day.get(2..).is_some_and(|rest| digits(rest, '-'));
    dated && digits(time, ':') && zoned && text.parse::<Timestamp>().is_ok()
}

/// At most two units, ever coarser with age: `45s`, `3m20s`, `5h`, `2d3h`.
fn human(seconds: i64) -> String {
    let two = |big: i64, unit: char, small: i64, sub: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::{human, is_rfc3339};

    #[test]
    fn only_plain_instants_are_taken() {
        for good in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05+01:00"] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in [
            "2026-01-02 03:04:05Z",
            "20260102T030405Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05Z[UTC]",
            "2026-01-02T03:04Z",
            "2026-13-02T03:04:05Z",
            "2026-01-02T03:04:05+0100",
            "üüüüüT",
            "",
        ] {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }

    #[test]
    fn ages_grow_coarser_with_time() {
        let cases = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (200, "3m20s"),
            (660, "11m"),
            (11_000, "3h3m"),
            (90_000, "25h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(seconds), text);
        }
        assert_eq!(human(3 * 86_400 + 7200), "3d2h");
    }
}
