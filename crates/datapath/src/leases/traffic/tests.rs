//! What tools print, and what nobody ever printed.

use causeway_core::leases::traffic::{Accept, Chain, Rule, Side, Variant};
use proptest::prelude::*;

use super::*;

fn traffic() -> Traffic {
    let range = |text: &str| text.parse().expect("a range");
    Traffic {
        ranges: vec![
            (range("10.244.0.0/16"), range("10.244.1.0/24")),
            (range("fd00:10:244::/48"), range("fd00:10:244:1::/64")),
        ],
        masquerade: true,
        forward: true,
    }
}

fn section(name: &str, body: &str, status: i32) -> String {
    format!("@@causeway begin {name}\n{body}\n@@causeway end {status}\n")
}

fn parsed(sections: &[String], want: &Traffic) -> (Have, Vec<String>) {
    let text = sections.concat() + "@@causeway done 0\n";
    parse::have(&Sections::parse(text.as_bytes()).expect("framed"), want)
}

const NFT: Iptables = Iptables { variant: Variant::Nft, family: Family::V4 };

#[test]
fn our_table_is_known_again_however_numbers_and_addresses_are_printed() {
    let listed = "table ip6 causeway {\n\tchain postrouting {\n\
        \t\ttype nat hook postrouting priority 105; policy accept;\n\
        \t\tmeta mark & 0x00004000 == 0x00004000 return\n\
        \t\tip6 saddr fd00:10:244::/48 ip6 daddr fd00:10:244::/48 return\n\
        \t\tip6 saddr fd00:10:244::/48 ip6 daddr != ff00::/8 masquerade fully-random\n\
        \t\tip6 saddr != fd00:10:244::/48 ip6 daddr fd00:10:244::1 return\n\
        \t\tip6 saddr != fd00:10:244::/48 ip6 daddr fd00:10:244::/48 masquerade fully-random\n\t}\n}\n";
    let mut want = traffic();
    want.ranges[1].1 = "fd00:10:244:0::1/128".parse().expect("a range");
    let (have, _) = parsed(&[section("table-ip6", listed, 0)], &want);
    assert_eq!(have.tables.get(&Family::V6), want.table(Family::V6).as_ref());
}

#[test]
fn rules_are_told_apart_as_they_are_printed() {
    let listed = "# Warning: iptables-legacy tables present, use iptables-legacy to see them\n-P FORWARD DROP\n\
        -A FORWARD -m comment --comment \"foo \\\"bar\\\" \\'x\\'\" -j RETURN\n\
        -A FORWARD -s 10.244.0.0/16 -m comment --comment \"causeway: pods of 10.244.0.0/16\" -j ACCEPT\n\
        -A FORWARD -m comment --comment \"never closed\n\
        -A FORWARD -m comment --comment \"flanneld forward\" -j FLANNEL-FWD\n";
    let sections = [
        section("iptables-nft-FORWARD", listed, 0),
        section("iptables-nft-FLANNEL-FWD", "-N FLANNEL-FWD", 0),
        section("iptables-nft-POSTROUTING", "-P POSTROUTING ACCEPT", 0),
        section("iptables-nft-FLANNEL-POSTRTG", "iptables: No chain/target/match by that name.", 1),
    ];
    let (have, _) = parsed(&sections, &traffic());
    let rules = &have.rules[&NFT];
    let ours = Accept { side: Side::From, range: "10.244.0.0/16".parse().expect("a range") };
    let expected = [
        Rule::Others { ends: true },
        Rule::Ours(ours),
        Rule::Others { ends: false },
        Rule::Flannels("-m comment --comment \"flanneld forward\" -j FLANNEL-FWD".into()),
    ];
    assert_eq!(rules.chains[&Chain::Forward], expected);
    assert_eq!(rules.chains[&Chain::Postrouting], []);
    assert_eq!(rules.flannels, [Chain::Forward].into());
}

