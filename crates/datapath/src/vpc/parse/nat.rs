//! The rules of both iptables variants, and which variant the gateway uses.

use std::collections::BTreeMap;

use causeway_core::names::{Ipv4Cidr, ObjectKey};
use causeway_core::vpc::action::{SHARED, SourceNat, clamp_spec, shared_clamp_spec};
use causeway_core::vpc::{Filter, MARK, Nat, NatRule, Variant};

use super::unreadable;
use crate::Trouble;
use crate::sections::{Sections, failed};
use causeway_core::words::words;

/// What one variant's `iptables-save` says.
#[derive(Default)]
struct Listing {
    postrouting: Vec<NatRule>,
    forward: Vec<NatRule>,
    filter: Filter,
    /// Whether the gateway's own chain is in it.
    is_the_gateways: bool,
}

/// Both variants' rules. One that is installed but does not work here (no kernel support) counts as absent where
/// the other is seen to be the gateway's; otherwise the gateway's own rules may be in it.
pub(super) fn nat(sections: &Sections) -> Result<Nat, Trouble> {
    let mut listings = BTreeMap::new();
    let mut broken = None;
    for (variant, name) in [(Variant::Legacy, "rules-legacy"), (Variant::Nft, "rules-nft")] {
        match sections.find(name) {
            Some(section) if section.status == 0 => {
                listings.insert(variant, listing(&section.text)?);
            }
            Some(section) => broken = Some(failed(section.status, &section.text)),
            None => {}
        }
    }
    let found = listings.values().any(|listing: &Listing| listing.is_the_gateways);
    if let Some(broken) = broken.filter(|_| !found) {
        return Err(broken);
    }
    let chosen = active(sections, &listings);
    let active = listings.contains_key(&chosen).then_some(chosen).or(listings.keys().next().copied());
    let active = active.ok_or_else(|| unreadable("rules", "there is no listing"))?;
    let mut nat = Nat { active, ..Nat::default() };
    for (variant, Listing { postrouting, forward, filter, .. }) in listings {
        nat.postrouting.insert(variant, postrouting);
        nat.forward.insert(variant, forward);
        if !filter.is_empty() {
            nat.filter.insert(variant, filter);
        }
    }
    Ok(nat)
}

/// The variant that holds the gateway's own chains; where none does (or both do), the one that the gateway's
/// scripts choose: legacy if it works.
fn active(sections: &Sections, listings: &BTreeMap<Variant, Listing>) -> Variant {
    let holds = |variant| listings.get(&variant).is_some_and(|listing| listing.is_the_gateways);
    match (holds(Variant::Legacy), holds(Variant::Nft)) {
        (true, _) => Variant::Legacy,
        (false, true) => Variant::Nft,
        (false, false) => match sections.find("choice") {
            Some(section) if section.status == 0 => Variant::Legacy,
            _ => Variant::Nft,
        },
    }
}

fn listing(text: &str) -> Result<Listing, Trouble> {
    let mut listing = Listing::default();
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if ["nat", "mangle"].iter().any(|table| line.starts_with(&format!("# Table `{table}' "))) {
            // Somebody's nft rules there have no iptables form: what ours are is unknown.
            return Err(unreadable("rules", line.trim_start_matches("# ")));
        } else if let Some(rule) = line.strip_prefix("s ") {
            let rule = source_nat_of_ours(rule).ok_or_else(|| unreadable("rules", line))?;
            listing.postrouting.push(rule);
        } else if table == "nat" {
            listing.is_the_gateways |= line.starts_with(":SNAT_FILTER ");
            listing.postrouting.extend(line.strip_prefix("-A POSTROUTING ").map(rule));
        } else if table == "mangle" {
            listing.forward.extend(line.strip_prefix("-A FORWARD ").map(rule));
        } else if table == "filter" {
            listing.filter.take(line);
        }
    }
    Ok(listing)
}

/// `own range link owner addresses`: what `observe.sh` makes of a rule of the form that ours have.
fn source_nat_of_ours(text: &str) -> Option<NatRule> {
    let mut words = text.split(' ');
    let (own, range, link) = (words.next()?, words.next()?, words.next()?);
    let (owner, egress) = (words.next()?, words.next()?);
    let Ok(owner) = owner.parse::<ObjectKey>() else {
        let comment = format!("-m comment --comment \"{MARK}{owner}\"");
        let spec = format!("! -s {own} -d {range} -o {link} {comment} -j SNAT --to-source {egress}");
        return Some(NatRule::Foreign(spec));
    };
    let (own, range, egress) = (own.parse().ok()?, range.parse().ok()?, egress.parse().ok()?);
    let rule = SourceNat { owner, link: link.into(), own, range, egress };
    Some(NatRule::Ours { spec: rule.to_string(), owner: rule.owner })
}

fn rule(spec: &str) -> NatRule {
    let spec = spec.trim_end();
    ours(spec).unwrap_or_else(|| NatRule::Foreign(spec.into()))
}

fn ours(spec: &str) -> Option<NatRule> {
    let words = words(spec)?;
    let comment = words.iter().position(|word| word == "--comment")?;
    let comment = words.get(comment + 1)?;
    if comment == SHARED {
        let spec = in_order(&words, shared_clamp_spec()).unwrap_or_else(|| spec.into());
        return Some(NatRule::Shared { spec });
    }
    let owner: ObjectKey = comment.strip_prefix(MARK)?.parse().ok()?;
    let canonical = source_nat(&owner, &words).or_else(|| clamp(&owner, &words));
    let spec = canonical.unwrap_or_else(|| spec.into());
    Some(NatRule::Ours { owner, spec })
}

/// The one form of a source NAT rule that we would have made; none if it says anything more or less.
fn source_nat(owner: &ObjectKey, words: &[String]) -> Option<String> {
    // A destination of everything is not printed.
    let mut range: Option<Ipv4Cidr> = None;
    let (mut own, mut link, mut egress) = (None, None, None);
    let mut words = words.iter().map(String::as_str);
    let (mut target, mut comments) = (false, 0);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word {
            "!" if value == "-s" && own.is_none() => own = Some(words.next()?.parse().ok()?),
            "-d" if range.is_none() => range = Some(value.parse().ok()?),
            "-o" if link.is_none() => link = Some(value.to_owned()),
            "-m" if value == "comment" => {}
            "--comment" => comments += 1,
            "-j" if value == "SNAT" => target = true,
            "--to-source" if egress.is_none() => egress = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    let everything = || "0.0.0.0/0".parse().ok();
    let (owner, range) = (owner.clone(), range.or_else(everything)?);
    let rule = SourceNat { owner, link: link?, own: own?, range, egress: egress? };
    (target && comments == 1).then(|| rule.to_string())
}

/// The same of a rule that fits segment sizes.
fn clamp(owner: &ObjectKey, listed: &[String]) -> Option<String> {
    let link = listed.iter().position(|word| word == "-o").and_then(|at| listed.get(at + 1))?;
    in_order(listed, clamp_spec(owner, link))
}

/// The rule in the order in which we say it, if it has the same words.
fn in_order(listed: &[String], spec: String) -> Option<String> {
    let sorted = |mut words: Vec<String>| {
        words.sort_unstable();
        words
    };
    (sorted(words(&spec)?) == sorted(listed.to_vec())).then_some(spec)
}
