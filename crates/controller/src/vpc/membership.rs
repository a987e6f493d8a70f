//! Our claim to our cluster id: a Lease at the broker that is renewed with every resync.

use std::time::Duration;

use causeway_api::vpc::parse;
use causeway_core::vpc::Event;
use causeway_core::vpc::exchange::ORIGIN;
use causeway_core::vpc::member::{self, Member};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;
use kube::{Api, ResourceExt};
use tokio::time::sleep;

use super::Vpc;
use super::broker::Broker;
use crate::election::Term;
use crate::follow::{Interruption, Seen, Watch};
use crate::found::Found;
use crate::queue::Next;
use crate::sources::Feed;
use crate::words::describe;
use crate::write::{created, deleting, guarded, posting};

/// A claim outlasts this many resyncs without renewal.
const LIVES: u32 = 3;
/// So many times in a row must a right be denied before it counts as not given: a server that is starting denies
/// everything for a second or two.
const DENIED: u32 = 6;

impl Vpc {
    /// Makes or renews our claim, and drops those to ids that we no longer go by.
    pub(super) async fn claim_id(&self, term: &Term) -> Next {
        let Some(broker) = self.broker.borrow().clone() else { return Next::Done };
        let task = member::membership(&self.desk.state());
        let leases: Api<Lease> = Api::namespaced(broker.client, &broker.namespace);
        for name in &task.stale {
            if let Err(Next::Retry) = drop_claim(term, &leases, name).await {
                return Next::Retry;
            }
        }
        let Some(us) = task.claim else { return Next::Done };
        let lasts = self.options.resync_interval * LIVES;
        match renew(term, &leases, &us, self.house.clock.now(), lasts).await {
            Ok(()) => Next::After(self.options.resync_interval),
            Err(next) => next,
        }
    }
}

async fn drop_claim(term: &Term, leases: &Api<Lease>, name: &str) -> Result<(), Next> {
    const WHAT: &str = "claim to a former id";
    let lease = guarded(term, WHAT, leases.get(name)).await?;
    let version = lease.resource_version().unwrap_or_default();
    guarded(term, WHAT, leases.delete(name, &deleting(&version))).await.map(drop)
}

async fn renew(
    term: &Term,
    leases: &Api<Lease>,
    us: &Member,
    now: Timestamp,
    lasts: Duration,
) -> Result<(), Next> {
    const WHAT: &str = "claim to our id";
    let claim = |metadata: ObjectMeta| Lease {
        metadata: ObjectMeta {
            name: Some(us.name()),
            labels: Some([(ORIGIN.to_string(), us.cluster.to_string())].into()),
            ..metadata
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(us.uid.clone()),
            lease_duration_seconds: i32::try_from(lasts.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    match guarded(term, WHAT, leases.get_opt(&us.name())).await? {
        Some(old) => {
            let new = claim(old.metadata);
            guarded(term, WHAT, leases.replace(&us.name(), &posting(), &new)).await.map(drop)
        }
        None => created(term, WHAT, leases.create(&posting(), &claim(ObjectMeta::default()))).await.map(drop),
    }
}

/// Follows who goes by which id at a broker, for which we must know ourselves. Where we may not, the exchange goes
/// on without, and both are requested again; a server that only does not answer is waited for, and nothing is
/// exported meanwhile.
pub(super) async fn follow(feed: &Feed<Vpc>, room: &Vpc, broker: &Broker) {
    room.tell_identity(Event::Uid(own_uid(feed, room).await));
    let claims: Api<Found<Lease>> = Api::namespaced(broker.client.clone(), &broker.namespace);
    let claims = Watch::new(claims).labels(ORIGIN).resync(room.options.resync_interval);
    let member = |object: &Found<Lease>| {
        let now = room.house.clock.now().as_second();
        (object.name_any(), object.0.as_ref().ok().and_then(|lease| parse::member(lease, now)))
    };
    let tell = |seen: Result<Seen<_, _>, Interruption>| match seen {
        Ok(Seen::Forbidden(_) | Seen::Missing) => {
            tracing::warn!(
                "the broker lets nobody claim an id (deploy/broker.yaml has the rule): a cluster with our own id could not be distinguished from us"
            );
            feed.tell(Event::NoMembers);
        }
        Ok(seen) => {
            if let Some((change, _)) = seen.change() {
                feed.tell(Event::Members(change));
            }
        }
        Err(_) => {}
    };
    match claims.follow(feed.pace(), member, tell).await {}
}

/// The uid of a namespace that every cluster has, and that lasts as long as the cluster.
async fn own_uid(feed: &Feed<Vpc>, room: &Vpc) -> String {
    let namespaces = Api::<Namespace>::all(room.house.client.clone());
    let (mut pace, mut denied) = (feed.pace(), 0);
    loop {
        match namespaces.get("kube-system").await {
            Ok(Namespace { metadata: ObjectMeta { uid: Some(uid), .. }, .. }) => return uid,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                denied += 1;
                if denied == DENIED {
                    tracing::warn!(
                        "namespace kube-system may not be read (deploy/vpc.yaml has the rule): a cluster with \
                         our own id could not be distinguished from us"
                    );
                    feed.tell(Event::NoMembers);
                }
            }
            Ok(_) => tracing::warn!("namespace kube-system has no uid"),
            Err(error) => tracing::debug!(error = describe(&error), "no answer yet about our own uid"),
        }
        sleep(pace.pause()).await;
    }
}
