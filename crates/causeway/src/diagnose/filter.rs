//! Whether a filter's rules pass packets from one link to another, as far as the rules alone say.

/// What becomes of packets between two links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// No rule stops all of them.
    Pass,
    /// This rule, or policy, stops all of them.
    Dropped(String),
}

/// Walks chains as `iptables -S` lists them, one after the other where both variants have one: each has its say.
///
/// A rule with any condition beside links may or may not hold for a packet: one that accepts so lets some pass, so nothing
/// after it stops all; one that drops so stops some only.
pub(super) fn fate(rules: &[String], from: Option<&str>, to: Option<&str>) -> Fate {
    let starts = rules.iter().enumerate().filter(|(_, rule)| rule.starts_with("-P ")).map(|(at, _)| at);
    let mut starts: Vec<usize> = starts.chain([rules.len()]).collect();
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let chains = starts.windows(2).filter_map(|pair| rules.get(pair[0]..pair[1]));
    chains.map(|chain| of_chain(chain, from, to)).find(|fate| *fate != Fate::Pass).unwrap_or(Fate::Pass)
}

fn of_chain(rules: &[String], from: Option<&str>, to: Option<&str>) -> Fate {
    for rule in rules.iter().filter(|rule| rule.starts_with("-A ")) {
        let words: Vec<&str> = rule.split(' ').collect();
        let Some(target) = value(&words, "-j").or_else(|| value(&words, "-g")) else { continue };
        if !fits(&words, "-i", from) || !fits(&words, "-o", to) {
            continue;
        }
        match (target, is_for_all(&words)) {
            ("DROP" | "REJECT", true) => return Fate::Dropped((*rule).clone()),
            ("DROP" | "REJECT", false) | ("LOG" | "NFLOG" | "MARK" | "CONNMARK" | "TCPMSS", _) => {}
            // Accepted, or in the hands of another chain: some may pass.
            (_, _) => return Fate::Pass,
        }
    }
    let policy = rules.iter().find(|rule| rule.starts_with("-P ") && rule.ends_with(" DROP"));
    policy.map_or(Fate::Pass, |policy| Fate::Dropped(policy.clone()))
}

fn value<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1)).copied()
}

/// Whether a rule's link is this one, or any.
fn fits(words: &[&str], option: &str, link: Option<&str>) -> bool {
    let Some(at) = words.iter().position(|word| *word == option) else { return true };
    let (Some(named), Some(link)) = (words.get(at + 1), link) else { return false };
    let same = match named.strip_suffix('+') {
        Some(prefix) => link.starts_with(prefix),
        None => *named == link,
    };
    let negated = at > 0 && words.get(at - 1) == Some(&"!");
    same != negated
}

/// Whether a rule has no conditions but those on links.
fn is_for_all(words: &[&str]) -> bool {
    let mut words = words.iter().skip(2);
    while let Some(word) = words.next() {
        match *word {
            "!" => {}
            "-i" | "-o" | "-j" | "-g" | "--reject-with" | "--comment" => drop(words.next()),
            "-m" if words.next() == Some(&"comment") => {}
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passes(rules: &[&str]) -> bool {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        fate(&rules, Some("eth0"), Some("demo")) == Fate::Pass
    }

    #[test]
    fn what_stops_all_packets_is_found_and_what_may_let_some_pass_is_not_blamed() {
        assert!(passes(&[]));
        assert!(passes(&["-P FORWARD ACCEPT"]));
        assert!(!passes(&["-P FORWARD DROP"]));
        assert!(passes(&["-P FORWARD DROP", "-A FORWARD -i eth0 -j ACCEPT"]));
        assert!(!passes(&["-P FORWARD DROP", "-A FORWARD -i net1 -j ACCEPT"]));
        assert!(!passes(&["-P FORWARD ACCEPT", "-A FORWARD -o demo -j DROP"]));
        assert!(!passes(&["-P FORWARD ACCEPT", "-A FORWARD -j REJECT --reject-with icmp-port-unreachable"]));
        assert!(!passes(&["-P FORWARD ACCEPT", "-A FORWARD ! -i net1 -j DROP"]));
        assert!(!passes(&["-P FORWARD ACCEPT", "-A FORWARD -o de+ -m comment --comment x -j DROP"]));
        assert!(passes(&["-P FORWARD ACCEPT", "-A FORWARD -d 10.0.0.0/8 -j DROP"]));
        assert!(passes(&["-P FORWARD DROP", "-A FORWARD -p tcp -j ACCEPT"]));
        assert!(passes(&["-P FORWARD DROP", "-A FORWARD -j KUBE-FORWARD"]));
        assert!(!passes(&["-P FORWARD ACCEPT", "-P FORWARD DROP"]), "each variant has its say");
        assert!(!passes(&["-P FORWARD DROP", "-P FORWARD ACCEPT", "-A FORWARD -j ACCEPT"]));
    }

    proptest! {
        #[test]
        fn no_listing_breaks_it(rules in prop::collection::vec("(-[PAijgom]|!|DROP|ACCEPT|eth0|demo|\\PC| ){0,12}", 0..6)) {
            let _ = fate(&rules, Some("eth0"), Some("demo"));
        }
    }
}
