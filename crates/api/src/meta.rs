//! What is read of every object's metadata.

use causeway_core::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Namespace and name; nothing where an API server is at work that lets objects be called anything.
pub fn key(meta: &ObjectMeta) -> Option<ObjectKey> {
    ObjectKey::new(meta.namespace.as_deref()?, meta.name.as_deref()?).ok()
}

/// When it was created, in seconds since 1970.
pub fn created(meta: &ObjectMeta) -> i64 {
    meta.creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or_default()
}

/// An annotation; an empty one is none.
pub fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str).filter(|text| !text.is_empty())
}
