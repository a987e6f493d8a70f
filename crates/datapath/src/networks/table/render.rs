//! The table as nftables takes and prints it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;

use causeway_core::{Cidr, Family};

use super::{TABLE, Table};
use crate::networks::{Bridge, Links};

/// Who sends under an address that is not on his network would have the answer sent to somebody else, and outside he would
/// begin a conversation in another's name; one who has no address yet sends under none, to all. Then another's gateway,
/// which is this very machine, under whichever address of its range. Bridged packets also come by where `br_netfilter` is
/// loaded, from a bridge to itself.
const APART: &str = "\
chain prerouting {
type filter hook prerouting priority -300; policy accept;
iifname @bridges ip saddr != 0.0.0.0 fib saddr . iif oif missing drop comment \"nobody sends under another's address\"
iifname @bridges ip saddr != 0.0.0.0 fib saddr type broadcast drop comment \"nor under everybody's\"
iifname @bridges ip saddr 0.0.0.0 ip daddr != 255.255.255.255 drop comment \"under none only to all\"
iifname @bridges ip6 saddr != :: fib saddr . iif oif missing drop comment \"nobody sends under another's address\"
iifname @bridges ip6 saddr :: ip6 daddr != ff02::/16 drop comment \"under none only to all\"
iifname != \"lo\" iifname != @bridges ip saddr @ranges4 drop comment \"nor does anybody outside\"
iifname != \"lo\" iifname != @bridges ip6 saddr @ranges6 drop comment \"nor does anybody outside\"
}
chain input {
type filter hook input priority 0; policy accept;
iifname != \"lo\" ip daddr @ranges4 iifname . ip daddr != @own4 drop comment \"a gateway is its network's\"
iifname != \"lo\" ip6 daddr @ranges6 iifname . ip6 daddr != @own6 drop comment \"a gateway is its network's\"
}
";

/// Without translation nothing goes from a network to anywhere else, nor the other way round.
const CLOSED: &str = "\
chain forward {
type filter hook forward priority 0; policy accept;
iifname @bridges iifname . oifname != @pairs drop comment \"a network's hosts reach their own network\"
oifname @bridges iifname . oifname != @pairs drop comment \"and nobody else reaches them\"
}
";

/// With it hosts begin conversations with what is outside, and nobody outside begins one with them.
const OPEN: &str = "\
chain forward {
type filter hook forward priority 0; policy accept;
iifname @bridges oifname @bridges iifname . oifname != @pairs drop comment \"one network's hosts do not reach another's\"
iifname @bridges iifname != @open iifname . oifname != @pairs drop comment \"a network's hosts reach their own network\"
oifname @bridges oifname != @open iifname . oifname != @pairs drop comment \"and nobody else reaches them\"
oifname @open iifname . oifname != @pairs ct state invalid,new,untracked drop comment \"unless they began\"
oifname @open iifname . oifname != @pairs ct direction original drop comment \"unless they began\"
}
";

/// Only where it is wanted: a chain of this kind has every packet's connection followed. What stays on a bridge is left
/// alone, also what is sent to everybody on it.
const NAT: &str = "\
chain postrouting {
type nat hook postrouting priority 100; policy accept;
ip saddr @nat4 ip daddr != @nat4 oifname != @bridges masquerade comment \"what leaves a network has this machine's address\"
ip6 saddr @nat6 ip6 daddr != @nat6 oifname != @bridges masquerade comment \"what leaves a network has this machine's address\"
}
";

/// The table that these links need.
pub(super) fn render(links: &Links) -> String {
    let ours: Vec<_> = links.ours().collect();
    let all: BTreeSet<Cidr> = ours.iter().flat_map(|(_, bridge)| bridge.ranges()).collect();
    let open = || ours.iter().filter(|(_, bridge)| bridge.group.has_nat());
    let nat: BTreeSet<Cidr> = open().flat_map(|(_, bridge)| bridge.ranges()).collect();
    let mut text =
        format!("table inet {TABLE} {{\ncomment \"Causeway's: written as a whole, never by hand\"\n");
    text += &set("bridges", "type ifname", ours.iter().map(|(name, _)| quoted(name)));
    let pairs = ours.iter().map(|(name, _)| format!("{} . {}", quoted(name), quoted(name)));
    text += &set("pairs", "type ifname . ifname", pairs);
    for (family, digit, kind) in [(Family::V4, 4, "ipv4_addr"), (Family::V6, 6, "ipv6_addr")] {
        let of_family = |range: &Cidr| range.family() == family;
        let interval = format!("type {kind}\nflags interval");
        text += &set(&format!("ranges{digit}"), &interval, widest(&all).filter(of_family));
        let own = ours.iter().flat_map(|(name, bridge)| {
            let ranges: Vec<Cidr> = widest(&bridge.ranges()).filter(of_family).collect();
            ranges.into_iter().map(|range| format!("{} . {range}", quoted(name)))
        });
        text += &set(&format!("own{digit}"), &format!("type ifname . {kind}\nflags interval"), own);
        if !nat.is_empty() {
            text += &set(&format!("nat{digit}"), &interval, widest(&nat).filter(of_family));
        }
    }
    if nat.is_empty() {
        return text + APART + CLOSED + "}\n";
    }
    text += &set("open", "type ifname", open().map(|(name, _)| quoted(name)));
    text + APART + OPEN + NAT + "}\n"
}

