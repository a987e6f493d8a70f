//! Which of the peer's ends are compared with which of our tunnels, and what comes of it.
//!
//! Anybody who can write at the broker can write one more end in another's name. So a tunnel is compared with all that may be
//! its other end, and each of them is named.

use std::collections::BTreeMap;

use super::ends::{Agreement, End, Says, mismatch};
use super::objects::Far;
use super::want::TunnelKind;
use crate::names::ObjectKey;

/// So many ends are named.
const NAMED: usize = 5;

/// Which of the peer's ends may be the other end of which of our tunnels between the same two gateways or VPCs: those of its kind;
/// that of its name, if it is of no kind of ours; and where there is none, all that is left. Also those that may be
/// nobody's: there are more of them than of our tunnels.
///
/// An honest gateway has no two ends of one kind. Where there are, or where a tunnel has one by its kind and another by its
/// name, somebody may have written one of them in the peer's name, and nobody can tell which: so none stands for another.
pub(super) fn pair<'a>(ours: &[Mine<'a>], theirs: &[&'a End]) -> (Pairs<'a>, Vec<&'a End>) {
    let is_of_ours = |end: &End| ours.iter().any(|(_, kind)| *kind == end.says.kind);
    let belongs =
        |(key, kind): &Mine<'a>, end: &End| *kind == end.says.kind || **key == end.tunnel && !is_of_ours(end);
    let claims = |mine: &Mine<'a>| theirs.iter().copied().filter(|end| belongs(mine, end)).collect();
    let mut pairs: Pairs<'a> = ours.iter().map(|mine| (mine.0, claims(mine))).collect();
    let is_left = |end: &&End| !ours.iter().any(|mine| belongs(mine, end));
    let left: Vec<&End> = theirs.iter().copied().filter(is_left).collect();
    let waiting: Vec<&mut Vec<&End>> = pairs.values_mut().filter(|ends| ends.is_empty()).collect();
    if waiting.is_empty() {
        return (pairs, left);
    }
    waiting.into_iter().for_each(|ends| ends.extend(&left));
    (pairs, Vec::new())
}

/// A tunnel of ours.
pub(super) type Mine<'a> = (&'a ObjectKey, TunnelKind);
/// The ends that may be the other one of each tunnel.
pub(super) type Pairs<'a> = BTreeMap<&'a ObjectKey, Vec<&'a End>>;

/// How an end of ours compares with all that may be its other end. Each is named: who reads it can look who wrote it.
pub(super) fn compare<'a>(ours: &Says, peer: &Far, theirs: impl Iterator<Item = &'a End>) -> Agreement {
    let (mut fit, mut wrong) = (Vec::new(), Vec::new());
    for end in theirs {
        match mismatch(ours, peer, &end.says) {
            None => fit.push(format!("{} fits", end.name)),
            Some(words) => wrong.push(format!("{words} (TunnelEnd {})", end.name)),
        }
    }
    match (fit.is_empty(), wrong.is_empty()) {
        (true, true) => Agreement::NotSaid,
        (false, true) => Agreement::Agreed,
        (true, false) => Agreement::Mismatch(listed(&wrong)),
        (false, false) => Agreement::Several(format!("{}; {}", listed(&fit), listed(&wrong))),
    }
}

