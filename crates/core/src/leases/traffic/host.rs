//! The host's own rules, and which of them are ours or flannel's.

use std::fmt;

use super::MARK;
use crate::{Cidr, Family};

/// Where a packet has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Where it comes from.
    From,
    /// Where it goes to.
    To,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::From, Self::To];
}

/// A rule of ours in a FORWARD chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Accept {
    /// Where packets have the address.
    pub side: Side,
    /// In which range it is.
    pub range: Cidr,
}

impl Accept {
    fn words(self) -> Vec<String> {
        let side = match self.side {
            Side::From => "-s",
            Side::To => "-d",
        };
        let (range, comment) = (self.range.to_string(), format!("{MARK}{}", self.range));
        [side, &range, "-m", "comment", "--comment", &comment, "-j", "ACCEPT"].map(Into::into).into()
    }
}

/// As iptables takes and prints it.
impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |word: String| if word.contains(' ') { format!("\"{word}\"") } else { word };
        f.write_str(&self.words().into_iter().map(quoted).collect::<Vec<_>>().join(" "))
    }
}

/// Who keeps the rules of an iptables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// nftables.
    Nft,
    /// A part of the kernel of its own, as long as there is one.
    Legacy,
}

/// One of up to four sets of rules that a host can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Iptables {
    /// Who keeps it.
    pub variant: Variant,
    /// Whose packets it sees.
    pub family: Family,
}

impl Iptables {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self { variant: Variant::Nft, family: Family::V4 },
        Self { variant: Variant::Nft, family: Family::V6 },
        Self { variant: Variant::Legacy, family: Family::V4 },
        Self { variant: Variant::Legacy, family: Family::V6 },
    ];

    /// The command for it.
    pub fn command(self) -> &'static str {
        match (self.variant, self.family) {
            (Variant::Nft, Family::V4) => "iptables-nft",
            (Variant::Nft, Family::V6) => "ip6tables-nft",
            (Variant::Legacy, Family::V4) => "iptables-legacy",
            (Variant::Legacy, Family::V6) => "ip6tables-legacy",
        }
    }
}

/// The host's chains in which something of ours or of flannel's can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chain {
    /// Which packets are let through.
    Forward,
    /// Which addresses are hidden.
    Postrouting,
}

impl Chain {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Postrouting];

    /// The table it is in.
    pub fn table(self) -> &'static str {
        match self {
            Self::Forward => "filter",
            Self::Postrouting => "nat",
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Postrouting => "POSTROUTING",
        }
    }

    /// The chain to which flannel jumps from it.
    pub fn flannels(self) -> &'static str {
        match self {
            Self::Forward => "FLANNEL-FWD",
            Self::Postrouting => "FLANNEL-POSTRTG",
        }
    }
}

/// A rule of one of the host's chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// As we make them.
    Ours(Accept),
    /// It has our mark, and says something that we never say.
    Stale(String),
    /// It jumps to flannel's chain.
    Flannels(String),
    /// Anybody else's.
    Others {
        /// Nothing gets past it.
        ends: bool,
    },
}

impl Rule {
    /// Tells whose a rule is by its words; `listed` is how the tool printed it.
    pub fn of(chain: Chain, words: &[String], listed: &str) -> Self {
        let after = |options: &[&str]| {
            let at = words.iter().position(|word| options.contains(&word.as_str()))?;
            words.get(at + 1).map(String::as_str)
        };
        let target = after(&["-j", "-g", "--jump", "--goto"]);
        if target == Some(chain.flannels()) {
            return Self::Flannels(listed.into());
        }
        if after(&["--comment"]).is_some_and(|comment| comment.starts_with(MARK)) {
            let sides = [(Side::From, "-s"), (Side::To, "-d")].into_iter();
            let mut accepts = sides
                .filter_map(|(side, option)| Some(Accept { side, range: after(&[option])?.parse().ok()? }));
            // Some print the comment before the addresses.
            let ours = accepts.find(|accept| sorted(accept.words()) == sorted(words.to_vec()));
            return ours.map_or_else(|| Self::Stale(listed.into()), Self::Ours);
        }
        let is_final = target.is_some_and(|target| ["DROP", "REJECT", "RETURN"].contains(&target));
        let is_plain = |word: &&String| {
            let known = ["-j", "-m", "comment", "--comment", "--reject-with"];
            known.contains(&word.as_str())
                || Some(word.as_str()) == target
                || Some(word.as_str()) == after(&["--comment"])
                || Some(word.as_str()) == after(&["--reject-with"])
        };
        Self::Others { ends: is_final && words.iter().all(|word| is_plain(&word)) }
    }

    /// How the tool prints it, if it is ours to remove.
    pub(super) fn of_ours(&self) -> Option<String> {
        match self {
            Self::Ours(accept) => Some(accept.to_string()),
            Self::Stale(listed) => Some(listed.clone()),
            Self::Flannels(_) | Self::Others { .. } => None,
        }
    }
}

fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words
}
