//! From objects to the values that decisions rest on, and from a status to what is written.

use causeway_core::ObjectKey;
use causeway_core::networks::status::READY;
use causeway_core::networks::{Network, NetworkSpec, NetworkStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::network::{LooseNetwork, NetworkSpec as Written, NetworkStatus as Reported};
use super::{ABANDON, ADOPT, ALLOW_REPLACE};
use crate::condition;
use crate::meta::{annotation, created, key};

/// The longest name that a cloud takes. No rule of a definition can see a namespace, so it is told here.
const NAME_MAX: usize = 255;

/// A network, as any definition lets it be: what makes no sense is carried as the sentence that says why. Nothing for an
/// object whose name is none.
pub fn network(object: &LooseNetwork) -> Option<Network> {
    let meta = &object.metadata;
    let key = key(meta)?;
    Some(Network {
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        created: created(meta),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        abandon: annotation(meta, ABANDON) == Some("true"),
        adopt: annotation(meta, ADOPT).filter(|id| is_id(id)).map(Into::into),
        may_replace: annotation(meta, ALLOW_REPLACE) == Some("true"),
        spec: named(&key).and_then(|()| adoptable(meta)).and_then(|()| spec(&object.spec)),
        status: status(&object.status()),
        key,
    })
}

/// What a cloud may call a network: short, and nothing that a line of a log could not hold.
fn is_id(text: &str) -> bool {
    text.len() <= NAME_MAX && text.chars().all(|it| it.is_ascii_graphic())
}

fn adoptable(meta: &ObjectMeta) -> Result<(), String> {
    match annotation(meta, ADOPT) {
        Some(text) if !is_id(text) => Err(format!(
            "annotation {ADOPT} is not the id of a network: use at most {NAME_MAX} visible characters"
        )),
        _ => Ok(()),
    }
}

fn named(key: &ObjectKey) -> Result<(), String> {
    let name = key.to_string();
    if name.len() <= NAME_MAX {
        return Ok(());
    }
    let length = name.len();
    Err(format!(
        "namespace and name have {length} characters together with the slash between them, and the name of a cloud's network at most {NAME_MAX}"
    ))
}

fn spec(fields: &Value) -> Result<NetworkSpec, String> {
    let written = Written::deserialize(fields).map_err(|why| unreadable(&why.to_string()))?;
    NetworkSpec::parse(&written.cidr, written.gateway.as_deref()).map_err(|why| why.to_string())
}

/// Only so much of it: what was found in the place of a field may be of any length, and a condition's message may not.
fn unreadable(why: &str) -> String {
    const ENOUGH: usize = 256;
    format!("the object cannot be read: {}", &why[..why.floor_char_boundary(ENOUGH)])
}

fn status(status: &Reported) -> NetworkStatus {
    NetworkStatus {
        provider: status.provider.clone(),
        network_id: status.network_id.clone(),
        subnet_id: status.subnet_id.clone(),
        cidr: status.cidr.clone(),
        gateway: status.gateway.clone(),
        synced: status.last_sync_time.as_ref().map(|time| time.0.as_second()),
        observed_generation: status.observed_generation,
        conditions: condition::read(&status.conditions),
    }
}

/// A status as it is patched at `now`; in a merge patch null takes a field away. One that is ready and does not say since
/// when was made so with this write.
pub fn body(status: &NetworkStatus, now: Timestamp) -> Value {
    let synced = match status.synced {
        Some(at) => Timestamp::from_second(at).ok(),
        None => status.conditions.is_true(READY).then_some(now),
    };
    json!({
        "provider": status.provider,
        "networkId": status.network_id,
        "subnetId": status.subnet_id,
        "cidr": status.cidr,
        "gateway": status.gateway,
        "lastSyncTime": synced.map(Time),
        "observedGeneration": status.observed_generation,
        "conditions": condition::written(&status.conditions, now),
    })
}
