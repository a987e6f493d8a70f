//! Tunnel objects: making, changing and reading them, and what is said about them.

use std::time::Duration;

use causeway_api::vpc::{GatewayExIp, VpcNatTunnel};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, PATIENCE};

/// Where the tests' tunnels live unless they say otherwise.
pub(crate) const NS: &str = "ns1";

/// A VXLAN tunnel from a gateway to `cluster/gateway`.
pub(crate) fn vxlan(name: &str, gateway: &str, peer: &str, address: &str) -> Value {
    let (cluster, peer) = peer.split_once('/').expect("cluster/gateway");
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {"name": name, "namespace": NS},
        "spec": {
            "type": "vxlan", "interfaceAddr": address,
            "natGwDp": gateway, "clusterId": cluster, "gatewayName": peer,
        },
    })
}

/// The same object with a VNI of its own.
pub(crate) fn with_vni(mut tunnel: Value, vni: u32) -> Value {
    tunnel["metadata"]["labels"]["vid"] = json!(vni.to_string());
    tunnel
}

/// The same object in another namespace.
pub(crate) fn in_namespace(mut tunnel: Value, namespace: &str) -> Value {
    tunnel["metadata"]["namespace"] = json!(namespace);
    tunnel
}

/// Both ends of a tunnel between the same gateway of two clusters, up.
pub(crate) async fn join(one: &Cluster, two: &Cluster, name: &str, gateway: &str, net: u8) {
    let vni = u32::from(net) + 1000;
    let ends = [(one, two, 1), (two, one, 2)];
    for (here, there, host) in ends {
        let peer = format!("{}/{gateway}", there.name);
        let tunnel = vxlan(name, gateway, &peer, &format!("10.100.{net}.{host}/24"));
        here.create(&with_vni(tunnel, vni)).await;
    }
    for (here, ..) in ends {
        here.up(name).await;
        // The sandbox's VPCs lead back by gw1 only.
        if gateway == "gw1" {
            here.says(NS, name, "Reachable", "True", "Answered", PATIENCE).await;
        }
    }
}

/// An event, as far as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) note: String,
    pub(crate) count: i32,
}

impl Cluster {
    /// The tunnels of a namespace.
    pub(crate) fn tunnels(&self, namespace: &str) -> Api<VpcNatTunnel> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The gateways' records.
    pub(crate) fn records(&self, namespace: &str) -> Api<GatewayExIp> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates a tunnel that must be accepted.
    pub(crate) async fn create(&self, tunnel: &Value) -> VpcNatTunnel {
        let object: VpcNatTunnel = serde_json::from_value(tunnel.clone()).expect("a tunnel");
        let namespace = object.metadata.namespace.clone().expect("a namespace");
        self.tunnels(&namespace).create(&PostParams::default(), &object).await.expect("it is accepted")
    }

    /// Changes a tunnel's spec.
    pub(crate) async fn patch_spec(&self, name: &str, spec: Value) -> VpcNatTunnel {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.tunnels(NS).patch(name, &PatchParams::default(), &patch).await.expect("it is accepted")
    }

    /// A tunnel as it is.
    pub(crate) async fn tunnel(&self, name: &str) -> VpcNatTunnel {
        self.tunnels(NS).get(name).await.expect("the tunnel")
    }

    /// Asks for a tunnel's deletion and waits until the object is gone.
    pub(crate) async fn delete(&self, name: &str) {
        self.delete_in(NS, name).await;
    }

    /// The same in another namespace.
    pub(crate) async fn delete_in(&self, namespace: &str, name: &str) {
        let tunnels = self.tunnels(namespace);
        tunnels.delete(name, &DeleteParams::default()).await.expect("it is accepted");
        self.until(&format!("{namespace}/{name} is gone"), PATIENCE, async || {
            match tunnels.get_opt(name).await.expect("an answer") {
                None => Ok(()),
                Some(left) => Err(format!("{:?}", left.status)),
            }
        })
        .await;
    }

    /// Waits until all is in place that a tunnel asks for now. Whether its peer answers is another matter: most tests have
    /// one end only.
    #[track_caller]
    pub(crate) fn built(&self, name: &str) -> impl Future<Output = VpcNatTunnel> {
        self.says(NS, name, "Programmed", "True", "InPlace", PATIENCE)
    }

    /// Waits until a tunnel is up and its status is about what it asks for now.
    #[track_caller]
    pub(crate) fn up(&self, name: &str) -> impl Future<Output = VpcNatTunnel> {
        self.says(NS, name, "Ready", "True", "Up", PATIENCE)
    }

