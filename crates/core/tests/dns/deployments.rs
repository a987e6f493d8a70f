//! The route of a Deployment, in either of its forms: put there, found again, replaced, taken away.

use std::net::Ipv4Addr;

use causeway_core::dns::Route;
use causeway_core::dns::command::{self, statement};
use causeway_core::dns::deployment::{Inherited, Obstacle, Plan, Want, plan};
use proptest::prelude::*;

use crate::world::{GATEWAY, SERVER, after, route, script as script_of, with_list, with_script};

/// What kube-ovn 1.12 makes, as people know it.
const ROW: &str = "ip -4 route add 10.96.0.1 via 10.244.0.1 dev net1;ip -4 route add 218.2.2.2 via 10.244.0.1 dev net1;ip -4 route add 114.114.114.114 via 10.244.0.1 dev net1;";
/// What kube-ovn 1.13 makes.
const LIST: &str = r#"[{"dst":"10.96.0.1/32","gw":"10.244.0.1"}]"#;
const KEY: &str = "ovn-nad.default.ovn.kubernetes.io/routes";

fn want() -> Want {
    Want::Route(route(), Inherited::Theirs)
}

const NOTHING: Plan = Plan { edit: None, obstacle: None, is_theirs: false };
const THEIRS: Plan = Plan { edit: None, obstacle: None, is_theirs: true };

#[test]
fn a_row_of_commands_gets_ours_at_its_end_once_and_loses_it_again() {
    let before = with_script(ROW);
    let with = after(&before, want());
    let now = script_of(&with);
    assert_eq!(now, format!("{ROW}ip -4 route add 10.96.0.10 via 10.244.0.1 dev net1;"));
    assert_eq!(plan(&with, want(), None), NOTHING);
    assert_eq!(after(&with, Want::Nothing), before);
}

#[test]
fn any_other_script_gets_ours_in_front_where_nothing_swallows_it() {
    let scripts = [
        "exit 0;",
        "set -e; ip route add 1.1.1.1 via 2.2.2.2",
        "ip route add a via b # why;",
        "if true; then ip link;",
        "cat <<X;\n",
        "ip link set net1 up;\nexec sleep 1;",
        "echo 'x;",
    ];
    for script in scripts {
        let with = after(&with_script(script), want());
        let now = script_of(&with);
        assert_eq!(now, format!("{}{script}", statement(route())));
        assert_eq!(after(&with, Want::Nothing), with_script(script));
    }
    let plain = ["", " \n", "ip route add ${KUBERNETES_SERVICE_HOST} via 10.244.0.1 dev net1;\n"];
    for script in plain {
        let with = after(&with_script(script), want());
        assert_eq!(script_of(&with), format!("{script}{}", statement(route())));
    }
}

