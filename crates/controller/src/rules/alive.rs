//! Which replicas there are: each holds a Lease of its own, and what a replica said goes when its Lease does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_core::room::Change;
use causeway_core::rules::replica::{LASTS, Sightings, is_abandoned};
use causeway_core::rules::state::Event;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DeleteParams, ListParams, Patch};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Rules;
use crate::follow::Watch;
use crate::found::Found;
use crate::sources::Sources;
use crate::words::describe;
use crate::write::{deleting, patching, posting};

/// Marks the Leases of replicas.
const LABEL: &str = "causeway/replica";
/// How long a replica that has fallen silent counts.
const SILENT: Duration = Duration::from_secs(LASTS.cast_unsigned());
/// How often what others left behind is looked for.
const SWEPT_EVERY: Duration = Duration::from_secs(3600);

impl Rules {
    fn leases(&self) -> Option<Api<Lease>> {
        let namespace = self.house.lease_namespace.as_ref()?;
        Some(Api::namespaced(self.house.client.clone(), namespace))
    }

    fn lease_name(&self) -> String {
        // Names of replicas are names of pods or hosts.
        let name: String = self.house.identity.to_lowercase();
        format!("causeway-rules-{}", name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-"))
    }
}

/// Follows the replicas' Leases. Without Leases there is one replica, which is this.
pub(super) fn start(room: &Arc<Rules>, sources: &mut Sources<'_, Rules>) {
    let Some(leases) = room.house.lease_namespace.clone() else {
        let identity = room.house.identity.clone();
        sources.beside("replicas", |feed| async move {
            feed.tell(Event::Replicas(Change::Put(identity, ())));
            std::future::pending::<()>().await;
        });
        return;
    };
    let client = room.house.client.clone();
    // Lists every so often, since nothing is heard of one that fell silent.
    let watch = Watch::new(Api::namespaced(client, &leases)).labels(&format!("{LABEL}=rules")).resync(SILENT);
    sources.watch("replicas", watch, replica(), |change, _| Event::Replicas(change));
}

fn replica() -> impl Fn(&Found<Lease>) -> (String, Option<()>) {
    let (seen, start) = (Mutex::new(Sightings::default()), Instant::now());
    move |object| {
        let spec = object.0.as_ref().ok().and_then(|lease| lease.spec.as_ref());
        let holder = spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_else(|| object.name_any());
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|renewed| renewed.0.to_string());
        let lasts = spec.and_then(|spec| spec.lease_duration_seconds);
        let now = i64::try_from(start.elapsed().as_secs()).unwrap_or(i64::MAX);
        let lives = seen.lock().unwrap_or_else(PoisonError::into_inner).see(&holder, renewed, lasts, now);
        (holder, lives.then_some(()))
    }
}

/// Holds this replica's Lease until the process stops.
pub(super) async fn run(room: Arc<Rules>) -> anyhow::Result<()> {
    let Some(leases) = room.leases() else {
        room.house.stop.cancelled().await;
        return Ok(());
    };
    let name = room.lease_name();
    let mut swept: Option<Instant> = None;
    loop {
        if let Err(error) = renew(&room, &leases, &name).await {
            tracing::warn!(error = describe(&error), "this replica's lease could not be renewed");
        }
        if swept.is_none_or(|swept| swept.elapsed() >= SWEPT_EVERY) {
            swept = Some(Instant::now());
            if let Err(error) = sweep(&room, &leases).await {
                tracing::warn!(
                    error = describe(&error),
                    "leases that crashed replicas left behind could not be deleted"
                );
            }
        }
        if room.house.stop.run_until_cancelled(sleep(SILENT / 4)).await.is_none() {
            break;
        }
    }
    // Its streams end with it, and so does what it said of them.
    let params = DeleteParams::default();
    let deleted = leases.delete(&name, &params);
    if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(2), deleted).await {
        tracing::warn!(error = describe(&error), "this replica's lease could not be deleted");
    }
    Ok(())
}

/// Deletes what replicas left behind that crashed long ago: pods have a new name each time.
async fn sweep(room: &Rules, leases: &Api<Lease>) -> kube::Result<()> {
    let now = room.house.clock.now().as_second();
    let listed = leases.list(&ListParams::default().labels(&format!("{LABEL}=rules"))).await?;
    let abandoned = |lease: &Lease| {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        is_abandoned(renewed.map(|renewed| renewed.0.as_second()), now)
    };
    for lease in listed.items.into_iter().filter(abandoned) {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match leases.delete(&lease.name_any(), &deleting(&version)).await {
            // Another replica was first, or it was renewed after all.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

async fn renew(room: &Rules, leases: &Api<Lease>, name: &str) -> kube::Result<()> {
    let renewed = MicroTime(room.house.clock.now());
    let seconds = i32::try_from(LASTS).unwrap_or(i32::MAX);
    let spec = LeaseSpec {
        holder_identity: Some(room.house.identity.clone()),
        lease_duration_seconds: Some(seconds),
        renew_time: Some(renewed),
        ..LeaseSpec::default()
    };
    let patch = json!({ "metadata": { "labels": { LABEL: "rules" } }, "spec": spec });
    match leases.patch(name, &patching(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let metadata = ObjectMeta {
                name: Some(name.into()),
                labels: Some([(LABEL.to_owned(), "rules".to_owned())].into()),
                ..ObjectMeta::default()
            };
            leases.create(&posting(), &Lease { metadata, spec: Some(spec) }).await.map(drop)
        }
        other => other.map(drop),
    }
}
