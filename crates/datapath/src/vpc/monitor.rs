//! What the long-lived command in a gateway reads and prints.

use std::sync::LazyLock;
use std::time::Duration;

use causeway_core::vpc::{Answer, Near};

use super::Digest;
use super::commands::{START, lean};

/// How a heartbeat begins.
const ALIVE: &str = "causeway-alive";
/// As many links as are asked together.
const NAMED: usize = 40;
/// How a line of answers begins.
const PROBE: &str = "causeway-probe";

static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    lean(&[
        // Nobody waits for a sentence of it: an observation says in clearer words what is missing.
        "finish() { exit \"$1\"; }",
        include_str!("find.sh"),
        include_str!("observe.sh"),
        include_str!("probe.sh"),
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

    /// What it is to read first. It lists what the gateway holds after every interval. Under a change's number it reports
    /// what the tunnels' peers answer, who are asked after every so many seconds.
    pub fn input(interval: Duration, change: u64, pace: Duration) -> Vec<u8> {
        let given = format!("{:.3} {change} {}", interval.as_secs_f64(), pace.as_secs().max(1));
        format!("{} {}\n{}{given}", SCRIPT.len(), given.len(), *SCRIPT).into_bytes()
    }

    /// What announces a change of some links: answers come under its number from then on, and those of these links at once,
    /// unless they are many: then a round begins anew.
    pub fn announce<'a>(change: u64, links: impl IntoIterator<Item = &'a str>) -> String {
        let links: Vec<&str> = links.into_iter().collect();
        let named: String = match links.len() {
            0..=NAMED => links.iter().map(|link| format!(" {link}")).collect(),
            _ => " +".into(),
        };
        format!("p{change}{named}\n")
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
    /// What the peers of some tunnels answered.
    Probed {
        /// The newest change that had been announced when they were asked.
        change: u64,
        /// By link.
        answers: Vec<(Answer, Traffic)>,
    },
    /// Something has changed.
    Change,
}

/// The bytes that a link has carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Those that came out of the tunnel.
    pub received: u64,
    /// Those that went into it.
    pub sent: u64,
}

/// `demo:812:+:1048576:2048:`, as `probe.sh` has it.
fn answer(word: &str) -> Option<(Answer, Traffic)> {
    let parts: Vec<&str> = word.split(':').collect();
    let [link, near, far, received, sent, astray] = parts.as_slice() else { return None };
    let near = match *near {
        "-" => Near::Silent,
        "?" => Near::NotAsked,
        "+" => Near::Answered(None),
        micros => Near::Answered(Some(u32::try_from(micros.parse::<u64>().ok()?).unwrap_or(u32::MAX))),
    };
    let far = match *far {
        "+" => Some(true),
        "-" => Some(false),
        "?" => None,
        _ => return None,
    };
    let astray = match *astray {
        "" => None,
        "!" => Some(String::new()),
        link => Some(link.into()),
    };
    let traffic = Traffic { received: received.parse().ok()?, sent: sent.parse().ok()? };
    Some((Answer { link: (*link).into(), near, far, astray }, traffic))
}

impl Heard {
    /// What a line says.
    pub fn of(line: &str) -> Self {
        if let Some(rest) = line.strip_prefix(PROBE) {
            let mut words = rest.split(' ').skip(1);
            let change = words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
            return Self::Probed { change, answers: words.filter_map(answer).collect() };
        }
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