#[test]
fn what_cannot_be_seen_is_named_unless_it_is_a_family_that_nobody_needs() {
    let absent = "Error: No such file or directory\nlist table ip causeway\n              ^^^^^^^^";
    let refused = "Error: Could not process rule: Address family not supported by protocol";
    let fine = |command: &str| {
        Chain::ALL.map(|chain| section(&format!("{command}-{}", chain.name()), "-P X ACCEPT", 0)).concat()
    };
    let of_v4 = [section("table-ip", absent, 1), fine("iptables-nft")].concat();
    let broken = "ip6tables v1.8.9 (nf_tables): Could not fetch rule set generation id: Invalid argument";
    let of_v6 = [section("table-ip6", refused, 1), section("ip6tables-nft-FORWARD", broken, 4)].concat();
    let v4_only = Traffic { ranges: traffic().ranges[..1].to_vec(), ..traffic() };
    let (have, unseen) = parsed(&[of_v4.clone(), of_v6.clone()], &v4_only);
    assert_eq!((have.tables.len(), have.rules.len(), unseen), (0, 1, vec![]));
    let (_, unseen) = parsed(&[of_v4, of_v6], &traffic());
    let expected = [
        "the nftables table `causeway` of IPv6: Error: Could not process rule: Address family not supported by \
         protocol",
        "FORWARD of ip6tables-nft: ip6tables v1.8.9 (nf_tables): Could not fetch rule set generation id: Invalid \
         argument",
        "POSTROUTING of ip6tables-nft: no reason given",
    ];
    assert_eq!(unseen, expected);
}

#[test]
fn a_tool_that_is_missing_is_named_with_its_package() {
    let output = |text: &str, status| Output { stdout: text.into(), status, stderr: Vec::new() };
    let nft = answer(&output("@@causeway missing nft\n@@causeway done 69\n", Some(69)));
    assert_eq!(
        nft.expect_err("missing").to_string(),
        "`nft` is missing on this node; it comes with the package `nftables`"
    );
    assert_eq!(answer(&output("", Some(127))), Err(missing("bash")));
    assert!(matches!(answer(&output("@@causeway begin a\n", None)), Err(Trouble::Unknown(_))));
}

proptest! {
    #[test]
    fn any_output_is_read_or_refused_and_never_more(
        text in "(\n|@@causeway (begin|end|done) (0|1|table-ip|iptables-nft-FORWARD)|-A FORWARD |-j |--comment |\"|\\\\|0x|/|:|fd00::|10\\.|[a-zA-Z0-9 ]|.){0,60}"
    ) {
        let body = text.replace("@@causeway", "");
        let whole = section("table-ip", &body, 0) + &section("iptables-nft-FORWARD", &body, 0);
        let (have, _) = parsed(&[whole], &traffic());
        for step in plan(&traffic(), &have).steps() {
            let (tool, input) = rendered(step);
            prop_assert!(!tool.is_empty() && input.ends_with('\n'));
        }
        let _ = answer(&Output { stdout: text.into_bytes(), ..Output::default() });
    }

    #[test]
    fn what_is_put_is_known_again(third in any::<u8>(), prefix in 1u8..=32, v6 in any::<u16>(), prefix6 in 1u8..=128) {
        let network = format!("10.{third}.1.1/{prefix}").parse().expect("a range");
        let network6 = format!("fd00:{v6:x}:1:1:1:1:1:1/{prefix6}").parse().expect("a range");
        let want = Traffic { ranges: vec![(network, network), (network6, network6)], ..traffic() };
        let mut have = Have::default();
        for step in plan(&want, &have).steps() {
            let Step::PutTable(family, lines) = step else { continue };
            let (_, input) = rendered(step);
            let (gone, listed) = input.split_at(input.find("\ntable").expect("the table") + 1);
            prop_assert_eq!(gone.lines().count(), 2);
            let name = if *family == Family::V4 { "table-ip" } else { "table-ip6" };
            let (seen, _) = parsed(&[section(name, listed, 0)], &want);
            prop_assert_eq!(seen.tables.get(family), Some(lines));
            have.tables.extend(seen.tables);
        }
        prop_assert_eq!(plan(&want, &have), Plan::default());
    }
}
