//! What the kernel should do with packets of pods, whatever their way.
//!
//! Masquerading is in an nftables table of our own, one for each family: so a node without one of the families lacks nothing,
//! and kernels that cannot translate addresses in a table for both can have it. The table is exactly as it should be or
//! it is replaced as a whole. It comes after the host's other tables ([`PRIORITY`]): what those translate stays
//! translated their way.
//!
//! Letting packets through cannot be done in a table of one's own: what one table accepts another may still drop. So the
//! accepts stand in the host's own FORWARD chain, of each variant of iptables that is in use, and are marked by a comment.
//! They stand last there, because they answer what comes after the last rule, the chain's policy: in front they
//! would let packets past the network policies and the administrator's own rules in that chain. A rule that drops everything
//! is a policy by another name, and they stand before it.
//!
//! First comes what is missing, then what should not be there; and what flannel left goes last of all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Cidr, Family};

/// What the kernel should do with packets of pods, whatever their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The network and this node's part of it, for each family. One that is absent here should have nothing of ours.
    pub ranges: Vec<(Cidr, Cidr)>,
    /// Whether the addresses of this node's pods are hidden from whatever is outside the network.
    pub masquerade: bool,
    /// Whether packets from and to pods are let through, also where the node lets nothing through.
    pub forward: bool,
}

/// The name of our table.
pub const TABLE: &str = "causeway";
/// When our table has its turn: after those of the host, which have theirs at 100.
pub const PRIORITY: i32 = 105;
/// What the comment of our rules in the host's chains begins with.
pub const MARK: &str = "causeway: pods of ";
/// What kube-proxy marks packets with that it translates itself.
const KUBE_PROXYS: &str = "0x4000";

impl Traffic {
    /// Nothing at all.
    pub fn none() -> Self {
        Self { ranges: Vec::new(), masquerade: false, forward: false }
    }

    /// Whether the network has this family.
    pub fn has(&self, family: Family) -> bool {
        self.of(family).next().is_some()
    }

    fn of(&self, family: Family) -> impl Iterator<Item = (Cidr, Cidr)> {
        self.ranges.iter().copied().filter(move |(network, _)| network.family() == family)
    }

    /// Our table of a family, line by line, if there should be one.
    pub fn table(&self, family: Family) -> Option<Vec<String>> {
        if !(self.masquerade && self.has(family)) {
            return None;
        }
        let (ip, multicast) = match family {
            Family::V4 => ("ip", "224.0.0.0/4"),
            Family::V6 => ("ip6", "ff00::/8"),
        };
        let mut lines = vec![
            format!("table {ip} {TABLE} {{"),
            "chain postrouting {".into(),
            format!("type nat hook postrouting priority {PRIORITY}; policy accept;"),
            format!("meta mark & {KUBE_PROXYS} == {KUBE_PROXYS} return"),
        ];
        for (network, subnet) in self.of(family) {
            lines.extend([
                format!("{ip} saddr {network} {ip} daddr {network} return"),
                format!("{ip} saddr {network} {ip} daddr != {multicast} masquerade fully-random"),
                // Whoever comes to this node for one of its pods is seen as who it is; on the way to another node's
                // pod the answer has to come back here.
                format!("{ip} saddr != {network} {ip} daddr {subnet} return"),
                format!("{ip} saddr != {network} {ip} daddr {network} masquerade fully-random"),
            ]);
        }
        lines.extend(["}".into(), "}".into()]);
        Some(lines)
    }

    /// What the host's FORWARD chains of a family should accept.
    pub fn accepts(&self, family: Family) -> Vec<Accept> {
        let networks = self.of(family).filter(|_| self.forward).map(|(network, _)| network);
        networks.flat_map(|range| Side::ALL.map(|side| Accept { side, range })).collect()
    }
}

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
    fn of_ours(&self) -> Option<String> {
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

/// What a set of rules holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules of the host's chains, in their order. One whose table is not in use, or could not be seen, is absent.
    pub chains: BTreeMap<Chain, Vec<Rule>>,
    /// From which of them flannel's chains would be reached.
    pub flannels: BTreeSet<Chain>,
}

/// What is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Have {
    /// Our tables, line by line.
    pub tables: BTreeMap<Family, Vec<String>>,
    /// The families of which flannel has an nftables table.
    pub flannels: BTreeSet<Family>,
    /// The host's rules, of the sets that are in use.
    pub rules: BTreeMap<Iptables, Rules>,
}

