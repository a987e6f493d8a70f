//! From whatever a host's packet rules are to what they should be for pods.

use std::collections::BTreeMap;

use causeway_core::leases::Traffic;
use causeway_core::leases::traffic::{
    Accept, Chain, Have, Iptables, Plan, Rule, Rules, Side, Step, Variant, plan,
};
use causeway_core::{Cidr, Family};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

fn range(text: &str) -> Cidr {
    text.parse().expect("a range")
}

fn both() -> Vec<(Cidr, Cidr)> {
    vec![
        (range("10.244.0.0/16"), range("10.244.1.0/24")),
        (range("fd00:10:244::/48"), range("fd00:10:244:1::/64")),
    ]
}

fn all() -> Traffic {
    Traffic { ranges: both(), masquerade: true, forward: true }
}

const NFT: Iptables = Iptables { variant: Variant::Nft, family: Family::V4 };

/// As a tool prints a rule.
fn rule(chain: Chain, words: &[&str]) -> Rule {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    Rule::of(chain, &words, &words.join(" "))
}

fn from(text: &str) -> Rule {
    Rule::Ours(Accept { side: Side::From, range: range(text) })
}

fn to(text: &str) -> Rule {
    Rule::Ours(Accept { side: Side::To, range: range(text) })
}

const FOREIGN: Rule = Rule::Others { ends: false };
const END: Rule = Rule::Others { ends: true };

fn jump(chain: Chain) -> Rule {
    Rule::Flannels(format!("-j {}", chain.flannels()))
}

/// A host whose FORWARD chain of IPv4 is this.
fn host(forward: Vec<Rule>) -> Have {
    let rules = Rules { chains: [(Chain::Forward, forward)].into(), ..Rules::default() };
    Have { rules: [(NFT, rules)].into(), ..Have::default() }
}

/// Takes a step as the tools do: a rule is deleted by what it says, and the first one that says it goes.
fn take(have: &mut Have, step: &Step) {
    match step.clone() {
        Step::PutTable(family, lines) => drop(have.tables.insert(family, lines)),
        Step::DropTable(family) => drop(have.tables.remove(&family).expect("it was there")),
        Step::DropFlannelsTable(family) => assert!(have.flannels.remove(&family), "it was there"),
        Step::SetAccepts { iptables, out, put, after } => {
            let rules = have.rules.get_mut(&iptables).expect("in use");
            let forward = rules.chains.get_mut(&Chain::Forward).expect("in use");
            out.iter().for_each(|listed| delete(forward, listed));
            for (accept, place) in put.into_iter().zip(after..) {
                forward.insert(place, Rule::Ours(accept));
            }
        }
        Step::DropFlannels(iptables, chain, jumps, is_there) => {
            let rules = have.rules.get_mut(&iptables).expect("in use");
            let from = rules.chains.get_mut(&chain).expect("in use");
            jumps.iter().for_each(|listed| delete(from, listed));
            assert!(!from.iter().any(|rule| matches!(rule, Rule::Flannels(_))), "it is jumped to");
            assert_eq!(rules.flannels.remove(&chain), is_there);
        }
    }
}

fn delete(rules: &mut Vec<Rule>, listed: &str) {
    let says = |rule: &Rule| match rule {
        Rule::Ours(accept) => accept.to_string() == listed,
        Rule::Stale(text) | Rule::Flannels(text) => text == listed,
        Rule::Others { .. } => false,
    };
    rules.remove(rules.iter().position(says).expect("the rule is there"));
}

#[test]
fn the_table_hides_pods_from_outside_and_nobody_from_this_nodes_own() {
    let table = all().table(Family::V4).expect("a table");
    let expected = [
        "table ip causeway {",
        "chain postrouting {",
        "type nat hook postrouting priority 105; policy accept;",
        "meta mark & 0x4000 == 0x4000 return",
        "ip saddr 10.244.0.0/16 ip daddr 10.244.0.0/16 return",
        "ip saddr 10.244.0.0/16 ip daddr != 224.0.0.0/4 masquerade fully-random",
        "ip saddr != 10.244.0.0/16 ip daddr 10.244.1.0/24 return",
        "ip saddr != 10.244.0.0/16 ip daddr 10.244.0.0/16 masquerade fully-random",
        "}",
        "}",
    ];
    assert_eq!(table, expected);
    assert_eq!(Traffic { masquerade: false, ..all() }.table(Family::V4), None);
    assert_eq!(Traffic { ranges: both()[..1].to_vec(), ..all() }.table(Family::V6), None);
}

