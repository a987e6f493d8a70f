//! The life of a definition: its names are judged, it is served, and when it is deleted its objects
//! go first.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::{delete_all, mark};
use crate::cluster::{Cluster, definitions};
use crate::crd;
use crate::meta;
use crate::resource::Resource;
use crate::store::{Key, Object, ShelfName};

/// The status of a definition nobody has judged yet.
pub(super) fn unsettled(spec: &Value) -> Value {
    let stored: Vec<Value> = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    json!({ "acceptedNames": { "kind": "", "plural": "" }, "conditions": [], "storedVersions": stored })
}

/// Judges a definition's names and serves what it defines, or stops serving it.
pub(super) fn settle(cluster: &mut Cluster, key: &Key) {
    let Some(object) = cluster.store.get(&definitions(), key).cloned() else { return };
    let group = &object.value["spec"]["group"];
    let all = cluster.definitions();
    let others: Vec<&Value> = all
        .iter()
        .map(|other| &other.value)
        .filter(|other| other["spec"]["group"] == *group && meta::name(other) != key.name)
        .collect();
    let status = crd::judge(&object.value, &others, &cluster.clock.stamp());
    let mut current = object.value.clone();
    if status != current["status"] {
        current["status"] = status;
        current = cluster.store.put(&definitions(), key.clone(), current).value.clone();
    }
    serve(cluster, &current);
    if meta::is_deleting(&current) {
        finish_if_empty(cluster, &shelf_of(&current));
    }
}

fn serve(cluster: &mut Cluster, definition: &Value) {
    let (group, plural) = identity(definition);
    cluster.registry.remove(&group, &plural);
    let conditions = definition["status"]["conditions"].as_array();
    if conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True") {
        for resource in crd::resources(definition) {
            cluster.store.open(&resource.shelf);
            if resource.api_version() == resource.stored_as {
                conform(cluster, &resource);
            }
            cluster.registry.insert(resource);
        }
    }
}

/// Objects stored before a schema changed read as if written under it: pruned and defaulted.
fn conform(cluster: &mut Cluster, resource: &Resource) {
    let Some(custom) = resource.custom() else { return };
    cluster.store.rewrite(&resource.shelf, |object| {
        let mut value = object.clone();
        crate::schema::prune(&custom.schema, &mut value);
        crate::schema::apply_defaults(&custom.schema, &mut value);
        (value != *object).then_some(value)
    });
}

fn identity(definition: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]))
}

fn shelf_of(definition: &Value) -> ShelfName {
    let (group, plural) = identity(definition);
    Arc::from(format!("{plural}.{group}"))
}

/// Begins the end of a definition; answers with the definition as it was then.
pub(super) fn delete(cluster: &mut Cluster, key: &Key, object: Arc<Object>) -> Arc<Object> {
    if meta::is_deleting(&object.value) {
        return object;
    }
    let mut value = object.value.clone();
    mark(cluster, &mut value, 0);
    let mut finalizers: Vec<Value> = meta::finalizers(&value).into_iter().map(|f| json!(f)).collect();
    finalizers.push(json!(crd::CLEANUP));
    meta::set(&mut value, "finalizers", Some(Value::Array(finalizers)));
    let mut conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let message = "CustomResource deletion is in progress";
    crd::upsert(
        &mut conditions,
        "Terminating",
        "True",
        "InstanceDeletionInProgress",
        message,
        &cluster.clock.stamp(),
    );
    value["status"]["conditions"] = Value::Array(conditions);
    let answer = cluster.store.put(&definitions(), key.clone(), value);
    serve(cluster, &answer.value);
    let shelf = shelf_of(&answer.value);
    let doomed = cluster.store.keys(&shelf).into_iter().map(|key| (shelf.clone(), key)).collect();
    delete_all(cluster, doomed);
    finish_if_empty(cluster, &shelf);
    answer
}

/// Completes the deletion of the definition behind a shelf once the shelf is empty.
pub(super) fn finish_if_empty(cluster: &mut Cluster, shelf: &ShelfName) {
    let key = Key::new("", shelf);
    let Some(definition) = cluster.store.get(&definitions(), &key).cloned() else { return };
    if !meta::is_deleting(&definition.value) || cluster.store.count(shelf) > 0 {
        return;
    }
    let others: Vec<Value> = meta::finalizers(&definition.value)
        .into_iter()
        .filter(|f| *f != crd::CLEANUP)
        .map(|f| json!(f))
        .collect();
    if !others.is_empty() {
        if others.len() < meta::finalizers(&definition.value).len() {
            let mut value = definition.value.clone();
            meta::set(&mut value, "finalizers", Some(Value::Array(others)));
            cluster.store.put(&definitions(), key, value);
        }
        return;
    }
    cluster.store.remove(&definitions(), &key);
    let (group, plural) = identity(&definition.value);
    cluster.registry.remove(&group, &plural);
    cluster.store.close(shelf);
    // A name may have become free for somebody else.
    let waiting: Vec<Key> = cluster
        .definitions()
        .iter()
        .filter(|other| other.value["spec"]["group"] == json!(group))
        .map(|other| Key::new("", meta::name(&other.value)))
        .collect();
    waiting.iter().for_each(|key| settle(cluster, key));
}
