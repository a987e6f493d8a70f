//! Recorded output of several versions, and output that nobody ever printed.

use proptest::prelude::*;

use causeway_core::names::ObjectKey;
use causeway_core::vpc::action::shared_clamp_spec;
use causeway_core::vpc::{Have, LinkKind, NatRule, Variant};

use super::have;
use crate::Trouble;
use crate::done::end_of;
use crate::sections::Sections;

/// The same gateway seen through iproute2 5.9, 6.1, 6.15, 7.3 and iptables 1.8.7, 1.8.9, 1.8.11, 1.8.13.
const FIXTURES: [&str; 4] = [
    include_str!("../../../fixtures/debian11.txt"),
    include_str!("../../../fixtures/debian12.txt"),
    include_str!("../../../fixtures/debian13.txt"),
    include_str!("../../../fixtures/debian-sid.txt"),
];

fn parse(text: &[u8]) -> Result<Have, Trouble> {
    let rest: &[u8] = if end_of(text).is_some() { b"" } else { b"\n@@causeway done 0\n" };
    have(&Sections::parse(&[text, rest].concat())?)
}

/// A recording as the script passes it on.
fn passed_on(text: &str, by: &str) -> String {
    let script = format!("{}\n{by}", include_str!("../observe.sh"));
    let output = std::process::Command::new("bash").args(["-c", &script, "bash", text]).output();
    let output = output.expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_listing_that_was_cut_down_says_the_same() {
    for text in FIXTURES {
        let steady = passed_on(text, r#"steady "$1"; printf '%s' "$text""#);
        assert!(
            !["[0:0]\n:", "Generated", "refcnt"].iter().any(|moving| steady.contains(moving)),
            "{steady}"
        );
        let slim = passed_on(text, r#"printf '%s' "$1" | awk "$slim""#);
        assert!(slim.len() < text.len() * 3 / 8, "{} of {}", slim.len(), text.len());
        for passed_on in [steady, slim] {
            assert_eq!(parse(passed_on.as_bytes()), parse(text.as_bytes()));
        }
    }
}

/// The recording with a section replaced.
fn with(section: &str, body: &str, status: i32) -> String {
    let begin = format!("@@causeway begin {section}\n");
    let (before, rest) = FIXTURES[1].split_once(&begin).expect("the section");
    let (_, after) = rest.split_once("@@causeway end 0\n").expect("its end");
    format!("{before}{begin}{body}\n@@causeway end {status}\n{after}")
}

#[test]
fn every_recorded_version_tells_the_same() {
    let recorded = |text: &&str| {
        let mut have = parse(text.as_bytes()).expect("readable");
        // Theirs are drawn by lot.
        have.links.iter_mut().filter(|(name, _)| *name != "demo").for_each(|(_, link)| link.mac = None);
        have
    };
    let all: Vec<Have> = FIXTURES.iter().map(recorded).collect();
    for have in &all[1..] {
        assert_eq!(*have, all[0]);
    }
    let have = &all[0];
    let demo = &have.links["demo"];
    assert!(demo.is_ours() && demo.up && demo.proxy_arp && !demo.arp_off);
    assert_eq!((demo.rp_filter, demo.proxy_delay, have.links["eth0"].proxy_delay), (2, 0, 800));
    assert_eq!((demo.mtu, demo.mac), (1450, "02:43:ac:32:10:0b".parse().ok()));
    assert_eq!(demo.owner(), Some(ObjectKey::new("ns1", "demo").expect("a key")));
    let addresses: Vec<String> = demo.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.100.0.1/24", "10.100.0.7/24"]);
    let kind = LinkKind::Vxlan {
        vni: 100,
        port: 4789,
        local: "172.50.16.11".parse().ok(),
        remote: "172.50.16.21".parse().ok(),
        dev: Some("net1".into()),
        odd: false,
    };
    assert_eq!(demo.kind, Some(kind));
    let half = &have.links["half"];
    assert!(half.is_ours() && !half.up && half.alias.is_none());
    assert!(matches!(half.kind, Some(LinkKind::Vxlan { remote: None, .. })));
    assert!(have.links["net1"].arp_off && !have.links["net1"].is_ours() && !have.forwarding);
    let addresses: Vec<String> = have.links["eth0"].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.1.254/24", "10.9.9.1/32"]);
    let odd = &have.links["a@b"];
    assert_eq!(
        (odd.alias.as_deref(), odd.kind.as_ref()),
        (Some("it is"), None),
        "a name and an alias may be odd"
    );
    assert_eq!(have.links.keys().collect::<Vec<_>>(), ["a@b", "c@d", "demo", "eth0", "half", "lo", "net1"]);
}

#[test]
fn routes_keep_who_made_them_and_those_for_a_type_of_service_are_no_obstacle() {
    let have = parse(FIXTURES[0].as_bytes()).expect("readable");
    let listed: Vec<String> =
        have.routes.iter().map(|r| format!("{r} proto {} metric {}", r.protocol, r.metric)).collect();
    assert_eq!(
        listed,
        [
            "0.0.0.0/0 via 10.0.1.1 dev eth0 proto 3 metric 0",
            "9.1.0.0/16 dev eth0 proto 4 metric 50",
            "9.2.0.0/16, which leads nowhere proto 3 metric 0",
            "9.3.0.0/16, which leads nowhere proto 3 metric 0",
            "9.5.0.1/32 dev eth0 proto 3 metric 0",
            "10.0.1.0/24 dev eth0 proto 2 metric 0",
            "10.9.9.2/32 dev eth0 proto 2 metric 0",
            "10.100.0.0/24 dev demo proto 2 metric 0",
            "172.50.16.0/24 dev net1 proto 2 metric 0",
            "242.0.0.0/16 via 10.0.1.1 dev eth0 proto 157 metric 0",
            "242.1.0.0/16 dev demo proto 157 metric 0",
        ]
    );
}

#[test]
fn our_rules_are_known_by_their_exact_comment_and_brought_to_one_form() {
    let have = parse(FIXTURES[0].as_bytes()).expect("readable");
    assert_eq!(have.nat.active, Variant::Nft);
    let ours = |name: &str, spec: &str| NatRule::Ours {
        owner: ObjectKey::new("ns1", name).expect("a key"),
        spec: spec.into(),
    };
    let expected = [
        ours(
            "demo",
            "! -s 242.0.0.0/16 -d 242.1.0.0/16 -o demo -m comment --comment \"causeway:ns1/demo\" -j SNAT --to-source 242.0.0.1-242.0.0.8",
        ),
        // As an earlier version made it.
        ours(
            "one",
            "-d 242.2.0.9/32 -m comment --comment \"causeway:ns1/one\" -j SNAT --to-source 242.0.0.1",
        ),
        ours(
            "odd",
            "-d 242.3.0.0/16 -o net1 -m comment --comment \"causeway:ns1/odd\" -j SNAT --to-source 242.0.0.1 --persistent",
        ),
    ];
    for rules in have.nat.postrouting.values() {
        assert_eq!(rules[..3], expected);
        assert!(rules[3..].iter().all(|rule| matches!(rule, NatRule::Foreign(_))), "{rules:?}");
    }
    let clamp = "-o demo -p tcp -m tcp --tcp-flags SYN,RST SYN -m comment --comment \"causeway:ns1/demo\" -j TCPMSS --clamp-mss-to-pmtu";
    for rules in have.nat.forward.values() {
        assert_eq!(rules[0], ours("demo", clamp));
        assert!(matches!(&rules[1], NatRule::Foreign(_)), "{rules:?}");
        assert_eq!(rules[2..], [NatRule::Shared { spec: shared_clamp_spec() }]);
    }
    assert_eq!((have.nat.postrouting.len(), have.nat.forward.len()), (2, 2));
}

#[test]
fn rules_that_iptables_cannot_show_are_an_error_and_those_of_other_tables_are_not() {
    let incompatible = |table: &str| {
        let line =
            format!("# Table `{table}' is incompatible, use 'nft' tool.\n*nat\n:SNAT_FILTER - [0:0]\n");
        parse(with("rules-nft", &line, 0).as_bytes())
    };
    assert!(matches!(incompatible("nat"), Err(Trouble::Unreadable { what: "rules", .. })));
    assert!(matches!(incompatible("mangle"), Err(Trouble::Unreadable { what: "rules", .. })));
    assert!(incompatible("filter").is_ok());
    let elsewhere = with("rules-nft", "*filter\n-A FORWARD -j ACCEPT\n*nat\n:SNAT_FILTER - [0:0]\n", 0);
    let have = parse(elsewhere.as_bytes()).expect("readable");
    assert_eq!(have.nat.forward[&Variant::Nft], []);
}

#[test]
fn quoting_and_order_of_a_rule_may_differ() {
    let canonical = "! -s 242.0.0.0/16 -d 242.1.0.0/16 -o b -m comment --comment \"causeway:a/b\" -j SNAT --to-source 242.0.0.1-242.0.0.8";
    let others = "! -s 242.0.0.0/16 -d 242.1.0.0/16 -o b -m comment --comment causeway:a/b";
    let from = "-j SNAT --to-source 242.0.0.1-242.0.0.8";
    for (listed, same) in [
        (format!("{others} {from}"), true),
        (
            format!("-m comment --comment \"causeway:a/b\" -o b -d 242.1.0.0/16 ! -s 242.0.0.0/16 {from}"),
            true,
        ),
        (format!("! -s 242.0.0.0/16 ! -d 242.1.0.0/16 -o b -m comment --comment causeway:a/b {from}"), false),
        (format!("-s 242.0.0.0/16 -d 242.1.0.0/16 -o b -m comment --comment causeway:a/b {from}"), false),
        (format!("! -s 242.0.0.0/16 -d 242.1.0.0/16 -m comment --comment causeway:a/b {from}"), false),
        (format!("-d 242.1.0.0/16 -m comment --comment causeway:a/b {from}"), false),
        (format!("{others} {from}:1024-2048"), false),
        (format!("{others} -j MASQUERADE"), false),
        (others.to_owned(), false),
    ] {
        let text = with("rules-nft", &format!("*nat\n:SNAT_FILTER - [0:0]\n-A POSTROUTING {listed}\n"), 0);
        let have = parse(text.as_bytes()).expect("readable");
        let spec = if same { canonical } else { &listed };
        let expected = NatRule::Ours { owner: ObjectKey::new("a", "b").expect("a key"), spec: spec.into() };
        assert_eq!(have.nat.postrouting[&Variant::Nft], [expected], "{listed}");
    }
}

#[test]
fn gre_links_are_read_with_and_without_ends_and_keys() {
    let listed = with("kernel", include_str!("../../../fixtures/gre.txt"), 0);
    let have = parse(listed.as_bytes()).expect("readable");
    let kind = |name: &str| have.links[name].kind.clone();
    let address = |last: u8| Some([172, 50, 16, last].into());
    let gre = |local, remote, ttl, keyed| Some(LinkKind::Gre { local, remote, ttl, keyed });
    assert_eq!(kind("demo"), gre(address(11), address(21), 255, false));
    assert_eq!(kind("keyed"), gre(address(11), address(22), 0, true));
    assert_eq!(kind("open"), gre(None, None, 0, true));
    assert_eq!(kind("gre0"), gre(None, None, 0, false));
    assert_eq!(kind("gretap0"), None);
    assert!(have.links["demo"].is_ours());
    let slim = passed_on(&listed, r#"printf '%s' "$1" | awk "$slim""#);
    assert_eq!(parse(slim.as_bytes()), Ok(have));
}

#[test]
fn words_that_are_not_read_may_stand_anywhere_and_a_listing_may_be_missing() {
    let listed = "l g@if7 <BROADCAST,NOARP,NEW> mtu 1476 group 5 qlen 1000\\    link/gre 0.0.0.0 new 1 \\    gre remote any ttl inherit new nopmtudisc \\    new 7 \\    alias two words\n";
    let have = parse(with("kernel", listed, 0).as_bytes()).expect("readable");
    let kind = LinkKind::Gre { local: None, remote: None, ttl: 0, keyed: false };
    let g = &have.links["g"];
    assert_eq!((g.kind.as_ref(), g.group, g.alias.as_deref()), (Some(&kind), 5, Some("two words")));
    assert!(g.arp_off && !g.up && g.addresses.is_empty() && have.routes.is_empty() && have.links.len() == 1);
}

#[test]
fn a_link_that_vanished_between_two_listings_is_no_error() {
    let listed = "a gone 10.1.1.1/24\nc gone off off\nd gone 800";
    let have = parse(with("kernel", listed, 0).as_bytes()).expect("readable");
    assert!(have.links.is_empty());
}

#[test]
fn what_cannot_be_read_is_an_error_and_not_left_out() {
    for (what, line) in [
        ("links", "l demo"),
        ("links", "l demo <UP> qlen 5"),
        ("routes", "r 242.1.0/16 dev demo"),
        ("routes", "r nothing"),
        ("settings", "c demo odd on"),
        ("settings", "inet demo forwarding off"),
        ("ARP tables", "d demo soon"),
    ] {
        let error = parse(with("kernel", line, 0).as_bytes()).expect_err(line);
        assert!(matches!(error, Trouble::Unreadable { what: w, .. } if w == what), "{line}: {error}");
    }
}

#[test]
fn a_tool_that_failed_is_an_error_and_one_variant_that_does_not_work_is_not() {
    let failed = Trouble::Failed { status: 2, said: "what it complained".into() };
    assert_eq!(parse(with("kernel", "what it complained", 2).as_bytes()), Err(failed));
    let without_legacy = parse(with("rules-legacy", "", 3).as_bytes()).expect("nft is the gateway's");
    assert_eq!(without_legacy.nat.postrouting.keys().collect::<Vec<_>>(), [&Variant::Nft]);
}

#[test]
fn the_gateways_rules_in_a_variant_that_fails_are_not_taken_for_absent() {
    assert!(parse(with("rules-nft", "", 4).as_bytes()).is_err());
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn damaged_recordings_never_panic(
        fixture in 0..FIXTURES.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..40usize, prop::collection::vec(any::<u8>(), 0..6)), 1..6),
    ) {
        let mut bytes = FIXTURES[fixture].as_bytes().to_vec();
        for (at, cut, put) in edits {
            let at = at.index(bytes.len() + 1);
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, put);
        }
        let _ = parse(&bytes);
    }
}
