//! How long ago something was, as kubectl puts it.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// `45s`, `3m12s`, `5h`, `2d4h`, `400d`: the finer, the shorter ago. Two clocks may differ by a second.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - since.as_second();
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => both(seconds, (MINUTE, 'm'), (1, 's')),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => both(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => both(seconds, (DAY, 'd'), (HOUR, 'h')),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => both(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// In two units, or in one where nothing is left for the other.
fn both(seconds: i64, (large, name): (i64, char), (small, small_name): (i64, char)) -> String {
    match seconds % large / small {
        0 => format!("{}{name}", seconds / large),
        rest => format!("{}{name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(seconds: i64) -> String {
        let since = Timestamp::from_second(1_700_000_000).expect("a time");
        age(since, Timestamp::from_second(1_700_000_000 + seconds).expect("a time"))
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        let ages = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (5 * DAY + 3 * HOUR, "5d3h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR + DAY, "2y1d"),
            (3 * YEAR, "3y"),
            (9 * YEAR + 5 * DAY, "9y"),
        ];
        for (seconds, words) in ages {
            assert_eq!(after(seconds), words, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn any_two_times_have_an_age_that_is_short(since in any::<i64>(), now in any::<i64>()) {
            let time = |seconds: i64| Timestamp::from_second(seconds % 200_000_000_000).unwrap_or_default();
            let age = age(time(since), time(now));
            prop_assert!(!age.is_empty() && age.len() <= 9, "{}", age);
        }
    }
}