/// The first few, and how many more there are.
fn listed(words: &[String]) -> String {
    let named = words.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    match words.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::objects::Place;
    use super::*;

    fn peer(text: &str) -> Far {
        let (cluster, gateway) = text.split_once('/').expect("cluster/gateway");
        Far::at(cluster.parse().expect("an id"), Place::Gateway(gateway.parse().expect("a name")))
    }

    fn end(tunnel: &str, kind: TunnelKind) -> End {
        End {
            name: tunnel.replace('/', "."),
            resource_version: "1".into(),
            deleting: false,
            on: peer("c2/gw1"),
            to: peer("c1/gw1"),
            tunnel: tunnel.parse().expect("namespace/name"),
            says: Says { kind, mtu: None, address: "10.100.0.2/24".parse().expect("an address") },
        }
    }

    fn any_kind() -> impl Strategy<Value = TunnelKind> {
        prop_oneof![(1..4_u32).prop_map(|vni| TunnelKind::Vxlan { vni, port: 4789 }), Just(TunnelKind::Gre)]
    }

    /// Tunnels of one side: no two of one kind, as no gateway has them.
    fn any_side() -> impl Strategy<Value = Vec<End>> {
        let tunnels = prop::collection::btree_map("ns1/[a-d]", any_kind(), 0..4);
        tunnels.prop_map(|tunnels| {
            let mut kinds = BTreeSet::new();
            let unique = tunnels.into_iter().filter(|(_, kind)| kinds.insert(*kind));
            unique.map(|(key, kind)| end(&key, kind)).collect()
        })
    }

    fn pairs(ours: &[End], theirs: &[End]) -> BTreeSet<(ObjectKey, ObjectKey)> {
        let ours: Vec<_> = ours.iter().map(|end| (&end.tunnel, end.says.kind)).collect();
        let theirs: Vec<&End> = theirs.iter().collect();
        let found = pair(&ours, &theirs).0.into_iter();
        found.flat_map(|(key, ends)| ends.into_iter().map(|end| (key.clone(), end.tunnel.clone()))).collect()
    }

    /// What each of our tunnels says.
    fn said(ours: &[End], theirs: &[&End]) -> Vec<Agreement> {
        let mine: Vec<_> = ours.iter().map(|end| (&end.tunnel, end.says.kind)).collect();
        let (pairs, left) = pair(&mine, theirs);
        let each = ours.iter().map(|end| {
            let candidates = pairs.get(&end.tunnel).into_iter().flatten().chain(&left).copied();
            compare(
                &Says { address: "10.100.0.1/24".parse().expect("one"), ..end.says },
                &peer("c2/gw1"),
                candidates,
            )
        });
        each.collect()
    }

    fn words(agreement: &Agreement) -> &str {
        match agreement {
            Agreement::Mismatch(words) | Agreement::Several(words) => words,
            _ => "",
        }
    }

    /// Ends that somebody writes in the peer's name, beside its own: of tunnels that it does not have.
    fn any_forged() -> impl Strategy<Value = Vec<End>> {
        let one = ("ns[0-9]/[f-h]", any_kind(), any::<bool>()).prop_map(|(tunnel, kind, fits)| {
            let mut forged = end(&tunnel, kind);
            forged.says.mtu = (!fits).then_some(9000);
            forged
        });
        prop::collection::vec(one, 1..4)
    }

    proptest! {
        #[test]
        fn what_fits_together_belongs_together_and_none_is_left_while_another_waits(one in any_side(), other in any_side()) {
            let found = pairs(&one, &other);
            let here = |end: &End| found.iter().any(|(mine, _)| *mine == end.tunnel);
            let there = |end: &End| found.iter().any(|(_, theirs)| *theirs == end.tunnel);
            prop_assert!(one.iter().all(here) || other.iter().all(there));
            for (mine, theirs) in one.iter().flat_map(|mine| other.iter().map(move |theirs| (mine, theirs))) {
                let alike = mine.says.kind == theirs.says.kind;
                let paired = found.contains(&(mine.tunnel.clone(), theirs.tunnel.clone()));
                prop_assert!(!alike || paired, "what fits together belongs together");
            }
        }

        #[test]
        fn an_end_that_somebody_adds_hides_no_mismatch_and_makes_none_without_being_named(
            ours in any_side(), theirs in any_side(), forged in any_forged(),
        ) {
            let honest: Vec<&End> = theirs.iter().collect();
            let before = said(&ours, &honest);
            let after = said(&ours, &honest.iter().copied().chain(&forged).collect::<Vec<_>>());
            for end in &theirs {
                let name = format!("TunnelEnd {})", end.name);
                let named = |all: &[Agreement]| all.iter().any(|it| words(it).contains(&name) || words(it).contains(" more"));
                prop_assert!(!named(&before) || named(&after), "{} is hidden: {:?}", end.name, after);
            }
            let names_one = |it: &Agreement| forged.iter().any(|end| words(it).contains(&end.name));
            for (before, now) in before.iter().zip(&after).filter(|(before, now)| before != now) {
                let is_named = match now {
                    // What did not agree before may have one more to be compared with, now that another is spoken for.
                    Agreement::Mismatch(_) => names_one(now) || matches!(before, Agreement::Mismatch(_)),
                    // There is one too many between the two gateways, which is said where it may belong.
                    Agreement::Several(_) => after.iter().any(names_one),
                    _ => *now == Agreement::Agreed,
                };
                prop_assert!(is_named, "{before:?} became {now:?} without a name");
            }
        }
    }
}
