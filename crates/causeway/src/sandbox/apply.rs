//! Puts objects into a cluster: created, or merged into what is there.
//!
//! An object's `status` is written too, as the part of the cluster that we play would.

use std::sync::LazyLock;

use anyhow::{Context, bail};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// Adds a reason to what a server answered, in one line.
fn named(value: &Value) -> String {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or("?").to_owned();
    let name = text("/metadata/name");
    match value.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => format!("{} {namespace}/{name}", text("/kind")),
        None => format!("{} {name}", text("/kind")),
    }
}

/// Applies many objects at once; none may need another to exist first.
pub(super) async fn all(client: &Client, objects: Vec<Value>) -> anyhow::Result<()> {
    try_join_all(objects.into_iter().map(|object| one(client, object))).await.map(drop)
}

/// Applies one object.
pub(super) async fn one(client: &Client, object: Value) -> anyhow::Result<DynamicObject> {
    let what = named(&object);
    put(client, object).await.with_context(|| format!("cannot apply {what}"))
}

async fn put(client: &Client, object: Value) -> anyhow::Result<DynamicObject> {
    let (api, name) = find(client, &object).await?;
    let typed: DynamicObject = serde_json::from_value(object.clone())?;
    let mut put = match api.create(&PostParams::default(), &typed).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&object)).await?
        }
        created => created?,
    };
    if let Some(status) = object.get("status") {
        let patch = Patch::Merge(json!({"status": status}));
        match api.patch_status(&name, &PatchParams::default(), &patch).await {
            // Without the subresource the status came with the object itself.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            patched => put = patched?,
        }
    }
    Ok(put)
}

/// The API that serves an object's kind, in the object's namespace.
async fn find(client: &Client, object: &Value) -> anyhow::Result<(Api<DynamicObject>, String)> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (Some(version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
        bail!("apiVersion and kind are needed");
    };
    let name = text("/metadata/name").context("metadata.name is needed")?.to_owned();
    let (resource, namespaced) = match known(version, kind) {
        Some(known) => known.clone(),
        None => discover(client, version, kind).await?,
    };
    if !namespaced {
        return Ok((Api::all_with(client.clone(), &resource), name));
    }
    let namespace = text("/metadata/namespace").unwrap_or("default");
    Ok((Api::namespaced_with(client.clone(), namespace, &resource), name))
}

/// A kind, and whether its objects live in namespaces.
pub(super) type Kind = (ApiResource, bool);

async fn discover(client: &Client, version: &str, kind: &str) -> anyhow::Result<Kind> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk).await?;
    Ok((resource, capabilities.scope == Scope::Namespaced))
}

/// The sandbox's own objects are of kinds known beforehand: no need to ask the server for each.
fn known(version: &str, kind: &str) -> Option<&'static Kind> {
    static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        let built_in = [
            (ApiResource::erase::<Namespace>(&()), false),
            (ApiResource::erase::<Node>(&()), false),
            (ApiResource::erase::<StatefulSet>(&()), true),
            (ApiResource::erase::<Lease>(&()), true),
        ];
        let defined = causeway_api::vpc::crds().into_iter().chain(causeway_api::vpc::foreign::crds());
        built_in.into_iter().chain(defined.flat_map(|crd| kinds_of(&crd))).collect()
    });
    KINDS.iter().find(|(resource, _)| resource.api_version == version && resource.kind == kind)
}

/// The kinds, one per version, that a definition defines.
pub(super) fn kinds_of(crd: &CustomResourceDefinition) -> Vec<Kind> {
    let (spec, namespaced) = (&crd.spec, crd.spec.scope == "Namespaced");
    let kind = |version: &str| {
        let gvk = GroupVersionKind::gvk(&spec.group, version, &spec.names.kind);
        (ApiResource::from_gvk_with_plural(&gvk, &spec.names.plural), namespaced)
    };
    spec.versions.iter().map(|version| kind(&version.name)).collect()
}

/// Installs CRDs, or brings those up to date that an earlier sandbox installed, and waits until they are served.
pub(super) async fn crds(client: &Client, crds: Vec<CustomResourceDefinition>) -> anyhow::Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let install = |crd: CustomResourceDefinition| {
        let api = api.clone();
        async move {
            let name = crd.name_any();
            let what = || format!("CRD {name}");
            let made = match api.create(&PostParams::default(), &crd).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    let patch = Patch::Merge(json!({"spec": crd.spec}));
                    api.patch(&name, &PatchParams::default(), &patch).await
                }
                made => made,
            };
            let made = made.with_context(what)?;
            let established = conditions::is_crd_established();
            if !established.matches_object(Some(&made)) {
                await_condition(api, &name, established).await.with_context(what)?;
            }
            anyhow::Ok(())
        }
    };
    try_join_all(crds.into_iter().map(install)).await.map(drop)
}
