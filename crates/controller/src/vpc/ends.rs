//! The ends of tunnels at the broker: ours are written, and those that others publish for us are followed.

use causeway_api::vpc::TunnelEnd;
use causeway_api::vpc::end::{body, parse};
use causeway_core::vpc::ends::End;
use causeway_core::vpc::member::Member;
use causeway_core::vpc::published::{EndTask, OWNER, PEER_CLUSTER, publish};
use causeway_core::vpc::{Change, Event};
use kube::api::Patch;
use kube::{Api, ResourceExt};

use super::Vpc;
use super::broker::Broker;
use crate::election::Term;
use crate::follow::{Interruption, Seen, Watch};
use crate::found::Found;
use crate::queue::Next;
use crate::sources::Feed;
use crate::write::{created, deleting, guarded, patching, posting};

const WHAT: &str = "end of a tunnel";

impl Vpc {
    pub(super) async fn publish_end(&self, name: &str, term: &Term) -> Next {
        // The broker first: a task that was compiled for it never reaches another.
        let Some(broker) = self.broker.borrow().clone() else { return Next::Done };
        let task = publish(&self.desk.state(), name);
        let api: Api<TunnelEnd> = Api::namespaced(broker.client, &broker.namespace);
        let written = match task {
            EndTask::Nothing => return Next::Done,
            EndTask::Create(end) => {
                let create = async {
                    let new = serde_json::from_value(body(&end, &broker.namespace, None));
                    api.create(&posting(), &new.map_err(kube::Error::SerdeError)?).await
                };
                created(term, WHAT, create).await.map(drop)
            }
            EndTask::Update(end, version) => {
                let patch = Patch::Merge(body(&end, &broker.namespace, Some(&version)));
                guarded(term, WHAT, api.patch(name, &patching(), &patch)).await.map(drop)
            }
            EndTask::Delete(name, version) => {
                let delete = async {
                    match api.delete(&name, &deleting(&version)).await {
                        // Somebody has put our mark on what is theirs; that is theirs to keep.
                        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
                        deleted => deleted.map(drop),
                    }
                };
                guarded(term, WHAT, delete).await.map(drop)
            }
        };
        tracing::info!(end = name, ok = written.is_ok(), "writing an end of a tunnel");
        written.err().unwrap_or(self.seen_again())
    }
}

/// Follows the ends at a broker, once we know who we are, and anew whenever we are somebody else.
pub(super) async fn follow(feed: &Feed<Vpc>, room: &Vpc, broker: &Broker) {
    let mut ourselves = room.ourselves.subscribe();
    loop {
        // It cannot fail: the room has the sender.
        let Ok(Some(us)) = ourselves.wait_for(Option::is_some).await.map(|us| us.clone()) else { return };
        ourselves.mark_unchanged();
        tokio::select! {
            biased;
            () = follow_both(feed, room, broker, &us) => {}
            _ = ourselves.changed() => {}
        }
    }
}

async fn follow_both(feed: &Feed<Vpc>, room: &Vpc, broker: &Broker, us: &Member) {
    let (ours, theirs) = (format!("{OWNER}={}", us.uid), format!("{PEER_CLUSTER}={}", us.cluster));
    let missing = || {
        tracing::warn!(
            "the broker keeps no ends of tunnels (deploy/crds.yaml has the kind, deploy/broker.yaml the rule): \
             whether both ends of a tunnel are declared alike cannot be said"
        );
    };
    // What is true of the one is true of the other, and said once.
    tokio::join!(
        follow_some(feed, room, broker, &ours, Event::OwnEnds, missing),
        follow_some(feed, room, broker, &theirs, Event::PeerEnds, || {}),
    );
}

async fn follow_some(
    feed: &Feed<Vpc>,
    room: &Vpc,
    broker: &Broker,
    which: &str,
    event: fn(Change<String, End>) -> Event,
    missing: fn(),
) {
    let api = Api::namespaced(broker.client.clone(), &broker.namespace);
    let watch = Watch::<TunnelEnd>::new(api).labels(which).resync(room.options.resync_interval);
    let end = |object: &Found<TunnelEnd>| (object.name_any(), object.0.as_ref().ok().and_then(parse));
    let tell = |seen: Result<Seen<_, _>, Interruption>| match seen {
        Ok(Seen::Forbidden(_) | Seen::Missing) => {
            missing();
            feed.tell(Event::NoEnds);
        }
        Ok(seen) => {
            if let Some((change, _)) = seen.change() {
                feed.tell(event(change));
            }
        }
        Err(_) => {}
    };
    match watch.follow(feed.pace(), end, tell).await {}
}
