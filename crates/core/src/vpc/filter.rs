//! Whether a gateway's filter passes packets from one link to another, as far as its rules alone say.
//!
//! Nothing here is ours, so nothing is changed; but where it is plain to see that no packet passes, no tunnel is ready. A rule
//! with a condition beside links and addresses may or may not hold for a packet: one that accepts lets some pass, and then
//! nothing is said; one that drops stops some only.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::Ipv4Cidr;
use crate::words::words;

/// So many jumps from chain to chain are followed; the kernel allows no loops, whoever prints them might.
const DEPTH: usize = 16;

/// The filter table of one variant of iptables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The chains that drop what no rule decides.
    drops: BTreeSet<String>,
    /// Rules in order, by chain.
    rules: BTreeMap<String, Vec<Rule>>,
}

/// One rule of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// As iptables prints it.
    text: String,
    conditions: Vec<Condition>,
    /// What becomes of packets that it speaks of, and whether they do not come back from there; none for a rule that only counts.
    target: Option<String>,
    leaves: bool,
}

/// What a rule says of the packets that it speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    about: About,
    negated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    From(String),
    To(String),
    Source(Option<Ipv4Cidr>),
    Destination(Option<Ipv4Cidr>),
    Protocol(String),
    /// Something else, which may hold or not.
    Other,
}

/// Packets of which it is asked whether any of them pass.
#[derive(Debug, Clone, Copy)]
pub struct Packets<'a> {
    /// The link that they come by.
    pub from: &'a str,
    /// The link that they leave by; none of those to the gateway itself.
    pub to: Option<&'a str>,
    /// Where all of them come from, if that is known.
    pub source: Option<Ipv4Cidr>,
    /// Where all of them go.
    pub destination: Option<Ipv4Cidr>,
    /// What all of them carry.
    pub protocol: Option<&'a str>,
}

/// Of which packets a rule speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    None,
    Some,
    All,
}

impl Share {
    fn but(self, negated: bool) -> Self {
        match self {
            Self::None if negated => Self::All,
            Self::All if negated => Self::None,
            share => share,
        }
    }
}

/// What becomes of all packets.
enum Fate {
    /// Some may pass.
    Pass,
    /// All are stopped, by this.
    Stopped(String),
    /// Those that are left are for whoever asked.
    Undecided,
}

impl Filter {
    /// From lines as `iptables-save` prints them; others are none of its business.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut filter = Self::default();
        for line in lines {
            filter.take(line);
        }
        filter
    }

    /// Takes one line in.
    pub fn take(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some((chain, policy)) = line.strip_prefix(':').and_then(|rest| rest.split_once(' ')) {
            self.rules.entry(chain.into()).or_default();
            if policy.split(' ').next() == Some("DROP") {
                self.drops.insert(chain.into());
            }
        } else if let Some((chain, rule)) = line.strip_prefix("-A ").and_then(|rest| rest.split_once(' ')) {
            self.rules.entry(chain.into()).or_default().push(Rule::read(line, rule));
        }
    }

    /// Whether it decides nothing.
    pub fn is_empty(&self) -> bool {
        self.drops.is_empty() && self.rules.values().all(Vec::is_empty)
    }

    /// What stops every one of some packets that a built-in chain sees, if that is plain to see.
    pub fn stops(&self, chain: &str, packets: Packets<'_>) -> Option<String> {
        match self.walk(chain, packets, DEPTH) {
            Fate::Stopped(by) => Some(by),
            Fate::Pass => None,
            Fate::Undecided => self.drops.contains(chain).then(|| format!("-P {chain} DROP")),
        }
    }

    fn walk(&self, chain: &str, packets: Packets<'_>, depth: usize) -> Fate {
        let Some(deeper) = depth.checked_sub(1) else { return Fate::Pass };
        // Whether some have gone back to whoever asked.
        let mut returned = false;
        for rule in self.rules.get(chain).into_iter().flatten() {
            let Some(target) = rule.target.as_deref() else { continue };
            let share = packets.share_of(rule);
            if share == Share::None {
                continue;
            }
            let for_all = share == Share::All;
            let fate = match target {
                "DROP" | "REJECT" => Fate::Stopped(rule.text.clone()),
                "RETURN" if for_all => return Fate::Undecided,
                "RETURN" => {
                    returned = true;
                    continue;
                }
                other if self.rules.contains_key(other) => self.walk(other, packets, deeper),
                "LOG" | "NFLOG" | "MARK" | "CONNMARK" | "TCPMSS" => continue,
                // Accepted, or something unheard of: some may pass.
                _ => Fate::Pass,
            };
            match fate {
                Fate::Pass => return Fate::Pass,
                Fate::Stopped(_) if for_all && returned => return Fate::Undecided,
                Fate::Stopped(by) if for_all => return Fate::Stopped(by),
                Fate::Undecided if for_all && rule.leaves => return Fate::Undecided,
                Fate::Undecided => returned |= rule.leaves,
                Fate::Stopped(_) => {}
            }
        }
        Fate::Undecided
    }
}

