//! Which networks of a namespace want the same addresses.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Cidr, ObjectKey};

/// The ranges of all networks, by namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges(BTreeMap<String, BTreeMap<Cidr, BTreeSet<ObjectKey>>>);

impl Ranges {
    pub(super) fn put(&mut self, key: &ObjectKey, range: Cidr) {
        let namespace = self.0.entry(key.namespace().to_owned()).or_default();
        namespace.entry(range).or_default().insert(key.clone());
    }

    pub(super) fn take(&mut self, key: &ObjectKey, range: Cidr) {
        let Some(namespace) = self.0.get_mut(key.namespace()) else { return };
        if let Some(keys) = namespace.get_mut(&range) {
            keys.remove(key);
            if keys.is_empty() {
                namespace.remove(&range);
            }
        }
        if namespace.is_empty() {
            self.0.remove(key.namespace());
        }
    }

    /// All others of its namespace that share an address with a range. Two ranges that do lie one in the other: those
    /// around it are few, and those in it follow it in order.
    pub(super) fn others(&self, key: &ObjectKey, range: Cidr) -> BTreeSet<&ObjectKey> {
        let Some(namespace) = self.0.get(key.namespace()) else { return BTreeSet::new() };
        let around = range.covering().filter_map(|around| namespace.get(&around));
        let within = namespace.range(range..).take_while(|(within, _)| range.covers(**within));
        let all = around.chain(within.map(|(_, keys)| keys)).flatten();
        all.filter(|other| *other != key).collect()
    }
}
