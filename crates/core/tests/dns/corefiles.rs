//! The block of a Corefile: put there, found again, taken over, taken away, and nothing else touched.

use std::net::Ipv4Addr;

use causeway_core::dns::corefile::{Obstacle, Plan, Want, plan, render, strip};
use proptest::prelude::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// What kube-ovn's own documentation has.
const STOCK: &str = "\
.:53 {
    errors
    health {
      lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    forward . /etc/resolv.conf {
      prefer_udp
    }
    cache 30
    loop
    reload
    loadbalance
}
";

/// What the older operator makes of a Corefile.
fn spliced(text: &str, server: &str) -> String {
    text.replacen(".:53 {", &format!("clusterset.local:53 {{\n    forward . {server}\n  }}\n  .:53 {{"), 1)
}

fn wanted(text: &str) -> Plan {
    plan(text, Want::Block(SERVER))
}

#[track_caller]
fn foreign(text: &str) -> Vec<String> {
    match wanted(text) {
        Plan { text: None, obstacle: Some(Obstacle::Foreign(servers)) } => servers,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_block_goes_in_front_of_what_is_there_and_leaves_it_byte_for_byte() {
    let rendered = wanted(STOCK).text.expect("a text");
    assert!(rendered.ends_with(STOCK), "{rendered}");
    let block = rendered.strip_suffix(STOCK).expect("in front");
    let lines: Vec<&str> = block.lines().collect();
    assert!(lines[0].starts_with("# causeway:"), "{block}");
    assert_eq!(lines[1..], ["clusterset.local:53 {", "    forward . 10.96.0.10", "}"]);
    assert_eq!(wanted(&rendered), Plan { text: None, obstacle: None }, "once is enough");
    assert_eq!(plan(&rendered, Want::Nothing).text.as_deref(), Some(STOCK));
    assert_eq!(plan(STOCK, Want::Nothing), Plan { text: None, obstacle: None });
    assert_eq!(plan(&rendered, Want::AsItIs), Plan { text: None, obstacle: None });
}

#[test]
fn another_address_of_kube_dns_is_another_block() {
    let rendered = render(STOCK, Ipv4Addr::new(10, 96, 0, 9));
    assert_eq!(wanted(&rendered).text, Some(render(STOCK, SERVER)));
}

#[test]
fn what_the_older_operator_wrote_is_taken_over_and_goes_as_it_came() {
    let indented = STOCK.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let commented = format!("# ours\nexample.org {{\n  whoami\n}}\n\n{STOCK}");
    for original in [STOCK, &indented, &commented] {
        for server in ["10.96.0.10", "172.20.0.10", "fd00::a"] {
            let spliced = spliced(original, server);
            assert_eq!(wanted(&spliced).text, Some(render(original, SERVER)), "{spliced}");
            assert_eq!(plan(&spliced, Want::Nothing).text.as_deref(), Some(original), "{spliced}");
        }
    }
}

#[test]
fn a_block_that_somebody_edited_is_ours_by_its_comment() {
    let edited = render(STOCK, SERVER).replace(
        "    forward . 10.96.0.10\n",
        "    cache 30\n    forward . 10.96.0.10 {\n        prefer_udp\n    }\n",
    );
    assert_eq!(wanted(&edited).text, Some(render(STOCK, SERVER)));
    assert_eq!(plan(&edited, Want::Nothing).text.as_deref(), Some(STOCK));
    let moved = format!("{STOCK}{}", render("", SERVER));
    assert_eq!(plan(&moved, Want::Nothing).text.as_deref(), Some(STOCK), "wherever it stands");
}

#[test]
fn a_block_of_somebody_elses_is_left_alone_and_told() {
    let theirs = |block: &str| format!("{block}\n{STOCK}");
    assert_eq!(foreign(&theirs("clusterset.local:53 {\n  forward . 10.1.1.1\n  cache 30\n}")), ["10.1.1.1"]);
    let keys = [
        "clusterset.local",
        "Clusterset.Local.",
        "dns://clusterset.local:53",
        "example.org clusterset.local:5353",
    ];
    for key in keys {
        assert_eq!(
            foreign(&theirs(&format!("{key} {{\n  forward . 1.2.3.4 5.6.7.8\n}}"))),
            ["1.2.3.4", "5.6.7.8"]
        );
    }
    assert_eq!(foreign(&theirs("clusterset.local:53 {\n  errors\n}")), Vec::<String>::new());
    // In the older operator's words, and not where it puts them.
    let behind = format!("{STOCK}clusterset.local:53 {{\n    forward . 10.96.0.10\n  }}\n");
    assert_eq!(foreign(&behind), ["10.96.0.10"]);
    let noted = spliced(STOCK, "10.96.0.10").replace("forward . 10.96.0.10", "forward . 10.96.0.10 # mine");
    assert_eq!(foreign(&noted), ["10.96.0.10"]);
    for text in [theirs("clusterset.local {\n}"), behind, noted] {
        assert_eq!(plan(&text, Want::Nothing), Plan { text: None, obstacle: None }, "{text}");
    }
}

#[test]
fn names_that_only_look_alike_are_in_nobodys_way() {
    for key in
        ["a.clusterset.local", "clusterset.localhost", "superclusterset.local:53", "\"x clusterset.local\""]
    {
        let text = format!("{key} {{\n    forward . 10.96.0.10\n  }}\n  {STOCK}");
        assert_eq!(wanted(&text).text, Some(render(&text, SERVER)), "{key}");
    }
    let commented = format!("# clusterset.local:53 {{\n{STOCK}# clusterset.local\n");
    assert_eq!(wanted(&commented).text, Some(render(&commented, SERVER)));
}

#[test]
fn where_somebody_adds_a_block_beside_ours_ours_goes_since_coredns_takes_only_one() {
    let both = format!("{}clusterset.local {{\n  forward . 9.9.9.9\n}}\n", render(STOCK, SERVER));
    let plan = wanted(&both);
    assert_eq!(plan.obstacle, Some(Obstacle::Foreign(vec!["9.9.9.9".into()])));
    assert_eq!(plan.text, Some(format!("{STOCK}clusterset.local {{\n  forward . 9.9.9.9\n}}\n")));
}

#[test]
fn a_file_in_which_there_is_no_place_for_a_block_stays_as_it_is() {
    for text in [
        ".:53\nerrors\nforward . 1.1.1.1\n",
        ".:53 {\n  errors\n",
        "}\n",
        "{\n}\n",
        ".:53 {\n}\nexample.org\n",
    ] {
        let plan = wanted(text);
        assert!(
            matches!(plan, Plan { text: None, obstacle: Some(Obstacle::Unreadable(_)) }),
            "{text}: {plan:?}"
        );
    }
    for text in
        ["", "\n", "# nothing\n", "import conf.d/*\n.:53 {\n}\n", "a, b,\nc {\n}\n", ".:53\n{\n errors\n}\n"]
    {
        let rendered = wanted(text).text.unwrap_or_else(|| panic!("{text}: {:?}", wanted(text)));
        assert_eq!(strip(&rendered), text);
    }
}

#[test]
fn what_is_broken_behind_ours_does_not_keep_ours_there() {
    let broken = render(".:53 {\n  errors\n", SERVER);
    assert_eq!(plan(&broken, Want::Nothing).text.as_deref(), Some(".:53 {\n  errors\n"));
}

/// Texts of the words that matter, in any order.
fn any_corefile() -> impl Strategy<Value = String> {
    let words = [
        "clusterset.local:53",
        "clusterset.local",
        " ",
        "\n",
        "{",
        "}",
        " {\n",
        "\n}\n",
        ".:53 {",
        ".:53",
        "forward",
        " . ",
        "10.96.0.10",
        "    forward . 10.96.0.10\n",
        "clusterset.local:53 {\n    forward . 10.96.0.10\n  }\n  .:53 {",
        "# causeway: x\n",
        "#",
        "# causeway:",
        "\"",
        "\\",
        "import a\n",
        "errors\n",
        "ü",
        "\r\n",
        ",",
        "\t",
        "clusterset.local:53 {\n}\n",
    ];
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(words.to_vec()), 0..24).prop_map(|words| words.concat()),
        1 => ".*",
    ]
}

proptest! {
    #[test]
    fn what_was_put_in_front_goes_and_leaves_the_bytes_that_were_there(text in any_corefile(), server: Ipv4Addr) {
        let original = strip(&text);
        prop_assert_eq!(strip(&original), original.clone());
        prop_assert_eq!(strip(&render(&original, server)), original);
    }

    #[test]
    fn planning_again_after_writing_gives_nothing_to_do(text in any_corefile(), first: Ipv4Addr, second: Ipv4Addr) {
        for want in [Want::Block(first), Want::Block(second), Want::Nothing, Want::Block(first)] {
            let once = plan(&text, want);
            let written = once.text.unwrap_or_else(|| text.clone());
            let again = plan(&written, want);
            prop_assert_eq!(&again.text, &None, "{:?}", written);
            prop_assert_eq!(&again.obstacle, &once.obstacle);
            // However often it was written in between, what was there without us is there.
            prop_assert_eq!(strip(&written), strip(&text));
        }
    }

    #[test]
    fn nothing_is_changed_where_what_should_be_is_not_known(text in ".*") {
        prop_assert_eq!(plan(&text, Want::AsItIs), Plan { text: None, obstacle: None });
    }
}
