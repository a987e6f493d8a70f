//! What every room is made of: changes of object sets, and a state that says what each event touches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A change in a set of objects: one of them, or all at once after a list.
#[derive(Debug, Clone)]
pub enum Change<K, V> {
    /// Added or changed.
    Put(K, V),
    /// Gone.
    Gone(K),
    /// These, and no others.
    Reset(BTreeMap<K, V>),
}

impl<K: Ord + Clone, V: PartialEq + Clone> Change<K, V> {
    /// Carries the change out on a map and returns what really differs: key, before, after.
    pub fn carry_out(self, map: &mut BTreeMap<K, V>) -> Vec<(K, Option<V>, Option<V>)> {
        let mut differences = Vec::new();
        match self {
            Self::Put(key, new) => {
                let old = map.insert(key.clone(), new.clone());
                differences.push((key, old, Some(new)));
            }
            Self::Gone(key) => {
                let old = map.remove(&key);
                differences.push((key, old, None));
            }
            Self::Reset(new) => {
                let old = std::mem::replace(map, new.clone());
                let keys: BTreeSet<K> = old.keys().chain(new.keys()).cloned().collect();
                let pair = |key: K| (key.clone(), old.get(&key).cloned(), new.get(&key).cloned());
                differences.extend(keys.into_iter().map(pair));
            }
        }
        differences.retain(|(_, old, new)| old != new);
        differences
    }
}

/// Whether one version of an object is later than another. Versions are decimal numbers that grow; of any other kind it
/// cannot be told.
pub fn is_later(version: &str, than: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(version).zip(number(than)).is_some_and(|(own, other)| own > other)
}

/// All that is known to a room. The loop feeds it events and queues the scopes it returns.
///
/// Invariant that every room proves by a property test: when what is compiled for a scope differs before
/// and after an event, that scope is among those returned.
pub trait State: Send + Sync + 'static {
    /// What was seen.
    type Event: Send;
    /// What a worker is sent to reconcile.
    type Scope: Ord + Clone + Debug + Send + Sync + 'static;

    /// Takes an event in and returns what it touches.
    fn apply(&mut self, event: Self::Event) -> BTreeSet<Self::Scope>;

    /// Every scope there is: queued when a term of leadership begins.
    fn everything(&self) -> BTreeSet<Self::Scope>;
}
