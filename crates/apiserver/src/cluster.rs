//! The whole state of a server: what is served, what is stored, and the sources of time and
//! identity. All of it changes by plain calls under one lock; nothing here waits or does I/O.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::ids::Ids;
use crate::resource::{Registry, Resource};
use crate::status::ApiError;
use crate::store::{Key, Object, ShelfName, Store};

/// See the module.
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    /// Events in the order they were written: when, which, and at which version.
    pub(crate) expiring: VecDeque<(Timestamp, Key, u64)>,
}

/// One object of one resource, perhaps not existing.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) key: Key,
}

impl Target {
    pub(crate) fn new(resource: &Arc<Resource>, namespace: &str, name: &str) -> Self {
        Target { resource: resource.clone(), key: Key::new(namespace, name) }
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.qualified(), &self.key.name)
    }

    /// Refuses an object that calls itself otherwise than the path that it was sent to.
    pub(crate) fn check_name(&self, object: &Value) -> Result<(), ApiError> {
        let (sent, name) = (crate::meta::name(object), &self.key.name);
        if sent == name {
            return Ok(());
        }
        Err(ApiError::bad_request(if sent.is_empty() {
            format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")
        } else {
            format!("the name of the object ({sent}) does not match the name on the URL ({name})")
        }))
    }

    pub(crate) fn conflict(&self, why: &str) -> ApiError {
        ApiError::conflict(&self.resource.qualified(), &self.key.name, why)
    }
}

/// Where namespaces are kept.
pub(crate) fn namespaces() -> ShelfName {
    Arc::from("namespaces.")
}

/// Where definitions are kept.
pub(crate) fn definitions() -> ShelfName {
    Arc::from("customresourcedefinitions.apiextensions.k8s.io")
}

impl Cluster {
    pub(crate) fn new(history: usize, seed: Option<u64>, epoch: Option<SystemTime>) -> Self {
        let mut registry = Registry::default();
        crate::builtin::register(&mut registry);
        let mut store = Store::new(history.max(1));
        for resource in registry.all() {
            store.open(&resource.shelf);
        }
        let clock = Clock::starting_at(epoch);
        let expiring = VecDeque::new();
        let mut cluster = Cluster { store, registry, clock, ids: Ids::new(seed), expiring };
        for name in crate::builtin::NAMESPACES {
            cluster.found_namespace(name);
        }
        cluster
    }

    /// The same at this moment, to try something out on.
    pub(crate) fn copy(&self) -> Cluster {
        Cluster {
            store: self.store.copy(),
            registry: self.registry.clone(),
            clock: self.clock.clone(),
            ids: self.ids.branch(),
            expiring: self.expiring.clone(),
        }
    }

    /// The same with ids of its own, in another time.
    pub(crate) fn continued(self, seed: u64, epoch: SystemTime) -> Cluster {
        Cluster { clock: Clock::starting_at(Some(epoch)), ids: Ids::new(Some(seed)), ..self }
    }

    fn found_namespace(&mut self, name: &str) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "uid": self.ids.uid(), "creationTimestamp": self.clock.stamp(),
                "labels": { "kubernetes.io/metadata.name": name },
            },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        });
        self.store.put(&namespaces(), Key::new("", name), namespace);
    }

    /// The service through which pods would reach this server, had they a network to it.
    pub(crate) fn found_own_service(&mut self, port: u16) {
        let address = "10.96.0.1";
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default", "uid": self.ids.uid(),
                "creationTimestamp": self.clock.stamp(),
                "labels": { "component": "apiserver", "provider": "kubernetes" },
            },
            "spec": {
                "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "sessionAffinity": "None",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
                "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }],
            },
            "status": { "loadBalancer": {} },
        });
        self.store.put(&Arc::from("services."), Key::new("default", "kubernetes"), service);
    }

    pub(crate) fn get(&self, target: &Target) -> Result<&Arc<Object>, ApiError> {
        self.store.get(&target.resource.shelf, &target.key).ok_or_else(|| target.not_found())
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<&Arc<Object>> {
        self.store.get(&namespaces(), &Key::new("", name))
    }

    pub(crate) fn definitions(&self) -> Vec<Arc<Object>> {
        self.store.list(&definitions(), None)
    }
}

/// The object as the resource shows it.
pub(crate) fn shown(resource: &Resource, stored: &Value) -> Value {
    resource.view(stored).unwrap_or_else(|| stored.clone())
}
