//! The gateways of this cluster: what is observed of them, and what follows for each.
//!
//! What tunnels and records need of a gateway is worked out once when something about it changes
//! ([`Gateways::work_out`]), not once per tunnel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::index::Groups;
use super::objects::{Eip, GatewayPod, NodeHealth, PodRef, Subnet, VpcGateway, Workload};
use super::outcome::Trouble;
use crate::names::{GatewayName, ObjectKey};
use crate::room::Change;

/// The provider that kube-ovn uses for a gateway's outside by default.
const DEFAULT_PROVIDER: &str = "ovn-vpc-external-network.kube-system";

/// What tunnels and records need of one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gateway {
    /// The pod that commands can be run in, or why there is none.
    pub(super) pod: Result<PodRef, Trouble>,
    /// Its addresses, or why they are not known.
    pub(super) located: Result<Located, Trouble>,
    /// Whether its workload has a replica available.
    pub(super) ready: bool,
    /// Its other pods that would answer: they should hold nothing of ours.
    pub(super) spares: Vec<PodRef>,
    /// The VPC it is in, also while none of its pods runs.
    pub(super) vpc: Option<String>,
    /// Its address there, the same.
    pub(super) lan: Option<Ipv4Addr>,
    /// Whether it could be the main one of its VPC: ready, here to stay, and with all its addresses.
    pub(super) fit: bool,
    /// Whether kube-ovn fails over between its pods by itself.
    pub(super) replicated: bool,
}

/// What speaks for one of several pods that could serve a gateway: it is kept while it is good.
#[derive(Debug, Clone, Default)]
pub(super) struct Preference {
    /// The uid of the pod that was visited last.
    pub(super) serving: Option<String>,
    /// The address that our record gives to others, which outlasts a restart of ours.
    pub(super) published: Option<Ipv4Addr>,
}

/// A gateway that runs and whose addresses are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) router: Ipv4Addr,
    pub(super) external: Ipv4Addr,
    pub(super) lan: Option<Ipv4Addr>,
    pub(super) vpc: Option<String>,
}

/// Which of the two kinds of workload, and its name.
type WorkloadKey = (bool, String);

/// What the watches saw of gateways.
#[derive(Debug, Clone, Default)]
pub(super) struct Gateways {
    stateful_sets: BTreeMap<String, Workload>,
    deployments: BTreeMap<String, Workload>,
    pods: BTreeMap<ObjectKey, GatewayPod>,
    declared: BTreeMap<String, VpcGateway>,
    eips: BTreeMap<String, Eip>,
    subnets: BTreeMap<String, Subnet>,
    nodes: BTreeMap<String, NodeHealth>,
    workloads_of: Groups<GatewayName, WorkloadKey>,
    pods_of: Groups<GatewayName, ObjectKey>,
    eips_of: Groups<GatewayName, String>,
    /// Every gateway that is known by workload or pod.
    known: BTreeMap<GatewayName, Gateway>,
    /// The same by VPC.
    by_vpc: Groups<String, GatewayName>,
}

type Names = BTreeSet<GatewayName>;

impl Gateways {
    /// A gateway, if there is one.
    pub(super) fn get(&self, name: &GatewayName) -> Option<&Gateway> {
        self.known.get(name)
    }

    /// All of them.
    pub(super) fn names(&self) -> impl Iterator<Item = &GatewayName> {
        self.known.keys()
    }

    /// The pod of a gateway that commands can be run in.
    pub(super) fn pod(&self, name: &GatewayName) -> Result<&PodRef, Trouble> {
        let gateway = self.get(name).ok_or_else(|| Trouble::GatewayNotFound(name.clone()))?;
        gateway.pod.as_ref().map_err(Clone::clone)
    }

    /// A gateway's addresses.
    pub(super) fn locate(&self, name: &GatewayName) -> Result<&Located, Trouble> {
        let gateway = self.get(name).ok_or_else(|| Trouble::GatewayNotFound(name.clone()))?;
        gateway.located.as_ref().map_err(Clone::clone)
    }

    /// The address and VPC of a gateway that is ready, for its record.
    pub(super) fn published(&self, name: &GatewayName) -> Option<&Located> {
        self.get(name).filter(|gateway| gateway.ready)?.located.as_ref().ok()
    }

