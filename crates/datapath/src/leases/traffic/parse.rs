//! What the tools print, as values.

use causeway_core::leases::traffic::{Chain, Have, Iptables, Rule, Rules, Traffic, Variant};
use causeway_core::{Cidr, Family};

use crate::sections::{Section, Sections, cut};
use causeway_core::words::words;

/// What is there, and what could not be seen of it. A kernel need not know IPv6 if the network does not have it.
pub(super) fn have(sections: &Sections, want: &Traffic) -> (Have, Vec<String>) {
    let need_not = |family| family == Family::V6 && !want.has(family);
    let mut have = Have::default();
    let mut unseen = Vec::new();
    for (family, ip) in [(Family::V4, "ip"), (Family::V6, "ip6")] {
        match sections.find(&format!("table-{ip}")) {
            Some(section) if section.status == 0 => {
                have.tables.insert(family, table(&section.text));
            }
            Some(section) if is_absent(section) || need_not(family) => {}
            None if need_not(family) => {}
            section => {
                unseen.push(format!("the nftables table `causeway` of {family}: {}", complaint(section)));
            }
        }
        if succeeded(sections, &format!("flannel-{ip}")) {
            have.flannels.insert(family);
        }
    }
    for iptables in Iptables::ALL {
        let mut rules = Rules::default();
        for chain in Chain::ALL {
            match sections.find(&section_name(iptables, chain.name())) {
                Some(section) if section.status == 0 => {
                    rules.chains.insert(chain, chain_of(chain, &section.text));
                }
                // Not in use.
                None if iptables.variant == Variant::Legacy => continue,
                _ if need_not(iptables.family) => continue,
                section => {
                    let (name, command) = (chain.name(), iptables.command());
                    unseen.push(format!("{name} of {command}: {}", complaint(section)));
                    continue;
                }
            }
            if succeeded(sections, &section_name(iptables, chain.flannels())) {
                rules.flannels.insert(chain);
            }
        }
        if !rules.chains.is_empty() {
            have.rules.insert(iptables, rules);
        }
    }
    (have, unseen)
}

fn section_name(iptables: Iptables, chain: &str) -> String {
    format!("{}-{chain}", iptables.command())
}

fn succeeded(sections: &Sections, name: &str) -> bool {
    sections.find(name).is_some_and(|section| section.status == 0)
}

fn is_absent(section: &Section) -> bool {
    section.text.contains("No such file or directory")
}

pub(super) fn complaint(section: Option<&Section>) -> String {
    let said = section.map(|section| cut(section.text.split_whitespace().collect::<Vec<_>>().join(" ")));
    said.filter(|said| !said.is_empty()).unwrap_or_else(|| "no reason given".into())
}

/// Line by line, in the one way in which we write numbers and addresses.
fn table(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().map(canonical).collect::<Vec<_>>().join(" ")).collect()
}

fn canonical(word: &str) -> String {
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).map_or_else(|_| word.into(), |number| format!("{number:#x}"));
    }
    match word.parse::<Cidr>() {
        Ok(range) => range.to_string(),
        Err(_) => word.into(),
    }
}

fn chain_of(chain: Chain, text: &str) -> Vec<Rule> {
    let start = format!("-A {} ", chain.name());
    let listed = text.lines().filter_map(|line| line.strip_prefix(&start)).map(str::trim_end);
    listed
        .map(|listed| match words(listed) {
            Some(words) => Rule::of(chain, &words, listed),
            None => Rule::Others { ends: false },
        })
        .collect()
}
