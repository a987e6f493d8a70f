//! The objects, and a bounded history of what happened to them.
//!
//! Every change takes the next of one global sequence of versions and leaves an [`Event`] in the
//! history of its shelf (a shelf holds the objects of one resource, whatever versions it is served
//! in). Watchers own no queue: each keeps a cursor and reads the history from there when its shelf
//! says that something changed. A slow watcher thus costs nothing; one that falls behind the
//! history gets an error ([`Lost`]).
//!
//! Invariant: a shelf's events ascend by version, and all events newer than `compacted` are held.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::signal::{Listener, Signal};

/// Names a shelf: `<plural>.<group>`.
pub(crate) type ShelfName = Arc<str>;

/// Namespace (empty for cluster-wide objects) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// One version of one object; never changed once made.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) value: Value,
    pub(crate) version: u64,
    /// Encodings made so far, so that many readers share one: see [`Object::encoded`].
    encodings: Mutex<Vec<(Encoding, Bytes)>>,
}

/// What an encoding of an object is: in which API version, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoding {
    pub(crate) api_version: String,
    pub(crate) form: EncodingForm,
}

/// The forms worth keeping. Tables are not: they show ages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncodingForm {
    Object,
    Line(Change),
    MetadataLine(Change),
}

impl Object {
    fn new(mut value: Value, version: u64) -> Self {
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        Object { value, version, encodings: Mutex::new(Vec::new()) }
    }

    /// Where it is kept.
    pub(crate) fn key(&self) -> Key {
        Key::new(crate::meta::text(&self.value, "namespace"), crate::meta::name(&self.value))
    }

    /// The object as the answer to a write that was not carried out.
    pub(crate) fn not_stored(&self, version: Option<u64>) -> Object {
        match version {
            Some(version) => self.at_version(version),
            None => {
                let mut value = self.value.clone();
                crate::meta::set(&mut value, "resourceVersion", None);
                Object { value, version: 0, encodings: Mutex::new(Vec::new()) }
            }
        }
    }

    /// The same object as if it had been written at another version.
    pub(crate) fn at_version(&self, version: u64) -> Object {
        Object::new(self.value.clone(), version)
    }

    /// The encoding wanted, made by `make` unless somebody made it before.
    pub(crate) fn encoded(&self, wanted: Encoding, make: impl FnOnce(&Value) -> Bytes) -> Bytes {
        let mut encodings = self.encodings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = encodings.iter().find(|(have, _)| *have == wanted) {
            return bytes.clone();
        }
        let bytes = make(&self.value);
        encodings.push((wanted, bytes.clone()));
        bytes
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}

/// One entry of the history.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) change: Change,
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
}

/// The history no longer reaches back to where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

struct Shelf {
    objects: BTreeMap<Key, Arc<Object>>,
    events: VecDeque<Arc<Event>>,
    /// Version of the newest event that is no longer held.
    forgotten: u64,
    changed: Signal,
    closings: u64,
}

impl Shelf {
    fn new() -> Self {
        Shelf {
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            forgotten: 0,
            changed: Signal::default(),
            closings: 0,
        }
    }
}

/// All shelves and the one sequence of versions.
pub(crate) struct Store {
    version: u64,
    compacted: u64,
    capacity: usize,
    shelves: BTreeMap<ShelfName, Shelf>,
    /// Whose event is the oldest, next oldest, …: the history is bounded over all shelves.
    order: VecDeque<ShelfName>,
}

impl Store {
    pub(crate) fn new(capacity: usize) -> Self {
        Store { version: 1, compacted: 0, capacity, shelves: BTreeMap::new(), order: VecDeque::new() }
    }

    /// The same objects without the history: nobody watches a copy.
    pub(crate) fn copy(&self) -> Store {
        let copied = |shelf: &Shelf| Shelf {
            objects: shelf.objects.clone(),
            closings: shelf.closings,
            forgotten: self.version,
            ..Shelf::new()
        };
        Store {
            version: self.version,
            compacted: self.version,
            capacity: self.capacity,
            shelves: self.shelves.iter().map(|(name, shelf)| (name.clone(), copied(shelf))).collect(),
            order: VecDeque::new(),
        }
    }

    /// The version of the latest change anywhere.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Changes up to this version may have been forgotten.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Makes sure a shelf exists, so that it can be watched while empty.
    pub(crate) fn open(&mut self, shelf: &ShelfName) {
        self.shelves.entry(shelf.clone()).or_insert_with(Shelf::new);
    }

    /// Says that a shelf, by now empty, is out of use. Its watchers may still read how it ended.
    pub(crate) fn close(&mut self, shelf: &ShelfName) {
        if let Some(shelf) = self.shelves.get_mut(shelf) {
            shelf.closings += 1;
            shelf.changed.raise();
        }
    }

    /// How often a shelf was closed: a watcher ends when that changes.
    pub(crate) fn closings(&self, shelf: &ShelfName) -> u64 {
        self.shelves.get(shelf).map_or(0, |shelf| shelf.closings)
    }

    pub(crate) fn get(&self, shelf: &ShelfName, key: &Key) -> Option<&Arc<Object>> {
        self.shelves.get(shelf)?.objects.get(key)
    }

    /// Objects in key order, of one namespace or of all.
    pub(crate) fn list(&self, shelf: &ShelfName, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let Some(shelf) = self.shelves.get(shelf) else { return Vec::new() };
        match namespace {
            None => shelf.objects.values().cloned().collect(),
            Some(namespace) => shelf
                .objects
                .range(Key::new(namespace, "")..)
                .take_while(|(key, _)| key.namespace == namespace)
                .map(|(_, object)| object.clone())
                .collect(),
        }
    }

