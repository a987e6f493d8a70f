//! What is seen, and what a worker is sent to look after because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::exchange::Record;
use super::member::Member;
use super::objects::{Eip, GatewayPod, NodeHealth, StaticRoute, Subnet, Tunnel, VpcGateway, Workload};
use super::outcome::Outcome;
use crate::names::{Cidr, ClusterId, GatewayName, ObjectKey};

/// What a worker is sent to look after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A gateway's network namespace.
    Gateway(GatewayName),
    /// A tunnel object's status and finalizer.
    Tunnel(ObjectKey),
    /// The record of a gateway of ours.
    Record(GatewayName),
    /// A copy at the broker, by its name there.
    Export(String),
    /// A record of another cluster, here.
    Import(ObjectKey),
    /// Our claim to our id, at the broker.
    Membership,
}

/// A change in a set of objects: one of them, or all at once after a list.
#[derive(Debug, Clone)]
pub enum Change<K, V> {
    /// Added or changed.
    Put(K, V),
    /// Gone.
    Gone(K),
    /// These, and no others.
    Reset(BTreeMap<K, V>),
}

/// Something that was seen.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "an event lives only from a watch to the state")]
pub enum Event {
    /// Tunnels.
    Tunnels(Change<ObjectKey, Tunnel>),
    /// Gateway workloads that are StatefulSets.
    StatefulSets(Change<String, Workload>),
    /// Gateway workloads that are Deployments.
    Deployments(Change<String, Workload>),
    /// Gateway pods.
    Pods(Change<ObjectKey, GatewayPod>),
    /// kube-ovn's gateways.
    VpcGateways(Change<String, VpcGateway>),
    /// The gateways' floating addresses.
    Eips(Change<String, Eip>),
    /// kube-ovn's subnets.
    Subnets(Change<String, Subnet>),
    /// The VPCs' static routes.
    Vpcs(Change<String, BTreeSet<StaticRoute>>),
    /// Nodes.
    Nodes(Change<String, NodeHealth>),
    /// Gateway records in this cluster: our own and imported ones.
    Records(Change<ObjectKey, Record>),
    /// Gateway records at the broker by name.
    Copies(Change<String, Record>),
    /// Who goes by which id at the broker, by the name of the claim.
    Members(Change<String, Member>),
    /// The broker keeps no claims, or we can not make one.
    NoMembers,
    /// Who we are.
    Identity(Option<ClusterId>),
    /// What tells us from another cluster that claims our id.
    Uid(String),
    /// A broker is about to be listed; the exchange has this namespace there.
    Joining(String),
    /// Clusters' ranges of global addresses.
    Globalnets(Change<String, Cidr>),
    /// The addresses that our traffic appears to come from elsewhere.
    Egress(Vec<Ipv4Addr>),
    /// How a visit to a gateway went.
    Outcome(GatewayName, Outcome),
}

impl<K: Ord + Clone, V: PartialEq + Clone> Change<K, V> {
    /// Carries the change out on a map and returns what really differs: key, before, after.
    pub(super) fn carry_out(self, map: &mut BTreeMap<K, V>) -> Vec<(K, Option<V>, Option<V>)> {
        let mut differences = Vec::new();
        match self {
            Self::Put(key, new) => {
                let old = map.insert(key.clone(), new.clone());
                differences.push((key, old, Some(new)));
            }
            Self::Gone(key) => {
                let old = map.remove(&key);
                differences.push((key, old, None));
            }
            Self::Reset(new) => {
                let old = std::mem::replace(map, new.clone());
                let keys: BTreeSet<K> = old.keys().chain(new.keys()).cloned().collect();
                let pair = |key: K| (key.clone(), old.get(&key).cloned(), new.get(&key).cloned());
                differences.extend(keys.into_iter().map(pair));
            }
        }
        differences.retain(|(_, old, new)| old != new);
        differences
    }
}
