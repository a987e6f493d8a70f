//! Our claim to our cluster id: a Lease at the broker that is renewed with every resync.

use std::time::Duration;

use causeway_api::parse;
use causeway_core::vpc::Event;
use causeway_core::vpc::exchange::ORIGIN;
use causeway_core::vpc::member::{self, Member};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch};
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};

use super::Room;
use super::broker::Broker;
use super::follow::{Kind, change, follow, resynced};
use crate::queue::Next;
use crate::status::{patching, posting, settle};

/// A claim outlasts this many resyncs without renewal.
const LIVES: u32 = 3;
/// How soon a server that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(2);

impl Room {
    /// Makes or renews our claim, and drops those to ids that we no longer go by.
    pub(super) async fn claim_id(&self) -> Next {
        let task = member::membership(&self.state());
        let Some(broker) = self.broker.borrow().clone() else { return Next::Done };
        let leases: Api<Lease> = Api::namespaced(broker.client, &broker.namespace);
        for name in &task.stale {
            let gone = leases.delete(name, &DeleteParams::default()).await.map(drop);
            if settle(gone, "claim to a former id") == Next::Retry {
                return Next::Retry;
            }
        }
        let Some(us) = task.claim else { return Next::Done };
        match settle(renew(&leases, &us, self.options.resync_interval * LIVES).await, "claim to our id") {
            Next::Done => Next::After(self.options.resync_interval),
            other => other,
        }
    }
}

async fn renew(leases: &Api<Lease>, us: &Member, lasts: Duration) -> kube::Result<()> {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(us.name()),
            labels: Some([(ORIGIN.to_string(), us.cluster.to_string())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(us.uid.clone()),
            lease_duration_seconds: i32::try_from(lasts.as_secs()).ok(),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    };
    match leases.patch(&us.name(), &patching(), &Patch::Merge(&lease)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            leases.create(&posting(), &lease).await.map(drop)
        }
        written => written.map(drop),
    }
}

/// Follows the claims at a broker. One that keeps none is used all the same: its members must then see to it
/// themselves that their ids differ.
pub(super) async fn follow_claims(room: &Room, broker: Broker) {
    let leases: Api<Lease> = Api::namespaced(broker.client.clone(), &broker.namespace);
    if !keeps_claims(&leases).await {
        tracing::warn!(
            "the broker lets nobody claim an id (deploy/broker.yaml has the rule): a cluster with our own id could not be told from us"
        );
        return room.tell(Event::NoMembers).await;
    }
    let claims = resynced(room.options.resync_interval, move || {
        let api = Api::namespaced(broker.client.clone(), &broker.namespace);
        follow::<Lease>(api, watcher::Config::default().labels(ORIGIN), Kind::Own)
    });
    let mut claims = std::pin::pin!(claims);
    while let Some(seen) = claims.next().await {
        let now = Timestamp::now().as_second();
        let member = |object: &DeserializeGuard<Lease>| parse::member(object.0.as_ref().ok()?, now);
        room.tell(Event::Members(change(seen, ResourceExt::name_any, member))).await;
    }
}

async fn keeps_claims(leases: &Api<Lease>) -> bool {
    let list = ListParams::default().limit(1);
    settled("the claims at the broker", || leases.list_metadata(&list)).await.is_some()
}

/// Asks until there is an answer; none when it is that this may not be known here, or does not exist.
pub(super) async fn settled<T, F>(what: &'static str, ask: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = kube::Result<T>>,
{
    loop {
        match ask().await {
            Ok(answer) => return Some(answer),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return None,
            Err(error) => tracing::debug!(what, %error, "no answer yet"),
        }
        tokio::time::sleep(PATIENCE).await;
    }
}
