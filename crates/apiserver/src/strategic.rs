//! Strategic merge patch: a merge patch that knows of some lists of the built-in kinds by which key
//! their elements are the same, and obeys a few directives.
//!
//! `$patch: delete|replace` removes or replaces an element or an object, `$retainKeys` drops what it
//! does not list, `$deleteFromPrimitiveList/x` takes texts out of the list `x`, `$setElementOrder/x`
//! says in which order the elements of `x` come. What is in a list on the server alone keeps its place
//! among its neighbours there.

mod keys;
mod order;

use serde_json::{Map, Value};

use crate::status::ApiError;
use keys::{Lists, Type};
use order::ordered;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// The object after the patch; `message` describes its kind.
pub(crate) fn apply(message: &'static str, object: &Value, patch: &Object) -> Result<Value, ApiError> {
    let mut patched = object.as_object().cloned().unwrap_or_default();
    merge_objects(&mut patched, patch.clone(), Type::Message(message))?;
    Ok(Value::Object(patched))
}

/// A patch that is wrongly formed.
fn malformed(why: &str) -> ApiError {
    ApiError::bad_request(why)
}

/// A patch that cannot be applied. A real server takes this for a failure of its own.
fn failed(why: String) -> ApiError {
    ApiError::new(500, "", why)
}

fn merge_objects(original: &mut Object, mut patch: Object, of: Type) -> Result<(), ApiError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => *original = cleaned_object(patch),
            Some("delete") => original.clear(),
            _ => return Err(unknown_directive(&directive, &patch)),
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    set_orders(original, &mut patch, of)?;
    for (key, value) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_FROM) {
            None => (key, false),
            Some(rest) => {
                let list = rest.strip_prefix('/');
                (list.ok_or_else(|| malformed("invalid patch format of primitive list"))?.to_owned(), true)
            }
        };
        match (original.get_mut(&key), value) {
            (_, Value::Null) => drop(original.remove(&key)),
            (Some(Value::Object(old)), Value::Object(new)) => merge_objects(old, new, of.field(&key))?,
            (Some(Value::Array(old)), Value::Array(new)) => {
                let old = std::mem::take(old);
                let merged = merge_lists(old, new, of.field(&key), of.lists(&key), deletes)?;
                original.insert(key, Value::Array(merged));
            }
            (_, _) if deletes => {}
            (_, new) => match cleaned(new) {
                Some(new) => drop(original.insert(key, new)),
                None => drop(original.remove(&key)),
            },
        }
    }
    Ok(())
}

fn unknown_directive(directive: &Value, patch: &Object) -> ApiError {
    let shown = Value::Object(patch.clone());
    failed(format!("unknown patch type: {directive} in map: {shown}"))
}

/// A new value without nulls and directives; `None` when it is nothing but a directive.
fn cleaned(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(cleaned_object(map))),
        Value::Array(items) => Some(items.into_iter().filter_map(cleaned).collect()),
        other => Some(other),
    }
}

fn cleaned_object(map: Object) -> Object {
    let says = |key: &str| {
        key == RETAIN_KEYS || [DELETE_FROM, SET_ORDER].iter().any(|directive| key.starts_with(directive))
    };
    let kept = map.into_iter().filter(|(key, value)| !value.is_null() && !says(key));
    kept.filter_map(|(key, value)| Some((key, cleaned(value)?))).collect()
}

/// Drops what the directive does not list.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), ApiError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let wrong = || malformed("invalid patch format of retainKeys");
    let keys = directive.as_array().ok_or_else(wrong)?;
    let retained = |key: &str| keys.iter().any(|retained| retained.as_str() == Some(key));
    let is_directive = |key: &str| key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !retained(key)) {
        return Err(wrong());
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// Merges the lists for which the patch says an order, and takes them out of the patch.
fn set_orders(original: &mut Object, patch: &mut Object, of: Type) -> Result<(), ApiError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let wrong = || malformed("invalid patch format of setElementOrder list");
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            _ => return Err(wrong()),
        };
        let key =
            directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/')).ok_or_else(wrong)?;
        let list = |from: &mut Object| match from.remove(key) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(failed(format!("expected a list at {key}, but received something else"))),
        };
        let (old, new) = (list(original)?, list(patch)?);
        let lists = of.lists(key);
        let by = lists.key();
        check_order(new.as_deref().unwrap_or_default(), &order, by)?;
        let server_order = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(cleaned).collect(),
            (Some(old), Some(new)) => merge_lists(old, new, of.field(key), lists, false)?,
        };
        check_keys(&merged, by)?;
        check_keys(&order, by)?;
        original.insert(key.to_owned(), Value::Array(ordered(merged, &order, &server_order, by)));
    }
    Ok(())
}

