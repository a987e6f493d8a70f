//! Takes away what a run put into a real API server: what carries its label, and what the controller made. The
//! definitions, the namespaces and the controller's account stay.

use std::time::Duration;

use anyhow::ensure;
use causeway_api::vpc::{GatewayExIp, VpcNatTunnel};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::CONTROLLER;
use crate::apply::kinds_of;
use crate::objects::{LABEL, NAMESPACE, SYSTEM};

const PATIENCE: Duration = Duration::from_secs(60);
const HANDS: usize = 32;

/// See the module's documentation.
pub(super) async fn all(client: &Client) -> anyhow::Result<()> {
    let labelled = ListParams::default().labels(LABEL);
    let space = |kind, namespace| Api::namespaced_with(client.clone(), namespace, &kind);
    let tunnels = space(ApiResource::erase::<VpcNatTunnel>(&()), NAMESPACE);
    release(&tunnels, &labelled).await?;
    empty(&tunnels, &labelled).await?;
    let records = space(ApiResource::erase::<GatewayExIp>(&()), SYSTEM);
    empty(&records, &labelled).await?;
    empty(&records, &ListParams::default().labels("localCluster=c1")).await?;
    for crd in causeway_api::vpc::foreign::crds().into_iter().filter(|crd| crd.spec.group == "kubeovn.io") {
        for (kind, _) in kinds_of(&crd).into_iter().filter(|(_, namespaced)| !namespaced) {
            empty(&Api::all_with(client.clone(), &kind), &labelled).await?;
        }
    }
    empty(&space(ApiResource::erase::<StatefulSet>(&()), SYSTEM), &labelled).await?;
    empty(&space(ApiResource::erase::<Pod>(&()), SYSTEM), &labelled).await?;
    let of_tunnels = ListParams::default().fields("involvedObject.kind=VpcNatTunnel");
    empty(&space(ApiResource::erase::<Event>(&()), NAMESPACE), &of_tunnels).await?;
    empty(&space(ApiResource::erase::<Lease>(&()), CONTROLLER.0), &ListParams::default()).await?;
    empty(&Api::all_with(client.clone(), &ApiResource::erase::<Node>(&())), &labelled).await
}

/// Removes the finalizer of a controller that is gone.
async fn release(tunnels: &Api<DynamicObject>, which: &ListParams) -> anyhow::Result<()> {
    let names = stream::iter(names(tunnels, which).await?);
    let patch = &Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let free = |name: String| async move {
        match tunnels.patch(&name, &PatchParams::default(), patch).await {
            // It was on its way already.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            patched => patched.map(drop),
        }
    };
    Ok(names.map(Ok).try_for_each_concurrent(HANDS, free).await?)
}

/// Deletes at once, and waits until all are gone.
async fn empty(api: &Api<DynamicObject>, which: &ListParams) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
    loop {
        let left = names(api, which).await?;
        let Some(first) = left.first() else { return Ok(()) };
        ensure!(Instant::now() < deadline, "{first} does not go");
        api.delete_collection(&at_once, which).await?;
        sleep(Duration::from_millis(20)).await;
    }
}

async fn names(api: &Api<DynamicObject>, which: &ListParams) -> anyhow::Result<Vec<String>> {
    match api.list_metadata(which).await {
        // Its definition is not installed yet.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        found => Ok(found?.items.iter().map(ResourceExt::name_any).collect()),
    }
}