    /// Objects in key order as they were at an earlier version: the present, with every change since
    /// then taken back.
    pub(crate) fn list_at(
        &self,
        shelf: &ShelfName,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<Vec<Arc<Object>>, Lost> {
        let present = self.list(shelf, namespace);
        let Some(shelf) = self.shelves.get(shelf) else { return Ok(present) };
        if version < shelf.forgotten {
            return Err(Lost);
        }
        let mut objects: BTreeMap<Key, Arc<Object>> =
            present.into_iter().map(|object| (object.key(), object)).collect();
        for event in shelf.events.iter().rev().take_while(|event| event.version > version) {
            let key = event.object.key();
            if namespace.is_some_and(|namespace| key.namespace != namespace) {
                continue;
            }
            match &event.previous {
                Some(previous) => drop(objects.insert(key, previous.clone())),
                None => drop(objects.remove(&key)),
            }
        }
        Ok(objects.into_values().collect())
    }

    /// Everything in a namespace, over all shelves.
    pub(crate) fn inside(&self, namespace: &str) -> Vec<(ShelfName, Key)> {
        let mut found = Vec::new();
        for (name, shelf) in &self.shelves {
            let here = shelf.objects.range(Key::new(namespace, "")..);
            let here = here.take_while(|(key, _)| key.namespace == namespace);
            found.extend(here.map(|(key, _)| (name.clone(), key.clone())));
        }
        found
    }

    /// Whether anything at all is in a namespace.
    pub(crate) fn has_any_inside(&self, namespace: &str) -> bool {
        self.shelves.values().any(|shelf| {
            shelf
                .objects
                .range(Key::new(namespace, "")..)
                .next()
                .is_some_and(|(key, _)| key.namespace == namespace)
        })
    }

    /// The keys of a shelf.
    pub(crate) fn keys(&self, shelf: &ShelfName) -> Vec<Key> {
        self.shelves.get(shelf).map(|shelf| shelf.objects.keys().cloned().collect()).unwrap_or_default()
    }

    /// Changes stored objects in place, silently: for what a reader would see differently anyhow.
    pub(crate) fn rewrite(&mut self, shelf: &ShelfName, change: impl Fn(&Value) -> Option<Value>) {
        for object in self.shelves.get_mut(shelf).into_iter().flat_map(|shelf| shelf.objects.values_mut()) {
            if let Some(value) = change(&object.value) {
                *object = Arc::new(Object::new(value, object.version));
            }
        }
    }

    /// Creates or replaces.
    pub(crate) fn put(&mut self, shelf: &ShelfName, key: Key, value: Value) -> Arc<Object> {
        self.version += 1;
        let object = Arc::new(Object::new(value, self.version));
        self.open(shelf);
        let previous =
            self.shelves.get_mut(shelf).and_then(|place| place.objects.insert(key, object.clone()));
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        self.record(shelf, Event { version: self.version, change, object: object.clone(), previous });
        object
    }

    /// Removes; the object returned is what watchers see: as it last was, at the version it went.
    pub(crate) fn remove(&mut self, shelf: &ShelfName, key: &Key) -> Option<Arc<Object>> {
        let previous = self.shelves.get_mut(shelf)?.objects.remove(key)?;
        self.version += 1;
        let object = Arc::new(Object::new(previous.value.clone(), self.version));
        let event = Event {
            version: self.version,
            change: Change::Deleted,
            object: object.clone(),
            previous: Some(previous),
        };
        self.record(shelf, event);
        Some(object)
    }

    /// Removes an object that changed with its removal: watchers see only the end of it.
    pub(crate) fn remove_as(&mut self, shelf: &ShelfName, key: &Key, value: Value) -> Arc<Object> {
        let previous = self.shelves.get_mut(shelf).and_then(|shelf| shelf.objects.remove(key));
        self.version += 1;
        let object = Arc::new(Object::new(value, self.version));
        let event =
            Event { version: self.version, change: Change::Deleted, object: object.clone(), previous };
        self.record(shelf, event);
        object
    }

    fn record(&mut self, name: &ShelfName, event: Event) {
        if let Some(shelf) = self.shelves.get_mut(name) {
            shelf.events.push_back(Arc::new(event));
            shelf.changed.raise();
        }
        self.order.push_back(name.clone());
        while self.order.len() > self.capacity {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(name) = self.order.pop_front() else { return };
        if let Some(shelf) = self.shelves.get_mut(&name)
            && let Some(event) = shelf.events.pop_front()
        {
            shelf.forgotten = event.version;
            self.compacted = self.compacted.max(event.version);
        }
    }

    /// Up to `limit` events after `cursor`, and the cursor to ask with next time.
    pub(crate) fn since(
        &self,
        shelf: &ShelfName,
        cursor: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Lost> {
        let Some(shelf) = self.shelves.get(shelf) else { return Ok((Vec::new(), self.version)) };
        if cursor < shelf.forgotten {
            return Err(Lost);
        }
        let from = shelf.events.partition_point(|event| event.version <= cursor);
        let events: Vec<_> = shelf.events.range(from..).take(limit).cloned().collect();
        let reached = match events.last() {
            Some(last) if events.len() == limit => last.version,
            _ => self.version.max(cursor),
        };
        Ok((events, reached))
    }

    /// Says when the shelf changes.
    pub(crate) fn subscribe(&self, shelf: &ShelfName) -> Option<Listener> {
        self.shelves.get(shelf).map(|shelf| shelf.changed.listen())
    }

    /// How many objects a shelf holds.
    pub(crate) fn count(&self, shelf: &ShelfName) -> usize {
        self.shelves.get(shelf).map_or(0, |shelf| shelf.objects.len())
    }
}

#[cfg(test)]
mod tests;
