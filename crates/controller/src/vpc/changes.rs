//! The number of each gateway's last change. Answers of tunnels' peers carry the number that the gateway had heard of.
//!
//! All gateways are counted together: so one that was forgotten and comes back has no lower number than before, and no answer
//! of its earlier life counts.

use std::collections::BTreeMap;

use causeway_core::GatewayName;

/// How often gateways were changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    last: u64,
    of: BTreeMap<GatewayName, u64>,
}

impl Changes {
    /// The number of a gateway's last change.
    pub(super) fn now(&mut self, gateway: &GatewayName) -> u64 {
        match self.of.get(gateway) {
            Some(number) => *number,
            None => *self.of.entry(gateway.clone()).or_insert(self.last),
        }
    }

    /// A gateway was changed.
    pub(super) fn next(&mut self, gateway: &GatewayName) -> u64 {
        self.last += 1;
        self.of.insert(gateway.clone(), self.last);
        self.last
    }

    /// A gateway is gone.
    pub(super) fn forget(&mut self, gateway: &GatewayName) {
        self.of.remove(gateway);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_gateways_that_are_gone_and_one_that_comes_back_is_counted_on() {
        let (mut changes, name) =
            (Changes::default(), |nth: u32| format!("gw{nth}").parse().expect("a name"));
        let (first, other): (GatewayName, GatewayName) = (name(0), name(1));
        for _ in 0..3 {
            changes.next(&first);
        }
        let before = changes.now(&first);
        changes.forget(&first);
        assert!(changes.of.is_empty());
        let back = changes.now(&first);
        assert!(back >= before, "an answer of its earlier life would be a later one");
        changes.next(&other);
        assert_eq!(changes.now(&first), back, "what happens elsewhere is no change of this one");
        assert!(changes.next(&first) > back);
        for nth in 0..100 {
            changes.next(&name(nth));
            changes.forget(&name(nth));
        }
        assert!(changes.of.is_empty());
    }
}