/// The elements of the patch must be among those ordered, and in that order.
fn check_order(new: &[Value], order: &[Value], by: Option<&str>) -> Result<(), ApiError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in new.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        check_keys(std::slice::from_ref(item), by)?;
        if !rest.any(|ordered| order::same(ordered, item, by)) {
            let (new, order) = (Value::from(new.to_vec()), Value::from(order.to_vec()));
            return Err(failed(format!(
                "The order in patch list:\n{new}\n doesn't match {SET_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// Every element of a list that is merged by a key must have it.
fn check_keys(list: &[Value], by: Option<&str>) -> Result<(), ApiError> {
    let Some(key) = by else { return Ok(()) };
    match list.iter().find(|item| item.get(key).is_none()) {
        None => Ok(()),
        Some(item) => Err(failed(format!("map: {item} does not contain declared merge key: {key}"))),
    }
}

fn merge_lists(
    old: Vec<Value>,
    new: Vec<Value>,
    of: Type,
    lists: Lists,
    deletes: bool,
) -> Result<Vec<Value>, ApiError> {
    if deletes {
        return Ok(old.into_iter().filter(|item| !new.contains(item)).collect());
    }
    match lists {
        Lists::Replaced => Ok(new.into_iter().filter_map(cleaned).collect()),
        Lists::Merged => {
            check_kinds(&old, &new)?;
            let mut merged = old.clone();
            for item in &new {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            Ok(ordered(merged, &new, &old, None))
        }
        Lists::MergedBy(key) => merge_by_key(old, new, of, key),
    }
}

fn check_kinds(old: &[Value], new: &[Value]) -> Result<(), ApiError> {
    let kind = |value: &Value| std::mem::discriminant(value);
    let mut all = old.iter().chain(new);
    let Some(first) = all.next() else { return Ok(()) };
    if first.is_array() {
        return Err(ApiError::new(422, "", "lists of lists are not supported"));
    }
    if all.any(|other| kind(other) != kind(first)) {
        return Err(failed("list element types are not identical".to_owned()));
    }
    Ok(())
}

fn merge_by_key(
    mut old: Vec<Value>,
    new: Vec<Value>,
    of: Type,
    key: &'static str,
) -> Result<Vec<Value>, ApiError> {
    check_kinds(&old, &new)?;
    let (mut rest, mut replaced) = (Vec::new(), false);
    for item in new {
        match item.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
            None => rest.push(item),
            Some("delete") => {
                check_keys(std::slice::from_ref(&item), Some(key))?;
                old.retain(|have| !order::same(have, &item, Some(key)));
            }
            Some("replace") => replaced = true,
            Some("merge") => return Err(failed("merging lists cannot yet be specified in the patch".into())),
            Some(_) => {
                let map = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(&map[DIRECTIVE], &map));
            }
        }
    }
    if replaced {
        return Ok(rest.into_iter().filter_map(cleaned).collect());
    }
    check_keys(&rest, Some(key))?;
    check_keys(&old, Some(key))?;
    let mut merged = old.clone();
    for item in &rest {
        let found = merged.iter_mut().find(|have| order::same(have, item, Some(key)));
        match (found, item) {
            (Some(Value::Object(have)), Value::Object(change)) => merge_objects(have, change.clone(), of)?,
            (_, item) => merged.extend(cleaned(item.clone())),
        }
    }
    Ok(ordered(merged, &rest, &old, Some(key)))
}

#[cfg(test)]
mod tests;
