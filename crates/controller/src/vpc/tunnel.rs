//! Writing a tunnel object: its finalizer, its status, and events about it.

use causeway_api::VpcNatTunnel;
use causeway_core::ObjectKey;
use causeway_core::vpc::objects::{TUNNEL_FINALIZER, Tunnel};
use causeway_core::vpc::status::{self, CLEANUP_BLOCKED, Finalizer, READY, TunnelStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::Patch;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource};
use serde_json::{Value, json};

use super::Room;
use crate::queue::Next;
use crate::status::{patching, settle, write};

impl Room {
    pub(super) async fn write_tunnel(&self, key: &ObjectKey) -> Next {
        let (tunnel, task) = {
            let state = self.state();
            let Some(task) = status::tunnel(&state, key) else {
                self.events.forget(key);
                return Next::Done;
            };
            let Some(tunnel) = state.tunnel(key).cloned() else { return Next::Done };
            (tunnel, task)
        };
        let api: Api<VpcNatTunnel> = Api::namespaced(self.client.clone(), &key.namespace);
        match task.finalizer {
            Finalizer::Add => return write_finalizers(&api, &tunnel, true).await,
            Finalizer::Remove => {
                tracing::info!(object = %key, "nothing is left of it: letting it go");
                return write_finalizers(&api, &tunnel, false).await;
            }
            Finalizer::Leave | Finalizer::Blocked(_) => {}
        }
        let Some(wanted) = task.status.filter(|wanted| *wanted != tunnel.status) else { return Next::Done };
        let next = write(&api, &key.name, &tunnel.resource_version, body(&wanted)).await;
        if next == Next::Done {
            self.announce_change(&tunnel, &wanted).await;
        }
        next
    }

    /// One event when readiness or its reason changed; coming up for the first time is no news beside the
    /// condition itself.
    async fn announce_change(&self, tunnel: &Tunnel, wanted: &TunnelStatus) {
        for kind in [READY, CLEANUP_BLOCKED] {
            let (before, after) = (tunnel.status.conditions.get(kind), wanted.conditions.get(kind));
            let Some(after) = after else { continue };
            let same = before.is_some_and(|b| b.status == after.status && b.reason == after.reason);
            let good = after.status == (kind == READY);
            tracing::info!(object = %tunnel.key, condition = kind, status = after.status, reason = after.reason, "{}", after.message);
            let first_time_up = good && before.is_none();
            if !same && !first_time_up {
                self.announce(&tunnel.key, !good, &after.reason, after.message.clone()).await;
            }
        }
    }

    /// Publishes an event on a tunnel. One that can not be published is only logged.
    pub(super) async fn announce(&self, key: &ObjectKey, warning: bool, reason: &str, note: String) {
        let Some(uid) = self.state().tunnel(key).map(|tunnel| tunnel.uid.clone()) else { return };
        let reference = ObjectReference {
            api_version: Some(VpcNatTunnel::api_version(&()).into()),
            kind: Some(VpcNatTunnel::kind(&()).into()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: Some(uid),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.into(),
            note: Some(note),
            action: "Reconcile".into(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(key, event, &reference).await {
            tracing::warn!(object = %key, reason, %error, "an event could not be published");
        }
    }
}

async fn write_finalizers(api: &Api<VpcNatTunnel>, tunnel: &Tunnel, ours: bool) -> Next {
    let others = tunnel.finalizers.iter().map(String::as_str).filter(|name| *name != TUNNEL_FINALIZER);
    let finalizers: Vec<&str> = others.chain(ours.then_some(TUNNEL_FINALIZER)).collect();
    let metadata = json!({ "resourceVersion": tunnel.resource_version, "finalizers": finalizers });
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    settle(api.patch(&tunnel.key.name, &patching(), &patch).await.map(drop), "finalizers")
}

/// The status as the contract spells it.
fn body(status: &TunnelStatus) -> Value {
    let now = Timestamp::now();
    let conditions = status.conditions.iter().map(|(kind, condition)| {
        let since = if condition.since.is_empty() { format!("{now:.0}") } else { condition.since.clone() };
        json!({
            "type": kind,
            "status": if condition.status { "True" } else { "False" },
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": since,
        })
    });
    json!({
        "initialized": status.initialized,
        "internalIp": status.internal_ip,
        "remoteIp": status.remote_ip,
        "interfaceAddr": status.interface_addr,
        "type": status.kind,
        "localGw": status.gateway,
        "natGwDp": status.gateway,
        "peer": status.peer,
        "globalnetCIDR": status.globalnet,
        "remoteGlobalnetCIDR": status.remote_globalnet,
        "ovnGwIP": status.ovn_gw_ip,
        "globalEgressIP": status.egress,
        "observedGeneration": status.observed_generation,
        "conditions": conditions.collect::<Vec<_>>(),
    })
}
