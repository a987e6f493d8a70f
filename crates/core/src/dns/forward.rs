//! What the watch saw of a `VpcDnsForward`: the few facts that decisions rest on.

use std::collections::BTreeSet;

use crate::condition::Conditions;
use crate::names::ObjectKey;
use crate::room::is_later;

/// The finalizer on forwards.
pub const FINALIZER: &str = "dns.finalizer.ustc.io";

/// A `VpcDnsForward`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Tells it from a later object of the same name.
    pub uid: String,
    /// The version last seen: what a write is guarded by.
    pub resource_version: String,
    /// Grows with the spec.
    pub generation: i64,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// Everybody's finalizers on it.
    pub finalizers: Vec<String>,
    /// Whether it should go although what was written for it cannot be taken away (`causeway/abandon: "true"`).
    pub abandon: bool,
    /// The VPC whose DNS server forwards, or why that cannot be understood.
    pub vpc: Result<String, String>,
    /// What it says of itself now.
    pub status: ForwardStatus,
}

/// The status of a forward.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardStatus {
    /// The VPC that this is about.
    pub vpc: Option<String>,
    /// Its `VpcDns`.
    pub vpc_dns: Option<String>,
    /// The address of kube-dns.
    pub kube_dns: Option<String>,
    /// The gateway on the way there.
    pub gateway: Option<String>,
    /// The ConfigMaps that may hold a block because of it: told before it is written there, so that it is found again
    /// whatever happens.
    pub corefiles: BTreeSet<String>,
    /// The generation that all this is about.
    pub observed_generation: Option<i64>,
    /// The conditions, others' too.
    pub conditions: Conditions,
}

impl Forward {
    /// Whether our finalizer is on it.
    pub fn is_held(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// The VPC whose DNS server should forward because of it. One that makes no sense any more keeps its effect; before
    /// the finalizer is on it there is none, since nobody would know what to clean.
    pub fn wants(&self) -> Option<&str> {
        let vpc = self.vpc.as_deref().ok().or(self.status.vpc.as_deref());
        vpc.filter(|_| self.is_held() && !self.deleting)
    }

    /// Whether another operator worked on it before: it has the finalizer, and we have never said anything of it, which we
    /// do before we put the finalizer on.
    pub fn is_inherited(&self) -> bool {
        self.is_held() && self.status.observed_generation.is_none()
    }

    /// Whether this is a later version of the object than another.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        is_later(&self.resource_version, &other.resource_version)
    }

    /// Every VPC that it is, or was, about.
    pub(super) fn vpcs(&self) -> impl Iterator<Item = &str> {
        let now = self.vpc.as_deref().ok();
        now.into_iter().chain(self.status.vpc.as_deref().filter(|before| Some(*before) != now))
    }
}
