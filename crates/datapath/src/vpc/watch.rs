//! What the command reads and prints by which one gateway listens whether others are alive.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use super::commands::{START, lean, started};

static SCRIPT: LazyLock<String> =
    LazyLock::new(|| lean(&["finish() { exit \"$1\"; }", include_str!("watch.sh")]));

/// The long-lived command in a gateway that stands by. It ends with its input and leaves no process behind.
#[derive(Debug, Clone, Copy)]
pub struct Watch;

/// A gateway to listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// What it is called in what is printed.
    pub number: usize,
    /// Its address in the VPC.
    pub lan: Ipv4Addr,
    /// Its address outside.
    pub outside: Ipv4Addr,
    /// The VPC's router.
    pub router: Ipv4Addr,
    /// Whether it counts as lost already: then it is news when it is back.
    pub lost: bool,
}

/// A line of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It listens.
    Listening,
    /// The gateway of this number does not answer any more.
    Lost(usize),
    /// It answers again.
    Back(usize),
}

impl Watch {
    /// The constant command.
    pub fn argv() -> [&'static str; 4] {
        ["bash", "-c", &START, "causeway-watch"]
    }

    /// What it is to read.
    pub fn input(watched: &[Watched]) -> Vec<u8> {
        let line = |it: &Watched| {
            let lost = if it.lost { " lost" } else { "" };
            format!("{} {} {} {}{lost}\n", it.number, it.lan, it.outside, it.router)
        };
        started(&SCRIPT, watched.iter().map(line).collect::<String>().as_bytes())
    }
}

impl Word {
    /// Of a line; nothing of one that is none of ours.
    pub fn of(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        if words.next() != Some("causeway-watch") {
            return None;
        }
        match (words.next().map(str::parse), words.next(), words.next()) {
            (None, None, None) => Some(Self::Listening),
            (Some(Ok(number)), Some("lost"), None) => Some(Self::Lost(number)),
            (Some(Ok(number)), Some("back"), None) => Some(Self::Back(number)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_whole_lines_of_its_own_count() {
        assert_eq!(Word::of("causeway-watch"), Some(Word::Listening));
        assert_eq!(Word::of("causeway-watch 7 lost"), Some(Word::Lost(7)));
        assert_eq!(Word::of("causeway-watch 7 back"), Some(Word::Back(7)));
        for line in [
            "",
            "causeway-watch 7",
            "causeway-watch x lost",
            "causeway-watch 7 lost 8",
            "lost",
            "causeway-watch  lost",
        ] {
            assert_eq!(Word::of(line), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_printed_breaks_nothing(line in "(causeway-watch)? ?[0-9a-z ]{0,20}|.{0,40}") {
            Word::of(&line);
        }
    }
}