impl Rule {
    /// From a line, and the part of it after the chain.
    fn read(line: &str, rule: &str) -> Self {
        let mut read = Self { text: line.into(), conditions: Vec::new(), target: None, leaves: false };
        // One that cannot be read may let anything pass.
        let Some(words) = words(rule) else { return Self { target: Some(String::new()), ..read } };
        let mut words = words.into_iter().peekable();
        let mut negated = false;
        while let Some(word) = words.next() {
            let about = match word.as_str() {
                "!" => {
                    negated = true;
                    continue;
                }
                "-j" | "-g" => {
                    (read.target, read.leaves) = (words.next(), word == "-g");
                    continue;
                }
                "-m" if words.next_if(|kind| kind == "comment").is_some() => continue,
                "--comment" | "--reject-with" => {
                    words.next();
                    continue;
                }
                "-i" => About::From(words.next().unwrap_or_default()),
                "-o" => About::To(words.next().unwrap_or_default()),
                "-s" => About::Source(words.next().and_then(|range| range.parse().ok())),
                "-d" => About::Destination(words.next().and_then(|range| range.parse().ok())),
                "-p" => About::Protocol(words.next().unwrap_or_default()),
                _ => About::Other,
            };
            read.conditions.push(Condition { about, negated });
            negated = false;
        }
        read
    }
}

impl Packets<'_> {
    /// Of how many of them a rule speaks.
    fn share_of(self, rule: &Rule) -> Share {
        let shares = rule.conditions.iter().map(|Condition { about, negated }| {
            let share = match about {
                About::From(named) => link(named, Some(self.from)),
                About::To(named) => link(named, self.to),
                About::Source(named) => range(*named, self.source),
                About::Destination(named) => range(*named, self.destination),
                About::Protocol(named) => match self.protocol {
                    Some(protocol) if protocol == named => Share::All,
                    Some(_) => Share::None,
                    None => Share::Some,
                },
                About::Other => Share::Some,
            };
            share.but(*negated)
        });
        shares.min().unwrap_or(Share::All)
    }
}

/// Whether the link that a rule names is this one.
fn link(named: &str, link: Option<&str>) -> Share {
    let is_it = |link: &str| match named.strip_suffix('+') {
        Some(prefix) => link.starts_with(prefix),
        None => named == link,
    };
    if link.is_some_and(is_it) { Share::All } else { Share::None }
}

