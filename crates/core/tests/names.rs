//! Whatever text comes in: a parser never panics, and what it accepts is safe to render and reads back the same.

use std::fmt::{Debug, Display};
use std::net::Ipv4Addr;
use std::str::FromStr;

use causeway_core::names::{ClusterId, GatewayName, HostAddr, Ipv4Cidr, LinkName, ObjectKey, parse_address};
use causeway_core::vpc::EgressRange;
use proptest::collection::vec;
use proptest::prelude::*;

/// Texts near to names and addresses, and texts far from them.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_./:, @#\"'\\\\\n-]{0,20}",
        "[0-9]{1,3}(\\.[0-9]{1,3}){3}(/[0-9]{1,2})?",
        "[a-z0-9.-]{1,20}(/[a-z0-9.-]{1,20})?",
        any::<String>(),
    ]
}

/// What may stand in a line of a batch, a rule or a path.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
}

fn holds_its_promise<T>(text: &str) -> Result<(), TestCaseError>
where
    T: FromStr + Display + PartialEq + Debug,
    T::Err: Display + Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            let shown = value.to_string();
            prop_assert!(is_plain(&shown), "{shown:?}");
            prop_assert_eq!(shown.parse::<T>().expect("it reads back"), value);
        }
        Err(error) => prop_assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_accepted_is_plain_and_reads_back(text in any_text()) {
        holds_its_promise::<LinkName>(&text)?;
        holds_its_promise::<ClusterId>(&text)?;
        holds_its_promise::<GatewayName>(&text)?;
        holds_its_promise::<ObjectKey>(&text)?;
        holds_its_promise::<Ipv4Cidr>(&text)?;
        holds_its_promise::<HostAddr>(&text)?;
        let _ = parse_address(&text);
    }

    #[test]
    fn a_link_name_fits_the_kernel_and_stays_in_its_folder(text in any_text()) {
        if let Ok(name) = text.parse::<LinkName>() {
            prop_assert!(name.as_str().len() <= 15 && !name.as_str().starts_with('-'));
            prop_assert!(!["..", ".", "lo", "eth0", "net1", "all", "default"].contains(&name.as_str()));
            prop_assert!(!name.as_str().contains('/'));
        }
    }

    #[test]
    fn ranges_overlap_when_they_share_an_address(a in any::<u32>(), b in any::<u32>(), wide in 0..=32u8, narrow in 0..=32u8) {
        let range = |address: u32, prefix: u8| format!("{}/{prefix}", Ipv4Addr::from(address)).parse::<Ipv4Cidr>().expect("a range");
        let (one, other) = (range(a, wide), range(b, narrow));
        prop_assert!(one.contains(a.into()) && other.contains(b.into()));
        // Ranges of this kind overlap only when one holds the other's own address.
        prop_assert_eq!(one.overlaps(other), one.contains(b.into()) || other.contains(a.into()));
        prop_assert_eq!(one.overlaps(other), other.overlaps(one));
    }

    #[test]
    fn the_egress_range_is_the_longest_run_of_what_was_given(given in vec(prop_oneof![0..12u32, (u32::MAX - 3)..=u32::MAX], 0..12)) {
        let addresses: Vec<Ipv4Addr> = given.iter().copied().map(Into::into).collect();
        let range = EgressRange::longest_run(&addresses);
        prop_assert_eq!(range.is_none(), given.is_empty());
        let Some(range) = range else { return Ok(()) };
        let within = |first: u32, last: u32| (first..=last).all(|n| given.contains(&n));
        prop_assert!(within(range.first.into(), range.last.into()));
        for first in &given {
            if let Some(last) = first.checked_add(range.len()) {
                prop_assert!(!within(*first, last), "there is a longer one from {first}");
            }
        }
    }
}
