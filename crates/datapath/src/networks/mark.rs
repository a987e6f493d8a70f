//! How a bridge says whose it is.
//!
//! Its tags are the words of its alias. A new link takes no alias, so it is given a group in the very request that makes it:
//! a number of ours that also tells whose cluster made it. A crash between making and marking then leaves a link that is
//! known. The same number tells whether the bridge's addresses are translated, so what the rules should be follows from
//! the links alone, whoever writes them.

use std::collections::BTreeSet;

use causeway_core::networks::Home;
use causeway_core::networks::mark::is_ours;
use sha1::{Digest as _, Sha1};

/// The upper half of our groups: `cw`.
const OURS: u32 = 0x6377_0000;
/// The rest tells a cluster, but for the last bit.
const CLUSTER: u32 = 0xfffe;
const NAT: u32 = 1;
/// The kernel takes no longer alias.
const LONGEST_ALIAS: usize = 255;

/// A number that the kernel keeps with a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group(pub u32);

impl Group {
    /// Nobody's.
    pub const NONE: Self = Self(0);

    /// That of what is made under a first mark ([`Home::description`]).
    pub fn new(first_mark: &str, nat: bool) -> Self {
        let [a, b, ..] = *Sha1::digest(first_mark).as_slice() else { return Self(OURS) };
        let cluster = u32::from(u16::from_be_bytes([a, b])) & CLUSTER;
        Self(OURS | cluster | if nat { NAT } else { 0 })
    }

    /// Whether it is one of ours, of whichever cluster.
    pub fn is_ours(self) -> bool {
        self.0 & !(CLUSTER | NAT) == OURS
    }

    /// Whether it is one of this cluster's.
    pub fn is_of(self, home: &Home) -> bool {
        self.0 | NAT == Self::new(&home.description(), true).0
    }

    /// Whether addresses are translated.
    pub fn has_nat(self) -> bool {
        self.is_ours() && self.0 & NAT != 0
    }
}

/// The name of the bridge of an object.
pub fn link_name(uid: &str) -> String {
    hex(&Sha1::digest(uid)).chars().take(13).fold("cw".into(), |name, digit| name + &digit.to_string())
}

/// Whether rules can be written about a link of this name: a link's may have quotes in it, and a star at its end would mean
/// others too.
pub fn is_plain(name: &str) -> bool {
    name.chars().all(|it| it.is_ascii_alphanumeric() || "-_.:".contains(it))
}

/// The Ethernet address of a bridge. One that is not told its address takes that of a port, and another one when that port
/// goes: hosts would send to the old one until they ask again.
pub(super) fn mac(name: &str) -> [u8; 6] {
    let digest = Sha1::digest(name);
    let mut mac = [2, b'c', b'w', 0, 0, 0];
    mac[3..].copy_from_slice(&digest[..3]);
    mac
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The tags in an alias.
pub fn tags(alias: &str) -> BTreeSet<String> {
    alias.split_whitespace().map(Into::into).collect()
}

/// The alias with these tags, ours first, and of others' as many as there is room for; none if ours are too long.
pub fn alias(tags: &BTreeSet<String>) -> Option<String> {
    let (ours, others): (Vec<&str>, Vec<&str>) =
        tags.iter().map(String::as_str).partition(|tag| is_ours(tag));
    let mut alias = ours.join(" ");
    if alias.len() > LONGEST_ALIAS {
        return None;
    }
    for tag in others {
        let space = usize::from(!alias.is_empty());
        if alias.len() + space + tag.len() <= LONGEST_ALIAS {
            alias.extend([&" "[..space], tag]);
        }
    }
    Some(alias)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn home() -> Home {
        Home::new(Some("east"), "0fa3b1c2-0000-4000-8000-000000000001")
    }

    #[test]
    fn a_name_fits_and_stays() {
        let name = link_name("0fa3b1c2-0000-4000-8000-000000000001");
        assert_eq!((name.len(), name.as_str()), (15, "cw240dc843babea"));
        assert_ne!(link_name("a"), link_name("b"));
    }

    #[test]
    fn a_group_tells_whose_it_is_and_whether_addresses_are_translated() {
        let other = Home::new(Some("west"), "0fa3b1c2-0000-4000-8000-000000000002");
        for nat in [false, true] {
            let group = Group::new(&home().description(), nat);
            assert!(group.is_ours() && group.is_of(&home()) && !group.is_of(&other));
            assert_eq!(group.has_nat(), nat);
        }
        for others in [0, 1, 157, u32::MAX] {
            assert!(!Group(others).is_ours() && !Group(others).is_of(&home()) && !Group(others).has_nat());
        }
    }

    #[test]
    fn ours_that_do_not_fit_are_no_alias() {
        let home = Home::new(Some(&"x".repeat(300)), "u");
        assert_eq!(alias(&home.tags("uid")), None);
    }

    proptest! {
        #[test]
        fn our_tags_survive_whatever_else_is_in_an_alias(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let foreign = tags(&String::from_utf8_lossy(&bytes));
            let ours = home().tags("u1");
            let all: BTreeSet<String> = ours.union(&foreign).cloned().collect();
            let alias = alias(&all).expect("ours fit");
            prop_assert!(alias.len() <= LONGEST_ALIAS);
            let read = tags(&alias);
            prop_assert!(ours.is_subset(&read) && read.is_subset(&all));
        }
    }
}