/// One change, whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Puts our table in the place of whatever has its name.
    PutTable(Family, Vec<String>),
    /// Takes rules of ours out of a FORWARD chain and puts these in, from a place on.
    SetAccepts {
        /// Where.
        iptables: Iptables,
        /// As they are printed.
        out: Vec<String>,
        /// In their order.
        put: Vec<Accept>,
        /// How many rules are before them when those of ours are out.
        after: usize,
    },
    /// Deletes our table.
    DropTable(Family),
    /// Removes a chain of flannel's, if it is there, and the rules that lead to it.
    DropFlannels(Iptables, Chain, Vec<String>, bool),
    /// Deletes flannel's table.
    DropFlannelsTable(Family),
}

/// In words.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PutTable(family, _) => write!(f, "put the nftables table `{TABLE}` of {family}"),
            Self::SetAccepts { iptables, put, .. } => match put.first() {
                Some(Accept { range, .. }) => {
                    write!(f, "let pods of {range} through FORWARD of {}", iptables.command())
                }
                None => write!(f, "remove our rules from FORWARD of {}", iptables.command()),
            },
            Self::DropTable(family) => write!(f, "remove the nftables table `{TABLE}` of {family}"),
            Self::DropFlannels(iptables, chain, ..) => {
                write!(f, "remove flannel's {} of {}", chain.flannels(), iptables.command())
            }
            Self::DropFlannelsTable(family) => write!(f, "remove flannel's nftables table of {family}"),
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is missing.
    pub puts: Vec<Step>,
    /// What should not be there: only once all of the above is.
    pub drops: Vec<Step>,
}

impl Plan {
    /// All steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.puts.iter().chain(&self.drops)
    }
}

/// Compares. What flannel has for a family that the network does not have is left to it.
pub fn plan(want: &Traffic, have: &Have) -> Plan {
    let mut plan = Plan::default();
    for family in Family::ALL {
        let held = have.tables.get(&family);
        match want.table(family) {
            Some(table) if held != Some(&table) => plan.puts.push(Step::PutTable(family, table)),
            None if held.is_some() => plan.drops.push(Step::DropTable(family)),
            Some(_) | None => {}
        }
    }
    for (iptables, rules) in &have.rules {
        let Some(forward) = rules.chains.get(&Chain::Forward) else { continue };
        let put = want.accepts(iptables.family);
        let steps = if put.is_empty() { &mut plan.drops } else { &mut plan.puts };
        steps.extend(set_accepts(*iptables, put, forward));
    }
    for (iptables, rules) in have.rules.iter().filter(|(iptables, _)| want.has(iptables.family)) {
        for chain in Chain::ALL {
            let jumps = rules.chains.get(&chain).into_iter().flatten().filter_map(|rule| match rule {
                Rule::Flannels(listed) => Some(listed.clone()),
                Rule::Ours(_) | Rule::Stale(_) | Rule::Others { .. } => None,
            });
            let (jumps, is_there) = (jumps.collect::<Vec<_>>(), rules.flannels.contains(&chain));
            if is_there || !jumps.is_empty() {
                plan.drops.push(Step::DropFlannels(*iptables, chain, jumps, is_there));
            }
        }
    }
    let tables = have.flannels.iter().filter(|family| want.has(**family));
    plan.drops.extend(tables.map(|family| Step::DropFlannelsTable(*family)));
    plan
}

/// Nothing if each stands there once, where it is reached, and nothing else of ours does.
fn set_accepts(iptables: Iptables, put: Vec<Accept>, forward: &[Rule]) -> Option<Step> {
    let end = forward.iter().position(|rule| *rule == Rule::Others { ends: true }).unwrap_or(forward.len());
    let mut reached: Vec<Accept> = Vec::new();
    let mut out: Vec<String> = Vec::new();
    for (at, rule) in forward.iter().enumerate() {
        out.extend(rule.of_ours());
        if let (Rule::Ours(accept), true) = (rule, at < end) {
            reached.push(*accept);
        }
    }
    reached.sort_unstable();
    let mut wanted = put.clone();
    wanted.sort_unstable();
    if reached == wanted && out.len() == wanted.len() {
        return None;
    }
    let after = forward[..end].iter().filter(|rule| rule.of_ours().is_none()).count();
    Some(Step::SetAccepts { iptables, out, put, after })
}
