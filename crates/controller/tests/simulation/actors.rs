//! Whoever else acts in a cluster: people, kube-ovn, the kubelet. No fault concerns them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use causeway_core::vpc::NatRule;
use causeway_core::vpc::objects::TUNNEL_FINALIZER;
use serde_json::json;
use tokio::time::sleep;

use crate::declared::{Gateway, Tunnel};
use crate::gateway::Pod;
use crate::site::{Change, GATEWAYS, NODES, PODS, SETS, SYSTEM, TUNNELS, TUNNELS_IN, VPCS};
use crate::watchdog::{finalizers, nothing_left};
use crate::world::World;

/// A finalizer of somebody else.
const HOLD: &str = "example.com/hold";

/// The nodes and VPCs that gateways are in.
pub(crate) async fn found(world: &World) {
    let gateways: Vec<Gateway> = world.declared().gateways.values().cloned().collect();
    for cluster in 0..2 {
        let site = &world.clusters[cluster];
        for node in ["n0", "n1"] {
            let body = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } });
            site.change(NODES, "", "", Change::Create(body)).await;
            set_node(world, cluster, node, "True").await;
        }
        let vpcs: std::collections::BTreeSet<&str> =
            gateways.iter().filter(|it| it.cluster == cluster).map(|it| it.vpc.as_str()).collect();
        for vpc in vpcs {
            let first = gateways.iter().find(|it| it.cluster == cluster && it.vpc == vpc);
            let routes = first.map(|it| {
                json!([{ "cidr": crate::declared::globalnet(1 - cluster), "nextHopIP": it.lan.to_string() }])
            });
            let body = json!({
                "apiVersion": "kubeovn.io/v1", "kind": "Vpc", "metadata": { "name": vpc },
                "spec": { "staticRoutes": routes },
            });
            site.change(VPCS, "", "", Change::Create(body)).await;
        }
    }
}

/// What the kubelet of a node says, or the cluster in its place.
pub(crate) async fn set_node(world: &World, cluster: usize, node: &str, ready: &str) {
    world.note(format!("node {node} of {cluster}: Ready is {ready}"));
    let site = &world.clusters[cluster];
    let since = jiff::Timestamp::try_from(world.time_at(crate::world::Place::Cluster(cluster)));
    let since = since.unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({ "status": { "conditions": [{
        "type": "Ready", "status": ready, "reason": "Kubelet", "message": "", "lastTransitionTime": since,
    }] } });
    site.change(NODES, "", node, Change::MergeStatus(status)).await;
}

impl Gateway {
    /// kube-ovn makes it, and the kubelet runs it.
    pub(crate) async fn add(&self, world: &Arc<World>) {
        world.note(format!("gateway {} of {} is added", self.name, self.cluster));
        let site = &world.clusters[self.cluster];
        site.change(GATEWAYS, "", "", Change::Create(self.object())).await;
        site.change(SETS, SYSTEM, "", Change::Create(self.set_object(0))).await;
        self.start(world).await;
    }

    /// A pod of it starts.
    pub(crate) async fn start(&self, world: &Arc<World>) {
        let site = &world.clusters[self.cluster];
        sleep(world.dice.millis(1..300)).await;
        site.change(PODS, SYSTEM, "", Change::Create(self.pod_object())).await;
        world.run_pod(Pod::new(self.cluster, self.pod(), self.external));
        self.become_ready(world, true).await;
    }

    /// The kubelet says whether it is ready, and a moment later kube-controller-manager does.
    pub(crate) async fn become_ready(&self, world: &Arc<World>, ready: bool) {
        world.note(format!("gateway {} of {}: ready is {ready}", self.name, self.cluster));
        let site = &world.clusters[self.cluster];
        site.change(PODS, SYSTEM, &self.pod(), Change::MergeStatus(self.pod_status(ready))).await;
        sleep(world.dice.millis(1..500)).await;
        let status = json!({ "status": { "availableReplicas": u32::from(ready) } });
        site.change(SETS, SYSTEM, &self.workload(), Change::MergeStatus(status)).await;
    }

    /// Its pod goes, and with it all that it held.
    pub(crate) async fn lose_pod(&self, world: &Arc<World>) {
        world.note(format!("gateway {} of {} loses its pod", self.name, self.cluster));
        let site = &world.clusters[self.cluster];
        if world.dice.strikes(500) {
            site.change(PODS, SYSTEM, &self.pod(), Change::Delete).await;
            world.wait_or_calm(world.dice.millis(1..5_000)).await;
        }
        world.end_pod(self.cluster, &self.pod());
        site.change(PODS, SYSTEM, &self.pod(), Change::End).await;
        sleep(world.dice.millis(1..500)).await;
        let status = json!({ "status": { "availableReplicas": 0 } });
        site.change(SETS, SYSTEM, &self.workload(), Change::MergeStatus(status)).await;
    }

