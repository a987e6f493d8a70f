//! What the watch saw of a `Network`: the few facts that decisions rest on.

use super::spec::NetworkSpec;
use crate::condition::Conditions;
use crate::names::ObjectKey;
use crate::room::is_later;

/// The finalizer on networks.
pub const FINALIZER: &str = "causeway/network";

/// A `Network`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Tells it from a later object of the same name.
    pub uid: String,
    /// The version last seen: what a write is guarded by.
    pub resource_version: String,
    /// Grows with the spec.
    pub generation: i64,
    /// Seconds since 1970; of two that overlap the older wins.
    pub created: i64,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// Everybody's finalizers on it.
    pub finalizers: Vec<String>,
    /// Whether what it has in the cloud should be left there when it goes (`causeway/abandon: "true"`).
    pub abandon: bool,
    /// The network of the cloud that it should take over (`causeway/adopt`).
    pub adopt: Option<String>,
    /// Whether a subnet may be replaced by another one (`causeway/allow-replace: "true"`).
    pub may_replace: bool,
    /// Its spec, or why that cannot be understood.
    pub spec: Result<NetworkSpec, String>,
    /// What it says of itself now.
    pub status: NetworkStatus,
}

/// The status of a network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    /// Which kind of cloud it is in.
    pub provider: Option<String>,
    /// The cloud's name for the network.
    pub network_id: Option<String>,
    /// The same for its subnet.
    pub subnet_id: Option<String>,
    /// The range that the subnet was seen to have.
    pub cidr: Option<String>,
    /// The gateway that it was seen to have.
    pub gateway: Option<String>,
    /// When something was last done so that the cloud equals the spec, in seconds since 1970.
    pub synced: Option<i64>,
    /// The generation that all this is about.
    pub observed_generation: Option<i64>,
    /// The conditions, others' too.
    pub conditions: Conditions,
}

impl Network {
    /// Whether our finalizer is on it.
    pub fn is_held(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// Whether it says that it has, or should take over, this network of the cloud.
    pub fn names(&self, id: &str) -> bool {
        [&self.status.network_id, &self.adopt].into_iter().flatten().any(|its| its == id)
    }

    /// Whether this is a later version of the object than another.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        is_later(&self.resource_version, &other.resource_version)
    }

    /// Whether what it should be in the cloud may differ from what another version of it should be.
    pub fn differs_from(&self, other: &Self) -> bool {
        let facts = |it: &Self| {
            (
                it.uid.clone(),
                it.spec.clone(),
                it.deleting,
                it.is_held(),
                it.abandon,
                it.adopt.clone(),
                it.may_replace,
            )
        };
        facts(self) != facts(other)
    }
}
