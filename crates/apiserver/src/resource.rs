//! What is served: one [`Resource`] per group, version and plural, built-in or from a CRD, and the
//! [`Registry`] that holds them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::crd::CustomVersion;
use crate::status::Qualified;
use crate::store::ShelfName;

/// One resource in one served version.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Where its objects are. Several resources may be views of one shelf.
    pub(crate) shelf: ShelfName,
    /// The API version objects have on the shelf.
    pub(crate) stored_as: String,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) traits: Traits,
    pub(crate) nature: Nature,
}

/// How the API treats objects of a kind, where kinds differ.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traits {
    /// `metadata.generation` counts changes of what is wanted.
    pub(crate) generation: bool,
    /// A replace need not say which version it replaces.
    pub(crate) unconditional_update: bool,
    /// A replace of what does not exist creates it.
    pub(crate) create_on_update: bool,
    /// A delete answers with the object rather than with a `Status`.
    pub(crate) returns_deleted: bool,
}

/// Where `scale` reads and writes, as JSON pointers.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    /// A selector as text; for workloads `None`, their selector being an object.
    pub(crate) selector: Option<String>,
}

/// What a kind is, where the server itself has to know.
#[derive(Debug, Clone)]
pub(crate) enum Nature {
    /// Nothing but metadata matters.
    Plain,
    Namespace,
    Node,
    Pod,
    Service,
    Secret,
    Event,
    /// Deployments and stateful sets.
    Workload,
    Definition,
    Custom(Arc<CustomVersion>),
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Group and plural, for error sentences.
    pub(crate) fn qualified(&self) -> Qualified {
        Qualified::new(&self.group, &self.plural)
    }

    /// Group and kind, for error sentences.
    pub(crate) fn qualified_kind(&self) -> Qualified {
        Qualified::new(&self.group, &self.kind)
    }

    pub(crate) fn custom(&self) -> Option<&Arc<CustomVersion>> {
        match &self.nature {
            Nature::Custom(version) => Some(version),
            _ => None,
        }
    }

    /// Where a field that may be selected by is in the stored object, as a JSON pointer.
    pub(crate) fn selectable_field(&self, field: &str) -> Option<String> {
        let pointer = || format!("/{}", field.replace('.', "/"));
        if field == "metadata.name" || (field == "metadata.namespace" && self.namespaced) {
            return Some(pointer());
        }
        let allowed: &[&str] = match &self.nature {
            Nature::Pod => &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ],
            Nature::Node => &["spec.unschedulable"],
            Nature::Namespace => &["status.phase"],
            Nature::Service => &["spec.clusterIP", "spec.type"],
            Nature::Secret => &["type"],
            Nature::Event => return crate::events::selectable_field(field, &self.group),
            Nature::Custom(version) => {
                return version.selectable.iter().any(|have| have == field).then(pointer);
            }
            Nature::Plain | Nature::Workload | Nature::Definition => &[],
        };
        allowed.contains(&field).then(pointer)
    }

    /// The sentence that refuses a field selector. Kinds with fields of their own word it differently.
    pub(crate) fn unknown_field(&self, field: &str) -> String {
        match &self.nature {
            Nature::Plain | Nature::Workload | Nature::Definition => {
                format!(
                    "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            }
            Nature::Namespace
            | Nature::Node
            | Nature::Pod
            | Nature::Service
            | Nature::Secret
            | Nature::Event
            | Nature::Custom(_) => format!("field label not supported: {field}"),
        }
    }

    /// A stored object as this resource shows it; `None` when it is stored just so.
    pub(crate) fn view(&self, stored: &Value) -> Option<Value> {
        if stored["apiVersion"] == Value::String(self.api_version()) {
            return None;
        }
        let mut value = stored.clone();
        if matches!(self.nature, Nature::Event) && !self.group.is_empty() {
            crate::events::from_core(&mut value);
        }
        value["apiVersion"] = Value::String(self.api_version());
        Some(value)
    }

    /// The reverse of [`Resource::view`].
    pub(crate) fn unview(&self, value: &mut Value) {
        if matches!(self.nature, Nature::Event) && !self.group.is_empty() {
            crate::events::to_core(value);
        }
        value["apiVersion"] = Value::String(self.stored_as.clone());
    }

    /// The verbs discovery names.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.is_deleted_in_bulk() {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        } else {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
    }

    /// Nobody can have meant to delete all namespaces.
    pub(crate) fn is_deleted_in_bulk(&self) -> bool {
        !matches!(self.nature, Nature::Namespace)
    }
}

/// All that is served at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Registry {
    pub(crate) fn insert(&mut self, resource: Resource) {
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.insert(key, Arc::new(resource));
    }

    /// Forgets every version of a custom resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.resources.retain(|(g, _, p), _| g != group || p != plural);
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Some resource that keeps its objects on this shelf, in the version they are stored in.
    pub(crate) fn of_shelf(&self, shelf: &ShelfName) -> Option<&Arc<Resource>> {
        let here = || self.resources.values().filter(|r| r.shelf == *shelf);
        here().find(|r| r.api_version() == r.stored_as).or_else(|| here().next())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Groups with their versions, the preferred one first.
    pub(crate) fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (group, version, _) in self.resources.keys() {
            let versions = groups.entry(group.clone()).or_default();
            if !versions.contains(version) {
                versions.push(version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| Reverse(version_rank(version)));
        }
        groups
    }

    /// The resources of one group and version, by plural.
    pub(crate) fn of(&self, group: &str, version: &str) -> Vec<Arc<Resource>> {
        self.resources.values().filter(|r| r.group == group && r.version == version).cloned().collect()
    }
}

/// Stable before beta before alpha, newer before older, anything else last and by name reversed.
pub(crate) fn version_rank(version: &str) -> (u8, u64, u64, Reverse<String>) {
    let odd = || (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return odd() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, suffix) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return odd() };
    let numbered = |stage: u8, minor: &str| match minor.parse() {
        Ok(minor) => (stage, major, minor, Reverse(String::new())),
        Err(_) => odd(),
    };
    if suffix.is_empty() {
        (3, major, 0, Reverse(String::new()))
    } else if let Some(minor) = suffix.strip_prefix("beta") {
        numbered(2, minor)
    } else if let Some(minor) = suffix.strip_prefix("alpha") {
        numbered(1, minor)
    } else {
        odd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_are_preferred_to_beta_and_alpha() {
        let mut versions = ["foo1", "v1alpha1", "v2", "v1beta2", "v1", "v10", "v1beta1"];
        versions.sort_by_key(|v| Reverse(version_rank(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo1"]);
    }
}