    /// Its node restarts: the pod has its name and its uid, and holds nothing.
    pub(crate) fn reboot(&self, world: &Arc<World>) {
        world.note(format!("gateway {} of {} restarts", self.name, self.cluster));
        world.run_pod(Pod::new(self.cluster, self.pod(), self.external));
    }

    /// Somebody deletes it.
    pub(crate) async fn remove(&self, world: &Arc<World>) {
        world.note(format!("gateway {} of {} is removed", self.name, self.cluster));
        let site = &world.clusters[self.cluster];
        site.change(GATEWAYS, "", &self.name, Change::Delete).await;
        site.change(SETS, SYSTEM, &self.workload(), Change::Delete).await;
        sleep(world.dice.millis(1..300)).await;
        site.change(PODS, SYSTEM, &self.pod(), Change::End).await;
        world.end_pod(self.cluster, &self.pod());
    }

    /// The same with another address, as far as chance has it.
    pub(crate) fn moved(mut self, world: &World) -> Self {
        if world.dice.strikes(500) {
            let [a, b, c, d] = self.external.octets();
            // The last number is the gateway's own, so nobody else ever has it.
            self.external = Ipv4Addr::new(a, b, c.wrapping_add(10), d);
            let mut declared = world.declared();
            declared.gateways.insert((self.cluster, self.name.clone()), self.clone());
        }
        self
    }

    /// Somebody changes something of ours in it, or kube-ovn puts its own first.
    pub(crate) fn disturb(&self, world: &World) {
        let Some(pod) = world.pod(self.cluster, &self.pod()) else { return };
        let what = world.dice.number(0..4);
        world.note(format!("gateway {} of {} is disturbed: {what}", self.name, self.cluster));
        pod.change(|have| match what {
            0 => {
                let ours = have.links.iter().find(|(_, link)| link.is_ours()).map(|(name, _)| name.clone());
                if let Some(name) = ours {
                    have.links.remove(&name);
                    have.routes.retain(|route| route.dev.as_ref() != Some(&name));
                }
            }
            1 => have.routes.retain(|route| !route.is_ours()),
            2 => have.nat.postrouting.values_mut().for_each(|rules| {
                rules.retain(|rule| !matches!(rule, NatRule::Foreign(_)));
                rules.insert(0, NatRule::Foreign("-j SNAT_FILTER".into()));
            }),
            _ => have.forwarding = false,
        });
    }
}

impl Tunnel {
    /// Somebody declares it; false where one of its name is still on its way out.
    pub(crate) async fn declare(&self, world: &World) -> bool {
        let code =
            world.clusters[self.cluster].change(TUNNELS, TUNNELS_IN, "", Change::Create(self.object())).await;
        world.note(format!("tunnel {} of {} is declared: {code}", self.name, self.cluster));
        code == 201
    }

    /// Somebody changes its spec.
    pub(crate) async fn change(&self, world: &World) {
        world.note(format!("tunnel {} of {} has address {}", self.name, self.cluster, self.address));
        let body = json!({ "spec": { "interfaceAddr": self.address } });
        world.clusters[self.cluster].change(TUNNELS, TUNNELS_IN, &self.name, Change::Merge(body)).await;
    }

    /// Somebody deletes it.
    pub(crate) async fn delete(&self, world: &World) {
        world.note(format!("tunnel {} of {} is deleted", self.name, self.cluster));
        let site = &world.clusters[self.cluster];
        let before = site.get(TUNNELS, TUNNELS_IN, &self.name);
        site.change(TUNNELS, TUNNELS_IN, &self.name, Change::Delete).await;
        // A tunnel is built while its finalizer is on its way: who deletes it in that moment has it go at once, and the next
        // visit takes away what it made.
        if world.is_settled() || before.is_some_and(|object| finalizers(&object).contains(TUNNEL_FINALIZER)) {
            self.check_gone(world);
        }
    }

    /// If it has gone, then with all that it made.
    fn check_gone(&self, world: &World) {
        let site = &world.clusters[self.cluster];
        if site.get(TUNNELS, TUNNELS_IN, &self.name).is_none()
            && let Err(why) = nothing_left(world, self.cluster, &self.object())
        {
            world.violate(why);
        }
    }

    /// Somebody else has something to do before it may go.
    pub(crate) async fn hold(&self, world: &World, holds: bool) {
        let site = &world.clusters[self.cluster];
        let Some(object) = site.get(TUNNELS, TUNNELS_IN, &self.name) else { return };
        let mut all: Vec<String> =
            serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default();
        all.retain(|finalizer| finalizer != HOLD);
        if holds && object["metadata"].get("deletionTimestamp").is_none() {
            all.push(HOLD.into());
        }
        world.note(format!("tunnel {} of {} is held by {all:?}", self.name, self.cluster));
        let version = &object["metadata"]["resourceVersion"];
        let body = json!({ "metadata": { "finalizers": all, "resourceVersion": version } });
        site.change(TUNNELS, TUNNELS_IN, &self.name, Change::Merge(body)).await;
        self.check_gone(world);
    }
}