#[test]
fn whose_a_rule_is_follows_from_its_comment_and_its_target() {
    let comment = "causeway: pods of 10.244.0.0/16";
    let as_made = ["-s", "10.244.0.0/16", "-m", "comment", "--comment", comment, "-j", "ACCEPT"];
    let turned = ["-m", "comment", "--comment", comment, "-d", "10.244.0.0/16", "-j", "ACCEPT"];
    let more = ["-s", "10.244.0.0/16", "-p", "tcp", "-m", "comment", "--comment", comment, "-j", "ACCEPT"];
    let other = ["-s", "10.9.0.0/16", "-m", "comment", "--comment", comment, "-j", "ACCEPT"];
    let cases: [(&[&str], Rule); 11] = [
        (&as_made, from("10.244.0.0/16")),
        (&turned, to("10.244.0.0/16")),
        (&more, Rule::Stale(more.join(" "))),
        (&other, Rule::Stale(other.join(" "))),
        (
            &["-m", "comment", "--comment", "flanneld forward", "-j", "FLANNEL-FWD"],
            Rule::Flannels("-m comment --comment flanneld forward -j FLANNEL-FWD".into()),
        ),
        (&["-j", "FLANNEL-POSTRTG"], FOREIGN),
        (&["-m", "comment", "--comment", "causeway:ns1/t1", "-j", "ACCEPT"], FOREIGN),
        (&["-j", "DROP"], END),
        (
            &[
                "-m",
                "comment",
                "--comment",
                "the end",
                "-j",
                "REJECT",
                "--reject-with",
                "icmp-host-prohibited",
            ],
            END,
        ),
        (&["-i", "eth0", "-j", "DROP"], FOREIGN),
        (&["-j", "ACCEPT"], FOREIGN),
    ];
    for (words, expected) in cases {
        assert_eq!(rule(Chain::Forward, words), expected, "{words:?}");
    }
}

#[test]
fn accepts_stand_last_but_before_a_rule_that_ends_everything() {
    let want = Traffic { masquerade: false, ranges: both()[..1].to_vec(), forward: true };
    let ours = [from("10.244.0.0/16"), to("10.244.0.0/16")];
    let [a, b] = ours.clone();
    let cases = [
        (vec![], vec![a.clone(), b.clone()]),
        (vec![FOREIGN], vec![FOREIGN, a.clone(), b.clone()]),
        (vec![FOREIGN, END, FOREIGN], vec![FOREIGN, a.clone(), b.clone(), END, FOREIGN]),
        // Behind the end nothing reaches them.
        (vec![FOREIGN, END, a.clone(), b.clone()], vec![FOREIGN, a.clone(), b.clone(), END]),
        // A second copy, or a former network's.
        (vec![a.clone(), FOREIGN, a.clone(), b.clone()], vec![FOREIGN, a.clone(), b.clone()]),
        (vec![from("10.9.0.0/16"), FOREIGN, b.clone(), a.clone()], vec![FOREIGN, a.clone(), b.clone()]),
        // Wherever they are reached is right.
        (vec![b.clone(), FOREIGN, a.clone(), END], vec![b.clone(), FOREIGN, a.clone(), END]),
    ];
    for (before, after) in cases {
        let mut have = host(before.clone());
        plan(&want, &have).steps().for_each(|step| take(&mut have, step));
        assert_eq!(have.rules[&NFT].chains[&Chain::Forward], after, "from {before:?}");
    }
}

#[test]
fn a_chain_that_was_not_seen_or_is_not_in_use_is_left_alone() {
    let mut have = host(vec![]);
    let rules = have.rules.get_mut(&NFT).expect("there");
    rules.chains = [(Chain::Postrouting, vec![])].into();
    let steps = plan(&Traffic { masquerade: false, ..all() }, &have);
    assert_eq!(steps, Plan::default());
}

#[test]
fn what_flannel_left_goes_last_and_only_of_a_family_of_ours() {
    let flannels = |family| {
        let rules = Rules {
            chains: Chain::ALL.map(|chain| (chain, vec![FOREIGN, jump(chain)])).into(),
            flannels: Chain::ALL.into(),
        };
        (Iptables { variant: Variant::Legacy, family }, rules)
    };
    let have =
        Have { rules: Family::ALL.map(flannels).into(), flannels: Family::ALL.into(), ..Have::default() };
    let planned = plan(&Traffic { ranges: both()[..1].to_vec(), ..all() }, &have);
    let words: Vec<String> = planned.steps().map(ToString::to_string).collect();
    let expected = [
        "put the nftables table `causeway` of IPv4",
        "let pods of 10.244.0.0/16 through FORWARD of iptables-legacy",
        "remove flannel's FLANNEL-FWD of iptables-legacy",
        "remove flannel's FLANNEL-POSTRTG of iptables-legacy",
        "remove flannel's nftables table of IPv4",
    ];
    assert_eq!(words, expected);
    assert_eq!(planned.puts.len(), 2);
    assert_eq!(plan(&Traffic::none(), &have), Plan::default());
}

