//! By which link a node is reached.

use causeway_core::Family;
use causeway_core::leases::interface::{Choice, LinkSeen, Way, choose, still};

use crate::world::{address, range};

fn links() -> Vec<LinkSeen> {
    let link = |index, name: &str, addresses: &[&str]| LinkSeen {
        index,
        name: name.into(),
        mtu: 1500,
        up: true,
        addresses: addresses.iter().map(|text| text.parse().expect("a net")).collect(),
    };
    vec![
        link(1, "lo", &["127.0.0.1/8", "::1/128"]),
        link(2, "eth0", &["169.254.7.7/16", "192.168.7.1/24", "10.9.0.1/32", "fe80::1/64", "fd00::1/64"]),
        link(3, "eth1", &["172.16.0.1/12"]),
        LinkSeen { up: false, ..link(4, "eth2", &["172.30.0.1/16"]) },
    ]
}

/// The name and the address that were chosen, or why none was.
fn chosen(family: Family, choice: &Choice<'_>, way: Way) -> Result<(String, String), String> {
    let interface = choose(family, choice, &links(), way)?;
    Ok((interface.name, interface.address.to_string()))
}

fn found(name: &str, address: &str) -> Result<(String, String), String> {
    Ok((name.into(), address.into()))
}

#[test]
fn the_default_routes_link_with_an_address_that_is_good_everywhere() {
    assert_eq!(chosen(Family::V4, &Choice::Default, Some((2, None))), found("eth0", "192.168.7.1"));
    assert_eq!(chosen(Family::V6, &Choice::Default, Some((2, None))), found("eth0", "fd00::1"));
    let source = Some(address("10.9.0.1"));
    assert_eq!(chosen(Family::V4, &Choice::Default, Some((2, source))), found("eth0", "10.9.0.1"));
    assert_eq!(chosen(Family::V6, &Choice::Default, None), Err("there is no default route of IPv6".into()));
    let interface = choose(Family::V4, &Choice::Default, &links(), Some((2, None))).expect("found");
    assert_eq!(
        interface.neighbours,
        [range("192.168.7.0/24")],
        "what is near, and not what is alone or of one link"
    );
}

#[test]
fn the_link_that_is_asked_for_by_name_address_pattern_or_way() {
    let v4 = |choice: &Choice<'_>, way| chosen(Family::V4, choice, way);
    assert_eq!(v4(&Choice::Named("eth1"), None), found("eth1", "172.16.0.1"));
    assert_eq!(v4(&Choice::Named("10.9.0.1"), None), found("eth0", "10.9.0.1"));
    assert_eq!(v4(&Choice::Named("eth9"), None), Err("there is no interface eth9".into()));
    assert_eq!(v4(&Choice::Named("10.9.0.2"), None), Err("no interface has the address 10.9.0.2".into()));
    assert_eq!(v4(&Choice::Named("eth2"), None), Err("the interface eth2 is down".into()));
    assert_eq!(v4(&Choice::Fitting(&|text| text.ends_with('1'), "1$"), None), found("eth1", "172.16.0.1"));
    assert_eq!(v4(&Choice::Fitting(&|text| text.starts_with("10."), "^10"), None), found("eth0", "10.9.0.1"));
    let none = v4(&Choice::Fitting(&|_| false, "wlan.*"), None);
    assert_eq!(none, Err("no interface fits `wlan.*`, by its name or an IPv4 address".into()));
    let far = address("172.17.3.3");
    let way = Some((3, Some(address("172.16.0.1"))));
    assert_eq!(v4(&Choice::Reaching(far), way), found("eth1", "172.16.0.1"));
    assert_eq!(v4(&Choice::Reaching(far), None), Err("172.17.3.3 cannot be reached".into()));
    assert_eq!(
        chosen(Family::V6, &Choice::Named("eth1"), None),
        Err("the interface eth1 has no IPv6 address".into())
    );
}

#[test]
fn the_link_that_others_know_stays_while_it_is_up_and_has_the_address() {
    let known = choose(Family::V4, &Choice::Default, &links(), Some((2, None))).expect("a link");
    let now = |change: fn(&mut LinkSeen)| {
        let mut links = links();
        change(&mut links[1]);
        still(&known, &links).map(|it| (it.name, it.index, it.address.to_string()))
    };
    let as_it_is = |name: &str, index| Some((name.to_owned(), index, "192.168.7.1".to_owned()));
    assert_eq!(now(|_| ()), as_it_is("eth0", 2), "whatever default route there is");
    assert_eq!(now(|link| link.name = "eth9".into()), as_it_is("eth9", 2));
    assert_eq!(now(|link| link.index = 9), as_it_is("eth0", 9), "another one by its name");
    assert_eq!(
        now(|link| link.addresses.insert(0, "192.168.7.77/24".parse().expect("a net"))),
        as_it_is("eth0", 2)
    );
    assert_eq!(now(|link| link.up = false), None);
    assert_eq!(now(|link| link.addresses.clear()), None);
}
