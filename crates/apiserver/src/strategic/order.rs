//! In which order a merged list comes.

use serde_json::Value;

/// Whether two elements are the same: by their key, or altogether.
pub(super) fn same(one: &Value, other: &Value, by: Option<&str>) -> bool {
    match by {
        None => one == other,
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
    }
}

/// The elements that `patch` lists in its order, the others in the order they have on the server, each of
/// those before the first that it stood before there.
pub(super) fn ordered(merged: Vec<Value>, patch: &[Value], server: &[Value], by: Option<&str>) -> Vec<Value> {
    let index = |order: &[Value], item: &Value| order.iter().position(|have| same(have, item, by));
    let (mut ours, mut theirs): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| index(patch, item).is_some());
    ours.sort_by_key(|item| index(patch, item));
    theirs.sort_by_key(|item| index(server, item));
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let next = match (theirs.peek(), ours.peek()) {
            (None, None) => return all,
            (Some(_), None) => theirs.next(),
            (None, Some(_)) => ours.next(),
            (Some(left), Some(right)) => match (index(server, left), index(server, right)) {
                (Some(left), Some(right)) if left < right => theirs.next(),
                _ => ours.next(),
            },
        };
        all.extend(next);
    }
}
