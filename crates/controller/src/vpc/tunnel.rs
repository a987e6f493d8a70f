//! Writing a tunnel object: its finalizer, its status, and events about it.

use causeway_api::condition;
use causeway_api::vpc::{LooseTunnel, VpcNatTunnel, parse};
use causeway_core::ObjectKey;
use causeway_core::condition::{Condition, Truth};
use causeway_core::vpc::ends::PEER_AGREES;
use causeway_core::vpc::moves::{PEER_MOVED, peer_moved};
use causeway_core::vpc::objects::{TUNNEL_FINALIZER, Tunnel};
use causeway_core::vpc::outcome::Trouble;
use causeway_core::vpc::status::{self, CLEANUP_BLOCKED, Finalizer, LAST_KNOWN, READY, TunnelStatus};
use causeway_core::vpc::{Change, Event};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Resource};
use serde_json::{Value, json};

use super::Vpc;
use crate::election::Term;
use crate::events::News;
use crate::queue::Next;
use crate::write;

impl Vpc {
    pub(super) async fn write_tunnel(&self, key: &ObjectKey, term: &Term) -> Next {
        let known = {
            let state = self.desk.state();
            state.tunnel(key).cloned().zip(status::tunnel(&state, key))
        };
        let Some((tunnel, task)) = known else {
            self.metrics.forget_tunnel(key);
            return Next::Done;
        };
        let api: Api<LooseTunnel> = Api::namespaced(self.house.client.clone(), key.namespace());
        let version = &tunnel.resource_version;
        let written = match task.finalizer {
            Finalizer::Add => {
                write::finalizers(term, &api, key.name(), version, &finalizers(&tunnel, true)).await
            }
            Finalizer::Remove => {
                tracing::info!(object = %key, "nothing is left of it: letting it go");
                write::finalizers(term, &api, key.name(), version, &finalizers(&tunnel, false)).await
            }
            Finalizer::Leave | Finalizer::Blocked(..) => {
                let Some(wanted) = task.status.filter(|wanted| *wanted != tunnel.status) else {
                    return Next::Done;
                };
                let body = body(&wanted, self.house.clock.now());
                let written = write::status(term, &api, key.name(), version, body).await;
                if written.is_ok() {
                    self.announce_change(term, &tunnel, &wanted);
                }
                written
            }
        };
        match written {
            Ok(object) => {
                self.take_in(&tunnel, &object);
                Next::Done
            }
            Err(next) => next,
        }
    }

    /// What was just written is known at once, so that nothing is decided, or sent again, on the version before.
    /// The watch may have been faster, and may know of later writes: then it is right.
    fn take_in(&self, before: &Tunnel, written: &LooseTunnel) {
        let Some(after) = parse::loose_tunnel(written) else { return };
        if after.deleting && after.finalizers.is_empty() {
            return;
        }
        let unchanged = |state: &causeway_core::vpc::State| {
            let known = state.tunnel(&before.key);
            known.is_some_and(|known| known.resource_version == before.resource_version)
        };
        self.desk.tell_if(unchanged, Event::Tunnels(Change::Put(before.key.clone(), after)));
    }

    /// One event when readiness or its reason changed; coming up for the first time is no news beside the
    /// condition itself.
    fn announce_change(&self, term: &Term, tunnel: &Tunnel, wanted: &TunnelStatus) {
        if let Some(news) = peer_moved(&tunnel.status, wanted) {
            // A peer by VPC may fail over any day.
            self.announce(term, tunnel, !tunnel.is_by_vpc(), PEER_MOVED, news);
        }
        for kind in [READY, PEER_AGREES, CLEANUP_BLOCKED, LAST_KNOWN] {
            let (before, after) = (tunnel.status.conditions.get(kind), wanted.conditions.get(kind));
            let Some(after) = after else { continue };
            let same = before.is_some_and(|b| b.status == after.status && b.reason == after.reason);
            let good = match kind {
                CLEANUP_BLOCKED | LAST_KNOWN => !after.is_true(),
                PEER_AGREES => after.status != Truth::False,
                _ => after.is_true(),
            };
            tracing::info!(object = %tunnel.key, condition = kind, status = %after.status, reason = after.reason, "{}", after.message);
            // Of the peer's end only what is wrong, and when that is put right.
            let was_wrong = before.is_some_and(|before| before.status == Truth::False);
            let first_time_up = good && (before.is_none() || kind == PEER_AGREES && !was_wrong);
            // That a gateway cannot be looked at, or can again, is said once for all of its tunnels.
            let unseen = |it: Option<&Condition>| it.is_some_and(|it| it.status == Truth::Unknown);
            let is_sight = kind == READY && (unseen(Some(after)) || good && unseen(before));
            if !same && !first_time_up && !is_sight {
                let warning = !good && !Trouble::is_routine(&after.reason, tunnel.status.initialized);
                self.announce(term, tunnel, warning, &after.reason, after.message.clone());
            }
        }
    }

    /// Publishes an event on a tunnel.
    pub(super) fn announce(&self, term: &Term, tunnel: &Tunnel, warning: bool, reason: &str, note: String) {
        let about = ObjectReference {
            api_version: Some(VpcNatTunnel::api_version(&()).into()),
            kind: Some(VpcNatTunnel::kind(&()).into()),
            namespace: Some(tunnel.key.namespace().into()),
            name: Some(tunnel.key.name().into()),
            uid: Some(tunnel.uid.clone()),
            ..ObjectReference::default()
        };
        self.house.announcer.announce(term, News { about, warning, reason: reason.into(), note });
    }
}

/// Everybody's finalizers, with ours or without.
fn finalizers(tunnel: &Tunnel, ours: bool) -> Vec<&str> {
    let others = tunnel.finalizers.iter().map(String::as_str).filter(|name| *name != TUNNEL_FINALIZER);
    others.chain(ours.then_some(TUNNEL_FINALIZER)).collect()
}

/// The status as the contract spells it.
fn body(status: &TunnelStatus, now: Timestamp) -> Value {
    json!({
        "initialized": status.initialized,
        "internalIp": status.internal_ip,
        "remoteIp": status.remote_ip,
        "interfaceAddr": status.interface_addr,
        "type": status.kind,
        "localGw": status.gateway,
        "standbys": (!status.standbys.is_empty()).then_some(&status.standbys),
        "natGwDp": status.gateway,
        "peer": status.peer,
        "globalnetCIDR": status.globalnet,
        "remoteGlobalnetCIDR": status.remote_globalnet,
        "ovnGwIP": status.ovn_gw_ip,
        "globalEgressIP": status.egress,
        "roundTripMilliseconds": status.round_trip,
        "answeredBehind": status.answered_behind,
        "observedGeneration": status.observed_generation,
        "conditions": condition::written(&status.conditions, now),
    })
}
