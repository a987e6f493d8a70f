//! What is refused at admission and what the parser refuses are the same: only where no rule can look may the parser
//! refuse more (the length of namespace and name together).

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::{Rules, parsed};

static RULES: LazyLock<Rules> = LazyLock::new(Rules::new);

/// What the parser says, and in which words the rule does.
const WORDS: &[(&str, &str)] = &[
    ("is not a range of addresses", "is not a range of addresses"),
    ("has bits after its prefix", "has bits after its prefix"),
    ("so that it has room for hosts", "leaves no room for hosts"),
    ("which no network can have", "which no network can have"),
    ("is not an address", "is not an address"),
    ("is an IPv", "of another family"),
    ("is outside of cidr", "is outside of cidr"),
    ("is the first address", "is the first address"),
    ("is the broadcast address", "is the broadcast address"),
];

/// Both refuse, for the same reason among others, or neither does.
fn agree(spec: &Value) -> Result<(), String> {
    let refusals = RULES.refusals(spec);
    match parsed(spec) {
        Ok(_) if refusals.is_empty() => Ok(()),
        Ok(_) => Err(format!("{spec} is refused at admission only: {refusals:?}")),
        Err(why) => {
            let known = WORDS.iter().find(|(words, _)| why.contains(words));
            let (_, words) = known.ok_or_else(|| format!("{spec}: no rule is known for: {why}"))?;
            let is_said = refusals.iter().any(|message| message.contains(words));
            if is_said { Ok(()) } else { Err(format!("{spec}: {why}, and at admission {refusals:?}")) }
        }
    }
}

#[test]
fn the_parser_and_the_rules_agree_at_every_border() {
    let ranges = [
        "192.168.0.0/16",
        "10.0.0.0/8",
        "10.0.0.0/7",
        "10.1.2.4/30",
        "10.1.2.4/31",
        "10.1.2.4/32",
        "10.1.2.3/24",
        "0.0.0.0/0",
        "0.0.0.0/8",
        "0.1.0.0/16",
        "1.0.0.0/8",
        "126.0.0.0/8",
        "127.0.0.0/8",
        "127.1.0.0/16",
        "128.0.0.0/8",
        "169.0.0.0/8",
        "169.254.0.0/16",
        "169.254.1.0/24",
        "169.252.0.0/14",
        "169.255.0.0/16",
        "223.0.0.0/8",
        "224.0.0.0/8",
        "239.0.0.0/8",
        "240.0.0.0/8",
        "255.0.0.0/8",
        "255.255.255.0/24",
        "fd00:7::/64",
        "fd00::/16",
        "fc00::/15",
        "fd00:7::/126",
        "fd00:7::/127",
        "fd00:7::/128",
        "fd00:7::1/64",
        "::/0",
        "::/16",
        "::1:0/112",
        "1::/16",
        "::ffff:10.0.0.0/104",
        "fe7f::/16",
        "fe80::/16",
        "febf::/16",
        "fec0::/16",
        "fe80::/64",
        "ff00::/16",
        "ff02::/64",
        "feff::/16",
        "2001:db8::/32",
        "FD00:7::/64",
        "fd00::1.2.3.0/120",
        "10.0.0.0",
        "10.0.0.0/",
        "/8",
        "10.0.0/24",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "fd00::/129",
        "10.0.0.0/24 ",
        " 10.0.0.0/24",
        "fe80::%eth0/64",
        "",
        "x",
    ];
    let gateways = [
        None,
        Some("192.168.0.1"),
        Some("192.168.0.0"),
        Some("192.168.255.255"),
        Some("192.168.255.254"),
        Some("192.169.0.1"),
        Some("10.1.2.4"),
        Some("10.1.2.5"),
        Some("10.1.2.6"),
        Some("10.1.2.7"),
        Some("10.255.255.255"),
        Some("10.0.0.0"),
        Some("fd00:7::"),
        Some("fd00:7::1"),
        Some("FD00:7::1"),
        Some("fd00:7::3"),
        Some("fd00:7::ffff:ffff:ffff:ffff"),
        Some("fd00:8::1"),
        Some("::ffff:192.168.0.1"),
        Some("fe80::1%eth0"),
        Some("192.168.0.1/16"),
        Some("192.168.0"),
        Some(""),
        Some("x"),
    ];
    for cidr in ranges {
        for gateway in gateways {
            let spec = match gateway {
                Some(gateway) => json!({ "cidr": cidr, "gateway": gateway }),
                None => json!({ "cidr": cidr }),
            };
            // A spelling that only one of them knows for an address is refused by both, in other words.
            let is_mapped =
                cidr.starts_with("::ffff:") || gateway.is_some_and(|it| it.starts_with("::ffff:"));
            match agree(&spec) {
                Err(why) if is_mapped => {
                    assert!(parsed(&spec).is_err() && !RULES.refusals(&spec).is_empty(), "{why}");
                }
                other => assert_eq!(other, Ok(())),
            }
        }
    }
}

fn address() -> impl Strategy<Value = String> {
    let near =
        select(vec![0_u32, 0x0A00_0000, 0x7F00_0000, 0xA9FE_0000, 0xC0A8_0000, 0xE000_0000, 0xFFFF_FF00]);
    let v4 = (near, 0_u32..512).prop_map(|(base, more)| std::net::Ipv4Addr::from(base.wrapping_add(more)));
    let near = select(vec![0_u128, 0xFD00_0007 << 96, 0xFE80 << 112, 0xFF02 << 112, 0x2001_0DB8 << 96]);
    let v6 = (near, 0_u128..512).prop_map(|(base, more)| std::net::Ipv6Addr::from(base + more));
    prop_oneof![v4.prop_map(|it| it.to_string()), v6.prop_map(|it| it.to_string())]
}

/// A range of some prefix around an address, or that address with the prefix.
fn range() -> impl Strategy<Value = String> {
    (address(), 0_u8..=128, any::<bool>()).prop_map(|(address, prefix, masked)| {
        let text = format!("{address}/{prefix}");
        match text.parse::<causeway_core::Cidr>() {
            Ok(cidr) if masked => cidr.to_string(),
            Ok(_) | Err(_) => text,
        }
    })
}

/// An address in a range: the first, the last, the one after or before, or any.
fn within(range: &str, which: u8, other: String) -> String {
    let Ok(cidr) = range.parse::<causeway_core::Cidr>() else { return other };
    match which {
        0 => cidr.address().to_string(),
        1 => cidr.second().to_string(),
        2 => cidr.last().to_string(),
        _ => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn what_is_admitted_is_what_can_be_parsed(cidr in range(), which in 0_u8..5, other in address()) {
        let gateway = within(&cidr, which, other);
        prop_assert_eq!(agree(&json!({ "cidr": cidr, "gateway": gateway })), Ok(()));
        prop_assert_eq!(agree(&json!({ "cidr": cidr })), Ok(()));
    }

    #[test]
    fn any_text_that_is_admitted_can_be_parsed(
        cidr in prop_oneof![range(), "[0-9a-f:./]{0,20}", any::<String>()],
        gateway in prop_oneof![address(), "[0-9a-f:.]{0,20}", any::<String>()],
    ) {
        let spec = json!({ "cidr": cidr, "gateway": gateway });
        if RULES.refusals(&spec).is_empty() {
            prop_assert!(parsed(&spec).is_ok(), "{}: {:?}", spec, parsed(&spec));
        }
    }
}