    /// The gateways of a VPC whose addresses are known.
    pub(super) fn in_vpc(&self, vpc: &str) -> impl Iterator<Item = (&GatewayName, &Located)> {
        self.of_vpc(vpc).filter_map(|name| Some((name, self.known.get(name)?.located.as_ref().ok()?)))
    }

    /// The gateways of a VPC.
    pub(super) fn of_vpc(&self, vpc: &str) -> impl Iterator<Item = &GatewayName> {
        self.by_vpc.of(vpc)
    }

    /// The VPCs that have gateways.
    pub(super) fn vpcs(&self) -> impl Iterator<Item = &String> {
        self.by_vpc.keys()
    }

    /// The VPC of a gateway.
    pub(super) fn vpc_of(&self, name: &GatewayName) -> Option<&str> {
        self.get(name)?.vpc.as_deref()
    }

    pub(super) fn take_stateful_sets(&mut self, event: Change<String, Workload>) -> Names {
        let changed = event.carry_out(&mut self.stateful_sets);
        self.index_workloads(changed, false)
    }

    pub(super) fn take_deployments(&mut self, event: Change<String, Workload>) -> Names {
        let changed = event.carry_out(&mut self.deployments);
        self.index_workloads(changed, true)
    }

    fn index_workloads(&mut self, changed: Changes<String, Workload>, deployment: bool) -> Names {
        let changed = changed.into_iter().map(|(name, old, new)| ((deployment, name), old, new)).collect();
        regroup(&mut self.workloads_of, changed, |workload| &workload.gateway)
    }

    pub(super) fn take_pods(&mut self, event: Change<ObjectKey, GatewayPod>) -> Names {
        let changed = event.carry_out(&mut self.pods);
        regroup(&mut self.pods_of, changed, |pod| &pod.gateway)
    }

    pub(super) fn take_eips(&mut self, event: Change<String, Eip>) -> Names {
        let changed = event.carry_out(&mut self.eips);
        regroup(&mut self.eips_of, changed, |eip| &eip.gateway)
    }

    pub(super) fn take_declared(&mut self, event: Change<String, VpcGateway>) -> Names {
        let changed = event.carry_out(&mut self.declared);
        changed.into_iter().filter_map(|(name, ..)| name.parse().ok()).collect()
    }

    /// Subnets are few and seldom change: the gateways that stand in them are searched for.
    pub(super) fn take_subnets(&mut self, event: Change<String, Subnet>) -> Names {
        let changed = changed_keys(event, &mut self.subnets);
        if changed.is_empty() {
            return Names::new();
        }
        let outside = self.declared.iter().filter(|(_, gateway)| {
            gateway.external_subnets.first().is_some_and(|subnet| changed.contains(subnet))
        });
        let inside = self
            .workloads()
            .filter(|workload| workload.subnet.as_ref().is_some_and(|subnet| changed.contains(subnet)));
        let inside = inside.map(|workload| workload.gateway.clone());
        outside.filter_map(|(name, _)| name.parse().ok()).chain(inside).collect()
    }

    pub(super) fn take_nodes(&mut self, event: Change<String, NodeHealth>) -> Names {
        let changed = changed_keys(event, &mut self.nodes);
        if changed.is_empty() {
            return Names::new();
        }
        let on = |pod: &&GatewayPod| pod.node.as_ref().is_some_and(|node| changed.contains(node));
        self.pods.values().filter(on).map(|pod| pod.gateway.clone()).collect()
    }

    fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.stateful_sets.values().chain(self.deployments.values())
    }

    fn workloads_of(&self, name: &GatewayName) -> impl Iterator<Item = &Workload> {
        let by_key = |(deployment, name): &WorkloadKey| {
            if *deployment { self.deployments.get(name) } else { self.stateful_sets.get(name) }
        };
        self.workloads_of.of(name).filter_map(by_key)
    }

    /// The floating addresses of a gateway, by the names of their objects.
    pub(super) fn eips(&self, name: &GatewayName) -> impl Iterator<Item = (&String, Ipv4Addr)> {
        self.eips_of.of(name).filter_map(|eip| Some((eip, self.eips.get(eip)?.address)))
    }

    /// The uids of a gateway's pods.
    pub(super) fn pod_uids(&self, name: &GatewayName) -> BTreeSet<&str> {
        self.pods_of(name).map(|pod| pod.pod.uid.as_str()).collect()
    }

    fn pods_of(&self, name: &GatewayName) -> impl Iterator<Item = &GatewayPod> {
        self.pods_of.of(name).filter_map(|key| self.pods.get(key))
    }

    /// Works out anew what is true of a gateway; gives what was and what is, if they differ.
    pub(super) fn work_out(
        &mut self,
        name: &GatewayName,
        preference: &Preference,
    ) -> Option<(Option<Gateway>, Option<Gateway>)> {
        let new = self.compute(name, preference);
        let old = match new.clone() {
            Some(gateway) => self.known.insert(name.clone(), gateway),
            None => self.known.remove(name),
        };
        if let Some(vpc) = old.as_ref().and_then(|gateway| gateway.vpc.as_ref()) {
            self.by_vpc.remove(vpc, name);
        }
        if let Some(vpc) = new.as_ref().and_then(|gateway| gateway.vpc.as_ref()) {
            self.by_vpc.insert(vpc, name.clone());
        }
        (old != new).then_some((old, new))
    }

    /// Every gateway that there is anything of.
    pub(super) fn all_names(&self) -> Names {
        self.workloads_of.keys().chain(self.pods_of.keys()).chain(self.known.keys()).cloned().collect()
    }

    fn compute(&self, name: &GatewayName, preference: &Preference) -> Option<Gateway> {
        let has_workload = self.workloads_of(name).next().is_some();
        if !has_workload && self.pods_of(name).next().is_none() {
            return None;
        }
        let running = self.running(name, preference);
        let is_spare = |pod: &&GatewayPod| {
            let good =
                pod.phase == "Running" && pod.ready && !pod.deleting && self.node(pod) == NodeHealth::Ready;
            good && running.as_ref().is_ok_and(|serving| serving.pod != pod.pod)
        };
        let declared = self.declared.get(name.as_str());
        let ready = self.workloads_of(name).any(|workload| workload.ready);
        let located = running.clone().and_then(|pod| self.addresses(name, pod));
        // One that is being deleted goes on for as long as it is allowed to: whoever takes over then loses nothing.
        let stays = running.as_ref().is_ok_and(|pod| pod.ready && !pod.deleting);
        let any_pod = running.clone().ok().or_else(|| self.pods_of(name).next());
        Some(Gateway {
            spares: self.pods_of(name).filter(is_spare).map(|pod| pod.pod.clone()).collect(),
            fit: ready && stays && located.as_ref().is_ok_and(|located| located.lan.is_some()),
            located,
            pod: running.map(|pod| pod.pod.clone()),
            ready,
            vpc: self.vpc(name, any_pod).map(Into::into),
            lan: declared.and_then(|gateway| gateway.lan).or_else(|| any_pod?.lan),
            replicated: declared.is_some_and(|gateway| gateway.replicated)
                || self.workloads_of(name).any(|workload| workload.replicated),
        })
    }

    /// The pod that serves a gateway. Of several the one that does so already, while it is ready and stays; else
    /// the oldest that is. One that is not, or on its way out, is better than none.
    fn running(&self, name: &GatewayName, preference: &Preference) -> Result<&GatewayPod, Trouble> {
        let gateway = name.clone();
        let order = |pod: &&GatewayPod| {
            let serves = preference.serving.as_ref() == Some(&pod.pod.uid);
            let published =
                preference.published.is_some_and(|it| pod.external.values().any(|own| *own == it));
            let lost = self.node(pod) == NodeHealth::Lost;
            let good = (pod.phase == "Running", !lost, !pod.deleting, pod.ready);
            (std::cmp::Reverse((good, serves, published)), pod.created, pod.pod.key.clone())
        };
        let Some(pod) = self.pods_of(name).min_by_key(order) else {
            let why = "it has no pod; is its workload scaled to 0?".into();
            return Err(Trouble::GatewayNotRunning { gateway, why });
        };
        if pod.phase != "Running" {
            let why = format!("pod {} is {}", pod.pod.key.name(), pod.phase);
            return Err(Trouble::GatewayNotRunning { gateway, why });
        }
        match &pod.node {
            Some(node) if self.node(pod) == NodeHealth::Lost => {
                Err(Trouble::GatewayLost { gateway, node: node.clone() })
            }
            Some(_) | None => Ok(pod),
        }
    }

    /// How the node of a pod is; one that is not known is not known to be silent.
    fn node(&self, pod: &GatewayPod) -> NodeHealth {
        let health = pod.node.as_ref().and_then(|node| self.nodes.get(node));
        health.copied().unwrap_or(NodeHealth::Ready)
    }

    fn addresses(&self, name: &GatewayName, pod: &GatewayPod) -> Result<Located, Trouble> {
        let declared = self.declared.get(name.as_str());
        Ok(Located {
            router: pod.router.ok_or_else(|| lacks(pod, "ovn.kubernetes.io/gateway"))?,
            external: self.external(pod)?,
            lan: declared.and_then(|gateway| gateway.lan).or(pod.lan),
            vpc: self.vpc(name, Some(pod)).map(Into::into),
        })
    }

    /// A gateway's address on the underlay: what its pod got there, or its first floating address where
    /// kube-ovn gives it none by itself.
    fn external(&self, pod: &GatewayPod) -> Result<Ipv4Addr, Trouble> {
        let name = &pod.gateway;
        let declared = self.declared.get(name.as_str());
        if declared.is_some_and(|gateway| gateway.no_default_eip) {
            let mine = self.eips_of.of(name).filter_map(|eip| Some((eip, self.eips.get(eip)?)));
            let mine = mine.filter(|(_, eip)| is_of_host(eip.address));
            let first = mine.min_by_key(|(name, eip)| (eip.created, *name));
            return first.map(|(_, eip)| eip.address).ok_or_else(|| {
                let why = "is declared with noDefaultEIP, and no IptablesEIP with an address names it";
                Trouble::GatewayIncomplete(format!("gateway {name} {why} (spec.natGwDp)"))
            });
        }
        let named = declared.and_then(|gateway| gateway.external_subnets.first());
        let subnet = named.and_then(|subnet| self.subnets.get(subnet));
        if let (Some(subnet), None, 2..) = (named, subnet, pod.external.len()) {
            // Which of its addresses is meant, only the subnet says.
            return Err(Trouble::GatewayIncomplete(format!(
                "Subnet {subnet}, which VpcNatGateway {name} names in externalSubnets, is missing"
            )));
        }
        let provider = subnet.and_then(|subnet| subnet.provider.as_deref()).unwrap_or(DEFAULT_PROVIDER);
        let annotation = || lacks(pod, &format!("{provider}.kubernetes.io/ip_address"));
        pod.external.get(provider).copied().filter(|address| is_of_host(*address)).ok_or_else(annotation)
    }

    /// The VPC of a gateway: as declared, else as the pod says, else by its subnet. Unknown stays unknown.
    fn vpc<'a>(&'a self, name: &GatewayName, pod: Option<&'a GatewayPod>) -> Option<&'a str> {
        let declared = self.declared.get(name.as_str()).and_then(|gateway| gateway.vpc.as_deref());
        let by_subnet = || {
            let workload = self.workloads_of(name).next()?;
            self.subnets.get(workload.subnet.as_ref()?)?.vpc.as_deref()
        };
        declared.or_else(|| pod?.vpc.as_deref()).or_else(by_subnet)
    }
}

