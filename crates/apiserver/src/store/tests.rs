use super::*;

fn shelf(name: &str) -> ShelfName {
    Arc::from(name)
}

fn value() -> Value {
    json!({ "metadata": {} })
}

#[test]
fn a_reader_sees_each_change_once_and_in_order() {
    let mut store = Store::new(10);
    let pods = shelf("pods");
    store.put(&pods, Key::new("a", "x"), value());
    let (first, cursor) = store.since(&pods, 0, 10).unwrap();
    store.put(&pods, Key::new("a", "x"), value());
    store.remove(&pods, &Key::new("a", "x"));
    let (rest, end) = store.since(&pods, cursor, 10).unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(rest.iter().map(|e| e.change).collect::<Vec<_>>(), [Change::Modified, Change::Deleted]);
    assert_eq!(end, store.version());
}

#[test]
fn a_reader_behind_the_history_gets_an_error_and_an_idle_one_does_not() {
    let mut store = Store::new(3);
    let (busy, idle) = (shelf("busy"), shelf("idle"));
    store.open(&idle);
    let start = store.version();
    for n in 0..5 {
        store.put(&busy, Key::new("", &n.to_string()), value());
    }
    assert_eq!(store.since(&busy, start, 10).unwrap_err(), Lost);
    assert!(store.since(&idle, start, 10).is_ok());
    assert!(store.compacted() > start);
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "a" } })
}

#[test]
fn the_past_is_listed_as_it_was_as_far_back_as_the_history_reaches() {
    let mut store = Store::new(4);
    let pods = shelf("pods");
    let mut pasts = Vec::new();
    let steps: [(&str, bool); 6] =
        [("x", true), ("y", true), ("x", true), ("x", false), ("z", true), ("x", true)];
    for (name, put) in steps {
        let key = Key::new("a", name);
        if put {
            store.put(&pods, key, named(name));
        } else {
            store.remove(&pods, &key);
        }
        let seen = |store: &Store| -> Vec<(String, u64)> {
            let objects = store.list(&pods, Some("a"));
            objects.iter().map(|object| (object.key().name, object.version)).collect()
        };
        pasts.push((store.version(), seen(&store)));
    }
    for (index, (version, past)) in pasts.iter().enumerate() {
        let listed = store.list_at(&pods, Some("a"), *version);
        if index == 0 {
            assert_eq!(listed.unwrap_err(), Lost);
            continue;
        }
        let listed: Vec<_> =
            listed.unwrap().iter().map(|object| (object.key().name, object.version)).collect();
        assert_eq!(listed, *past);
    }
}

#[test]
fn a_namespace_is_listed_without_its_neighbours() {
    let mut store = Store::new(10);
    let pods = shelf("pods");
    for (namespace, name) in [("a", "1"), ("a-b", "2"), ("b", "3")] {
        store.put(&pods, Key::new(namespace, name), value());
    }
    assert_eq!(store.list(&pods, Some("a")).len(), 1);
    assert_eq!(store.list(&pods, None).len(), 3);
    assert_eq!(store.inside("a-b").len(), 1);
}
