//! From a plan to the input of the script: each step is one line of one part.
//!
//! The parts are run in the order of [`Part`], which differs from the plan's in one point: a link goes up
//! and its route is put only after its settings and the NAT rule stand. A packet that finds the route but
//! no rule would leave with the wrong source, and connection tracking would keep that for its whole flow.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use causeway_core::vpc::action::{LOOSE, clamp_spec, shared_clamp_spec};
use causeway_core::vpc::{Action, LEAVING_GROUP, LinkKind, MARK, Plan, ROUTE_PROTOCOL, Route, Variant};

use sha1::{Digest as _, Sha1};

/// Milliseconds after which an unanswered ARP request is sent again. Two ends never come up together: with the
/// kernel's second, the first packet through a new tunnel would wait for most of it.
const RETRANS: u32 = 50;

/// The parts of the input, in the order that the script runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// An `ip` batch: what makes links and what frees their place.
    Links,
    /// `path value` lines below `/proc/sys/net`; the links must exist.
    Sysctls,
    /// `iptables-restore` input for one variant: all or nothing in each table.
    Nat(Variant),
    /// An `ip` batch: links up, routes, and everything dropped; the settings must stand.
    Routes,
    /// `range first last own` lines: flows to a range that are translated to anything else, and have no source in `own`, are
    /// forgotten; with a dash in its place those that are translated to these.
    Flows,
}

impl Part {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Links,
        Self::Sysctls,
        Self::Nat(Variant::Legacy),
        Self::Nat(Variant::Nft),
        Self::Routes,
        Self::Flows,
    ];

    /// The name of the section in which the script tells how it went.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Links => "ip-first",
            Self::Sysctls => "sysctl",
            Self::Nat(Variant::Legacy) => "restore-legacy",
            Self::Nat(Variant::Nft) => "restore-nft",
            Self::Routes => "ip-last",
            Self::Flows => "flows",
        }
    }
}

/// The input and where each step went.
#[derive(Debug, Default)]
pub(crate) struct Input {
    lines: Vec<Line>,
    /// Steps about a link whose name would mean something else in a batch.
    pub(crate) unnameable: Vec<usize>,
}

/// A line of a part, and the steps that it is about.
#[derive(Debug)]
struct Line {
    part: Part,
    steps: Vec<usize>,
    text: String,
}

impl Input {
    /// Renders every step of a plan. What frees a place comes first in its part, and what deletes a link last.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut input = Self::default();
        let (mut freed, mut deleted, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (index, step) in plan.steps.iter().enumerate() {
            match &step.action {
                action if !is_nameable(action) => input.unnameable.push(index),
                Action::LinkFree { link } => freed.push((index, link.as_str())),
                Action::LinkDel { link } => deleted.push((index, link.as_str())),
                action => {
                    others.push(Line { part: part(action), steps: vec![index], text: line(action) });
                }
            }
        }
        input.delete(Part::Links, &freed);
        input.lines.append(&mut others);
        input.name_new_links(plan);
        input.delete(Part::Routes, &deleted);
        input
    }

    /// A new link gets its name last, when it is marked: somebody else's link of that name may have come meanwhile, and what
    /// is said about a name would be done to that one.
    fn name_new_links(&mut self, plan: &Plan) {
        let made = plan.steps.iter().filter_map(|step| match &step.action {
            Action::LinkAdd { link, .. } => Some(link.as_str()),
            _ => None,
        });
        let made: BTreeSet<&str> = made.collect();
        let mut named = Vec::new();
        for line in self.lines.iter_mut().filter(|line| line.part == Part::Links) {
            let (link, is_alias) =
                match line.steps.first().and_then(|at| plan.steps.get(*at)).map(|step| &step.action) {
                    Some(
                        Action::LinkAdd { link, .. }
                        | Action::ProxyDelay { link }
                        | Action::AddrPut { link, .. },
                    ) => (link.as_str(), false),
                    Some(Action::LinkAlias { link, .. }) => (link.as_str(), true),
                    _ => continue,
                };
            if !made.contains(link) {
                continue;
            }
            let nameless = nameless(link);
            let word = |word: &str| format!(" {word} {link}");
            let found = ["name", "dev"].into_iter().find(|before| {
                let text = word(before);
                line.text.ends_with(&text) || line.text.contains(&format!("{text} "))
            });
            if let Some(before) = found {
                line.text = line.text.replacen(&word(before), &format!(" {before} {nameless}"), 1);
            }
            if is_alias {
                let text = format!("link set dev {nameless} name {link}");
                named.push(Line { part: Part::Links, steps: line.steps.clone(), text });
            }
        }
        self.lines.append(&mut named);
    }