    /// Waits until a tunnel is down for this reason; gives the sentence.
    #[track_caller]
    pub(crate) fn down(&self, name: &str, reason: &str) -> impl Future<Output = String> {
        let says = self.says(NS, name, "Ready", "False", reason, PATIENCE);
        async move { condition(&says.await, "Ready").expect("it was there").message.clone() }
    }

    /// Waits until a tunnel goes on with what was last known, for this reason; gives the sentence.
    #[track_caller]
    pub(crate) fn goes_on(&self, name: &str, reason: &str) -> impl Future<Output = String> {
        let says = self.says(NS, name, "LastKnown", "True", reason, PATIENCE);
        async move { condition(&says.await, "LastKnown").expect("it was there").message.clone() }
    }

    /// Waits until a condition of a tunnel has this status and reason, for its present generation.
    #[track_caller]
    pub(crate) fn says(
        &self,
        namespace: &str,
        name: &str,
        kind: &str,
        status: &str,
        reason: &str,
        patience: Duration,
    ) -> impl Future<Output = VpcNatTunnel> {
        let what = format!("{namespace}/{name} says {kind}={status} because of {reason}");
        let tunnels = self.tunnels(namespace);
        let (name, kind, status, reason) =
            (name.to_owned(), kind.to_owned(), status.to_owned(), reason.to_owned());
        let look = async move || {
            let tunnel = tunnels.get(&name).await.map_err(|error| error.to_string())?;
            let now = condition(&tunnel, &kind).cloned();
            let fits = now.as_ref().is_some_and(|now| {
                now.status == status
                    && now.reason == reason
                    && now.observed_generation == tunnel.metadata.generation
            });
            if fits { Ok(tunnel) } else { Err(format!("{:?}", tunnel.status)) }
        };
        let this = self.clone();
        let place = std::panic::Location::caller();
        async move { this.until(&format!("{what} (asked at {place})"), patience, look).await }
    }

    /// The events about a tunnel.
    pub(crate) async fn events(&self, namespace: &str, name: &str) -> Vec<Reported> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let all = events.list(&ListParams::default()).await.expect("events");
        let about = |event: &&Event| {
            event.regarding.as_ref().is_some_and(|about| {
                about.kind.as_deref() == Some("VpcNatTunnel") && about.name.as_deref() == Some(name)
            })
        };
        let reported = |event: &Event| Reported {
            warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.clone().unwrap_or_default(),
            note: event.note.clone().unwrap_or_default(),
            count: event.series.as_ref().map_or(1, |series| series.count),
        };
        all.iter().filter(about).map(reported).collect()
    }

    /// Waits for an event about a tunnel with this reason and these words in it.
    #[track_caller]
    pub(crate) fn reports(&self, name: &str, reason: &str, words: &str) -> impl Future<Output = Reported> {
        self.reports_in(NS, name, reason, words)
    }

    /// The same in another namespace.
    #[track_caller]
    pub(crate) fn reports_in(
        &self,
        namespace: &str,
        name: &str,
        reason: &str,
        words: &str,
    ) -> impl Future<Output = Reported> {
        let place = std::panic::Location::caller();
        let what = format!("an event {reason} about {name} with {words:?} (asked at {place})");
        let [namespace, name, reason, words] = [namespace, name, reason, words].map(str::to_owned);
        let this = self.clone();
        async move {
            this.until(&what, PATIENCE, async || {
                let events = this.events(&namespace, &name).await;
                let fits = |reported: &&Reported| reported.reason == reason && reported.note.contains(&words);
                events.iter().find(fits).cloned().ok_or_else(|| format!("{events:?}"))
            })
            .await
        }
    }
}

/// A condition of a tunnel.
pub(crate) fn condition<'a>(tunnel: &'a VpcNatTunnel, kind: &str) -> Option<&'a Condition> {
    tunnel.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == kind)
}

/// All that an object says of a tunnel, but for how long its peer takes to answer: that changes with what else a machine does.
pub(crate) fn apart_from_times(tunnel: &VpcNatTunnel) -> String {
    let mut tunnel = tunnel.clone();
    tunnel.metadata.resource_version = None;
    tunnel.metadata.managed_fields = None;
    if let Some(status) = &mut tunnel.status {
        let time = status.round_trip_milliseconds.take().map(|time| format!(" within about {time} ms"));
        for condition in &mut status.conditions {
            condition.message = condition.message.replace(&time.clone().unwrap_or_default(), "");
        }
    }
    json!(tunnel).to_string()
}
