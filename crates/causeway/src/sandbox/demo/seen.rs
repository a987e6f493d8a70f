//! When an object was seen to say something.

use std::fmt::Debug;
use std::time::Instant;

use causeway_api::vpc::{GatewayExIp, VpcNatTunnel};
use kube::runtime::wait::await_condition;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::super::addresses::{Gateway, SYSTEM, WORKLOADS};
use super::super::site::Site;

/// Waits until an object says something, and gives the moment.
pub(super) async fn when<K>(api: Api<K>, name: &str, says: impl Fn(&K) -> bool) -> anyhow::Result<Instant>
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    await_condition(api, name, |object: Option<&K>| object.is_some_and(&says)).await?;
    Ok(Instant::now())
}

/// The records of a cluster.
pub(super) fn records(site: &Site) -> Api<GatewayExIp> {
    Api::namespaced(site.client.clone(), SYSTEM)
}

/// The tunnels of a cluster.
pub(super) fn tunnels(site: &Site) -> Api<VpcNatTunnel> {
    Api::namespaced(site.client.clone(), WORKLOADS)
}

/// Whether a record is about a gateway.
pub(super) fn names(record: &GatewayExIp, gateway: Gateway) -> bool {
    record.labels().get("localGateway").is_some_and(|name| name == gateway.name())
}

/// Whether a tunnel says that it is up and goes through a gateway.
pub(super) fn is_up_on(tunnel: &VpcNatTunnel, gateway: Gateway) -> bool {
    let its = tunnel.status.as_ref().and_then(|status| status.local_gw.as_deref());
    its == Some(gateway.name()) && condition(tunnel, "Ready").is_some_and(|(status, _)| status == "True")
}

/// Whether a tunnel's other end is at an address.
pub(super) fn leads_to(tunnel: &VpcNatTunnel, address: &str) -> bool {
    tunnel.status.as_ref().and_then(|status| status.remote_ip.as_deref()) == Some(address)
}

/// The status and the message of a condition.
pub(super) fn condition<'a>(tunnel: &'a VpcNatTunnel, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut all = tunnel.status.iter().flat_map(|status| &status.conditions);
    let found = all.find(|condition| condition.type_ == kind)?;
    Some((&found.status, &found.message))
}