    /// Links that go together are put into a group and deleted as one: the kernel waits once for all of them, where
    /// each by itself would take it twenty milliseconds.
    fn delete(&mut self, part: Part, links: &[(usize, &str)]) {
        if let [(index, link)] = links {
            self.lines.push(Line { part, steps: vec![*index], text: format!("link del dev {link}") });
        } else if !links.is_empty() {
            for (index, link) in links {
                let text = format!("link set dev {link} group {LEAVING_GROUP}");
                self.lines.push(Line { part, steps: vec![*index], text });
            }
            let steps = links.iter().map(|(index, _)| *index).collect();
            self.lines.push(Line { part, steps, text: format!("link del group {LEAVING_GROUP}") });
        }
    }

    /// The steps that each line of a part is about.
    pub(crate) fn steps(&self, part: Part) -> Vec<&[usize]> {
        self.lines.iter().filter(|line| line.part == part).map(|line| line.steps.as_slice()).collect()
    }

    /// What the script reads: a line with the term and the length of each part, and the parts.
    pub(crate) fn bytes(&self, term: Option<u64>) -> Vec<u8> {
        let parts = Part::ALL.map(|part| {
            let lines = self.lines.iter().filter(|line| line.part == part).map(|line| line.text.as_str());
            match part {
                Part::Nat(_) => tables(lines),
                _ => lines.fold(String::new(), |text, line| text + line + "\n"),
            }
        });
        let mut text = term.map_or_else(|| "-".to_owned(), |term| term.to_string());
        for part in &parts {
            let _ = write!(text, " {}", part.len());
        }
        text.push('\n');
        text.push_str(&parts.concat());
        text.into_bytes()
    }
}

/// Rules by the table that their chain is in; a table without any is not mentioned.
fn tables<'a>(rules: impl Iterator<Item = &'a str>) -> String {
    let (nat, mangle): (Vec<&str>, Vec<&str>) = rules.partition(|rule| rule.contains(" POSTROUTING "));
    let block = |(table, rules): (&str, Vec<&str>)| {
        let block = format!("*{table}\n{}\nCOMMIT\n", rules.join("\n"));
        if rules.is_empty() { String::new() } else { block }
    };
    [("nat", nat), ("mangle", mangle)].into_iter().map(block).collect()
}

/// Where a step belongs.
fn part(action: &Action) -> Part {
    match action {
        Action::LinkFree { .. }
        | Action::LinkAdd { .. }
        | Action::LinkAlias { .. }
        | Action::LinkGroup { .. }
        | Action::LinkRemote { .. }
        | Action::LinkMtu { .. }
        | Action::LinkArp { .. }
        | Action::LinkMac { .. }
        | Action::ProxyDelay { .. }
        | Action::AddrPut { .. } => Part::Links,
        Action::Forward
        | Action::NoIpv6 { .. }
        | Action::ProxyArp { .. }
        | Action::LooseFilter { .. }
        | Action::Promote { .. } => Part::Sysctls,
        Action::NatDel { variant, .. }
        | Action::NatInsert { variant, .. }
        | Action::ClampDel { variant, .. }
        | Action::ClampAll { variant }
        | Action::ClampInsert { variant, .. } => Part::Nat(*variant),
        Action::LinkUp { .. }
        | Action::LinkDel { .. }
        | Action::AddrDel { .. }
        | Action::RoutePut { .. }
        | Action::RouteDel { .. } => Part::Routes,
        Action::ForgetAstray { .. } | Action::ForgetLeft { .. } => Part::Flows,
    }
}

/// Whether the link that a step drops can be named in a batch. Ours can; but the kernel allows names with a
/// `#`, which would turn the rest of the line into a comment and the line into one about another link.
fn is_nameable(action: &Action) -> bool {
    let plain = |name: &str| {
        !name.starts_with('-') && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c))
    };
    match action {
        Action::LinkFree { link } | Action::LinkDel { link } => plain(link),
        Action::RouteDel { route } => route.dev.as_deref().is_none_or(plain),
        _ => true,
    }
}

/// What a link is called until it is marked.
fn nameless(link: &str) -> String {
    let digest = Sha1::digest(link);
    digest.iter().take(6).fold("cw-".to_owned(), |name, byte| name + &format!("{byte:02x}"))
}

