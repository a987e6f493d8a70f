//! What a spec may be.

use causeway_core::networks::{NetworkSpec, pools};
use proptest::prelude::*;

fn refused(cidr: &str, gateway: Option<&str>) -> String {
    NetworkSpec::parse(cidr, gateway).expect_err("it makes no sense").to_string()
}

#[test]
fn a_range_and_a_gateway_in_it_make_a_network() {
    let spec = NetworkSpec::parse("192.168.0.0/16", Some("192.168.0.1")).expect("the sample");
    assert_eq!(
        (spec.cidr.to_string(), spec.gateway.to_string()),
        ("192.168.0.0/16".into(), "192.168.0.1".into())
    );
    assert_eq!(NetworkSpec::parse("10.7.0.0/24", None).expect("a spec").gateway.to_string(), "10.7.0.1");
    assert_eq!(NetworkSpec::parse("fd00:7::/64", None).expect("a spec").gateway.to_string(), "fd00:7::1");
    assert!(
        NetworkSpec::parse("fd00:7::/64", Some("fd00:7::ffff:ffff:ffff:ffff")).is_ok(),
        "IPv6 has no broadcast"
    );
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    assert_eq!(
        refused("192.168.0.0", None),
        "cidr `192.168.0.0` is not a range of addresses, like 192.168.0.0/16 or fd00:7::/64"
    );
    assert_eq!(
        refused("10.0.0.5/24", None),
        "cidr `10.0.0.5/24` has bits after its prefix; the range it lies in is 10.0.0.0/24"
    );
    assert_eq!(
        refused("10.0.0.0/31", None),
        "cidr 10.0.0.0/31 has a prefix of 31: use one from 8 to 30, so that it has room for hosts"
    );
    assert!(refused("0.0.0.0/0", None).contains("use one from 8 to 30"));
    assert_eq!(refused("127.0.0.0/16", None), "cidr 127.0.0.0/16 is loopback, which no network can have");
    assert_eq!(refused("ff02::/64", None), "cidr ff02::/64 is multicast, which no network can have");
    assert_eq!(
        refused("10.0.0.0/24", Some("x")),
        "gateway `x` is not an address, like 192.168.0.1 or fd00:7::1"
    );
    assert_eq!(
        refused("10.0.0.0/24", Some("fd00::1")),
        "gateway fd00::1 is an IPv6 address, and cidr 10.0.0.0/24 is an IPv4 range"
    );
    assert_eq!(refused("10.0.0.0/24", Some("10.0.1.1")), "gateway 10.0.1.1 is outside of cidr 10.0.0.0/24");
    assert_eq!(
        refused("10.0.0.0/24", Some("10.0.0.0")),
        "gateway 10.0.0.0 is the first address of cidr 10.0.0.0/24, which no host can have"
    );
    assert_eq!(
        refused("10.0.0.0/24", Some("10.0.0.255")),
        "gateway 10.0.0.255 is the broadcast address of cidr 10.0.0.0/24, which no host can have"
    );
}

proptest! {
    #[test]
    fn no_text_is_too_odd(cidr in ".{0,40}", gateway in proptest::option::of(".{0,40}")) {
        let _ = NetworkSpec::parse(&cidr, gateway.as_deref());
    }

    /// Every host's address but the gateway's is given out exactly once.
    #[test]
    fn pools_hold_every_address_of_a_host_but_the_gateways(base in any::<u32>(), prefix in 20_u8..=30, host in any::<u32>()) {
        let size = 1_u32 << (32 - prefix);
        let first = (base & 0x00ff_ffff | 0x0a00_0000) & !(size - 1);
        let address = |number: u32| std::net::Ipv4Addr::from(first + number).to_string();
        let gateway = 1 + host % (size - 2);
        let text = format!("{}/{prefix}", address(0));
        let spec = NetworkSpec::parse(&text, Some(&address(gateway))).expect("a spec");
        let pools = pools::all_but(spec.cidr, spec.gateway);
        for number in 0..size {
            let it: std::net::IpAddr = address(number).parse().expect("an address");
            let holding = pools.iter().filter(|(first, last)| (*first..=*last).contains(&it)).count();
            prop_assert_eq!(holding, usize::from(number != 0 && number != size - 1 && number != gateway));
        }
    }
}

#[test]
fn what_somebody_has_set_aside_stays_so_when_the_gateway_moves() {
    let cidr = "10.0.0.0/24".parse().expect("a range");
    let address = |last: u8| std::net::IpAddr::from([10, 0, 0, last]);
    let default = pools::all_but(cidr, address(1));
    let moved = pools::moved(cidr, &default, Some(address(1)), address(254));
    assert_eq!(moved, [(address(1), address(253))]);
    let own = [(address(100), address(200))];
    assert_eq!(pools::moved(cidr, &own, Some(address(1)), address(254)), own);
    assert_eq!(
        pools::moved(cidr, &own, Some(address(1)), address(150)),
        [(address(100), address(149)), (address(151), address(200))]
    );
}