/// Whether addresses of a range are in the one that a rule names.
fn range(named: Option<Ipv4Cidr>, range: Option<Ipv4Cidr>) -> Share {
    match named.zip(range) {
        Some((named, range)) if named.covers(range) => Share::All,
        Some((named, range)) if !named.overlaps(range) => Share::None,
        _ => Share::Some,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn out() -> Packets<'static> {
        let destination = "242.1.0.0/16".parse().ok();
        Packets { from: "eth0", to: Some("demo"), source: None, destination, protocol: None }
    }

    fn stops(lines: &[&str]) -> Option<String> {
        Filter::read(lines.iter().copied()).stops("FORWARD", out())
    }

    #[test]
    fn what_stops_all_packets_is_found_and_what_may_let_some_pass_is_not_blamed() {
        let passing: [&[&str]; 20] = [
            &[],
            &[":FORWARD ACCEPT [0:0]"],
            &[":INPUT DROP", "-A INPUT -j DROP"],
            &[":FORWARD DROP", "-A FORWARD -i eth0 -j ACCEPT"],
            &["-A FORWARD -d 10.0.0.0/8 -j DROP"],
            &[":FORWARD DROP", "-A FORWARD -p tcp -j ACCEPT"],
            &[":FORWARD DROP", "-A FORWARD -j SOMEBODYS-TARGET"],
            &["-A FORWARD -o other -j DROP"],
            &["-A FORWARD -d 242.1.7.0/24 -j DROP"],
            &["-A FORWARD ! -d 242.1.0.0/16 -j DROP"],
            &["-A FORWARD -s 10.0.1.0/24 -j DROP"],
            &[":FORWARD DROP", "-A FORWARD -d 242.0.0.0/8 -j ACCEPT"],
            &["-A FORWARD -j A", "-A A -o other -j DROP"],
            &["-A FORWARD -j A", "-A A -p tcp -j RETURN", "-A A -j DROP"],
            &["-A FORWARD -p tcp -j A", "-A A -j DROP"],
            &["-A FORWARD -g A", "-A FORWARD -j DROP", "-A A -o other -j DROP"],
            &["-A FORWARD -j A", "-A FORWARD -j DROP", "-A A -m state --state NEW -j ACCEPT"],
            &["-A FORWARD -m comment --comment \"instead of -j DROP below\" -j ACCEPT", ":FORWARD DROP"],
            &["-A FORWARD -m comment --comment \"a \\\" b -j DROP\" -j ACCEPT", ":FORWARD DROP"],
            &["-A FORWARD -m comment --comment \"never ends -j DROP"],
        ];
        for lines in passing {
            assert_eq!(stops(lines), None, "{lines:?}");
        }
        let stopping: [(&[&str], &str); 17] = [
            (&[":FORWARD DROP [12:900]"], "-P FORWARD DROP"),
            (&[":FORWARD DROP"], "-P FORWARD DROP"),
            (&[":FORWARD DROP", "-A FORWARD -i net1 -j ACCEPT"], "-P FORWARD DROP"),
            (&[":FORWARD DROP", "-A FORWARD -s 10.9.0.0/16 -j DROP"], "-P FORWARD DROP"),
            (&["-A FORWARD -o demo -j DROP"], "-A FORWARD -o demo -j DROP"),
            (&["-A FORWARD -d 242.1.0.0/16 -j DROP"], "-A FORWARD -d 242.1.0.0/16 -j DROP"),
            (
                &["-A FORWARD -s 0.0.0.0/0 -j DROP", "-A FORWARD -d 242.0.0.0/8 -j DROP"],
                "-A FORWARD -d 242.0.0.0/8 -j DROP",
            ),
            (&["-A FORWARD ! -d 10.0.0.0/8 -j DROP"], "-A FORWARD ! -d 10.0.0.0/8 -j DROP"),
            (&[":FORWARD DROP", "-A FORWARD ! -d 242.1.0.0/16 -j ACCEPT"], "-P FORWARD DROP"),
            (
                &["-A FORWARD -j REJECT --reject-with icmp-port-unreachable"],
                "-A FORWARD -j REJECT --reject-with icmp-port-unreachable",
            ),
            (&["-A FORWARD ! -i net1 -j DROP"], "-A FORWARD ! -i net1 -j DROP"),
            (
                &["-A FORWARD -o de+ -m comment --comment \"no way\" -j DROP"],
                "-A FORWARD -o de+ -m comment --comment \"no way\" -j DROP",
            ),
            (&["-A FORWARD -o demo -j A", "-A A -j LOG", "-A A -j DROP"], "-A A -j DROP"),
            (&["-A FORWARD -j A", "-A A -j B", "-A B -i eth0 -j DROP"], "-A B -i eth0 -j DROP"),
            (&["-A FORWARD -j A", "-A A -j RETURN", "-A FORWARD -j DROP"], "-A FORWARD -j DROP"),
            (
                &["-A FORWARD -j A", "-A A -p tcp -j RETURN", "-A A -j DROP", "-A FORWARD -j DROP"],
                "-A FORWARD -j DROP",
            ),
            (&[":FORWARD DROP", "-A FORWARD -g A", "-A A -o other -j ACCEPT"], "-P FORWARD DROP"),
        ];
        for (lines, by) in stopping {
            assert_eq!(stops(lines).as_deref(), Some(by), "{lines:?}");
        }
    }

    #[test]
    fn what_arrives_leaves_by_no_link() {
        let arriving =
            Packets { from: "net1", to: None, source: None, destination: None, protocol: Some("icmp") };
        let input = |lines: &[&str]| Filter::read(lines.iter().copied()).stops("INPUT", arriving);
        assert_eq!(input(&["-A INPUT -i net1 -j DROP"]).as_deref(), Some("-A INPUT -i net1 -j DROP"));
        assert_eq!(input(&["-A INPUT -o net1 -j DROP"]), None);
        assert_eq!(input(&["-A INPUT -p icmp -j DROP"]).as_deref(), Some("-A INPUT -p icmp -j DROP"));
        assert_eq!(input(&[":INPUT DROP", "-A INPUT -p tcp -j ACCEPT"]).as_deref(), Some("-P INPUT DROP"));
        assert_eq!(input(&["-A INPUT -p tcp -j DROP"]), None);
    }

    /// What a packet of a flow that no condition holds for, and one that all hold for, would meet: simpler than the code.
    fn meets(filter: &Filter, chain: &str, holds: bool, depth: usize) -> Option<bool> {
        for rule in filter.rules.get(chain).into_iter().flatten() {
            let (_, rule) =
                rule.text.strip_prefix("-A ").and_then(|rest| rest.split_once(' ')).expect("a rule");
            let words: Vec<&str> = rule.split(' ').collect();
            let (conditions, target) = (&words[..words.len() - 2], words[words.len() - 1]);
            let applies = conditions.chunks(2).all(|pair| match pair {
                ["-i", link] => *link == "eth0",
                ["-o", link] => *link == "demo",
                _ => holds,
            });
            match target {
                _ if !applies => {}
                "ACCEPT" => return Some(true),
                "DROP" => return Some(false),
                "RETURN" => return None,
                other if depth > 0 => {
                    let met = meets(filter, other, holds, depth - 1);
                    if met.is_some() {
                        return met;
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn rule() -> impl Strategy<Value = String> {
        let condition =
            prop_oneof![Just(""), Just("-i eth0 "), Just("-o demo "), Just("-o x "), Just("-p tcp ")];
        // From a chain only to those after it: the kernel allows no loops.
        let chains = prop_oneof![
            (Just("FORWARD"), prop_oneof![Just("A"), Just("B"), Just("ACCEPT"), Just("DROP")]),
            (Just("A"), prop_oneof![Just("B"), Just("RETURN"), Just("ACCEPT"), Just("DROP")]),
            (Just("B"), prop_oneof![Just("RETURN"), Just("ACCEPT"), Just("DROP")]),
        ];
        (chains, condition)
            .prop_map(|((chain, target), condition)| format!("-A {chain} {condition}-j {target}"))
    }

    proptest! {
        /// What is said to stop all packets stops one whether or not conditions hold for it.
        #[test]
        fn nothing_is_blamed_that_lets_a_packet_pass(rules in prop::collection::vec(rule(), 0..10), drops: bool) {
            let policy = if drops { ":FORWARD DROP [0:0]" } else { ":FORWARD ACCEPT [0:0]" };
            let chains = [policy, ":A - [0:0]", ":B - [0:0]"];
            let filter = Filter::read(chains.into_iter().chain(rules.iter().map(String::as_str)));
            let stopped = filter.stops("FORWARD", out()).is_some();
            for holds in [true, false] {
                let passes = meets(&filter, "FORWARD", holds, 4).unwrap_or(!drops);
                prop_assert!(!(stopped && passes), "{:?}", rules);
            }
            let conditional = rules.iter().any(|rule| rule.contains("-p tcp"));
            let passes = meets(&filter, "FORWARD", true, 4).unwrap_or(!drops);
            prop_assert!(conditional || stopped != passes, "without conditions nothing is left open: {:?}", rules);
        }

        #[test]
        fn no_listing_breaks_it(rules in prop::collection::vec("(-[PAijgom]|:|!|DROP|ACCEPT|eth0|demo|\"|\\PC| ){0,12}", 0..6)) {
            let _ = Filter::read(rules.iter().map(String::as_str)).stops("FORWARD", out());
        }
    }
}