/// The one line of a step.
fn line(action: &Action) -> String {
    match action {
        Action::LinkAdd { link, want, mac, group, mtu } => {
            let mac = mac.map(|mac| format!(" address {mac}")).unwrap_or_default();
            let mtu = mtu.map(|mtu| format!(" mtu {mtu}")).unwrap_or_default();
            // By the word before it a name is one, also where it could be an option.
            format!("link add name {link}{mac}{mtu} group {group} {}", kind_words(want))
        }
        Action::LinkGroup { link, group } => format!("link set dev {link} group {group}"),
        Action::LinkRemote { link, remote } => format!("link set dev {link} type vxlan remote {remote}"),
        Action::LinkMtu { link, mtu } => format!("link set dev {link} mtu {mtu}"),
        Action::LinkArp { link } => format!("link set dev {link} arp on"),
        Action::LinkMac { link, mac } => format!("link set dev {link} address {mac}"),
        Action::LinkAlias { link, owner } => format!("link set dev {link} alias {MARK}{owner}"),
        Action::LinkUp { link } => format!("link set dev {link} up"),
        // As part of a batch: see `Input::delete`.
        Action::LinkFree { link } | Action::LinkDel { link } => format!("link del dev {link}"),
        Action::ProxyDelay { link } => {
            format!("ntable change name arp_cache dev {link} proxy_delay 0 retrans {RETRANS}")
        }
        Action::AddrPut { link, address } => format!("addr replace {address} dev {link}"),
        Action::AddrDel { link, address } => format!("addr del {address} dev {link}"),
        Action::RoutePut { route, replace: false } => format!("route add {}", route_words(route)),
        Action::RoutePut { route, replace: true } => format!("route replace {}", route_words(route)),
        Action::RouteDel { route } => format!("route del {}", route_words(route)),
        Action::Forward => "ipv4/ip_forward 1".into(),
        Action::NoIpv6 { link } => format!("ipv6/conf/{link}/disable_ipv6 1"),
        Action::ProxyArp { link, on } => format!("ipv4/conf/{link}/proxy_arp {}", u8::from(*on)),
        Action::LooseFilter { link } => format!("ipv4/conf/{link}/rp_filter {LOOSE}"),
        Action::Promote { link } => format!("ipv4/conf/{link}/promote_secondaries 1"),
        Action::NatDel { spec, .. } => format!("-D POSTROUTING {spec}"),
        Action::NatInsert { rule, .. } => format!("-I POSTROUTING 1 {rule}"),
        Action::ClampDel { spec, .. } => format!("-D FORWARD {spec}"),
        Action::ClampAll { .. } => format!("-I FORWARD 1 {}", shared_clamp_spec()),
        Action::ClampInsert { owner, link, .. } => {
            format!("-I FORWARD 1 {}", clamp_spec(owner, link.as_str()))
        }
        Action::ForgetAstray { range, egress, own } => {
            format!("{range} {} {} {own}", egress.first, egress.last)
        }
        Action::ForgetLeft { range, egress } => format!("{range} {} {} -", egress.first, egress.last),
    }
}

fn kind_words(kind: &LinkKind) -> String {
    let mut words = String::new();
    let (local, remote) = match kind {
        LinkKind::Vxlan { local, remote, .. } | LinkKind::Gre { local, remote, .. } => (local, remote),
    };
    words.push_str(match kind {
        LinkKind::Vxlan { .. } => "type vxlan",
        LinkKind::Gre { .. } => "type gre",
    });
    for (word, address) in [("local", local), ("remote", remote)] {
        if let Some(address) = address {
            let _ = write!(words, " {word} {address}");
        }
    }
    let _ = match kind {
        LinkKind::Vxlan { vni, port, dev, .. } => {
            let dev = dev.iter().fold(String::new(), |_, dev| format!(" dev {dev}"));
            write!(words, " id {vni} dstport {port}{dev}")
        }
        LinkKind::Gre { ttl, .. } => write!(words, " ttl {ttl}"),
    };
    words
}

fn route_words(route: &Route) -> String {
    let mut words = format!("{route} proto {ROUTE_PROTOCOL}");
    if route.metric != 0 {
        let _ = write!(words, " metric {}", route.metric);
    }
    words
}

#[cfg(test)]
mod tests {
    use causeway_core::leases::Mac;
    use causeway_core::names::ObjectKey;
    use causeway_core::vpc::action::SourceNat;
    use causeway_core::vpc::{EgressRange, LINK_GROUP, Step};

    use super::*;

    fn steps(actions: Vec<Action>) -> Plan {
        let steps = actions.into_iter().map(|action| Step { owner: None, action }).collect();
        Plan { steps, ..Plan::default() }
    }

    fn text(plan: &Plan) -> String {
        String::from_utf8(Input::of(plan).bytes(Some(7))).expect("text")
    }

