//! Objects that may not have the form of their kind.

use std::borrow::Cow;

use causeway_api::meta;
use causeway_core::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object of the kind `K`, or what is known of one that cannot be decoded: one such object ends no list.
///
/// kube's `DeserializeGuard` does the same for any format, and copies every object whole before it decodes it.
#[derive(Debug, Clone)]
pub struct Found<K>(pub Result<K, Malformed>);

/// An object that cannot be decoded.
#[derive(Debug, Clone)]
pub struct Malformed {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What is wrong with the rest.
    pub error: String,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Found<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<K: DeserializeOwned> Found<K> {
    /// An object from its fields; why they are no object's.
    pub fn read(value: &Value) -> Result<Self, String> {
        K::deserialize(value)
            .map(Ok)
            .or_else(|error| {
                let metadata =
                    ObjectMeta::deserialize(&value["metadata"]).map_err(|error| error.to_string())?;
                Ok(Err(Malformed { metadata, error: error.to_string() }))
            })
            .map(Self)
    }
}

impl<K: Resource> Resource for Found<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &K::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &K::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &K::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &K::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(malformed) => &malformed.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(malformed) => &mut malformed.metadata,
        }
    }
}

/// An object by its name, with what a parser makes of it.
pub fn by_name<K: Resource, V>(value: impl Fn(&K) -> Option<V>) -> impl Fn(&Found<K>) -> (String, Option<V>) {
    move |object| (object.name_any(), object.0.as_ref().ok().and_then(&value))
}

/// An object by its namespace and name, with what a parser makes of it.
pub fn by_key<K: Resource, V>(
    value: impl Fn(&K) -> Option<V>,
) -> impl Fn(&Found<K>) -> (ObjectKey, Option<V>) {
    move |object| keyed(object, object.0.as_ref().ok().and_then(&value))
}

/// An object's key with a value; one that has no key counts as absent.
pub fn keyed<K: Resource, V>(object: &Found<K>, value: Option<V>) -> (ObjectKey, Option<V>) {
    match meta::key(object.meta()) {
        Some(key) => (key, value),
        // No namespace has a dot: this is nobody's.
        None => (ObjectKey::new("no.namespace", "none").expect("two names"), None),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectList;

    use super::*;

    #[test]
    fn one_that_cannot_be_decoded_ends_no_list() {
        let list = r#"{"metadata": {}, "items": [
            {"metadata": {"name": "fine"}, "data": {"text": "yes"}},
            {"metadata": {"name": "odd", "resourceVersion": "7"}, "data": [1]}
        ]}"#;
        let list: ObjectList<Found<ConfigMap>> = serde_json::from_str(list).expect("a list");
        let [fine, odd] = list.items.as_slice() else { panic!("{list:?}") };
        assert_eq!(fine.0.as_ref().expect("decoded").data.as_ref().expect("data")["text"], "yes");
        assert_eq!((odd.name_any().as_str(), odd.resource_version().as_deref()), ("odd", Some("7")));
        let Err(malformed) = &odd.0 else { panic!("{odd:?}") };
        assert!(malformed.error.contains("invalid type"), "{}", malformed.error);
    }

    #[test]
    fn one_without_metadata_is_no_object() {
        let error = serde_json::from_str::<Found<ConfigMap>>(r#"{"metadata": 7}"#).expect_err("no object");
        assert!(error.to_string().contains("invalid type"), "{error}");
    }
}
