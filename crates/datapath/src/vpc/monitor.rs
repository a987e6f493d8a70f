//! What the long-lived command in a gateway reads and prints.

use std::sync::LazyLock;
use std::time::Duration;

use super::Digest;
use super::commands::{START, lean};

/// How a heartbeat begins.
const ALIVE: &str = "causeway-alive";

static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    lean(&[
        // Nobody waits for a sentence of it: an observation says in clearer words what is missing.
        "finish() { exit \"$1\"; }",
        include_str!("find.sh"),
        include_str!("observe.sh"),
        include_str!("monitor.sh"),
    ])
});

/// The long-lived command that reports changes. It begins with what is written to it first ([`Monitor::input`]), ends
/// with its input, and leaves no process behind. Whoever observes after [`Heard::Listening`] misses nothing that the
/// kernel reports; what it does not report, the digests show.
#[derive(Debug, Clone, Copy)]
pub struct Monitor;

impl Monitor {
    /// The constant command.
    pub fn argv() -> [&'static str; 4] {
        ["bash", "-c", &START, "causeway-monitor"]
    }

    /// What it is to read first. It lists what the gateway holds after every interval.
    pub fn input(interval: Duration) -> Vec<u8> {
        let seconds = format!("{:.3}", interval.as_secs_f64());
        format!("{} {}\n{}{seconds}", SCRIPT.len(), seconds.len(), *SCRIPT).into_bytes()
    }

    /// What makes it list at once; the number comes back with the digest.
    pub fn ask(number: u64) -> String {
        format!("{number}\n")
    }
}

/// A line of the monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// From now on it hears of changes.
    Listening,
    /// What the gateway held a moment ago.
    Held {
        /// Stands for the listing; none where the gateway cannot make one.
        digest: Option<Digest>,
        /// The number of the question that this answers.
        asked: Option<u64>,
    },
    /// Something has changed.
    Change,
}

impl Heard {
    /// What a line says.
    pub fn of(line: &str) -> Self {
        let Some(rest) = line.strip_prefix(ALIVE) else { return Self::Change };
        let mut words = rest.split(' ').skip(1);
        match words.next() {
            None => Self::Listening,
            Some(sum) => Self::Held {
                digest: (!sum.is_empty()).then(|| Digest(sum.into())),
                asked: words.next().and_then(|number| number.parse().ok()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_differ_from_changes_by_their_first_word() {
        assert_eq!(Heard::of("causeway-alive"), Heard::Listening);
        let digest = || Some(Digest("da39a3ee".into()));
        assert_eq!(Heard::of("causeway-alive da39a3ee "), Heard::Held { digest: digest(), asked: None });
        assert_eq!(Heard::of("causeway-alive da39a3ee 7"), Heard::Held { digest: digest(), asked: Some(7) });
        assert_eq!(Heard::of("causeway-alive  7"), Heard::Held { digest: None, asked: Some(7) });
        for change in ["", "4: t1: <UP> mtu 1450", "Deleted 10.0.0.0/8 dev t1", "    link/ether"] {
            assert_eq!(Heard::of(change), Heard::Change, "{change:?}");
        }
    }
}
