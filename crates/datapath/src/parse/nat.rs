//! The NAT rules of both iptables variants, and which variant the gateway uses.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_core::names::{Cidr, ObjectKey};
use causeway_core::vpc::action::rule_spec;
use causeway_core::vpc::{EgressRange, MARK, Nat, NatRule, Variant};

use super::unreadable;
use crate::Trouble;
use crate::sections::{Sections, failed};

const CHAIN: &str = "-A POSTROUTING ";

fn names(variant: Variant) -> (&'static str, &'static str) {
    match variant {
        Variant::Legacy => ("nat-legacy", "filter-legacy"),
        Variant::Nft => ("nat-nft", "filter-nft"),
    }
}

/// Both variants' rules. One that is installed but does not work here (no kernel support) counts as absent,
/// unless nothing is left or the gateway's own rules are in it.
pub(super) fn nat(sections: &Sections, stderr: &[u8]) -> Result<Nat, Trouble> {
    let mut postrouting = BTreeMap::new();
    let mut broken = None;
    for variant in [Variant::Legacy, Variant::Nft] {
        match sections.find(names(variant).0) {
            Some(section) if section.status == 0 => {
                postrouting.insert(variant, section.text.lines().filter_map(rule).collect());
            }
            Some(section) => broken = Some(failed(section.status, stderr)),
            None => {}
        }
    }
    let chosen = active(sections);
    let holds_the_chains = sections.find(names(chosen).1).is_some();
    let listed = postrouting.contains_key(&chosen);
    let other = postrouting.keys().next().copied().filter(|_| !holds_the_chains);
    match (if listed { Some(chosen) } else { other }, broken) {
        (Some(active), _) => Ok(Nat { active, postrouting }),
        (None, Some(broken)) => Err(broken),
        (None, None) => Err(unreadable("NAT rules", "there is no listing")),
    }
}

/// The variant that holds the gateway's own chains; where none does (or both do), the one that the gateway's
/// scripts choose: legacy if it works.
fn active(sections: &Sections) -> Variant {
    let holds = |variant| sections.find(names(variant).1).is_some();
    match (holds(Variant::Legacy), holds(Variant::Nft)) {
        (true, _) => Variant::Legacy,
        (false, true) => Variant::Nft,
        (false, false) => match sections.find("choice") {
            Some(section) if section.status == 0 => Variant::Legacy,
            _ => Variant::Nft,
        },
    }
}

/// A line of the listing as a rule; the chain's policy is none.
fn rule(line: &str) -> Option<NatRule> {
    let spec = line.strip_prefix(CHAIN)?.trim_end();
    Some(ours(spec).unwrap_or_else(|| NatRule::Foreign(spec.into())))
}

fn ours(spec: &str) -> Option<NatRule> {
    let words = words(spec)?;
    let comment = words.iter().position(|word| word == "--comment")?;
    let owner: ObjectKey = words.get(comment + 1)?.strip_prefix(MARK)?.parse().ok()?;
    let spec = canonical(&owner, &words).unwrap_or_else(|| spec.into());
    Some(NatRule::Ours { owner, spec })
}

/// The one form of a rule that we would have made; none if it says anything more or less.
fn canonical(owner: &ObjectKey, words: &[String]) -> Option<String> {
    // A destination of everything is not printed.
    let mut range: Option<Cidr> = None;
    let mut egress = None;
    let mut words = words.iter().map(String::as_str);
    let (mut target, mut comments) = (false, 0);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word {
            "-d" if range.is_none() => range = Some(value.parse().ok()?),
            "-m" if value == "comment" => {}
            "--comment" => comments += 1,
            "-j" if value == "SNAT" => target = true,
            "--to-source" if egress.is_none() => egress = Some(addresses(value)?),
            _ => return None,
        }
    }
    let everything = || "0.0.0.0/0".parse().ok();
    (target && comments == 1).then_some(rule_spec(owner, range.or_else(everything)?, egress?))
}

/// `a-b`, or `a` for a range of one.
fn addresses(text: &str) -> Option<EgressRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (Ipv4Addr, Ipv4Addr) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(EgressRange { first, last })
}

/// Splits at spaces, honouring the quotes and backslashes that iptables prints; none if a quote is left open.
fn words(spec: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = spec.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!quoted).then_some(words)
}