/// Whether others can reach a host by an address; what is published must be such a one.
fn is_of_host(address: Ipv4Addr) -> bool {
    let is_nobodys = address.octets()[0] == 0 || address.is_multicast() || address.is_broadcast();
    !is_nobodys && !address.is_loopback() && !address.is_link_local()
}

fn lacks(pod: &GatewayPod, annotation: &str) -> Trouble {
    let (gateway, pod) = (&pod.gateway, &pod.pod.key);
    Trouble::GatewayIncomplete(format!(
        "pod {pod} of gateway {gateway} has no usable annotation {annotation}"
    ))
}

type Changes<K, V> = Vec<(K, Option<V>, Option<V>)>;

fn changed_keys<V: PartialEq + Clone>(
    event: Change<String, V>,
    map: &mut BTreeMap<String, V>,
) -> BTreeSet<String> {
    event.carry_out(map).into_iter().map(|(key, ..)| key).collect()
}

/// Follows changes in an index by gateway; gives the gateways they concern.
fn regroup<K: Ord + Clone, V>(
    index: &mut Groups<GatewayName, K>,
    changed: Changes<K, V>,
    gateway: impl Fn(&V) -> &GatewayName,
) -> Names {
    let mut names = Names::new();
    for (key, old, new) in changed {
        if let Some(name) = old.as_ref().map(&gateway) {
            index.remove(name, &key);
            names.insert(name.clone());
        }
        if let Some(name) = new.as_ref().map(&gateway) {
            index.insert(name, key);
            names.insert(name.clone());
        }
    }
    names
}