fn a_rule(chain: Chain) -> impl Strategy<Value = Rule> {
    let of_ours = vec![
        from("10.244.0.0/16"),
        to("10.244.0.0/16"),
        from("fd00:10:244::/48"),
        to("fd00:10:244::/48"),
        from("10.9.0.0/16"),
        Rule::Stale("-p tcp -j ACCEPT".into()),
    ];
    prop_oneof![select(of_ours), Just(FOREIGN), Just(FOREIGN), Just(END), Just(jump(chain))]
}

fn some_rules() -> impl Strategy<Value = Rules> {
    let chain = |chain| prop::collection::vec(a_rule(chain), 0..8);
    let seen = subsequence(Chain::ALL.to_vec(), 0..=2);
    let is_there = subsequence(Chain::ALL.to_vec(), 0..=2);
    (chain(Chain::Forward), chain(Chain::Postrouting), seen, is_there).prop_map(
        |(forward, post, seen, flannels)| {
            let all = [(Chain::Forward, forward), (Chain::Postrouting, post)];
            let chains: BTreeMap<_, _> = all.into_iter().filter(|(chain, _)| seen.contains(chain)).collect();
            // Nobody jumps to a chain that is not there, nor is one seen whose table is not.
            let jumped = |chain: &Chain| {
                chains
                    .get(chain)
                    .is_some_and(|rules| flannels.contains(chain) || rules.contains(&jump(*chain)))
            };
            let flannels = Chain::ALL.into_iter().filter(jumped).collect();
            Rules { chains, flannels }
        },
    )
}

fn a_host() -> impl Strategy<Value = Have> {
    let table = select(vec![
        vec![],
        all().table(Family::V4).expect("a table"),
        all().table(Family::V6).expect("a table"),
    ]);
    let family = || select(Family::ALL.to_vec());
    (
        prop::collection::btree_map(family(), table, 0..=2),
        prop::collection::btree_set(family(), 0..=2),
        prop::collection::btree_map(select(Iptables::ALL.to_vec()), some_rules(), 0..=4),
    )
        .prop_map(|(tables, flannels, rules)| Have { tables, flannels, rules })
}

fn a_want() -> impl Strategy<Value = Traffic> {
    (subsequence(both(), 0..=2), any::<bool>(), any::<bool>())
        .prop_map(|(ranges, masquerade, forward)| Traffic { ranges, masquerade, forward })
}

/// What is anybody else's, in its order.
fn foreign(have: &Have, want: &Traffic) -> Vec<(Iptables, Chain, Rule)> {
    let mut found = Vec::new();
    for (iptables, rules) in &have.rules {
        for (chain, listed) in &rules.chains {
            let others = listed.iter().filter(|rule| match rule {
                Rule::Others { .. } => true,
                Rule::Flannels(_) => !want.has(iptables.family),
                // Ours are in FORWARD only.
                Rule::Ours(_) | Rule::Stale(_) => *chain == Chain::Postrouting,
            });
            found.extend(others.map(|rule| (*iptables, *chain, rule.clone())));
        }
    }
    found
}

proptest! {
    #[test]
    fn any_host_is_brought_in_order_and_nothing_of_others_changes(have in a_host(), want in a_want()) {
        let (before, mut have) = (foreign(&have, &want), have);
        let planned = plan(&want, &have);
        for step in &planned.puts {
            take(&mut have, step);
        }
        // All that is wanted stands before anything goes.
        for family in Family::ALL {
            let wanted = want.table(family);
            prop_assert!(wanted.is_none() || have.tables.get(&family) == wanted.as_ref());
        }
        for (iptables, rules) in &have.rules {
            let Some(forward) = rules.chains.get(&Chain::Forward) else { continue };
            let reached: Vec<&Rule> = forward.iter().take_while(|rule| **rule != END).collect();
            for accept in want.accepts(iptables.family) {
                prop_assert!(reached.contains(&&Rule::Ours(accept)));
            }
        }
        for step in &planned.drops {
            take(&mut have, step);
        }
        prop_assert_eq!(plan(&want, &have), Plan::default());
        prop_assert_eq!(foreign(&have, &want), before);
        for step in plan(&Traffic::none(), &have).steps() {
            take(&mut have, step);
        }
        prop_assert!(have.tables.is_empty());
        let mut forward = have.rules.values().filter_map(|rules| rules.chains.get(&Chain::Forward)).flatten();
        let left = forward.find(|rule| matches!(rule, Rule::Ours(_) | Rule::Stale(_)));
        prop_assert_eq!(left, None);
    }

    #[test]
    fn a_rule_of_any_words_is_somebodys(words in prop::collection::vec(".{0,8}|-s|-d|-j|--comment|causeway: pods of .*|ACCEPT", 0..9)) {
        let listed = words.join(" ");
        if let Rule::Ours(accept) = Rule::of(Chain::Forward, &words, &listed) {
            prop_assert_eq!(accept.to_string().replace('"', "").split(' ').count(), listed.split(' ').count());
        }
    }
}