#[test]
fn a_list_gets_our_entry_behind_the_others_and_one_is_made_where_there_is_none() {
    for (text, expected) in [
        (
            Some(LIST),
            r#"[{"dst":"10.96.0.1/32","gw":"10.244.0.1"},{"dst":"10.96.0.10/32","gw":"10.244.0.1"}]"#,
        ),
        (Some("[ ]\n"), "[{\"dst\":\"10.96.0.10/32\",\"gw\":\"10.244.0.1\"} ]\n"),
        (
            Some("[\n  {\"dst\": \"0.0.0.0/0\"}\n]"),
            "[\n  {\"dst\": \"0.0.0.0/0\"},{\"dst\":\"10.96.0.10/32\",\"gw\":\"10.244.0.1\"}\n]",
        ),
        (None, r#"[{"dst":"10.96.0.10/32","gw":"10.244.0.1"}]"#),
    ] {
        let before = with_list(text);
        let edit = plan(&before, want(), None).edit.expect("an edit");
        assert_eq!(edit.annotations[KEY].as_deref(), Some(expected));
        assert_eq!(edit.script, None);
        let with = after(&before, want());
        assert_eq!(plan(&with, want(), None), NOTHING);
        assert_eq!(after(&with, Want::Nothing), before);
    }
}

#[test]
fn the_provider_is_the_pods_own_else_that_of_the_configuration() {
    let mut silent = with_list(None);
    silent.providers.clear();
    let shape = plan(&silent, want(), None).obstacle;
    assert!(
        matches!(shape, Some(Obstacle::Shape(why)) if why.contains("init-route") && why.contains("nad-provider"))
    );
    let edit = plan(&silent, want(), Some("nad.ns.ovn")).edit.expect("an edit");
    assert!(edit.annotations.contains_key("nad.ns.ovn.kubernetes.io/routes"), "{edit:?}");
    silent.providers.insert("ovn".into());
    let edit = plan(&silent, want(), Some("nad.ns.ovn")).edit.expect("an edit");
    assert!(
        edit.annotations.contains_key("nad.ns.ovn.kubernetes.io/routes"),
        "not the pods' own link: {edit:?}"
    );
    silent.providers.insert("other.ns.ovn".into());
    let edit = plan(&silent, want(), Some("nad.ns.ovn")).edit.expect("an edit");
    assert!(
        edit.annotations.contains_key("other.ns.ovn.kubernetes.io/routes"),
        "what it says itself: {edit:?}"
    );
}

#[test]
fn a_route_that_is_there_already_is_somebody_elses_and_stays() {
    let spellings = [
        "ip -4 route add 10.96.0.10 via 10.244.0.1 dev net1;",
        "ip route add 10.96.0.10/32 via 10.244.0.1",
        "set -e\n/sbin/ip -4 -o r a to 10.96.0.10 dev net1 via 10.244.0.1 && true",
        "true||ip ro replace \"10.96.0.10\" via '10.244.0.1' dev net1",
    ];
    for script in spellings {
        let theirs = with_script(script);
        assert_eq!(plan(&theirs, want(), None), THEIRS, "{script}");
        assert_eq!(plan(&theirs, Want::Nothing, None), NOTHING, "{script}");
    }
    let theirs = with_list(Some(r#"[{"gw":"10.244.0.1","dst":"10.96.0.10/32"}]"#));
    assert_eq!(plan(&theirs, want(), None), THEIRS);
    assert_eq!(plan(&theirs, Want::Nothing, None), NOTHING);
    // What is only written somewhere is no route.
    for script in [
        "# ip route add 10.96.0.10 via 10.244.0.1",
        "ip route del 10.96.0.10;",
        "ip route add 10.96.0.100 via 10.244.0.1;",
    ] {
        assert!(plan(&with_script(script), want(), None).edit.is_some(), "{script}");
    }
}

#[test]
fn another_way_to_the_same_address_is_in_the_way() {
    for theirs in [
        with_script("ip -4 route add 10.96.0.10 via 10.244.0.9 dev net1;"),
        with_script("ip -4 route add 10.96.0.10 via 10.244.0.1 dev eth0;"),
        with_script("ip route add 10.96.0.10 dev net1;"),
        with_list(Some(r#"[{"dst":"10.96.0.10","gw":"10.244.0.9"}]"#)),
    ] {
        let plan = plan(&theirs, want(), None);
        assert!(
            matches!(&plan.obstacle, Some(Obstacle::Taken(why)) if why.contains("10.96.0.10")),
            "{plan:?}"
        );
        assert_eq!(plan.edit, None);
    }
    let odd = with_list(Some("not a list"));
    assert!(matches!(plan(&odd, want(), None).obstacle, Some(Obstacle::Shape(_))));
}

#[test]
fn another_address_or_another_gateway_replaces_the_route_in_one_edit() {
    let moved = Route { to: Ipv4Addr::new(10, 96, 0, 99), via: GATEWAY };
    let elsewhere = Route { to: SERVER, via: Ipv4Addr::new(10, 244, 0, 254) };
    for before in [with_script(ROW), with_list(Some(LIST)), with_list(None), with_script("exit 0")] {
        let with = after(&before, want());
        for other in [moved, elsewhere] {
            let replaced = after(&with, Want::Route(other, Inherited::Theirs));
            assert_eq!(replaced, after(&before, Want::Route(other, Inherited::Theirs)));
            assert_eq!(after(&replaced, Want::Nothing), before);
        }
    }
}

#[test]
fn what_kube_ovn_made_anew_gets_its_route_back_whatever_became_of_the_record() {
    let (before, with) = (with_script(ROW), after(&with_script(ROW), want()));
    // Everything as it was, and the record still there; or in its pods; or gone with the rest.
    let mut kept = with.clone();
    kept.script = with_script(ROW).script;
    let mut copied = before.clone();
    copied.has_copy = true;
    for anew in [kept, copied, before.clone()] {
        assert_eq!(after(&anew, want()), with, "{anew:?}");
        assert_eq!(after(&anew, Want::Nothing), before, "{anew:?}");
    }
    // Another version of it has the other form.
    let mut newer = with_list(Some(LIST));
    (newer.record, newer.has_record) = (with.record.clone(), true);
    assert_eq!(after(&newer, want()), after(&with_list(Some(LIST)), want()));
    assert_eq!(after(&newer, Want::Nothing), with_list(Some(LIST)));
}

#[test]
fn a_route_of_kube_ovns_own_is_not_taken_for_ours_though_the_record_speaks_of_one() {
    let mut anew = after(&with_script(ROW), want());
    let own = format!("ip -4 route add 10.96.0.2 via 10.244.0.1 dev net1;{}", statement(route()));
    anew.script = with_script(&own).script;
    assert_eq!(after(&anew, Want::Nothing), with_script(&own), "the record goes, the route stays");
}

#[test]
fn what_others_write_around_ours_stays_when_ours_goes() {
    let with = after(&with_script(ROW), want());
    let now = script_of(&with);
    let mut edited = with.clone();
    edited.script = with_script(&format!("set -x;{now}sleep 1")).script;
    assert_eq!(plan(&edited, want(), None), NOTHING);
    assert_eq!(after(&edited, Want::Nothing), with_script(&format!("set -x;{ROW}sleep 1")));

    let ours = r#"{"dst":"10.96.0.10/32","gw":"10.244.0.1"}"#;
    for (before, edited, rest) in [
        (
            Some(LIST),
            format!(r#"[{{"dst":"1.1.1.1/32"}}, {ours} ,{{"dst":"2.2.2.2/32"}}]"#),
            r#"[{"dst":"1.1.1.1/32"} ,{"dst":"2.2.2.2/32"}]"#,
        ),
        (None, format!(r#"[{ours},{{"dst":"2.2.2.2/32"}}]"#), r#"[{"dst":"2.2.2.2/32"}]"#),
        (Some("[]"), format!(r#"[ {ours} , {{"dst":"2.2.2.2/32"}}]"#), r#"[  {"dst":"2.2.2.2/32"}]"#),
        (Some(LIST), format!("[{ours}]"), "[]"),
    ] {
        let with = after(&with_list(before), want());
        let mut now = with_list(Some(&edited));
        (now.record, now.has_record) = (with.record.clone(), true);
        assert_eq!(plan(&now, want(), None), NOTHING, "{edited}");
        assert_eq!(after(&now, Want::Nothing), with_list(Some(rest)), "{edited}");
    }
}

#[test]
fn what_another_operator_left_at_the_end_of_the_row_becomes_ours() {
    let left = with_script(&format!("{ROW}{}", statement(route())));
    let adopted = after(&left, Want::Route(route(), Inherited::Ours));
    assert_eq!(adopted.script, left.script);
    assert_eq!(adopted, after(&with_script(ROW), want()));
    assert_eq!(after(&adopted, Want::Nothing), with_script(ROW));
    // Not at the end, it is not that operator's.
    let elsewhere = with_script(&format!("{}{ROW}", statement(route())));
    assert_eq!(plan(&elsewhere, Want::Route(route(), Inherited::Ours), None), THEIRS);
}

#[test]
fn a_record_that_nobody_can_read_and_a_copy_of_one_are_cleared_away() {
    let mut odd = with_script(ROW);
    odd.has_record = true;
    assert_eq!(after(&odd, Want::Nothing), with_script(ROW));
    assert_eq!(after(&odd, want()), after(&with_script(ROW), want()));
    odd.deleting = true;
    assert_eq!(plan(&odd, Want::Nothing, None), NOTHING, "it goes anyway");
}

fn any_script() -> impl Strategy<Value = String> {
    let words = [
        "ip -4 route add 10.96.0.10 via 10.244.0.1 dev net1;",
        "ip ",
        "-4 ",
        "route ",
        "add ",
        "10.96.0.10",
        " via ",
        "10.244.0.1",
        " dev net1",
        ";",
        "\n",
        "#",
        " # ",
        "'",
        "\"",
        "&&",
        "|",
        "exit 0",
        "ip route add 1.1.1.1 via 10.244.0.1 dev net1;",
        "ü",
        "$(",
        "}",
        "/32",
    ];
    prop_oneof![
        3 => prop::collection::vec(prop::sample::select(words.to_vec()), 0..16).prop_map(|words| words.concat()),
        1 => ".*",
    ]
}

/// Lists with entries that may lead anywhere.
fn any_list() -> impl Strategy<Value = Option<String>> {
    let entry = prop::sample::select(vec![
        r#"{"dst":"10.96.0.1/32","gw":"10.244.0.1"}"#,
        r#"{ "dst": "10.96.0.99/32", "gw":"10.244.0.254" }"#,
        "{}",
        r#"{"dst":"10.96.0.100/32"}"#,
    ]);
    let space = || prop::sample::select(vec!["", " ", "\n  "]);
    let list = (prop::collection::vec(entry, 0..4), space(), space(), space())
        .prop_map(|(entries, a, b, c)| format!("{a}[{b}{}{c}]{a}", entries.join(&format!("{a},{b}"))));
    prop::option::of(list)
}

fn any_route() -> impl Strategy<Value = Route> {
    let to = prop::sample::select(vec![SERVER, Ipv4Addr::new(10, 96, 0, 9)]);
    let via = prop::sample::select(vec![GATEWAY, Ipv4Addr::new(10, 244, 0, 2)]);
    (to, via).prop_map(|(to, via)| Route { to, via })
}

proptest! {
    #[test]
    fn whatever_was_put_into_whichever_script_goes_and_leaves_the_bytes_that_were_there(
        script in any_script(), routes in prop::collection::vec(any_route(), 1..4),
    ) {
        let before = with_script(&script);
        let mut now = before.clone();
        for route in routes {
            let want = Want::Route(route, Inherited::Theirs);
            now = after(&now, want);
            prop_assert!(plan(&now, want, None).edit.is_none(), "{:?}", now);
        }
        prop_assert_eq!(after(&now, Want::Nothing), before);
    }

    #[test]
    fn whatever_was_put_into_whichever_list_goes_and_leaves_the_bytes_that_were_there(
        list in any_list(), routes in prop::collection::vec(any_route(), 1..4),
    ) {
        let before = with_list(list.as_deref());
        let mut now = before.clone();
        for route in routes {
            let want = Want::Route(route, Inherited::Theirs);
            now = after(&now, want);
            prop_assert!(plan(&now, want, None).edit.is_none(), "{:?}", now);
        }
        prop_assert_eq!(after(&now, Want::Nothing), before);
    }

    #[test]
    fn no_script_has_a_second_way_to_an_address(script in any_script(), inherited: bool) {
        let inherited = if inherited { Inherited::Ours } else { Inherited::Theirs };
        let now = after(&with_script(&script), Want::Route(route(), inherited));
        let text = script_of(&now);
        let own = statement(route());
        if text != script {
            prop_assert_eq!(command::find(&text.replacen(&own, "", 1), SERVER), None, "{:?}", text);
        }
    }
}