    #[test]
    fn a_link_goes_up_and_gets_its_route_after_its_settings_and_its_rule_stand() {
        let link = || "demo".parse().expect("name");
        let (local, remote) = ("172.50.16.11".parse().ok(), "172.50.16.21".parse().ok());
        let range = "242.1.0.0/16".parse().expect("range");
        let route = Route { range, via: None, dev: Some("demo".into()), protocol: ROUTE_PROTOCOL, metric: 0 };
        let owner = ObjectKey::new("ns1", "demo").expect("a key");
        let egress = EgressRange { first: [242, 0, 0, 1].into(), last: [242, 0, 0, 8].into() };
        let kind =
            LinkKind::Vxlan { vni: 100, port: 4789, local, remote, dev: Some("net1".into()), odd: false };
        let own = "242.0.0.0/16".parse().expect("range");
        let mac = Mac([0x02, 0x43, 172, 50, 16, 11]);
        let rule = SourceNat { owner: owner.clone(), link: "demo".into(), own, range, egress };
        let plan = steps(vec![
            Action::LinkFree { link: "in-the-way".into() },
            Action::Forward,
            Action::LinkAdd { link: link(), want: kind, mac: Some(mac), group: LINK_GROUP, mtu: Some(1450) },
            Action::LinkAlias { link: link(), owner: owner.clone() },
            Action::AddrPut { link: link(), address: "10.100.0.1/24".parse().expect("address") },
            Action::ProxyDelay { link: link() },
            Action::ProxyArp { link: link(), on: true },
            Action::LooseFilter { link: link() },
            Action::Promote { link: link() },
            Action::LinkUp { link: link() },
            Action::RoutePut { route: route.clone(), replace: false },
            Action::AddrDel { link: link(), address: "10.99.0.1/24".parse().expect("address") },
            Action::RouteDel { route: Route { metric: 7, ..route } },
            Action::LinkDel { link: "stale".into() },
            Action::NatInsert { variant: Variant::Nft, rule },
            Action::ClampInsert { variant: Variant::Nft, owner, link: link() },
            Action::ForgetAstray { range, egress, own },
            Action::ForgetLeft { range: own, egress },
        ]);
        insta::assert_snapshot!(text(&plan), @r#"
        7 398 109 0 297 164 81
        link del dev in-the-way
        link add name cw-89e495e7941c address 02:43:ac:32:10:0b mtu 1450 group 1129797889 type vxlan local 172.50.16.11 remote 172.50.16.21 id 100 dstport 4789 dev net1
        link set dev cw-89e495e7941c alias causeway:ns1/demo
        addr replace 10.100.0.1/24 dev cw-89e495e7941c
        ntable change name arp_cache dev cw-89e495e7941c proxy_delay 0 retrans 50
        link set dev cw-89e495e7941c name demo
        ipv4/ip_forward 1
        ipv4/conf/demo/proxy_arp 1
        ipv4/conf/demo/rp_filter 2
        ipv4/conf/demo/promote_secondaries 1
        *nat
        -I POSTROUTING 1 ! -s 242.0.0.0/16 -d 242.1.0.0/16 -o demo -m comment --comment "causeway:ns1/demo" -j SNAT --to-source 242.0.0.1-242.0.0.8
        COMMIT
        *mangle
        -I FORWARD 1 -o demo -p tcp -m tcp --tcp-flags SYN,RST SYN -m comment --comment "causeway:ns1/demo" -j TCPMSS --clamp-mss-to-pmtu
        COMMIT
        link set dev demo up
        route add 242.1.0.0/16 dev demo proto 157
        addr del 10.99.0.1/24 dev demo
        route del 242.1.0.0/16 dev demo proto 157 metric 7
        link del dev stale
        242.1.0.0/16 242.0.0.1 242.0.0.8 242.0.0.0/16
        242.0.0.0/16 242.0.0.1 242.0.0.8 -
        "#);
    }

    #[test]
    fn links_that_go_together_are_deleted_as_one() {
        let free = |link: &str| Action::LinkFree { link: link.into() };
        let del = |link: &str| Action::LinkDel { link: link.into() };
        let up = Action::LinkUp { link: "u".parse().expect("name") };
        insta::assert_snapshot!(text(&steps(vec![free("x"), free("y"), del("a"), up, del("b")])), @r#"
        7 90 0 0 0 108 0
        link set dev x group 1129797890
        link set dev y group 1129797890
        link del group 1129797890
        link set dev u up
        link set dev a group 1129797890
        link set dev b group 1129797890
        link del group 1129797890
        "#);
    }

    #[test]
    fn a_name_that_would_mean_another_link_in_a_batch_is_not_said() {
        let plan =
            steps(vec![Action::LinkDel { link: "eth0#x".into() }, Action::LinkDel { link: "ok".into() }]);
        assert!(!text(&plan).contains("eth0"));
        assert_eq!(Input::of(&plan).unnameable, [0]);
    }
}