/// Those that lie in no other: a set cannot have one range twice.
fn widest(ranges: &BTreeSet<Cidr>) -> impl Iterator<Item = Cidr> {
    ranges.iter().copied().filter(|range| !range.covering().skip(1).any(|around| ranges.contains(&around)))
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn set(name: &str, kind: &str, elements: impl Iterator<Item = impl Display>) -> String {
    // Two bridges may have one address, if somebody wants it so.
    let elements: BTreeSet<String> = elements.map(|element| element.to_string()).collect();
    let elements: Vec<String> = elements.into_iter().collect();
    let line = match &elements[..] {
        [] => String::new(),
        some => format!("elements = {{ {} }}\n", some.join(", ")),
    };
    format!("set {name} {{\n{kind}\n{line}}}\n")
}

/// A listing, with the elements of sets in one order and addresses in one spelling. Newer versions of nftables have another
/// word for what a lookup of a route is asked for.
pub(super) fn read(listing: &str) -> Table {
    let mut table = Table::default();
    let mut rest = listing.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    while let Some(line) = rest.next() {
        let Some(first) = line.strip_prefix("elements = {") else {
            table.lines.push(
                line.split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .replace(" check missing ", " oif missing "),
            );
            continue;
        };
        let mut text = first.to_owned();
        while !text.ends_with('}') {
            let Some(more) = rest.next() else { break };
            text += more;
        }
        let elements = text.trim_end_matches('}').split(',').map(element).filter(|it| !it.is_empty());
        let opened = table.lines.iter().rev().find_map(|line| line.strip_prefix("set ")).unwrap_or_default();
        table.sets.insert(opened.to_owned(), elements.collect());
    }
    table
}

/// Whether any of these elements is about a bridge.
pub(super) fn concerns(elements: &BTreeSet<String>, name: &str, bridge: &Bridge) -> bool {
    let name = quoted(name);
    let has = |text: String| elements.contains(&text);
    elements.iter().any(|element| element.split_whitespace().any(|word| word == name))
        || bridge.ranges().into_iter().any(|range| has(range.to_string()))
}

fn element(text: &str) -> String {
    let word = |word: &str| match (word.parse::<IpAddr>(), word.parse::<Cidr>()) {
        (Ok(address), _) => address.to_string(),
        (_, Ok(range)) => range.to_string(),
        _ => word.to_owned(),
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::networks::mark::Group;
    use crate::networks::table::wrong;

    fn links(nat: bool) -> Links {
        let bridge = |index: u32, addresses: &[&str]| Bridge {
            index,
            group: Group::new("somebody", nat),
            addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
            ..Bridge::default()
        };
        let ours = [
            ("cw1".into(), bridge(1, &["10.0.0.1/16", "10.0.1.1/24", "fd00::1/64"])),
            ("cw2".into(), bridge(2, &["10.7.0.1/24"])),
        ];
        let others = Bridge { group: Group(7), ..bridge(3, &["10.9.0.1/24"]) };
        Links {
            bridges: ours.into_iter().chain([("docker0".into(), others)]).collect(),
            elsewhere: Vec::new(),
        }
    }

    #[test]
    fn only_our_bridges_are_in_it_and_ranges_in_others_are_not() {
        let text = render(&links(true));
        assert!(!text.contains("docker0") && !text.contains("10.9.0"), "{text}");
        assert!(text.contains("elements = { 10.0.0.0/16, 10.7.0.0/24 }\n"), "{text}");
        assert!(text.contains("elements = { \"cw1\" . \"cw1\", \"cw2\" . \"cw2\" }\n"), "{text}");
        let plain = render(&links(false));
        assert!(!plain.contains("nat"), "{plain}");
    }

    #[test]
    fn a_listing_with_broken_lines_in_another_order_is_the_same() {
        let text = render(&links(true));
        let printed = text
            .replace(
                "elements = { 10.0.0.0/16, 10.7.0.0/24 }",
                "elements = { 10.7.0.0/24,\n\t\t 10.0.0.0/16 }",
            )
            .replace("set own4", "\n\tset   own4");
        assert_eq!(read(&printed), read(&text));
        assert_eq!(read(&text.replace("iif oif missing", "iif check missing")), read(&text));
        assert_ne!(read(&text.replace("@pairs drop", "@pairs accept")), read(&text));
        assert_ne!(read(&text.replace(", 10.7.0.0/24", "")), read(&text));
    }

    #[test]
    fn each_bridge_answers_for_its_own_part_and_the_first_for_what_is_nobodys() {
        let (links, text) = (links(true), render(&links(true)));
        let wrong = |text: &str| wrong(&links, Some(&read(text))).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(wrong(&text), "");
        for (from, to, names) in [
            ("@pairs drop", "@pairs accept", "cw1 cw2"),
            ("elements = { \"cw1\", \"cw2\" }", "elements = { \"cw1\" }", "cw2"),
            ("\"cw1\" . \"cw1\"", "\"cw1\" . \"cw1\", \"cw1\" . \"cw2\"", "cw1 cw2"),
            ("10.0.0.0/16, 10.7.0.0/24", "10.7.0.0/24", "cw1"),
            ("10.0.0.0/16, 10.7.0.0/24", "10.0.0.0/16, 10.7.0.0/24, 10.8.0.0/24", "cw1"),
            ("\"cw2\" }", "\"cw2\", \"gone\" }", "cw1"),
        ] {
            assert_ne!(text.replace(from, to), text, "{from}");
            assert_eq!(wrong(&text.replace(from, to)), names, "{from} -> {to}");
        }
        assert_eq!(super::super::wrong(&links, None).len(), 2);
    }

    proptest! {
        #[test]
        fn no_listing_is_too_odd(text in "(\\PC|\n|elements = \\{|\\}|,)*") {
            let _ = read(&text);
        }
    }
}
