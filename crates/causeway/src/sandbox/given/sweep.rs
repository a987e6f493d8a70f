//! Takes everything out of a cluster that a sandbox, or whoever used it, put there.

use std::time::Duration;

use anyhow::Context;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret, Service};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::super::addresses::{SYSTEM, WORKLOADS};
use super::super::apply::kinds_of;
use super::super::submariner::{BROKER, OPERATOR};
use super::{LEASE_NAMESPACE, NODE_LABEL};

/// How long what was deleted may take to be gone; the controller manager empties a namespace in seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Namespaces that stay: emptying one is a matter of milliseconds, deleting one of seconds.
const KEPT: [&str; 5] = [WORKLOADS, OPERATOR, BROKER, LEASE_NAMESPACE, "default"];

/// See the module's documentation.
pub(super) async fn all(client: &Client) -> anyhow::Result<()> {
    // First those that make pods, then the pods, then the node under them.
    for kind in [ApiResource::erase::<StatefulSet>(&()), ApiResource::erase::<Deployment>(&())] {
        empty(client, &kind, SYSTEM, |_| true).await?;
    }
    let ours = causeway_api::vpc::crds().into_iter().chain(causeway_api::rules::crds());
    let ours = ours.chain(causeway_api::dns::crds()).chain(causeway_api::networks::crds());
    let definitions = ours.chain(causeway_api::vpc::foreign::crds());
    let kinds: Vec<ApiResource> = definitions.flat_map(|crd| kinds_of(&crd)).map(|(kind, _)| kind).collect();
    try_join_all(kinds.iter().map(|kind| everywhere(client, kind))).await?;
    for namespace in KEPT.into_iter().chain([SYSTEM]) {
        empty(client, &ApiResource::erase::<Pod>(&()), namespace, |_| true).await?;
        empty(client, &ApiResource::erase::<Event>(&()), namespace, |_| true).await?;
    }
    for namespace in KEPT {
        empty(client, &ApiResource::erase::<Lease>(&()), namespace, |_| true).await?;
        empty(client, &ApiResource::erase::<Secret>(&()), namespace, |_| true).await?;
    }
    let configs = ["ovn-vpc-nat-config", "vpc-dns-config", "vpc-dns-corefile"];
    let config = |config: &DynamicObject| configs.contains(&&*config.name_any());
    empty(client, &ApiResource::erase::<ConfigMap>(&()), SYSTEM, config).await?;
    let kube_dns = |service: &DynamicObject| service.name_any() == "kube-dns";
    empty(client, &ApiResource::erase::<Service>(&()), SYSTEM, kube_dns).await?;
    let nodes = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
    remove(&nodes, |node| node.labels().contains_key(NODE_LABEL)).await?;
    namespaces(client).await
}

async fn everywhere(client: &Client, kind: &ApiResource) -> anyhow::Result<()> {
    let all = Api::<DynamicObject>::all_with(client.clone(), kind);
    let found = match all.list(&ListParams::default()).await {
        // Its definition is not installed.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        found => found.with_context(|| kind.plural.clone())?,
    };
    let mut places: Vec<_> = found.items.iter().map(ResourceExt::namespace).collect();
    places.sort();
    places.dedup();
    for place in places {
        match place {
            Some(namespace) => empty(client, kind, &namespace, |_| true).await?,
            None => remove(&all, |_| true).await?,
        }
    }
    Ok(())
}

async fn empty(
    client: &Client,
    kind: &ApiResource,
    namespace: &str,
    which: impl Fn(&DynamicObject) -> bool,
) -> anyhow::Result<()> {
    remove(&Api::namespaced_with(client.clone(), namespace, kind), which).await
}

/// Deletes objects and waits until they are gone. Whoever put a finalizer there is gone.
async fn remove(api: &Api<DynamicObject>, which: impl Fn(&DynamicObject) -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = api.list(&ListParams::default()).await?;
        let left: Vec<&DynamicObject> = found.items.iter().filter(|object| which(object)).collect();
        let Some(first) = left.first() else { return Ok(()) };
        anyhow::ensure!(Instant::now() < deadline, "{} does not go", first.name_any());
        for object in left {
            let name = object.name_any();
            if !object.finalizers().is_empty() {
                let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                gone(api.patch(&name, &PatchParams::default(), &patch).await.map(drop))?;
            }
            let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
            gone(api.delete(&name, &at_once).await.map(drop))?;
        }
        sleep(POLL).await;
    }
}

/// Gone already is as good.
fn gone(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other,
    }
}

/// Namespaces that somebody made beside the sandbox's.
async fn namespaces(client: &Client) -> anyhow::Result<()> {
    let api = Api::<Namespace>::all(client.clone());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = api.list(&ListParams::default()).await?;
        let foreign = |name: &String| !KEPT.contains(&name.as_str()) && !name.starts_with("kube-");
        let left: Vec<String> = all.iter().map(ResourceExt::name_any).filter(foreign).collect();
        let Some(first) = left.first() else { return Ok(()) };
        anyhow::ensure!(
            Instant::now() < deadline,
            "namespace {first} does not go: is there a controller manager?"
        );
        for name in &left {
            gone(api.delete(name, &DeleteParams::default()).await.map(drop))?;
        }
        sleep(POLL).await;
    }
}
