//! Several values under one key, both in order.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// An index: the values of each key. A key without values is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Groups<K, V>(BTreeMap<K, BTreeSet<V>>);

impl<K, V> Default for Groups<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone, V: Ord> Groups<K, V> {
    pub(super) fn insert(&mut self, key: &K, value: V) {
        match self.0.get_mut(key) {
            Some(values) => drop(values.insert(value)),
            None => drop(self.0.insert(key.clone(), BTreeSet::from([value]))),
        }
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q, value: &V)
    where
        K: Borrow<Q>,
    {
        if let Some(values) = self.0.get_mut(key) {
            values.remove(value);
            if values.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// The values of a key.
    pub(super) fn of<Q: Ord + ?Sized>(&self, key: &Q) -> impl Iterator<Item = &V> + use<'_, K, V, Q>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }

    /// The keys that have values.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}
